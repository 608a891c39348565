"""Cgroups with a limit or a weight on one device, by the controller `io` of cgroup v2 or `blkio` of v1."""

import pathlib

ROOT = pathlib.Path("/sys/fs/cgroup")


def has_io():
    """Whether the controller `io` of cgroup v2 is here."""
    controllers = ROOT / "cgroup.controllers"
    return controllers.exists() and "io" in controllers.read_text().split()


class Cgroup:
    """`rate`: bytes per second, of reads and of writes. `bfq_weight`: 1 to 1000. `weight`: 1 to 10,000, of io.cost."""

    def __init__(self, name, device, rate=None, bfq_weight=None, weight=None):
        self.device = device
        if has_io():
            # Without the memory controller, the kernel charges written pages to the root.
            (ROOT / "cgroup.subtree_control").write_text("+io +memory")
            self.path = ROOT / name
        elif (ROOT / "blkio/cgroup.procs").exists():
            self.path = ROOT / "blkio" / name
        else:
            raise SystemExit("there is no controller for I/O in /sys/fs/cgroup: leave this case out (--only)")
        self.path.mkdir()
        self.has_limit = False
        if rate:
            self.limit(rate)
        if bfq_weight:
            self.write("io.bfq.weight" if has_io() else "blkio.bfq.weight", bfq_weight)
        if weight:
            self.write("io.weight", f"default {weight}")

    def limit(self, rate):
        """Sets the limit, or removes it (None)."""
        if not rate and not self.has_limit:
            return
        self.has_limit = bool(rate)
        if has_io():
            value = rate or "max"
            self.write("io.max", f"{self.device} rbps={value} wbps={value}")
        else:
            for direction in ("read", "write"):
                self.write(f"blkio.throttle.{direction}_bps_device", f"{self.device} {rate or 0}")

    def write(self, name, value):
        (self.path / name).write_text(str(value))

    def enter(self):
        """Moves the calling process into it."""
        self.write("cgroup.procs", 0)

    def remove(self):
        self.path.rmdir()


def cost(device, model, latency=None):
    """Switches io.cost on for a device, with this linear model and this target of latency in us; without a model, off."""
    if not model:
        (ROOT / "io.cost.qos").write_text(f"{device} enable=0")
        return
    values = " ".join(f"{key}={value}" for key, value in model.items())
    (ROOT / "io.cost.model").write_text(f"{device} ctrl=user model=linear {values}")
    target = f"rpct=95.00 rlat={latency} wpct=95.00 wlat={latency} min=50.00 max=150.00"
    (ROOT / "io.cost.qos").write_text(f"{device} enable=1 ctrl=user {target}")
