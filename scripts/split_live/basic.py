"""Shares, deadlines, limits and overhead. Each experiment returns {case: {figure: value}} for one round."""

import statistics
import typing

from . import cgroups
from .device import MIB, Device, Found, result, run, wanted

MB = 10**6


class Mechanism(typing.NamedTuple):
    """The server's scheduler, whether it has causes, the kernel's elevator, and by what the kernel distinguishes programs."""
    scheduler: str
    causes: bool = False
    elevator: str | None = None
    control: str | None = None


IONICE = {"bfq": Mechanism("noop", elevator="bfq", control="ionice")}
# Of cgroup v2.
WEIGHTS = {
    "io.bfq.weight": Mechanism("noop", elevator="bfq", control="bfq_weight"),
    "io.weight": Mechanism("deadline", control="weight"),
}
MAX = {"io.max": Mechanism("deadline", control="rate")}

# The lowest weight: ionice 7, io.bfq.weight 1, io.weight 8.
LEAST = 0.008


def of_kernel():
    """The mechanisms of cgroup v2, if its controller is here."""
    return {**WEIGHTS, **MAX} if cgroups.has_io() else {}


def begin(options, mechanism, drive=True):
    """A device under a mechanism."""
    device = Device(options, mechanism.scheduler, mechanism.causes, mechanism.elevator, drive)
    if mechanism.control == "weight":
        try:
            device.cost()
        except BaseException:
            device.close()
            raise
    return device


def place(device, mechanism, name, weight, rate=None):
    """By what the kernel distinguishes a program: arguments of `start`. The weight is 1 to 8, or LEAST; the rate is that of the drive's time."""
    if mechanism.control == "ionice":
        return {"nice": 8 - max(1, int(weight))}
    settings = {"bfq_weight": max(1, int(weight * 125)), "weight": max(1, int(weight * 1000)), "rate": rate and int(rate / device.options.slower)}
    value = settings.get(mechanism.control)
    return {"cgroup": device.cgroup(name, **{mechanism.control: value})} if value else {}


def shares(options):
    """Mean deviation of eight writers from shares of 8 to 1, in percent."""
    found = Found(options)
    for case, mechanism in wanted(options, {"afq": Mechanism("afq", causes=True), **IONICE, **of_kernel()}.items()):
        with begin(options, mechanism) as device:
            # io.max: each has its share of the drive's throughput.
            writers = [device.start("writer", f"file-{weight}", f"weight-{weight}", ["--weight", str(weight)],
                                    **place(device, mechanism, f"weight-{weight}", weight, weight / 36 * 100 * MB)) for weight in range(8, 0, -1)]
            written = [result(writer)["bytes"] for writer in writers]
        goals = [weight / 36 for weight in range(8, 0, -1)]
        parts = [part / max(1, sum(written)) for part in written]
        deviation = statistics.mean(abs(part - goal) / goal for part, goal in zip(parts, goals)) * 100
        found.add(case, {"deviation_percent": deviation, "MB/s": sum(written) / MB / options.seconds / options.slower,
                         **{f"weight {weight} %": part * 100 for weight, part in zip(range(8, 0, -1), parts)}})
    return found


def fsync(options):
    """fsync latency in ms, and the background writer's MB/s."""
    found = Found(options)
    cases = {"deadline": Mechanism("deadline"), "split-deadline": Mechanism("split-deadline", causes=True), **IONICE, **of_kernel()}
    for case, mechanism in wanted(options, cases.items()):
        with begin(options, mechanism) as device:
            device.lay_out("log", 64 * MIB)
            terms = ["--fsync-deadline", f"{DEADLINE_MS * options.slower}ms"]
            log = device.start("log", "log", "log", terms, **place(device, mechanism, "log", 8))
            # io.max: half of the drive's throughput.
            writer = device.start("writer", "big", "background", [], **place(device, mechanism, "background", LEAST, 50 * MB))
            log, writer = result(log), result(writer)
        latency = {figure: log[figure] for figure in ("count", "p50_ms", "p99_ms", "max_ms")}
        found.add(case, {**latency, "writer MB/s": writer["per_second"] / MB})
    return found


