import asyncio
import functools
import http.server
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time

import distributed
import pyarrow.parquet
import pytest

import dwell
from dwell import _cluster, _inputs, _native
from dwell.distributed import _Progress, main as command_on_a_cluster

RECORDINGS = pathlib.Path(__file__).resolve().parents[2] / "recordings"
TEXT = """
workloads = ["par-read{processes=2}", "WORKLOAD"]
schedulers = ["noop", "mq-deadline", "stream(deadline)"]
at_most = "100ms"

[tunables.mq-deadline]
fifo_batch = [1, 4, 16]
"""
RUNS = 2 * 5
PROGRAM = os.environ.get("DWELL_PROGRAM") or str(pathlib.Path(sysconfig.get_path("scripts")) / "dwell")


def program(*arguments, **environment):
    """Runs the command of the wheel."""
    environment = {**os.environ, "DWELL_PYTHON": sys.executable, **environment}
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=environment)


@pytest.fixture
def study(tmp_path):
    shutil.copy(RECORDINGS / "two-greps-and-a-copy.ftrace.gz", tmp_path / "io.ftrace.gz")
    path = tmp_path / "study.toml"
    path.write_text(TEXT.replace("WORKLOAD", "io.ftrace.gz"))
    return path


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        yield client


def contents(folder):
    """Every result file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(pathlib.Path(folder).rglob("*.parquet"))}


def test_a_study_on_this_machine(study, tmp_path):
    result = dwell.study(study, tmp_path / "out", jobs=2)
    assert (result.executed, result.skipped) == (RUNS, 0)
    frame = result.to_pandas()
    assert len(frame) == RUNS and set(frame["workload"]) == {"par-read{processes=2}", "io.ftrace.gz"}
    assert result.to_arrow().num_rows == len(result.to_polars()) == RUNS
    assert set(result.to_pandas("processes")["run"]) == set(frame["run"])
    assert "<table>" in result._repr_html_() and "noop" in repr(result)
    result.report(tmp_path / "report.html")
    assert "noop" in (tmp_path / "report.html").read_text()
    with pytest.raises(dwell.InputError, match=r"report\.pdf: a report is HTML; use the extension \.html"):
        result.report(tmp_path / "report.pdf")
    assert not (tmp_path / "report.pdf").exists()
    result.report(os.devnull)
    again = dwell.study(study, tmp_path / "out")
    assert (again.executed, again.skipped) == (0, RUNS)
    assert dwell.study(study, tmp_path / "some", only="noop").executed == 2
    with pytest.raises(dwell.InputError, match="windows need 'window'"):
        result.to_arrow("windows")
    with pytest.raises(dwell.InputError, match="table='run' is none of runs"):
        result.to_arrow("run")


def test_tables_have_the_present_names_of_files(tmp_path):
    for name, count in (("a.ascii", 20), ("b.ascii", 40)):
        (tmp_path / name).write_text("".join(f"{row}.0 0 {row * 8} 8 1\n" for row in range(count)))
    path = tmp_path / "s.toml"
    path.write_text('workloads = ["*.ascii"]\nschedulers = ["noop"]\n')

    def names_and_requests():
        result = dwell.study(path)
        names = list(result.to_pandas()["workload"])
        assert names == list(result.to_polars()["workload"]) == result.to_arrow()["workload"].to_pylist()
        assert list(result.to_pandas()["drive"]) == ["wd5000aaks"] * 2, "the study names no drive"
        return result.executed, dict(zip(names, result.to_pandas()["requests"]))

    assert names_and_requests() == (2, {"a.ascii": 20, "b.ascii": 40})
    (tmp_path / "a.ascii").rename(tmp_path / "c.ascii")
    assert names_and_requests() == (0, {"b.ascii": 40, "c.ascii": 20})
    (tmp_path / "b.ascii").rename(tmp_path / "a.ascii")
    (tmp_path / "c.ascii").rename(tmp_path / "b.ascii")
    assert names_and_requests() == (0, {"a.ascii": 40, "b.ascii": 20})


def test_reasons_have_the_present_names_of_files(tmp_path):
    (tmp_path / "large.fio").write_text("[a]\nrw=read\nbs=4k\noffset=900g\nsize=1g\n")
    path = tmp_path / "s.toml"
    path.write_text('workloads = ["*.fio"]\nschedulers = ["noop"]\n')
    first = dwell.study(path).to_pandas()["failure"][0]
    assert first.startswith("large.fio reaches to sector ")
    (tmp_path / "large.fio").rename(tmp_path / "renamed.fio")
    again = dwell.study(path)
    present = first.replace("large.fio", "renamed.fio")
    assert again.executed == 0 and again.to_pandas()["failure"][0] == present
    assert f"renamed.fio on its drive shown seed 1: noop: {present}" in repr(again).splitlines()


def test_a_changed_bit_of_a_result_is_an_error(study, tmp_path):
    out = tmp_path / "out"
    dwell.study(study, out)
    (part,) = (out / "processes").glob("*.parquet")
    content = part.read_bytes()
    part.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(dwell.InputError, match="its checksum is wrong.*remove runs/part-"):
        dwell.study(study, out)
    (out / "runs" / part.name).unlink()
    assert dwell.study(study, out).executed == RUNS
    assert part.read_bytes() == content
    # Another program keeps the metadata, but writes other bytes.
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(part), part)
    assert b"dwell.crc32" in pyarrow.parquet.read_metadata(part).metadata
    assert dwell.study(study, out).executed == 0
    # A file of as many rows of other runs.
    study.write_text("seeds = [77]\n" + study.read_text())
    dwell.study(study, tmp_path / "other")
    (other,) = (tmp_path / "other" / "processes").glob("*.parquet")
    part.write_bytes(other.read_bytes())
    with pytest.raises(dwell.InputError, match="has the rows of other runs; remove .*part-"):
        dwell.study(study, out)


def test_a_cluster_gives_the_same_bytes(study, tmp_path, client):
    dwell.study(study, tmp_path / "alone")
    result = dwell.study(study, tmp_path / "cluster", client=client)
    assert result.executed == RUNS
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster") != {}
    assert dwell.study(study, tmp_path / "cluster", client=client).executed == 0


def test_a_relative_path_is_one_for_workers_too(study, tmp_path, client, monkeypatch):
    """Workers have another working directory. A run without a result has the same reason everywhere."""
    (tmp_path / "studies").mkdir()
    (tmp_path / "large.fio").write_text("[a]\nrw=read\nbs=4k\noffset=900g\nsize=1g\n")
    text = TEXT.replace('"WORKLOAD"', '"../io.ftrace.gz", "../large.fio"')
    (tmp_path / "studies" / "s.toml").write_text(text)
    dwell.study(tmp_path / "studies" / "s.toml", tmp_path / "alone")
    monkeypatch.chdir(tmp_path)
    assert dwell.study("studies/s.toml", "relative").executed == RUNS + 5
    result = dwell.study("studies/s.toml", "cluster", client=client)
    assert result.executed == RUNS + 5
    failures = {failure for failure in result.to_arrow()["failure"].to_pylist() if failure}
    assert len(failures) == 1 and failures.pop().startswith("../large.fio reaches to sector")
    assert contents("cluster") == contents("relative") == contents("alone") != {}


def test_equal_errors_are_reported_once(study, tmp_path, client, monkeypatch):
    expand = dwell._study._expand

    def removed(*arguments):
        runs = expand(*arguments)
        (tmp_path / "io.ftrace.gz").unlink(missing_ok=True)
        return runs

    monkeypatch.setattr(dwell._study, "_expand", removed)
    for where in ({}, {"client": client}):
        shutil.copy(RECORDINGS / "two-greps-and-a-copy.ftrace.gz", tmp_path / "io.ftrace.gz")
        with pytest.raises(dwell.Error, match="5 of 10 runs could not be executed") as caught:
            dwell.study(study, tmp_path / "out", **where)
        lines = str(caught.value).splitlines()
        assert len(lines) == 2 and ", and 4 further runs: " in lines[1], lines
        assert len(caught.value.result.to_arrow()) == 5, "the others are complete"
        assert any(line.startswith("not executed: ") and ", and 4 further runs: " in line for line in caught.value.result.omissions)


def test_a_run_that_fails_leaves_table_and_report(tmp_path, cluster):
    """On a cluster as on this machine, by the command and by the module."""
    study = tmp_path / "study.toml"
    study.write_text('workloads = ["small.fio", "*.ascii"]\nschedulers = ["noop", "deadline"]\n')
    (tmp_path / "small.fio").write_text("[a]\nrw=read\nbs=4k\nsize=64k\n")
    # Behind the drive's end: no row.
    (tmp_path / "far.ascii").write_text("0.5 0 99999999999 8 1\n")
    (tmp_path / "some.ascii").write_text("0.5 0 8 8 1\n1.5 0 99999999999 8 1\n")
    (tmp_path / "empty.ascii").touch()

    def ended(name, *command):
        report = tmp_path / f"{name}.html"
        # The workers have other working directories.
        command = [*map(str, command), study.name, "--out", str(tmp_path / "out" / name), "--report", str(report)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env={**os.environ, "DWELL_PYTHON": sys.executable})
        return done.returncode, done.stdout, done.stderr.replace(str(tmp_path / "out" / name), "OUT"), report.read_text()

    here = ended("here", PROGRAM, "study")
    on = ["--on", cluster.scheduler_address]
    there = ended("there", PROGRAM, "study", *on)
    assert here[0] == 1 and "regret" in here[1]
    assert "far.ascii on its drive shown seed 1: noop, and 1 further run: " in here[2]
    empty = "empty.ascii on its drive shown seed 1: noop, and 1 further run: empty.ascii: is empty; name a recording"
    assert empty in here[2].splitlines()
    # The lines below the table wrap.
    assert f" not executed: {empty} " in " ".join(here[1].split()) and f"not executed: {empty}" in here[3], here
    assert "some.ascii: 1 request left out" in here[2] and "4 runs could not be executed; the same command tries again" in here[2]
    assert there == here
    module = ended("module", sys.executable, "-m", "dwell.distributed", *on)
    assert (module[0], module[3]) == (1, here[3]) and "regret" in module[1]
    assert module[2].splitlines()[0] in here[2] and module[2].splitlines()[-1] == "dwell: 4 runs could not be executed; the same command tries again"
    assert contents(tmp_path / "out" / "here") == contents(tmp_path / "out" / "there") == contents(tmp_path / "out" / "module")


def test_a_folder_is_free_after_an_error(study, tmp_path):
    """Also while its exception is kept, as notebooks do."""
    (tmp_path / "empty.ascii").write_text("0.5 0 99999999999 8 1\n")
    study.write_text('workloads = ["empty.ascii"]\nschedulers = ["noop"]\n')
    kept = []
    for _ in range(2):
        with pytest.raises(dwell.Error, match="1 of 1 runs could not be executed") as caught:
            dwell.study(study)
        kept.append(caught)


def test_the_tables_stay_where_they_are(study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = dwell.study(study, "here")
    rows = len(result.to_arrow())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(result.to_arrow()) == rows == RUNS and result.folder == "here"


def test_workers_write_whole_parts_of_short_runs(tmp_path, client, monkeypatch):
    study = tmp_path / "study.toml"
    study.write_text('workloads = ["par-read"]\nschedulers = ["noop"]\nat_most = "20ms"\nseeds = "1..600"\nwindow = "10ms"\n')
    dwell.study(study, tmp_path / "alone")
    kept = []
    keep = _cluster._Progress.keep
    monkeypatch.setattr(_cluster._Progress, "keep", lambda self, batch, rows: (kept.append((len(batch.runs), type(rows))), keep(self, batch, rows)))
    # However slow this machine is.
    monkeypatch.setattr(_cluster, "LONG", 1000.0)
    monkeypatch.setattr(_cluster, "SHORT", 1000.0)
    result = dwell.study(study, tmp_path / "cluster", client=client)
    assert result.executed == 600 and sum(count for count, _ in kept) == 600
    # As pickled bytes they are a list.
    assert (64, list) in kept and any(kind is bytes for _, kind in kept)
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster")
    assert not list((tmp_path / "cluster" / "pending").iterdir())


def test_batches_of_a_part():
    progress = object.__new__(_cluster._Progress)
    progress.parts = [list(range(64)), list(range(64, 128)), [128]]

    def batches(size, most):
        progress.waiting = _cluster.deque(_cluster._Batch(part, runs) for part, runs in enumerate(progress.parts))
        found = []
        while progress.waiting:
            found.append(progress.batch(size, most))
        assert [run for batch in found for run in batch.runs] == list(range(129))
        assert all(set(batch.runs) <= set(progress.parts[batch.part]) for batch in found)
        return [(len(batch.runs), progress.is_whole(batch)) for batch in found]

    # Parts of 64 that would take 70 runs' time are whole; otherwise they are divided evenly.
    assert batches(20, 70) == [(64, True), (64, True), (1, True)]
    assert batches(50, 50) == [(32, False)] * 4 + [(1, True)]
    assert batches(1, 0)[:2] == [(1, False), (1, False)]


def test_runs_survive_killed_workers(tmp_path):
    """While a study runs, its workers are killed one after another; the nanny starts others."""
    study = tmp_path / "study.toml"
    study.write_text('workloads = ["par-read"]\nschedulers = ["noop", "stream(deadline)"]\nat_most = "2s"\nseeds = "1..40"\n')
    dwell.study(study, tmp_path / "alone")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=120)
        ended = threading.Event()
        killed = []

        def kill():
            """Kills a worker each time that results have arrived since the last time."""
            pending = tmp_path / "cluster"
            for goal in (1, 20):
                while not ended.is_set() and sum(1 for _ in pending.rglob("*.json")) + 64 * sum(1 for _ in pending.rglob("part-*")) < goal:
                    time.sleep(0.01)
                if not ended.is_set():
                    (worker,) = list(client.run(os.getpid).values())[:1]
                    os.kill(worker, signal.SIGKILL)
                    killed.append(worker)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            result = dwell.study(study, tmp_path / "cluster", client=client)
        finally:
            ended.set()
            killer.join()
    assert result.executed == 80 and killed
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster")


def test_results_that_are_lost_with_their_worker_are_computed_again(tmp_path, monkeypatch):
    """A worker is killed after the end of its task, before the client has the rows."""
    study = tmp_path / "study.toml"
    study.write_text('workloads = ["par-read"]\nschedulers = ["noop"]\nat_most = "200ms"\nseeds = "1..40"\n')
    dwell.study(study, tmp_path / "alone")
    lost = []

    class Completed(distributed.as_completed):
        def next_batch(self, *arguments, **keywords):
            ready = super().next_batch(*arguments, **keywords)
            if not lost:
                client, deadline = ready[0].client, time.monotonic() + 60
                for worker in list(client.run(os.getpid).values()):
                    os.kill(worker, signal.SIGKILL)
                while ready[0].status == "finished" and time.monotonic() < deadline:
                    time.sleep(0.001)
                lost.append(ready[0].status)
            return ready

    monkeypatch.setattr(distributed, "as_completed", Completed)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=120)
        result = dwell.study(study, tmp_path / "cluster", client=client)
    assert lost == ["lost"] and result.executed == 40
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster")


def test_a_cluster_without_workers_is_reported(tmp_path, monkeypatch, capsys):
    """All workers of a local cluster are lost for good; the study continues on those that come later."""
    monkeypatch.setattr(_cluster, "WATCH_SECONDS", 0.2)
    study = tmp_path / "study.toml"
    study.write_text('workloads = ["par-read"]\nschedulers = ["noop"]\nat_most = "2s"\nseeds = "1..80"\n')
    dwell.study(study, tmp_path / "alone")
    printed = []
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(1, timeout=120)

        def lose():
            wait_until(lambda: any((tmp_path / "cluster").rglob("*.json")))
            cluster.scale(0)
            wait_until(lambda: not client.nthreads())
            wait_until(lambda: printed.append(capsys.readouterr().err) or "no worker" in "".join(printed))
            cluster.scale(2)

        loser = threading.Thread(target=lose)
        loser.start()
        result = dwell.study(study, tmp_path / "cluster", client=client)
        loser.join()
    assert "".join(printed).count("dwell: the cluster has no worker; waiting for one. Ctrl-C ends the study") == 1
    assert result.executed == 80 and contents(tmp_path / "alone") == contents(tmp_path / "cluster")


def test_a_cluster_that_has_no_worker_yet(study, tmp_path, capsys):
    with (
        distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        later = threading.Timer(1, cluster.scale, [1])
        later.start()
        assert dwell.study(study, tmp_path / "cluster", client=client).executed == RUNS
        later.join()
    assert capsys.readouterr().err.count("dwell: the cluster has no worker; waiting for one") == 1


def test_an_asynchronous_client(study, tmp_path, cluster):
    async def run():
        async with distributed.Client(cluster.scheduler_address, asynchronous=True) as client:
            with pytest.raises(dwell.InputError, match="client is asynchronous; pass"):
                dwell.study(study, tmp_path / "out", client=client)

    asyncio.run(run())


def test_addresses(study, tmp_path, client):
    by_address = tmp_path / "address.toml"
    by_address.write_text(TEXT.replace("WORKLOAD", f"file://{tmp_path}/*.ftrace.gz"))
    named = dwell.study(study, tmp_path / "named").to_pandas()
    # Workers on other machines have copies of their own.
    client.run(lambda path: __import__("os").environ.__setitem__("DWELL_CACHE", path), str(tmp_path / "copies"))
    for folder, keywords in [("here", {}), ("there", {"client": client})]:
        frame = dwell.study(by_address, tmp_path / folder, **keywords).to_pandas()
        assert list(frame["run"]) == list(named["run"]), "an identifier depends on contents"
        assert list(frame["mb_per_s"]) == list(named["mb_per_s"])
        assert f"file://{tmp_path}/io.ftrace.gz" in set(frame["workload"])
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    assert len(list((tmp_path / "copies").iterdir())) == 1
    by_address.write_text(TEXT.replace("WORKLOAD", f"file://{tmp_path}/none*.gz"))
    with pytest.raises(dwell.InputError, match="nothing matches"):
        dwell.study(by_address)
    by_address.write_text(TEXT.replace("WORKLOAD", "nosuch://bucket/a.gz"))
    with pytest.raises(dwell.InputError, match="nosuch://bucket/a.gz: cannot be read"):
        dwell.study(by_address)


def test_addresses_of_a_server(study, tmp_path, cluster):
    """By http, in the command without and with a cluster."""
    pytest.importorskip("aiohttp")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/io.ftrace.gz"
        by_address = tmp_path / "address.toml"
        by_address.write_text(TEXT.replace("WORKLOAD", address))
        try:
            for name, options in [("here", []), ("there", ["--on", cluster.scheduler_address])]:
                ended = program("study", *options, by_address, "--out", tmp_path / name)
                assert ended.returncode == 0, ended.stderr
                assert address in set(pyarrow.parquet.read_table(tmp_path / name / "runs")["workload"].to_pylist())
            assert contents(tmp_path / "here") == contents(tmp_path / "there")
            by_address.write_text(TEXT.replace("WORKLOAD", address + ".none"))
            ended = program("study", by_address, "--out", tmp_path / "none")
            assert ended.returncode == 6 and address + ".none: cannot be read" in ended.stderr, ended.stderr
        finally:
            server.shutdown()


def test_a_worker_of_another_version_that_joins_later(study, tmp_path, client, monkeypatch):
    """The check at the start does not see it."""
    from dwell import _cluster, _inputs, _native

    monkeypatch.setattr(_cluster, "check", lambda client: None)
    worker = next(iter(client.nthreads()))

    def become(version):
        import dwell

        dwell._native.simulator = version

    client.run(become, "0.0.0+other", workers=[worker])
    try:
        with pytest.raises(dwell.InputError, match=r"worker .* has dwell 0\.0\.0\+other, this client .*; install the same wheel"):
            dwell.study(study, tmp_path / "out", client=client)
    finally:
        client.run(become, dwell._native.simulator, workers=[worker])
    dwell.study(study, tmp_path / "out", client=client)
    dwell.study(study, tmp_path / "here")
    assert contents(tmp_path / "out") == contents(tmp_path / "here")


def test_no_file_of_a_split_is_hidden(tmp_path):
    columns = {"device": ["", "_"], "at_ns": [0, 1], "op": [0, 0], "offset": [0, 0], "bytes": [4096, 4096]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "many.parquet")
    ended = program("trace", "split", tmp_path / "many.parquet", tmp_path / "volumes")
    assert ended.returncode == 0, ended.stderr
    assert sorted(path.name for path in (tmp_path / "volumes").iterdir()) == ["_-2.parquet", "_.parquet"]


def test_the_reason_of_a_server_that_refuses(tmp_path):
    pytest.importorskip("aiohttp")
    study = tmp_path / "study.toml"
    study.write_text(TEXT.replace("WORKLOAD", "http://127.0.0.1:1/io.gz"))
    with pytest.raises(dwell.InputError, match="http://127.0.0.1:1/io.gz: cannot be read: Cannot connect"):
        dwell.study(study)


def test_addresses_of_a_file_in_the_command(study, tmp_path):
    by_address = tmp_path / "address.toml"
    by_address.write_text(TEXT.replace("WORKLOAD", f"file://{tmp_path}/*.ftrace.gz"))
    ended = program("study", by_address, "--out", tmp_path / "out")
    assert ended.returncode == 0 and f"{RUNS} runs executed" in ended.stderr, ended.stderr
    ended = program("study", by_address, "--out", tmp_path / "out", DWELL_PYTHON="/nonexistent/python")
    assert ended.returncode == 1 and "an address is opened by the Python package" in ended.stderr, ended.stderr
    assert "pip install" in ended.stderr


def test_a_scheduler_and_a_drive_by_address(tmp_path, client):
    (tmp_path / "slow.toml").write_text('scheduler = "deadline"\nfifo_batch = 3\n')
    study = tmp_path / "study.toml"
    text = 'workloads = ["par-read"]\nschedulers = ["{}", "noop"]\nat_most = "100ms"\n'
    for name, place in [("named", "slow.toml"), ("here", f"file://{tmp_path}/slow.toml"), ("there", f"file://{tmp_path}/slow.toml")]:
        study.write_text(text.format(place))
        dwell.study(study, tmp_path / name, client=client if name == "there" else None)
    assert contents(tmp_path / "named") == contents(tmp_path / "here") == contents(tmp_path / "there") != {}
    study.write_text(text.format(f"file://{tmp_path}/none.toml"))
    with pytest.raises(dwell.InputError, match="none.toml: cannot be read"):
        dwell.study(study)


def test_a_failed_copy_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("DWELL_CACHE", str(tmp_path / "copies"))
    study = tmp_path / "study.toml"
    study.write_text(TEXT.replace("WORKLOAD", f"file://{tmp_path}/none.gz"))
    with pytest.raises(dwell.InputError, match="none.gz: cannot be read"):
        dwell.study(study)
    assert list((tmp_path / "copies").iterdir()) == []


def test_addresses_in_memory(study, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://dwell/io.ftrace.gz", "wb") as file:
        file.write((tmp_path / "io.ftrace.gz").read_bytes())
    by_address = tmp_path / "address.toml"
    by_address.write_text(TEXT.replace("WORKLOAD", "memory://dwell/*.gz"))
    result = dwell.study(by_address, tmp_path / "memory")
    named = dwell.study(study, tmp_path / "named")
    assert list(result.to_pandas()["run"]) == list(named.to_pandas()["run"])
    ended = program("study", by_address, "--out", tmp_path / "other")
    assert ended.returncode == 6 and "exists in the Python process that wrote it only" in ended.stderr, ended.stderr


def test_a_signal_ends_the_command_and_its_child(tmp_path, cluster):
    """SIGTERM to the command alone: the package ends as well, and the same command continues."""
    study = tmp_path / "study.toml"
    study.write_text('workloads = ["par-read"]\nschedulers = ["noop"]\nat_most = "2s"\nseeds = "1..100"\n')
    command = [PROGRAM, "study", "--on", cluster.scheduler_address, str(study), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "DWELL_PYTHON": sys.executable}
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    deadline = time.monotonic() + 120
    while not any((tmp_path / "out").rglob("*.json")) and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGTERM)
    _, messages = running.communicate(timeout=120)
    if running.returncode != 0:  # Otherwise the study was complete.
        assert running.returncode == 130, messages
    with distributed.Client(cluster) as client:
        deadline = time.monotonic() + 120
        while any(client.processing().values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(client.processing().values())
    ended = program("study", study, "--out", tmp_path / "out", "--jobs", "2")
    assert ended.returncode == 0, ended.stderr
    assert pyarrow.parquet.read_table(tmp_path / "out" / "runs").num_rows == 100


def test_a_signal_ends_the_runs_on_workers(tmp_path, cluster):
    """Runs that would take hours end with the command, so that the workers are free for other tasks."""
    study = tmp_path / "study.toml"
    study.write_text('workloads = ["par-read"]\nschedulers = ["noop"]\nat_most = "1s"\nseeds = "1..2"\n')
    assert program("study", study, "--out", tmp_path / "out", "--on", cluster.scheduler_address).returncode == 0
    long = study.read_text().replace('["par-read"]', '["par-read{processes=2, request_bytes=512, file_bytes=200000000000, apart_bytes=200000000000}"]').replace('"1s"', '"900000000s"')
    study.write_text(long)
    command = [PROGRAM, "study", "--on", cluster.scheduler_address, str(study), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "DWELL_PYTHON": sys.executable}
    with distributed.Client(cluster) as client:
        for number in (signal.SIGTERM, signal.SIGKILL):
            running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
            wait_until(lambda: all(client.run(executing).values()) or running.poll() is not None)
            assert running.poll() is None, running.communicate()
            os.kill(running.pid, number)
            running.communicate(timeout=120)
            wait_until(lambda: not any(client.run(executing).values()))
        assert client.submit(sum, [1, 2], pure=False).result(timeout=60) == 3
    study.write_text(long.replace("900000000s", "2s"))
    assert dwell.study(study, tmp_path / "out").executed == 2


#: The number of tasks that a worker's threads execute, cancelled ones included. Not a function with a name: workers cannot import this module.
executing = lambda dask_worker: sum(task.state in ("executing", "cancelled") for task in dask_worker.state.tasks.values())  # noqa: E731


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 120 s"
        time.sleep(0.05)


def test_advice_installs_no_other_project_of_the_same_name(study, tmp_path, monkeypatch):
    """The package is not on PyPI, so that 'pip install dwell[dask]' would install something else."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(dwell.InputError, match=r"pip install distributed fsspec pyarrow\)"):
        dwell.study(study, tmp_path / "out", client="tcp://127.0.0.1:1")


