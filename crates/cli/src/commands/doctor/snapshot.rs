//! The input of the rules: a device or a control group, and the links between them, read from sysfs, procfs, the cgroup tree and configuration.
//!
//! Every path lies below [`Roots`], so that tests use directories of their own. Each file that was read is kept for `--bundle`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use capture::topology::{Kind, Layer, Stack};
use capture::{Number, number};

/// Cgroup directories are searched to this depth.
const DEPTH: usize = 8;

/// The tree of version 1's block controller.
const BLKIO: &str = "sys/fs/cgroup/blkio";
/// Processes of a group, and files of a process, that are looked at.
const PROCESSES_MAX: usize = 64;
const FILES_MAX: usize = 256;

/// Where the system's trees are.
pub(crate) struct Roots {
    pub(crate) root: PathBuf,
    /// What was read, once; `None` for files that are missing.
    files: RefCell<BTreeMap<PathBuf, Option<String>>>,
}

impl Roots {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), files: RefCell::default() }
    }

    /// The text of a file, without the line end. `None` if there is no such file, or it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let file = self.root.join(path);
        let mut files = self.files.borrow_mut();
        let read = |file: &PathBuf| Some(fs::read_to_string(file).ok()?.trim_end().to_owned());
        files.entry(file).or_insert_with_key(read).clone()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The names in a directory, sorted.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Every file that was read.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, String> {
        let files = self.files.borrow();
        files.iter().filter_map(|(path, text)| Some((path.clone(), text.clone()?))).collect()
    }

    /// Whether this system runs in a virtual machine.
    pub(crate) fn is_guest(&self) -> bool {
        let flags = self.read("proc/cpuinfo").unwrap_or_default();
        let is_hypervised = |line: &str| {
            line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
        };
        flags.lines().any(is_hypervised) || self.has("sys/hypervisor/type")
    }
}

/// A device with its stack.
pub(crate) struct Device {
    pub(crate) stack: Stack,
    /// The queue that orders its requests; the device itself if none does.
    pub(crate) leaf: Layer,
    /// The file systems mounted on the device: mount point and type.
    pub(crate) mounts: Vec<(String, String)>,
    /// Settings of the leaf's queue by name.
    pub(crate) settings: BTreeMap<&'static str, String>,
}

const SETTINGS: [&str; 7] =
    ["nr_requests", "read_ahead_kb", "wbt_lat_usec", "write_cache", "rotational", "iostats", "nomerges"];

impl Device {
    pub(crate) fn new(roots: &Roots, stack: Stack) -> Self {
        let leaf =
            stack.scheduling().map_or_else(|_| stack.itself().clone(), |found| found.queues[0].clone());
        let of =
            |name: &'static str| Some((name, roots.read(&format!("sys/block/{}/queue/{name}", leaf.name))?));
        let settings = SETTINGS.into_iter().filter_map(of).collect();
        let mounts = mounts(roots, stack.layers()[0].number);
        Self { leaf, settings, mounts, stack }
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    pub(super) fn scheduler(&self) -> &str {
        self.leaf.scheduler.as_deref().unwrap_or("none")
    }

    /// Whether the leaf is a virtual machine's disk, whose host schedules its requests.
    pub(crate) fn is_scheduled_by_host(&self, roots: &Roots) -> bool {
        self.leaf.kind == Kind::Virtual || (self.leaf.kind == Kind::Disk && roots.is_guest())
    }
}

/// Mount points and types of a device, its partitions and the devices above them (proc(5), mountinfo).
fn mounts(roots: &Roots, device: Number) -> Vec<(String, String)> {
    let text = roots.read("proc/self/mountinfo").unwrap_or_default();
    let sysfs = roots.root.join("sys");
    let is_on = |found: Number| {
        // Major 0 is a file system without a device.
        let stack = || Stack::below(&sysfs, found, &|_| None);
        found == device || (found.0 != 0 && stack().is_ok_and(|stack| stack.contains(device)))
    };
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ');
        let of = number(fields.nth(2)?)?;
        let place = fields.nth(1)?;
        is_on(of).then(|| (place.to_owned(), after.split(' ').next().unwrap_or("?").to_owned()))
    };
    text.lines().filter_map(mount).collect()
}

/// A control group of version 2.
pub(super) struct Cgroup {
    /// Its path below the root of the tree, without a slash at the start.
    pub(super) path: String,
    /// The directory of the tree.
    tree: String,
    /// Settings from unit files: key, value, file.
    pub(super) configured: Vec<(String, String, String)>,
}

impl Cgroup {
    /// The group of a unit, or of a container by name or the start of its number.
    pub(super) fn find(roots: &Roots, name: &str) -> Option<Self> {
        let tree = tree(roots);
        let path = search(roots, &tree, "", name, 0)?;
        Some(Self { configured: configured(roots, name), tree, path })
    }

