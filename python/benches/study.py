"""A study of 2,000 runs (20 recordings, 10 schedulers, 10 settings) without Dask and on 1 and 2 Dask workers: wall and processor time, equal
results, and the efficiency that the measured cost of a task permits on up to 1,000 workers.

    python python/benches/study.py [REQUESTS]          requests per recording; default 2000
    python python/benches/study.py ratio [REQUESTS]    only 2 workers, twice, against no Dask
    python python/benches/study.py overhead            only the cost of a task, and the efficiency that it permits
"""

import heapq
import json
import os
import pathlib
import resource
import sys
import tempfile
import time

import distributed
import numpy

import dwell
from dwell import _cluster, _native

PART = sys.argv[1] if sys.argv[1:2] in (["ratio"], ["overhead"]) else ""
REQUESTS = int(sys.argv[-1]) if sys.argv[-1].isdigit() else 2000
STUDY = """
workloads = ["recordings/*.txt"]
schedulers = ["noop", "deadline", "mq-deadline", "kyber", "bfq", "cooperative", "stream(deadline)", "dwell", "look", "c-scan"]
depths = "1..10"
"""


def recordings(folder):
    """Processes that read sequentially, at random and write, in proportions of their own for each recording."""
    folder.mkdir()
    for number in range(20):
        random = numpy.random.default_rng(number)
        process = random.integers(0, 2 + number % 5, REQUESTS)
        at = numpy.cumsum(random.integers(100_000, 4_000_000, REQUESTS))
        lines = ["# dwell recording 1"]
        ahead = {}
        for n in range(REQUESTS):
            who = int(process[n])
            is_random = random.random() < number / 40
            position = int(random.integers(0, 900_000_000)) if is_random else ahead.get(who, who * 100_000_000)
            ahead[who] = position + 8
            op = "W" if random.random() < number % 4 / 10 else "R"
            lines.append(f"{at[n]} {random.integers(100_000, 9_000_000)} 8,0 {op} {position * 512} 4096 be4 {who + 1} p{who}")
        (folder / f"{number:02}.txt").write_text("\n".join(lines) + "\n")


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in pathlib.Path(folder).rglob("*.parquet")}


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measured(name, work, workers=None):
    before = (time.perf_counter(), own_seconds(), workers() if workers else 0.0)
    result = work()
    wall, own = time.perf_counter() - before[0], own_seconds() - before[1]
    theirs = workers() - before[2] if workers else 0.0
    load = os.getloadavg()[0]
    print(f"{name:24} wall {wall:7.2f} s  processor: client and scheduler {own:6.2f} s, workers {theirs:6.2f} s, all {own + theirs:6.2f} s  (load {load:.1f})")
    return result, wall, own, theirs


def efficiency(workers, seconds_of_task, seconds_of_client, tasks):
    """Tasks that one server hands out, one after another, to workers that compute for a constant time."""
    free = [0.0] * workers
    client = end = 0.0
    for _ in range(tasks):
        client = max(client, heapq.heappop(free)) + seconds_of_client
        end = max(end, client + seconds_of_task)
        heapq.heappush(free, client + seconds_of_task)
    return tasks * seconds_of_task / (workers * end)


def pretended(key, runs, whole, version):
    """Instead of ``_cluster._task``: returns rows that were computed before, and the seconds that the runs would take."""
    import json

    from dwell import _cluster

    batch = json.loads(runs)
    seconds = _cluster.pretended_seconds * len(batch)
    if whole and len(batch) == _cluster.pretended_runs:
        return seconds, len(batch), [], _cluster.pretended_part
    first, row = _cluster.pretended_row
    return seconds, len(batch), [], b"[" + b",".join(row.replace(first, run["id"].encode()) for run in batch) + b"]"