def test_a_command_of_another_version_is_refused(study, tmp_path, capsys):
    """It would find none of the rows, and execute all runs again."""
    arguments = [str(study), "--on", "tcp://127.0.0.1:1", "--out", str(tmp_path / "out"), "--simulator", "0.0.0+0"]
    assert command_on_a_cluster(arguments) == 2
    assert "the command has dwell 0.0.0+0, the Python package" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_client_by_its_address(study, tmp_path, cluster):
    assert dwell.study(study, tmp_path / "out", client=cluster.scheduler_address).executed == RUNS
    with pytest.raises(dwell.InputError, match="no Dask scheduler answers"):
        dwell.study(study, tmp_path / "none", client="tcp://127.0.0.1:1")
    # Without a client of Dask's, which prints a traceback when it is collected.
    for address in ("", " ", "localhost", "http://localhost:8787", "tcp://localhost:x"):
        with pytest.raises(dwell.InputError, match="is no address of a Dask scheduler: .*; write it as tcp://host:8786"):
            dwell.study(study, tmp_path / "none", client=address)

    with pytest.raises(dwell.InputError, match="^tls://127.0.0.1:1: Dask cannot use tls here: .*TLS"):
        dwell.study(study, tmp_path / "none", client="tls://127.0.0.1:1")
    with pytest.raises(dwell.InputError, match="inproc://x: is the address of a scheduler in this process"):
        dwell.study(study, tmp_path / "none", client="inproc://x")

    class Closed:
        status = "closed"
        submit = nthreads = None

    with pytest.raises(dwell.InputError, match="client is closed; pass a distributed.Client that is connected"):
        dwell.study(study, client=Closed())
    with pytest.raises(TypeError, match="client is int; pass a distributed.Client, or the address"):
        dwell.study(study, tmp_path / "none", client=3)


