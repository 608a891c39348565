//! The lines to paste: they set a scheduler now and at each start, and revert it.

use std::path::Path;

use serde::Serialize;
use tuner_live::arms::Arms;
use tuner_live::{Property, QueueSettings};

use crate::commands::doctor::Roots;

/// Configuration of a scheduler, as text to paste.
#[derive(Serialize, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Configuration {
    /// Sets it until the next start; `None` if it is set.
    pub(super) set: Option<String>,
    /// The same without `dwell`, for programs that start later; `None` if neither `set` nor `remark` needs `dwell`.
    pub(super) set_by_hand: Option<String>,
    /// Lines of a file of udev's, by properties that stay the same.
    pub(super) udev_rule: Option<String>,
    /// The file for the rule.
    pub(super) udev_file: Option<String>,
    /// Returns to the scheduler that is in use now, and removes the rule.
    pub(super) revert: Vec<String>,
    /// A profile of tuned's, with the same effect.
    pub(super) tuned_profile: Option<String>,
    /// The directory for the profile.
    #[serde(skip)]
    pub(super) tuned_directory: String,
    /// Returns to the profiles that were active before.
    pub(super) tuned_revert: Option<String>,
    /// The unit that chooses again whenever the load changes; `None` if it cannot be enabled here.
    pub(super) unit: Option<String>,
    /// Ends the unit, which restores the scheduler.
    pub(super) unit_revert: Option<String>,
    /// What to do instead of enabling the unit.
    pub(super) unit_remark: Option<String>,
    /// Why something is missing.
    pub(super) remark: Option<String>,
}

/// What this system has for a permanent setting.
pub(super) struct Host {
    /// systemd runs (sd_booted(3)).
    has_systemd: bool,
    /// udev runs, which applies rules.
    has_udev: bool,
    /// The unit is installed.
    has_unit: bool,
    has_tuned: bool,
    /// Where tuned reads the administrator's profiles: 2.25 (Debian 13) in a folder of their own.
    tuned_profiles: &'static str,
}

impl Host {
    pub(super) fn of(roots: &Roots) -> Self {
        Self {
            has_systemd: roots.has("run/systemd/system"),
            has_udev: roots.has("run/udev"),
            has_unit: roots.unit_file("dwell-tune@.service").is_some(),
            has_tuned: ["etc/tuned", "usr/lib/tuned"].iter().any(|directory| roots.has(directory)),
            tuned_profiles: if roots.has("etc/tuned/profiles") {
                "/etc/tuned/profiles"
            } else {
                "/etc/tuned"
            },
        }
    }

    /// What to do where the unit cannot be enabled; `None` if it can.
    fn instead_of_unit(&self, name: &str, unit: &str, current: &str) -> Option<String> {
        if !self.has_systemd {
            let device = name.replace('!', "/");
            return Some(format!(
                "'dwell tune /dev/{device}' chooses again whenever the load changes (systemd, which would start the unit {unit}, does not run \
                 here); Ctrl-C ends it and restores {current}"
            ));
        }
        (!self.has_unit).then(|| {
            format!(
                "for a load that changes there is the unit {unit}, which is not installed; to install it in a clone of Dwell, and to enable it:\n\
                 install -t /usr/bin \"$(command -v dwell)\" && cp packaging/dwell-tune@.service /etc/systemd/system && systemctl daemon-reload\n\
                 systemctl enable --now {unit}\n\
                 revert:  systemctl disable --now {unit}"
            )
        })
    }
}

