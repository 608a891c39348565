"""The runs of a study on a Dask cluster, in batches, each a task.

Dask distributes tasks and repeats those of lost workers; the client writes the results. Workers import this module, so it is not the one that
``python -m`` runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from . import _native
from ._errors import Error, InputError
from ._inputs import localised

#: Least and greatest seconds of work in a task: long beside the overhead of client and scheduler, short beside a study.
SHORT, LONG = 1.0, 5.0
#: Seconds of work in a task for each thread of the cluster: twice the time of client and scheduler for a task, which handle one after another.
TASK_OVERHEAD = 0.005
#: A whole part of the results, of which the worker makes the files, is one task up to the greatest length, or up to this multiple of that for the
#: cluster's threads, but at most these seconds: otherwise the client, alone, decodes and encodes its rows.
WHOLE, LONGEST = 6.0, 30.0
#: Runs of a task while the length of a run is unknown.
FIRST = 4
#: Tasks per thread of the cluster that are submitted and not complete, so that no thread waits for the client.
AHEAD = 3
#: Seconds after which the cluster's threads are counted again, because workers come.
COUNT_SECONDS = 1.0
#: Seconds after which the client looks for workers, to report that there are none.
WATCH_SECONDS = 5.0
#: What is printed then. Dask closes a worker of a LocalCluster for good if it is absent 15 s after a loss (distributed.deploy.lost-worker-timeout).
NO_WORKER = "dwell: the cluster has no worker; waiting for one. Ctrl-C ends the study; complete runs are kept, and the next call continues"
LOST = "the connection to the Dask scheduler was lost, or the tasks were cancelled; complete runs are kept, and the next call continues"
#: Attempts at a run that failed alone. Dask itself repeats the tasks of a lost worker (distributed.scheduler.allowed-failures).
ATTEMPTS = 3
#: Threads that write parts, because the disk has to confirm each, and parts that they may have to write.
WRITERS, UNWRITTEN = 4, 64

#: glibc's numbers of M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, and a size above that of a modelled drive.
_TRIM, _MAP, _KEPT = -1, -3, 64 << 20

_executor: _native.Executor | None = None


def _keep_memory() -> None:
    """Lets the allocator keep memory between runs. Dask's nanny sets MALLOC_TRIM_THRESHOLD_=65536, by which each run's page faults take a third
    of its processor time."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # Not glibc.
    mallopt(_TRIM, _KEPT)
    mallopt(_MAP, _KEPT // 2)


def _cancelled(key: str) -> Callable[[], bool]:
    """Returns a function that returns whether the task of this name, which this worker executes, was cancelled: Dask itself lets it run to its end."""
    from distributed import get_worker

    worker = get_worker()

    def is_cancelled() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return is_cancelled


class _OtherVersion(InputError):
    """A worker has another version than the client. It may have joined after the start of the study."""


def _verify(worker: str, version: str, expected: str) -> None:
    if version != expected:
        raise _OtherVersion(f"worker {worker} has dwell {version}, this client {expected}; install the same wheel")


def _task(key: str, runs: bytes, whole: bool, version: str) -> tuple[float, int, list[tuple[int, str]], bytes | list[bytes]]:
    """Executes runs; returns the seconds, the number of runs that ended, those without rows with the reason, and the rows: the files of a part if the
    runs are a whole one and all have rows. Ends early, without the remaining runs, when the client cancels the task or is lost."""
    from distributed import get_worker

    global _executor
    began = time.perf_counter()
    _verify(get_worker().address, _native.simulator, version)
    is_cancelled = _cancelled(key)
    if _executor is None:
        _keep_memory()
        _executor = _native.Executor()
    rows = _native.Rows()
    errors: list[tuple[int, str]] = []
    ended = 0
    batch = json.loads(runs)
    for run in batch:
        try:
            _executor.execute(localised(run), rows, is_cancelled)
        except Error as error:
            if is_cancelled():
                break
            errors.append((ended, str(error)))
        ended += 1
    is_part = whole and ended == len(batch) and not errors
    return time.perf_counter() - began, ended, errors, rows.part() if is_part else rows.json()


def _version() -> str:
    return _native.simulator


def check(client: Any) -> None:
    """Waits for a worker, and verifies that the workers have this version, which the identifiers of runs contain."""
    try:
        if not client.nthreads():
            print(NO_WORKER, file=sys.stderr, flush=True)
        while not (versions := client.run(_version, on_error="return")):
            client.wait_for_workers(1)
    except OSError:
        raise Error(LOST) from None
    for worker, version in versions.items():
        if isinstance(version, OSError):
            continue  # It ended meanwhile.
        if isinstance(version, Exception):  # Whatever unpickling raises.
            raise InputError(f"worker {worker} cannot import dwell: {version}; install the same wheel on it")
        _verify(worker, version, _native.simulator)


@contextlib.contextmanager
def watched(client: Any) -> Iterator[None]:
    """Reports on standard error if the cluster has no worker for a while, because everything then waits."""
    ended = threading.Event()

    def watch() -> None:
        before = known = True
        while not ended.wait(WATCH_SECONDS):
            try:
                present = bool(client.nthreads())
            except Exception:  # The connection is lost, which the caller reports.
                return
            if not present and not before and known:
                print(NO_WORKER, file=sys.stderr, flush=True)
            before, known = present, present or before

    thread = threading.Thread(target=watch, name="dwell-workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


@dataclass
class _Batch:
    """Runs of one part, which are a task."""

    part: int
    runs: list[int]

    def rest(self, begin: int) -> _Batch:
        return _Batch(self.part, self.runs[begin:])


class _Progress:
    """Writes parts whose runs are all complete, so that the files are those of one machine."""

    def __init__(self, runs: _native.Runs, store: _native.Store) -> None:
        self.store = store
        self.ids = runs.ids()
        unwritten = [index for index, run in enumerate(self.ids) if not store.is_written(run)]
        size = runs.part_size()
        self.parts = [unwritten[at : at + size] for at in range(0, len(unwritten), size)]
        missing = [[index for index in part if not store.has(self.ids[index])] for part in self.parts]
        self.left = [len(part) for part in missing]
        self.waiting = deque(_Batch(part, batch) for part, batch in enumerate(missing) if batch)
        self.missing = sum(self.left)
        self.pool = ThreadPoolExecutor(WRITERS, "dwell-parts")
        self.writes: deque[Future[None]] = deque()
        for part, left in enumerate(self.left):
            if left == 0:
                self._write(part)

    def batch(self, size: int, most: int) -> _Batch:
        """The next runs, about ``size``, or a whole part of at most ``most``."""
        first = self.waiting[0]
        length = len(first.runs)
        if length > most:
            count = -(-length // size)
            self.waiting[0] = first.rest(-(-length // count))
            first = _Batch(first.part, first.runs[: -(-length // count)])
        if len(first.runs) == length:
            self.waiting.popleft()
        return first

    def is_whole(self, batch: _Batch) -> bool:
        return len(batch.runs) == len(self.parts[batch.part])

    def keep(self, batch: _Batch, rows: bytes | list[bytes]) -> None:
        """Keeps the rows of all runs of a batch."""
        ids = [self.ids[index] for index in batch.runs]
        self.left[batch.part] -= len(ids)
        if isinstance(rows, bytes):
            self.store.keep(ids, rows)
            if self.left[batch.part] == 0:
                self._write(batch.part)
        else:
            self._submit(self.store.put, ids, *rows)

    def _write(self, part: int) -> None:
        ids = [self.ids[index] for index in self.parts[part]]
        if ids := [run for run in ids if self.store.has(run) and not self.store.is_written(run)]:
            self._submit(self.store.write, ids)

    def _submit(self, write: Callable[..., None], *arguments: Any) -> None:
        self.writes.append(self.pool.submit(write, *arguments))
        while len(self.writes) > UNWRITTEN or self.writes and self.writes[0].done():
            self.writes.popleft().result()

    def finish(self) -> None:
        """Writes parts some of whose runs have no rows."""
        for part, left in enumerate(self.left):
            if left:
                self._write(part)
        while self.writes:
            self.writes.popleft().result()

    def close(self) -> None:
        self.pool.shutdown()


def execute(
    client: Any, runs: _native.Runs, store: _native.Store, show: Callable[[int, int], None] | None = None
) -> tuple[int, int, list[tuple[str, str]]]:
    """Executes the missing runs; calls ``show`` with the number of those that ended, and of all. Returns the number of runs executed and complete
    before, and the lines and errors of others."""
    try:
        from distributed import as_completed
        from distributed.comm.core import CommClosedError
    except ImportError:
        raise InputError("install distributed to use a cluster (pip install distributed fsspec pyarrow)") from None
    progress = _Progress(runs, store)
    waiting = sum(len(batch.runs) for batch in progress.waiting)
    again: deque[_Batch] = deque()
    attempts: Counter[int] = Counter()
    errors: list[tuple[int, str]] = []
    ended, spent = 0, 0.0
    pending: dict[Any, _Batch] = {}
    completed = as_completed()
    threads, counted = max(1, sum(client.nthreads().values())), time.monotonic()

    def next_batch() -> _Batch:
        nonlocal waiting
        if again:
            return again.popleft()
        # The first batches are small, because the length of a run is unknown; so are the last, so that all threads end together.
        share = max(1, waiting // (2 * threads))
        size = most = min(FIRST, share)
        if spent:
            second = ended / spent
            busy = threads * TASK_OVERHEAD
            size = max(1, min(round(min(max(SHORT, busy), LONG) * second), share))
            most = min(round(max(LONG, min(WHOLE * busy, LONGEST)) * second), share)
        batch = progress.batch(size, most)
        waiting -= len(batch.runs)
        return batch

    def submit() -> None:
        while (waiting or again) and len(pending) < (AHEAD if spent else 1) * threads:
            batch = next_batch()
            key = f"dwell-{uuid.uuid4().hex}"
            future = client.submit(_task, key, runs.json(batch.runs), progress.is_whole(batch), _native.simulator, key=key, pure=False)
            pending[future] = batch
            completed.add(future)

    def keep(batch: _Batch, seconds: float, count: int, failed: list[tuple[int, str]], rows: bytes | list[bytes]) -> None:
        nonlocal ended, spent, waiting
        spent += seconds
        ended += count
        if count < len(batch.runs):
            # Dask cancelled the task and then wanted it after all.
            progress.waiting.append(batch.rest(count))
            waiting += len(batch.runs) - count
        errors.extend((batch.runs[place], text) for place, text in failed)
        without = {place for place, _ in failed}
        complete = [index for place, index in enumerate(batch.runs[:count]) if place not in without]
        if complete:
            progress.keep(_Batch(batch.part, complete), rows)

    def await_again(tasks: list[tuple[Any, _Batch]]) -> None:
        for future, batch in tasks:
            pending[future] = batch
            completed.add(future)

    lost = False
    try:
        submit()
        while pending:
            ready = [(future, pending.pop(future), future.status) for future in completed.next_batch()]
            if any(status == "cancelled" for _, _, status in ready):
                raise CancelledError
            finished = [(future, batch) for future, batch, status in ready if status == "finished"]
            try:
                # One message for all.
                results = client.gather([future for future, _ in finished])
            except (CommClosedError, CancelledError):
                raise
            except Exception:  # A result was lost with its worker, and Dask gave up when it repeated the task.
                await_again(finished)
                results = []
            for (_, batch), result in zip(finished, results):
                keep(batch, *result)
            # Lost with its worker, after its end: Dask repeats the task.
            await_again([(future, batch) for future, batch, status in ready if status not in ("finished", "error")])
            for future, batch, status in ready:
                if status != "error":
                    continue
                if isinstance(future.exception(), _OtherVersion):
                    # A new exception: the future's own would keep this frame, and with it the lock of the folder, in a cycle.
                    raise InputError(str(future.exception()))
                if len(batch.runs) > 1:
                    # Dask gave up, because several workers died with this task: find the run that is the cause.
                    again.extend(_Batch(batch.part, [index]) for index in batch.runs)
                    continue
                (index,) = batch.runs
                attempts[index] += 1
                if attempts[index] < ATTEMPTS:
                    again.append(batch)
                else:
                    errors.append((index, _reason(future)))
            if show:
                show(ended, progress.missing)
            if time.monotonic() > counted + COUNT_SECONDS:
                threads, counted = max(threads, sum(client.nthreads().values())), time.monotonic()
            submit()
        progress.finish()
    except (CommClosedError, asyncio.CancelledError, CancelledError):
        lost = True
    finally:
        if pending and not lost:
            client.cancel(list(pending))
        progress.close()
    if lost:
        raise Error(LOST)
    executed = progress.missing - len(errors)
    lines = [(runs.line(index), text) for index, text in sorted(errors)]
    # Some errors of workers begin with the line.
    return executed, len(runs) - progress.missing, [(line, text.removeprefix(f"{line}: ")) for line, text in lines]


def _reason(future: Any) -> str:
    error = future.exception()
    return f"the workers that executed it died, or failed: {type(error).__name__}: {error}"
