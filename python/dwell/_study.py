"""Studies: on this machine, or on a Dask cluster."""

from __future__ import annotations

import html
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from . import _arguments, _native
from ._arguments import needs, one_of
from ._errors import Error, InputError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: A table of a study.
Table = Literal["runs", "processes", "windows"]


class StudyResult:
    """The results of a study: Parquet data sets in ``folder`` (``runs``, ``processes``, and ``windows`` if the study has them).

    ``notes`` has a line for each depth that a drive does not have, with the depth of its runs. ``omissions`` has a line for each reason of a run that was not executed or failed, or of a
    cell without regret, and for each recording of which requests are left out because they are malformed or impossible.
    """

    notes: list[str]
    omissions: list[str]

    def __init__(
        self,
        runs: _native.Runs,
        store: _native.Store,
        folder: str,
        place: pathlib.Path,
        ended: tuple[int, int, list[tuple[str, str]]],
        title: str,
    ) -> None:
        self.folder = folder
        self._place = place
        self.executed, self.skipped, problems = ended
        self._runs = runs
        self._ids = runs.ids()
        self.notes = runs.notes()
        self._heads, self._rows, self._legend, self._page, self.omissions = _native.summary(runs, store, title, problems)

    def _path(self, table: Table) -> pathlib.Path:
        path = self._place / one_of("table", table, get_args(Table))
        if not any(path.glob("*.parquet")):
            raise InputError(f"{path}: there is no such table; windows need 'window' in the study file")
        return path

    def to_arrow(self, table: Table = "runs") -> pyarrow.Table:
        """The table as a ``pyarrow.Table``: the rows of this study's runs, in their order, with the study's present names of files."""
        needs("pyarrow", "to_arrow")
        import pyarrow
        import pyarrow.parquet

        read = pyarrow.parquet.read_table(self._path(table))
        order = {run: index for index, run in enumerate(self._ids)}
        places = [(order[run], row) for row, run in enumerate(read["run"].to_pylist()) if run in order]
        places.sort()
        found = read.take(pyarrow.array([row for _, row in places], pyarrow.int64()))
        if table != "runs":
            return found
        # The rows have the names at the time of the run, and files may have been renamed since. A run without a drive has that of the default or the script.
        names = ("workload", "drive", "machine", "failure")
        stored = zip(*(found[name].to_pylist() for name in names))
        rows = self._runs.renamed([(run, [*files], failure) for (run, _), (*files, failure) in zip(places, stored)])
        columns = dict(zip(names, zip(*((*files, failure) for files, failure in rows))))
        for name, values in columns.items():
            found = found.set_column(found.schema.get_field_index(name), found.schema.field(name), pyarrow.array(list(values), pyarrow.string()))
        return found

    def to_pandas(self, table: Table = "runs") -> pandas.DataFrame:
        """The table as a ``pandas.DataFrame``."""
        needs("pandas", "to_pandas")
        frame: pandas.DataFrame = self.to_arrow(table).to_pandas()
        return frame

    def to_polars(self, table: Table = "runs") -> polars.DataFrame:
        """The table as a ``polars.DataFrame``."""
        needs("polars", "to_polars")
        import polars

        frame = polars.from_arrow(self.to_arrow(table))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the report: an HTML file (extension .html or .htm, or none) with regret and Pareto fronts, which opens offline."""
        report_path(path).write_text(self._page, encoding="utf-8")

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._heads)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows)
        notes = "".join(f"<p>{html.escape(line)}</p>" for line in (*self.notes, *self.omissions))
        return f"<div><table><tr>{head}</tr>{rows}</table><p>{html.escape(self._legend)}</p>{notes}</div>"

    def __repr__(self) -> str:
        table = [[head.replace("\n", " ") for head in self._heads], *self._rows]
        widths = [max(map(len, column)) for column in zip(*table)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
        return "\n".join([*lines, "", self._legend, *self.notes, *self.omissions])


def report_path(path: str | os.PathLike[str]) -> pathlib.Path:
    """The path of a report, which is HTML. A pipe or device may have any name."""
    found = pathlib.Path(_arguments.path("path", path))
    if found.suffix.lower() not in ("", ".html", ".htm") and (found.is_file() or not found.exists()):
        raise InputError(f"{found}: a report is HTML; use the extension .html")
    return found


class Client(Protocol):
    """A ``distributed.Client``."""

    def submit(self, func: Any, *args: Any, **kwargs: Any) -> Any: ...

    def nthreads(self) -> Any: ...


def _connected(address: str) -> Any:
    """A client of the Dask scheduler at an address."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise InputError("install distributed to use a cluster (pip install distributed fsspec pyarrow)") from None
    if address.startswith("inproc://"):
        raise InputError(f"{address}: is the address of a scheduler in this process; pass its client (client=...), or start a scheduler with 'dask scheduler'")
    if not address.startswith("ucx://"):
        # A client whose address is wrong would print a traceback when it is collected.
        try:
            get_address_host_port(address)
        except ValueError as error:
            raise InputError(f"{address!r} is no address of a Dask scheduler: {error}; write it as tcp://host:8786") from None
    try:
        return Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        if (cause := str(error)) and "TLS" in cause:
            raise _unusable(address, error) from None
        raise InputError(f"{address}: no Dask scheduler answers: {error}; start one with 'dask scheduler'") from None
    except (TypeError, ImportError, RuntimeError, AttributeError) as error:
        # Of the transport: no certificates are configured (tls), or its package is not installed (ucx).
        raise _unusable(address, error) from None