impl Configuration {
    /// The first line of the rule, and of the profile, before the command that applies it.
    pub(super) const APPLY: &str = "# then: ";
    /// The configuration of an arm on these queues, instead of the operator's `current`, to whose settings `before` returns. `tune` is the command that
    /// tunes the device.
    pub(super) fn of(
        [arm, current, before]: [&str; 3],
        queues: &[QueueSettings],
        arms: &dyn Arms,
        (host, tune): (&Host, &str),
    ) -> Self {
        let (by_hand, udev_rule) = arms.by_hand(arm);
        let switch = |to: &str| arms.needs_a_switch(to).then(|| switch_to(tune, to));
        let command = switch(arm).unwrap_or_else(|| by_hand.clone());
        let set = (arm != current).then(|| command.clone());
        let properties: Option<Vec<Property>> = queues.iter().map(QueueSettings::property).collect();
        let kernel_name = queues.first().map_or("disk", QueueSettings::name);
        let name = kernel_name.replace('!', "-");
        let has_name = properties.iter().flatten().all(Property::has_name);
        // The device may have another name at the next start, and another one its name: the file has the name of what the rule matches.
        let file = match properties.as_deref() {
            Some([property, ..]) => file_of(property),
            _ => rules_file(&name),
        };
        let matches = queues.iter().map(|queue| format!(" --sysname-match={}", queue.name()));
        let matches = matches.collect::<String>();
        let udev_rule = udev_rule.map(|rule| {
            let apply = Self::APPLY;
            format!("{apply}udevadm control --reload && udevadm trigger --action=change{matches}\n{rule}")
        });
        let back = || switch(before).unwrap_or_else(|| by_property(arms.by_hand(before).0, queues));
        let mut revert: Vec<String> = set.iter().map(|_| back()).collect();
        if udev_rule.is_some() {
            revert.push(format!("rm {file} && udevadm control --reload"));
        }
        let read_ahead = queues.first().and_then(|queue| queue.get("read_ahead_kb").ok());
        let profile = |properties: &Vec<Property>| tuned(&name, arm, properties, read_ahead.as_deref());
        let tuned_profile = properties.as_ref().filter(|_| udev_rule.is_some() && host.has_tuned);
        let tuned_profile = tuned_profile.and_then(profile);
        let tuned_directory = format!("{}/dwell-{name}", host.tuned_profiles);
        let is_transient = udev_rule.is_none();
        let unit = (!is_transient && has_name && queues.len() == 1).then(|| {
            let link = queues.first().and_then(QueueSettings::link);
            // The kernel may name the disk otherwise at the next start.
            link.map_or_else(
                || format!("dwell-tune@{name}"),
                |link| format!("'dwell-tune@{}'", instance(&link)),
            )
        });
        let unit_remark = unit.as_ref().and_then(|unit| host.instead_of_unit(kernel_name, unit, current));
        let unit = unit.filter(|_| unit_remark.is_none());
        let run = if set.is_some() { "the command above" } else { &*command };
        let remark = match is_transient {
            true => Some(no_rule(&name, queues, run)),
            false => (!host.has_udev).then(|| {
                format!("udev does not run here, so that nothing applies the rule; at each start, run {run} instead")
            }),
        };
        let is_named = command != by_hand && (set.is_some() || remark.is_some());
        let set_by_hand = is_named.then_some(by_hand);
        Self {
            set,
            set_by_hand,
            udev_file: udev_rule.is_some().then_some(file),
            udev_rule,
            revert,
            tuned_revert: tuned_profile.is_some().then(|| {
                let others = other_profiles(&name);
                format!(
                    "p={others}; if [ \"$p\" ]; then tuned-adm profile $p; else tuned-adm off; fi; rm -r {tuned_directory}"
                )
            }),
            tuned_profile,
            tuned_directory,
            unit: unit.as_ref().map(|unit| format!("systemctl enable --now {unit}")),
            unit_revert: unit.map(|unit| format!("systemctl disable --now {unit}")),
            unit_remark,
            remark,
        }
    }
}

/// Why there is no udev rule, and what to do instead.
fn no_rule(name: &str, queues: &[QueueSettings], command: &str) -> String {
    let reason = match queues.iter().find_map(QueueSettings::unusable_property) {
        Some(Property { key, value }) => format!(
            "{name} is identified by {key} = {value:?}, which a rule cannot match: the value has characters other than letters, digits, spaces and ._:-+/@#,"
        ),
        None => format!(
            "{name} has no serial number, WWN, UUID, path or permanent file by which a rule would find it at the next start"
        ),
    };
    format!("no udev rule: {reason}; where the device is set up, run {command}")
}

