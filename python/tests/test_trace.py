import concurrent.futures
import copy
import gc
import multiprocessing
import pickle

import numpy
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest

import dwell


def results(trace):
    return dwell.compare(trace, ["noop", "stream"]).runs


def made(columns, **changes):
    changed = {**columns, **changes}
    return dwell.Trace.from_columns(**{key: value for key, value in changed.items() if value is not None}, time_unit="ns")


def test_all_libraries_give_the_same_recording(columns):
    expected = results(made(columns))
    frame = pandas.DataFrame(columns)
    table = pyarrow.table(columns)
    chunked = pyarrow.concat_tables([table.slice(0, 37), table.slice(37)])
    dictionary = table.set_column(3, "op", table["op"].dictionary_encode())
    for source in [table, chunked, dictionary, frame, polars.DataFrame(columns), table.to_pandas(types_mapper=pandas.ArrowDtype)]:
        assert results(dwell.Trace.from_table(source, time_unit="ns")) == expected, type(source)
    as_arrow = {name: pyarrow.array(values) for name, values in columns.items()}
    as_polars = {name: polars.Series(values) for name, values in columns.items()}
    as_lists = {name: values.tolist() for name, values in columns.items()}
    as_series = dict(frame.items())
    for source in [as_arrow, as_polars, as_lists, as_series]:
        assert results(made(source)) == expected


def test_optional_columns_without_any_value(columns):
    expected = results(made(columns, process=None))
    for nothing in [pyarrow.nulls(400), pandas.Series([None] * 400), polars.Series([None] * 400), [None] * 400]:
        assert results(made(columns, process=nothing)) == expected, type(nothing)
    with pytest.raises(dwell.InputError, match="row 1, column 'bytes': there is no value"):
        results(made(columns, bytes=pyarrow.nulls(400)))


def test_requests_that_are_not_in_whole_sectors(columns):
    offset = columns["offset"].copy()
    offset[[7, 9]] += 1
    note = "2 not whole sectors, rounded outwards where sectors are needed (first: row 8)"
    assert any(note in line for line in dwell.compare(made(columns, offset=offset), "noop").notes)
    assert not any("sectors" in line for line in dwell.compare(made(columns), "noop").notes)


def test_a_message_has_the_start_of_a_long_value(columns):
    with pytest.raises(TypeError, match="text or a path") as raised:
        dwell.compare(made(columns), "noop", drive=b"x" * 100_000)
    assert "b'xxxx" in str(raised.value) and len(str(raised.value)) < 200


@pytest.mark.parametrize("dtype", ["u4", "f8", "i8", ">i8", "u8"])
def test_number_types(columns, dtype):
    offset = columns["offset"] // 512 * 512
    offset = offset.astype("f8" if dtype == "f8" else "i8")
    assert results(made(columns, bytes=columns["bytes"].astype(dtype), offset=offset)) == results(made(columns))


def test_times_and_operations(columns):
    expected = results(made(columns))
    assert results(made(columns, time=columns["time"].astype("M8[ns]"), completed=columns["completed"].astype("M8[ns]"))) == expected
    seconds = dwell.Trace.from_columns(**{**columns, "time": columns["time"] / 1e9, "completed": columns["completed"] / 1e9})
    assert results(seconds) == expected
    for op in [numpy.zeros(400, "u1"), numpy.zeros(400, bool), numpy.full(400, b"R"), numpy.full(400, "Read", object)]:
        assert results(made(columns, op=op)) == expected


def test_columns_are_read_in_place(columns):
    """The recording is read at the first comparison: a change before that is seen, so there is no copy."""
    table = numpy.zeros(400, dtype=[(name, values.dtype) for name, values in columns.items()])
    for name, values in columns.items():
        table[name] = values
    views = {name: table[name] for name in columns}  # With strides.
    assert views["time"].strides != (8,)
    trace, arrow = made(views), made({name: pyarrow.array(values) for name, values in columns.items()})
    expected = results(arrow)
    table["offset"][100] = 300_000_000_000 // 512 * 512
    changed = results(trace)
    assert changed != expected
    table["offset"][100] = columns["offset"][100]
    assert results(made(views)) == expected
    # Once read, the workload is kept.
    assert results(trace) == changed


