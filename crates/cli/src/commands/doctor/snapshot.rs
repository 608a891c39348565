//! The input of the rules: a device or a control group, and the links between them, read from sysfs, procfs, the cgroup tree and configuration.
//!
//! Every path lies below [`Roots`], so that tests use directories of their own. Each file that was read is kept for `--bundle`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use capture::topology::{DeviceType, Layer, Stack};
use capture::{Number, number};
use server::control::mounts::Mount;

use super::finding::Finding;
use super::roots::Roots;
use super::unit::{self, Unit};

/// Cgroup directories are searched to this depth.
const DEPTH: usize = 8;

/// The tree of version 1's block controller.
const BLKIO: &str = "sys/fs/cgroup/blkio";
/// Processes of a group, and files of a process, that are looked at.
const PROCESSES_MAX: usize = 64;
const FILES_MAX: usize = 256;

/// A device with its stack.
pub(crate) struct Device {
    pub(crate) stack: Stack,
    /// The queue that orders its requests; the device itself if none does.
    pub(crate) leaf: Layer,
    /// The file systems on the device that are mounted.
    pub(crate) mounts: Vec<Mounted>,
    /// Settings of the leaf's queue by name.
    pub(crate) settings: BTreeMap<&'static str, String>,
}

const SETTINGS: [&str; 7] =
    ["nr_requests", "read_ahead_kb", "wbt_lat_usec", "write_cache", "rotational", "iostats", "nomerges"];

impl Device {
    /// A device with its queue, or the queue of an array's first member.
    pub(crate) fn new(roots: &Roots, stack: Stack) -> Self {
        let queues = stack.scheduling().map_or_else(|_| Vec::new(), |found| found.queues);
        let leaf = queues.into_iter().next().unwrap_or_else(|| stack.itself().clone());
        Self::over(roots, stack, leaf)
    }

    /// A device with each of the queues that its requests pass, from top to bottom.
    pub(super) fn with_each_queue(roots: &Roots, stack: &Stack) -> Vec<Self> {
        let links = stack.links();
        let links = if links.is_empty() { vec![stack.itself()] } else { links };
        links.into_iter().cloned().map(|leaf| Self::over(roots, stack.clone(), leaf)).collect()
    }

    fn over(roots: &Roots, stack: Stack, leaf: Layer) -> Self {
        let settings = settings(roots, &leaf.name);
        let mounts = mounts(roots, stack.layers()[0].number);
        Self { leaf, settings, mounts, stack }
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    pub(super) fn scheduler(&self) -> &str {
        self.leaf.scheduler.as_deref().unwrap_or("none")
    }

    /// Whether the queue is one of those that order the device's requests, or could; the other ones pass them on.
    pub(super) fn orders(&self) -> bool {
        let queues = self.stack.scheduling().map_or_else(|_| Vec::new(), |found| found.queues);
        queues.is_empty() || queues.contains(&self.leaf) || self.leaf.schedules()
    }

    /// Whether the leaf is a virtual machine's disk, whose host schedules its requests.
    pub(crate) fn is_scheduled_by_host(&self, roots: &Roots) -> bool {
        self.leaf.kind == DeviceType::Virtual || (self.leaf.kind == DeviceType::Disk && roots.is_guest())
    }
}

/// The settings of a queue.
pub(crate) fn settings(roots: &Roots, queue: &str) -> BTreeMap<&'static str, String> {
    let of = |name: &'static str| Some((name, roots.read(&format!("sys/block/{queue}/queue/{name}"))?));
    SETTINGS.into_iter().filter_map(of).collect()
}

/// A file system that is mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mounted {
    /// Where its root directory is mounted, or else the first mount point.
    pub(super) place: String,
    pub(super) kind: String,
    /// Further mount points, of bind mounts for example.
    also: Vec<String>,
}

impl fmt::Display for Mounted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        let Self { place, kind, also } = self;
        write!(out, "{place} ({kind}")?;
        if !also.is_empty() {
            write!(out, ", also at {}", also.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", "))?;
        }
        match also.len().saturating_sub(SHOWN) {
            0 => write!(out, ")"),
            more => write!(out, " and {more} more)"),
        }
    }
}

