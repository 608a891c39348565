//! The keys of udev's rules, and the operators that udev accepts for each (udev(7); `parse_token` in systemd's udev-rules.c). udev ignores
//! a line with any other key or operator.

use elevator::text::did_you_mean;

/// Whether a name in braces follows a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Braces {
    Never,
    Maybe,
    Always,
}
use Braces::{Always, Maybe, Never};

/// Keys that udev treats alike: their names, whether braces follow them, and their operators, of which the first is the usual one.
type Keys = (&'static [&'static str], Braces, &'static [&'static str]);

const COMPARES: &[&str] = &["==", "!="];
const SETS: &[&str] = &["=", "+=", ":="];
const ADDS: &[&str] = &["+=", "=", ":="];
const BOTH: &[&str] = &["=", "==", "!=", "+=", ":="];
const ANY: &[&str] = &["+=", "==", "!=", "=", "-=", ":="];

const KEYS: [Keys; 10] = [
    (
        &[
            "ACTION",
            "DEVPATH",
            "KERNEL",
            "SUBSYSTEM",
            "DRIVER",
            "KERNELS",
            "SUBSYSTEMS",
            "DRIVERS",
            "TAGS",
            "RESULT",
        ],
        Never,
        COMPARES,
    ),
    (&["ATTRS", "CONST"], Always, COMPARES),
    (&["TEST"], Maybe, COMPARES),
    (&["ATTR", "ENV", "SYSCTL", "IMPORT"], Always, BOTH),
    (&["NAME", "PROGRAM"], Never, BOTH),
    (&["SYMLINK", "TAG"], Never, ANY),
    (&["OPTIONS", "OWNER", "GROUP", "MODE"], Never, SETS),
    (&["SECLABEL"], Always, SETS),
    (&["RUN"], Maybe, ADDS),
    (&["GOTO", "LABEL"], Never, &["="]),
];

/// The names that udev accepts in braces after a key.
const NAMES: [(&str, &[&str]); 2] = [
    ("RUN", &["program", "builtin"]),
    ("IMPORT", &["program", "builtin", "file", "db", "cmdline", "parent"]),
];

/// Why udev ignores a line, and what to write instead.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) cause: String,
    pub(super) fix: String,
}

/// Why udev rejects `KEY{attribute}operator"value"`, if it does.
pub(super) fn rejection(
    key: &str,
    attribute: Option<&str>,
    operator: &str,
    value: &str,
) -> Option<Rejection> {
    let Some((_, braces, operators)) = KEYS.iter().find(|(names, ..)| names.contains(&key)) else {
        let near = did_you_mean(key, KEYS.iter().flat_map(|(names, ..)| *names).copied());
        let fix = format!("'man 7 udev' lists the keys, all in capitals{near}");
        return Some(Rejection { cause: format!("it has no key {key}"), fix });
    };
    let usual = if operators.contains(&operator) { operator } else { operators[0] };
    let value = value.replace('"', "\\\"");
    let written = |key: &str, attribute: Option<&str>, operator: &str| {
        let inside = attribute.map_or_else(String::new, |name| format!("{{{name}}}"));
        format!("{key}{inside}{operator}\"{value}\"")
    };
    let (cause, fix) = match (braces, attribute) {
        (Never, Some(_)) => {
            (format!("{key} takes no name in braces"), format!("write {}", written(key, None, usual)))
        }
        (Always, None | Some("")) => {
            (format!("{key} needs a name in braces"), format!("write {}", written(key, Some("NAME"), usual)))
        }
        (_, Some(name)) if NAMES.iter().any(|(of, names)| *of == key && !names.contains(&name)) => {
            let names = NAMES.iter().find(|(of, _)| *of == key).map_or(&[][..], |(_, names)| names);
            let cause = format!("{key} takes only {} in braces", names.join(", "));
            (cause, format!("write {}", written(key, Some("program"), usual)))
        }
        _ if operators.contains(&operator) => return None,
        (_, attribute) => {
            let corrected = written(key, attribute, usual);
            let fix = match key {
                "ATTRS" => format!(
                    "write {} to set it, or {corrected} to compare it",
                    written("ATTR", attribute, "=")
                ),
                _ => format!("write {corrected}"),
            };
            (format!("{key} takes only {}", operators.join(", ")), fix)
        }
    };
    Some(Rejection { cause, fix })
}