def test_arrow_buffers_are_read_in_place(columns):
    """A change of the memory before the first comparison is seen."""
    memory = {name: values.copy() for name, values in columns.items() if name != "op"}
    arrow = {name: pyarrow.Array.from_buffers(pyarrow.int64(), 400, [None, pyarrow.py_buffer(values)]) for name, values in memory.items()}
    trace, unchanged = made({**columns, **arrow}), results(made(columns))
    memory["offset"][100] = 300_000_000_000 // 512 * 512
    assert results(trace) != unchanged and results(trace) == results(made({**columns, **memory}))


def test_arrow_buffers_are_not_copied(columns):
    large = pyarrow.table({name: numpy.zeros(100_000, values.dtype) for name, values in columns.items()})
    before = pyarrow.total_allocated_bytes()
    trace = dwell.Trace.from_table(large, time_unit="ns")
    assert len(trace) == 100_000 and pyarrow.total_allocated_bytes() - before < 8 * 100_000, "less than one column"
    table = pyarrow.table(columns)
    trace = dwell.Trace.from_table(table, time_unit="ns")
    del table
    gc.collect()
    assert len(trace) == 400 and results(trace) == results(made(columns)), "the trace keeps the memory"


def test_nulls(columns):
    completed = pyarrow.array(columns["completed"], mask=numpy.arange(400) % 7 == 0)
    process = pyarrow.array(columns["process"], mask=numpy.arange(400) == 399)
    assert results(made(columns, completed=completed, process=process))[0]["requests"] == 400
    with pytest.raises(dwell.InputError, match="columns, row 4, column 'time': there is no value"):
        results(made(columns, time=pyarrow.array(columns["time"], mask=numpy.arange(400) == 3)))


def test_the_extent_of_a_flush_is_ignored_with_a_note(columns):
    op = numpy.full(400, "R", "U3")
    op[[3, 5, 8, 13]] = ["F", "F", "FWS", "F"]
    offset, length = columns["offset"].copy(), columns["bytes"].copy()
    offset[[3, 5, 8, 13]] = length[[3, 5, 8, 13]] = 0
    plain = dwell.compare(made(columns, op=op, offset=offset, bytes=length), "noop")
    assert not any("flushes" in note for note in plain.notes)
    offset[5], offset[8], length[13] = 4096, 2**60, 512
    result = dwell.compare(made(columns, op=op, offset=offset, bytes=length), "noop")
    assert result.runs == plain.runs
    note = "columns: 3 flushes with offset, length or preflush flag, read without them (first: row 6)"
    assert [line for line in result.notes if "flushes" in line] == [note]


def test_without_completions_a_recording_is_replayed_by_time(columns):
    result = dwell.compare(made(columns, completed=None, process=None), ["noop"])
    assert result.by_time and any("by time stamps" in note for note in result.notes)


