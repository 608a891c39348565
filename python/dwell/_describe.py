"""What is compared: traces, drives, schedulers and machines."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from . import _arguments, _native
from ._arguments import flag, one_of, optional_text, path, setting, shown, text, whole
from ._errors import InputError

#: What a scheduler may need beside a drive.
Need = Literal["array", "script"]
#: What schedulers receive about processes.
Identity = Literal["shown", "hidden", "same"]
#: A field of a recording.
Field = Literal["time", "offset", "bytes", "op", "process", "completed"]
#: The unit of times that are numbers.
TimeUnit = Literal["s", "ms", "us", "100ns", "ns"]

_UNITS = {"ns": 1, "100ns": 100, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_FIELDS = get_args(Field)
_OPTIONAL = ("process", "completed")
_TIMES = ("time", "completed")


def nanoseconds(value: int | float | str | None, what: str) -> int | None:
    """A length of time: seconds as a number, or text such as "50ms"."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, numbers.Real)):
        raise TypeError(f"{what} is {shown(value)}; it is seconds as a number, or text such as '30s' or '50ms'")
    if isinstance(value, numbers.Real):
        number, unit = float(value), "s"
    else:
        match = re.fullmatch(r"\s*([0-9.]+)\s*(ns|us|ms|s)\s*", value)
        try:
            number, unit = (float(match[1]), match[2]) if match else (-1.0, "s")
        except ValueError:
            number, unit = -1.0, "s"
    if not 0.5 < number * _UNITS[unit] < 1e19:
        raise InputError(f"{what}={value!r} is no length of time above 0; write seconds as a number, or text such as '30s' or '50ms'")
    return round(number * _UNITS[unit])


def _unit(name: str) -> int:
    return _UNITS[one_of("time_unit", name, _UNITS)]


def _names(table: Any) -> list[str]:
    """The names of a table's columns; empty if they are known only when it is read."""
    if isinstance(table, Mapping) and not hasattr(table, "columns"):
        return [str(column) for column in table]
    for names in ("column_names", "columns"):
        if hasattr(table, names):
            return [str(column) for column in getattr(table, names)]
    # A structured array of NumPy.
    if fields := getattr(getattr(table, "dtype", None), "names", None):
        return [str(column) for column in fields]
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
        return []
    advice = "pass its to_table()" if hasattr(table, "to_table") else "pass a table of pandas, polars or pyarrow, a dictionary of columns, or a structured array"
    raise TypeError(f"table is {type(table).__name__}; {advice}")


def _readable(name: str, column: Any) -> Any:
    """The column itself if the native part can read it in place; otherwise a NumPy array with its values."""
    module = type(column).__module__.partition(".")[0]
    if module == "pandas" and hasattr(column, "columns"):
        if column.shape[1] != 1:
            raise InputError(f"column '{name}' is a table of several columns; select one")
        column = column.iloc[:, 0]
    if module == "pandas" and not hasattr(column, "iloc"):
        # Arrays and indexes have fewer methods than a series.
        import pandas

        if hasattr(column, "levels"):
            raise InputError(f"column '{name}' is an index of several levels; select one")
        column = pandas.Series(column)
    if module == "pandas" and hasattr(column, "to_numpy"):
        if name == "op" and (missing := column.isna().to_numpy().nonzero()[0]).size:
            raise _missing(name, missing[0] + 1)
        if name != "op" and getattr(column.dtype, "kind", "") == "O":
            return _of_objects(name, column.astype(object).where(column.notna(), None).tolist())
        if type(column.dtype).__name__ == "SparseDtype":
            column = column.to_numpy()
        elif hasattr(column.dtype, "kind") and column.dtype.kind in "OT":
            column = column.to_numpy(dtype="U", na_value="")
        elif not hasattr(column.dtype, "na_value"):  # A NumPy type.
            column = column.to_numpy()
        elif not hasattr(column, "__arrow_c_stream__") and hasattr(getattr(column, "array", column), "__arrow_array__"):  # pandas 2
            column = getattr(column, "array", column).__arrow_array__()
    if type(column).__name__ == "MaskedArray" and hasattr(column, "mask"):
        column = _unmasked(name, column)
    if hasattr(column, "__array_interface__"):
        kind = column.__array_interface__["typestr"]
        if kind[1:2] == "O":
            return _of_objects(name, column.tolist())
        return column.astype(column.dtype.newbyteorder("=")) if kind[:1] == ">" else column
    if hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__"):
        return column
    is_sequence = isinstance(column, Iterable) or hasattr(column, "__array__")
    if not is_sequence or isinstance(column, (str, bytes, Mapping)):
        raise TypeError(f"column '{name}' is {shown(column)}; it is an array, a series or a list")
    try:
        import numpy
    except ImportError:
        raise InputError(f"column '{name}' is {type(column).__name__}: install numpy, or give an Arrow array") from None
    array = numpy.ascontiguousarray(column)
    return _of_objects(name, list(column)) if array.dtype.kind in "OU" else array


