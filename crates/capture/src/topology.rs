//! Where a device's requests are scheduled: down through partitions, loop devices, device mapper and RAID, as sysfs has
//! them.
//!
//! A program asks the device that it opened; the queue in which its requests are put in order may be several devices
//! further down. The walk ends at the first device with a scheduler that is not `none`, and otherwise at the lowest that
//! offers a choice. Ways that part and meet again are one: a thin volume stands on its pool's data and on what the pool
//! notes about them, both on one disk.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::number::{Number, number_in, number_of};

/// What a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A disk, as far as this system can see.
    Disk,
    /// A disk that the host of this virtual machine made (virtio).
    Virtual,
    /// An NVMe drive.
    Nvme,
    /// A part of a disk.
    Partition,
    /// A file or another device seen as a device.
    Loop,
    /// Of the device mapper: LVM, encryption, multipath.
    Mapped,
    /// RAID by md.
    Raid,
}

/// A device of the stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Its name, as in `/sys/block`.
    pub name: String,
    /// Its number.
    pub number: Number,
    /// What it is.
    pub kind: Kind,
    /// The scheduler of its queue; `None` for partitions, which have no queue, and, on newer kernels (seen on 6.12), for devices
    /// that hand on what they are asked: device mapper, RAID.
    pub scheduler: Option<String>,
    /// The schedulers that its queue offers.
    pub available: Vec<String>,
    /// Whether it says that it has a head to move.
    pub rotational: bool,
}

impl Layer {
    /// Its node.
    #[must_use]
    pub fn node(&self) -> PathBuf {
        PathBuf::from(format!("/dev/{}", self.name.replace('!', "/")))
    }

    /// Whether its queue has a scheduler at work.
    #[must_use]
    pub fn schedules(&self) -> bool {
        self.scheduler.as_deref().is_some_and(|scheduler| scheduler != "none")
    }

    /// Whether its queue has schedulers to choose from.
    #[must_use]
    pub fn offers_a_choice(&self) -> bool {
        self.available.len() > 1
    }
}

/// A device and what lies below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// From the device that was named downwards; never empty.
    layers: Vec<Layer>,
    /// Where the lowest of them stands on several: these.
    fork: Vec<String>,
}

impl Stack {
    /// Of a device's node, on this system.
    ///
    /// # Errors
    /// It is no block device, or the kernel says nothing of it.
    pub fn of(node: &Path) -> Result<Self, Error> {
        let number = number_of(node)?;
        Self::below(Path::new("/sys"), number, &home)
    }

    /// The same of a tree like `/sys`. `home` tells the device that a file lies on, or is.
    ///
    /// # Errors
    /// The tree has no such device.
    pub fn below(
        sysfs: &Path,
        number: Number,
        home: &dyn Fn(&Path) -> Option<Number>,
    ) -> Result<Self, Error> {
        let stack = Self::under(sysfs, number, home, &[]);
        if stack.layers.is_empty() {
            return Err(Error::device(place(sysfs, number), "the kernel has no such device"));
        }
        Ok(stack)
    }

    /// As [`below`](Self::below), under devices of these numbers: a circle ends at one of them.
    fn under(sysfs: &Path, number: Number, home: &dyn Fn(&Path) -> Option<Number>, above: &[Number]) -> Self {
        let (mut layers, mut passed) = (Vec::new(), above.to_vec());
        let mut next = vec![number];
        while let [number] = *next
            && !passed.contains(&number)
            && let Ok(directory) = fs::canonicalize(place(sysfs, number))
        {
            let layer = layer(&directory, number);
            next = lower(&directory, layer.kind, home);
            layers.push(layer);
            passed.push(number);
        }
        if next.len() < 2 {
            return Self { layers, fork: Vec::new() };
        }
        let ways: Vec<Self> = next.iter().map(|number| Self::under(sysfs, *number, home, &passed)).collect();
        match meeting(&ways) {
            Some(Self { layers: common, fork }) => {
                layers.extend(common);
                Self { layers, fork }
            }
            None => Self { layers, fork: next.iter().map(|number| name_of(sysfs, *number)).collect() },
        }
    }

    /// From the device that was named downwards.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The device that was named; of a partition the disk that it is a part of, of which is reported what its partitions are asked.
    #[must_use]
    pub fn itself(&self) -> &Layer {
        let whole = self.layers.iter().find(|layer| layer.kind != Kind::Partition);
        whole.unwrap_or(&self.layers[0])
    }