def test_with_some_completions_a_recording_is_replayed_in_loops(columns, tmp_path):
    """Whether it is read from columns or from a file."""
    completed = columns["completed"].astype(float)
    completed[:20] = numpy.nan
    lines = [f"{n * 9_000_000} {'-' if n < 20 else 5_000_000} 8,0 R {n << 20} 4096 - 1 p\n" for n in range(400)]
    (tmp_path / "some.dwell").write_text("# dwell recording 1\n" + "".join(lines))
    for trace in (made(columns, completed=completed), tmp_path / "some.dwell"):
        result = dwell.compare(trace, ["noop", "deadline"])
        assert any("20 of 400 requests have no completion" in note for note in result.notes), result.notes
        assert not result.by_time and result.best == max(result.runs, key=lambda row: row["mb_per_s"])["scheduler"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"bytes": numpy.zeros(400, int)}, "row 1, column 'bytes': only a flush may have no length"),
        ({"bytes": numpy.full(400, -1)}, "row 1, column 'bytes': -1 is not from 0"),
        ({"bytes": numpy.full(399, 512)}, "column 'bytes' has 399 rows, and 'time' has 400"),
        ({"bytes": numpy.full((400, 1), 512)}, "column 'bytes' has 2 dimensions"),
        ({"bytes": numpy.full(400, 512.5)}, "512.5 is no whole number"),
        ({"bytes": numpy.full(400, 1j)}, "NumPy type '<c16'"),
        ({"bytes": numpy.full(400, "4k")}, "text is no number"),
        ({"offset": numpy.full(400, 2**62)}, "beyond the drive's end at 500107862016"),
        ({"offset": numpy.full(400, 2**64 - 1, "u8")}, "4096 bytes at offset 18446744073709551615 end beyond the drive's end at"),
        ({"time": numpy.full(400, -1)}, "row 1, column 'time': -1 in units of 1 ns is not from 0 to 2^64 - 1 ns (584 years)"),
        ({"time": numpy.full(400, 1e20)}, "column 'time': 100000000000000000000 in units of 1 ns is not from 0 to 2^64 - 1 ns"),
        ({"time": numpy.full(400, "2020-01-01", "M8[D]")}, "type '<M8[D]'; times in s, ms, us and ns are read: convert it with .astype('M8[ns]')"),
        ({"time": numpy.full(400, 1, "m8[h]")}, "convert it with .astype('m8[ns]')"),
        ({"time": pyarrow.array([18_000] * 400, pyarrow.date32())}, "column 'time' has the Arrow type 'tdD'; of times, time stamps and durations are read"),
        ({"time": numpy.arange(400)[::-1]}, "row 2, column 'time': earlier than the row before; sort the rows by time"),
        ({"time": numpy.full(400, numpy.nan)}, "row 1, column 'time': there is no value"),
        ({"time": numpy.full(400, "now")}, "text is no time"),
        ({"op": numpy.full(400, "erase")}, "row 1, column 'op': 'erase' is not an operation; use read, write"),
        ({"op": numpy.full(400, "rewind")}, "'rewind' is not an operation"),
        ({"op": numpy.full(400, "wait")}, "'wait' is not an operation"),
        ({"op": numpy.full(400, 4)}, "4 is not an operation"),
        ({"op": pyarrow.array(["read"] * 399 + [None])}, "row 400, column 'op': there is no value"),
        ({"op": pyarrow.array(["a text that is long"] * 400)}, "is not an operation"),
        ({"bytes": numpy.ma.masked_equal(numpy.r_[[512] * 7, 0, [512] * 392], 0)}, "row 8, column 'bytes': there is no value (masked)"),
        ({"time": numpy.array(["NaT"] * 400, "M8[ns]")}, "row 1, column 'time': there is no value"),
        ({"op": pyarrow.array([[1]] * 400)}, "column 'op' has the Arrow type"),
        ({"op": pyarrow.array(["", "read"] * 200)}, "is not an operation"),
        ({"process": numpy.full(400, -1)}, "column 'process': -1 is not from 0 to 2^32 - 1"),
        ({"process": numpy.full(400, 2**40)}, "column 'process': 1099511627776 is not from 0 to 2^32 - 1"),
        ({"completed": numpy.zeros(400)}, "row 2, column 'completed': earlier than 'time'"),
    ],
)
def test_wrong_columns(columns, changes, expected):
    with pytest.raises(dwell.InputError) as caught:
        results(made(columns, **changes))
    assert expected in str(caught.value)


def test_the_unit_of_a_time_beyond_the_limit_is_named(columns):
    for time in (columns["time"] + 10**12, columns["time"] + 1e12):
        with pytest.raises(dwell.InputError, match=r"row 1, column 'time': 1000000000000 in units of 1(\.\d+)? s is not from 0 to 2\^64 - 1 ns"):
            results(dwell.Trace.from_columns(**{**columns, "time": time}, time_unit="s"))


def test_columns_of_objects(columns):
    expected = results(made(columns))
    assert results(made({name: values.astype(object) for name, values in columns.items()})) == expected
    assert results(dwell.Trace.from_table(pandas.DataFrame(columns).astype(object), time_unit="ns")) == expected
    numbers = columns["bytes"].tolist()
    for values in [[*numbers[:-1], "x"], numpy.array([*numbers[:-1], "x"], dtype=object)]:
        with pytest.raises(dwell.InputError, match=f"row {len(numbers)}, column 'bytes': text is no number"):
            made(columns, bytes=values)
    with pytest.raises(dwell.InputError, match="row 1, column 'bytes': there is no value"):
        made(columns, bytes=[None, *numbers[1:]])
    without = [None, *columns["process"].tolist()[1:]]
    assert len(made(columns, process=without)) == len(numbers)


def test_tables_of_other_types(columns):
    few = {name: columns[name] for name in ("time", "offset", "bytes", "op")}
    assert results(dwell.Trace.from_table(few, time_unit="ns")) == results(dwell.Trace.from_columns(**few, time_unit="ns"))
    with pytest.raises(dwell.InputError, match=r"pass its collect\(\)"):
        dwell.Trace.from_table(polars.DataFrame(columns).lazy())