def rewrites(options):
    """The MB/s of a program that overwrites 40 MB in memory, and the MB that reach the device, without an account with a deadline, beside an idle one, and
    beside one that calls fsync, whose latency is measured; beside the last also of a program that overwrites 600 MB, more than the kernel keeps dirty."""
    found = Found(options)
    for beside, kind, interval in (("nothing", "rewriter", None), ("an idle account", "rewriter", 1e9), ("fsync", "rewriter", options.interval),
                                   ("fsync, 600 MB", "cycler", options.interval)):
        for scheduler in ("deadline", "split-deadline"):
            if not wanted(options, {f"{scheduler}, {beside}": None}.items()):
                continue
            with begin(options, Mechanism(scheduler, causes=True)) as device:
                device.lay_out("log", 64 * MIB)
                run("sync", "-f", device.files)
                times = [time * options.slower for time in (options.warm_up, options.seconds)]
                terms = ["--fsync-deadline", f"{DEADLINE_MS * options.slower}ms"]
                log = interval and device.start("log", "log", "log", terms, arguments=[*times, interval * options.slower])
                before = device.written()
                writer = result(device.start(kind, "big", "background", []))
                figures = {"writer MB/s": writer["per_second"] / MB, "device MB": (device.written() - before) / MB}
                if log:
                    log = result(log)
                    figures |= {figure: log[figure] for figure in ("count", "p50_ms", "p99_ms", "max_ms") if figure in log}
            found.add(f"{scheduler}, {beside}", figures)
    return found


WRITERS = {"appends": "writer", "small files": "small-files", "direct": "direct-writer", "direct random": "direct-random-writer", "random": "random-writer"}


def writers(options):
    """fsync latency in ms beside writers of several kinds without a deadline, and their MB/s."""
    found = Found(options)
    for name, kind in wanted(options, WRITERS.items()):
        for scheduler in ("deadline", "split-deadline"):
            with begin(options, Mechanism(scheduler, causes=scheduler != "deadline")) as device:
                device.lay_out("log", 64 * MIB)
                if "direct" in kind:
                    device.lay_out("big", 1024 * MIB)
                run("sync", "-f", device.files)
                log = device.start("log", "log", "log", ["--fsync-deadline", f"{DEADLINE_MS * options.slower}ms"])
                writer = result(device.start(kind, "big", "background", []))
                log = result(log)
                figures = {figure: log[figure] for figure in ("count", "p50_ms", "p99_ms", "max_ms")}
            found.add(f"{scheduler}, {name}", {**figures, "writer MB/s": writer["per_second"] / MB})
    return found


NEIGHBOURS = {"none": None, "sequential": "reader", "random": "random-reader", "random writes": "random-writer",
              "appends": "writer", "overwrites": "overwriter", "fsync": "syncer", "metadata": "creator", "mapped": "mapped",
              "mapped random": "mapped-random", "msync": "msync", "async reads": "async-reader", "async writes": "async-writer"}

MAPPED = ("mapped", "mapped-random", "msync")


def isolation(options):
    """The reader's MB/s, by its neighbour, which is limited by split-token."""
    return beside_neighbours(options, {"": TOKEN})


def throttle(options):
    """The same, with a limit of the kernel's controller: io.max, or blkio.throttle of cgroup v1."""
    return beside_neighbours(options, {"": MAX["io.max"]})


def limits(options):
    """The same under split-token and each of the kernel's mechanisms, in alternation."""
    chosen = {"split-token": TOKEN, **MAX, **WEIGHTS, **IONICE}
    return beside_neighbours(options, {f", {name}": mechanism for name, mechanism in chosen.items()
                                       if not options.mechanisms or name in options.mechanisms})


TOKEN = Mechanism("split-token", causes=True)