    /// The device whose queue puts requests in order, or could.
    ///
    /// # Errors
    /// None does in the stack, and it stands on several devices: one of them must be named.
    pub fn scheduling(&self) -> Result<&Layer, Error> {
        if let Some(layer) = self.layers.iter().find(|layer| layer.schedules()) {
            return Ok(layer);
        }
        let Some(top) = self.layers.first() else { unreachable!("a stack has a device") };
        if !self.fork.is_empty() {
            let problem = format!("stands on several devices; name one of {}", self.fork.join(", "));
            return Err(Error::device(top.node(), problem));
        }
        let lowest = self.layers.iter().rfind(|layer| layer.offers_a_choice());
        lowest.ok_or_else(|| Error::device(top.node(), "no queue below it offers a choice of schedulers"))
    }

    /// Why a choice of scheduler may not matter here, in words.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let Ok(layer) = self.scheduling() else { return Vec::new() };
        let name = &layer.name;
        let active = layer.scheduler.as_deref().unwrap_or("none");
        let mut doubts = Vec::new();
        match layer.kind {
            Kind::Virtual => doubts.push(format!(
                "{name} is a virtual machine's disk: its host schedules below, and sees one process where here are many"
            )),
            Kind::Nvme => doubts.push(format!(
                "{name} is an NVMe drive: it has queues of its own, and schedulers mostly cost it time"
            )),
            _ => {}
        }
        if matches!(active, "none" | "kyber") {
            doubts.push(format!("{name} has the scheduler {active}, which takes no notice of ionice"));
        }
        doubts
    }

    /// The way down, for people: `sda1 > sda (bfq)`.
    #[must_use]
    pub fn describe(&self) -> String {
        let layers = self.layers.iter().map(|layer| match &layer.scheduler {
            Some(scheduler) => format!("{} ({scheduler})", layer.name),
            None => layer.name.clone(),
        });
        layers.collect::<Vec<_>>().join(" > ")
    }
}

/// What lies below the place at which all these ways down meet, if they do and no queue schedules before.
fn meeting(ways: &[Stack]) -> Option<Stack> {
    let (first, others) = ways.split_first()?;
    let shared = |layer: &&Layer| others.iter().all(|way| way.layers.contains(*layer));
    let layers: Vec<Layer> = first.layers.iter().filter(shared).cloned().collect();
    let own = ways.iter().flat_map(|way| &way.layers).filter(|layer| !layers.contains(*layer));
    let meet = !layers.is_empty() && own.into_iter().all(|layer| !layer.schedules());
    meet.then(|| Stack { layers, fork: first.fork.clone() })
}

fn place(sysfs: &Path, (major, minor): Number) -> PathBuf {
    sysfs.join(format!("dev/block/{major}:{minor}"))
}

/// The device that a file lies on, or that it is.
fn home(file: &Path) -> Option<Number> {
    let metadata = fs::metadata(file).ok()?;
    let is_device = metadata.file_type().is_block_device();
    let device = if is_device { metadata.rdev() } else { metadata.dev() };
    Some((rustix::fs::major(device), rustix::fs::minor(device)))
}

fn read(path: PathBuf) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn name_of(sysfs: &Path, number: Number) -> String {
    fs::canonicalize(place(sysfs, number))
        .map_or_else(|_| format!("{}:{}", number.0, number.1), |path| file_name(&path))
}

fn layer(directory: &Path, number: Number) -> Layer {
    let name = file_name(directory);
    let (scheduler, available) = schedulers(&read(directory.join("queue/scheduler")).unwrap_or_default());
    let rotational = read(directory.join("queue/rotational")).as_deref() == Some("1");
    Layer { kind: kind(directory, &name), name, number, scheduler, available, rotational }
}

fn kind(directory: &Path, name: &str) -> Kind {
    let has = |entry: &str| directory.join(entry).exists();
    match () {
        () if has("partition") => Kind::Partition,
        () if name.starts_with("loop") => Kind::Loop,
        () if has("dm") => Kind::Mapped,
        () if has("md") => Kind::Raid,
        () if name.starts_with("nvme") => Kind::Nvme,
        () if directory.components().any(|part| part.as_os_str().to_string_lossy().starts_with("virtio")) => {
            Kind::Virtual
        }
        () => Kind::Disk,
    }
}

/// `none [mq-deadline] bfq` taken apart: the one in brackets, and all.
#[must_use]
pub fn schedulers(text: &str) -> (Option<String>, Vec<String>) {
    let mut active = None;
    let names = text.split_whitespace().map(|word| {
        match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            Some(name) => active.insert(name.to_owned()).clone(),
            None => word.to_owned(),
        }
    });
    let names: Vec<String> = names.collect();
    // A queue that offers one alone shows it without brackets.
    (active.or_else(|| names.first().filter(|_| names.len() == 1).cloned()), names)
}