def test_operations_in_words_and_letters(columns):
    words = numpy.resize(["read", "Write", "R", "w"], 400)
    letters = numpy.resize(["R", "W", "R", "W"], 400)
    assert results(made(columns, op=words)) == results(made(columns, op=numpy.resize([0, 1], 400)))
    assert results(made(columns, op=letters, process=None)) == results(made(columns, op=numpy.resize([0, 1], 400), process=None))
    assert results(made(columns, op=numpy.resize(["RA", "WS", "FWFSM", "D"], 400)))[0]


def test_masked_and_missing_values_of_optional_columns(columns):
    missing = numpy.arange(400) % 5 == 0
    process = columns["process"]
    expected = results(made(columns, process=pyarrow.array(process, mask=missing)))
    assert results(made(columns, process=numpy.ma.masked_array(process, missing))) == expected
    assert results(made(columns, process=numpy.where(missing, numpy.nan, process))) == expected
    assert results(made(columns, process=numpy.ma.masked_array(process, False))) == results(made(columns))


def test_wrong_types_in_parquet(columns, tmp_path):
    table = {"at_ns": columns["time"], "op": numpy.zeros(400, "i4"), "offset": columns["offset"], "bytes": columns["bytes"]}
    path = tmp_path / "recording.parquet"
    for column, values, expected in [
        ("offset", numpy.zeros(400), "column 'offset' has the type DOUBLE; expected a whole number, INT32 or INT64"),
        ("op", ["read"] * 400, "column 'op' has the type BYTE_ARRAY"),
        ("at_ns", pyarrow.array([0] * 400, pyarrow.timestamp("us")), "column 'at_ns' has the type INT64, a time stamp in microseconds; expected a whole number of nanoseconds"),
    ]:
        pyarrow.parquet.write_table(pyarrow.table({**table, column: values}), path)
        with pytest.raises(dwell.InputError, match=expected):
            dwell.compare(str(path), ["noop"])


def test_wrong_tables(columns):
    table = pyarrow.table(columns)
    with pytest.raises(dwell.InputError, match="no column 'lba' for 'offset'; the table has time, offset"):
        dwell.Trace.from_table(table, {"offset": "lba"})
    with pytest.raises(dwell.InputError, match="no column 'lba'"):
        dwell.Trace.from_table(table.to_pandas(), {"offset": "lba"})
    with pytest.raises(dwell.InputError, match="'ofset' is no field"):
        dwell.Trace.from_table(table, {"ofset": "offset"})
    with pytest.raises(dwell.InputError, match="the column 'bytes' is missing"):
        dwell.Trace.from_table(table.drop_columns(["bytes"]))
    with pytest.raises(dwell.InputError, match="there is no request in it"):
        dwell.Trace.from_table(table.slice(0, 0).combine_chunks())
    with pytest.raises(dwell.InputError, match="time_unit='h' is none of ns"):
        dwell.Trace.from_table(table, time_unit="h")


def test_a_file_is_described_and_kept(tmp_path):
    path = tmp_path / "io.csv"
    path.write_text("128166372003061629,hm,0,Read,8192,4096,100\n128166372003071629,hm,0,Write,16384,4096,100\n")
    trace = dwell.Trace(path)
    assert "2 requests" in trace.describe() and trace.name == str(path)
    path.unlink()
    assert dwell.compare(trace, "noop").runs[0]["requests"] == 2
    with pytest.raises(TypeError, match="length of"):
        len(trace)


def of_another_process(trace):
    return results(trace)


def test_a_trace_is_passed_to_other_processes(columns, tmp_path):
    path = tmp_path / "io.csv"
    path.write_text("128166372003061629,hm,0,Read,8192,4096,100\n128166372003071629,hm,0,Write,16384,4096,100\n")
    table = pyarrow.table(columns)
    traces = [
        dwell.Trace(path, format="msr", strict=True),
        dwell.Trace("par-read{processes=2}"),
        made(columns),
        made({name: list(values) for name, values in columns.items()}),
        dwell.Trace.from_table(table, time_unit="ns", name="a table"),
        dwell.Trace.from_table(polars.DataFrame(columns), time_unit="ns"),
        dwell.Trace.from_table(pandas.DataFrame(columns), time_unit="ns"),
    ]
    expected = [results(trace) for trace in traces]
    passed = [pickle.loads(pickle.dumps(trace)) for trace in traces]
    assert [trace.name for trace in passed] == [trace.name for trace in traces]
    assert [results(trace) for trace in passed] == expected
    assert results(copy.deepcopy(traces[4])) == expected[4]
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(of_another_process, traces)) == expected
    with pytest.raises(TypeError, match="table: a stream gives its rows once; make a table of it"):
        pickle.dumps(dwell.Trace.from_table(table.to_reader(), time_unit="ns"))


