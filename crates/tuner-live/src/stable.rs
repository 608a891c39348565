//! Properties that identify a device whatever its name is at the next start, as conditions of udev rules.

use std::fs;
use std::path::Path;

/// Where udev keeps the properties of devices.
pub(crate) const UDEV: &str = "/run/udev/data";

/// Properties of udev's database, the most specific first.
const PROPERTIES: [&str; 6] = ["DM_UUID", "MD_UUID", "ID_SERIAL_SHORT", "ID_SERIAL", "ID_WWN", "ID_PATH"];
/// Attributes of sysfs below `/sys/block/NAME` with the key that matches them.
const ATTRIBUTES: [(&str, &str); 5] = [
    ("dm/uuid", "ATTR{dm/uuid}"),
    ("wwid", "ATTR{wwid}"),
    ("serial", "ATTR{serial}"),
    ("device/wwid", "ATTRS{wwid}"),
    ("device/serial", "ATTRS{serial}"),
];
/// The file of a loop device, unless a process attached it for the time that it runs.
const BACKING_FILE: (&str, &str) = ("loop/backing_file", "ATTR{loop/backing_file}");
/// Files of running processes, and files in memory.
const TRANSIENT: [&str; 4] = ["/run/", "/tmp/", "/proc/", "/dev/"];
/// Devices whose names depend on the order in which they were created, and that have nothing else.
const NAMELESS: [&str; 5] = ["loop", "ram", "zram", "nbd", "ublk"];

/// A stable property of a device: the key of a udev rule, and the value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Property {
    /// `ENV{ID_SERIAL_SHORT}` or `ATTR{wwid}`.
    pub key: String,
    /// The value.
    pub value: String,
}

impl Property {
    /// The most specific property of a device. `block` is a tree like `/sys/block`, `udev` udev's database. `None` if it has none.
    pub(crate) fn of(block: &Path, udev: &Path, name: &str) -> Option<Self> {
        Self::all(block, udev, name).into_iter().find(Self::is_plain)
    }

    /// The most specific property of a device that has only properties that a rule cannot match.
    pub(crate) fn unusable(block: &Path, udev: &Path, name: &str) -> Option<Self> {
        let all = Self::all(block, udev, name);
        if all.iter().any(Self::is_plain) { None } else { all.into_iter().next() }
    }

    /// All properties that are not empty, the most specific first.
    fn all(block: &Path, udev: &Path, name: &str) -> Vec<Self> {
        let read = |file: &str| fs::read_to_string(block.join(name).join(file)).ok();
        let named =
            |key: String, value: &str| (!value.is_empty()).then(|| Self { key, value: value.to_owned() });
        if NAMELESS.iter().any(|kind| name.starts_with(kind)) {
            let (file, key) = BACKING_FILE;
            let is_permanent = |path: &String| {
                !TRANSIENT.iter().any(|directory| path.starts_with(directory)) && !path.contains(" (deleted)")
            };
            let path = read(file).filter(is_permanent);
            return path
                .and_then(|path| named(key.to_owned(), path.trim_end_matches('\n')))
                .into_iter()
                .collect();
        }
        let database = Self::database(block, udev, name);
        let in_database = |property: &&str| {
            let line = format!("E:{property}=");
            let value = database.lines().find_map(|entry| entry.strip_prefix(&line))?;
            named(format!("ENV{{{property}}}"), value)
        };
        let in_sysfs = |(file, key): &(&str, &str)| named((*key).to_owned(), read(file)?.trim());
        PROPERTIES.iter().filter_map(in_database).chain(ATTRIBUTES.iter().filter_map(in_sysfs)).collect()
    }

    /// Values with characters that a rule would read as a pattern or as its end are not used.
    fn is_plain(&self) -> bool {
        self.value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ._:-+/@#,".contains(&byte))
    }

    /// The least of the links to a device below `/dev/disk/by-id`, without `/dev/`. Those of volume groups' members change with what is stored.
    pub(crate) fn link(block: &Path, udev: &Path, name: &str) -> Option<String> {
        let database = Self::database(block, udev, name);
        let links = database.lines().filter_map(|entry| entry.strip_prefix("S:"));
        links
            .filter(|link| link.starts_with("disk/by-id/") && !link.contains("/lvm-"))
            .min()
            .map(str::to_owned)
    }

    /// A shell's expression for the present kernel name of a device: by a link of udev's, or by the file of a loop device.
    pub(crate) fn name_in_a_shell(block: &Path, udev: &Path, name: &str) -> Option<String> {
        let of_file = |property: Self| format!("losetup -nO NAME -j '{}'", property.value);
        let of_link = |link: String| format!("readlink -f '/dev/{link}'");
        let is_plain = |link: &str| !link.contains('\'');
        let by_path = || {
            let database = Self::database(block, udev, name);
            let links = database.lines().filter_map(|entry| entry.strip_prefix("S:"));
            links.filter(|link| link.starts_with("disk/by-path/")).min().map(str::to_owned)
        };
        let command = if name.starts_with("loop") {
            Self::of(block, udev, name).map(of_file)
        } else {
            // The links of `cciss!c0d0` lead into a directory.
            let link = Self::link(block, udev, name).or_else(by_path);
            link.filter(|link| is_plain(link) && !name.contains('!')).map(of_link)
        };
        command.map(|command| format!("$(basename \"$({command})\")"))
    }

