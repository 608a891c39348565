"""The types that mypy and pyright check in programs that use the package."""

import mypy.api

RIGHT = """
import dwell
import numpy


class Half(dwell.Policy):
    def insert(self, now: int, request: dwell.Request) -> None: ...
    def merged(self, now: int, request: dwell.Request, growth: dwell.Growth) -> None: ...


class Mine(Half):
    def next(self, now: int, view: dwell.View) -> None: ...


result = dwell.compare("io.csv", Mine)
dwell.compare("io.csv", "noop", identity="hidden")
dwell.compare("io.csv", dwell.Scheduler("bfq"))
dwell.compare("io.csv", ["noop", dwell.Scheduler("bfq"), Mine, lambda: Mine()])
dwell.compare("io.csv", dwell.Scheduler.all("array"), machine=dwell.Machine(identity="same"))
dwell.compare("io.csv", (name for name in dwell.Scheduler.all()))
result.to_pandas("distribution"), result.to_arrow("processes"), result.to_polars(), result.table("runs"), result.plot_latency("write")
dwell.study("study.toml").to_pandas("windows")
dwell.Trace.from_columns(numpy.zeros(1), [0], [512], ["read"], time_unit="100ns")
dwell.Trace.from_table({}, {"time": "start"}, time_unit="ms"), dwell.Trace("io.csv", unit="us")
"""

WRONG = """
dwell.compare("io.csv", 3)
dwell.compare("io.csv", Mine())
dwell.compare("io.csv", identity="zzz")
dwell.Machine(identity="zzz")
result.to_pandas("windows")
result.to_arrow("zzz")
result.to_polars("zzz")
result.table("zzz")
result.plot_latency("reads")
dwell.study("study.toml").to_pandas("distribution")
dwell.study("study.toml").to_arrow("zzz")
dwell.study("study.toml").to_polars("zzz")
dwell.Trace.from_columns([0], [0], [512], ["read"], time_unit="m")
dwell.Trace.from_table({}, time_unit="m")
dwell.Trace("io.csv", unit="m")
dwell.Scheduler.all("disk")
dwell.Trace.from_table({}, {"tyme": "start"})
dwell.study("study.toml", client=5)
dwell.check_policy(lambda: Half())
"""


def test_values_of_arguments_are_checked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(RIGHT + WRONG.lstrip())
    found, problems, _ = mypy.api.run(["--strict", "--ignore-missing-imports", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), str(program)])
    lines = [int(line.split(":")[1]) for line in found.splitlines() if ": error: " in line]
    first = RIGHT.count("\n") + 1
    assert lines == list(range(first, first + WRONG.count("\n") - 1)), found + problems
