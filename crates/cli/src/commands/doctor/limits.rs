//! The limits, weights and latency targets that a unit sets for devices, compared with the files of its control group.

use std::path::Path;

use capture::topology::{DeviceType, Layer, Stack};
use capture::{Error, Number, device_below};
use evaluation::report::format::bytes;

use super::finding::{Finding, Level, finding};
use super::roots::Roots;
use super::rules::{is_controlled, weights};
use super::snapshot::Cgroup;
use super::values::{integer, path_and_value, size};

/// A setting for one device (systemd.resource-control(5)).
struct Kind {
    key: &'static str,
    /// The link in findings.
    link: &'static str,
    /// The group's file, and the field of it; a weight has no field.
    file: &'static str,
    field: &'static str,
}

/// A limit in `io.max`, with what it limits.
const LIMITS: [(Kind, &str); 4] = [
    (limit("IOReadBandwidthMax", "rbps="), "reads"),
    (limit("IOWriteBandwidthMax", "wbps="), "writes"),
    (limit("IOReadIOPSMax", "riops="), "read requests"),
    (limit("IOWriteIOPSMax", "wiops="), "write requests"),
];

const OTHERS: [Kind; 2] = [
    Kind { key: "IODeviceWeight", link: "weight", file: "io.weight", field: "" },
    Kind { key: "IODeviceLatencyTargetSec", link: "latency", file: "io.latency", field: "target=" },
];

const fn limit(key: &'static str, field: &'static str) -> Kind {
    Kind { key, link: "limit", file: "io.max", field }
}

/// A setting of a unit's files for a device.
struct Setting<'a> {
    kind: &'a Kind,
    /// The device, or a file or directory on it.
    path: &'a str,
    value: &'a str,
    /// The text for findings: file, key and value.
    text: String,
}

/// The settings for devices, of those with the same key and path the last one. Those with a specifier of systemd in the path are left out, and those that
/// remove a limit.
fn settings(cgroup: &Cgroup) -> Vec<Setting<'_>> {
    let mut all: Vec<Setting<'_>> = Vec::new();
    let kinds = || LIMITS.iter().map(|(kind, _)| kind).chain(&OTHERS);
    for (key, text, file) in cgroup.settings() {
        let Some(kind) = kinds().find(|kind| kind.key == key) else { continue };
        let Some((path, value)) = path_and_value(text) else { continue };
        all.retain(|known| (known.kind.key, known.path) != (key, path));
        all.push(Setting { kind, path, value, text: format!("/{file}: {key}={text}") });
    }
    all.retain(|one| one.value != "infinity" && !one.path.contains('%'));
    all
}

/// The findings about the settings of a group for the device `at`, one of those that it used.
pub(super) fn findings(
    roots: &Roots,
    cgroup: &Cgroup,
    used: &[Stack],
    at: &Stack,
    home: &dyn Fn(&Path) -> Option<Number>,
) -> Vec<Finding> {
    let settings = settings(cgroup);
    let mut found = cgroup.ignored_lines().to_vec();
    let of_device = |one| device_setting(roots, cgroup, (one, &settings), used, at, home);
    found.extend(settings.iter().filter_map(of_device));
    found.extend(weight(roots, cgroup, at));
    found.extend(in_effect(roots, cgroup, at));
    found
}

fn device_setting(
    roots: &Roots,
    cgroup: &Cgroup,
    (setting, all): (&Setting<'_>, &[Setting<'_>]),
    used: &[Stack],
    at: &Stack,
    home: &dyn Fn(&Path) -> Option<Number>,
) -> Option<Finding> {
    let Setting { kind: Kind { link, file, .. }, path, text, .. } = setting;
    if *link == "latency" && cgroup.read(roots, file).is_none() {
        // Another finding has it.
        return None;
    }
    let problem = |what, fix| Some(finding(Level::Problem, link, what, fix));
    let (name, node) = (&at.itself().name, at.itself().node());
    let stack_of = |path: &str| {
        // Of btrfs the path has a number without a device.
        let number = home(Path::new(path)).filter(|number| number.0 != 0);
        let number = number.map_or_else(|| device_below(Path::new(path)), Ok);
        number.and_then(|number| Stack::below(&roots.root.join("sys"), number, home))
    };
    let is_for_this = |other: &&Setting<'_>| {
        other.kind.key == setting.kind.key
            && other.path != *path
            && stack_of(other.path).is_ok_and(|stack| at.contains(stack.itself().number))
    };
    let name_it = match all.iter().find(is_for_this) {
        Some(other) => format!("remove it, if {} is the only device of the unit", other.path),
        None => format!("write {} instead of {path}", node.display()),
    };
    let stack = stack_of(path);
    let stack = match stack {
        Ok(stack) => stack,
        Err(Error::Permission { .. }) => return None,
        Err(error) => return problem(format!("{text} has no effect: {error}"), name_it),
    };
    // systemd goes through partitions and, if they are on one disk, LVM and encryption.
    let passes = |layer: &Layer| matches!(layer.kind, DeviceType::Partition | DeviceType::Mapped);
    let layers = stack.layers();
    let end = layers.iter().position(|layer| !passes(layer)).unwrap_or(layers.len() - 1);
    let (layers, target) = (&layers[..=end], &layers[end]);
    if !used.iter().any(|stack| stack.contains(target.number)) {
        return problem(
            format!(
                "{text} has no effect on {name}: it is for {}, which {} has not used since it started",
                target.name, cgroup.path
            ),
            name_it,
        );
    }
    let is_compared = at.contains(target.number) && is_controlled(roots, cgroup);
    is_compared.then(|| compared(roots, cgroup, setting, layers, target)).flatten()
}