/// The command that sets an arm once, also for programs that run. `tune` is the one that tunes the device.
pub(super) fn switch_to(tune: &str, arm: &str) -> String {
    format!("{tune} --switch-to '{}'", arm.replace('\'', "'\\''"))
}

/// A command that prints the names of the active profiles of tuned's, without this disk's.
fn other_profiles(name: &str) -> String {
    format!("$(sed 's/ *\\<dwell-{name}\\>//' /etc/tuned/active_profile)")
}

/// A path below `/dev` as the instance of a unit, as `systemd-escape --path` prints it.
fn instance(path: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'/' => "-".to_owned(),
        b':' | b'_' | b'.' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    path.bytes().map(escaped).collect()
}

/// udev reads files in the order of their names: this one after those that set serial numbers (60-persistent-storage) and UUIDs (63-md-raid-arrays).
fn rules_file(name: &str) -> String {
    format!("/etc/udev/rules.d/90-dwell-{name}.rules")
}

/// A command that sets attributes of these queues, also after the kernel has exchanged the names of disks.
fn by_property(command: String, queues: &[QueueSettings]) -> String {
    queues.iter().fold(command, |command, queue| {
        let attribute = queue.file("");
        let block = attribute.ancestors().nth(2).map(Path::display);
        let Some((name, block)) = queue.name_by_property().zip(block) else { return command };
        command.replace(&format!("> {}", attribute.display()), &format!("> {block}/{name}/queue/"))
    })
}

