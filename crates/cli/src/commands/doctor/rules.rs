//! The rules: each looks at one link between a program and its disk, and returns a finding if the link is broken or has no effect.

use super::finding::{Finding, Level, finding};
use super::roots::Roots;
use super::snapshot::{Cgroup, Device, Mounted, tree};
use super::values::integer;
use capture::topology::{DeviceType, Layer, honours_priorities, together};
use tuner_live::status::{self, Status};
use tuner_live::{QueueSettings, settings_backup};

/// The findings about a device, in any order.
pub(super) fn of_device(roots: &Roots, device: &Device) -> Vec<Finding> {
    let rules = [
        ionice,
        both_schedule,
        nvme,
        wbt,
        ignored_boot_option,
        accounting,
        old_cgroups,
        unlike_members,
        scheduled_twice,
        killed_tuner,
        running_tuner,
    ];
    rules.iter().filter_map(|rule| rule(roots, device)).collect()
}

/// The findings about a control group on a device, in any order.
pub(super) fn of_cgroup(roots: &Roots, cgroup: &Cgroup, device: &Device) -> Vec<Finding> {
    let rules = [io_controller, weight, alone, too_deep, io_latency, unit_ionice, writeback_owner];
    rules.iter().filter_map(|rule| rule(roots, cgroup, device)).collect()
}

fn ionice(_: &Roots, device: &Device) -> Option<Finding> {
    let (name, scheduler) = (&device.leaf.name, device.scheduler());
    match scheduler {
        _ if !device.orders() => None,
        _ if !honours_priorities(scheduler) => Some(finding(
            Level::Warning,
            "ionice",
            format!("{name} has the scheduler {scheduler}, which ignores ionice"),
            format!("echo bfq > /sys/block/{name}/queue/scheduler, if a program relies on its I/O priority"),
        )),
        "mq-deadline" => Some(finding(
            Level::Note,
            "ionice",
            format!(
                "{name} has mq-deadline, which honours the three I/O classes (Linux 5.14 or later) but not the eight levels in a class"
            ),
            "use 'ionice -c 3' or -c 1, or bfq for levels",
        )),
        _ => None,
    }
}

fn both_schedule(roots: &Roots, device: &Device) -> Option<Finding> {
    let (name, scheduler) = (&device.leaf.name, device.scheduler());
    (device.is_scheduled_by_host(roots) && scheduler != "none").then(|| {
        finding(
            Level::Warning,
            "virtualization",
            format!("{name} is a virtual machine's disk with the scheduler {scheduler}; the host schedules the same requests again"),
            format!("echo none > /sys/block/{name}/queue/scheduler, unless programs in this guest compete and the host has none"),
        )
    })
}

fn nvme(_: &Roots, device: &Device) -> Option<Finding> {
    let (name, scheduler) = (&device.leaf.name, device.scheduler());
    (device.leaf.kind == DeviceType::Nvme && scheduler != "none").then(|| {
        finding(
            Level::Note,
            "scheduler",
            format!("{name} is an NVMe drive with the scheduler {scheduler}, which costs processor time and rarely improves latency"),
            format!("echo none > /sys/block/{name}/queue/scheduler, unless {scheduler} improves latencies during heavy writes"),
        )
    })
}

fn wbt(_: &Roots, device: &Device) -> Option<Finding> {
    let (name, scheduler) = (&device.leaf.name, device.scheduler());
    let value: i64 = device.setting("wbt_lat_usec")?.parse().ok()?;
    match (scheduler, value) {
        _ if !device.orders() => None,
        ("bfq", 1..) => Some(finding(
            Level::Warning,
            "writeback",
            format!(
                "{name}: writeback throttling (wbt_lat_usec={value}) is on under bfq, and both delay writes"
            ),
            format!("echo 0 > /sys/block/{name}/queue/wbt_lat_usec"),
        )),
        ("bfq", _) => None,
        (_, 0) => Some(finding(
            Level::Warning,
            "writeback",
            format!(
                "{name}: writeback throttling is off (wbt_lat_usec=0) and {scheduler} does not replace it: a large copy delays every read"
            ),
            format!("echo -1 > /sys/block/{name}/queue/wbt_lat_usec sets the kernel's default"),
        )),
        _ => None,
    }
}

