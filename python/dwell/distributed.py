"""A study on a Dask cluster, from the command line; ``dwell study --on`` calls this.

    python -m dwell.distributed --on tcp://scheduler:8786 study.toml
"""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import signal
import sys
import time
from collections.abc import Sequence

from ._errors import Error, InputError


def _end_with_parent() -> None:
    """Requests SIGTERM when the parent is killed (PR_SET_PDEATHSIG)."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    except (OSError, AttributeError):
        pass  # Not Linux.


#: The exit code for the command 'dwell study' after an error whose text is on standard output.
EXPLAINED = 3
#: The same after a wrong argument.
USAGE = 5
#: The one after runs that could not be executed, whose reasons are printed; standard output has them as JSON.
INCOMPLETE = 4


#: Seconds between lines of progress that are not shown on a terminal: those of a batch job are in a file.
LINE_INTERVAL = 60.0


class _Progress:
    """Prints the number of complete runs and the time that is left: on one line of a terminal, or as a line a minute."""

    def __init__(self, on_terminal: bool) -> None:
        self.on_terminal = on_terminal
        self.began = time.monotonic()
        self.shown = 0.0 if on_terminal else self.began

    def __call__(self, ended: int, all_runs: int) -> None:
        now = time.monotonic()
        if ended and now >= self.shown + (0.2 if self.on_terminal else LINE_INTERVAL):
            self.shown = now
            left = round((now - self.began) * (all_runs - ended) / ended)
            text = f"{ended}/{all_runs} runs (about {left} s left)"
            print(f"\r\x1b[K{text}" if self.on_terminal else text, end="" if self.on_terminal else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Removes the line of a terminal."""
        if self.on_terminal and self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dwell.distributed", description="Executes a study on a Dask cluster.")
    parser.add_argument("file", help="the study file")
    parser.add_argument("--on", required=True, metavar="ADDRESS", help="the address of the Dask scheduler, such as tcp://scheduler:8786")
    parser.add_argument("--out", metavar="FOLDER", help="the folder of the results; default: the study file's name without its extension")
    parser.add_argument("--only", metavar="TEXT", action="append", default=[], help="only runs whose line contains this; repeatable")
    parser.add_argument("--report", metavar="FILE", help="write the report as HTML")
    parser.add_argument("--no-table", action="store_true", help="do not print the table of results")
    parser.add_argument("--quiet", "-q", action="store_true", help="print no progress")
    # For the command 'dwell study'.
    parser.add_argument("--copies", choices=["-"], help=argparse.SUPPRESS)
    parser.add_argument("--simulator", help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    # As Ctrl-C: the tasks are cancelled, and the next start continues.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if given.child:
        _end_with_parent()
    from . import _native
    from ._study import _connected, grouped, report_path, study

    try:
        if given.simulator not in (None, _native.simulator):
            raise InputError(f"the command has dwell {given.simulator}, the Python package {_native.simulator}; install the same version of both")
        if given.report:
            report_path(given.report)
        given_copies = json.load(sys.stdin) if given.copies else {}
        copies = {address: [(name, path) for name, path in known] for address, known in given_copies.items()}
        with _connected(given.on) as client:
            # Its traceback when the connection is lost; the exception has the reason.
            logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
            show = None if given.quiet else _Progress(sys.stderr.isatty())
            errors: Sequence[tuple[str, str]] = ()
            try:
                result = study(given.file, given.out, client=client, only=given.only, _copies=copies, _show=show)
            except Error as error:
                if error.result is None:
                    # A client that closes while it connects again would print a traceback.
                    logging.getLogger("distributed").setLevel(logging.CRITICAL)
                    raise
                result, errors = error.result, error._unexecuted
            finally:
                if show:
                    show.clear()
        for reason in grouped(errors):
            print(reason, file=sys.stderr)
        if given.report:
            result.report(given.report)
        if not given.quiet:
            executed = "1 run" if result.executed == 1 else f"{result.executed} runs"
            print(f"{executed} executed, {result.skipped} complete before; results in {result.folder}", file=sys.stderr)
        if not given.no_table:
            print(result)
        if not errors:
            return 0
        if given.child:
            print(json.dumps(errors))
            return INCOMPLETE
        raise Error(f"{'1 run' if len(errors) == 1 else f'{len(errors)} runs'} could not be executed; the same command tries again")
    except Error as error:
        is_usage = isinstance(error, InputError)
        if given.child:
            print(error)
            return USAGE if is_usage else EXPLAINED
        print(f"dwell: {error}", file=sys.stderr)
        return 2 if is_usage else 1
    except KeyboardInterrupt:
        if not given.child:
            print("dwell: interrupted: complete runs are kept; the same command continues", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
