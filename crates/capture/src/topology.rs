//! The stack of a device in sysfs (partitions, loop devices, device mapper, RAID), and the queue that schedules its requests.
//!
//! The queue that orders a device's requests may be several devices further down. The walk ends at the first device with a scheduler other than
//! `none`, at multipath, which bypasses the queues below it, or at the lowest device that offers a choice. Branches that join again are one: a thin
//! volume uses its pool's data and metadata, both on one disk. Branches that do not join, as under RAID, each have a queue; alike disks are treated
//! together, because the requests to the array determine theirs.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use control::device_number::{self, DeviceNumber, number_in};

use crate::error::Error;
use crate::file_system::{device_below, number_of};

/// The type of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceType {
    /// A disk, as far as this system can detect.
    Disk,
    /// A virtual disk (virtio).
    Virtual,
    /// An NVMe drive.
    Nvme,
    Partition,
    /// A loop device.
    Loop,
    /// A device mapper target: LVM, encryption, multipath.
    Mapped,
    /// RAID by md.
    Raid,
}

/// A device of the stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Its name, as in `/sys/block`.
    pub name: String,
    /// Its major and minor number.
    pub number: DeviceNumber,
    /// Its type.
    pub kind: DeviceType,
    /// The scheduler of its queue; `None` for partitions, and on newer kernels (seen on 6.12) for device mapper and RAID, which pass requests on.
    pub scheduler: Option<String>,
    /// The schedulers that its queue offers.
    pub available: Vec<String>,
    /// Whether it reports to be rotational.
    pub rotational: bool,
}

impl Layer {
    pub fn node(&self) -> PathBuf {
        node_of(&self.name)
    }

    /// Whether its queue has an active scheduler.
    pub fn schedules(&self) -> bool {
        self.scheduler.as_deref().is_some_and(|scheduler| scheduler != "none")
    }

    /// Whether its queue offers a choice of schedulers.
    pub fn offers_a_choice(&self) -> bool {
        self.available.len() > 1
    }

    /// Whether no queue below it orders requests: it has an active scheduler, or is request-based device mapper (multipath), which bypasses the
    /// queues of its paths; of device mapper, only that offers a choice.
    fn decides(&self) -> bool {
        self.schedules() || self.bypasses()
    }

    fn bypasses(&self) -> bool {
        self.kind == DeviceType::Mapped && self.offers_a_choice()
    }

    /// Whether it has the same type and choice of schedulers. Older kernels (seen on 6.1) list `none` first or last, depending on the active one.
    fn is_like(&self, other: &Self) -> bool {
        let has = |name: &String| other.available.contains(name);
        (self.kind, self.rotational, self.available.len())
            == (other.kind, other.rotational, other.available.len())
            && self.available.iter().all(has)
    }
}

/// The queues that order a device's requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheduling {
    /// The device at which all requests arrive before they are ordered: that of the queue, or the lowest one above all queues.
    pub above: Layer,
    /// The devices whose queues order the requests, or could; never empty, and alike if several.
    pub queues: Vec<Layer>,
}

impl Scheduling {
    /// A device's own queue, with or without a choice.
    pub fn by(layer: &Layer) -> Self {
        Self { above: layer.clone(), queues: vec![layer.clone()] }
    }

    /// Whether there are schedulers to choose from.
    pub fn offers_a_choice(&self) -> bool {
        self.queues.iter().all(Layer::offers_a_choice)
    }

    /// The active scheduler, `none` without a queue; all of them for several queues.
    pub fn scheduler(&self) -> String {
        let active = |layer: &Layer| layer.scheduler.clone().unwrap_or_else(|| "none".to_owned());
        together(self.queues.iter().map(|layer| (layer.name.as_str(), active(layer))))
    }

    /// The names of the queues' devices.
    pub fn names(&self) -> String {
        self.queues.iter().map(|layer| layer.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// The values of several devices as text: `bfq` if all are equal, otherwise `bfq (sda, sdb), none (sdc)`.
pub fn together<'a>(each: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut by_value: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, value) in each {
        match by_value.iter_mut().find(|(known, _)| *known == value) {
            Some((_, names)) => names.push(name),
            None => by_value.push((value, vec![name])),
        }
    }
    match &mut *by_value {
        [(value, _)] => std::mem::take(value),
        several => {
            let parts = several.iter().map(|(value, names)| format!("{value} ({})", names.join(", ")));
            parts.collect::<Vec<_>>().join(", ")
        }
    }
}

/// How far below the named device the queue to observe or change may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// Not below a loop device, which has a queue of its own: the disk that holds its file serves other programs too, perhaps the whole system.
    #[default]
    AboveLoops,
    /// As far as [`Stack::scheduling`] goes, also below loop devices.
    Followed,
    /// The named device's own queue.
    Here,
}

