"""Databases, containers, virtual machines and a replicated store. Each experiment returns {case: {figure: value}} for one round."""

import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from .basic import MB
from .device import MIB, Device, Found, result, run, wanted

# ---- Databases beside a copy of a large file.

# The server's scheduler, whether it has causes, the kernel's elevator on the device, the copy's limit.
BESIDE_A_COPY = {
    "deadline": ("deadline", False, None, None),
    "split-deadline": ("split-deadline", True, None, None),
    "bfq": ("noop", False, "bfq", None),
    "bfq weights": ("noop", False, "bfq", "weights"),
    "throttle": ("deadline", False, None, "throttle"),
}


def beside_a_copy(options, database):
    """Figures of a database, and of the copy beside it; `none`: without the copy, under deadline."""
    found = Found(options)
    for case, (scheduler, causes, elevator, limit) in wanted(options, [("none", BESIDE_A_COPY["deadline"]), *BESIDE_A_COPY.items()]):
        with Device(options, scheduler, causes, elevator) as device:
            source = device.lay_out("source", 256 * MIB)
            groups = [None, None]
            if limit == "weights":
                groups = [device.cgroup("database", bfq_weight=1000), device.cgroup("copy", bfq_weight=1)]
            elif limit == "throttle":
                groups[1] = device.cgroup("copy", rate=20 * MB)
            nice = [None, None] if causes or limit else [0, 7]
            settings = {"account": "database", "terms": ["--fsync-deadline", "100ms"], "nice": nice[0], "cgroup": groups[0]}
            begin = lambda: None if case == "none" else device.start("copier", source.name, "copy", [], nice[1], cgroup=groups[1])
            figures, copier = database(options, device, settings, begin)
            if copier:
                figures["copy MB/s"] = result(copier)["per_second"] / MB
        found.add(case, figures)
    return found


def sqlite(options):
    """Commits to SQLite: the time of each in ms."""
    def database(_, device, settings, begin):
        copier = begin()
        commits = result(device.start("sqlite", "database", **settings))
        return {figure: commits[figure] for figure in ("count", "p50_ms", "p99_ms", "max_ms")}, copier

    return beside_a_copy(options, database)


def postgres(options):
    """PostgreSQL under pgbench with four clients: transactions per second and the time of each in ms."""
    programs = max(glob.glob("/usr/lib/postgresql/*/bin"), default=None)
    if not programs:
        raise SystemExit("install postgresql")
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]

    def database(options, device, settings, begin):
        data = device.files / "database"
        run("install", "-d", "-o", "postgres", "-m", "700", data)
        run(*user, f"{programs}/initdb", "--no-sync", "-A", "trust", "-D", data)
        with tempfile.TemporaryDirectory(prefix="dwell-split-live-") as sockets:
            shutil.chown(sockets, "postgres")
            # A checkpoint during each run.
            tuned = ["-c", "listen_addresses=", "-c", "shared_buffers=64MB", "-c", "checkpoint_timeout=30s"]
            server = device.launch([*user, f"{programs}/postgres", "-D", data, "-k", sockets, *tuned], **settings, is_quiet=True)
            try:
                until = time.monotonic() + 60
                while subprocess.run(["pg_isready", "-q", "-h", sockets, "-U", "postgres"]).returncode:
                    if time.monotonic() > until:
                        raise SystemExit("postgres does not start")
                    time.sleep(0.2)
                connection = ["-h", sockets, "-U", "postgres", "postgres"]
                run("pgbench", "-q", "-i", "-s", 5, *connection)
                run("sync", "-f", device.files)
                copier, begun = begin(), time.time()
                seconds = round(options.warm_up + options.seconds)
                run(*device.priority(["pgbench", "-n", "-c", 4, "-T", seconds, "-l", "--log-prefix", f"{sockets}/log", *connection]))
                waits = []
                for log in pathlib.Path(sockets).glob("log.*"):
                    lines = [line.split() for line in log.read_text().splitlines()]
                    # Client, transaction, microseconds, script, second and microsecond of its end.
                    waits += [int(line[2]) / 1e3 for line in lines if int(line[4]) >= begun + options.warm_up]
            finally:
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGINT)
                # It writes a checkpoint and removes its shared memory.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(30)
        waits.sort()
        rank = lambda share: waits[min(len(waits) - 1, int(share * len(waits)))]
        return {"transactions/s": len(waits) / options.seconds, "p50_ms": rank(0.5), "p99_ms": rank(0.99), "max_ms": waits[-1]}, copier

    return beside_a_copy(options, database)


# ---- A reader beside a container or a virtual machine that writes.

def machines(options):
    """The reader's MB/s, and what the container or guest causes, with a rate and without one."""
    found = Found(options)
    cases = [("none", None, None), ("container", container, True), ("container, no rate", container, False),
             ("guest", guest, True), ("guest, no rate", guest, False)]
    for case, start, is_limited in wanted(options, cases):
        with Device(options, "split-token", True) as device, tempfile.TemporaryDirectory(prefix="dwell-split-live-") as directory:
            device.lay_out("read", options.file_mib * MIB)
            if start:
                start(options, device, pathlib.Path(directory), ["--rate", options.rate] if is_limited else [])
            begun, before = time.monotonic(), device.accounts().get("machine")
            reader = result(device.start("reader", "read", "reader"))
            figures = {"reader MB/s": reader["per_second"] / MB, "longest read ms": reader["max_ms"]}
            if start:
                after = device.accounts()["machine"]
                caused = sum(after[part] - before[part] for part in ("data", "metadata", "dirty"))
                figures["machine MB/s"] = caused / MB / (time.monotonic() - begun)
                # It may be in debt, and would wait for tokens.
                run(options.dwell, "ctl", device.control, "switch", "noop")
        found.add(case, figures, "none")
    return found


