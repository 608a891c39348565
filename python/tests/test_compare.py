import copy
import importlib.util
import json
import os
import pathlib
import pickle
import subprocess
import sys
import sysconfig

import numpy
import polars
import pyarrow
import pytest

import dwell
import fifo

RECORDING = pathlib.Path(__file__).resolve().parents[2] / "recordings" / "two-greps-and-a-copy.ftrace.gz"
PROGRAM = os.environ.get("DWELL_PROGRAM") or pathlib.Path(sysconfig.get_path("scripts")) / "dwell"
SCHEDULERS = ["noop", "mq-deadline", "stream(deadline)"]


def command(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout


def test_the_wheel_contains_the_command():
    assert dwell.__version__ in command("--version")


def test_results_equal_those_of_the_command():
    named = [part for name in SCHEDULERS for part in ("-s", name)]
    printed = json.loads(command("compare", str(RECORDING), *named, "--json", "--quiet"))
    by_name = {run["scheduler"]: run for run in printed["runs"]}
    result = dwell.compare(RECORDING, SCHEDULERS)
    assert [row["scheduler"] for row in result.runs] == ["noop", "mq-deadline-6.18", "stream(deadline-2.6.32)"]
    for run in json.loads(result.to_json())["runs"]:
        expected = by_name[run["scheduler"]]
        assert {key: run[key] for key in expected} == expected
    assert result.best == max(result.runs, key=lambda row: row["mb_per_s"])["scheduler"]


def test_tables():
    result = dwell.compare("par-read", ["noop", "stream"], at_most="500ms")
    arrow, pandas, polars = result.to_arrow(), result.to_pandas(), result.to_polars()
    assert arrow.column_names == list(pandas.columns) == polars.columns
    assert arrow.num_rows == len(pandas) == len(polars) == 2
    assert arrow["mb_per_s"].to_pylist() == list(pandas["mb_per_s"]) == list(polars["mb_per_s"])
    assert set(result.to_pandas("processes")["scheduler"]) == {"noop", "stream(deadline-2.6.32)"}
    assert result.to_polars("distribution")["share"].max() == pytest.approx(1)
    with pytest.raises(dwell.InputError, match="table='run' is none of runs, processes, distribution"):
        result.to_arrow("run")


def test_a_comparison_can_be_pickled():
    result = dwell.compare("par-read", ["noop", "stream"], at_most="500ms")
    copied = pickle.loads(pickle.dumps(result))
    assert type(copied) is dwell.Comparison and copied.to_json() == result.to_json()
    assert copied.table("processes") == result.table("processes") and copied.best == result.best


def test_tables_have_one_schema(columns):
    def result(op):
        return dwell.compare(dwell.Trace.from_columns(**{**columns, "op": [op] * len(columns["time"])}, time_unit="ns"), ["noop"])

    both = [result("read"), result("write")]
    joined = pyarrow.concat_tables([one.to_arrow() for one in both])
    assert joined.schema.field("write_mean_ns").type == joined.schema.field("read_mean_ns").type == pyarrow.int64()
    assert joined.schema.field("failure").type == pyarrow.string()
    assert polars.concat([one.to_polars() for one in both]).height == 2
    frames = [one.to_pandas() for one in both]
    assert frames[0]["write_mean_ns"].dtype == frames[1]["read_mean_ns"].dtype == "float64"


def test_replays_by_time_that_were_stopped_have_no_rank():
    result = dwell.compare(RECORDING, SCHEDULERS, open=True, at_most="100ms")
    assert all(row["cut"] for row in result.runs) and result.by_time
    assert result.ranked == [] and result.best is None
    assert "noop (cut)" in result._repr_html_() and len(repr(result).splitlines()) == 4
    table = command("compare", str(RECORDING), "--open", "--at-most", "100ms", "-q", "-s", "noop")
    assert "have no rank" in table
    whole = dwell.compare(RECORDING, SCHEDULERS, open=True)
    assert [row["mean_ns"] for row in whole.ranked] == sorted(row["mean_ns"] for row in whole.runs)
    assert whole.best == whole.ranked[0]["scheduler"]
    # Closed loops have a throughput.
    assert len(dwell.compare(RECORDING, SCHEDULERS, at_most="100ms").ranked) == 3


def test_html_and_text():
    result = dwell.compare("par-read", ["noop", "stream"], at_most=0.5)
    page = result._repr_html_()
    assert page.count("<svg") == 2 and "stream(deadline-2.6.32)" in page and "latency of reads" in page
    assert repr(result).splitlines()[1].split()[0] == "stream(deadline-2.6.32)"


def test_machine_replaces_drive_and_queue():
    machine = dwell.Machine(drive=dwell.Drive("wd5000aaks", depth=4), depth=1, identity="hidden")
    for conflict in ({"drive": "ssd-sata"}, {"depth": 2}, {"nr_requests": 3}, {"identity": "same"}):
        with pytest.raises(ValueError, match=f"machine has a {next(iter(conflict))} of its own"):
            dwell.compare("par-read", "noop", machine=machine, **conflict)
    result = dwell.compare("par-read", "stream", machine=machine, at_most=0.5)
    assert result.depth == 1 and "wd5000aaks{depth=4}" in result.drive
    assert dwell.compare("par-read", "noop", dwell.Drive("wd5000aaks", depth=4), at_most=0.5).depth == 4
    array = dwell.Drive("wd5000aaks", array="raid0:5x64k")
    assert array.capacity > 4 * dwell.Drive("wd5000aaks").capacity
    assert dwell.compare("par-read", "noop", array, at_most=0.5).drive.startswith("raid0:5x64k")


def test_drives_are_equal_by_value():
    drive = dwell.Drive("ssd-sata", depth=4, array="raid0:2x64k")
    same = [dwell.Drive("ssd-sata", depth=4, array="raid0:2x64k"), pickle.loads(pickle.dumps(drive)), dwell.Drive(pathlib.Path(drive.name), array=drive.array)]
    assert all(other == drive and hash(other) == hash(drive) for other in same)
    others = [dwell.Drive("ssd-sata", depth=4), dwell.Drive("ssd-sata", depth=8, array="raid0:2x64k"), dwell.Drive("ssd-nvme", array="raid0:2x64k")]
    assert drive not in [*others, drive.name, None]
    assert dwell.Machine(drive) == dwell.Machine(same[0]) != dwell.Machine(others[0]) and len({dwell.Machine(one) for one in [drive, *same]}) == 1


def test_drives_and_schedulers_do_not_change():
    """They are keys, and a Drive's facts follow from its name."""
    for what, names in ((dwell.Drive("ssd-sata", depth=4), ("name", "depth", "array", "notes", "other")), (dwell.Scheduler("noop"), ("name", "needs", "text"))):
        before = (hash(what), repr(what))
        for name in names:
            with pytest.raises(AttributeError, match=f"{name} cannot be assigned: a {type(what).__name__} does not change"):
                setattr(what, name, "x")
        with pytest.raises(AttributeError, match="name cannot be deleted"):
            del what.name
        assert (hash(what), repr(what)) == before
        assert all(copied == what for copied in (copy.copy(what), copy.deepcopy(what), pickle.loads(pickle.dumps(what))))


def test_scheduler():
    scheduler = dwell.Scheduler("stream(deadline)", stream_time_slice="50ms", fifo_batch=8)
    assert str(scheduler) == "stream(deadline-2.6.32{fifo_batch=8}){stream_time_slice=50ms}"
    assert scheduler == dwell.Scheduler(scheduler.name)
    assert any(tunable.name == "fifo_batch" for tunable in dwell.Scheduler("deadline").tunables)
    assert "wd5000aaks" in dwell.Drive.all()
    assert dwell.compare("par-read", [scheduler], at_most=0.1).runs[0]["scheduler"] == scheduler.name


def test_every_listed_scheduler_can_be_compared():
    names = dwell.Scheduler.all()
    result = dwell.compare("par-read", names, at_most="20ms")
    assert len(result.runs) == len(names) > 10 and not any(run["failure"] for run in result.runs)
    array = dwell.Scheduler.all("array")
    assert len(dwell.compare("par-read", array, dwell.Drive(array="raid0:2x64k"), at_most="20ms").runs) == len(array) > 0
    for name in (*array, *dwell.Scheduler.all("script")):
        assert dwell.Scheduler(name).needs in ("array", "script") and name not in names
        with pytest.raises(dwell.InputError):
            dwell.compare("par-read", name, at_most="20ms")
    assert dwell.Scheduler("stream(deadline)").needs is None
    with pytest.raises(dwell.InputError, match="needs='disk' is none of array, script"):
        dwell.Scheduler.all("disk")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"trace": "no-such-file"}, "'no-such-file' is"),
        ({"trace": __file__}, "test_compare.py"),
        ({"trace": pathlib.Path("/")}, "/"),
        ({"trace": "-"}, "standard input"),
        ({"schedulers": ["dedline"]}, "did you mean 'deadline'"),
        ({"schedulers": ["deadline{fifo_batch=none}"]}, "fifo_batch"),
        ({"schedulers": []}, "schedulers is empty"),
        ({"schedulers": ["split-deadline"]}, "system calls"),
        ({"schedulers": ["array-stream(deadline)"]}, "members of an array"),
        ({"drive": "wd5000"}, "no drive is called 'wd5000'"),
        ({"drive": "wd5000aaks{dept=4}"}, "dept"),
        ({"depth": 0}, "depth=0 is not from 1 to 65536"),
        ({"nr_requests": -1}, "nr_requests=-1"),
        ({"at_most": "soon"}, "at_most='soon' is no length of time"),
        ({"at_most": 0}, "at_most=0 is no length of time above 0"),
        ({"at_most": "0.1ns"}, "at_most='0.1ns' is no length of time above 0"),
        ({"identity": "none"}, "identity='none' is none of"),
    ],
)
def test_each_wrong_input_is_one_clear_exception(arguments, expected):
    with pytest.raises(dwell.InputError) as caught:
        dwell.compare(**{"trace": "par-read", "schedulers": ["noop"], "at_most": 0.1, **arguments})
    assert expected in str(caught.value)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, dwell.Error)


