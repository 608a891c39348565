//! The settings of a unit that concern I/O, from its file and drop-ins, and the lines that systemd ignores (systemd.exec(5), systemd.resource-control(5)).

use std::collections::BTreeMap;

use elevator::text::did_you_mean;

use super::finding::{Finding, Level, finding};
use super::roots::Roots;
use super::values::{integer, is_time, path_and_value, size};

/// Directories of unit files; a later one has precedence (systemd.unit(5)).
pub(super) const DIRECTORIES: [&str; 8] = [
    "lib/systemd/system",
    "usr/lib/systemd/system",
    "usr/local/lib/systemd/system",
    "run/systemd/system",
    "etc/systemd/system",
    "run/systemd/transient",
    "run/systemd/system.control",
    "etc/systemd/system.control",
];

impl Roots {
    /// The file of a unit of systemd's; of several the one that has precedence.
    pub(crate) fn unit_file(&self, unit: &str) -> Option<String> {
        let files = DIRECTORIES.map(|directory| format!("{directory}/{unit}"));
        files.into_iter().rfind(|file| self.read(file).is_some())
    }
}

/// The controllers that a unit keeps from the units below it.
pub(super) const DISABLED: &str = "DisableControllers";

const CLASS: &str = "IOSchedulingClass";
const PRIORITY: &str = "IOSchedulingPriority";

/// The keys that concern I/O, with the link of findings about them.
const KEYS: [(&str, &str); 12] = [
    (CLASS, "ionice"),
    (PRIORITY, "ionice"),
    ("IOAccounting", "weight"),
    ("IOWeight", "weight"),
    ("IODeviceWeight", "weight"),
    ("IOReadBandwidthMax", "limit"),
    ("IOWriteBandwidthMax", "limit"),
    ("IOReadIOPSMax", "limit"),
    ("IOWriteIOPSMax", "limit"),
    ("IODeviceLatencyTargetSec", "latency"),
    ("IOPressureWatch", "weight"),
    ("IOPressureThresholdSec", "weight"),
];

/// The kinds of units that have these keys, and the section in which they are.
const SECTIONS: [(&str, &str); 6] = [
    ("service", "Service"),
    ("slice", "Slice"),
    ("scope", "Scope"),
    ("socket", "Socket"),
    ("mount", "Mount"),
    ("swap", "Swap"),
];

/// The settings of a unit.
#[derive(Default)]
pub(super) struct Unit {
    /// The effective one last: key, value, file.
    pub(super) settings: Vec<(String, String, String)>,
    /// Findings about lines that systemd ignores.
    pub(super) ignored: Vec<Finding>,
}

impl Unit {
    /// By a unit's name.
    pub(super) fn of(roots: &Roots, unit: &str) -> Self {
        let template = unit
            .split_once('@')
            .and_then(|(name, instance)| Some(format!("{name}@.{}", instance.rsplit_once('.')?.1)));
        let names: Vec<&str> = template.as_deref().into_iter().chain([unit]).collect();
        let main = names.iter().rev().find_map(|name| roots.unit_file(name));
        let mut drop_ins: BTreeMap<String, String> = BTreeMap::new();
        let directories =
            names.iter().flat_map(|name| DIRECTORIES.map(|directory| format!("{directory}/{name}.d")));
        for directory in directories {
            let found = roots.names(&directory).into_iter().filter(|name| name.ends_with(".conf"));
            drop_ins.extend(found.map(|name| (name.clone(), format!("{directory}/{name}"))));
        }
        let kind = unit.rsplit_once('.').map_or("", |(_, kind)| kind);
        let mut found = Self::default();
        for file in main.into_iter().chain(drop_ins.into_values()) {
            found.read(kind, &file, &roots.read(&file).unwrap_or_default());
        }
        found
    }

    /// Adds the lines of a file of a unit of this kind, such as `service`.
    fn read(&mut self, kind: &str, file: &str, text: &str) {
        let mut section = String::new();
        for line in joined(text) {
            let line = line.trim();
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name.to_owned();
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim_end(), value.trim_start());
            let of_io = key.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("IO"));
            // Other programs read sections of this name.
            if (!of_io && key != DISABLED) || section.starts_with("X-") {
                continue;
            }
            if let Some((cause, fix)) = ignored(kind, &section, key, value).filter(|_| of_io) {
                let link = KEYS.iter().find(|(known, _)| *known == key).map_or("unit", |(_, link)| link);
                let what = format!("/{file}: systemd ignores {key}={value}: {cause}");
                self.ignored.push(finding(Level::Problem, link, what, fix));
            } else if value.is_empty() {
                // Resets what earlier files have.
                self.settings.retain(|(known, ..)| known != key);
            } else {
                self.settings.push((key.to_owned(), value.to_owned(), file.to_owned()));
            }
        }
    }
}

