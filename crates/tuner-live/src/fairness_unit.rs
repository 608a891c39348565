//! Fairness units: the processes or control groups whose shares are compared.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use elevator::Process;

/// Whose shares of a device are compared.
#[derive(Debug)]
pub enum FairnessUnit {
    /// Processes (thread groups).
    Processes,
    /// Processes, where the source reports threads only.
    Threads(ThreadGroups),
    /// Control groups.
    Cgroups(Cgroups),
}

impl FairnessUnit {
    /// The number of the unit that a process belongs to; `None` if unknown.
    pub(crate) fn of(&mut self, process: Process) -> Option<u64> {
        match self {
            Self::Processes => Some(u64::from(process.group)),
            Self::Threads(groups) => Some(u64::from(groups.of(process.task))),
            Self::Cgroups(groups) => groups.of(process.group),
        }
    }

    /// Call after each window: processes may move, and their numbers may be reused.
    pub(crate) fn window_over(&mut self) {
        match self {
            Self::Processes => {}
            Self::Threads(groups) => groups.members.clear(),
            Self::Cgroups(groups) => groups.members.clear(),
        }
    }
}

/// The processes of threads, looked up in `/proc/TID/status` once per window. A thread that ended before counts as a process of its own.
#[derive(Debug)]
pub struct ThreadGroups {
    proc: PathBuf,
    members: HashMap<u32, u32>,
}

impl ThreadGroups {
    /// Reads from `proc`, which is `/proc`.
    pub fn new(proc: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into(), members: HashMap::new() }
    }

    fn of(&mut self, thread: u32) -> u32 {
        let look = || {
            let text = fs::read_to_string(self.proc.join(thread.to_string()).join("status")).ok()?;
            text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
        };
        *self.members.entry(thread).or_insert_with(|| look().unwrap_or(thread))
    }
}

/// The control groups of processes, looked up in `/proc/PID/cgroup` once per window: the group of the controller `blkio` in a version 1
/// hierarchy, otherwise the group in version 2. A process that ended before has none. Writeback belongs to kernel workers in the root
/// group.
#[derive(Debug)]
pub struct Cgroups {
    proc: PathBuf,
    members: HashMap<u32, Option<u64>>,
    /// Paths so far; a unit's number is its index.
    paths: Vec<String>,
}

impl Cgroups {
    /// Reads from `proc`, which is `/proc`.
    pub fn new(proc: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into(), members: HashMap::new(), paths: Vec::new() }
    }

    fn of(&mut self, process: u32) -> Option<u64> {
        if let Some(&known) = self.members.get(&process) {
            return known;
        }
        let text = fs::read_to_string(self.proc.join(process.to_string()).join("cgroup")).ok();
        let group = text.as_deref().and_then(path).map(|path| self.number(path));
        self.members.insert(process, group);
        group
    }

    fn number(&mut self, path: &str) -> u64 {
        let place = self.paths.iter().position(|known| known == path).unwrap_or_else(|| {
            self.paths.push(path.to_owned());
            self.paths.len() - 1
        });
        place as u64
    }
}

/// The path in a `cgroup` file, whose lines are `HIERARCHY:CONTROLLERS:PATH` (cgroups(7)).
fn path(text: &str) -> Option<&str> {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let blkio = lines().find(|(controllers, _)| controllers.split(',').any(|name| name == "blkio"));
    blkio.or_else(|| lines().find(|(controllers, _)| controllers.is_empty())).map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn a_process_belongs_to_the_cgroup_of_its_io() {
        assert_eq!(path("0::/user.slice/a\n"), Some("/user.slice/a"));
        assert_eq!(path("9:name=systemd:/s\n7:cpu,blkio:/b:c\n0::/a\n"), Some("/b:c"));
        assert_eq!(path("9:name=systemd:/s\n"), None);
        assert_eq!(path("nonsense"), None);
    }

    /// Threads of this process, and one that is not there.
    #[test]
    fn threads_of_a_process_are_one_unit() {
        // SAFETY: takes nothing and returns a number.
        let task = || unsafe { libc::gettid() } as u32;
        let mut parties = FairnessUnit::Threads(ThreadGroups::new("/proc"));
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            sender.send(task()).unwrap();
            let _ = wait.recv();
        });
        let mut of = |task| parties.of(Process::single(task));
        let this = Some(u64::from(std::process::id()));
        assert_eq!([task(), receiver.recv().unwrap()].map(&mut of), [this, this]);
        assert_eq!(of(u32::MAX), Some(u64::from(u32::MAX)));
        drop(done);
        other.join().unwrap();
    }

    #[test]
    fn processes_of_a_group_are_one_unit_until_the_window_ends() {
        let tree = Tree::new("parties");
        let proc = [(1, "0::/a\n"), (2, "0::/b\n"), (3, "0::/a\n")]
            .map(|(process, text)| tree.cgroup(process, text));
        let mut parties = FairnessUnit::Cgroups(Cgroups::new(&proc[0]));
        let mut of = |process| parties.of(Process::single(process));
        assert_eq!([1, 2, 3, 4].map(&mut of), [Some(0), Some(1), Some(0), None]);
        tree.cgroup(1, "0::/b\n");
        assert_eq!(of(1), Some(0), "it is not looked up for each request");
        parties.window_over();
        assert_eq!(parties.of(Process::single(1)), Some(1));
    }
}