def test_reduced_depths_are_reported(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text('workloads = ["par-read"]\nschedulers = ["noop"]\ndepths = [4, 128]\nat_most = "100ms"\n')
    result = dwell.study(study)
    assert result.notes == [f"{study}: depth 128: wd5000aaks queues at most 31 commands; the depth is 31"]
    assert result.notes[0] in repr(result) and result.notes[0] in result._repr_html_()


def test_omissions_are_reported(tmp_path):
    (tmp_path / "io.ascii").write_text("0.5 0 8 8 1\nnonsense\n2.5 0 80 8 1\n")
    study = tmp_path / "study.toml"
    study.write_text('workloads = ["io.ascii"]\nschedulers = ["noop"]\n')
    result = dwell.study(study)
    assert result.omissions == ["io.ascii: 1 request left out: 1 malformed, left out (first: line 2)"]
    assert result.omissions[0] in repr(result) and list(result.to_pandas()["left_out"]) == [1]


def test_a_changed_file_is_found_by_the_workers(study, tmp_path, client, monkeypatch):
    expand = dwell._study._expand

    def changed(*arguments):
        runs = expand(*arguments)
        (tmp_path / "io.ftrace.gz").write_bytes(b"other")
        return runs

    monkeypatch.setattr(dwell._study, "_expand", changed)
    with pytest.raises(dwell.Error, match="5 of 10 runs could not be executed") as caught:
        dwell.study(study, tmp_path / "out", client=client)
    assert "this worker's workload has another content" in str(caught.value)
    assert pyarrow.parquet.read_table(tmp_path / "out" / "runs").num_rows == 5


def test_the_command(study, tmp_path, cluster):
    command = [sys.executable, "-m", "dwell.distributed", "--on", cluster.scheduler_address, str(study), "--out", str(tmp_path / "out")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert f"{RUNS} runs executed, 0 complete before" in ended.stderr and "noop" in ended.stdout
    # The same by the program, which prints its own table.
    program = os.environ.get("DWELL_PROGRAM") or pathlib.Path(sysconfig.get_path("scripts")) / "dwell"
    command = [program, "study", "--on", cluster.scheduler_address, str(study), "--out", str(tmp_path / "program")]
    environment = {**os.environ, "DWELL_PYTHON": sys.executable}
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert f"{RUNS} runs executed" in ended.stderr and "regret" in ended.stdout
    assert contents(tmp_path / "out") == contents(tmp_path / "program")
    ended = subprocess.run([*command[:3], "tcp://127.0.0.1:1", *command[4:]], cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment)
    assert ended.returncode == 2 and "tcp://127.0.0.1:1: no Dask scheduler answers" in ended.stderr, ended.stderr
    assert len(ended.stderr.splitlines()) == 2, ended.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workloads = 3", "study.toml:1"),
        ('workloads = ["nothing"]\nschedulers = ["noop"]', "study.toml:1: workloads: 'nothing' is"),
        ('workloads = ["par-read"]\nschedulers = ["nop"]', "did you mean 'noop'"),
    ],
)
def test_wrong_studies(tmp_path, text, expected):
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(dwell.InputError) as caught:
        dwell.study(path)
    assert expected in str(caught.value)


