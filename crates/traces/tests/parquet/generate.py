"""Writes the files beside it: requests whose columns Zstandard compresses, by polars and, with pages of version 2, by pyarrow.

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