def cost_of_tasks(folder, seconds, seeds):
    """Executes a study without its runs, each of which would take ``seconds``; returns the processor seconds of client and scheduler without those that
    an idle cluster takes, the tasks, the runs, and the elapsed seconds."""
    text = f'workloads = ["par-read"]\nschedulers = ["noop"]\ndepths = "1..31"\nseeds = "1..{seeds}"\nat_most = "100ms"\n'
    runs = _native.Runs.parse("study.toml", text, str(folder), {})
    rows, one = _native.Rows(), _native.Rows()
    run = json.loads(runs.json([0]))[0]
    for of in [one] + [rows] * runs.part_size():
        _native.Executor().execute(json.dumps(run), of)
    values = {
        "pretended_seconds": seconds,
        "pretended_runs": runs.part_size(),
        "pretended_part": rows.part(),
        "pretended_row": (run["id"].encode(), one.json()[1:-1]),
    }
    tasks = []
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=10, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(1)

        def prepare(values):
            from dwell import _cluster

            for name, value in values.items():
                setattr(_cluster, name, value)

        client.run(prepare, values)
        before = own_seconds()
        time.sleep(5)
        idle = (own_seconds() - before) / 5
        keep = _cluster._Progress.keep
        _cluster._Progress.keep = lambda self, batch, rows: (tasks.append(len(batch.runs)), keep(self, batch, rows))
        # The length of a task on a thousand threads instead of ten.
        of_thread, _cluster.TASK_OVERHEAD = _cluster.TASK_OVERHEAD, _cluster.TASK_OVERHEAD * 100
        original, _cluster._task = _cluster._task, pretended
        try:
            began, before = time.perf_counter(), own_seconds()
            _cluster.execute(client, runs, _native.Store(folder / f"pretended-{seconds}"))
            spent, wall = own_seconds() - before, time.perf_counter() - began
        finally:
            _cluster._task, _cluster._Progress.keep, _cluster.TASK_OVERHEAD = original, keep, of_thread
    return spent - idle * wall, len(tasks), len(runs), wall


def overhead():
    with tempfile.TemporaryDirectory() as folder:
        for seconds, seeds in [(0.018, 8500), (0.1, 2000), (0.3, 1000), (0.6, 256), (1.0, 128), (10.0, 32)]:
            spent, tasks, runs, wall = cost_of_tasks(pathlib.Path(folder), seconds, seeds)
            task, cost = seconds * runs / tasks, spent / tasks
            print(
                f"runs of {seconds:g} s: {runs} in {tasks} tasks of {task:.1f} s, each {cost * 1e3:.2f} ms on client and scheduler "
                f"({spent / runs * 1e6:.0f} us a run); {runs / wall:.0f} runs/s elapsed (load {os.getloadavg()[0]:.1f})"
            )
            print("    simulated efficiency:", ", ".join(f"{workers} workers {efficiency(workers, task, cost, 40 * workers):.3f}" for workers in (10, 100, 1000)))


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        recordings(folder / "recordings")
        (folder / "study.toml").write_text(STUDY)
        names = iter(range(100))

        def run(client=None, jobs=None):
            return dwell.study(folder / "study.toml", folder / f"out{next(names)}", client=client, jobs=jobs)

        times = {"alone": [], 1: [], 2: []}
        first, wall, own, _ = measured("without Dask, 2 threads", lambda: run(jobs=2))
        times["alone"].append((wall, own))
        assert first.executed == 2000, first.executed
        for workers in (2, 2) if PART == "ratio" else (2, 1):
            with (
                distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
                distributed.Client(cluster) as client,
            ):
                client.wait_for_workers(workers)
                client.run(lambda: __import__("dwell._cluster"))

                def processor():
                    return sum(client.run(time.process_time).values())

                result, wall, own, theirs = measured(f"Dask, {workers} workers", lambda: run(client), processor)
                times[workers].append((wall, own, theirs))
                assert contents(result.folder) == contents(first.folder), "the results differ"
            _, wall, own, _ = measured("without Dask, 2 threads", lambda: run(jobs=2))
            times["alone"].append((wall, own))
        walls = sorted(wall for wall, _ in times["alone"])
        processor = sorted(own for _, own in times["alone"])
        print("results equal to the byte")
        for wall, own, theirs in times[2]:
            print(f"2 workers / median without Dask: wall {wall / walls[1]:.3f}, processor {(own + theirs) / processor[1]:.3f}")
            print(f"a run {theirs / 2000 * 1e3:.2f} ms on a worker, {own / 2000 * 1e3:.3f} ms on client and scheduler")
        for wall, _, _ in times[1]:
            print(f"efficiency of 2 workers against 1: wall {wall / 2 / times[2][0][0]:.3f}")


if __name__ == "__main__":
    if PART != "overhead":
        main()
    if PART != "ratio":
        overhead()
