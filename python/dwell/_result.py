"""Results of comparisons."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from . import _native
from ._arguments import needs, one_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Row = dict[str, Any]
#: A table of a comparison.
Table = Literal["runs", "processes", "distribution"]
#: Requests in a plot.
Direction = Literal["read", "write"]

_LATENCIES = {"latency": "", "reads": "read_", "writes": "write_"}


def _flat(run: Row) -> Row:
    row: Row = {name: run[name] for name in ("scheduler", "mb_per_s", "elapsed_ns", "bytes", "requests", "dispatched", "failed")}
    for group, prefix in _LATENCIES.items():
        latency = run[group]
        for key in ("mean_ns", "p50_ns", "p99_ns", "max_ns"):
            row[prefix + key] = latency[key] if latency["count"] else None
    row["head_travel_bytes"] = run["head_travel_sectors"] * 512 if run["has_head"] else None
    row["seeks"] = run["seeks"]
    row["waits"], row["waited_ns"] = run["waits"]["count"], run["waits"]["total_ns"]
    row["fairness"], row["of_limit"] = run["fairness"], run["of_limit"]
    row["cut"], row["failure"] = run["cut"], run["failure"]
    return row


#: Types of columns; all others are whole numbers.
_TEXT = frozenset({"scheduler", "failure", "name", "direction"})
_NUMBER = frozenset({"mb_per_s", "fairness", "of_limit", "share"})
_FLAG = frozenset({"cut"})


def _types(columns: dict[str, list[Any]], text: Any, number: Any, flag: Any, whole: Any) -> dict[str, Any]:
    """The type of each column, which does not depend on its values."""
    return {name: text if name in _TEXT else number if name in _NUMBER else flag if name in _FLAG else whole for name in columns}


class Tables:
    """Tables of results as lists of rows, and in the forms of other libraries."""

    #: Functions that make the tables.
    _makers: dict[str, Callable[[], list[Row]]]

    def table(self, table: Table = "runs") -> list[Row]:
        """The table as a list of rows."""
        return self._makers[one_of("table", table, self._makers)]()

    def _columns(self, table: Table) -> dict[str, list[Any]]:
        rows = self.table(table)
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {name: [row.get(name) for row in rows] for name in names}

    def to_arrow(self, table: Table = "runs") -> pyarrow.Table:
        """The table as a ``pyarrow.Table``; needs pyarrow."""
        needs("pyarrow", "to_arrow")
        import pyarrow

        columns = self._columns(table)
        types = _types(columns, pyarrow.string(), pyarrow.float64(), pyarrow.bool_(), pyarrow.int64())
        return pyarrow.table(columns, pyarrow.schema(list(types.items())))

    def to_pandas(self, table: Table = "runs") -> pandas.DataFrame:
        """The table as a ``pandas.DataFrame``; needs pandas."""
        needs("pandas", "to_pandas")
        import pandas

        columns = self._columns(table)
        types = _types(columns, None, "float64", None, "int64")
        # Integers with missing values are floating-point numbers in pandas.
        missing = {name for name, values in columns.items() if None in values}
        known = {name: "float64" if name in missing else kind for name, kind in types.items() if kind}
        return pandas.DataFrame(columns).astype(known)

    def to_polars(self, table: Table = "runs") -> polars.DataFrame:
        """The table as a ``polars.DataFrame``; needs polars."""
        needs("polars", "to_polars")
        import polars

        columns = self._columns(table)
        return polars.DataFrame(columns, _types(columns, polars.String, polars.Float64, polars.Boolean, polars.Int64))


class Comparison(Tables):
    """The results of ``dwell.compare``.

    Tables: ``runs`` (a row for each scheduler), ``processes`` (for each process under each scheduler) and ``distribution`` (share of
    requests that completed within a time).
    """

    def __init__(self, text: str) -> None:
        self._raw: Row = json.loads(text)
        self.workload: str = self._raw["workload"]
        self.drive: str = self._raw["drive"]
        self.depth: int = self._raw["depth"]
        self.notes: list[str] = self._raw["notes"]
        #: A row for each scheduler, in the order of the call.
        self.runs: list[Row] = [_flat(run) for run in self._raw["runs"]]
        self._makers = {"runs": lambda: self.runs, "processes": self._processes, "distribution": self._distribution}

    def __reduce__(self) -> tuple[type[Comparison], tuple[str]]:
        return type(self), (self.to_json(),)

    def _processes(self) -> list[Row]:
        return [{"scheduler": run["scheduler"], **_plain(process)} for run in self._raw["runs"] for process in run["processes"]]

    def _distribution(self) -> list[Row]:
        return [
            {"scheduler": run["scheduler"], "direction": direction, "latency_ns": ns, "share": share}
            for run in self._raw["runs"]
            for direction, points in zip(("read", "write"), run["distributions"])
            for ns, share in points
        ]

    @property
    def by_time(self) -> bool:
        """Whether requests arrive at given times, so that latency and not throughput is the result."""
        return bool(self._raw["by_time"])

    def _has_rank(self, row: Row) -> bool:
        """As in the command. A replay by time stamps that was stopped has the latency of the part that the scheduler completed, which is the shorter the
        more it postponed."""
        return row["failure"] is None and not (self.by_time and (row["cut"] or row["mean_ns"] is None))

    @property
    def _ordered(self) -> list[Row]:
        """All rows: those with a rank, best first, then the others, failed ones last."""

        def place(row: Row) -> tuple[bool, bool, float]:
            return not self._has_rank(row), row["failure"] is not None, (row["mean_ns"] or 0) if self.by_time else -row["mb_per_s"]

        return sorted(self.runs, key=place)

    @property
    def ranked(self) -> list[Row]:
        """The rows, best first: by throughput, of a replay by time stamps by mean latency. Without rows that have no rank: failed runs, and replays by
        time stamps that ``at_most`` stopped, because each completed another part of the recording."""
        return [row for row in self._ordered if self._has_rank(row)]

    @property
    def best(self) -> str | None:
        """The first scheduler of ``ranked``; None if that is empty."""
        return next((str(row["scheduler"]) for row in self.ranked), None)

    def to_json(self) -> str:
        """Everything that was measured."""
        return json.dumps(self._raw)

    def plot_latency(self, direction: Direction = "read") -> str:
        """The distribution of latencies as SVG."""
        one_of("direction", direction, get_args(Direction))
        index = 0 if direction == "read" else 1
        runs = self._raw["runs"]
        series = [(run["scheduler"], [(ns / 1e6, share * 100) for ns, share in run["distributions"][index]]) for run in runs]
        series = [(name, points) for name, points in series if points]
        return _native.lines(f"latency of {direction}s, ms", "requests done, %", series, log_x=True)

    def plot_throughput(self) -> str:
        """Throughput by scheduler as SVG."""
        return _native.bars("throughput, MB/s", [(row["scheduler"], row["mb_per_s"]) for row in self._ordered])

    def _repr_html_(self) -> str:
        heads = ["scheduler", "MB/s", "time", "read mean", "read p99", "write mean", "write p99", "of limit"]
        keys = ["read_mean_ns", "read_p99_ns", "write_mean_ns", "write_p99_ns"]
        lines = []
        for row in self._ordered:
            name = row["scheduler"] + (" (cut)" if row["cut"] else "") + (f" (failed: {row['failure']})" if row["failure"] else "")
            cells = [f"{row['mb_per_s']:.3g}", _time(row["elapsed_ns"]), *(_time(row[key]) for key in keys), _share(row["of_limit"])]
            lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in [name, *cells]) + "</tr>")
        head = "".join(f"<th>{name}</th>" for name in heads)
        plots = [self.plot_throughput()]
        for index, direction in enumerate(get_args(Direction)):
            if any(run["distributions"][index] for run in self._raw["runs"]):
                plots.append(self.plot_latency(direction))
        title = html.escape(f"{self.workload} on {self.drive}")
        figures = "".join(f'<div style="max-width: 900px">{plot}</div>' for plot in plots)
        return f"<div><p>{title}</p><table><tr>{head}</tr>{''.join(lines)}</table>{figures}</div>"

    def __repr__(self) -> str:
        lines = [f"{self.workload} on {self.drive}"]
        width = max(len(row["scheduler"]) for row in self.runs)
        for row in self._ordered:
            times = "no latencies" if row["mean_ns"] is None else f"mean {_time(row['mean_ns'])}, 99% {_time(row['p99_ns'])}"
            lines.append(f"  {row['scheduler']:<{width}}  {row['mb_per_s']:>8.3f} MB/s  {times}")
        return "\n".join(lines)


def _plain(process: Row) -> Row:
    """The fields of a process; latencies become columns of their own, with no times where there are no requests."""
    row: Row = {}
    for name, value in process.items():
        if isinstance(value, dict):
            is_none = value.get("count") == 0
            plain = {key: inner for key, inner in value.items() if not isinstance(inner, (dict, list))}
            row.update({f"{name}_{key}": None if is_none and key != "count" else inner for key, inner in plain.items()})
        elif not isinstance(value, list):
            row[name] = value
    return row


def _time(ns: int | float | None) -> str:
    if ns is None:
        return ""
    for unit, length in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= length:
            return f"{ns / length:.3g} {unit}"
    return f"{ns:.0f} ns"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.0f}%"
