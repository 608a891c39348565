#!/usr/bin/env python3
"""The first trials of `dwell tune` on four direct readers far apart, beside the best fixed setting that the readers start under.

    cargo build --release -p dwell-cli --bin dwell
    sudo crates/tuner-live/benches/first_trials.py             # about 14 minutes
    sudo crates/tuner-live/benches/first_trials.py --groups    # each reader in a control group of its own, as services are
    sudo crates/tuner-live/benches/first_trials.py --history   # each run of the tuner continues with what the runs before have learned

An emulated hard disk in real time behind a loop device, depth 31, under the kernel's schedulers. Each run of the tuner begins without history,
unless `--history` is given: then a run of the tuner before the others is not counted.
It is measured in alternation with the fixed setting: the work of 20 windows, and of the windows 7 to 20. The targets are 0.8 and 0.95 of the fixed setting's.
"""

import argparse
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
READERS, WINDOWS, FIRST = 4, 20, 6
BEST = ('bfq', {'low_latency': '0', 'strict_guarantees': '1'})


class Disk:
    def __init__(self, dwell):
        command = [dwell, 'serve', '--drive', 'wd5000aaks', '--discard-data', '--scheduler', 'noop', '--depth', '31', '--attach']
        # Late servers and readers are late for bfq, too.
        self.server = subprocess.Popen(['chrt', '-f', '10', *command], stdout=subprocess.PIPE, text=True)
        self.device = self.server.stdout.readline().strip()
        if not self.device.startswith('/dev/loop'):
            sys.exit('the disk did not start; its message is above')
        self.sys = pathlib.Path('/sys/block') / self.device.removeprefix('/dev/')
        self.use('none', {})
        (self.sys / 'queue/nr_requests').write_text('31')

    def use(self, scheduler, settings):
        (self.sys / 'queue/scheduler').write_text('none')
        (self.sys / 'queue/scheduler').write_text(scheduler)
        for name, value in settings.items():
            (self.sys / 'queue/iosched' / name).write_text(value)

    def moved(self):
        return int((self.sys / 'stat').read_text().split()[2]) * 512

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(30)


class Readers:
    def __init__(self, disk, groups):
        self.groups = []
        self.programs = []
        for n in range(READERS):
            command = ['chrt', '-f', '10', 'fio', '--name=reader', f'--filename={disk.device}', '--rw=read', '--bs=4k', '--direct=1', '--ioengine=psync', '--thread',
                       f'--offset={10 + 110 * n}g', '--size=50g', '--time_based', '--runtime=3600']
            if groups:
                group = groups / f'dwell-first-trials-{os.getpid()}-{n}'
                group.mkdir()
                self.groups.append(group)
                command = ['sh', '-c', f'echo $$ >{group}/cgroup.procs; exec "$@"', 'sh', *command]
            self.programs.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True))

    def stop(self):
        for program in self.programs:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        time.sleep(0.5)
        for group in self.groups:
            group.rmdir()


def windows(disk, seconds):
    """MB/s of each window."""
    rates, begin, before = [], time.monotonic(), disk.moved()
    for n in range(WINDOWS):
        time.sleep(max(0, begin + (n + 1) * seconds - time.monotonic()))
        now = disk.moved()
        rates.append((now - before) / seconds / 1e6)
        before = now
    return rates


def fixed(disk, given, _):
    disk.use(*BEST)
    readers = Readers(disk, given.groups)
    try:
        return windows(disk, given.window)
    finally:
        readers.stop()
        disk.use('none', {})


def tuned(disk, given, folder):
    history = folder if given.history else pathlib.Path(tempfile.mkdtemp(dir=folder))
    readers = Readers(disk, given.groups)
    tuner = None
    try:
        time.sleep(2)
        command = [given.dwell, 'tune', disk.device, '--here', '--window', f'{given.window:g}s', '--database', history / 'learned', '--runtime', history / 'run']
        tuner = subprocess.Popen(command, stdout=sys.stderr if given.verbose else subprocess.DEVNULL, stderr=subprocess.STDOUT)
        return windows(disk, given.window)
    finally:
        if tuner:
            tuner.send_signal(signal.SIGINT)
            tuner.wait()
        readers.stop()


def groups():
    """A folder in which control groups with a controller for I/O can be made."""
    for folder in ('/sys/fs/cgroup/blkio', '/sys/fs/cgroup'):
        controllers = pathlib.Path(folder, 'cgroup.subtree_control')
        if pathlib.Path(folder, 'blkio.reset_stats').exists() or controllers.exists() and 'io' in controllers.read_text().split():
            return pathlib.Path(folder)
    return sys.exit('there are no control groups for I/O here')


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('--dwell', default=ROOT / 'target/release/dwell', type=pathlib.Path)
    arguments.add_argument('--repeats', type=int, default=4)
    arguments.add_argument('--window', type=float, default=5, help='seconds')
    arguments.add_argument('--groups', action='store_true', help='each reader in a control group of its own')
    arguments.add_argument('--history', action='store_true', help='the tuner keeps what it has learned')
    arguments.add_argument('--verbose', action='store_true', help="print the tuner's decisions")
    given = arguments.parse_args()
    if os.geteuid():
        sys.exit('the emulated disk needs root')
    if not shutil.which('fio'):
        sys.exit('fio is missing (apt-get install fio)')
    given.groups = groups() if given.groups else None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kinds = {'fixed': fixed, 'tuner': tuned}
    results = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix='dwell-first-trials-') as temporary:
        folder = pathlib.Path(temporary)
        disk = Disk(given.dwell)
        try:
            if given.history:
                tuned(disk, given, folder)
            for _ in range(given.repeats):
                for kind, run in kinds.items():
                    rates = run(disk, given, folder)
                    results[kind].append((statistics.mean(rates), statistics.mean(rates[FIRST:])))
                    print(kind, ' '.join(f'{rate:.1f}' for rate in rates), file=sys.stderr, flush=True)
        finally:
            disk.stop()

    def spread(kind, column):
        values = [row[column] for row in results[kind]]
        return f'{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})'

    print(f'| MB/s, {given.repeats} runs each, median (least to greatest) | {WINDOWS} windows | windows {FIRST + 1} to {WINDOWS} |\n|---|---|---|')
    for kind in kinds:
        print(f'| {kind} | {spread(kind, 0)} | {spread(kind, 1)} |')
    shares = [statistics.median(row[column] for row in results['tuner']) / statistics.median(row[column] for row in results['fixed']) for column in (0, 1)]
    print(f'| tuner, of fixed | {shares[0]:.2f} (target 0.8) | {shares[1]:.2f} (target 0.95) |')
    print(f'load {os.getloadavg()[0]:.0f}', file=sys.stderr)


if __name__ == '__main__':
    main()