WRITES = "while :; do dd if=/dev/zero of={file} bs=1M count=128 {more} 2>/dev/null; done"


def container(options, device, directory, terms):
    """A container whose only program is a static busybox; it writes a file of the served device."""
    files, name = device.files / "container", device.directory.name
    files.mkdir()
    root = directory / "root"
    for path in ("bin", "data", "dev", "proc"):
        (root / path).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    for applet in ("sh", "dd"):
        (root / "bin" / applet).symlink_to("busybox")
    run(options.runtime, "spec", "-b", directory)
    specification = json.loads((directory / "config.json").read_text())
    specification["root"] = {"path": str(root)}
    specification["process"] |= {"terminal": False, "rlimits": [],
                                 "args": ["/bin/sh", "-c", "echo started; " + WRITES.format(file="/data/file", more="")]}
    mounts = [mount for mount in specification["mounts"] if mount["destination"] in ("/dev", "/proc")]
    specification["mounts"] = [*mounts, {"destination": "/data", "type": "bind", "source": str(files), "options": ["rbind", "rw"]}]
    (directory / "config.json").write_text(json.dumps(specification))
    # The cgroup that the runtime makes has no real-time processor time.
    device.launch([options.runtime, "run", "-b", directory, name], "machine", terms, is_realtime=False)
    device.at_end.append([options.runtime, "delete", "--force", name])
    await_line(device.programs[-1], "started")


def guest(options, device, directory, terms):
    """A guest of QEMU, emulated, whose disk is a file of the served device."""
    image = device.lay_out("guest", 256 * MIB)
    kernel = make_guest(options, directory)
    command = ["qemu-system-x86_64", "-accel", "tcg", "-m", "256", "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio",
               "-kernel", kernel, "-initrd", directory / "initrd", "-append", "console=ttyS0 quiet panic=-1 no_timer_check",
               "-drive", f"file={image},format=raw,if=virtio,cache=writeback,aio=threads"]
    device.launch(command, "machine", terms)
    await_line(device.programs[-1], "started")


def make_guest(options, directory):
    """Makes an initrd of a static busybox and the modules of a virtio disk; returns the kernel."""
    package = options.kernel or fetch_kernel()
    run("dpkg-deb", "-x", package, directory / "kernel")
    modules = ["virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk"]
    root = directory / "initrd.d"
    (root / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    load = []
    for module in modules:
        for path in (directory / "kernel").rglob(f"{module}.ko*"):
            shutil.copy(path, root)
            load.append(f"insmod /{path.name}")
    writes = WRITES.format(file="/dev/vda", more="conv=fsync")
    (root / "init").write_text("\n".join(["#!/bin/busybox sh", "/bin/busybox --install /bin", "mkdir /dev", "mount -t devtmpfs dev /dev",
                                          *load, "[ -b /dev/vda ] && echo started", writes]))
    (root / "init").chmod(0o755)
    run("sh", "-c", f"cd {root} && find . | busybox cpio -o -H newc >{directory}/initrd")
    return next((directory / "kernel/boot").glob("vmlinuz*"))


def fetch_kernel():
    """Debian's kernel for virtual machines, kept in target/split-live."""
    kept = pathlib.Path("target/split-live")
    kept.mkdir(parents=True, exist_ok=True)
    if not list(kept.glob("*.deb")):
        depends = run("apt-cache", "depends", "linux-image-cloud-amd64").splitlines()
        name = next(line.split()[1] for line in depends if "Depends: linux-image-" in line)
        subprocess.run(["apt-get", "download", "-q", name], cwd=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return next(kept.glob("*.deb")).absolute()


def await_line(program, text):
    """Waits for a line of a program's output."""
    for line in program.stdout:
        if text in line:
            return
    raise SystemExit(f"{program.args[0]} ended before it printed '{text}'")


# ---- A replicated store: three served devices, a pipeline of three datanodes for each client.

def store(options):
    """Acknowledged MB/s of two clients, the first of which is limited on each device; `none`: neither is."""
    found = Found(options)
    for case, causes in wanted(options, [("none", True), ("split-token", True), ("throttle", False)]):
        with contextlib.ExitStack() as stack:
            scheduler = "split-token" if causes else "deadline"
            devices = [stack.enter_context(Device(options, scheduler, causes)) for _ in range(3)]
            clients = []
            for number, name in enumerate(("limited", "other")):
                is_limited = case != "none" and name == "limited"
                ports = [options.port + 3 * number + place for place in range(3)]
                for device, port, after in zip(devices, ports, [*ports[1:], 0]):
                    cgroup = device.cgroup(name, rate=5 * MB) if is_limited and not causes else None
                    node = device.start("datanode", name, name, ["--rate", "5M"] if is_limited else [], arguments=(port, after, options.file_mib // 64), cgroup=cgroup)
                    await_line(node, "listening")
                own = [sys.executable, os.path.abspath(sys.argv[0]), "--program", "client", ports[0], options.warm_up, options.seconds]
                clients.append(devices[0].launch(own))
            figures = {f"{name} MB/s": result(client)["per_second"] / MB for name, client in zip(("limited", "other"), clients)}
            for device in devices:
                run(options.dwell, "ctl", device.control, "switch", "noop")
        found.add(case, figures)
    return found