def test_wrong_arguments(study, tmp_path):
    with pytest.raises(dwell.InputError, match="no run contains"):
        dwell.study(study, only=["nothing"])
    with pytest.raises(dwell.InputError, match="cannot be read"):
        dwell.study(tmp_path / "none.toml")
    with pytest.raises(dwell.InputError, match="name a folder"):
        dwell.study(study, study)
    with pytest.raises(dwell.InputError, match="out='s3://bucket/out' is an address"):
        dwell.study(study, "s3://bucket/out")
    with pytest.raises(dwell.InputError, match="jobs=0"):
        dwell.study(study, jobs=0)
    with pytest.raises(dwell.InputError, match="another process writes this study"):
        store = dwell._native.Store(tmp_path / "out")
        dwell.study(study, tmp_path / "out")
    del store


def test_a_damaged_copy_of_an_address_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("DWELL_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "a.txt"
    source.write_text("right")
    expected = _native.sha256(str(source))
    copy = pathlib.Path(_inputs._local(f"file://{source}", expected, "workload"))
    copy.write_text("wrong!")
    assert pathlib.Path(_inputs._local(f"file://{source}", expected, "workload")).read_text() == "right"
    source.write_text("another")
    copy.write_text("wrong!!")
    with pytest.raises(dwell.InputError, match="another content than the client's"):
        _inputs._local(f"file://{source}", expected, "workload")


def test_progress_without_a_terminal_is_a_line_a_minute(monkeypatch, capsys):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    progress = _Progress(on_terminal=False)
    for second in range(0, 150, 10):
        clock[0] = 100.0 + second
        progress(second, 200)
    progress.clear()
    assert capsys.readouterr().err == "60/200 runs (about 140 s left)\n120/200 runs (about 80 s left)\n"