/// The file systems of a device in a path from top to bottom: `/srv (ext4)`, or `{/ (ext4), /boot (ext4)}` on its partitions.
pub(crate) fn beside(file_systems: &[String]) -> Option<String> {
    match file_systems {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("{{{}}}", several.join(", "))),
    }
}

/// The file systems on a device, its partitions and the devices above them (proc(5), mountinfo).
fn mounts(roots: &Roots, device: Number) -> Vec<Mounted> {
    let text = roots.read("proc/self/mountinfo").unwrap_or_default();
    let sysfs = roots.root.join("sys");
    let is_on = |found: Number| {
        // Major 0 is a file system without a device.
        let stack = || Stack::below(&sysfs, found, &|_| None);
        found == device || (found.0 != 0 && stack().is_ok_and(|stack| stack.contains(device)))
    };
    // Of each file system the mounts of its root directory first.
    let mut found: Vec<_> = Mount::all(text.as_bytes()).filter(|mount| is_on(mount.number)).collect();
    found.sort_by_key(|mount| mount.root != Path::new("/"));
    let mut all: Vec<(Number, Mounted)> = Vec::new();
    for Mount { number, place, kind, .. } in found {
        let place = place.to_string_lossy().into_owned();
        match all.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) if known.place == place || known.also.contains(&place) => {}
            Some((_, known)) => known.also.push(place),
            None => all.push((number, Mounted { place, kind, also: Vec::new() })),
        }
    }
    all.into_iter().map(|(_, mounted)| mounted).collect()
}

/// A control group of version 2.
pub(super) struct Cgroup {
    /// Its path below the root of the tree, without a slash at the start.
    pub(super) path: String,
    /// The directory of the tree.
    tree: String,
    /// Its unit's settings.
    unit: Unit,
}

impl Cgroup {
    /// The group of a unit, or of a container by the start of its identifier.
    pub(super) fn find(roots: &Roots, name: &str) -> Option<Self> {
        let tree = tree(roots);
        let path = groups_below(roots, &tree, "").into_iter().find(|path| is_named(path, name))?;
        Some(Self { unit: Unit::of(roots, name), tree, path })
    }

    /// The effective setting, if a key of the unit's files is one of these: key, value, file.
    pub(super) fn configured(&self, is_one: impl Fn(&str) -> bool) -> Option<(&str, &str, &str)> {
        self.settings().filter(|(key, ..)| is_one(key)).last()
    }

