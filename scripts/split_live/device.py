"""A server, its file system, and programs on it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20


class Device:
    def __init__(self, options, scheduler, causes, elevator=None, drive=True):
        self.options, self.elevator = options, elevator
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="dwell-split-live-"))
        # Programs of other users have files here.
        self.directory.chmod(0o755)
        self.files = self.directory / "files"
        self.files.mkdir()
        self.control = self.directory / "control"
        self.store = pathlib.Path("/dev/shm") / self.directory.name
        what = [self.store, "--drive", options.drive, "--size", "8GiB"] if drive else ["--memory", "--size", "1GiB"]
        self.causes = causes
        command = [options.dwell, "serve", *what, "--scheduler", scheduler, "--attach", "--control", self.control]
        command += ["--causes"] if causes else []
        if drive:
            with open(self.store, "wb") as store:
                store.truncate(8 << 30)
        self.mounted, self.programs, self.cgroups = False, [], []
        # Commands that end what a program left.
        self.at_end = []
        self.server = subprocess.Popen(self.priority(command, server=True), stdout=subprocess.PIPE, text=True,
                                       stderr=None if options.verbose else subprocess.DEVNULL)
        try:
            self.node = self.server.stdout.readline().strip()
            if not self.node:
                raise SystemExit(f"serve --scheduler {scheduler} did not attach a device; --verbose shows why")
            run("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", "-J", "size=64", self.node)
            run("mount", "-o", "noatime", self.node, self.files)
            self.mounted = True
            name = pathlib.Path(self.node).name
            self.number = pathlib.Path(f"/sys/block/{name}/dev").read_text().strip()
            # Without a limit, gigabytes stay in memory and no scheduler has anything to do.
            bdi = pathlib.Path("/sys/class/bdi") / self.number
            (bdi / "strict_limit").write_text("1")
            (bdi / "max_bytes").write_text(str(options.dirty_mib << 20))
            if elevator:
                pathlib.Path(f"/sys/block/{name}/queue/scheduler").write_text(elevator)
        except BaseException:
            self.close()
            raise

    def priority(self, command, server=False, is_realtime=True):
        # Programs share the processors in turns: one that overwrites memory never sleeps.
        chosen = ["chrt", "-f", "11"] if server else ["chrt", "-r", "10"]
        return (chosen if self.options.realtime and is_realtime else []) + [str(word) for word in command]

    def lay_out(self, name, size):
        """A file with data, none of it in memory."""
        path = self.files / name
        with open(path, "wb") as file:
            for _ in range(size // MIB):
                file.write(bytes(MIB))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    def start(self, kind, name, account=None, terms=(), nice=None, arguments=None, cgroup=None):
        """Starts a program of `programs`; `name` is its file."""
        own = [sys.executable, os.path.abspath(sys.argv[0]), "--program", kind, self.files / name]
        usual = (self.options.warm_up, self.options.seconds, self.options.interval)
        return self.launch([*own, *(usual if arguments is None else arguments)], account, terms, nice, cgroup)

    def launch(self, command, account=None, terms=(), nice=None, cgroup=None, is_quiet=False, is_realtime=True):
        """Starts any program, as an account if the server has causes."""
        if nice is not None:
            command = ["ionice", "-c", "2", "-n", nice, *command]
        if account and self.causes:
            command = [self.options.dwell, "exec", "--control", self.control, "--account", account, *terms, "--", *command]
        enter = cgroup and (lambda: (cgroup / "cgroup.procs").write_text("0"))
        messages = subprocess.DEVNULL if is_quiet and not self.options.verbose else None
        self.programs.append(subprocess.Popen(self.priority(command, is_realtime=is_realtime), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                              stderr=messages, text=True, start_new_session=True, preexec_fn=enter))
        return self.programs[-1]

    def cgroup(self, name, **settings):
        """A cgroup of the kernel's controller `blkio` (cgroup v1) with settings of its own for this device."""
        root = pathlib.Path("/sys/fs/cgroup/blkio")
        if not (root / "cgroup.procs").exists():
            raise SystemExit("there is no controller blkio of cgroup v1 here: leave this case out (--only)")
        cgroup = root / f"{self.directory.name}-{name}"
        cgroup.mkdir()
        self.cgroups.append(cgroup)
        for setting, value in settings.items():
            is_weight = setting.endswith("weight")
            (cgroup / f"blkio.{setting.replace('__', '.')}").write_text(str(value) if is_weight else f"{self.number} {value}")
        return cgroup

    def throttle(self, name, rate):
        """A cgroup that may read and write `rate` bytes per second."""
        return self.cgroup(name, throttle__read_bps_device=rate, throttle__write_bps_device=rate)

    def accounts(self):
        state = run(self.options.dwell, "ctl", self.control, "show", "--json")
        return {account["name"]: account for account in json.loads(state).get("accounts", [])}

    def close(self):
        for command in self.at_end:
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for program in self.programs:
            if program.poll() is None:
                # With the children of `dwell exec`, which continue without it.
                os.killpg(program.pid, signal.SIGKILL)
        until = time.monotonic() + 120
        while self.mounted and time.monotonic() < until:
            self.mounted = subprocess.run(["umount", self.files], stderr=subprocess.DEVNULL).returncode != 0
            time.sleep(0.2 if self.mounted else 0)
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
            try:
                self.server.wait(120)
            except subprocess.TimeoutExpired:
                self.server.kill()
        for path in (self.store, self.control):
            path.unlink(missing_ok=True)
        for path in (*self.cgroups, self.files, self.directory):
            try:
                path.rmdir()
            except OSError as error:
                print(f"left behind: {error}", file=sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def result(process):
    output, _ = process.communicate()
    if process.returncode or not output:
        raise SystemExit(f"a program ended with code {process.returncode}")
    return json.loads(output.splitlines()[-1])


def wanted(options, cases):
    """The cases that --only selects; `none` is what others are compared with."""
    return [case for case in cases if not options.only or case[0] in ("none", *options.only)]
