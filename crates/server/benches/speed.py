#!/usr/bin/env python3
"""Server CPU per operation and operations per second, side by side in one run.

    cargo build --release -p dwell-server --example serve
    crates/server/benches/speed.py TARGET/release/examples/serve            # through NBD; about 6 minutes
    crates/server/benches/speed.py TARGET/release/examples/serve --loop     # FUSE + loop; as root; about 1 minute
    crates/server/benches/speed.py TARGET/release/examples/serve --device /dev/X    # WRITES OVER the first GiB of /dev/X

Through NBD on a unix socket, fio's nbd engine: Dwell's memory back end under `deadline`, beside nbdkit (memory) and
qemu-storage-daemon (null-co with read-zeroes=off). The servers take turns within each round; peers that are not installed
are skipped, loudly. With --device all three serve that block device, Dwell and QEMU by io_uring past the page cache,
nbdkit (file) through it. Through FUSE and a loop device, fio's libaio: Dwell alone. Every disk is filled with data first: an
empty one answers reads with holes, which moves nothing.

CPU is the server's own (user and system, all of its threads, also those that ended). Medians of the rounds with the least
and the greatest; the load of the machine stands beside each round.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOBS = {
    "read-4k-32": ["--rw=randread", "--bs=4k", "--iodepth=32"],
    "write-4k-32": ["--rw=randwrite", "--bs=4k", "--iodepth=32"],
    "read-128k-8": ["--rw=read", "--bs=128k", "--iodepth=8"],
    "write-128k-8": ["--rw=write", "--bs=128k", "--iodepth=8"],
    "read-4k-1": ["--rw=randread", "--bs=4k", "--iodepth=1"],
}


def commands(serve, socket, device):
    """How each server is started; with the program that must be there."""
    if device:
        what, plugin = ["--file", device], ["file", device]
        node = f"host_device,node-name=n,filename={device},cache.direct=on,aio=io_uring"
    else:
        what, plugin = ["--memory", "1G"], ["memory", "size=1G"]
        node = "null-co,node-name=n,size=1073741824,read-zeroes=off"
    dwell = [serve, *what, "--scheduler", "deadline"]
    return {
        "dwell": [*dwell, "--nbd", f"unix:{socket}"],
        "dwell-sleep": [*dwell, "--nbd", f"unix:{socket}", "--poll", "0"],
        "nbdkit": ["nbdkit", "-f", "-U", socket, *plugin],
        "qemu": ["qemu-storage-daemon", "--blockdev", node, "--nbd-server", f"addr.type=unix,addr.path={socket}",
                 "--export", "nbd,id=e,node-name=n,name=,writable=on"],
        "dwell-loop": [*dwell, "--attach", "--runtime", f"{socket}.run"],
    }


def cpu_seconds(pid):
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """A server that is up, with what fio is to be told of it."""

    def __init__(self, name, command, socket, log):
        for old in (socket, log):
            Path(old).unlink(missing_ok=True)
        self.process = subprocess.Popen(command, stdout=open(log, "w"))
        for _ in range(200):
            time.sleep(0.05)
            if self.process.poll() is not None:
                break
            if name.endswith("loop"):
                served = [line.split()[1] for line in Path(log).read_text().splitlines() if line.startswith("serving ")]
                if served and Path(served[0]).is_block_device():
                    self.target = [f"--filename={served[0]}", "--direct=1", "--ioengine=libaio"]
                    return
            elif Path(socket).is_socket():
                self.target = ["--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}"]
                return
        self.stop()
        sys.exit(f"{name} does not start")

    def fio(self, *arguments):
        command = ["fio", "--name=job", "--size=1G", "--output-format=json", *self.target, *arguments]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return json.loads(text[text.index("{"):])["jobs"][0]

    def job(self, seconds, arguments):
        before = cpu_seconds(self.process.pid)
        job = self.fio("--time_based", f"--runtime={seconds}", *arguments)
        cpu = cpu_seconds(self.process.pid) - before
        sides = [job["read"], job["write"]]
        operations = sum(side["total_ios"] for side in sides)
        side = max(sides, key=lambda side: side["total_ios"])
        return {
            "rate": sum(side["iops"] for side in sides),
            "cpu": cpu * 1e6 / max(operations, 1),
            "p50": side["clat_ns"]["percentile"]["50.000000"] / 1e3,
            "mb": sum(side["bw_bytes"] for side in sides) / 1e6,
        }

    def stop(self):
        self.process.terminate()
        self.process.wait()


def spread(values, digits):
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("serve", help="the example 'serve' of this crate, built for release")
    parser.add_argument("--loop", action="store_true", help="FUSE + loop instead of NBD; needs root")
    parser.add_argument("--device", help="a block device to serve instead of memory; its first GiB is written over")
    parser.add_argument("--seconds", type=int, default=4, help="of each job")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--servers", nargs="+", default=["dwell", "nbdkit", "qemu"])
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    options = parser.parse_args()
    servers = ["dwell-loop"] if options.loop else options.servers
    measured = {}
    with tempfile.TemporaryDirectory() as work:
        socket, log = f"{work}/sock", f"{work}/log"
        known = commands(options.serve, socket, options.device)
        for missing in [name for name in servers if not shutil.which(known[name][0])]:
            print(f"SKIPPED: {known[missing][0]} is not installed", file=sys.stderr)
            servers.remove(missing)
        for number in range(options.rounds):
            print(f"round {number + 1}, load {os.getloadavg()[0]:.1f}", flush=True)
            for turn in range(len(servers)):
                name = servers[(turn + number) % len(servers)]
                server = Server(name, known[name], socket, log)
                try:
                    server.fio("--rw=write", "--bs=1M", "--iodepth=8")
                    for job in options.jobs:
                        result = server.job(options.seconds, JOBS[job])
                        measured.setdefault((job, name), []).append(result)
                        print(f"  {name:11} {job:13} {result['rate']:9.0f}/s {result['cpu']:7.2f} us", flush=True)
                finally:
                    server.stop()
    print(f"\n{'':26} {'server CPU, us':>24} {'operations/s':>30} {'p50, us':>8} {'MB/s':>7}")
    for job in options.jobs:
        for name in servers:
            of = measured[job, name]
            column = {key: [result[key] for result in of] for key in of[0]}
            p50, mb = statistics.median(column["p50"]), statistics.median(column["mb"])
            print(f"{job:13} {name:12} {spread(column['cpu'], 2):>24} {spread(column['rate'], 0):>30} {p50:8.1f} {mb:7.0f}")


main()
