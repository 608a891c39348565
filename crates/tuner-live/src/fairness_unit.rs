//! Who is to be treated fairly: processes, or the control groups that they are in.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use elevator::Process;

/// Whose shares of a device are compared.
#[derive(Debug)]
pub enum FairnessUnit {
    /// Each process's (thread group's).
    Processes,
    /// Each process's, where the source knows threads only.
    Threads(ThreadGroups),
    /// Each control group's.
    Cgroups(Cgroups),
}

impl FairnessUnit {
    /// The party of whoever asked, by a number that stays its own; `None` if it cannot be told.
    pub(crate) fn of(&mut self, process: Process) -> Option<u64> {
        match self {
            Self::Processes => Some(u64::from(process.group)),
            Self::Threads(groups) => Some(u64::from(groups.of(process.task))),
            Self::Cgroups(groups) => groups.of(process.group),
        }
    }

    /// A window is over: processes may move, and their numbers may go to others.
    pub(crate) fn window_over(&mut self) {
        match self {
            Self::Processes => {}
            Self::Threads(groups) => groups.members.clear(),
            Self::Cgroups(groups) => groups.members.clear(),
        }
    }
}

/// The processes that threads are of, looked up in `/proc/TID/status` once a window. A thread that has ended before it was looked up
/// counts as a process of its own, as a program of one thread is.
#[derive(Debug)]
pub struct ThreadGroups {
    proc: PathBuf,
    members: HashMap<u32, u32>,
}

impl ThreadGroups {
    /// As told by the threads below `proc`, which is `/proc`.
    #[must_use]
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

/// Control groups by the processes in them, looked up in `/proc/PID/cgroup` once a window: the group that input and output are
/// accounted to, which is the controller `blkio`'s where the first version of control groups has that, and the second version's
/// else. A process that has ended before it was looked up is nobody's; what the kernel writes back is its worker's, which is
/// in the root.
#[derive(Debug)]
pub struct Cgroups {
    proc: PathBuf,
    members: HashMap<u32, Option<u64>>,
    /// Paths seen so far; their places are the parties' numbers.
    paths: Vec<String>,
}

impl Cgroups {
    /// As told by the processes below `proc`, which is `/proc`.
    #[must_use]
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

/// The path that counts of a `cgroup` file, whose lines are `HIERARCHY:CONTROLLERS:PATH` (cgroups(7)).
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
    fn a_process_is_in_the_group_that_its_input_and_output_count_for() {
        assert_eq!(path("0::/user.slice/a\n"), Some("/user.slice/a"));
        assert_eq!(path("9:name=systemd:/s\n7:cpu,blkio:/b:c\n0::/a\n"), Some("/b:c"));
        assert_eq!(path("9:name=systemd:/s\n"), None);
        assert_eq!(path("nonsense"), None);
    }

    /// Threads of this process, and one that is not there.
    #[test]
    fn threads_of_a_process_are_one_party() {
        // SAFETY: takes nothing and returns a number.
        let task = || unsafe { libc::gettid() } as u32;
        let mut parties = FairnessUnit::Threads(ThreadGroups::new("/proc"));
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            tell.send(task()).unwrap();
            let _ = wait.recv();
        });
        let mut of = |task| parties.of(Process::single(task));
        let this = Some(u64::from(std::process::id()));
        assert_eq!([task(), told.recv().unwrap()].map(&mut of), [this, this]);
        assert_eq!(of(u32::MAX), Some(u64::from(u32::MAX)));
        drop(done);
        other.join().unwrap();
    }

    #[test]
    fn processes_of_a_group_are_one_party_until_the_window_is_over() {
        let tree = Tree::new("parties");
        let proc = [(1, "0::/a\n"), (2, "0::/b\n"), (3, "0::/a\n")].map(|(who, text)| tree.cgroup(who, text));
        let mut parties = FairnessUnit::Cgroups(Cgroups::new(&proc[0]));
        let mut of = |process| parties.of(Process::single(process));
        assert_eq!([1, 2, 3, 4].map(&mut of), [Some(0), Some(1), Some(0), None]);
        tree.cgroup(1, "0::/b\n");
        assert_eq!(of(1), Some(0), "it is not looked up for each request");
        parties.window_over();
        assert_eq!(parties.of(Process::single(1)), Some(1));
    }
}
