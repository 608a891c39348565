//! The name of a drive in the database: the same for the same model and size in each machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use capture::topology::Scheduling;

/// The name of the disk whose queue schedules, or of the array whose members' queues do. `block` is `/sys/block`.
pub fn of(block: &Path, scheduling: &Scheduling) -> String {
    let names: Vec<&str> = scheduling.queues.iter().map(|queue| queue.name.as_str()).collect();
    match *names {
        [name] => drive(block, name),
        _ => array(block, &scheduling.above.name, &names),
    }
}

/// The devices in `block` whose queues a tuner of such a drive or array claims. `scheduling` returns the queues that schedule a device.
pub fn queues_of(
    block: &Path,
    such: &str,
    scheduling: impl Fn(&str) -> Option<Scheduling>,
) -> BTreeSet<String> {
    let names = fs::read_dir(block).into_iter().flatten().flatten();
    let queues = names.flat_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let below = scheduling(&name).filter(|scheduling| of(block, scheduling) == such);
        let below = below.into_iter().flat_map(|scheduling| scheduling.queues).map(|queue| queue.name);
        // A device that schedules only at times is also a drive of its own.
        let own = (drive(block, &name) == such).then_some(name);
        own.into_iter().chain(below).collect::<Vec<_>>()
    });
    queues.collect()
}

/// An array's level and members: `raid1 of 2 x WDC WD5000AAKS-00YGA0, 976773168 sectors, rotating`.
fn array(block: &Path, name: &str, members: &[&str]) -> String {
    let level = fs::read_to_string(block.join(name).join("md/level"));
    let level = level.map_or_else(|_| "mapped".to_owned(), |level| level.trim().to_owned());
    let mut drives: Vec<String> = members.iter().map(|member| drive(block, member)).collect();
    // Disk names, and with them the order, change between boots.
    drives.sort_unstable();
    let alike = drives.chunk_by(|one, other| one == other);
    let alike = alike.map(|drives| format!("{} x {}", drives.len(), drives[0])).collect::<Vec<_>>();
    format!("{level} of {}", alike.join(" and "))
}

/// A device's model and size: `WDC WD5000AAKS-00YGA0, 976773168 sectors, rotating`. Devices without a model, such as loop devices, keep their
/// own name.
fn drive(block: &Path, name: &str) -> String {
    let read = |file: &str| {
        let text = fs::read_to_string(block.join(name).join(file)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let model = read("device/model");
    let model = if model.is_empty() { name.to_owned() } else { model };
    let kind = if read("queue/rotational") == "1" { "rotating" } else { "not rotating" };
    format!("{model}, {} sectors, {kind}", read("size"))
}

#[cfg(test)]
mod tests {
    use capture::topology::{DeviceType, Layer};

    use super::*;
    use crate::testing::Tree;

    #[test]
    fn a_drive_is_named_by_its_model_or_else_by_its_device() {
        let tree = Tree::new("identity");
        tree.queue("sda");
        let directory = tree.block().join("sda");
        fs::write(directory.join("size"), "976773168\n").unwrap();
        assert_eq!(drive(&tree.block(), "sda"), "sda, 976773168 sectors, not rotating");
        fs::create_dir(directory.join("device")).unwrap();
        fs::write(directory.join("device/model"), "WDC  WD5000AAKS \n").unwrap();
        fs::write(directory.join("queue/rotational"), "1\n").unwrap();
        assert_eq!(drive(&tree.block(), "sda"), "WDC WD5000AAKS, 976773168 sectors, rotating");
    }

    #[test]
    fn an_array_is_named_by_its_members() {
        let tree = Tree::new("identity-array");
        for name in ["sda", "sdb", "sdc"] {
            tree.queue(name);
            let directory = tree.block().join(name);
            fs::create_dir(directory.join("device")).unwrap();
            fs::write(directory.join("device/model"), "WD\n").unwrap();
            fs::write(directory.join("size"), if name == "sdc" { "9\n" } else { "8\n" }).unwrap();
        }
        let level = tree.block().join("md0/md");
        fs::create_dir_all(&level).unwrap();
        fs::write(level.join("level"), "raid5\n").unwrap();
        assert_eq!(
            array(&tree.block(), "md0", &["sda", "sdb", "sdc"]),
            "raid5 of 2 x WD, 8 sectors, not rotating and 1 x WD, 9 sectors, not rotating"
        );
        assert_eq!(
            array(&tree.block(), "md0", &["sda", "sdc", "sdb"]),
            array(&tree.block(), "md0", &["sdc", "sda", "sdb"]),
            "disks may be found in another order after the next start"
        );
        assert_eq!(
            array(&tree.block(), "dm-0", &["sda", "sdb"]),
            "mapped of 2 x WD, 8 sectors, not rotating"
        );
    }

    #[test]
    fn claiming_an_array_claims_its_members_queues() {
        let tree = Tree::new("identity-claimed");
        for name in ["sda", "sdb", "sdc", "md0", "dm-0"] {
            tree.queue(name);
        }
        let layer = |name: &str| Layer {
            name: name.to_owned(),
            number: (0, 0),
            kind: DeviceType::Disk,
            scheduler: None,
            available: Vec::new(),
            rotational: false,
        };
        let scheduling = |name: &str| match name {
            "md0" => Some(Scheduling { above: layer("md0"), queues: ["sda", "sdb"].map(layer).to_vec() }),
            "dm-0" => Some(Scheduling::by(&layer("sdc"))),
            _ => Some(Scheduling::by(&layer(name))),
        };
        let queues = |such: &str| queues_of(&tree.block(), such, scheduling).into_iter().collect::<Vec<_>>();
        assert_eq!(queues(&array(&tree.block(), "md0", &["sda", "sdb"])), ["sda", "sdb"]);
        assert_eq!(queues(&drive(&tree.block(), "sdc")), ["sdc"], "once, though another stands on it");
        assert_eq!(queues("another"), [""; 0]);
    }
}
