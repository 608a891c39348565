"""Recordings on S3, on an emulated server, by Dask workers that are processes. Needs moto[server], boto3 and s3fs."""

import pathlib

import pytest

pytest.importorskip("s3fs")
boto3 = pytest.importorskip("boto3")
server = pytest.importorskip("moto.server")
distributed = pytest.importorskip("distributed")

import dwell  # noqa: E402

RECORDING = pathlib.Path(__file__).resolve().parents[2] / "recordings" / "two-greps-and-a-copy.ftrace.gz"
STUDY = 'workloads = ["WORKLOAD"]\nschedulers = ["noop", "bfq"]\nat_most = "300ms"\n'


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    started = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    address = "http://{}:{}".format(*started.get_host_and_port())
    settings = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": address}
    for name, value in {**settings, "DWELL_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3", endpoint_url=address)
    s3.create_bucket(Bucket="bucket")
    s3.upload_file(str(RECORDING), "bucket", "2024/one.ftrace.gz")
    yield "s3://bucket/2024/*.gz"
    started.stop()


def test_recordings_on_s3_by_dask_workers(bucket, tmp_path):
    for name, workload in (("far", bucket), ("near", RECORDING)):
        (tmp_path / f"{name}.toml").write_text(STUDY.replace("WORKLOAD", str(workload)))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        far = dwell.study(tmp_path / "far.toml", tmp_path / "far", client=client).to_pandas()
    near = dwell.study(tmp_path / "near.toml", tmp_path / "near").to_pandas()
    assert set(far["workload"]) == {"s3://bucket/2024/one.ftrace.gz"}
    results = ["workload_sha256", "scheduler", "elapsed_ns", "bytes", "p99_ns"]
    rows = [list(map(tuple, frame[results].to_numpy())) for frame in (far, near)]
    assert sorted(rows[0]) == sorted(rows[1]) and len(rows[1]) == 2
