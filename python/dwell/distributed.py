"""A study on a Dask cluster, from the command line; ``dwell study --on`` calls this.

    python -m dwell.distributed --on tcp://scheduler:8786 study.toml
"""

from __future__ import annotations

import argparse
import sys

from ._errors import Error, InputError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dwell.distributed", description="Executes a study on a Dask cluster.")
    parser.add_argument("file", help="the study file")
    parser.add_argument("--on", required=True, metavar="ADDRESS", help="the address of the Dask scheduler, such as tcp://scheduler:8786")
    parser.add_argument("--out", metavar="FOLDER", help="the folder of the results; default: the study file's name without its extension")
    parser.add_argument("--only", metavar="TEXT", action="append", default=[], help="only runs whose line contains this; repeatable")
    parser.add_argument("--report", metavar="FILE", help="write the report as HTML")
    parser.add_argument("--no-table", action="store_true", help="do not print the table of results")
    parser.add_argument("--quiet", "-q", action="store_true", help="print no progress")
    given = parser.parse_args(arguments)
    try:
        from distributed import Client
    except ImportError:
        print("dwell: install distributed to use a cluster (pip install 'dwell[dask]')", file=sys.stderr)
        return 2
    from ._study import study

    try:
        try:
            client = Client(given.on, timeout="10s")
        except (OSError, ValueError) as error:
            raise InputError(f"{given.on}: no Dask scheduler answers: {error}; start one with 'dask scheduler'") from None
        with client:
            client.wait_for_workers(1)
            result = study(given.file, given.out, client=client, only=given.only)
        if given.report:
            result.report(given.report)
        if not given.quiet:
            print(f"{result.executed} runs executed, {result.skipped} complete before; results in {result.folder}", file=sys.stderr)
        if not given.no_table:
            print(result)
        return 0
    except Error as error:
        print(f"dwell: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        print("dwell: interrupted; the same command continues", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
