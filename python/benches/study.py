"""A study of 2,000 runs (20 recordings, 10 schedulers, 10 settings) without Dask and on 1 and 2 Dask workers: wall and processor time, equal
results, and the efficiency that the measured cost of a task permits on up to 1,000 workers.

    python python/benches/study.py [REQUESTS]      requests per recording; default 2000
"""

import heapq
import os
import pathlib
import resource
import sys
import tempfile
import time

import distributed
import numpy

import dwell

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
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


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        recordings(folder / "recordings")
        (folder / "study.toml").write_text(STUDY)
        names = iter(range(100))

        def run(client=None, jobs=None):
            return dwell.study(folder / "study.toml", folder / f"out{next(names)}", client=client, jobs=jobs)

        times = {}
        first, wall, own, _ = measured("without Dask, 2 threads", lambda: run(jobs=2))
        times["alone"] = [(wall, own)]
        assert first.executed == 2000, first.executed
        for workers in (2, 1):
            with (
                distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
                distributed.Client(cluster) as client,
            ):
                client.wait_for_workers(workers)
                client.run(lambda: __import__("dwell._cluster"))

                def processor():
                    return sum(client.run(time.process_time).values())

                result, wall, own, theirs = measured(f"Dask, {workers} workers", lambda: run(client), processor)
                times[workers] = (wall, own, theirs)
                assert contents(result.folder) == contents(first.folder), "the results differ"
            _, wall, own, _ = measured("without Dask, 2 threads", lambda: run(jobs=2))
            times["alone"].append((wall, own))
        walls = sorted(wall for wall, _ in times["alone"])
        processor = sorted(own for _, own in times["alone"])
        print("results equal to the byte")
        print(f"2 workers / without Dask: wall {times[2][0] / walls[1]:.3f}, processor {(times[2][1] + times[2][2]) / processor[1]:.3f}")
        print(f"efficiency of 2 workers against 1: wall {times[1][0] / 2 / times[2][0]:.3f}")
        per_run, client_per_run = times[2][2] / 2000, times[2][1] / 2000
        batch = max(1, min(64, round(0.5 / per_run)))
        task, cost = per_run * batch, client_per_run * batch
        print(f"a run {per_run * 1e3:.2f} ms on a worker, {client_per_run * 1e3:.3f} ms on client and scheduler; a task of {batch} runs {task:.2f} s")
        for workers in (2, 10, 100, 300, 1000):
            here = efficiency(workers, task, cost, 40 * workers)
            long = efficiency(workers, 10.0, client_per_run, 40 * workers)
            print(f"simulated, {workers:5} workers: efficiency {here:.3f}; with runs of 10 s, one a task: {long:.3f}")


if __name__ == "__main__":
    main()