    /// All settings of the unit's files, the effective one last: key, value, file.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.unit.settings.iter().map(|(key, value, file)| (key.as_str(), value.as_str(), file.as_str()))
    }

    /// Findings about lines of the unit's files that systemd ignores.
    pub(super) fn ignored_lines(&self) -> &[Finding] {
        &self.unit.ignored
    }

    /// The slice above that disables the io controller by its files, if one does.
    pub(super) fn disabled_by(&self, roots: &Roots) -> Option<String> {
        let disables = |slice: &&str| {
            let settings = Unit::of(roots, slice).settings;
            let mut controllers = settings.iter().filter(|(key, ..)| key == unit::DISABLED);
            controllers.any(|(_, value, _)| value.split_whitespace().any(|controller| controller == "io"))
        };
        self.parent().split('/').rev().find(disables).map(str::to_owned)
    }

    /// The groups above this one, without the root.
    pub(super) fn above(&self, roots: &Roots) -> Vec<Self> {
        let ends = self.path.match_indices('/').map(|(end, _)| &self.path[..end]);
        let unit = |path: &str| path.rsplit('/').next().map(str::to_owned).unwrap_or_default();
        let group = |path: &str| Self {
            path: path.to_owned(),
            tree: self.tree.clone(),
            unit: Unit::of(roots, &unit(path)),
        };
        ends.map(group).collect()
    }

    /// The groups below this one, nearest first.
    pub(super) fn below(&self, roots: &Roots) -> Vec<Self> {
        let group = |path| Self { path, tree: self.tree.clone(), unit: Unit::default() };
        groups_below(roots, &self.tree, &self.path).into_iter().map(group).collect()
    }

    /// Its directory, without a slash at the start.
    pub(super) fn directory(&self) -> String {
        format!("{}/{}", self.tree, self.path)
    }

    /// A file of the group.
    pub(super) fn read(&self, roots: &Roots, file: &str) -> Option<String> {
        roots.read(&format!("{}/{file}", self.directory()))
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
        let version_1 = || {
            let text = roots.read(&format!("{BLKIO}/{}/blkio.throttle.io_service_bytes", self.path))?;
            let mut all: Vec<Number> =
                text.lines().filter_map(|line| number(line.split(' ').next()?)).collect();
            all.dedup();
            Some(all)
        };
        let used: Vec<Number> =
            self.read(roots, "io.stat").unwrap_or_default().lines().filter_map(used).collect();
        let used = if used.is_empty() { version_1().unwrap_or_default() } else { used };
        if used.is_empty() { self.devices_of_open_files(roots) } else { used }
    }

    fn devices_of_open_files(&self, roots: &Roots) -> Vec<Number> {
        let own = self.read(roots, "cgroup.procs").into_iter();
        let below = self.below(roots).into_iter().filter_map(|group| group.read(roots, "cgroup.procs"));
        let processes: Vec<String> = own.chain(below).collect();
        let processes = processes.iter().flat_map(|text| text.lines()).take(PROCESSES_MAX);
        let mut all: Vec<Number> = Vec::new();
        for process in processes.map(|process| format!("proc/{process}")) {
            let files = roots.names(&format!("{process}/fdinfo")).into_iter().take(FILES_MAX);
            let mounts: BTreeSet<u64> = files
                .filter_map(|file| {
                    let text = roots.read(&format!("{process}/fdinfo/{file}"))?;
                    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
                })
                .collect();
            let mounted = roots.read(&format!("{process}/mountinfo")).unwrap_or_default();
            // Major 0 is a file system without a device.
            let is_used = |mount: &Mount| mounts.contains(&mount.id) && mount.number.0 != 0;
            all.extend(Mount::all(mounted.as_bytes()).filter(is_used).map(|mount| mount.number));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The device of a line of `io.stat`, if it counts requests: a limit for a device adds its number without counts (seen on Linux 6.1). Some kernels omit the
/// line end there, so that the last number is that of the counts.
fn used(line: &str) -> Option<Number> {
    let counts = |word: &str| {
        let (name, value) = word.split_once('=').unwrap_or_default();
        matches!(name, "rbytes" | "wbytes" | "rios" | "wios" | "dbytes" | "dios") && value != "0"
    };
    let is_used = line.split(' ').any(counts);
    line.split(' ').filter_map(number).next_back().filter(|_| is_used)
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

/// The paths of the groups below one, nearest first: a container may have units of the host's names.
fn groups_below(roots: &Roots, tree: &str, path: &str) -> Vec<String> {
    let (mut all, mut level) = (Vec::new(), vec![path.to_owned()]);
    for _ in 0..=DEPTH {
        let inside = |path: &String| {
            let names = roots.names(&format!("{tree}/{path}")).into_iter();
            let place = |name| if path.is_empty() { name } else { format!("{path}/{name}") };
            names
                .map(place)
                .filter(|path| roots.has(&format!("{tree}/{path}/cgroup.procs")))
                .collect::<Vec<_>>()
        };
        level = level.iter().flat_map(inside).collect();
        all.extend(level.iter().cloned());
    }
    all
}

/// Whether a group is that of a unit, or of a container whose identifier starts so: `docker-ID.scope`, `libpod-ID.scope`,
/// `cri-containerd-ID.scope`, or `ID` and `libpod-ID` without systemd. `libpod-conmon-ID.scope` is the container's monitor.
fn is_named(path: &str, name: &str) -> bool {
    const IDENTIFIER: usize = 64;
    let entry = path.rsplit_once('/').map_or(path, |(_, entry)| entry);
    let scope = entry.strip_suffix(".scope");
    let (engine, id) = scope.unwrap_or(entry).rsplit_once('-').unwrap_or(("", scope.unwrap_or(entry)));
    let is_container = !engine.ends_with("conmon") && (scope.is_some() || id.len() == IDENTIFIER);
    entry == name || (name.len() >= 6 && is_container && id.starts_with(name))
}