def _unusable(address: str, error: Exception) -> InputError:
    scheme = address.partition("://")[0]
    return InputError(f"{address}: Dask cannot use {scheme} here: {error}; configure it for Dask (distributed.comm), or use a tcp:// address")


def study(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    client: Client | str | None = None,
    only: Sequence[str] = (),
    jobs: int | None = None,
    _copies: dict[str, list[tuple[str, str]]] | None = None,
    _show: Callable[[int, int], None] | None = None,
) -> StudyResult:
    """Executes the missing runs of a study file (docs/study.md) and returns the results, which are Parquet data sets in the folder ``out``
    (default: the study file's name without its extension).

    Without ``client``, on this machine's cores (``jobs``: number of threads). ``client`` is a ``distributed.Client``, or the address of its
    scheduler: the runs are executed by its cluster. Workloads may be fsspec addresses (``s3://bucket/*.gz``), and files need the same path on all workers. The results are equal to the byte in
    both cases. Ctrl-C raises ``KeyboardInterrupt``; the next call continues. A run that cannot be executed raises ``Error`` after all others, whose
    results are in its attribute ``result``.
    """
    path = pathlib.Path(_arguments.path("file", file))
    if out is not None:
        out = _arguments.path("out", out)
    if jobs is not None:
        _arguments.whole("jobs", jobs, 1)
    only = _arguments.texts("only", only)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the study file cannot be read: {error}") from None
    folder = pathlib.Path(out) if out is not None else path.with_suffix("")
    if out is not None and "://" in out:
        raise InputError(f"out={out!r} is an address, and results are written to a folder of this machine; name a folder")
    if folder.is_file():
        raise InputError(f"{folder}: is a file; name a folder for the results with out")
    if isinstance(client, str):
        with _connected(client) as connected:
            return study(file, out, client=connected, only=only)
    if client is not None and not (hasattr(client, "submit") and hasattr(client, "nthreads")):
        raise TypeError(f"client is {type(client).__name__}; pass a distributed.Client, or the address of a Dask scheduler")
    if getattr(client, "asynchronous", False):
        raise InputError("client is asynchronous; pass a distributed.Client without asynchronous=True, or the address of a Dask scheduler")
    if getattr(client, "status", "") in ("closing", "closed"):
        raise InputError("client is closed; pass a distributed.Client that is connected, or the address of a Dask scheduler")
    runs = _expand(path, text, only, client is not None, _copies)
    # The working directory may change during the runs, and before the tables are read.
    place = folder.absolute()
    store = _native.Store(place)
    try:
        if client is None:
            threads = jobs or len(os.sched_getaffinity(0))
            ended = _native.execute(runs, store, threads)
        else:
            from ._cluster import check, execute, watched

            check(client)
            with watched(client):
                ended = execute(client, runs, store, _show)
        result = StudyResult(runs, store, str(folder), place, ended, f"Study {path}")
    finally:
        # An exception that a notebook keeps has this frame.
        store.close()
    if errors := ended[2]:
        reasons = grouped(errors)
        head = f"{len(errors)} of {len(runs)} runs could not be executed; the next call tries them again:"
        more = [f"and {len(reasons) - 10} further reasons"] if len(reasons) > 10 else []
        incomplete = Error("\n  ".join([head, *reasons[:10], *more]))
        incomplete.result, incomplete._unexecuted = result, errors
        raise incomplete
    return result


def grouped(errors: Sequence[tuple[str, str]]) -> list[str]:
    """Each error once: a file that cannot be read is the input of many runs."""
    runs: dict[str, list[str]] = {}
    for line, error in errors:
        runs.setdefault(error, []).append(line)
    further = {2: ", and 1 further run"}
    return [f"{lines[0]}{further.get(len(lines), f', and {len(lines) - 1} further runs' if lines[1:] else '')}: {error}" for error, lines in runs.items()]


def _expand(
    path: pathlib.Path, text: str, only: list[str], remote: bool, copied: dict[str, list[tuple[str, str]]] | None = None
) -> _native.Runs:
    """The runs. Addresses are read once here, unless there are copies: the identifier of a run contains the hash of its inputs."""
    from ._inputs import copies

    copied = dict(copied or {})
    for address in _native.addresses(str(path), text):
        if address not in copied:
            copied[address] = copies(address)
    runs = _native.Runs.parse(str(path), text, str(path.parent), copied)
    runs = (runs.remote() if remote else runs).only(only)
    if len(runs) == 0:
        raise InputError(f"{path}: no run contains {only}; 'dwell study --dry-run' lists the runs")
    return runs