/// The devices right below.
fn lower(directory: &Path, kind: Kind, home: &dyn Fn(&Path) -> Option<Number>) -> Vec<Number> {
    match kind {
        Kind::Partition => directory.parent().and_then(number_in).into_iter().collect(),
        Kind::Loop => {
            let file = read(directory.join("loop/backing_file"));
            // Major 0 is a file system without a device of its own: memory, FUSE, a network.
            file.and_then(|file| home(Path::new(&file))).filter(|number| number.0 != 0).into_iter().collect()
        }
        _ => {
            let slaves = fs::read_dir(directory.join("slaves")).into_iter().flatten().flatten();
            let mut numbers: Vec<Number> = slaves.filter_map(|slave| number_in(&slave.path())).collect();
            numbers.sort_unstable();
            numbers
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A tree like `/sys`, removed when this is dropped.
    struct Tree(PathBuf);

    impl Tree {
        fn new(test: &str) -> Self {
            let root = std::env::temp_dir().join(format!("dwell-topology-{test}-{}", std::process::id()));
            fs::create_dir_all(root.join("dev/block")).unwrap();
            Self(root)
        }

        fn device(&self, place: &str, number: Number, files: &[(&str, &str)], slaves: &[&str]) {
            let directory = self.0.join("devices").join(place);
            fs::create_dir_all(directory.join("slaves")).unwrap();
            for (file, text) in files {
                let path = directory.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{text}\n")).unwrap();
            }
            let text = format!("{}:{}", number.0, number.1);
            fs::write(directory.join("dev"), &text).unwrap();
            symlink(&directory, self.0.join("dev/block").join(text)).unwrap();
            for slave in slaves {
                let target = self.0.join("devices").join(slave);
                symlink(&target, directory.join("slaves").join(target.file_name().unwrap())).unwrap();
            }
        }

        fn stack(&self, number: Number) -> Stack {
            Stack::below(&self.0, number, &|file| file.starts_with("/on/sda1").then_some((8, 1))).unwrap()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const BFQ: (&str, &str) = ("queue/scheduler", "none mq-deadline [bfq]");
    const NONE: (&str, &str) = ("queue/scheduler", "[none] mq-deadline bfq");

    #[test]
    fn an_encrypted_volume_on_a_partition_is_scheduled_by_the_disk() {
        let tree = Tree::new("mapped");
        tree.device("ata1/block/sda", (8, 0), &[BFQ, ("queue/rotational", "1")], &[]);
        tree.device("ata1/block/sda/sda1", (8, 1), &[("partition", "1")], &[]);
        tree.device(
            "virtual/block/dm-0",
            (253, 0),
            &[("queue/scheduler", "none"), ("dm/name", "home")],
            &["ata1/block/sda/sda1"],
        );
        let stack = tree.stack((253, 0));
        assert_eq!(stack.describe(), "dm-0 (none) > sda1 > sda (bfq)");
        let disk = stack.scheduling().unwrap();
        assert_eq!((disk.number, disk.rotational, disk.kind), ((8, 0), true, Kind::Disk));
        assert_eq!(stack.doubts(), [""; 0]);
    }

    /// As Linux 6.1 and 6.12 have it.
    #[test]
    fn a_device_that_only_hands_on_is_itself_with_a_scheduler_or_without() {
        let tree = Tree::new("itself");
        tree.device("ata1/block/sda", (8, 0), &[BFQ], &[]);
        tree.device("ata1/block/sda/sda1", (8, 1), &[("partition", "1")], &[]);
        let (name, below) = (("dm/name", "home"), ["ata1/block/sda/sda1"]);
        tree.device("virtual/block/dm-0", (253, 0), &[("queue/scheduler", "none"), name], &below);
        tree.device("virtual/block/dm-1", (253, 1), &[name], &below);
        let itself = |number| tree.stack(number).itself().name.clone();
        assert_eq!([(253, 0), (253, 1), (8, 1), (8, 0)].map(itself), ["dm-0", "dm-1", "sda", "sda"]);
    }

    #[test]
    fn a_loop_device_schedules_itself_or_leaves_it_to_what_its_file_lies_on() {
        let tree = Tree::new("loop");
        tree.device("ata1/block/sda", (8, 0), &[NONE], &[]);
        tree.device("ata1/block/sda/sda1", (8, 1), &[("partition", "1")], &[]);
        let on_disk = ("loop/backing_file", "/on/sda1/image");
        tree.device("virtual/block/loop0", (7, 0), &[NONE, on_disk], &[]);
        tree.device("virtual/block/loop1", (7, 1), &[BFQ, on_disk], &[]);
        tree.device("virtual/block/loop2", (7, 2), &[NONE, ("loop/backing_file", "/in/memory")], &[]);
        let scheduling = |number| tree.stack(number).scheduling().unwrap().name.clone();
        assert_eq!([scheduling((7, 0)), scheduling((7, 1)), scheduling((7, 2))], ["sda", "loop1", "loop2"]);
    }

    #[test]
    fn of_several_disks_one_must_be_named() {
        let tree = Tree::new("raid");
        tree.device("ata1/block/sda", (8, 0), &[BFQ], &[]);
        tree.device("ata2/block/sdb", (8, 16), &[BFQ], &[]);
        let disks = ["ata1/block/sda", "ata2/block/sdb"];
        tree.device("virtual/block/md0", (9, 0), &[("md/level", "raid0")], &disks);
        let error = tree.stack((9, 0)).scheduling().unwrap_err().to_string();
        assert_eq!(error, "/dev/md0: stands on several devices; name one of sda, sdb");
    }

    /// As `lsblk` shows LVM's: home > pool-tpool > pool_tdata and pool_tmeta > sda2, and a volume that was made larger.
    #[test]
    fn ways_that_meet_again_are_one() {
        let tree = Tree::new("meeting");
        tree.device("ata1/block/sda", (8, 0), &[BFQ], &[]);
        let parts = [("ata1/block/sda/sda1", (8, 1)), ("ata1/block/sda/sda2", (8, 2))];
        for (place, number) in parts {
            tree.device(place, number, &[("partition", "1")], &[]);
        }
        let mapped = |name: &str, minor, below: &[&str]| {
            let place = format!("virtual/block/{name}");
            tree.device(&place, (253, minor), &[("queue/scheduler", "none"), ("dm/name", name)], below);
        };
        let lower = ["virtual/block/dm-0", "virtual/block/dm-1"];
        mapped("dm-0", 0, &[parts[1].0]);
        mapped("dm-1", 1, &[parts[1].0]);
        mapped("dm-2", 2, &lower);
        mapped("dm-3", 3, &["virtual/block/dm-2"]);
        assert_eq!(tree.stack((253, 3)).describe(), "dm-3 (none) > dm-2 (none) > sda2 > sda (bfq)");
        mapped("dm-4", 4, &parts.map(|(place, _)| place));
        let larger = tree.stack((253, 4));
        assert_eq!(larger.describe(), "dm-4 (none) > sda (bfq)");
        assert_eq!(larger.scheduling().unwrap().name, "sda");
    }

    #[test]
    fn ways_that_meet_above_several_disks_part_there() {
        let tree = Tree::new("parting");
        tree.device("ata1/block/sda", (8, 0), &[BFQ], &[]);
        tree.device("ata2/block/sdb", (8, 16), &[BFQ], &[]);
        let disks = ["ata1/block/sda", "ata2/block/sdb"];
        tree.device("virtual/block/md0", (9, 0), &[("md/level", "raid1")], &disks);
        let lower = ["virtual/block/dm-0", "virtual/block/dm-1"];
        for (place, minor) in lower.into_iter().zip(0..) {
            tree.device(place, (253, minor), &[("dm/name", "part")], &["virtual/block/md0"]);
        }
        tree.device("virtual/block/dm-2", (253, 2), &[("dm/name", "whole")], &lower);
        let error = tree.stack((253, 2)).scheduling().unwrap_err().to_string();
        assert_eq!(error, "/dev/dm-2: stands on several devices; name one of sda, sdb");
        // One of the two is scheduled before they meet.
        tree.device("virtual/block/loop0", (7, 0), &[BFQ, ("loop/backing_file", "/on/sda1/image")], &[]);
        tree.device("ata1/block/sda/sda1", (8, 1), &[("partition", "1")], &[]);
        let own = ["virtual/block/loop0", "ata1/block/sda"];
        tree.device("virtual/block/dm-3", (253, 3), &[("dm/name", "own")], &own);
        let error = tree.stack((253, 3)).scheduling().unwrap_err().to_string();
        assert!(error.ends_with("name one of loop0, sda"), "{error}");
    }

    #[test]
    fn it_is_said_where_a_choice_may_not_matter() {
        let tree = Tree::new("doubts");
        tree.device("pci/virtio0/block/vda", (254, 0), &[NONE], &[]);
        tree.device("pci/nvme/nvme0/nvme0n1", (259, 0), &[("queue/scheduler", "none [mq-deadline]")], &[]);
        assert_eq!(tree.stack((254, 0)).doubts().len(), 2);
        let nvme = tree.stack((259, 0)).doubts();
        assert!(nvme.len() == 1 && nvme[0].contains("NVMe"), "{nvme:?}");
    }

    #[test]
    fn a_device_that_is_not_there_and_a_circle_end() {
        let tree = Tree::new("bad");
        assert!(Stack::below(&tree.0, (8, 0), &|_| None).is_err());
        tree.device("virtual/block/loop0", (7, 0), &[NONE, ("loop/backing_file", "/a")], &[]);
        let circle = Stack::below(&tree.0, (7, 0), &|_| Some((7, 0))).unwrap();
        assert_eq!(circle.scheduling().unwrap().name, "loop0");
    }
}