def test_a_trace_of_a_relative_path_is_passed_on_from_another_directory(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("".join(f"0,R,{n * 4096},4096,{n * 1000}\n" for n in range(50)))
    monkeypatch.chdir(tmp_path)
    trace = dwell.Trace("a.csv", format="alibaba")
    expected = results(trace)
    assert pickle.loads(pickle.dumps(trace)).name == "a.csv"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    passed = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(trace))))
    assert passed.name == str(tmp_path / "a.csv")
    assert results(passed) == expected


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "lz4", "zstd", "brotli"])
def test_parquet_of_other_programs(columns, tmp_path, compression):
    at = columns["time"]
    table = pyarrow.table({
        "at_ns": at,
        "latency_ns": columns["completed"] - at,
        "op": numpy.zeros(len(at), "i8").astype("i4"),
        "offset": columns["offset"],
        "bytes": columns["bytes"],
        "process": columns["process"],
    })
    path = tmp_path / "recording.parquet"
    pyarrow.parquet.write_table(table, path, compression=compression)
    if compression == "brotli":
        with pytest.raises(dwell.Error, match="compressed by BROTLI.*write the file with Zstandard"):
            dwell.compare(str(path), ["noop"])
    else:
        found = dwell.compare(str(path), ["noop", "stream"]).runs
        expected = results(made(columns))
        for one, other in zip(found, expected):
            assert one["elapsed_ns"] == other["elapsed_ns"]


def test_a_stream_of_batches_may_lack_optional_columns(columns):
    needed = pyarrow.table({name: columns[name] for name in ("time", "offset", "bytes", "op", "completed")})
    expected = results(dwell.Trace.from_table(needed, time_unit="ns"))
    assert results(dwell.Trace.from_table(needed.to_reader(), time_unit="ns")) == expected
    with pytest.raises(dwell.InputError, match="no column 'process' for 'process'"):
        dwell.Trace.from_table(needed.to_reader(), {"process": "process"}, time_unit="ns")
    with pytest.raises(dwell.InputError, match="no column 'op' for 'op'"):
        dwell.Trace.from_table(needed.drop_columns(["op"]).to_reader(), time_unit="ns")


@pytest.mark.parametrize(
    ("call", "error", "expected"),
    [
        (lambda table: dwell.Trace(3), TypeError, "trace is int 3; it is text or a path"),
        (lambda table: dwell.Trace("a", format=3), TypeError, "format is int 3; it is text"),
        (lambda table: dwell.Trace("a", strict="no"), TypeError, "strict is str 'no'; it is True or False"),
        (lambda table: dwell.Trace.from_table(None), TypeError, "table is NoneType; pass a table of pandas"),
        (lambda table: dwell.Trace.from_table(table, ["time"]), TypeError, "columns is list; it is a dictionary"),
        (lambda table: dwell.Trace.from_table(table, {"time": 3}), TypeError, r"columns\['time'\] is int 3; it is text"),
        (lambda table: dwell.Trace.from_table(table, {3: "time"}), TypeError, "a key of columns is int 3; it is text"),
        (lambda table: dwell.Trace.from_table(table, name=3), TypeError, "name is int 3; it is text"),
        (lambda table: dwell.Trace.from_table(table, time_unit="h"), dwell.InputError, "time_unit='h' is none of ns, 100ns"),
        (lambda table: dwell.Trace.from_table(table, time_unit=[]), TypeError, r"time_unit is list \[\]; it is text"),
    ],
)
def test_wrong_arguments_are_named(columns, call, error, expected):
    with pytest.raises(error, match=expected):
        call(columns)


