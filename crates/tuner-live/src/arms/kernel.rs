//! Arms of a kernel queue: the kernel's schedulers, with or without settings.

use std::collections::BTreeSet;
use std::iter::once;
use std::panic::resume_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use capture::how_to_get;
use capture::profile::Guard;
use capture::topology::together;
use elevator::text::did_you_mean;

use super::Arms;
use crate::error::Error;
use crate::module_elevators;
use crate::queue::{NO_SCHEDULER, QueueSettings, SETTINGS, is_late};
use crate::settings_backup::{SettingsBackup, Switch};
use crate::system;
use crate::{kernel_defaults, kernel_settings};

/// A scheduler of the kernel, with settings: `bfq{slice_idle=0, nr_requests=64}`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Arm {
    scheduler: String,
    settings: Vec<(String, String)>,
}

impl Arm {
    fn parse(text: &str) -> Result<Self, Error> {
        let wrong =
            || Error::Usage(format!("'{text}' is not a valid scheduler; write bfq or bfq{{slice_idle=0}}"));
        let (scheduler, settings) = match text.split_once('{') {
            None => (text, ""),
            Some((scheduler, rest)) => (scheduler, rest.strip_suffix('}').ok_or_else(wrong)?),
        };
        let setting = |part: &str| {
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let (name, value) = (name.trim(), value.trim());
            // A name becomes a file name.
            let plain =
                |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            if name.is_empty() || value.is_empty() || !plain(name) || name == "scheduler" {
                Err(wrong())
            } else {
                Ok((name.to_owned(), value.to_owned()))
            }
        };
        let parts = settings.split(',').filter(|part| !part.trim().is_empty());
        Ok(Self {
            scheduler: scheduler.trim().to_owned(),
            settings: parts.map(setting).collect::<Result<_, _>>()?,
        })
    }

    /// Whether requests that come between the switch and the settings have a lasting effect.
    fn is_late(&self) -> bool {
        let value = |setting: &str| self.settings.iter().find(|(name, _)| name == setting);
        is_late(&self.scheduler, |setting| value(setting).map(|(_, value)| value.as_str()))
    }
}

/// The arms unless others are named: every scheduler, and bfq also without its preference for programs that start. With it, bfq takes readers that
/// start together for one application, merges their queues and waits for none of them: 0.5 instead of 36 MB/s for four readers of a disk.
fn usual(offered: &[String], variant: &str) -> Vec<String> {
    let without = |name: &String| (name == "bfq").then(|| variant.to_owned());
    offered.iter().flat_map(|name| once(name.clone()).chain(without(name))).collect()
}

/// `bfq` without its preference for programs that start.
const WITHOUT_PREFERENCE: &str = "bfq{low_latency=0}";

/// The same, and it waits for each reader and keeps one request in the disk. Otherwise it does not wait for a reader of a control group with others
/// whose queue was idle for a fifth of its latest time, which a reader that waits for a processor exceeds; four readers then get 0.5 instead of 29 MB/s.
/// On a disk with a head, one request at a time costs random reads two fifths of their throughput; without a head it would cost nearly all of it.
const STRICT: &str = "bfq{low_latency=0, strict_guarantees=1}";

/// The schedulers to set one after the other to get a new instance of `wanted`. Otherwise the second of two arms with the same scheduler would inherit
/// the state of the first, and show its throughput: queues that `bfq` has merged stay merged when `low_latency` becomes 0, and queues that started
/// without it are not merged when it becomes 1.
fn steps<'a>(active: &str, wanted: &'a str) -> Vec<&'a str> {
    match (active == wanted, wanted) {
        // It has no state.
        (true, NO_SCHEDULER) => Vec::new(),
        (true, _) => vec![NO_SCHEDULER, wanted],
        (false, _) => vec![wanted],
    }
}

/// The time in which the programs submit their first requests to a new instance of `bfq`: on a busy processor a program may wait so long for it.
const FIRST_REQUESTS: Duration = Duration::from_millis(200);

/// The sysfs attribute of a setting, in `queue` or in `queue/iosched`.
fn attribute(setting: &str) -> String {
    if SETTINGS.contains(&setting) { setting.to_owned() } else { format!("iosched/{setting}") }
}

/// A setting that this process changed.
struct Changed {
    /// The index of the queue.
    queue: usize,
    file: String,
    before: String,
    /// The value read back: the kernel rounds.
    set: String,
}