/// The lines without comments. A backslash at the end of a line continues it with the next line that is no comment, and stands for a blank
/// (systemd.syntax(7)); after another backslash it does not.
fn joined(text: &str) -> Vec<String> {
    let (mut found, mut begun) = (Vec::new(), String::new());
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        begun += line;
        let backslashes = begun.len() - begun.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            begun.pop();
            begun.push(' ');
        } else {
            found.push(std::mem::take(&mut begun));
        }
    }
    found.push(begun);
    found
}

/// Why systemd ignores a line of a unit of this kind, if it does, and the remedy.
fn ignored(kind: &str, section: &str, key: &str, value: &str) -> Option<(String, String)> {
    if !KEYS.iter().any(|(known, _)| *known == key) {
        let near = did_you_mean(key, KEYS.iter().map(|(known, _)| *known));
        let fix = format!("systemd.resource-control(5) and systemd.exec(5) have all names{near}");
        return Some(("it has no such setting".to_owned(), fix));
    }
    if matches!(key, CLASS | PRIORITY) && matches!(kind, "slice" | "scope") {
        let fix = "set it for the services in it, or use IOWeight".to_owned();
        return Some((format!("a {kind} has no such setting"), fix));
    }
    let own = SECTIONS.iter().find(|(known, _)| *known == kind).map(|(_, section)| *section);
    if let Some(own) = own.filter(|own| *own != section) {
        let cause = match section {
            "" => "it is in no section".to_owned(),
            _ => format!("it is in [{section}]"),
        };
        return Some((cause, format!("write it below [{own}]")));
    }
    if value.is_empty() { None } else { wrong_value(key, value) }
}

/// Why systemd rejects a value, if it does, and the remedy.
fn wrong_value(key: &str, value: &str) -> Option<(String, String)> {
    const CLASSES: [&str; 4] = ["none", "realtime", "best-effort", "idle"];
    let is_number = |text: &str, least: u32, most: u32| {
        integer(text).is_some_and(|number| (least..=most).contains(&number))
    };
    let weight = |text: &str| {
        (!is_number(text, 1, 10_000))
            .then(|| (format!("'{text}' is no weight"), "write a number from 1 to 10000".to_owned()))
    };
    match key {
        CLASS if !CLASSES.contains(&value) && !is_number(value, 0, 3) => {
            let near = did_you_mean(value, CLASSES);
            let fix = format!("write realtime, best-effort or idle{near}");
            Some((format!("there is no class '{value}'"), fix))
        }
        PRIORITY if !is_number(value, 0, 7) => {
            let fix = "write a number from 0 (the highest) to 7".to_owned();
            Some((format!("'{value}' is no priority"), fix))
        }
        "IOWeight" => weight(value),
        "IODeviceWeight"
        | "IODeviceLatencyTargetSec"
        | "IOReadBandwidthMax"
        | "IOWriteBandwidthMax"
        | "IOReadIOPSMax"
        | "IOWriteIOPSMax" => {
            let Some((path, amount)) = path_and_value(value) else {
                let fix = format!("write a device and a value, such as {key}=/dev/sda {}", example(key));
                return Some(("it needs a device and a value".to_owned(), fix));
            };
            // Specifiers, which only paths have, are not resolved here.
            if !path.starts_with(['/', '%']) {
                let fix = format!("write /dev/{path}, if that is the device");
                return Some((format!("'{path}' is no absolute path"), fix));
            }
            match key {
                "IODeviceWeight" => weight(amount),
                "IODeviceLatencyTargetSec" if is_time(amount) => None,
                "IODeviceLatencyTargetSec" => {
                    Some((format!("'{amount}' is no time"), "write one, such as 25ms".to_owned()))
                }
                _ if amount == "infinity" || size(amount).is_some_and(|size| size > 0) => None,
                _ => {
                    let fix = "write one value, such as 5M or infinity".to_owned();
                    Some((format!("'{amount}' is no limit"), fix))
                }
            }
        }
        _ => None,
    }
}

fn example(key: &str) -> &'static str {
    match key {
        "IODeviceWeight" => "200",
        "IODeviceLatencyTargetSec" => "25ms",
        "IOReadIOPSMax" | "IOWriteIOPSMax" => "1000",
        _ => "5M",
    }
}