def test_tables_of_other_kinds(columns):
    frame = pandas.DataFrame(columns)
    expected = dwell.compare(dwell.Trace.from_table(columns), ["noop"], "ssd-sata").runs
    reader = pyarrow.Table.from_pandas(frame).to_reader()
    sparse = frame.assign(bytes=pandas.arrays.SparseArray(frame["bytes"]))
    direct = {**columns, "bytes": pandas.arrays.SparseArray(columns["bytes"])}
    for table in (frame.to_records(index=False), frame.to_records(), reader, sparse, direct):
        assert dwell.compare(dwell.Trace.from_table(table), ["noop"], "ssd-sata").runs == expected
    doubled = pandas.concat([frame, frame[["bytes"]]], axis=1)
    arrow = pyarrow.table([pyarrow.array(column) for column in [*columns.values(), columns["bytes"]]], [*columns, "bytes"])
    for table in (doubled, arrow, arrow.to_reader()):
        with pytest.raises(dwell.InputError, match="table: two columns are called 'bytes'; rename one"):
            dwell.Trace.from_table(table)
    with pytest.raises(TypeError, match=r"table is InMemoryDataset; pass its to_table\(\)"):
        dwell.Trace.from_table(pyarrow.dataset.dataset(pyarrow.Table.from_pandas(frame)))


def test_operations_may_be_floats(columns):
    numbers = numpy.arange(len(columns["time"])) % 2
    results = [
        dwell.compare(dwell.Trace.from_table({**columns, "op": op}), ["noop"], "ssd-sata").runs
        for op in (numbers, numbers.astype(float), numbers.astype("f4"))
    ]
    assert results[0] == results[1] == results[2]
    for wrong, expected in [(0.5, "0.5 is not an operation"), (4.0, "4.0 is not an operation"), (1e300, r"1e\+?300 is not an operation"), (float("nan"), "there is no value")]:
        with pytest.raises(dwell.InputError, match=f"row 1, column 'op': {expected}"):
            dwell.compare(dwell.Trace.from_table({**columns, "op": numpy.append(wrong, numbers[1:])}), ["noop"], "ssd-sata")


def test_completions_that_are_missing(columns):
    """Regression: a column without any value counted as completions, and the replay had no times."""
    completed = columns.pop("completed")

    def run(**more):
        return dwell.compare(dwell.Trace.from_columns(**columns, **more), ["noop"], "ssd-sata")

    without = run()
    assert any("without a column 'completed'" in note for note in without.notes)
    for none in (numpy.full(400, numpy.nan), pyarrow.nulls(400, pyarrow.int64()), [None] * 400):
        result = run(completed=none)
        assert result.runs == without.runs
        assert any("without a value in the column 'completed'" in note and "replayed by time stamps" in note for note in result.notes), result.notes
    some = numpy.asarray(completed, float)
    some[3:] = numpy.nan
    assert any("397 of 400 requests have no completion" in note for note in run(completed=some).notes)


def test_a_flush_in_parquet_may_have_no_extent(columns, tmp_path):
    ops = numpy.zeros(400, "i4")
    ops[7] = 3
    zeros = {column: numpy.where(ops == 3, 0, columns[column]) for column in ("offset", "bytes")}
    nulls = {column: pyarrow.array(values, mask=ops == 3) for column, values in zeros.items()}
    for name, extents in [("zeros", zeros), ("nulls", nulls)]:
        pyarrow.parquet.write_table(pyarrow.table({"at_ns": columns["time"], "op": ops, **extents}), tmp_path / f"{name}.parquet")
    with_zeros, with_nulls = (dwell.compare(dwell.Trace(tmp_path / f"{name}.parquet", strict=True), ["noop"], "ssd-sata", open=True).runs for name in ("zeros", "nulls"))
    assert with_zeros[0]["requests"] == with_nulls[0]["requests"] == 400
    assert with_zeros == with_nulls


def test_impossible_values_in_parquet_are_left_out(columns, tmp_path):
    path = tmp_path / "recording.parquet"
    table = {"at_ns": columns["time"], "op": numpy.zeros(400, "i4"), "offset": columns["offset"], "bytes": columns["bytes"]}
    for column, good, bad in [("flags", 31, 32), ("flags", 0, -1), ("priority", 3 * 8192 + 7, 4 * 8192), ("priority", 0, 8192 + 8), ("priority", 8192, -1)]:
        values = numpy.full(400, good, "i4")
        values[7] = bad
        pyarrow.parquet.write_table(pyarrow.table({**table, column: values}), path)
        result = dwell.compare(path, ["noop"], "ssd-sata", open=True)
        assert result.runs[0]["requests"] == 399, (column, bad)
        assert any("1 malformed, left out (first: row 8)" in note for note in result.notes), result.notes
        with pytest.raises(dwell.InputError, match=f"{column}.*expected .*found '{bad}'"):
            dwell.compare(dwell.Trace(path, strict=True), ["noop"], "ssd-sata", open=True)
    doubled = pyarrow.table([pyarrow.array(values) for values in [*table.values(), table["bytes"]]], [*table, "bytes"])
    pyarrow.parquet.write_table(doubled, path)
    with pytest.raises(dwell.InputError, match="has two columns 'bytes'; rename or remove one"):
        dwell.compare(path, ["noop"], "ssd-sata")