def beside_neighbours(options, mechanisms):
    found = Found(options)
    rate = bytes_of(options.rate)
    for kind_name, kind in wanted(options, NEIGHBOURS.items()):
        for suffix, mechanism in mechanisms.items():
            case, name = kind_name + suffix, "neighbour"
            with begin(options, mechanism) as device:
                device.lay_out("read", options.file_mib * MIB)
                if kind in ("reader", "random-reader", "async-reader", "async-writer", *MAPPED):
                    # A store to a page that is not in memory waits for a read, which is limited. fio would lay its file out itself.
                    device.lay_out(name, options.file_mib * MIB // 2, in_memory=kind in MAPPED)
                terms = ["--rate", str(int(rate / options.slower))]
                neighbour = kind and device.start(kind, name, "limited", terms, **place(device, mechanism, "limited", LEAST, rate))
                reader = result(device.start("reader", "read", "reader", **place(device, mechanism, "reader", 8)))
                figures = {"reader MB/s": reader["per_second"] / MB, "longest read ms": reader["max_ms"]}
                if neighbour:
                    # It may be in debt when its time is over, and would wait for tokens.
                    run(options.dwell, "ctl", device.control, "switch", "noop")
                    device.lift_limits()
                    figures["neighbour/s"] = result(neighbour)["per_second"]
            found.add(case, figures, "none" + suffix)
    return found


def bytes_of(rate):
    """A size such as 2M in bytes."""
    return int(float(rate[:-1]) * {"k": 1e3, "M": 1e6, "G": 1e9}[rate[-1]]) if rate[-1].isalpha() else int(rate)


def overhead(options):
    """Nanoseconds per page, call and request: plain, with --causes, and under admission; and MB/s of a large file."""
    found = Found(options)
    for case, causes, account in [("plain", False, None), ("causes", True, None), ("admission", True, "a")]:
        with Device(options, "split-noop" if causes else "noop", causes, drive=False) as device:
            path = device.lay_out("file", 128 * MIB)
            figures = {}
            for kind in ("page", "call", "request"):
                # In memory and clean: the page is dirtied and not read.
                with open(path, "rb") as file:
                    while file.read(MIB):
                        pass
                timing = device.start(kind, "file", account, arguments=())
                figures[f"{kind} ns"] = result(timing)["ns"]
                run("sync", "-f", device.files)
            for kind, figure in (("large", "1 MiB writes MB/s"), ("small", "4 KiB writes MB/s")):
                writer = device.start(kind, "file", account, arguments=())
                figures[figure] = result(writer)["per_second"] / MB
        found.add(case, figures)
    return found


DEADLINE_MS = 100
SERVICE_MS = 13  # an average seek and half a revolution of wd5000aaks


def goals(experiment, median):
    """Texts of goals, and whether the medians meet them."""
    of = lambda case, figure: median.get(case, {}).get(figure)
    if experiment == "shares" and (deviation := of("afq", "deviation_percent")) is not None:
        yield f"afq deviates from the shares by less than 5%: {deviation:.1f}%", deviation < 5
    if experiment == "fsync" and (worst := of("split-deadline", "p99_ms")) is not None:
        yield f"99% of fsync within {DEADLINE_MS + SERVICE_MS} ms under split-deadline: {worst:.0f} ms", worst <= DEADLINE_MS + SERVICE_MS
        if usual := of("deadline", "writer MB/s"):
            part = of("split-deadline", "writer MB/s") / usual
            yield f"the writer keeps 0.9 of its throughput under deadline: {part:.2f}", part >= 0.9
    if experiment == "writers":
        for name in WRITERS:
            usual, own = of(f"deadline, {name}", "writer MB/s"), of(f"split-deadline, {name}", "writer MB/s")
            if usual and own:
                yield f"a writer ({name}) keeps 0.9 of its throughput under deadline: {own / usual:.2f}", own >= 0.9 * usual
                worst = of(f"split-deadline, {name}", "p99_ms")
                yield f"99% of fsync within {DEADLINE_MS + SERVICE_MS} ms beside it: {worst:.0f} ms", worst <= DEADLINE_MS + SERVICE_MS
    if experiment == "rewrites":
        for beside in ("nothing", "an idle account", "fsync", "fsync, 600 MB"):
            usual, own = of(f"deadline, {beside}", "writer MB/s"), of(f"split-deadline, {beside}", "writer MB/s")
            if usual and own:
                yield f"a writer that overwrites memory beside {beside} keeps 0.9 of its throughput under deadline: {own / usual:.2f}", own >= 0.9 * usual
        for beside in ("fsync", "fsync, 600 MB"):
            if (worst := of(f"split-deadline, {beside}", "p99_ms")) is not None:
                yield f"99% of {beside} within {DEADLINE_MS + SERVICE_MS} ms beside it: {worst:.0f} ms", worst <= DEADLINE_MS + SERVICE_MS
    if experiment in ("isolation", "limits"):
        for case in median:
            change = median[case]["change_percent"]
            if not case.startswith("none"):
                yield f"a reader beside a limited neighbour ({case}) changes by less than 5%: {change:+.1f}%", abs(change) < 5
