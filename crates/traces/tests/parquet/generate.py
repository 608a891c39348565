"""Writes the files beside it: requests whose columns Zstandard compresses, by polars and, with pages of version 2, by pyarrow; and requests
with further columns, of lists, structures and numbers in a compression that is not read, by pyarrow.

    pip install polars pyarrow && python generate.py
"""

import polars
import pyarrow.parquet

ROWS = 1500
frame = polars.DataFrame(
    {
        "device": ["8,0" if n % 3 else "8,16" for n in range(ROWS)],
        "at_ns": [n * 1000 + n * n % 700 for n in range(ROWS)],
        "latency_ns": [None if n % 7 == 0 else 50_000 + n * n % 9_000 for n in range(ROWS)],
        "op": [n % 2 for n in range(ROWS)],
        "offset": [n * n % 99_991 * 512 for n in range(ROWS)],
        "bytes": [512 * (1 + n % 8) for n in range(ROWS)],
    },
    schema_overrides={"op": polars.Int32},
)
frame.write_parquet("zstd-polars.parquet", compression="zstd", statistics=False)
table = frame.to_arrow()
table = table.set_column(0, "device", table.column(0).cast("string"))
pyarrow.parquet.write_table(table, "zstd-pyarrow.parquet", compression="zstd", data_page_version="2.0", row_group_size=600)

few = table.select(["at_ns", "op", "offset", "bytes"]).slice(0, 20)
inner = [{"bytes": "a", "at_ns": [1.5, n]} for n in range(20)]
few = few.append_column("more", pyarrow.array([[one] * (n % 3) for n, one in enumerate(inner)])).append_column("one", pyarrow.array(inner))
few = few.append_column("far", pyarrow.array(range(20)))
few = few.append_column("large", pyarrow.array([4_000_000_000 + n for n in range(20)], "uint32"))
few = few.append_column("short", pyarrow.array([n / 4 for n in range(20)], "float32"))
compression = {name: "none" for name in ("at_ns", "op", "offset", "bytes", "large", "short")} | {"far": "brotli"}
pyarrow.parquet.write_table(few, "other-columns.parquet", compression=compression)