def test_objects_that_are_no_numbers_are_named_by_type(columns):
    import datetime
    import decimal

    times = pandas.Series([pandas.Timestamp(1_000_000_000 + n) for n in range(400)], dtype=object)
    with pytest.raises(dwell.InputError, match=r"row 1, column 'time': Timestamp .* is no number; convert the column to numbers, or to numpy's datetime64\[ns\]"):
        made(columns, time=times)
    for value, expected in [(datetime.timedelta(0), "timedelta"), (decimal.Decimal(1), "Decimal")]:
        with pytest.raises(dwell.InputError, match=f"row 1, column 'completed': {expected} .* is no number"):
            made(columns, completed=[value] * 400)


def test_missing_values_among_objects(columns):
    completed = columns["completed"].tolist()
    expected = results(made(columns, completed=[*completed[:-1], None]))
    assert results(made(columns, completed=[*completed[:-1], pandas.NA])) == expected
    for nothing in (None, float("nan"), pandas.NA):
        operations = ["read"] * 399 + [nothing]
        for op in (operations, numpy.array(operations, object), pandas.Series(operations, dtype=object), pandas.Series(operations).astype("category")):
            with pytest.raises(dwell.InputError, match="row 400, column 'op': there is no value"):
                made(columns, op=op)


def test_a_frame_in_place_of_a_column(columns):
    frame = pandas.DataFrame({"offset": columns["offset"]})
    assert results(made(columns, offset=frame)) == results(made(columns))
    with pytest.raises(dwell.InputError, match="column 'offset' is a table of several columns; select one"):
        made(columns, offset=pandas.DataFrame(columns))


def test_times_of_different_clocks(columns):
    stamps = {name: pandas.Series(columns[name]).astype("datetime64[ns]") for name in ("time", "completed")}
    zoned = stamps["completed"].dt.tz_localize("UTC")
    expected = results(made(columns))
    assert results(made(columns, **stamps)) == expected
    assert results(made(columns, time=stamps["time"].dt.tz_localize("UTC"), completed=zoned.dt.tz_convert("Asia/Tokyo"))) == expected
    for completed, kind in [(columns["completed"] / 1e9, "numbers"), (zoned, "time stamps with a zone"), (columns["completed"].astype("m8[ns]"), "durations")]:
        with pytest.raises(dwell.InputError, match=f"row 1, column 'completed': it has {kind} .*, and 'time' has time stamps without a zone .*; convert one"):
            results(made(columns, time=stamps["time"], completed=completed))


def test_arrays_and_indexes_of_pandas_are_read_as_series():
    rows = 5
    columns = {"time": [0.001 * row for row in range(rows)], "offset": [4096 * row for row in range(rows)], "bytes": [4096] * rows, "op": ["r"] * rows}
    stamps = pandas.date_range("2024-01-01", periods=rows, freq="ms", tz="UTC")
    for field, column in [
        ("op", pandas.Categorical(["read"] * rows)),
        ("op", pandas.array(["read"] * rows)),
        ("op", pandas.Index(["read"] * rows)),
        ("op", pandas.Series(["read"] * rows, dtype=object).array),
        ("offset", pandas.RangeIndex(0, 4096 * rows, 4096)),
        ("time", stamps.array),
    ]:
        assert len(dwell.Trace.from_columns(**{**columns, field: column})) == rows, type(column)
    with pytest.raises(dwell.InputError, match="column 'offset' is an index of several levels; select one"):
        dwell.Trace.from_columns(**{**columns, "offset": pandas.MultiIndex.from_product([range(rows), [1]])})
    with pytest.raises(dwell.InputError, match="row 1, column 'time': Period .* is no number"):
        dwell.Trace.from_columns(**{**columns, "time": pandas.period_range("2024-01-01", periods=rows, freq="s").array})