fn ignored_boot_option(roots: &Roots, device: &Device) -> Option<Finding> {
    let line = roots.read("proc/cmdline")?;
    let wanted = line.split_whitespace().find_map(|word| word.strip_prefix("elevator="))?;
    Some(finding(
        Level::Problem,
        "scheduler",
        format!(
            "the kernel ignores elevator={wanted} on its command line since Linux 5.0; {} has {}",
            device.leaf.name,
            device.scheduler()
        ),
        "remove the option and use a udev rule",
    ))
}

fn unlike_members(_: &Roots, device: &Device) -> Option<Finding> {
    let queues = device.stack.scheduling().ok()?.queues;
    let is_unlike = queues.iter().any(|queue| queue.scheduler != queues[0].scheduler);
    is_unlike.then(|| {
        let active = |queue: &Layer| queue.scheduler.clone().unwrap_or_else(|| "none".to_owned());
        let each = together(queues.iter().map(|queue| (queue.name.as_str(), active(queue))));
        finding(
            Level::Warning,
            "scheduler",
            format!(
                "{}: its members have different schedulers, {each}: the slowest member delays the others",
                device.stack.itself().name
            ),
            "set the same scheduler for all members; 'dwell tune' does",
        )
    })
}

fn scheduled_twice(_: &Roots, device: &Device) -> Option<Finding> {
    let pairs = device.stack.scheduled_twice();
    let (above, below) = pairs.into_iter().find(|(_, below)| below.number == device.leaf.number)?;
    let (upper, lower) = (&above.name, &below.name);
    Some(finding(
        Level::Warning,
        "scheduler",
        format!(
            "{upper} has {} and {lower} below it has {}: both order the same requests",
            above.scheduler.as_deref().unwrap_or("none"),
            device.scheduler()
        ),
        format!("echo none > /sys/block/{upper}/queue/scheduler, unless programs compete for {upper}"),
    ))
}

fn killed_tuner(roots: &Roots, device: &Device) -> Option<Finding> {
    let backups = roots.root.join(settings_backup::DIRECTORY.trim_start_matches('/'));
    let queue = QueueSettings::within(&roots.root.join("sys/block"), &device.leaf.name);
    let problem = |what: String, fix| finding(Level::Problem, "scheduler", what, fix);
    match settings_backup::left_behind(&backups, &queue) {
        Ok(left) => left.map(|left| problem(left.to_string(), left.remedy())),
        Err(unusable) => Some(problem(unusable.to_string(), unusable.remedy())),
    }
}

/// The tuner that chooses the device's scheduler, or that of the array above it.
pub(super) fn tuner(roots: &Roots, device: &Device) -> Option<Status> {
    let runtime = roots.root.join("run/dwell");
    let of = |name: &str| status::read(&runtime, name).ok().flatten().filter(|status| !status.dry_run);
    of(&device.leaf.name).or_else(|| of(&device.stack.itself().name))
}

fn running_tuner(roots: &Roots, device: &Device) -> Option<Finding> {
    let Status { device: name, pid, current, before, .. } = tuner(roots, device)?;
    Some(finding(
        Level::Note,
        "scheduler",
        format!(
            "{name}: process {pid} ('dwell tune') chooses the scheduler, at present {current}; before: {before}"
        ),
        format!("'dwell advise /dev/{}' shows its reason", name.replace('!', "/")),
    ))
}

fn accounting(_: &Roots, device: &Device) -> Option<Finding> {
    let name = &device.leaf.name;
    (device.setting("iostats") == Some("0")).then(|| {
        finding(
            Level::Warning,
            "accounting",
            format!("{name}: iostats=0, so that iostat, sar and the tuner's standby count nothing"),
            format!("echo 1 > /sys/block/{name}/queue/iostats"),
        )
    })
}

fn old_cgroups(roots: &Roots, _: &Device) -> Option<Finding> {
    let has_io = has_io_controller(roots);
    (!has_io && roots.has("sys/fs/cgroup/blkio")).then(|| {
        finding(
            Level::Warning,
            "accounting",
            "cgroup version 1 has the block controller (blkio): it throttles and accounts only direct and synchronous I/O, not buffered writes",
            "boot with systemd.unified_cgroup_hierarchy=1",
        )
    })
}