/// One kernel queue, or those of an array's members, which all get the same arm.
pub struct KernelArms {
    queues: Vec<QueueSettings>,
    /// The settings of each queue before tuning; restored when this is dropped.
    backups: Vec<SettingsBackup>,
    /// The same for a measurement, or none.
    guards: Vec<Guard>,
    names: Vec<String>,
    arms: Vec<Arm>,
    /// The tasks that used the device in the latest window.
    users: BTreeSet<u32>,
    /// The arm that this process set, and the settings that it changed.
    set: Option<(usize, Vec<Changed>)>,
}

impl KernelArms {
    /// All schedulers that the queues offer, without elevators of the kernel module that equal another, bfq also with `low_latency=0`; or
    /// `wanted`.
    ///
    /// # Errors
    /// A device was removed, offers fewer than two schedulers, or lacks a wanted one.
    pub fn new(queues: Vec<QueueSettings>, wanted: &[String]) -> Result<Self, Error> {
        Self::any_number(queues, wanted)?.with_a_choice()
    }

    /// An error if there is a single scheduler.
    ///
    /// # Errors
    /// Nothing to choose from.
    pub fn with_a_choice(self) -> Result<Self, Error> {
        super::has_choice(self.queues[0].name(), &self.names).map(|()| self)
    }

    /// As [`new`](Self::new), also for a single scheduler.
    ///
    /// # Errors
    /// A device was removed, or lacks a wanted scheduler.
    pub fn any_number(queues: Vec<QueueSettings>, wanted: &[String]) -> Result<Self, Error> {
        Self::among(queues, wanted, WITHOUT_PREFERENCE)
    }

    /// The same for the tuner, which tries all: in front of rotating disks bfq also waits for each reader by default.
    ///
    /// # Errors
    /// As [`any_number`](Self::any_number).
    pub fn for_tuning(queues: Vec<QueueSettings>, wanted: &[String]) -> Result<Self, Error> {
        let is_rotating = |queue: &QueueSettings| queue.get("rotational").is_ok_and(|value| value == "1");
        let variant = if queues.iter().any(is_rotating) { STRICT } else { WITHOUT_PREFERENCE };
        Self::among(queues, wanted, variant)
    }

    fn among(queues: Vec<QueueSettings>, wanted: &[String], variant: &str) -> Result<Self, Error> {
        let [queue, ..] = &*queues else { return Err(Error::Usage("no queue to switch".to_owned())) };
        let offered = queue.offered()?;
        let names = if wanted.is_empty() {
            usual(&module_elevators::candidates(&offered), variant)
        } else {
            wanted.to_vec()
        };
        let arms = names.iter().map(|name| Arm::parse(name)).collect::<Result<Vec<_>, _>>()?;
        if let Some((n, name)) = names.iter().enumerate().find(|&(n, _)| arms[..n].contains(&arms[n])) {
            return Err(Error::Usage(format!(
                "'{name}' is named {} times; name each scheduler once",
                arms.iter().filter(|arm| **arm == arms[n]).count()
            )));
        }
        if let Some(arm) = arms.iter().find(|arm| !offered.contains(&arm.scheduler)) {
            return Err(Error::Usage(format!(
                "{}: the kernel offers no scheduler '{}'; available: {}; {}{}",
                queue.name(),
                arm.scheduler,
                offered.join(", "),
                how_to_get(Path::new("/"), &arm.scheduler, &offered),
                did_you_mean(&arm.scheduler, offered.iter().map(String::as_str))
            )));
        }
        Ok(Self {
            queues,
            backups: Vec::new(),
            guards: Vec::new(),
            names,
            arms,
            users: BTreeSet::new(),
            set: None,
        })
    }

    /// Checks the settings of all arms without setting any.
    ///
    /// # Errors
    /// A scheduler has no such setting, or the value is outside its range.
    pub fn checked(self) -> Result<Self, Error> {
        for queue in &self.queues {
            for Arm { scheduler, settings } in &self.arms {
                settings.iter().try_for_each(|(setting, value)| {
                    kernel_settings::check(queue, scheduler, setting, value)
                })?;
            }
        }
        Ok(self)
    }

    /// Records each switch in the queues' backups, which restore the settings when this is dropped.
    #[must_use]
    pub fn with_backups(mut self, backups: Vec<SettingsBackup>) -> Self {
        self.backups = backups;
        self
    }