/// A device and what lies below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// From the named device downwards; never empty.
    layers: Vec<Layer>,
    /// The branches below the lowest of them, if they do not join again.
    branches: Vec<Self>,
}

impl Stack {
    /// The stack of a device node.
    ///
    /// # Errors
    /// It is no block device, or the kernel does not list it.
    pub fn of(node: &Path) -> Result<Self, Error> {
        let number = number_of(node)?;
        Self::below(Path::new("/sys"), number, &home)
    }

    /// The stack of a device node, or of the device that holds a file or directory.
    ///
    /// # Errors
    /// As [`of`](Self::of) and [`device_below`].
    pub fn holding(path: &Path) -> Result<Self, Error> {
        Self::below(Path::new("/sys"), device_below(path)?, &home)
    }

    /// The stack of a device by its name in `/sys/block`.
    pub fn named(name: &str) -> Result<Self, Error> {
        Self::of(&node_of(name))
    }

    /// The same in a tree like `/sys`. `home` returns the device that holds a file, or that the file is.
    ///
    /// # Errors
    /// The tree has no such device.
    pub fn below(
        sysfs: &Path,
        number: DeviceNumber,
        home: &dyn Fn(&Path) -> Option<DeviceNumber>,
    ) -> Result<Self, Error> {
        let stack = Self::under(sysfs, number, home, &[]);
        if stack.layers.is_empty() {
            return Err(Error::device(
                device_number::directory(sysfs, number),
                "the kernel has no such device",
            ));
        }
        Ok(stack)
    }

    /// As [`below`](Self::below), under devices with these numbers: a cycle ends at one of them.
    fn under(
        sysfs: &Path,
        number: DeviceNumber,
        home: &dyn Fn(&Path) -> Option<DeviceNumber>,
        above: &[DeviceNumber],
    ) -> Self {
        let (mut layers, mut passed) = (Vec::new(), above.to_vec());
        let mut next = vec![number];
        while let [number] = *next
            && !passed.contains(&number)
            && let Ok(directory) = fs::canonicalize(device_number::directory(sysfs, number))
        {
            let layer = layer(&directory, number);
            next = lower(&directory, layer.kind, home);
            layers.push(layer);
            passed.push(number);
        }
        if next.len() < 2 {
            return Self { layers, branches: Vec::new() };
        }
        let branches = next.iter().map(|number| Self::under(sysfs, *number, home, &passed));
        let branches: Vec<Self> = branches.filter(|way| !way.layers.is_empty()).collect();
        match meeting(&branches) {
            Some(Self { layers: common, branches }) => {
                layers.extend(common);
                Self { layers, branches }
            }
            None => Self { layers, branches },
        }
    }

    /// From the named device downwards.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The named device, or the disk of a named partition, for which the partition's requests are reported.
    pub fn itself(&self) -> &Layer {
        let whole = self.layers.iter().find(|layer| layer.kind != DeviceType::Partition);
        whole.unwrap_or(&self.layers[0])
    }

    /// Whether it is, or uses, the device with this number.
    pub fn contains(&self, number: DeviceNumber) -> bool {
        self.layers.iter().any(|layer| layer.number == number)
            || self.branches.iter().any(|branch| branch.contains(number))
    }

