"""The runs of a study on a Dask cluster, in batches, each a task.

Dask distributes tasks and repeats those of lost workers; the client writes the results. Workers import this module, so it is not the one that
``python -m`` runs.
"""

from __future__ import annotations

import ctypes
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from . import _native
from ._errors import Error, InputError
from ._inputs import localised

#: Seconds of work in a task: long beside the scheduler's overhead of about a millisecond, short beside a study.
TASK_SECONDS = 0.5
#: Most runs of a task.
LARGEST = 64
#: Tasks per thread of the cluster that are submitted and not complete, so that no thread waits for the client.
AHEAD = 3
#: Attempts at a run that failed alone. Dask itself repeats the tasks of a lost worker (distributed.scheduler.allowed-failures).
ATTEMPTS = 3

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


def _task(key: str, batch: list[str]) -> tuple[float, list[tuple[bool, str]]]:
    """Executes runs; returns the seconds, and for each run its rows, or the reason why it has none. Ends early, without the remaining runs, when the
    client cancels the task or is lost."""
    global _executor
    began = time.perf_counter()
    is_cancelled = _cancelled(key)
    if _executor is None:
        _keep_memory()
        _executor = _native.Executor()
    results = []
    for run in batch:
        try:
            result = (True, _executor.execute(localised(run), is_cancelled))
        except Error as error:
            result = (False, str(error))
        if is_cancelled():
            break
        results.append(result)
    return time.perf_counter() - began, results


def _version() -> str:
    return _native.simulator


def _check(client: Any) -> None:
    """Verifies that the workers have this version, which the identifiers of runs contain."""
    try:
        versions = client.run(_version)
    except Exception as error:  # Whatever unpickling raises.
        raise InputError(f"the workers cannot import dwell: {error}; install the same wheel on them") from None
    if not versions:
        raise InputError("the cluster has no worker yet; start one, or wait for it with client.wait_for_workers(1)")
    for worker, version in versions.items():
        if version != _native.simulator:
            raise InputError(f"worker {worker} has dwell {version}, this client {_native.simulator}; install the same wheel")


class _Progress:
    """Writes parts whose runs are all complete, so that the files are those of one machine."""

    def __init__(self, runs: _native.Runs, store: _native.Store) -> None:
        self.store = store
        unwritten = [(index, run) for index, run in enumerate(runs.ids()) if not store.is_written(run)]
        size = _native.Runs.part
        self.parts = [unwritten[at : at + size] for at in range(0, len(unwritten), size)]
        self.part_of = {index: number for number, part in enumerate(self.parts) for index, _ in part}
        self.missing = [index for index, run in unwritten if not store.has(run)]
        self.left = [sum(not store.has(run) for _, run in part) for part in self.parts]
        for number, left in enumerate(self.left):
            if left == 0:
                self._write(number)

    def keep(self, index: int, rows: str) -> None:
        self.store.keep(rows)
        number = self.part_of[index]
        self.left[number] -= 1
        if self.left[number] == 0:
            self._write(number)

    def _write(self, number: int) -> None:
        ids = [run for _, run in self.parts[number] if self.store.has(run) and not self.store.is_written(run)]
        if ids:
            self.store.write(ids)

    def finish(self) -> None:
        for number in range(len(self.parts)):
            self._write(number)


def execute(
    client: Any, runs: _native.Runs, store: _native.Store, show: Callable[[int, int], None] | None = None
) -> tuple[int, int, list[str]]:
    """Executes the missing runs; calls ``show`` with the number of those that ended, and of all. Returns the number of runs executed and complete
    before, and the errors."""
    try:
        from distributed import as_completed
    except ImportError:
        raise InputError("install distributed to use a cluster (pip install distributed fsspec pyarrow)") from None
    _check(client)
    progress = _Progress(runs, store)
    waiting = deque(progress.missing)
    again: deque[list[int]] = deque()
    attempts: Counter[int] = Counter()
    errors: list[tuple[int, str]] = []
    ended, spent = 0, 0.0
    pending: dict[Any, list[int]] = {}
    completed = as_completed()
    threads = max(1, sum(client.nthreads().values()))

    def submit() -> None:
        while (waiting or again) and len(pending) < AHEAD * threads:
            if again:
                batch = again.popleft()
            else:
                # The first batches are small, because the length of a run is unknown; so are the last, so that all threads end together.
                size = round(TASK_SECONDS * ended / spent) if spent else 4
                size = max(1, min(size, LARGEST, len(waiting) // (2 * threads)))
                batch = [waiting.popleft() for _ in range(size)]
            key = f"dwell-{uuid.uuid4().hex}"
            future = client.submit(_task, key, [runs.json(index) for index in batch], key=key, pure=False)
            pending[future] = batch
            completed.add(future)

    try:
        submit()
        while pending:
            future = next(completed)
            batch = pending.pop(future)
            if future.status == "finished":
                seconds, results = future.result()
                spent += seconds
                ended += len(results)
                # None, unless Dask cancelled the task and then wanted it after all.
                waiting.extend(batch[len(results) :])
                for index, (is_row, text) in zip(batch, results):
                    if is_row:
                        progress.keep(index, text)
                    else:
                        errors.append((index, text))
            elif len(batch) > 1:
                # Dask gave up, because several workers died with this task: find the run that is the cause.
                again.extend([index] for index in batch)
            else:
                (index,) = batch
                attempts[index] += 1
                if attempts[index] < ATTEMPTS:
                    again.append(batch)
                else:
                    errors.append((index, f"{runs.line(index)}: {_reason(future)}"))
            if show:
                show(ended, len(progress.missing))
            threads = max(threads, sum(client.nthreads().values())) if ended % 16 == 0 else threads
            submit()
    finally:
        if pending:
            client.cancel(list(pending))
    progress.finish()
    executed = len(progress.missing) - len(errors)
    return executed, len(runs) - len(progress.missing), [text for _, text in sorted(errors)]


def _reason(future: Any) -> str:
    error = future.exception()
    return f"the workers that executed it died, or failed: {type(error).__name__}: {error}"