/// The file for the rule of a device: with the property that identifies the device (of a backing file, its name), and a checksum (FNV-1a) because
/// files in different folders may have the same name.
fn file_of(property: &Property) -> String {
    let base = property.value.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let base: String = base.chars().take(40).map(plain).collect();
    let bytes = property.value.bytes();
    let sum = bytes.fold(0x811c_9dc5, |sum: u32, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    rules_file(&format!("{base}-{sum:08x}"))
}

/// A profile of tuned's for a scheduler without settings of its own, which tuned cannot set. Tuned reads udev's properties. The profile is added to
/// the active ones, whose other settings stay: its section has a name of its own, as one named `disk` would restrict theirs to this disk.
fn tuned(name: &str, arm: &str, properties: &[Property], read_ahead: Option<&str>) -> Option<String> {
    if arm.contains('{') {
        return None;
    }
    let of_udev = |property: &Property| {
        let key = property.key.strip_prefix("ENV{")?.strip_suffix('}')?;
        Some(format!("{key}={}", property.value.replace('.', "\\.").replace('+', "\\+")))
    };
    let all: Option<Vec<String>> = properties.iter().map(of_udev).collect();
    let regex = all?.join("|");
    let (apply, others) = (Configuration::APPLY, other_profiles(name));
    let read_ahead = read_ahead.map_or(String::new(), |kib| {
        format!("\n# as now, because section [disk] of another profile no longer applies to this disk\nreadahead={kib}")
    });
    Some(format!(
        "{apply}tuned-adm profile {others} dwell-{name}\n[main]\nsummary=I/O scheduler by dwell advise\n\n[variables]\n\
         # at start, tuned would ignore disks whose properties udev has not set yet\n\
         dwell_settled=${{f:exec:udevadm:settle:--timeout=60}}\n\n[dwell-{name}]\ntype=disk\npriority=-1\n\
         devices_udev_regex=^({regex})$\nelevator={arm}{read_ahead}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_tuneds_finds_the_disk_by_its_property() {
        let property = |key: &str, value: &str| Property { key: key.to_owned(), value: value.to_owned() };
        let serial = property("ENV{ID_SERIAL_SHORT}", "WD-1.2");
        let profile = tuned("sda", "bfq", std::slice::from_ref(&serial), None).expect("a plain scheduler");
        assert!(
            profile.ends_with(
                "[dwell-sda]\ntype=disk\npriority=-1\ndevices_udev_regex=^(ID_SERIAL_SHORT=WD-1\\.2)$\nelevator=bfq"
            ),
            "{profile}"
        );
        let two = tuned("md0", "none", &[serial.clone(), property("ENV{ID_WWN}", "0x5")], Some("512"))
            .expect("as well");
        assert!(two.contains("devices_udev_regex=^(ID_SERIAL_SHORT=WD-1\\.2|ID_WWN=0x5)$"), "{two}");
        assert!(two.ends_with("\nreadahead=512"), "{two}");
        let plain = std::slice::from_ref(&serial);
        assert_eq!(tuned("sda", "bfq{slice_idle=0}", plain, None), None, "tuned sets no tunables");
        assert_eq!(
            tuned("sda", "bfq", &[property("ATTR{serial}", "x")], None),
            None,
            "not in udev's database"
        );
    }

    /// Regression: the unit was advised where it was not installed, and where systemd did not run.
    #[test]
    fn a_unit_that_cannot_be_enabled_is_replaced_by_what_works() {
        let root = std::env::temp_dir().join(format!("dwell-host-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let remark = || {
            let host = Host::of(&Roots::at(&root));
            host.instead_of_unit("cciss!c0d0", "dwell-tune@cciss-c0d0", "none")
        };
        let without_systemd = remark().expect("nothing is there");
        assert!(
            without_systemd.starts_with("'dwell tune /dev/cciss/c0d0' ")
                && without_systemd.ends_with("restores none")
        );
        std::fs::create_dir_all(root.join("run/systemd/system")).unwrap();
        let not_installed = remark().expect("no unit");
        assert!(
            not_installed.contains("\nsystemctl enable --now dwell-tune@cciss-c0d0\n"),
            "{not_installed}"
        );
        let units = root.join("usr/lib/systemd/system");
        std::fs::create_dir_all(&units).unwrap();
        std::fs::write(units.join("dwell-tune@.service"), "[Unit]\n").unwrap();
        assert_eq!(remark(), None);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_unit_names_a_disk_by_its_link() {
        assert_eq!(instance("disk/by-id/ata-A_1.2"), "disk-by\\x2did-ata\\x2dA_1.2");
    }

    /// Regression: after a start at which the kernel exchanged names, the line set the scheduler of another disk.
    #[test]
    fn the_scheduler_before_is_set_by_what_the_rule_matches() {
        let root = std::env::temp_dir().join(format!("dwell-revert-{}", std::process::id()));
        for name in ["loop0", "sda"] {
            std::fs::create_dir_all(root.join(name).join("queue")).unwrap();
            std::fs::create_dir_all(root.join(name).join("loop")).unwrap();
        }
        std::fs::write(root.join("loop0/loop/backing_file"), "/srv/a b.img\n").unwrap();
        let queues = ["loop0", "sda"].map(|name| QueueSettings::within(&root, name));
        let echo = |name: &str| format!("echo none > {}", root.join(name).join("queue/scheduler").display());
        let line = by_property(format!("{}; {}", echo("loop0"), echo("sda")), &queues);
        let found = "$(basename \"$(losetup -nO NAME -j '/srv/a b.img')\")";
        let expected = format!("echo none > {}/{found}/queue/scheduler; {}", root.display(), echo("sda"));
        assert_eq!(line, expected, "nothing identifies the second one");
        let no_rule = || no_rule("loop0", &queues, "x");
        assert!(no_rule().contains("loop0 has no serial number"), "{}", no_rule());
        std::fs::write(root.join("loop0/loop/backing_file"), "/srv/a[1]*.img\n").unwrap();
        let expected =
            "identified by ATTR{loop/backing_file} = \"/srv/a[1]*.img\", which a rule cannot match";
        assert!(no_rule().contains(expected), "{}", no_rule());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn each_backing_file_has_a_rules_file_of_its_own() {
        let file = |value: &str| {
            file_of(&Property { key: "ATTR{loop/backing_file}".to_owned(), value: value.to_owned() })
        };
        assert_eq!(file("/srv/a b.img"), "/etc/udev/rules.d/90-dwell-a-b.img-63a92e18.rules");
        assert_ne!(file("/srv/disk.img"), file("/data/disk.img"));
        assert_ne!(file("/srv/one.img"), file("/srv/two.img"));
    }
}