def _of_objects(name: str, values: list[Any]) -> Any:
    """Python's objects as an array of numbers or text."""
    import numpy

    values = [None if _is_missing(name, value) else value for value in values]
    for row, value in enumerate(values, 1):
        if value is None and name not in _OPTIONAL:
            raise _missing(name, row)
        if value is not None and name != "op" and not isinstance(value, numbers.Real):
            what = f"text is no number ({value!r})" if isinstance(value, str) else f"{shown(value)} is no number"
            advice = "convert the column to numbers" if isinstance(value, str) or name not in _TIMES else "convert the column to numbers, or to numpy's datetime64[ns]"
            raise InputError(f"columns, row {row}, column '{name}': {what}; {advice}")
    if any(value is None for value in values):
        try:
            import pyarrow
        except ImportError:
            raise InputError(f"column '{name}' has rows without a value: install pyarrow, or give an Arrow array with nulls") from None
        return pyarrow.array(values)
    array = numpy.array(values)
    return array.astype("U") if array.dtype.kind == "O" else array


def _is_missing(name: str, value: Any) -> bool:
    """None, pandas' NA and NaT; NaN among text. Among numbers, the native part reads NaN."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (name == "op" and isinstance(value, float) and math.isnan(value))


def _missing(name: str, row: int) -> InputError:
    return InputError(f"columns, row {row}, column '{name}': there is no value")


def _unmasked(name: str, column: Any) -> Any:
    """The values of a masked NumPy array; without a value where it is masked, which only optional columns may have."""
    import numpy

    masked = numpy.flatnonzero(numpy.ma.getmaskarray(column))
    if len(masked) == 0:
        return column.data
    if name not in _OPTIONAL:
        raise InputError(f"columns, row {masked[0] + 1}, column '{name}': there is no value (masked); fill it, or leave the row out")
    try:
        import pyarrow
    except ImportError:
        raise InputError(f"column '{name}' is masked in row {masked[0] + 1}: install pyarrow, or give an Arrow array with nulls") from None
    return pyarrow.array(column.data, mask=numpy.ma.getmaskarray(column))


class Trace:
    """A recording of block I/O.

    ``Trace("io.ftrace.gz")`` names a file in any format that ``dwell trace formats`` lists, a job file of fio's, or a built-in
    workload such as ``par-read{think=200us}``. The file is read at the first comparison, and kept for further ones.

    ``Trace.from_columns`` and ``Trace.from_table`` use columns in memory.
    """

    _trace: _native.Trace
    #: The name of a constructor of the native trace, and its arguments.
    _made: tuple[str, tuple[Any, ...]]
    #: The absolute path of a file with a relative one: another process may have another working directory.
    _place: str | None = None

    def __init__(
        self,
        name: str | os.PathLike[str],
        *,
        format: str | None = None,
        device: str | None = None,
        unit: TimeUnit | None = None,
        strict: bool = False,
    ) -> None:
        texts = [optional_text(key, value) for key, value in (("format", format), ("device", device), ("unit", unit))]
        given = path("trace", name)
        self._make("named", given, *texts, flag("strict", strict))
        if os.path.exists(given):
            self._place = os.path.abspath(given)

    def _make(self, constructor: str, *arguments: Any) -> None:
        self._trace = getattr(_native.Trace, constructor)(*arguments)
        self._made = (constructor, arguments)

    @classmethod
    def _of(cls, constructor: str, *arguments: Any) -> Trace:
        self = cls.__new__(cls)
        self._make(constructor, *arguments)
        return self

    @classmethod
    def _of_file(cls, place: str, name: str, *arguments: Any) -> Trace:
        """A file that had this absolute path: under its name if that is still the same file."""
        self = cls._of("named", name if os.path.abspath(name) == place else place, *arguments)
        self._place = place
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process reads the same file, or gets a copy of the columns."""
        constructor, arguments = self._made
        if self._place is not None:
            return Trace._of_file, (self._place, *arguments)
        if constructor == "table" and not hasattr(arguments[1], "__len__"):
            raise TypeError(f"{self.name}: a stream gives its rows once; make a table of it to pass the trace to another process (pyarrow: read_all())")
        return Trace._of, (constructor, *arguments)

    @classmethod
    def from_columns(
        cls,
        time: Any,
        offset: Any,
        bytes: Any,
        op: Any,
        *,
        process: Any = None,
        completed: Any = None,
        time_unit: TimeUnit = "s",
        name: str = "columns",
    ) -> Trace:
        """A recording from columns: one row per request, in the order of ``time``.

        ``time`` and ``completed`` are in ``time_unit`` (s, ms, us, 100ns, ns) unless their type is a time. ``op`` is text (read, write,
        discard, flush, r, w, d, f, or the block layer's letters such as ``WS``) or 0, 1, 2, 3. ``process`` and ``completed`` may lack values (null, NaN, masked). ``offset`` and ``bytes`` are in bytes.

        NumPy arrays of numbers, times and text in this machine's byte order, with or without strides, and arrays with Arrow's C data
        interface (pyarrow, polars, nanoarrow) are read where they are. Lists, arrays of Python objects and arrays in the other byte order
        are copied once.
        """
        columns = {"time": time, "offset": offset, "bytes": bytes, "op": op, "process": process, "completed": completed}
        given = [(field, _readable(field, column)) for field, column in columns.items() if column is not None]
        return cls._of("columns", text("name", name), given, _unit(time_unit))

    @classmethod
    def from_table(
        cls, table: Any, columns: Mapping[Field, str] | None = None, *, time_unit: TimeUnit = "s", name: str = "table"
    ) -> Trace:
        """A recording from a table: a pyarrow or polars table is read in place, others column by column as in ``from_columns``.

        ``columns`` maps the fields time, offset, bytes, op, process and completed to the table's columns with other names.
        """
        if columns is not None and not isinstance(columns, Mapping):
            raise TypeError(f"columns is {type(columns).__name__}; it is a dictionary of the fields with other names, such as {{'time': 'start_s'}}")
        renamed: dict[str, str] = {**(columns or {})}
        for field, column in renamed.items():
            text("a key of columns", field)
            text(f"columns[{field!r}]", column)
            if field not in _FIELDS:
                raise InputError(f"'{field}' is no field of a recording; fields are {', '.join(_FIELDS)}")
        if type(table).__name__ == "LazyFrame":
            raise InputError(f"{name}: a LazyFrame has no rows yet; pass its collect()")
        known = _names(table)
        names = [(field, renamed.get(field, field)) for field in _FIELDS if field in renamed or not known or field in known]
        if hasattr(table, "__arrow_c_stream__") and type(table).__module__.partition(".")[0] != "pandas":
            # The columns of a stream are known when it is read.
            needed = [(field, wanted, field in renamed or field not in _OPTIONAL) for field, wanted in names]
            return cls._of("table", text("name", name), table, needed, _unit(time_unit))
        if doubled := [wanted for _, wanted in names if known.count(wanted) > 1]:
            raise InputError(f"{name}: two columns are called '{doubled[0]}'; rename one")
        is_named = known or isinstance(table, Mapping) or hasattr(table, "columns")
        missing = [wanted for _, wanted in names if is_named and wanted not in known]
        if missing:
            raise InputError(f"{name}: no column '{missing[0]}'; the table has {', '.join(known) or 'none'}")
        given = [(field, _readable(field, table[wanted])) for field, wanted in names]
        return cls._of("columns", text("name", name), given, _unit(time_unit))

    @property
    def name(self) -> str:
        """The name in messages and results."""
        return self._trace.name

    def describe(self, drive: str | Drive = "wd5000aaks", *, open: bool = False) -> str:
        """How the recording is interpreted, in front of a drive."""
        described, notes = self._trace.describe(Drive.of(drive).capacity, flag("open", open))
        return "\n".join([described, *notes])

    def __len__(self) -> int:
        """The number of requests; only of a recording from columns."""
        requests = self._trace.requests()
        if requests is None:
            raise TypeError(f"the length of {self.name} is unknown before it is read; describe() states it")
        return requests

    def __repr__(self) -> str:
        return f"Trace({self.name!r})"