    /// A file of the group.
    pub(super) fn read(&self, roots: &Roots, file: &str) -> Option<String> {
        roots.read(&format!("{}/{}/{file}", self.tree, self.path))
    }

    /// A file of the group above.
    pub(super) fn parent_read(&self, roots: &Roots, file: &str) -> Option<String> {
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        roots.read(&format!("{}/{parent}/{file}", self.tree))
    }

    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or("the root", |(parent, _)| parent)
    }

    /// The number of siblings.
    pub(super) fn siblings(&self, roots: &Roots) -> usize {
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let base = format!("{}/{parent}", self.tree);
        let names = roots.names(&base);
        names
            .iter()
            .filter(|name| roots.has(&format!("{base}/{name}/cgroup.procs")))
            .count()
            .saturating_sub(1)
    }

    /// The numbers of the devices that its processes used. Where the io controller is off, those that version 1 of it counted, or else those of the
    /// file systems on which its processes have open files.
    pub(super) fn devices(&self, roots: &Roots) -> Vec<Number> {
        let of = |text: Option<String>| -> Vec<Number> {
            let text = text.unwrap_or_default();
            let mut all: Vec<Number> =
                text.lines().filter_map(|line| number(line.split(' ').next()?)).collect();
            all.dedup();
            all
        };
        let version_1 = || roots.read(&format!("{BLKIO}/{}/blkio.throttle.io_service_bytes", self.path));
        let used = of(self.read(roots, "io.stat"));
        let used = if used.is_empty() { of(version_1()) } else { used };
        if used.is_empty() { self.devices_of_open_files(roots) } else { used }
    }

    fn devices_of_open_files(&self, roots: &Roots) -> Vec<Number> {
        let processes = self.read(roots, "cgroup.procs").unwrap_or_default();
        let mut all: Vec<Number> = Vec::new();
        for process in processes.lines().take(PROCESSES_MAX).map(|process| format!("proc/{process}")) {
            let files = roots.names(&format!("{process}/fdinfo")).into_iter().take(FILES_MAX);
            let mounts: BTreeSet<String> = files
                .filter_map(|file| {
                    let text = roots.read(&format!("{process}/fdinfo/{file}"))?;
                    Some(text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().to_owned())
                })
                .collect();
            let mounted = roots.read(&format!("{process}/mountinfo")).unwrap_or_default();
            let of_mount = |line: &str| {
                let mut fields = line.split(' ');
                let is_used = mounts.contains(fields.next()?);
                // Major 0 is a file system without a device.
                number(fields.nth(1)?).filter(|number| is_used && number.0 != 0)
            };
            all.extend(mounted.lines().filter_map(of_mount));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The tree of version 2, alone or mounted together with version 1.
pub(super) fn tree(roots: &Roots) -> String {
    let unified = "sys/fs/cgroup/unified";
    if roots.has(&format!("{unified}/cgroup.controllers")) {
        unified.to_owned()
    } else {
        "sys/fs/cgroup".to_owned()
    }
}

fn search(roots: &Roots, tree: &str, below: &str, name: &str, depth: usize) -> Option<String> {
    let names = roots.names(&format!("{tree}/{below}"));
    let place = |entry: &String| if below.is_empty() { entry.clone() } else { format!("{below}/{entry}") };
    let groups = || names.iter().filter(|entry| roots.has(&format!("{tree}/{}/cgroup.procs", place(entry))));
    let is_it = |entry: &&String| {
        // docker-ID.scope, libpod-ID.scope, cri-containerd-ID.scope
        let container = entry.strip_suffix(".scope").and_then(|entry| entry.rsplit_once('-')).map(|of| of.1);
        **entry == name || (name.len() >= 6 && container.is_some_and(|id| id.starts_with(name)))
    };
    groups().find(is_it).map(&place).or_else(|| {
        let deeper = (depth < DEPTH).then(groups)?;
        deeper.map(place).find_map(|place| search(roots, tree, &place, name, depth + 1))
    })
}

/// The settings of a unit that start with `IO`, from its files and drop-ins.
fn configured(roots: &Roots, unit: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for directory in
        ["usr/lib/systemd/system", "lib/systemd/system", "run/systemd/system", "etc/systemd/system"]
    {
        let drop_ins = format!("{directory}/{unit}.d");
        let files = std::iter::once(format!("{directory}/{unit}"))
            .chain(roots.names(&drop_ins).into_iter().map(|name| format!("{drop_ins}/{name}")));
        for file in files {
            let Some(text) = roots.read(&file) else { continue };
            let settings = text.lines().filter_map(|line| line.trim().split_once('='));
            let own = settings.filter(|(key, _)| key.starts_with("IO") || *key == "Nice");
            found.extend(
                own.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned(), file.clone())),
            );
        }
    }
    found
}