def test_wrong_types():
    with pytest.raises(TypeError, match="is no scheduler"):
        dwell.compare("par-read", [3])
    with pytest.raises(TypeError):
        dwell.compare(3)
    with pytest.raises(TypeError, match="machine is int 3; pass a dwell.Machine"):
        dwell.compare("par-read", ["noop"], machine=3)
    with pytest.raises(dwell.InputError, match="array"):
        dwell.Drive("wd5000aaks", array="raid9:2x64k")
    with pytest.raises(dwell.InputError, match="no tunable 'fifo_bach'"):
        dwell.Scheduler("deadline", fifo_bach=3)


WAITING = """
import _thread, threading, dwell
# About ten minutes of simulation, if nothing ends it. The timer is a thread of Python: it runs only if the simulation has released the GIL.
threading.Timer(1.0, _thread.interrupt_main).start()
try:
    dwell.compare("par-read{file_bytes=400000000000,processes=1}", ["noop"] * 4, %s)
except KeyboardInterrupt:
    print("interrupted")
result = dwell.compare("par-read", ["noop"], at_most=0.1)
assert result.runs[0]["requests"] > 0, "a later call is unaffected"
print("again")
"""


@pytest.mark.parametrize("drive", ["'wd5000aaks'"])
def test_keyboard_interrupt_and_the_gil(drive, tmp_path):
    # Elsewhere than in the folder of the sources, which contain no native part.
    ended = subprocess.run([sys.executable, "-c", WAITING % drive], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.stdout.split() == ["interrupted", "again"], ended.stderr


@pytest.mark.parametrize(
    ("arguments", "error", "expected"),
    [
        ({"identity": 3}, TypeError, "identity is int 3; it is text"),
        ({"identity": "z"}, dwell.InputError, "identity='z' is none of shown, hidden, same"),
        ({"drive": 3}, TypeError, "drive is int 3; it is text or a path"),
        ({"open": "no"}, TypeError, "open is str 'no'; it is True or False"),
        ({"at_most": True}, TypeError, "at_most is bool True; it is seconds as a number"),
        ({"at_most": []}, TypeError, r"at_most is list \[\]; it is seconds as a number"),
        ({"depth": True}, TypeError, "depth is bool True; it is a whole number"),
        ({"nr_requests": 0}, dwell.InputError, "nr_requests=0 is not from 1 to 65536"),
        ({"schedulers": 3}, TypeError, "schedulers is int 3; it is a list of names"),
        ({"schedulers": ["noop", 3]}, TypeError, "schedulers: int is no scheduler; use a name"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, expected):
    with pytest.raises(error, match=expected):
        dwell.compare(RECORDING, **{"schedulers": ["noop"], **arguments})


def test_settings_may_be_flags_and_numbers():
    assert dwell.Drive("wd5000aaks", buffer=False, depth=numpy.int64(4)).depth == 4
    assert dwell.Scheduler("stream(deadline)", wait_after_writes=numpy.bool_(True)) == dwell.Scheduler("stream(deadline){wait_after_writes=on}")
    assert "combine_writes=true" in dwell.Drive("wd5000aaks", **{"buffer.combine_writes": True}).name


def test_wrong_arguments_of_objects_are_named():
    for call, error, expected in [
        (lambda: dwell.Machine(drive=3), TypeError, "drive is int 3; it is text or a path"),
        (lambda: dwell.Machine(identity="z"), dwell.InputError, "identity='z' is none of shown"),
        (lambda: dwell.Machine(depth="4"), TypeError, "depth is str '4'; it is a whole number"),
        (lambda: dwell.Drive("ssd-sata", array=3), TypeError, "array is int 3; it is text"),
        (lambda: dwell.Drive(depth="x"), dwell.InputError, r"\{depth=x\}: depth: .*text \"x\", expected a whole number from 0 to 4294967295"),
        (lambda: dwell.Drive(depth=[4]), TypeError, r"depth is list \[4\]; it is text, a number, or True or False"),
        (lambda: dwell.Scheduler("deadline", fifo_batch=True), dwell.InputError, "'fifo_batch': expected a whole number, found 'True'"),
        (lambda: dwell.Scheduler("deadline", fifo_batch=None), TypeError, "fifo_batch is NoneType None; it is text, a number"),
        (lambda: dwell.Drive("\udc80"), dwell.InputError, r"drive='\\udc80' is no valid Unicode text"),
        (lambda: dwell.Trace.from_columns(3, [0], [512], ["r"]), TypeError, "column 'time' is int 3; it is an array, a series or a list"),
        (lambda: dwell.Trace.from_table({}), dwell.InputError, "no column 'time'; the table has none"),
        (lambda: dwell.study("a\0b"), dwell.InputError, "the study file cannot be read"),
        (lambda: dwell.Scheduler(3), TypeError, "scheduler is int 3; it is text"),
        (lambda: dwell.study("a", jobs="2"), TypeError, "jobs is str '2'; it is a whole number"),
        (lambda: dwell.study(3), TypeError, "file is int 3; it is text or a path"),
        (lambda: dwell.study("a", only=[3]), TypeError, r"only\[0\] is int 3; it is text"),
    ]:
        with pytest.raises(error, match=expected):
            call()


@pytest.mark.parametrize(("method", "package"), [("to_arrow", "pyarrow"), ("to_pandas", "pandas"), ("to_polars", "polars")])
def test_a_missing_package_is_named(method, package, monkeypatch):
    result = dwell.compare("par-read", ["noop"], at_most="100ms")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(dwell.InputError, match=rf"{method}\(\) needs the package {package}: pip install {package}"):
        getattr(result, method)()


def test_a_setting_in_the_name_and_as_an_argument():
    for name, key in [("bfq{slice_idle=4ms}", "slice_idle"), ("stream(deadline{fifo_batch=8})", "fifo_batch")]:
        with pytest.raises(dwell.InputError, match=f"'{key}' is set in '{name[:4]}.*' and as an argument; leave one out"):
            dwell.Scheduler(name, **{key: "5ms" if key == "slice_idle" else 5})


def test_truth_values_are_no_numbers():
    for wrong in (lambda: dwell.Hold(True), lambda: dwell.Dispatch(True)):
        with pytest.raises(TypeError, match="is bool; give"):
            wrong()


def test_results_without_latencies():
    flushes = dwell.Trace.from_columns([0, 1], [0, 0], [0, 0], ["flush", "flush"], completed=[0.5, 1.5])
    result = dwell.compare(flushes, "noop")
    assert "no latencies" in repr(result)
    (process,) = result.table("processes")
    assert process["writes_count"] == 0 and process["writes_mean_ns"] is None and result.runs[0]["write_mean_ns"] is None


def test_policies_of_one_name_can_be_told_apart(columns):
    class Fifo(fifo.Fifo):
        name = "noop"

    trace = dwell.Trace.from_columns(**columns, time_unit="ns")
    names = [run["scheduler"] for run in dwell.compare(trace, [Fifo, "noop", Fifo]).runs]
    assert names == ["noop", "noop (2)", "noop (3)"]
