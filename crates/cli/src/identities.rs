//! The origin of a device's requests: the control groups of tasks, and the causes of the writes of kernel threads.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::{Duration, Instant};

use capture::Batch;
use capture::causes::{Causes, CausesOptions, CausesReport};
use capture::topology::Layer;

use crate::error::Error;

/// Causes that are named for a kernel thread.
const NAMED: usize = 3;

/// The control groups of processes, each read when the process is first seen: it may end soon.
#[derive(Default)]
pub(crate) struct Cgroups(HashMap<u64, String>);

impl Cgroups {
    /// The path of a process's group; empty if it is unknown.
    pub(crate) fn of(&mut self, process: u64) -> String {
        let read = || {
            let text = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
            cgroup_in(&text).unwrap_or_default().to_owned()
        };
        self.0.entry(process).or_insert_with(read).clone()
    }
}

/// The path in `/proc/PID/cgroup`: of version 2, else of the block controller of version 1.
fn cgroup_in(text: &str) -> Option<&str> {
    let unified = text.lines().find_map(|line| line.strip_prefix("0::"));
    let block = || {
        text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == "blkio").then_some(path)
        })
    };
    unified.filter(|path| *path != "/").or_else(block).or(unified)
}

/// The identities of all tasks that submitted requests.
pub(crate) struct Identities {
    tasks: BTreeMap<u32, Task>,
    cgroups: Cgroups,
    causes: Option<Causes>,
    polled: Instant,
}

/// A task that submitted requests.
struct Task {
    name: String,
    process: u32,
    is_kernel_thread: bool,
}

/// How often the causes are read, at least.
const POLL: Duration = Duration::from_secs(10);

impl Identities {
    /// Observes the causes of a device's writes too, if `with_causes` and if the kernel allows it; also returns notes.
    pub(crate) fn open(layer: &Layer, with_causes: bool) -> (Self, Vec<String>) {
        let opened = with_causes.then(|| Causes::open(&layer.node(), &CausesOptions::default()));
        let (causes, notes) = match opened {
            Some(Ok(causes)) => {
                let notes = causes.notes().to_vec();
                (Some(causes), notes)
            }
            Some(Err(error)) => (None, vec![format!("no causes: {error}")]),
            None => (None, Vec::new()),
        };
        let (tasks, cgroups, polled) = (BTreeMap::new(), Cgroups::default(), Instant::now());
        (Self { tasks, cgroups, causes, polled }, notes)
    }

    /// Notes the tasks of a batch.
    pub(crate) fn take(&mut self, batch: &Batch) -> Result<(), Error> {
        for arrival in &batch.arrivals {
            let Some(process) = arrival.process else { continue };
            self.tasks.entry(process.task).or_insert_with(|| {
                self.cgroups.of(u64::from(process.group));
                Task {
                    name: arrival.name.to_string(),
                    process: process.group,
                    is_kernel_thread: capture::is_kernel_thread(process.task),
                }
            });
        }
        if let Some(causes) = self.causes.as_mut().filter(|_| self.polled.elapsed() >= POLL) {
            causes.poll()?;
            self.polled = Instant::now();
        }
        Ok(())
    }

    /// A text for each task about which more than its name is known: `postgres in /system.slice/db.service`, `jbd2/sda1-8 for rm 99%, cp 1%`.
    pub(crate) fn finish(mut self) -> Result<Vec<(u32, String)>, Error> {
        let report = self.causes.as_mut().map(Causes::report).transpose()?.unwrap_or_default();
        let mut all = Vec::new();
        for (number, task) in &self.tasks {
            let cgroup = self.cgroups.of(u64::from(task.process));
            all.extend(in_words(task, &cgroup, &report).map(|text| (*number, text)));
        }
        Ok(all)
    }
}

/// A process that writes for others, too, writes mostly for itself: only a kernel thread is named with causes.
fn in_words(task: &Task, cgroup: &str, report: &CausesReport) -> Option<String> {
    let name = task.name.as_str();
    let together = if name.starts_with("kworker/") { "kworker" } else { name };
    let delegated = report.delegated.iter().find(|of| of.submitter == together && of.bytes > 0);
    if let Some(of) = delegated.filter(|_| task.is_kernel_thread) {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        of.causes.iter().for_each(|(name, bytes)| *by_name.entry(name).or_default() += bytes);
        let mut causes: Vec<(&str, u64)> = by_name.into_iter().collect();
        causes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let share = |(name, bytes): &(&str, u64)| format!("{name} {}%", bytes * 100 / of.bytes.max(1));
        let causes: Vec<String> = causes.iter().take(NAMED).map(share).collect();
        return Some(format!("{name} for {}", causes.join(", ")));
    }
    (!cgroup.is_empty() && cgroup != "/").then(|| format!("{name} in {cgroup}"))
}

#[cfg(test)]
mod tests {
    use capture::causes::Delegated;

    use super::*;

    #[test]
    fn a_cgroup_is_read_from_either_version() {
        assert_eq!(cgroup_in("0::/system.slice/db.service\n"), Some("/system.slice/db.service"));
        assert_eq!(cgroup_in("9:blkio:/user\n1:cpu,cpuacct:/x\n0::/\n"), Some("/user"));
        assert_eq!(cgroup_in("0::/\n"), Some("/"));
        assert_eq!(cgroup_in(""), None);
    }

    #[test]
    fn kernel_threads_have_causes_and_processes_their_groups() {
        let cause = |name: &str, bytes| (name.to_owned(), bytes);
        let causes = vec![cause("cp", 60), cause("dd", 20), cause("cp", 20)];
        let worker = Delegated { submitter: "kworker".to_owned(), bytes: 100, causes };
        let parent = Delegated { submitter: "fio".to_owned(), bytes: 1, causes: vec![cause("fio", 1)] };
        let report = CausesReport { delegated: vec![worker, parent], ..CausesReport::default() };
        let task = |name: &str| Task {
            name: name.to_owned(),
            process: 1,
            is_kernel_thread: name.starts_with("kworker"),
        };
        assert_eq!(
            in_words(&task("kworker/u8:1"), "/", &report).as_deref(),
            Some("kworker/u8:1 for cp 80%, dd 20%")
        );
        let postgres = in_words(&task("postgres"), "/system.slice/db.service", &report);
        assert_eq!(postgres.as_deref(), Some("postgres in /system.slice/db.service"));
        assert_eq!(in_words(&task("dd"), "/", &report), None);
        assert_eq!(in_words(&task("fio"), "/", &report), None);
    }
}
