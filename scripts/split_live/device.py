"""A server, its file system, and programs on it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from . import cgroups

MIB = 1 << 20

# Times of bfq, which are longer in front of a slower drive.
STRETCHED = ["slice_idle", "timeout_sync", "fifo_expire_sync", "fifo_expire_async"]


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
        command = [options.dwell, "serve", *what, "--scheduler", stretched(scheduler, options.slower), "--attach", "--control", self.control]
        command += ["--causes"] if causes else []
        if drive:
            with open(self.store, "wb") as store:
                store.truncate(8 << 30)
        self.mounted, self.programs, self.cgroups, self.has_cost = False, [], [], False
        # Commands that end what a program left.
        self.at_end = []
        self.server = subprocess.Popen(self.priority(command, server=True), stdout=subprocess.PIPE, text=True,
                                       stderr=None if options.verbose else subprocess.DEVNULL)
        try:
            self.node = self.server.stdout.readline().strip()
            if not self.node:
                raise SystemExit(f"serve --scheduler {scheduler} did not attach a device; --verbose shows why")
            run("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", "-J", "size=64", self.node)
            # Or a thread of ext4 writes inode tables for minutes, 2 MiB at a time: the more, the faster its writes complete.
            run("mount", "-o", f"noatime,noinit_itable,commit={5 * options.slower}", self.node, self.files)
            self.mounted = True
            name = pathlib.Path(self.node).name
            self.number = pathlib.Path(f"/sys/block/{name}/dev").read_text().strip()
            # Without a limit, gigabytes stay in memory and no scheduler has anything to do.
            bdi = pathlib.Path("/sys/class/bdi") / self.number
            (bdi / "strict_limit").write_text("1")
            (bdi / "max_bytes").write_text(str(options.dirty_mib << 20))
            if elevator:
                queue = pathlib.Path(f"/sys/block/{name}/queue")
                (queue / "scheduler").write_text(elevator)
                for setting in STRETCHED if elevator == "bfq" and options.slower > 1 else ():
                    file = queue / "iosched" / setting
                    file.write_text(str(int(file.read_text()) * options.slower))
        except BaseException:
            self.close()
            raise

    def priority(self, command, server=False, is_realtime=True):
        # Programs share the processors in turns: one that overwrites memory never sleeps.
        chosen = ["chrt", "-f", "11"] if server else ["chrt", "-r", "10"]
        return (chosen if self.options.realtime and is_realtime else []) + [str(word) for word in command]

    def lay_out(self, name, size, in_memory=False):
        """A file with data, none of it in memory if not requested."""
        path = self.files / name
        with open(path, "wb") as file:
            for _ in range(size // MIB):
                file.write(bytes(MIB))
            file.flush()
            os.fsync(file.fileno())
            if not in_memory:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    def start(self, kind, name, account=None, terms=(), nice=None, arguments=None, cgroup=None):
        """Starts a program of `programs`; `name` is its file."""
        own = [sys.executable, os.path.abspath(sys.argv[0]), "--program", kind, self.files / name]
        usual = [time * self.options.slower for time in (self.options.warm_up, self.options.seconds, self.options.interval)]
        return self.launch([*own, *(usual if arguments is None else arguments)], account, terms, nice, cgroup)

    def launch(self, command, account=None, terms=(), nice=None, cgroup=None, is_quiet=False, is_realtime=True):
        """Starts any program, as an account if the server has causes."""
        if nice is not None:
            command = ["ionice", "-c", "2", "-n", nice, *command]
        if account and self.causes:
            command = [self.options.dwell, "exec", "--control", self.control, "--account", account, *terms, "--", *command]
        enter = cgroup and cgroup.enter
        messages = subprocess.DEVNULL if is_quiet and not self.options.verbose else None
        self.programs.append(subprocess.Popen(self.priority(command, is_realtime=is_realtime), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                              stderr=messages, text=True, start_new_session=True, preexec_fn=enter))
        return self.programs[-1]

    def cgroup(self, name, **settings):
        """A cgroup with settings of its own for this device."""
        self.cgroups.append(cgroups.Cgroup(f"{self.directory.name}-{name}", self.number, **settings))
        return self.cgroups[-1]

    def cost(self):
        """Switches the kernel's io.cost on, with a model of the drive `wd5000aaks` and a target of latency of 100 ms."""
        self.has_cost = True
        model = {"rbps": 106e6, "rseqiops": 8000, "rrandiops": 75, "wbps": 100e6, "wseqiops": 8000, "wrandiops": 150}
        cgroups.cost(self.number, {key: int(value / self.options.slower) for key, value in model.items()}, 100_000 * self.options.slower)

    def lift_limits(self):
        """What waits for a limit of the kernel's would delay the end."""
        for cgroup in self.cgroups:
            cgroup.limit(None)
        if self.has_cost:
            cgroups.cost(self.number, None)
            self.has_cost = False

    def written(self):
        """Bytes that were written to the device."""
        return int(pathlib.Path(f"/sys/block/{pathlib.Path(self.node).name}/stat").read_text().split()[6]) * 512

    def accounts(self):
        state = run(self.options.dwell, "ctl", self.control, "show", "--json")
        return {account["name"]: account for account in json.loads(state).get("accounts", [])}

    def close(self):
        self.lift_limits()
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
        for remove in (*[cgroup.remove for cgroup in self.cgroups], self.files.rmdir, self.directory.rmdir):
            try:
                remove()
            except OSError as error:
                print(f"left behind: {error}", file=sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# Times of schedulers in ms.
TIMES = {
    "deadline": {"read_expire": 500, "write_expire": 5000},
    "split-deadline": {"look_again": 10, "overdue": 25},
    "split-token": {"saves": 1000, "idle": 10},
    "afq": {"kick": 40, "batch_longest": 200, "slice": 250, "idle": 20},
}


def stretched(scheduler, slower):
    """The scheduler with times that are so many times as long."""
    times = TIMES.get(scheduler, {}) if slower > 1 else {}
    return scheduler + ("{" + ", ".join(f"{name}={time * slower}ms" for name, time in times.items()) + "}" if times else "")


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


class Found(dict):
    """The figures of a round by case. Prints those of each case, which it converts to the drive's time (--slower)."""

    def __init__(self, options):
        super().__init__()
        self.slower = options.slower

    def add(self, case, figures, against=None):
        """`against`: also adds the change of the first figure against that case."""
        factors = lambda name: self.slower if name.endswith("/s") else 1 / self.slower if name.endswith("ms") else 1
        self[case] = {name: value * factors(name) for name, value in figures.items()}
        if against:
            first = next(iter(figures))
            self[case]["change_percent"] = (self[case][first] / self[against][first] - 1) * 100
        text = ", ".join(f"{name} {value:.4g}" for name, value in self[case].items())
        print(f"{case}: {text}", file=sys.stderr, flush=True)


def wanted(options, cases):
    """The cases that --only selects; `none` is what others are compared with."""
    return [case for case in cases if not options.only or case[0] in ("none", *options.only)]