    /// The queue that orders the device's requests, or could; for an array one per member.
    ///
    /// # Errors
    /// No queue in the stack does, or it uses several different devices.
    pub fn scheduling(&self) -> Result<Scheduling, Error> {
        let queues: Vec<Layer> = self.queues().into_iter().cloned().collect();
        let (Some(top), Some(lowest)) = (self.layers.first(), self.layers.last()) else {
            unreachable!("a stack has a device")
        };
        let Some(first) = queues.first() else {
            return Err(Error::device(top.node(), "no queue below it offers a choice of schedulers"));
        };
        if self.layers.contains(first) {
            return Ok(Scheduling::by(first));
        }
        let below: Vec<Result<Scheduling, Error>> = self.branches.iter().map(Self::scheduling).collect();
        // A branch without a queue differs from each branch with one.
        if below.iter().all(Result::is_ok) && queues.iter().all(|queue| queue.is_like(first)) {
            return Ok(Scheduling { above: lowest.clone(), queues });
        }
        let name = |(branch, below): (&Self, Result<Scheduling, Error>)| {
            below.map_or_else(|_| branch.layers[0].name.clone(), |below| below.above.name)
        };
        let names: Vec<String> = self.branches.iter().zip(below).map(name).collect();
        let names = names.join(", ");
        Err(Error::device(top.node(), format!("uses several different devices; name one of {names}")))
    }

    /// The queues that order the device's requests, no farther down than `reach` permits.
    ///
    /// # Errors
    /// As [`scheduling`](Self::scheduling).
    pub fn scheduling_within(&self, reach: Reach) -> Result<Scheduling, Error> {
        match reach {
            Reach::Here => Ok(Scheduling::by(self.itself())),
            Reach::Followed => self.scheduling(),
            Reach::AboveLoops => self.above_loops().scheduling(),
        }
    }

    /// The stack down to the first loop device of each branch.
    fn above_loops(&self) -> Self {
        match self.layers.iter().position(|layer| layer.kind == DeviceType::Loop) {
            Some(at) => Self { layers: self.layers[..=at].to_vec(), branches: Vec::new() },
            None => Self {
                layers: self.layers.clone(),
                branches: self.branches.iter().map(Self::above_loops).collect(),
            },
        }
    }

    /// Each queue that requests pass, from top to bottom: loop devices, and devices that offer a choice of schedulers. Multipath bypasses the queues
    /// of its paths.
    pub fn links(&self) -> Vec<&Layer> {
        let mut links: Vec<&Layer> = Vec::new();
        for layer in &self.layers {
            if layer.offers_a_choice() || layer.kind == DeviceType::Loop {
                links.push(layer);
            }
            if layer.bypasses() {
                return links;
            }
        }
        for layer in self.branches.iter().flat_map(Self::links) {
            if links.iter().all(|known| known.number != layer.number) {
                links.push(layer);
            }
        }
        links
    }

    /// Pairs of queues that both order the same requests, the upper one first.
    pub fn scheduled_twice(&self) -> Vec<(&Layer, &Layer)> {
        self.scheduled_below(None)
    }

    fn scheduled_below<'a>(&'a self, mut above: Option<&'a Layer>) -> Vec<(&'a Layer, &'a Layer)> {
        let mut pairs = Vec::new();
        for layer in &self.layers {
            if layer.schedules() {
                pairs.extend(above.replace(layer).map(|above| (above, layer)));
            }
            if layer.bypasses() {
                return pairs;
            }
        }
        for pair in self.branches.iter().flat_map(|branch| branch.scheduled_below(above)) {
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        pairs
    }

    /// The layers that order requests, or could: the first that does, otherwise the lowest that offers a choice; each once.
    fn queues(&self) -> Vec<&Layer> {
        if let Some(layer) = self.layers.iter().find(|layer| layer.decides()) {
            return vec![layer];
        }
        let mut queues: Vec<&Layer> = Vec::new();
        for layer in self.branches.iter().flat_map(Self::queues) {
            if queues.iter().all(|known| known.number != layer.number) {
                queues.push(layer);
            }
        }
        if queues.is_empty() {
            queues.extend(self.layers.iter().rfind(|layer| layer.offers_a_choice()));
        }
        queues
    }

    /// The stack as text: `sda1 > sda (bfq)`; `md0 > {sda (bfq), sdb (bfq)}`.
    pub fn describe(&self) -> String {
        self.describe_with(&|layer| layer.scheduler.clone())
    }

    /// The same, with what `scheduler` returns for a layer.
    pub fn describe_with(&self, scheduler: &dyn Fn(&Layer) -> Option<String>) -> String {
        let layers = self.layers.iter().map(|layer| match scheduler(layer) {
            Some(scheduler) => format!("{} ({scheduler})", layer.name),
            None => layer.name.clone(),
        });
        let branches: Vec<String> =
            self.branches.iter().map(|branch| branch.describe_with(scheduler)).collect();
        let below = (!branches.is_empty()).then(|| format!("{{{}}}", branches.join(", ")));
        layers.chain(below).collect::<Vec<_>>().join(" > ")
    }
}