class _Fixed:
    """An object whose attributes cannot be assigned: they are its identity, or follow from it."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be assigned: a {type(self).__name__} does not change; make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} cannot be deleted: a {type(self).__name__} does not change")


class Drive(_Fixed):
    """A modelled drive: a built-in name, or a file (.toml, .diskspecs, .parv), with overrides in braces. ``array`` puts such drives into an array, as in
    ``Drive("wd5000aaks", array="raid0:5x64k")``. Its attributes cannot be assigned."""

    name: str
    array: str | None
    description: str
    capacity: int
    depth: int
    rotational: bool
    notes: list[str]

    def __init__(self, name: str | os.PathLike[str] = "wd5000aaks", *, array: str | None = None, **overrides: Any) -> None:
        name = _arguments.drive(name)
        if overrides:
            inside = ", ".join(f"{key}={setting(key, value, ('true', 'false'))}" for key, value in overrides.items())
            name = f"{name}{{{inside}}}"
        array = optional_text("array", array)
        facts = _native.drive(name, array)
        known = ("description", "capacity", "depth", "rotational", "notes")
        vars(self).update(name=name, array=array, **{key: facts[key] for key in known})

    @classmethod
    def of(cls, drive: str | os.PathLike[str] | Drive) -> Drive:
        return drive if isinstance(drive, Drive) else cls(drive)

    @staticmethod
    def all() -> list[str]:
        """The names of the built-in drives."""
        return [name for name, _ in _native.drives()]

    def __repr__(self) -> str:
        return f"Drive({self.description!r})"

    def __eq__(self, other: object) -> bool:
        """Equal names, overrides and arrays."""
        return isinstance(other, Drive) and (other.name, other.array) == (self.name, self.array)

    def __hash__(self) -> int:
        return hash((self.name, self.array))


@dataclasses.dataclass(frozen=True)
class Tunable:
    """A tunable of a scheduler, with its values as text."""

    name: str
    default: str
    least: str
    greatest: str
    documentation: str


class Scheduler(_Fixed):
    """A scheduler with tunables: ``Scheduler("stream(deadline)", stream_time_slice="50ms")``. Its attributes cannot be assigned."""

    name: str

    def __init__(self, name: str, **tunables: Any) -> None:
        settings = [(key, setting(key, value)) for key, value in tunables.items()]
        vars(self)["name"] = _native.scheduler(text("scheduler", name), settings)

    @staticmethod
    def all(needs: Need | None = None) -> list[str]:
        """The full names of the schedulers that ``compare`` can use with every drive. ``needs="array"``: those that coordinate the members of an
        array. ``needs="script"``: those that schedule system calls as well, which only scripts have (in a study, or ``dwell run``)."""
        if needs is not None:
            one_of("needs", needs, get_args(Need))
        return [name for name, _, need, _ in _native.schedulers() if need == needs]

    def _facts(self) -> tuple[str, str, Need | None, list[tuple[str, str, str, str, str]]]:
        """Those of the scheduler itself; of a wrapper, without those of the wrapped scheduler."""
        own = re.split(r"[({]", self.name, maxsplit=1)[0]
        return next(facts for facts in _native.schedulers() if facts[0] == own)

    @property
    def needs(self) -> Need | None:
        """What the scheduler needs beside a drive: "array", "script", or None."""
        return self._facts()[2]

    @property
    def tunables(self) -> list[Tunable]:
        """The tunables of the scheduler (of a wrapper: its own, without those of the wrapped scheduler)."""
        return [Tunable(*tunable) for tunable in self._facts()[3]]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Scheduler({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scheduler) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


@dataclasses.dataclass(frozen=True)
class Machine:
    """The modelled machine: the queue's depth and limits, and what schedulers receive about processes (shown, hidden, same)."""

    drive: Drive | str | os.PathLike[str] = "wd5000aaks"
    depth: int | None = None
    nr_requests: int = 128
    identity: Identity = "shown"

    def __post_init__(self) -> None:
        if not isinstance(self.drive, Drive):
            _arguments.drive(self.drive)
        if self.depth is not None:
            whole("depth", self.depth, 1, 65_536)
        whole("nr_requests", self.nr_requests, 1, 65_536)
        one_of("identity", self.identity, get_args(Identity))