    /// Restores the queues when this is dropped; if the process is killed, helper processes do that at once.
    ///
    /// # Errors
    /// A helper process cannot be started.
    pub fn with_guards(mut self) -> Result<Self, Error> {
        let guard = |queue: &QueueSettings| Guard::keep(&queue.file("scheduler"));
        self.guards = self.queues.iter().map(guard).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// A line for each number that the kernel changed when it was set: it limits some to their range, and rounds others.
    pub fn adjusted(&self) -> Vec<String> {
        let Some((arm, changed)) = &self.set else { return Vec::new() };
        let settings = &self.arms[*arm].settings;
        let line = |changed: &Changed| {
            let (name, wanted) = settings.iter().find(|(name, _)| attribute(name) == changed.file)?;
            let numbers = wanted.parse::<i64>().ok().zip(changed.set.parse::<i64>().ok());
            let (device, set) = (self.queues[changed.queue].name(), &changed.set);
            numbers
                .filter(|(wanted, set)| wanted != set)
                .map(|_| format!("{device}: the kernel set {name}={set} instead of {wanted}"))
        };
        changed.iter().filter_map(line).collect()
    }

    /// Restores the settings that the present arm changed in addition to the scheduler, unless another process, or the kernel after another
    /// process's switch, has set them since.
    fn unset(&mut self) -> Result<(), Error> {
        let Some((arm, changed)) = self.set.take() else { return Ok(()) };
        let active = self.active()?;
        // The settings of a replaced scheduler are gone; its successor may have settings of the same name.
        let there = |changed: &Changed| {
            active[changed.queue] == self.arms[arm].scheduler || !changed.file.starts_with("iosched/")
        };
        let queue = |changed: &Changed| &self.queues[changed.queue];
        let ours = |changed: &&Changed| {
            there(changed) && queue(changed).get(&changed.file).is_ok_and(|now| now == changed.set)
        };
        let put_back = |changed: &Changed| queue(changed).set(&changed.file, &changed.before);
        // Restore the others even if one is rejected.
        let refused: Vec<Error> = changed.iter().filter(ours).filter_map(|it| put_back(it).err()).collect();
        refused.into_iter().next().map_or(Ok(()), Err)
    }

    /// Sets an arm; if the kernel rejects it, the previous scheduler and settings are restored. Returns the time that it took.
    fn set_arm(&mut self, arm: usize) -> Result<Duration, Error> {
        let from = Instant::now();
        self.unset()?;
        let before = self.active()?;
        let Arm { scheduler, settings } = self.arms[arm].clone();
        let set = |index: usize, queue: &QueueSettings| {
            let mut changed = Vec::new();
            let active = queue.get("scheduler")?;
            let switched =
                steps(&active, &scheduler).iter().try_for_each(|step| self.step(index, queue, step));
            let done = switched.and_then(|()| {
                settings.iter().try_for_each(|(setting, value)| {
                    let file = attribute(setting);
                    let before = queue.get(&file).map_err(|error| queue.lacks(&scheduler, setting, error))?;
                    let done = queue.set(&file, value);
                    // A rejected setting may have been changed partly.
                    let set = queue.get(&file).unwrap_or_else(|_| value.clone());
                    changed.push(Changed { queue: index, file, before, set });
                    done
                })
            });
            Ok((changed, done))
        };
        // Between the switch and the setting, a first request would give the queue of its task a raised weight, which bfq keeps without `low_latency`.
        let is_late = self.arms[arm].is_late();
        let change = || (self.each_queue(set), from.elapsed());
        let (each, took) = match is_late {
            true => system::with_other_io_priorities(&self.users, FIRST_REQUESTS, change),
            false => change(),
        };
        let (mut changed, mut done) = (Vec::new(), Ok(()));
        for of_queue in each {
            let (of_queue, result) = of_queue.unwrap_or_else(|error| (Vec::new(), Err(error)));
            changed.extend(of_queue);
            done = done.and(result);
        }
        self.set = Some((arm, changed));
        if done.is_err() {
            // A failure to restore shows in the next reading.
            let _ = self.unset();
            self.each_queue(|index, queue| match queue.get("scheduler")? {
                active if active == before[index] => Ok(()),
                _ => self.step(index, queue, &before[index]),
            });
            self.set = None;
        }
        done.map(|()| took)
    }

    /// Sets a queue's scheduler.
    fn step(&self, index: usize, queue: &QueueSettings, scheduler: &str) -> Result<(), Error> {
        let set = || queue.set("scheduler", scheduler);
        match self.guards.get(index) {
            Some(guard) => guard.set(scheduler, set),
            None => set(),
        }
    }

    /// The name of what is in use: of the arm with the most settings that all queues have; or of the scheduler with those settings of its arms that are
    /// neither this arm's nor the kernel's default.
    fn by_settings(&self, scheduler: &str) -> String {
        let arms = || self.arms.iter().zip(&self.names).filter(|(arm, _)| arm.scheduler == scheduler);
        let value = |setting: &str| {
            let mut each = self.queues.iter().map(|queue| queue.get(&attribute(setting)).ok());
            let first = each.next()??;
            each.all(|other| other.as_ref() == Some(&first)).then_some(first)
        };
        let is_set = |(setting, wanted): &(String, String)| value(setting).as_ref() == Some(wanted);
        let matching = arms().filter(|(arm, _)| arm.settings.iter().all(is_set));
        let matching = matching.max_by_key(|(arm, _)| arm.settings.len());
        let own = matching.map_or(&[][..], |(arm, _)| &arm.settings);
        let named: BTreeSet<&str> =
            arms().flat_map(|(arm, _)| &arm.settings).map(|(setting, _)| setting.as_str()).collect();
        let is_own = |setting: &&str| own.iter().any(|(name, _)| name == setting);
        let others = named.into_iter().filter(|setting| !is_own(setting)).filter_map(|setting| {
            let value = value(setting)?;
            let is_default = kernel_defaults::is_default(scheduler, setting, &value)?;
            (!is_default).then(|| (setting.to_owned(), value))
        });
        let others: Vec<(String, String)> = others.collect();
        if others.is_empty() {
            return matching.map_or_else(|| scheduler.to_owned(), |(_, name)| name.clone());
        }
        let settings = own.iter().chain(&others).map(|(setting, value)| format!("{setting}={value}"));
        format!("{scheduler}{{{}}}", settings.collect::<Vec<_>>().join(", "))
    }

    /// The schedulers in use, by queue.
    fn active(&self) -> Result<Vec<String>, Error> {
        self.queues.iter().map(|queue| queue.get("scheduler")).collect()
    }

    /// Changes each queue concurrently: each switch waits for the requests in flight. The settings of a scheduler follow its switch at once, because
    /// `bfq` treats processes whose first request arrives under its default settings by these for good.
    fn each_queue<T: Send>(
        &self,
        change: impl Fn(usize, &QueueSettings) -> Result<T, Error> + Sync,
    ) -> Vec<Result<T, Error>> {
        if let [queue] = &*self.queues {
            return vec![system::urgently(|| change(0, queue))];
        }
        let change = &change;
        std::thread::scope(|scope| {
            let each = self.queues.iter().enumerate();
            let changes: Vec<_> = each
                .map(|(index, queue)| scope.spawn(move || system::urgently(|| change(index, queue))))
                .collect();
            // All changes end before the first error is returned.
            let ended =
                changes.into_iter().map(|change| change.join().unwrap_or_else(|panic| resume_unwind(panic)));
            ended.collect()
        })
    }
}

/// If another process has set the scheduler, the guards restore nothing.
impl Drop for KernelArms {
    fn drop(&mut self) {
        if !self.guards.is_empty() {
            let _ = self.unset();
        }
        let backups = std::mem::take(&mut self.backups);
        let is_late = backups.iter().any(SettingsBackup::restores_late);
        let restore = || system::urgently(|| drop(backups));
        match is_late {
            true => system::with_other_io_priorities(&self.users, FIRST_REQUESTS, restore),
            false => restore(),
        }
    }
}

impl Arms for KernelArms {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn current(&mut self) -> Result<String, Error> {
        let active = self.active()?;
        Ok(match &self.set {
            Some((arm, _)) if active.iter().all(|scheduler| self.arms[*arm].scheduler == *scheduler) => {
                self.names[*arm].clone()
            }
            _ if active.iter().all(|scheduler| *scheduler == active[0]) => self.by_settings(&active[0]),
            _ => together(self.queues.iter().map(QueueSettings::name).zip(active)),
        })
    }

