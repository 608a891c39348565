"""Shares, deadlines, limits and overhead. Each experiment returns {case: {figure: value}} for one round."""

import statistics

from .device import MIB, Device, result, run, wanted

MB = 10**6


def shares(options):
    """Mean deviation of eight writers from shares of 8 to 1, in percent."""
    found = {}
    for case, scheduler, causes, elevator in wanted(options, [("afq", "afq", True, None), ("bfq", "noop", False, "bfq")]):
        with Device(options, scheduler, causes, elevator) as device:
            writers = [device.start("writer", f"file-{weight}", f"weight-{weight}", ["--weight", str(weight)],
                                    None if causes else 8 - weight) for weight in range(8, 0, -1)]
            written = [result(writer)["bytes"] for writer in writers]
        goals = [weight / 36 for weight in range(8, 0, -1)]
        parts = [part / max(1, sum(written)) for part in written]
        deviation = statistics.mean(abs(part - goal) / goal for part, goal in zip(parts, goals)) * 100
        found[case] = {"deviation_percent": deviation, "MB/s": sum(written) / MB / options.seconds,
                       **{f"weight {weight} %": part * 100 for weight, part in zip(range(8, 0, -1), parts)}}
    return found


def fsync(options):
    """fsync latency in ms, and the background writer's MB/s."""
    found = {}
    cases = [("deadline", "deadline", False, None), ("split-deadline", "split-deadline", True, None),
             ("bfq", "noop", False, "bfq")]
    for case, scheduler, causes, elevator in wanted(options, cases):
        with Device(options, scheduler, causes, elevator) as device:
            device.lay_out("log", 64 * MIB)
            log = device.start("log", "log", "log", ["--fsync-deadline", "100ms"], None if causes else 0)
            writer = device.start("writer", "big", "background", [], None if causes else 7)
            log, writer = result(log), result(writer)
        found[case] = {figure: log[figure] for figure in ("count", "p50_ms", "p99_ms", "max_ms")}
        found[case]["writer MB/s"] = writer["per_second"] / MB
    return found


NEIGHBOURS = {"none": None, "sequential": "reader", "random": "random-reader", "random writes": "random-writer",
              "appends": "writer", "overwrites": "overwriter", "fsync": "syncer", "metadata": "creator"}


def isolation(options):
    """The reader's MB/s, by its neighbour, which is limited by split-token."""
    return beside_neighbours(options, "split-token", True)


def throttle(options):
    """The same, with a limit of the kernel's block controller, which is the mechanism of io.max."""
    return beside_neighbours(options, "deadline", False)


def beside_neighbours(options, scheduler, causes):
    found = {}
    for case, kind in wanted(options, NEIGHBOURS.items()):
        with Device(options, scheduler, causes) as device:
            device.lay_out("read", 1024 * MIB)
            name = "neighbour"
            if kind in ("reader", "random-reader"):
                device.lay_out(name, 512 * MIB)
            cgroup = None if causes or not kind else device.throttle("limited", bytes_of(options.rate))
            neighbour = device.start(kind, name, "limited", ["--rate", options.rate], cgroup=cgroup) if kind else None
            reader = result(device.start("reader", "read", "reader"))
            found[case] = {"reader MB/s": reader["per_second"] / MB, "longest read ms": reader["max_ms"]}
            if neighbour:
                # It may be in debt when its time is over, and would wait for tokens.
                run(options.dwell, "ctl", device.control, "switch", "noop")
                if cgroup:
                    (cgroup / "blkio.throttle.read_bps_device").write_text(f"{device.number} 0")
                    (cgroup / "blkio.throttle.write_bps_device").write_text(f"{device.number} 0")
                found[case]["neighbour/s"] = result(neighbour)["per_second"]
        compare(found, case, "reader MB/s")
    return found


def compare(found, case, figure):
    """Adds the change of a figure against the case `none`."""
    found[case]["change_percent"] = (found[case][figure] / found["none"][figure] - 1) * 100


def bytes_of(rate):
    """A size such as 2M in bytes."""
    return int(float(rate[:-1]) * {"k": 1e3, "M": 1e6, "G": 1e9}[rate[-1]]) if rate[-1].isalpha() else int(rate)


def overhead(options):
    """Nanoseconds per page, call and request: plain, with --causes, and under admission; and MB/s of a large file."""
    found = {}
    for case, causes, account in [("plain", False, None), ("causes", True, None), ("admission", True, "a")]:
        with Device(options, "split-noop" if causes else "noop", causes, drive=False) as device:
            path = device.lay_out("file", 128 * MIB)
            found[case] = {}
            for kind in ("page", "call", "request"):
                # In memory and clean: the page is dirtied and not read.
                with open(path, "rb") as file:
                    while file.read(MIB):
                        pass
                timing = device.start(kind, "file", account, arguments=())
                found[case][f"{kind} ns"] = result(timing)["ns"]
                run("sync", "-f", device.files)
            for kind, figure in (("large", "1 MiB writes MB/s"), ("small", "4 KiB writes MB/s")):
                writer = device.start(kind, "file", account, arguments=())
                found[case][figure] = result(writer)["per_second"] / MB
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
    if experiment == "isolation":
        for case in median:
            change = median[case]["change_percent"]
            if case != "none":
                yield f"a reader beside a limited neighbour ({case}) changes by less than 5%: {change:+.1f}%", abs(change) < 5
