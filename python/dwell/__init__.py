"""I/O schedulers compared on modelled drives, in virtual time.

    import dwell
    dwell.compare("recordings/pgbench.ftrace.gz", schedulers=["noop", "mq-deadline", "bfq"])

``compare`` runs a recording under each scheduler, and ``study`` a matrix of runs, on this machine or a Dask cluster. ``Trace`` makes recordings from files and columns, ``Drive`` and ``Scheduler`` describe
what is compared, ``Policy`` is the base of schedulers written in Python, and ``check_policy`` verifies them. The wheel also contains the
command ``dwell``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from . import _arguments, _native
from ._arguments import flag, shown
from ._describe import Drive, Identity, Machine, Scheduler, Trace, Tunable, nanoseconds
from ._errors import Error, InputError, InternalError, PolicyError
from ._native import Dispatch, Growth, Hold, Request, View, __version__
from ._policy import Policy, check_policy
from ._result import Comparison
from ._study import StudyResult, study

__all__ = [
    "Comparison", "Dispatch", "Drive", "Error", "Growth", "Hold", "InputError", "InternalError", "Machine", "Policy", "PolicyError",
    "Request", "Scheduler", "StudyResult", "Trace", "Tunable", "View", "__version__", "check_policy", "compare", "study",
]  # fmt: skip

#: The schedulers of current kernels (``noop`` is the kernel's ``none``), and those of this project that no kernel has.
DEFAULT_SCHEDULERS = ("noop", "mq-deadline", "kyber", "bfq", "cooperative", "stream", "dwell")


def compare(
    trace: Trace | str | os.PathLike[str],
    schedulers: Iterable[str | Scheduler | Callable[[], Any]] | str | Scheduler | Callable[[], Any] = DEFAULT_SCHEDULERS,
    drive: str | os.PathLike[str] | Drive | None = None,
    depth: int | None = None,
    *,
    machine: Machine | None = None,
    nr_requests: int | None = None,
    identity: Identity | None = None,
    open: bool = False,
    at_most: int | float | str | None = None,
) -> Comparison:
    """Runs a recording under each scheduler on a modelled drive, as ``dwell compare`` does.

    ``schedulers`` are names, ``Scheduler`` objects, and classes derived from ``Policy``, or one of them. ``depth`` is the number of commands in the drive at
    once, at most the drive's. ``open=True`` replays by time stamps. ``at_most`` stops each run after this virtual time (seconds, or text such as
    "30s"). ``machine`` has ``drive``, ``depth``, ``nr_requests`` and ``identity`` together, and excludes these arguments; their defaults are those of
    ``Machine()``.

    The simulation uses all cores without the GIL; policies written in Python run one after another, with it. Ctrl-C raises
    ``KeyboardInterrupt``.
    """
    if isinstance(schedulers, (str, Scheduler)) or callable(schedulers):
        schedulers = [schedulers]
    if not isinstance(schedulers, Iterable):
        raise TypeError(f"schedulers is {shown(schedulers)}; it is a list of names, dwell.Scheduler objects and policies")
    schedulers = list(schedulers)
    if not schedulers:
        raise InputError("schedulers is empty; name at least one, or leave it out for those of current kernels")
    parts = {"drive": drive, "depth": depth, "nr_requests": nr_requests, "identity": identity}
    given: dict[str, Any] = {name: value for name, value in parts.items() if value is not None}
    if machine is not None and not isinstance(machine, Machine):
        raise TypeError(f"machine is {shown(machine)}; pass a dwell.Machine")
    if machine is not None and given:
        name, value = next(iter(given.items()))
        raise InputError(f"machine has a {name} of its own; set it there (Machine({name}={value!r}, ...)), or leave out machine")
    machine = machine or Machine(**given)
    # The native part opens the drive. A Drive made here would open it a second time, for facts that are not used.
    drive, array = (machine.drive.name, machine.drive.array) if isinstance(machine.drive, Drive) else (_arguments.drive(machine.drive), None)
    if not isinstance(trace, Trace):
        trace = Trace(trace)
    text = _native.compare(
        trace._trace,
        [str(scheduler) if isinstance(scheduler, Scheduler) else scheduler for scheduler in schedulers],
        drive,
        array=array,
        depth=machine.depth,
        nr_requests=machine.nr_requests,
        identity=machine.identity,
        open=flag("open", open),
        at_most_ns=nanoseconds(at_most, "at_most"),
    )
    return Comparison(text)