    fn used_by(&mut self, tasks: &BTreeSet<u32>) {
        self.users.clone_from(tasks);
    }

    fn switch(&mut self, arm: usize) -> Result<Duration, Error> {
        let scheduler = &self.arms[arm].scheduler;
        let noted: Vec<Switch> =
            self.backups.iter_mut().map(|backup| backup.begin_switch(scheduler)).collect();
        let done = self.set_arm(arm);
        self.backups.iter_mut().zip(noted).for_each(|(backup, switch)| backup.end_switch(switch));
        done
    }

    fn needs_a_switch(&self, arm: &str) -> bool {
        Arm::parse(arm).is_ok_and(|arm| arm.is_late())
    }

    fn by_hand(&self, arm: &str) -> (String, Option<String>) {
        let Ok(Arm { scheduler, settings }) = Arm::parse(arm) else { return (String::new(), None) };
        let settings = settings.into_iter().map(|(setting, value)| (attribute(&setting), value));
        let all: Vec<(String, String)> = once(("scheduler".to_owned(), scheduler)).chain(settings).collect();
        let echo = |queue: &QueueSettings| {
            let echo =
                |(file, value): &(String, String)| format!("echo {value} > {}", queue.file(file).display());
            all.iter().map(echo).collect::<Vec<_>>().join("; ")
        };
        let attributes = all.iter().map(|(file, value)| format!(", ATTR{{queue/{file}}}=\"{value}\""));
        let attributes = attributes.collect::<String>();
        let rule = |queue: &QueueSettings| {
            let condition = queue.property()?.condition();
            let disk = "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\"";
            Some(format!("{disk}, {condition}{attributes}"))
        };
        let rules: Option<Vec<String>> = self.queues.iter().map(rule).collect();
        (self.queues.iter().map(echo).collect::<Vec<_>>().join("; "), rules.map(|rules| rules.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::Tree;

    /// The arms of a tuner, with backups.
    fn noted(tree: &Tree, queues: &[QueueSettings], names: &[String]) -> KernelArms {
        let backups =
            queues.iter().map(|queue| SettingsBackup::begin(&tree.backups(), queue).unwrap()).collect();
        KernelArms::new(queues.to_vec(), names).unwrap().with_backups(backups)
    }

    #[test]
    fn an_arms_settings_are_set_and_restored_with_it() {
        let tree = Tree::new("arms");
        let queue = tree.queue("sda");
        let names = ["bfq{read_ahead_kb=64}", "none"].map(str::to_owned);
        let mut arms = noted(&tree, std::slice::from_ref(&queue), &names);
        assert_eq!(arms.current().unwrap(), "mq-deadline", "not an arm");
        arms.switch(0).unwrap();
        assert_eq!(
            (arms.current().unwrap(), queue.get("read_ahead_kb").unwrap()),
            (names[0].clone(), "64".into())
        );
        arms.switch(1).unwrap();
        assert_eq!(
            (arms.current().unwrap(), queue.get("read_ahead_kb").unwrap()),
            ("none".into(), "128".into())
        );
        arms.switch(0).unwrap();
        drop(arms);
        assert_eq!(queue.get("read_ahead_kb").unwrap(), "128", "restored at the end");
    }

    /// Regression: after a tuner that ended, `bfq{low_latency=0}` of before had no effect on the programs that ran.
    #[test]
    fn at_the_end_the_users_of_the_device_have_other_io_priorities_while_bfq_is_restored() {
        let tree = Tree::new("arms-late");
        let queue = tree.queue("sda");
        fs::create_dir(queue.file("iosched")).unwrap();
        let names = ["mq-deadline", "none"].map(str::to_owned);
        // A task that waits, and whose I/O has the default level.
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (number, numbers) = std::sync::mpsc::channel();
        let task = std::thread::spawn(move || {
            // SAFETY: take numbers only; 0 is this thread, of the class best-effort.
            unsafe { libc::syscall(libc::SYS_ioprio_set, 1, 0, 2 << 13 | 4) };
            // SAFETY: takes nothing and returns a number.
            number.send(unsafe { libc::gettid() } as u32).unwrap();
            let _ = ended.recv();
        });
        let user = numbers.recv().unwrap();
        // SAFETY: takes numbers only.
        let level = || unsafe { libc::syscall(libc::SYS_ioprio_get, 1, user) } & 7;
        for (low_latency, switched, level_meanwhile) in [("0", true, 3), ("1", true, 4), ("0", false, 4)] {
            fs::write(queue.file("scheduler"), "none mq-deadline [bfq]\n").unwrap();
            fs::write(queue.file("iosched/low_latency"), low_latency).unwrap();
            let mut arms = noted(&tree, std::slice::from_ref(&queue), &names);
            if switched {
                arms.switch(1).unwrap();
            }
            arms.used_by(&BTreeSet::from([user]));
            let restored = std::thread::spawn(move || drop(arms));
            let mut levels = BTreeSet::from([level()]);
            while !restored.is_finished() {
                levels.insert(level());
            }
            restored.join().unwrap();
            let expected = BTreeSet::from([4, level_meanwhile]);
            levels.insert(4);
            assert_eq!(levels, expected, "{low_latency}, {switched}");
            assert_eq!((queue.get("scheduler").unwrap().as_str(), level()), ("bfq", 4));
        }
        drop(end);
        task.join().unwrap();
    }

    #[test]
    fn a_measurements_settings_are_restored_without_a_backup() {
        for (test, foreign, after) in [
            ("arms-guarded", None, ["mq-deadline", "128"]),
            ("arms-overruled", Some("kyber"), ["kyber", "128"]),
        ] {
            let tree = Tree::new(test);
            let queue = tree.queue("sda");
            let names = ["bfq{read_ahead_kb=64}", "none"].map(str::to_owned);
            let arms = KernelArms::any_number(vec![queue.clone()], &names);
            let mut arms = arms.and_then(KernelArms::with_guards).unwrap();
            let now = || ["scheduler", "read_ahead_kb"].map(|setting| queue.get(setting).unwrap());
            arms.switch(0).unwrap();
            assert_eq!(now(), ["bfq", "64"]);
            // Another process's scheduler stays, and the setting that the arm changed does not.
            foreign.iter().for_each(|foreign| queue.set("scheduler", foreign).unwrap());
            drop(arms);
            assert_eq!(now(), after);
        }
    }

    /// With bfq, four readers of one control group of a rotating disk got a tenth of what they get if it waits for each.
    #[test]
    fn on_rotating_disks_the_tuner_tries_bfq_that_waits_for_each_reader() {
        let tree = Tree::new("arms-rotating");
        let queue = tree.queue("sda");
        let names = |rotational: &str| {
            fs::write(queue.file("rotational"), rotational).unwrap();
            let arms = KernelArms::for_tuning(vec![queue.clone()], &[]).unwrap();
            arms.names().iter().filter(|name| name.starts_with("bfq")).cloned().collect::<Vec<_>>()
        };
        assert_eq!(names("1\n"), ["bfq", "bfq{low_latency=0, strict_guarantees=1}"]);
        assert_eq!(names("0\n"), ["bfq", "bfq{low_latency=0}"]);
        let measured = KernelArms::any_number(vec![queue.clone()], &[]).unwrap();
        assert!(measured.names().contains(&"bfq{low_latency=0}".to_owned()), "{:?}", measured.names());
    }

    /// Regression: `bfq{low_latency=0, strict_guarantees=1}`, set as `advise` recommends, was called `bfq`, and recommended again.
    #[test]
    fn an_arm_that_another_process_has_set_is_recognised_by_its_settings() {
        let tree = Tree::new("arms-recognised");
        let queues = ["sda", "sdb"].map(|name| tree.queue(name));
        for queue in &queues {
            fs::write(queue.file("rotational"), "1\n").unwrap();
            fs::create_dir(queue.file("iosched")).unwrap();
        }
        let in_use = |scheduler: &str, settings: [[&str; 2]; 2], wanted: &[&str]| {
            for (queue, [low_latency, strict]) in queues.iter().zip(settings) {
                fs::write(queue.file("scheduler"), scheduler).unwrap();
                fs::write(queue.file("iosched/low_latency"), low_latency).unwrap();
                fs::write(queue.file("iosched/strict_guarantees"), strict).unwrap();
            }
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            KernelArms::for_tuning(queues.to_vec(), &wanted).unwrap().current().unwrap()
        };
        const BFQ: &str = "none mq-deadline [bfq]\n";
        for (values, name) in [
            (["1", "0"], "bfq"),
            (["0", "1"], STRICT),
            (["0", "0"], "bfq{low_latency=0}"),
            (["1", "1"], "bfq{strict_guarantees=1}"),
        ] {
            assert_eq!(in_use(BFQ, [values; 2], &[]), name);
        }
        assert_eq!(in_use(BFQ, [["0", "1"]; 2], &["bfq{ low_latency=0}", "none"]), "bfq{ low_latency=0}");
        assert_eq!(in_use(BFQ, [["0", "1"], ["1", "0"]], &[]), "bfq", "the queues have no setting in common");
        assert_eq!(in_use("[none] bfq\n", [["0", "1"]; 2], &[]), "none");
    }

    #[test]
    fn numbers_that_the_kernel_changes_are_reported() {
        let tree = Tree::new("arms-adjusted");
        let queue = tree.queue("sda");
        let mut arms = KernelArms::any_number(vec![queue], &["bfq{read_ahead_kb=64}".to_owned()]).unwrap();
        arms.switch(0).unwrap();
        assert_eq!(arms.adjusted(), [""; 0]);
        arms.set.as_mut().unwrap().1[0].set = "4".to_owned();
        assert_eq!(arms.adjusted(), ["sda: the kernel set read_ahead_kb=4 instead of 64"]);
    }

    #[test]
    fn an_arm_gets_a_new_instance_of_the_scheduler_in_use() {
        assert_eq!(steps("bfq", "bfq"), ["none", "bfq"]);
        assert_eq!(steps("none", "bfq"), ["bfq"]);
        assert_eq!(steps("bfq", "none"), ["none"]);
        assert!(steps("none", "none").is_empty());
    }

    #[test]
    fn settings_of_another_process_stay() {
        let tree = Tree::new("arms-foreign");
        let queue = tree.queue("sda");
        let names = ["bfq{nr_requests=32,read_ahead_kb=64}", "none"].map(str::to_owned);
        let mut arms = noted(&tree, std::slice::from_ref(&queue), &names);
        arms.switch(0).unwrap();
        // When a scheduler is replaced, the kernel resets the number of requests.
        queue.set("scheduler", "kyber").unwrap();
        fs::write(queue.file("nr_requests"), "256\n").unwrap();
        drop(arms);
        let now = ["scheduler", "nr_requests", "read_ahead_kb"].map(|setting| queue.get(setting).unwrap());
        assert_eq!(now, ["kyber", "256", "128"]);
        assert_eq!(fs::read_dir(tree.backups()).unwrap().count(), 0, "no backup stays");
    }

    #[test]
    fn members_of_an_array_are_set_together_and_restored_separately() {
        let tree = Tree::new("arms-members");
        let queues = vec![tree.queue("sda"), tree.queue("sdb")];
        for (name, serial) in [("sda", "one"), ("sdb", "two")] {
            fs::write(tree.block().join(name).join("serial"), serial).unwrap();
        }
        let [a, b] = [queues[0].clone(), queues[1].clone()];
        b.set("scheduler", "none").unwrap();
        b.set("read_ahead_kb", "256").unwrap();
        let names = ["bfq{read_ahead_kb=64}", "none"].map(str::to_owned);
        let mut arms = noted(&tree, &queues, &names);
        let of_both = |setting: &str| [a.get(setting).unwrap(), b.get(setting).unwrap()];
        assert_eq!(arms.current().unwrap(), "mq-deadline (sda), none (sdb)", "not an arm");
        arms.switch(0).unwrap();
        assert_eq!(arms.current().unwrap(), names[0]);
        assert_eq!(
            (of_both("scheduler"), of_both("read_ahead_kb")),
            (["bfq", "bfq"].map(str::to_owned), ["64", "64"].map(str::to_owned))
        );
        // Another process changes one queue.
        b.set("scheduler", "none").unwrap();
        assert_eq!(arms.current().unwrap(), "bfq (sda), none (sdb)");
        let (line, rule) = arms.by_hand("bfq");
        assert_eq!(line.matches("echo bfq > ").count(), 2, "{line}");
        let rule = rule.unwrap();
        assert!(rule.lines().count() == 2 && rule.contains("ATTR{serial}==\"two\""), "{rule}");
        drop(arms);
        assert_eq!(of_both("read_ahead_kb"), ["128", "256"].map(str::to_owned));
        assert_eq!(of_both("scheduler"), ["mq-deadline", "none"].map(str::to_owned));
    }

    #[test]
    fn the_latest_value_of_another_process_is_restored() {
        let tree = Tree::new("arms-between");
        let queue = tree.queue("sda");
        let names = ["bfq{read_ahead_kb=64}", "none{read_ahead_kb=32}"].map(str::to_owned);
        let mut arms = noted(&tree, std::slice::from_ref(&queue), &names);
        arms.switch(0).unwrap();
        queue.set("read_ahead_kb", "512").unwrap();
        arms.switch(1).unwrap();
        assert_eq!(queue.get("read_ahead_kb").unwrap(), "32");
        drop(arms);
        let now = ["scheduler", "read_ahead_kb"].map(|setting| queue.get(setting).unwrap());
        assert_eq!(now, ["mq-deadline", "512"]);
    }

    #[test]
    fn if_one_member_rejects_a_scheduler_the_others_keep_theirs() {
        let tree = Tree::new("arms-refused");
        let [a, b, c] = ["sda", "sdb", "sdc"].map(|name| tree.queue(name));
        c.set("scheduler", "none").unwrap();
        // Writes to this one fail.
        fs::remove_file(b.file("scheduler")).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/ostype", b.file("scheduler")).unwrap();
        let names = ["bfq", "none"].map(str::to_owned);
        let mut arms = KernelArms::new(vec![a.clone(), b, c.clone()], &names).unwrap();
        let before = arms.current().unwrap();
        assert!(matches!(arms.switch(0), Err(Error::Rejected { .. })));
        assert_eq!(arms.current().unwrap(), before);
    }

    #[test]
    fn unknown_arms_are_rejected_before_anything_is_changed() {
        let tree = Tree::new("not-offered");
        let problem = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            KernelArms::new(vec![tree.queue("sda")], &names).err().unwrap().to_string()
        };
        assert!(
            problem(&["bfq", "cfq"]).contains("offers no scheduler 'cfq'; available: none, mq-deadline, bfq")
        );
        assert!(problem(&["bfq", "nono"]).ends_with("; did you mean 'none'?"));
        assert!(problem(&["bfq"]).contains("only one scheduler"));
        let twice = problem(&["bfq{slice_idle=0}", "none", "bfq{ slice_idle=0 }"]);
        assert!(twice.ends_with("is named 2 times; name each scheduler once"), "{twice}");
        for bad in ["bfq{", "bfq{x}", "bfq{../x=1}", "bfq{scheduler=none}"] {
            assert!(problem(&[bad, "none"]).contains("is not a valid scheduler"), "{bad}");
        }
    }

    #[test]
    fn a_removed_device_is_an_error() {
        let tree = Tree::new("arms-gone");
        let mut arms = KernelArms::new(vec![tree.queue("sda")], &[]).unwrap();
        tree.unplug("sda");
        assert!(matches!(arms.current(), Err(Error::Gone(_))));
        assert!(matches!(arms.switch(2), Err(Error::Gone(_))));
    }

    /// Names change with the order of detection, so that a rule by name would set another device's scheduler.
    #[test]
    fn a_device_without_a_stable_property_has_no_rule() {
        let tree = Tree::new("by-hand-nameless");
        let arms = KernelArms::new(vec![tree.queue("cciss!c0d0")], &[]).unwrap();
        let (line, rule) = arms.by_hand("bfq");
        assert!(line.ends_with("/cciss!c0d0/queue/scheduler"), "{line}");
        assert_eq!(rule, None);
    }

    #[test]
    fn the_manual_instructions_name_files_and_values() {
        let tree = Tree::new("by-hand");
        tree.queue("sda");
        fs::write(tree.block().join("sda/serial"), "one\n").unwrap();
        let arms = KernelArms::new(vec![tree.queue("sda")], &[]).unwrap();
        let late = ["bfq{low_latency=0, strict_guarantees=1}", "bfq{slice_idle=0,low_latency=0}"];
        assert!(late.iter().all(|arm| arms.needs_a_switch(arm)));
        assert!(!["bfq", "bfq{low_latency=1}", "none", "kyber"].iter().any(|arm| arms.needs_a_switch(arm)));
        let (line, rule) = arms.by_hand("bfq{slice_idle=0}");
        assert!(
            line.starts_with("echo bfq > ")
                && line.contains("; echo 0 > ")
                && line.ends_with("/iosched/slice_idle")
        );
        assert!(
            rule.unwrap().ends_with("ATTR{queue/scheduler}=\"bfq\", ATTR{queue/iosched/slice_idle}=\"0\"")
        );
    }

    #[test]
    fn a_partly_set_arm_is_undone() {
        let tree = Tree::new("in-part");
        let queue = tree.queue("sda");
        let names = ["bfq{read_ahead_kb=64,nonsense=1}", "none"].map(str::to_owned);
        let mut arms = KernelArms::new(vec![queue.clone()], &names).unwrap();
        let problem = arms.switch(0).unwrap_err().to_string();
        assert!(problem.contains("nonsense"), "{problem}");
        assert_eq!(queue.get("read_ahead_kb").unwrap(), "128");
        assert_eq!(
            arms.current().unwrap(),
            "mq-deadline",
            "not the arm that it failed to be, nor its scheduler"
        );
    }

    #[test]
    fn a_queue_that_rejects_its_old_scheduler_does_not_prevent_the_other_restores() {
        let tree = Tree::new("arms-unset");
        let queues = ["sda", "sdb"].map(|name| tree.queue(name));
        let [a, b] = queues.clone();
        let names = ["bfq{read_ahead_kb=64}", "none"].map(str::to_owned);
        let mut arms = KernelArms::new(queues.to_vec(), &names).unwrap();
        arms.switch(0).unwrap();
        // Reads as the set value, and writes to it fail.
        let file = a.file("read_ahead_kb");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/ostype", &file).unwrap();
        let Some((_, changed)) = &mut arms.set else { panic!("nothing was set") };
        changed[0].set = a.get("read_ahead_kb").unwrap();
        assert!(matches!(arms.switch(1), Err(Error::Rejected { .. })));
        assert_eq!(b.get("read_ahead_kb").unwrap(), "128");
    }
}