/// Whether a scheduler of the kernel, or of Dwell's module, uses I/O priorities (ionice).
pub fn honours_priorities(scheduler: &str) -> bool {
    matches!(scheduler, "bfq" | "mq-deadline" | "cfq" | "dwell-bfq" | "dwell-cfq")
}

/// The stack below the device at which all branches join, if they do before a queue schedules.
fn meeting(branches: &[Stack]) -> Option<Stack> {
    let (first, others) = branches.split_first()?;
    let shared = |layer: &&Layer| others.iter().all(|way| way.layers.contains(*layer));
    let layers: Vec<Layer> = first.layers.iter().filter(shared).cloned().collect();
    let own = branches.iter().flat_map(|way| &way.layers).filter(|layer| !layers.contains(*layer));
    // A loop device stays visible: whether its file's disk may be changed is the user's decision.
    let meet =
        !layers.is_empty() && own.into_iter().all(|layer| !layer.decides() && layer.kind != DeviceType::Loop);
    meet.then(|| Stack { layers, branches: first.branches.clone() })
}

/// The node of a device by its name in sysfs, where a slash is `!`.
fn node_of(name: &str) -> PathBuf {
    PathBuf::from(format!("/dev/{}", name.replace('!', "/")))
}

/// The device that holds a file, or that the file is.
pub fn home(file: &Path) -> Option<DeviceNumber> {
    let metadata = fs::metadata(file).ok()?;
    let is_device = metadata.file_type().is_block_device();
    let device = if is_device { metadata.rdev() } else { metadata.dev() };
    Some(device_number::split(device))
}

fn read(path: PathBuf) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn layer(directory: &Path, number: DeviceNumber) -> Layer {
    let name = file_name(directory);
    let (scheduler, available) = schedulers(&read(directory.join("queue/scheduler")).unwrap_or_default());
    let rotational = read(directory.join("queue/rotational")).as_deref() == Some("1");
    Layer { kind: kind(directory, &name), name, number, scheduler, available, rotational }
}

fn kind(directory: &Path, name: &str) -> DeviceType {
    let has = |entry: &str| directory.join(entry).exists();
    match () {
        () if has("partition") => DeviceType::Partition,
        () if name.starts_with("loop") => DeviceType::Loop,
        () if has("dm") => DeviceType::Mapped,
        () if has("md") => DeviceType::Raid,
        () if name.starts_with("nvme") => DeviceType::Nvme,
        () if directory.components().any(|part| part.as_os_str().to_string_lossy().starts_with("virtio")) => {
            DeviceType::Virtual
        }
        () => DeviceType::Disk,
    }
}

/// Parses `none [mq-deadline] bfq`: the one in brackets, and all.
pub fn schedulers(text: &str) -> (Option<String>, Vec<String>) {
    let mut active = None;
    let names = text.split_whitespace().map(|word| {
        match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            Some(name) => active.insert(name.to_owned()).clone(),
            None => word.to_owned(),
        }
    });
    let names: Vec<String> = names.collect();
    // A queue with a single one shows it without brackets.
    (active.or_else(|| names.first().filter(|_| names.len() == 1).cloned()), names)
}