/// The I/O settings of the unit, apart from priorities, each with its file; of a key that is set several times all values.
fn limits(cgroup: &Cgroup) -> Vec<String> {
    let is_limit = |key: &str| key.starts_with("IO") && !key.starts_with("IOSched") && key != "IOAccounting";
    let settings = cgroup.settings().filter(|(key, ..)| is_limit(key));
    settings.map(|(key, value, file)| format!("{key}={value} in /{file}")).collect()
}

/// The kernel's default of both weights, which systemd does not convert.
const DEFAULT_WEIGHT: u32 = 100;

/// Whether a weight, the last word of a line, is the default.
fn is_default(line: &str) -> bool {
    line.split_whitespace().last().and_then(integer) == Some(DEFAULT_WEIGHT)
}

/// Whether the unit's files set a weight other than the default.
fn has_configured_weight(cgroup: &Cgroup) -> bool {
    let weight = cgroup.configured(|key| key == "IOWeight");
    let of_devices = cgroup.settings().filter(|(key, ..)| *key == "IODeviceWeight");
    of_devices.chain(weight).any(|(_, value, _)| !is_default(value))
}

/// The weights of a group in `io.weight` and `io.bfq.weight`, unless they are the default.
pub(super) fn weights(roots: &Roots, cgroup: &Cgroup) -> [Option<String>; 2] {
    let default = |text: &str| text.trim().is_empty() || is_default(text);
    ["io.weight", "io.bfq.weight"]
        .map(|file| cgroup.read(roots, file).filter(|text| !text.lines().all(default)))
}

/// Whether version 2 of control groups has the io controller.
fn has_io_controller(roots: &Roots) -> bool {
    let controllers = roots.read(&format!("{}/cgroup.controllers", tree(roots))).unwrap_or_default();
    controllers.split_whitespace().any(|name| name == "io")
}

/// Whether the group above enables the io controller for this group.
pub(super) fn is_controlled(roots: &Roots, cgroup: &Cgroup) -> bool {
    let enabled = cgroup.parent_read(roots, "cgroup.subtree_control").unwrap_or_default();
    enabled.split_whitespace().any(|name| name == "io")
}

fn io_controller(roots: &Roots, cgroup: &Cgroup, _: &Device) -> Option<Finding> {
    if is_controlled(roots, cgroup) {
        return None;
    }
    let (level, wanted) = match &*limits(cgroup) {
        [] => (Level::Note, String::new()),
        [one] => (Level::Problem, format!("; {one} has no effect")),
        several => (Level::Problem, format!("; without effect: {}", several.join(", "))),
    };
    Some(finding(
        level,
        "weight",
        format!("the io controller is not enabled for {} by {}{wanted}", cgroup.path, cgroup.parent()),
        match (has_io_controller(roots), cgroup.disabled_by(roots)) {
            (true, Some(slice)) => format!("remove DisableControllers=io of {slice}"),
            (true, None) => {
                "set IOAccounting=yes for the unit, which enables the controller on the whole path".to_owned()
            }
            (false, _) => {
                "boot with systemd.unified_cgroup_hierarchy=1: version 2 of control groups lacks the controller here"
                    .to_owned()
            }
        },
    ))
}

fn weight(roots: &Roots, cgroup: &Cgroup, device: &Device) -> Option<Finding> {
    let [plain, bfq] = weights(roots, cgroup);
    // Without the controller there are no weights, which is another finding.
    let is_lacking = has_io_controller(roots) && !is_controlled(roots, cgroup);
    if is_lacking || (plain.is_none() && bfq.is_none() && !has_configured_weight(cgroup)) {
        return None;
    }
    let (name, scheduler) = (&device.leaf.name, device.scheduler());
    let number = format!("{}:{} ", device.leaf.number.0, device.leaf.number.1);
    let cost = roots.read(&format!("{}/io.cost.qos", tree(roots))).unwrap_or_default();
    let cost = cost.lines().any(|line| line.starts_with(&number) && line.contains("enable=1"));
    match scheduler {
        "bfq" if bfq.is_none() => Some(finding(
            Level::Problem,
            "weight",
            format!(
                "{}: a weight is set, but not in io.bfq.weight, the only one that bfq on {name} uses",
                cgroup.path
            ),
            format!("echo WEIGHT > /{}/io.bfq.weight (1 to 1000)", cgroup.directory()),
        )),
        "bfq" => None,
        _ if !cost => Some(finding(
            Level::Problem,
            "weight",
            format!(
                "{}: its weight has no effect on {name}: {scheduler} ignores weights, and io.cost is off",
                cgroup.path
            ),
            format!(
                "echo bfq > /sys/block/{name}/queue/scheduler, or echo '{number}enable=1' > /{}/io.cost.qos",
                tree(roots)
            ),
        )),
        _ => None,
    }
}