/// A setting that the group's file does not have for `target`, or for one of `layers`, which are those above it.
fn compared(
    roots: &Roots,
    cgroup: &Cgroup,
    setting: &Setting<'_>,
    layers: &[Layer],
    target: &Layer,
) -> Option<Finding> {
    let Setting { kind: Kind { link, file, field, .. }, value, text, .. } = setting;
    // For bfq systemd converts weights to another range, which depends on systemd's version.
    let is_bfq = *link == "weight" && target.scheduler.as_deref() == Some("bfq");
    let file = if is_bfq { "io.bfq.weight" } else { file };
    let Some(contents) = cgroup.read(roots, file) else {
        let what = format!("{text} has no effect: this kernel has no io.max (CONFIG_BLK_DEV_THROTTLING)");
        let is_limit = *link == "limit";
        return is_limit.then(|| finding(Level::Problem, link, what, "use a kernel with that option"));
    };
    if is_bfq && weights(roots, cgroup)[1].is_none() {
        // Another finding has it.
        return None;
    }
    let expected = match *link {
        "limit" => size(value),
        "weight" if !is_bfq => integer(value).map(u64::from),
        _ => None,
    };
    let actual = layers.iter().find_map(|layer| value_of(&contents, layer.number, field));
    let is_as_expected = |actual: &str| expected.is_none_or(|value| actual.parse() == Ok(value));
    let has = match actual {
        Some(actual) if is_as_expected(actual) => return None,
        Some(actual) => format!("has {field}{actual} for {}", target.name),
        None => format!("has no {link} for {}", target.name),
    };
    Some(not_applied(link, text, cgroup, file, &has))
}

fn not_applied(link: &'static str, text: &str, cgroup: &Cgroup, file: &str, has: &str) -> Finding {
    finding(
        Level::Problem,
        link,
        format!("{text} is not applied: {file} of {} {has}", cgroup.path),
        format!("systemctl daemon-reload; if {file} remains so, 'journalctl -b _PID=1' has systemd's reason"),
    )
}

/// `IOWeight=` that is not in `io.weight`. For bfq another rule compares it with `io.bfq.weight`.
fn weight(roots: &Roots, cgroup: &Cgroup, at: &Stack) -> Option<Finding> {
    let (key, value, file) = cgroup.configured(|key| key == "IOWeight")?;
    let queues = at.scheduling().map_or_else(|_| Vec::new(), |found| found.queues);
    let is_bfq = |queue: &Layer| queue.scheduler.as_deref() == Some("bfq");
    if !is_controlled(roots, cgroup) || (!queues.is_empty() && queues.iter().all(is_bfq)) {
        return None;
    }
    let contents = cgroup.read(roots, "io.weight")?;
    let default = contents.lines().find_map(|line| line.strip_prefix("default "))?;
    (default.parse().ok() != integer(value)).then(|| {
        let text = format!("/{file}: {key}={value}");
        not_applied("weight", &text, cgroup, "io.weight", &format!("has default {default}"))
    })
}

/// A note for each limit in `io.max` of the group, and of those above, whose limits include it.
fn in_effect(roots: &Roots, cgroup: &Cgroup, at: &Stack) -> Vec<Finding> {
    let above = cgroup.above(roots);
    above.iter().chain([cgroup]).flat_map(|group| limits_of(roots, group, at)).collect()
}

fn limits_of(roots: &Roots, group: &Cgroup, at: &Stack) -> Vec<Finding> {
    let text = group.read(roots, "io.max").unwrap_or_default();
    let numbers = text.lines().filter_map(|line| capture::number(line.split(' ').next()?));
    let mut found = Vec::new();
    for number in numbers.filter(|&number| at.contains(number)) {
        let stack = Stack::below(&roots.root.join("sys"), number, &|_| None);
        let name = stack.map_or_else(|_| String::new(), |stack| stack.itself().name.clone());
        for (Kind { key, field, .. }, of) in &LIMITS {
            let Some(value) = value_of(&text, number, field) else { continue };
            let rate = match value.parse() {
                Ok(value) if field.ends_with("bps=") => format!("{}/s", bytes(value)),
                _ => format!("{value}/s"),
            };
            let what =
                format!("{}: {of} on {name} are limited to {rate} ({field}{value} in io.max)", group.path);
            let unit = group.path.rsplit('/').next().unwrap_or_default();
            let fix = match group.configured(|known| known == *key) {
                Some(_) => format!("'systemctl set-property {unit} {key}=' removes the limit"),
                None => {
                    let (major, minor) = number;
                    format!(
                        "echo '{major}:{minor} {field}max' > /{}/io.max removes the limit",
                        group.directory()
                    )
                }
            };
            found.push(finding(Level::Note, "limit", what, fix));
        }
    }
    found
}

/// The value of a field in the line of a device, unless it is `max`: `8:0 rbps=max wbps=5000000`.
fn value_of<'a>(text: &'a str, (major, minor): Number, field: &str) -> Option<&'a str> {
    let start = format!("{major}:{minor} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start))?;
    line.split_whitespace().find_map(|word| word.strip_prefix(field)).filter(|value| *value != "max")
}
