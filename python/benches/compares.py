"""100 comparisons from Python and by the command, in alternation: processor time of each (the machine may be loaded).

    python python/benches/compares.py [RECORDING [SECONDS]]

SECONDS: virtual time after which a run stops. Short runs show the fixed costs of a call.
"""

import pathlib
import resource
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDING = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "recordings" / "two-greps-and-a-copy.ftrace.gz")
AT_MOST = sys.argv[2] + "s" if len(sys.argv) > 2 else None
PROGRAM = str(pathlib.Path(sysconfig.get_path("scripts")) / "dwell")
SCHEDULERS = ["noop", "mq-deadline", "bfq", "stream(deadline)"]
BLOCKS, EACH = 10, 10


def seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def block(work, who):
    before = seconds(who)
    for _ in range(EACH):
        work()
    return seconds(who) - before


def command():
    named = [part for scheduler in SCHEDULERS for part in ("-s", scheduler)]
    limit = ["--at-most", AT_MOST] if AT_MOST else []
    subprocess.run([PROGRAM, "compare", RECORDING, *named, *limit, "--json", "--quiet"], check=True, stdout=subprocess.DEVNULL)


def main():
    before = seconds(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import dwell"], check=True)
    start = seconds(resource.RUSAGE_CHILDREN) - before
    import dwell

    trace = dwell.Trace(RECORDING)
    ways = {
        "the command": (command, resource.RUSAGE_CHILDREN),
        "Python, the file read each time": (lambda: dwell.compare(RECORDING, SCHEDULERS, at_most=AT_MOST), resource.RUSAGE_SELF),
        "Python, the trace kept": (lambda: dwell.compare(trace, SCHEDULERS, at_most=AT_MOST), resource.RUSAGE_SELF),
    }
    times = {name: [] for name in ways}
    for _ in range(BLOCKS):
        for name, (work, who) in ways.items():
            times[name].append(block(work, who))
    usual = sum(times["the command"])
    print(f"{BLOCKS * EACH} comparisons of {len(SCHEDULERS)} schedulers, {RECORDING}, seconds of processor time; start of Python {start:.2f} s")
    for name, blocks in times.items():
        total = sum(blocks) + (0 if name == "the command" else start)
        each = sorted(block / EACH for block in blocks)
        middle = each[len(each) // 2]
        print(f"{name:32} {total:7.2f}  {total / usual:6.3f}  each {middle:.4f} ({each[0]:.4f} to {each[-1]:.4f})")


if __name__ == "__main__":
    main()