fn alone(roots: &Roots, cgroup: &Cgroup, _: &Device) -> Option<Finding> {
    let is_weighted = has_configured_weight(cgroup) || weights(roots, cgroup).iter().any(Option::is_some);
    (is_weighted && cgroup.siblings(roots) == 0).then(|| {
        finding(
            Level::Problem,
            "weight",
            format!("{} is the only group in {}: weights divide a share among siblings, so that its weight has no effect", cgroup.path, cgroup.parent()),
            format!("set the weight of {}, which competes with its siblings", cgroup.parent()),
        )
    })
}

/// As crun wrote the weight of a container, into a group inside the container's scope.
fn too_deep(roots: &Roots, cgroup: &Cgroup, _: &Device) -> Option<Finding> {
    if has_configured_weight(cgroup) || weights(roots, cgroup).iter().any(Option::is_some) {
        return None;
    }
    let is_weighted = |group: &Cgroup| weights(roots, group).iter().any(Option::is_some);
    let below =
        cgroup.below(roots).into_iter().find(|group| is_weighted(group) && group.siblings(roots) == 0)?;
    let (path, deep) = (&cgroup.path, &below.path);
    Some(finding(
        Level::Problem,
        "weight",
        format!(
            "the weight is set for {deep}, which has no siblings; {path}, which competes with others, has the default weight"
        ),
        format!(
            "set it for {path}: systemctl set-property {} IOWeight=WEIGHT",
            path.rsplit('/').next().unwrap_or(path)
        ),
    ))
}

fn io_latency(roots: &Roots, cgroup: &Cgroup, _: &Device) -> Option<Finding> {
    let (key, value, file) = cgroup.configured(|key| key == "IODeviceLatencyTargetSec")?;
    cgroup.read(roots, "io.latency").is_none().then(|| {
        finding(
            Level::Problem,
            "latency",
            format!("/{file}: {key}={value} has no effect: this kernel has no io.latency (CONFIG_BLK_CGROUP_IOLATENCY, off in Debian)"),
            "use IOWeight with bfq, or a kernel with that option",
        )
    })
}

fn unit_ionice(_: &Roots, cgroup: &Cgroup, device: &Device) -> Option<Finding> {
    let (key, value, file) = cgroup.configured(|key| key.starts_with("IOScheduling"))?;
    let (name, scheduler) = (&device.leaf.name, device.scheduler());
    (!honours_priorities(scheduler)).then(|| {
        finding(
            Level::Problem,
            "ionice",
            format!("/{file}: {key}={value} has no effect: {scheduler} on {name} ignores I/O priorities"),
            format!("echo bfq > /sys/block/{name}/queue/scheduler, or use IOWeight with io.cost"),
        )
    })
}

/// File systems whose writeback is charged to the cgroup of the writer.
const CHARGED: [&str; 6] = ["ext2", "ext4", "btrfs", "xfs", "f2fs", "erofs"];

fn writeback_owner(_: &Roots, cgroup: &Cgroup, device: &Device) -> Option<Finding> {
    let Mounted { place, kind, .. } =
        device.mounts.iter().find(|mounted| !CHARGED.contains(&mounted.kind.as_str()))?;
    Some(finding(
        Level::Warning,
        "writeback",
        format!(
            "{place} is {kind}, whose buffered writes are charged to the root group, not to {}",
            cgroup.path
        ),
        "limits of the group apply to its reads and direct writes only; ext4, xfs and btrfs charge the writer",
    ))
}