    fn database(block: &Path, udev: &Path, name: &str) -> String {
        let number = fs::read_to_string(block.join(name).join("dev")).unwrap_or_default();
        fs::read_to_string(udev.join(format!("b{}", number.trim()))).unwrap_or_default()
    }

    /// Whether the device's name, too, is the same at the next start, as far as the disks are.
    #[must_use]
    pub fn has_name(&self) -> bool {
        self.key != BACKING_FILE.1
    }

    /// A condition of a udev rule.
    #[must_use]
    pub fn condition(&self) -> String {
        format!("{}==\"{}\"", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn the_most_specific_property_is_chosen() {
        let tree = Tree::new("stable");
        let (block, udev) = (tree.block(), tree.directory());
        let of = |name: &str| Property::of(&block, &udev, name).map(|property| property.condition());
        tree.queue("sda");
        fs::write(block.join("sda/dev"), "8:0\n").unwrap();
        assert_eq!(of("sda"), None, "nothing is known but its name");
        fs::create_dir_all(block.join("sda/device")).unwrap();
        fs::write(block.join("sda/device/wwid"), "naa.5000c500a1b2c3d4\n").unwrap();
        assert_eq!(of("sda").unwrap(), "ATTRS{wwid}==\"naa.5000c500a1b2c3d4\"");
        fs::write(udev.join("b8:0"), "S:disk/by-id/x\nE:ID_PATH=pci-0000:00:1f.2-ata-1\n").unwrap();
        assert_eq!(of("sda").unwrap(), "ENV{ID_PATH}==\"pci-0000:00:1f.2-ata-1\"");
        fs::write(udev.join("b8:0"), "E:ID_PATH=pci-0000:00:1f.2-ata-1\nE:ID_SERIAL_SHORT=WD-1\n").unwrap();
        assert_eq!(of("sda").unwrap(), "ENV{ID_SERIAL_SHORT}==\"WD-1\"");
        fs::write(udev.join("b8:0"), "E:ID_SERIAL_SHORT=a\"*\nE:ID_WWN=0x5000\n").unwrap();
        assert_eq!(of("sda").unwrap(), "ENV{ID_WWN}==\"0x5000\"", "a pattern would match others too");
    }

    #[test]
    fn a_disk_is_named_by_its_id() {
        let tree = Tree::new("link");
        let (block, udev) = (tree.block(), tree.directory());
        tree.queue("sda");
        fs::write(block.join("sda/dev"), "8:0\n").unwrap();
        let write = |text: &str| fs::write(udev.join("b8:0"), text).unwrap();
        write("S:disk/by-path/pci-1\nS:disk/by-id/lvm-pv-uuid-x\nE:ID_WWN=0x5\n");
        assert_eq!(Property::link(&block, &udev, "sda"), None);
        let in_a_shell = || Property::name_in_a_shell(&block, &udev, "sda");
        assert_eq!(in_a_shell().unwrap(), "$(basename \"$(readlink -f '/dev/disk/by-path/pci-1')\")");
        write("S:disk/by-id/wwn-0x5\nS:disk/by-id/ata-A_1\n");
        assert_eq!(Property::link(&block, &udev, "sda").as_deref(), Some("disk/by-id/ata-A_1"));
        assert_eq!(in_a_shell().unwrap(), "$(basename \"$(readlink -f '/dev/disk/by-id/ata-A_1')\")");
        write("E:ID_SERIAL=x\n");
        assert_eq!(in_a_shell(), None, "there is no link");
    }

    #[test]
    fn loop_devices_are_identified_by_their_file_only() {
        let tree = Tree::new("stable-loop");
        tree.queue("loop0");
        fs::write(tree.block().join("loop0/dev"), "7:0\n").unwrap();
        fs::write(tree.directory().join("b7:0"), "E:ID_SERIAL=x\n").unwrap();
        let of =
            || Property::of(&tree.block(), &tree.directory(), "loop0").map(|property| property.condition());
        assert_eq!(of(), None);
        fs::create_dir_all(tree.block().join("loop0/loop")).unwrap();
        let attach = |path: &str| fs::write(tree.block().join("loop0/loop/backing_file"), path).unwrap();
        attach("/srv/disks/data 1.img\n");
        assert_eq!(of().unwrap(), "ATTR{loop/backing_file}==\"/srv/disks/data 1.img\"");
        assert_eq!(
            Property::name_in_a_shell(&tree.block(), &tree.directory(), "loop0").unwrap(),
            "$(basename \"$(losetup -nO NAME -j '/srv/disks/data 1.img')\")"
        );
        for other in [
            "/run/dwell/attach/30826-0\n",
            "/dev/shm/data.img\n",
            "/srv/data.img (deleted)\n",
            "/srv/*.img\n",
        ] {
            attach(other);
            assert_eq!(of(), None, "{other}");
            let unusable = Property::unusable(&tree.block(), &tree.directory(), "loop0");
            assert_eq!(unusable.is_some(), other.contains('*'), "{other}");
        }
    }
}