/// The devices directly below.
fn lower(
    directory: &Path,
    kind: DeviceType,
    home: &dyn Fn(&Path) -> Option<DeviceNumber>,
) -> Vec<DeviceNumber> {
    match kind {
        DeviceType::Partition => directory.parent().and_then(number_in).into_iter().collect(),
        DeviceType::Loop => {
            let file = read(directory.join("loop/backing_file"));
            // The kernel shows "/" once the file's file system is gone, as below a served device whose server has ended.
            let file = file.filter(|file| file != "/");
            // Major 0 is a file system without a device: memory, FUSE, network.
            file.and_then(|file| home(Path::new(&file))).filter(|number| number.0 != 0).into_iter().collect()
        }
        _ => {
            let slaves = fs::read_dir(directory.join("slaves")).into_iter().flatten().flatten();
            let mut numbers: Vec<DeviceNumber> =
                slaves.filter_map(|slave| number_in(&slave.path())).collect();
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

        fn device(&self, place: &str, number: DeviceNumber, files: &[(&str, &str)], slaves: &[&str]) {
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

        fn stack(&self, number: DeviceNumber) -> Stack {
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
        let disk = stack.scheduling().unwrap().above;
        assert_eq!((disk.number, disk.rotational, disk.kind), ((8, 0), true, DeviceType::Disk));
    }

    /// As Linux 6.1 and 6.12 have it.
    #[test]
    fn a_device_that_passes_requests_on_may_show_a_scheduler_or_not() {
        let tree = Tree::new("itself");
        tree.device("ata1/block/sda", (8, 0), &[BFQ], &[]);
        tree.device("ata1/block/sda/sda1", (8, 1), &[("partition", "1")], &[]);
        let (name, below) = (("dm/name", "home"), ["ata1/block/sda/sda1"]);
        tree.device("virtual/block/dm-0", (253, 0), &[("queue/scheduler", "none"), name], &below);
        tree.device("virtual/block/dm-1", (253, 1), &[name], &below);
        let itself = |number| tree.stack(number).itself().name.clone();
        assert_eq!([(253, 0), (253, 1), (8, 1), (8, 0)].map(itself), ["dm-0", "dm-1", "sda", "sda"]);
    }

    const ON_DISK: (&str, &str) = ("loop/backing_file", "/on/sda1/image");

    /// Two loop devices over files of a disk, without and with a scheduler, and one over a file in memory.
    fn loop_devices(name: &str) -> Tree {
        let tree = Tree::new(name);
        tree.device("ata1/block/sda", (8, 0), &[NONE], &[]);
        tree.device("ata1/block/sda/sda1", (8, 1), &[("partition", "1")], &[]);
        tree.device("virtual/block/loop0", (7, 0), &[NONE, ON_DISK], &[]);
        tree.device("virtual/block/loop1", (7, 1), &[BFQ, ON_DISK], &[]);
        tree.device("virtual/block/loop2", (7, 2), &[NONE, ("loop/backing_file", "/in/memory")], &[]);
        tree
    }

    #[test]
    fn a_loop_device_or_the_disk_below_its_file_schedules() {
        let tree = loop_devices("loop");
        let scheduling = |number| tree.stack(number).scheduling().unwrap().names();
        assert_eq!([scheduling((7, 0)), scheduling((7, 1)), scheduling((7, 2))], ["sda", "loop1", "loop2"]);
    }

    /// A loop device whose file lay on the system disk once switched that disk's scheduler.
    #[test]
    fn the_disk_below_a_loop_device_is_out_of_reach_unless_it_is_followed() {
        let tree = loop_devices("reach");
        tree.device("virtual/block/loop3", (7, 3), &[NONE, ON_DISK], &[]);
        let loops = ["virtual/block/loop0", "virtual/block/loop3"];
        tree.device("virtual/block/dm-0", (253, 0), &[("dm/name", "crypt")], &loops[..1]);
        tree.device("virtual/block/md0", (9, 0), &[("md/level", "raid1")], &loops);
        let within = |number, reach| tree.stack(number).scheduling_within(reach).map(|found| found.names());
        for (number, queues) in
            [((7, 0), "loop0"), ((7, 3), "loop3"), ((253, 0), "loop0"), ((9, 0), "loop0, loop3")]
        {
            assert_eq!(within(number, Reach::AboveLoops).unwrap(), queues);
            assert_eq!(within(number, Reach::Followed).unwrap(), "sda");
        }
        assert_eq!([(253, 0), (9, 0)].map(|it| within(it, Reach::Here).unwrap()), ["dm-0", "md0"]);
        // Its own queue schedules, or nothing below does.
        for (number, name) in [((7, 1), "loop1"), ((7, 2), "loop2"), ((8, 1), "sda")] {
            assert_eq!(within(number, Reach::default()).unwrap(), name);
        }
    }

    #[test]
    fn every_queue_that_requests_pass_is_a_link() {
        let tree = loop_devices("links");
        tree.device("ata2/block/sdb", (8, 16), &[BFQ], &[]);
        let below = ["virtual/block/loop1", "ata2/block/sdb"];
        tree.device("virtual/block/md0", (9, 0), &[("md/level", "raid1")], &below);
        tree.device("virtual/block/dm-0", (253, 0), &[BFQ, ("dm/name", "mpatha")], &below[1..]);
        let links = |number| {
            let stack = tree.stack(number);
            let names = |layers: Vec<&Layer>| {
                layers.iter().map(|layer| layer.name.clone()).collect::<Vec<_>>().join(", ")
            };
            let twice = stack.scheduled_twice().into_iter().map(|(above, below)| names(vec![above, below]));
            (names(stack.links()), twice.collect::<Vec<_>>())
        };
        assert_eq!(links((7, 0)), ("loop0, sda".to_owned(), vec![]));
        assert_eq!(links((9, 0)), ("loop1, sda, sdb".to_owned(), vec![]));
        assert_eq!(links((253, 0)), ("dm-0".to_owned(), vec![]), "multipath bypasses sdb");
        fs::write(tree.0.join("devices/ata1/block/sda").join(BFQ.0), BFQ.1).unwrap();
        assert_eq!(links((9, 0)).1, ["loop1, sda"]);
        assert_eq!(links((7, 0)).1, [""; 0], "loop0 passes requests on");
    }

    #[test]
    fn an_array_is_observed_itself_and_scheduled_by_its_members() {
        let tree = Tree::new("raid");
        let disks = ["ata1/block/sda", "ata2/block/sdb"];
        tree.device(disks[0], (8, 0), &[BFQ], &[]);
        tree.device(disks[1], (8, 16), &[("queue/scheduler", "[none] bfq mq-deadline")], &[]);
        tree.device("virtual/block/md0", (9, 0), &[("md/level", "raid0")], &disks);
        tree.device("virtual/block/md0/md0p1", (259, 0), &[("partition", "1")], &[]);
        let stack = tree.stack((259, 0));
        assert_eq!(stack.describe(), "md0p1 > md0 > {sda (bfq), sdb (none)}");
        let scheduling = stack.scheduling().unwrap();
        assert_eq!((&*scheduling.above.name, &*scheduling.names()), ("md0", "sda, sdb"));
        assert_eq!(scheduling.scheduler(), "bfq (sda), none (sdb)");
        assert!(stack.contains((8, 16)) && !stack.contains((8, 32)));
    }

    #[test]
    fn different_disks_require_a_choice() {
        let tree = Tree::new("unlike");
        let disks = ["ata1/block/sda", "ata2/block/sdb"];
        tree.device(disks[0], (8, 0), &[BFQ, ("queue/rotational", "1")], &[]);
        tree.device(disks[1], (8, 16), &[BFQ, ("queue/rotational", "0")], &[]);
        tree.device("virtual/block/dm-0", (253, 0), &[("dm/name", "cached")], &disks);
        let error = tree.stack((253, 0)).scheduling().unwrap_err().to_string();
        assert_eq!(error, "/dev/dm-0: uses several different devices; name one of sda, sdb");
    }

    #[test]
    fn a_cache_over_an_array_and_memory_without_a_queue_are_not_alike() {
        let tree = Tree::new("cache");
        let disks = ["ata1/block/sda", "ata2/block/sdb"];
        tree.device(disks[0], (8, 0), &[BFQ], &[]);
        tree.device(disks[1], (8, 16), &[BFQ], &[]);
        tree.device("virtual/block/md0", (9, 0), &[("md/level", "raid1")], &disks);
        tree.device("virtual/block/ram0", (1, 0), &[], &[]);
        let parts = ["virtual/block/md0", "virtual/block/ram0"];
        tree.device("virtual/block/dm-0", (253, 0), &[("dm/name", "cached")], &parts);
        tree.device("virtual/block/md1", (9, 1), &[("md/level", "raid1")], &[disks[0], parts[1]]);
        tree.device("virtual/block/md2", (9, 2), &[("md/level", "raid0")], &["virtual/block/md1", disks[1]]);
        let error_of = |number| tree.stack(number).scheduling().unwrap_err().to_string();
        let unlike = |names: &str| format!("uses several different devices; name one of {names}");
        assert!(error_of((253, 0)).ends_with(&unlike("ram0, md0")), "{}", error_of((253, 0)));
        assert!(error_of((9, 1)).ends_with(&unlike("ram0, sda")), "its parts have different queues");
        assert!(error_of((9, 2)).ends_with(&unlike("sdb, md1")), "{}", error_of((9, 2)));
        tree.device("virtual/block/ram1", (1, 1), &[], &[]);
        tree.device("virtual/block/md3", (9, 3), &[("md/level", "raid0")], &[parts[1], "virtual/block/ram1"]);
        assert!(error_of((9, 3)).ends_with("no queue below it offers a choice of schedulers"));
    }

    /// Request-based device mapper passes requests to paths without their queues (`blk_insert_cloned_request`).
    #[test]
    fn paths_to_one_disk_are_scheduled_above_them() {
        let tree = Tree::new("multipath");
        let paths = ["ata1/block/sda", "ata2/block/sdb"];
        tree.device(paths[0], (8, 0), &[BFQ], &[]);
        tree.device(paths[1], (8, 16), &[NONE], &[]);
        tree.device("virtual/block/dm-0", (253, 0), &[NONE, ("dm/name", "mpatha")], &paths);
        tree.device("virtual/block/dm-1", (253, 1), &[NONE, ("dm/name", "mpathb")], &paths[..1]);
        tree.device(
            "virtual/block/dm-2",
            (253, 2),
            &[("dm/name", "striped")],
            &["virtual/block/dm-0", "virtual/block/dm-1"],
        );
        let names = |number| tree.stack(number).scheduling().unwrap().names();
        assert_eq!([names((253, 0)), names((253, 1)), names((253, 2))], ["dm-0", "dm-1", "dm-0, dm-1"]);
    }

    /// As `lsblk` shows LVM: home > pool-tpool > pool_tdata and pool_tmeta > sda2, and an extended volume.
    #[test]
    fn branches_that_join_again_are_one() {
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
        assert_eq!(larger.scheduling().unwrap().names(), "sda");
    }

    #[test]
    fn branches_that_join_above_several_disks_separate_there() {
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
        let whole = tree.stack((253, 2)).scheduling().unwrap();
        assert_eq!((&*whole.above.name, &*whole.names()), ("md0", "sda, sdb"));
        // A queue schedules one of the two before they join.
        tree.device("virtual/block/loop0", (7, 0), &[BFQ, ("loop/backing_file", "/on/sda1/image")], &[]);
        tree.device("ata1/block/sda/sda1", (8, 1), &[("partition", "1")], &[]);
        let own = ["virtual/block/loop0", "ata1/block/sda"];
        tree.device("virtual/block/dm-3", (253, 3), &[("dm/name", "own")], &own);
        let error = tree.stack((253, 3)).scheduling().unwrap_err().to_string();
        assert!(error.ends_with("name one of loop0, sda"), "{error}");
    }

    #[test]
    fn types_of_devices_are_those_of_their_drivers() {
        let tree = Tree::new("types");
        tree.device("pci/virtio0/block/vda", (254, 0), &[NONE], &[]);
        tree.device("pci/nvme/nvme0/nvme0n1", (259, 0), &[("queue/scheduler", "none [mq-deadline]")], &[]);
        let found = |number| tree.stack(number).scheduling().unwrap().queues[0].kind;
        assert_eq!([(254, 0), (259, 0)].map(found), [DeviceType::Virtual, DeviceType::Nvme]);
    }

    #[test]
    fn missing_devices_and_cycles_end_the_walk() {
        let tree = Tree::new("bad");
        assert!(Stack::below(&tree.0, (8, 0), &|_| None).is_err());
        tree.device("virtual/block/loop0", (7, 0), &[NONE, ("loop/backing_file", "/a")], &[]);
        let circle = Stack::below(&tree.0, (7, 0), &|_| Some((7, 0))).unwrap();
        assert_eq!(circle.scheduling().unwrap().names(), "loop0");
        tree.device("ata1/block/sda", (8, 0), &[NONE], &[]);
        tree.device("virtual/block/loop1", (7, 1), &[NONE, ("loop/backing_file", "/")], &[]);
        let gone = Stack::below(&tree.0, (7, 1), &|_| Some((8, 0))).unwrap();
        assert_eq!(gone.scheduling().unwrap().names(), "loop1", "not the disk of the root directory");
    }
}
