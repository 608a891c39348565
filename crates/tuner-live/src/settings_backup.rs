//! What was set before anything was changed, in a file, so that a run that was killed is put right by the next.
//!
//! The file is written whole before the first change and removed after the last was taken back: while something is refused it stays, and
//! is tried again by whoever begins next. It names the process and when that started, as process numbers are used again, and the number
//! of the queue's directory, as names of devices are.
//!
//! Whoever puts back must know what is the tuner's own: what somebody else has set since stays. So the file also says what a switch has set,
//! and that is whatever reads differently after it than before, as the kernel moves more than it is told to. While a switch is under way
//! nobody can say how far it came, and all counts as its own but a third scheduler. The file is not forced to the disk: settings do not
//! outlive the start of the machine that a lost file is of, and a disk at rest would be woken.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use capture::{is_process, this_process};
use serde::{Deserialize, Serialize};

use crate::claim::{CLAIMS, private};
use crate::error::Error;
use crate::queue::QueueSettings;
use crate::system;

/// Of each setting the values that the tuner gave it; an empty list is of one that is its own whatever it reads as.
type Own = BTreeMap<String, Vec<String>>;

/// What the file holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Record {
    pid: u32,
    started: u64,
    /// The kernel's number of this start of the machine; what was set before it is gone. Older notes have none.
    #[serde(default)]
    boot: Option<String>,
    device: String,
    /// Of the queue's directory. Older notes have none.
    #[serde(default)]
    inode: Option<u64>,
    before: Vec<(String, String)>,
    /// What was set since. Older notes do not tell, and all that differs is put back.
    #[serde(default)]
    set: Option<Own>,
}

/// A device's settings from before; puts them back when it is dropped.
#[derive(Debug)]
pub struct SettingsBackup {
    path: PathBuf,
    queue: QueueSettings,
    record: Record,
    /// It was said that the file cannot be written any more.
    hidden: bool,
}

/// How a queue was when a switch of its scheduler began.
#[derive(Debug)]
pub(crate) struct Switch {
    from: Vec<Option<String>>,
    set: Own,
}

impl SettingsBackup {
    /// Notes what `queue` is set to, in `directory`; or what it was set to before a run that was killed, if that could not be put back.
    ///
    /// # Errors
    /// Another living process tunes the device, or the file cannot be written.
    pub fn begin(directory: &Path, queue: &QueueSettings) -> Result<Self, Error> {
        let failed = |source| Error::Note { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        let _alone = alone_in(directory).map_err(failed)?;
        be_alone(directory, queue.name())?;
        let path = note(directory, queue.name());
        let (pid, started) = this_process();
        let (boot, device) = (boot(), queue.name().to_owned());
        let left = read(&path).filter(|left| left.is_of_this_start() && left.is_of(queue));
        let (before, set) = match left {
            Some(Record { before, set, .. }) => (before, set),
            None => (queue.all(), Some(Own::new())),
        };
        let record = Record { pid, started, boot, device, inode: queue.inode(), before, set };
        write(&path, &record).map_err(|source| Error::Note { path: path.clone(), source })?;
        queue.leave_word(directory);
        Ok(Self { path, queue: queue.clone(), record, hidden: false })
    }

    /// Notes that `scheduler` is about to be set, and settings beside it. What somebody else has set beside it until now is what is put
    /// back from now on.
    pub(crate) fn begin_switch(&mut self, scheduler: &str) -> Switch {
        self.record.adopt(&self.queue);
        let from = self.record.readings(&self.queue);
        let set = self.record.set.replace(self.record.under_way(&self.queue, scheduler));
        self.note();
        Switch { from, set: set.unwrap_or_else(|| self.record.everything()) }
    }

    /// Notes what a switch has set, whether all of it came about or not.
    pub(crate) fn end_switch(&mut self, Switch { from, mut set }: Switch) {
        for (((setting, _), from), now) in
            self.record.before.iter().zip(from).zip(self.record.readings(&self.queue))
        {
            match now {
                Some(now) if from.as_ref() != Some(&now) => _ = set.insert(setting.clone(), vec![now]),
                Some(_) => {}
                None => _ = set.remove(setting),
            }
        }
        self.record.set = Some(set);
        self.note();
    }

    /// Where this fails the device is looked after all the same: only a kill would find an older note.
    fn note(&mut self) {
        let written = write(&self.path, &self.record);
        if written.is_err() {
            // What the older note says was set would make what is set now somebody else's. All is the tuner's own by this one.
            let _ = write_over(&self.path, &Record { set: None, ..self.record.clone() });
        }
        if let Err(source) = &written
            && !self.hidden
        {
            let path = self.path.display();
            system::say(&format!(
                "{path}: {source}; what is set is not noted for now, in case this process is killed"
            ));
        }
        self.hidden = written.is_err();
    }
}

impl Drop for SettingsBackup {
    fn drop(&mut self) {
        if !self.record.is_of(&self.queue) {
            let _ = fs::remove_file(&self.path);
            return;
        }
        let PutBack { theirs, problems, .. } = put_back(&self.path, &self.queue, &self.record);
        theirs.iter().chain(&problems).for_each(|line| system::say(line));
    }
}

/// Where a device's settings are noted.
fn note(directory: &Path, device: &str) -> PathBuf {
    directory.join(format!("{}.before.json", device.replace('/', "!")))
}

/// An error if a living process has noted a device's settings in `directory`.
fn be_alone(directory: &Path, device: &str) -> Result<(), Error> {
    match read(&note(directory, device)).filter(lives) {
        None => Ok(()),
        Some(other) => {
            let problem = format!("{device}: process {} tunes it already; end that first", other.pid);
            Err(Error::Usage(problem))
        }
    }
}

/// Puts back what runs that live no more have changed; what was done, in words. `block` is `/sys/block`.
pub fn recover(directory: &Path, block: &Path) -> Vec<String> {
    let mut done = Vec::new();
    // Where there is no directory there are no notes.
    let _alone = alone_in(directory);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = path.to_string_lossy().ends_with(".before.json");
        let Some(record) = ours.then(|| read(&path)).flatten().filter(|record| !lives(record)) else {
            continue;
        };
        let queue = QueueSettings::within(block, &record.device);
        let Record { device, pid, .. } = &record;
        if let Some(why) = record.is_over(&queue) {
            let _ = fs::remove_file(&path);
            done.push(format!("{device}: {why} process {pid} was killed, nothing to put back"));
            continue;
        }
        let _claim = match queue.claim() {
            Ok(claim) => claim,
            Err(why) => {
                done.push(format!(
                    "{why}; what process {pid}, which was killed, has set of it stays until then"
                ));
                continue;
            }
        };
        let PutBack { back, theirs, problems } = put_back(&path, &queue, &record);
        let was = back.join(" ");
        if !problems.is_empty() {
            let note = path.display();
            done.push(format!("{device}: not all is put back after process {pid}, which was killed: {was}; the next start tries again, unless {note} is removed"));
        } else if !back.is_empty() {
            done.push(format!("{device}: put back after process {pid}, which was killed: {was}"));
        }
        done.extend(theirs.into_iter().chain(problems));
    }
    done
}

/// The same of what a run has changed that noted it elsewhere, if it was the last to switch this queue's schedulers.
pub fn recover_of(queue: &QueueSettings, block: &Path) -> Vec<String> {
    queue.word().map_or(Vec::new(), |directory| recover(&directory, block))
}

/// What is still to be put back of a queue, in words, if anything is.
#[must_use]
pub fn left_behind(queue: &QueueSettings) -> Option<String> {
    let path = note(&queue.word()?, queue.name());
    let Record { pid, before, .. } =
        read(&path).filter(|note| !lives(note) && note.is_over(queue).is_none())?;
    let before: Vec<String> = before
        .iter()
        .filter(|it| differs(queue, it))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    (!before.is_empty()).then(|| {
        let (device, before) = (queue.name(), before.join(" "));
        format!("{device}: process {pid}, which was killed, has changed it; before: {before}; the next 'dwell tune' puts that back")
    })
}

/// Whether a setting that can be read reads otherwise.
fn differs(queue: &QueueSettings, (setting, value): &(String, String)) -> bool {
    queue.get(setting).is_ok_and(|now| now != *value)
}

/// Keeps others from looking at notes and writing or removing them in between, for as long as it is held. The lock is of a file that
/// nobody else may open, as one of a directory that anybody may read anybody may hold for ever; without such a file it is that.
fn alone_in(directory: &Path) -> io::Result<fs::File> {
    let file = private(&Path::new(CLAIMS).join("notes")).or_else(|_| fs::File::open(directory))?;
    file.lock()?;
    Ok(file)
}

/// What came of putting back, in words.
struct PutBack {
    /// What read otherwise and is as it was before.
    back: Vec<String>,
    theirs: Vec<String>,
    problems: Vec<String>,
}

/// Puts back what the tuner has set, and removes the note at `path` if nothing of it was refused.
fn put_back(path: &Path, queue: &QueueSettings, record: &Record) -> PutBack {
    let theirs = record.theirs(queue);
    let stays = |setting: &str| theirs.iter().any(|(name, _)| name == setting);
    // All else is the kernel's anew with another scheduler.
    let concerned = |setting: &str| !stays("scheduler") || setting == "read_ahead_kb";
    let mut then = Record { set: Some(record.everything()), ..record.clone() };
    then.before.retain(|(setting, _)| concerned(setting));
    // A switch of the scheduler resets theirs, too.
    then.before.iter_mut().for_each(|(setting, value)| {
        theirs.iter().filter(|(name, _)| name == setting).for_each(|(_, now)| value.clone_from(now));
    });
    let differed: Vec<bool> = then.before.iter().map(|it| differs(queue, it)).collect();
    if differed.contains(&true) {
        // A kill in between: the scheduler is back, and what goes with it reads as the kernel likes. If it cannot be noted, it is done.
        let _ = write(path, &then);
    }
    let (mut back, mut problems) = (Vec::new(), Vec::new());
    for (each @ (setting, value), differed) in then.before.iter().zip(differed) {
        match differs(queue, each).then(|| queue.set(setting, value)) {
            Some(Err(problem)) => problems.push(problem.to_string()),
            // What the kernel sets anew with the scheduler is as it was again without a word.
            Some(Ok(())) | None if differed => back.push(format!("{setting}={value}")),
            _ => {}
        }
    }
    // What is refused is to be put back later only if it still reads as it does.
    let _ = match problems.is_empty() {
        true => fs::remove_file(path),
        false => write(path, &Record { set: record.set.clone(), ..then.clone() }),
    };
    let line = |(name, value): &(String, String)| {
        format!("{}: somebody else has set {name}={value} since; it stays", record.device)
    };
    PutBack {
        back,
        theirs: theirs.iter().filter(|(name, _)| name == "scheduler" || concerned(name)).map(line).collect(),
        problems,
    }
}

fn read(path: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write(path: &Path, record: &Record) -> io::Result<()> {
    system::replace(path, |new| {
        serde_json::to_writer(fs::File::create(new)?, record)?;
        Ok(())
    })
}

/// Writes a note in the place of another of the same device where there is no room for two. One that is shorter is followed by blanks.
fn write_over(path: &Path, record: &Record) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    let mut text = serde_json::to_vec(record)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or_default();
    text.resize(text.len().max(length), b' ');
    file.write_all(&text)
}

impl Record {
    /// Whether it is of this start of the machine: settings do not outlive one, and by the name of a device there may be another
    /// one now.
    fn is_of_this_start(&self) -> bool {
        self.boot.is_none() || self.boot == boot()
    }

    /// Whether it is of that queue and not of another device that had the name.
    fn is_of(&self, queue: &QueueSettings) -> bool {
        queue.exists() && self.inode.is_none_or(|noted| queue.inode() == Some(noted))
    }

    /// Why nothing of it is to be put back, if so, in words: since ...
    fn is_over(&self, queue: &QueueSettings) -> Option<&'static str> {
        match () {
            () if !self.is_of_this_start() => Some("the machine was started anew since"),
            () if !self.is_of(queue) => Some("that device is gone since"),
            () => None,
        }
    }

    fn before(&self, setting: &str) -> Option<&str> {
        self.before.iter().find(|(name, _)| name == setting).map(|(_, value)| value.as_str())
    }

    /// Of all that was noted how it reads now; a scheduler's settings only while it is that scheduler's turn, as others have some of the
    /// same name.
    fn readings(&self, queue: &QueueSettings) -> Vec<Option<String>> {
        let same = queue.get("scheduler").is_ok_and(|now| self.before("scheduler") == Some(now.as_str()));
        let reads = |name: &String| queue.get(name).ok().filter(|_| same || !name.starts_with("iosched/"));
        self.before.iter().map(|(name, _)| reads(name)).collect()
    }

    /// What reads as neither the tuner nor whoever was there before has set it, and how.
    fn theirs(&self, queue: &QueueSettings) -> Vec<(String, String)> {
        let each = self.before.iter().zip(self.readings(queue));
        let reads = each.filter_map(|((name, before), now)| Some((name, before, now?)));
        let theirs = reads.filter(|(name, before, now)| now != *before && !self.is_own(name, now));
        theirs.map(|(name, _, now)| (name.clone(), now)).collect()
    }

    /// Whether the tuner has given a setting that value.
    fn is_own(&self, setting: &str, value: &String) -> bool {
        let Some(set) = &self.set else { return true };
        set.get(setting).is_some_and(|own| own.is_empty() || own.contains(value))
    }

    /// Takes what somebody else has set beside the scheduler for what is to be put back.
    fn adopt(&mut self, queue: &QueueSettings) {
        for (setting, now) in self.theirs(queue) {
            let place = self.before.iter_mut().find(|(name, _)| *name == setting && name != "scheduler");
            let Some((_, before)) = place else { continue };
            *before = now;
            self.set.iter_mut().for_each(|set| _ = set.remove(&setting));
        }
    }

    /// All that was noted, as the tuner's own whatever it reads as.
    fn everything(&self) -> Own {
        self.before.iter().map(|(name, _)| (name.clone(), Vec::new())).collect()
    }

    /// What is the tuner's own while the queue is switched to a scheduler.
    fn under_way(&self, queue: &QueueSettings, scheduler: &str) -> Own {
        let schedulers = queue.get("scheduler").into_iter().chain([scheduler.to_owned()]).collect();
        let mut set = self.everything();
        set.insert("scheduler".to_owned(), schedulers);
        set
    }
}

fn lives(record: &Record) -> bool {
    record.is_of_this_start() && is_process(record.pid, record.started)
}

/// The kernel's number of this start of the machine.
fn boot() -> Option<String> {
    let number = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(number.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    /// Of the tuner, which leaves things as the kernel does.
    fn switch(journal: &mut SettingsBackup, settings: &[(&str, &str)]) {
        let switch = journal.begin_switch(settings[0].1);
        settings.iter().for_each(|(setting, value)| journal.queue.set(setting, value).unwrap());
        journal.end_switch(switch);
    }

    /// As SIGKILL leaves it: the file stays, its process has another start time. Where that is.
    fn kill(journal: SettingsBackup) -> PathBuf {
        let mut record = journal.record.clone();
        record.started += 1;
        let path = journal.path.clone();
        std::mem::forget(journal);
        write(&path, &record).unwrap();
        path
    }

    #[test]
    fn what_was_set_is_put_back_in_order() {
        let tree = Tree::new("put-back");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq"), ("read_ahead_kb", "4096")]);
        assert_eq!(journal.record.before("scheduler"), Some("mq-deadline"));
        drop(journal);
        assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline");
        assert_eq!(queue.get("read_ahead_kb").unwrap(), "128");
        assert!(fs::read_dir(tree.directory()).unwrap().next().is_none(), "no file stays");
    }

    #[test]
    fn a_killed_run_is_put_right_by_the_next_and_a_living_one_left_alone() {
        let tree = Tree::new("killed");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq")]);
        assert_eq!(recover(&tree.directory(), &tree.block()), [""; 0], "it lives");
        let again = SettingsBackup::begin(&tree.directory(), &queue).unwrap_err().to_string();
        assert!(again.contains("tunes it already"), "{again}");
        kill(journal);
        let said = recover(&tree.directory(), &tree.block());
        assert!(
            said.len() == 1 && said[0].contains("put back") && said[0].contains("mq-deadline"),
            "{said:?}"
        );
        assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline");
        assert_eq!(recover(&tree.directory(), &tree.block()), [""; 0], "once");
    }

    #[test]
    fn of_two_that_begin_at_once_one_does() {
        let tree = Tree::new("at-once");
        let queue = tree.queue("sda");
        for _ in 0..1000 {
            let start = std::sync::Barrier::new(2);
            let begin = || {
                start.wait();
                SettingsBackup::begin(&tree.directory(), &queue)
            };
            let (one, other) = std::thread::scope(|scope| {
                let one = scope.spawn(begin);
                (begin(), one.join().unwrap())
            });
            assert_eq!([one.is_ok(), other.is_ok()].iter().filter(|began| **began).count(), 1);
        }
    }

    #[test]
    fn what_was_noted_elsewhere_is_put_back_too() {
        let tree = Tree::new("elsewhere");
        let queue = tree.queue("sda");
        drop(queue.claim().unwrap());
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq")]);
        assert_eq!(left_behind(&queue), None, "it lives");
        kill(journal);
        let left = left_behind(&queue).unwrap();
        assert!(left.contains("before: scheduler=mq-deadline;"), "{left}");
        assert_eq!(recover_of(&queue, &tree.block()).len(), 1);
        assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline");
        assert_eq!((left_behind(&queue), recover_of(&queue, &tree.block())), (None, vec![]), "once");
    }

    /// Its tuner with another database, or a profile, would find another scheduler than it has set.
    #[test]
    fn what_somebody_has_claimed_meanwhile_is_put_back_when_that_ends() {
        let tree = Tree::new("claimed");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq")]);
        kill(journal);
        let claim = queue.claim().unwrap();
        let said = recover(&tree.directory(), &tree.block());
        assert!(said.len() == 1 && said[0].contains("stays until then"), "{said:?}");
        assert_eq!(queue.get("scheduler").unwrap(), "bfq");
        drop(claim);
        recover(&tree.directory(), &tree.block());
        assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline");
    }

    #[test]
    fn settings_of_the_scheduler_that_was_in_use_are_put_back_too() {
        let tree = Tree::new("iosched");
        let queue = tree.queue("sda");
        let own = queue.file("iosched");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("fifo_batch"), "16\n").unwrap();
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        // An arm of the very scheduler that was there before.
        switch(&mut journal, &[("scheduler", "mq-deadline"), ("iosched/fifo_batch", "1")]);
        kill(journal);
        let said = recover(&tree.directory(), &tree.block());
        assert!(said.len() == 1 && said[0].ends_with(": iosched/fifo_batch=16"), "{said:?}");
        assert_eq!(queue.get("iosched/fifo_batch").unwrap(), "16");
    }

    /// Whether it ends or is killed: at the end, and just as well at the next start.
    fn ends(journal: SettingsBackup, tree: &Tree) -> Vec<String> {
        kill(journal);
        recover(&tree.directory(), &tree.block())
    }

    #[test]
    fn a_scheduler_that_somebody_else_sets_just_before_the_end_stays() {
        let tree = Tree::new("theirs");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq"), ("read_ahead_kb", "64")]);
        queue.set("scheduler", "kyber").unwrap();
        // The kernel's own, of a queue under kyber.
        queue.set("nr_requests", "256").unwrap();
        drop(journal);
        assert_eq!(now(&queue), ["kyber", "256", "128"]);
        assert!(fs::read_dir(tree.directory()).unwrap().next().is_none(), "no file stays");
    }

    #[test]
    fn a_scheduler_that_somebody_else_sets_after_a_kill_stays_and_is_said() {
        let tree = Tree::new("theirs-killed");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq"), ("read_ahead_kb", "64")]);
        queue.set("scheduler", "kyber").unwrap();
        let said = ends(journal, &tree);
        assert!(said[1].ends_with("somebody else has set scheduler=kyber since; it stays"), "{said:?}");
        assert_eq!(now(&queue), ["kyber", "64", "128"]);
        assert_eq!(recover(&tree.directory(), &tree.block()), [""; 0], "once");
    }

    #[test]
    fn settings_that_the_tuner_never_touched_stay_as_somebody_else_sets_them() {
        let tree = Tree::new("untouched");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        // The number of requests is the kernel's own with another scheduler.
        switch(&mut journal, &[("scheduler", "bfq"), ("nr_requests", "256")]);
        queue.set("read_ahead_kb", "512").unwrap();
        let said = ends(journal, &tree);
        assert!(said[1].ends_with("somebody else has set read_ahead_kb=512 since; it stays"), "{said:?}");
        assert_eq!(now(&queue), ["mq-deadline", "64", "512"]);
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq"), ("nr_requests", "256")]);
        queue.set("nr_requests", "32").unwrap();
        drop(journal);
        assert_eq!(now(&queue), ["mq-deadline", "32", "512"], "though the scheduler is put back");
    }

    #[test]
    fn whenever_it_is_killed_in_a_switch_all_of_it_is_put_back_but_a_third_scheduler() {
        let steps = [("scheduler", "bfq"), ("nr_requests", "256"), ("read_ahead_kb", "64")];
        for came in 0..=steps.len() {
            let tree = Tree::new("half-way");
            let queue = tree.queue("sda");
            let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
            switch(&mut journal, &[("scheduler", "none"), ("nr_requests", "32")]);
            let _ = journal.begin_switch("bfq");
            steps[..came].iter().for_each(|(setting, value)| queue.set(setting, value).unwrap());
            ends(journal, &tree);
            assert_eq!(now(&queue), ["mq-deadline", "64", "128"], "{came} steps");
        }
        let tree = Tree::new("half-way-theirs");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        let _ = journal.begin_switch("bfq");
        queue.set("scheduler", "kyber").unwrap();
        ends(journal, &tree);
        assert_eq!(queue.get("scheduler").unwrap(), "kyber");
    }

    #[test]
    fn of_an_older_note_everything_is_put_back() {
        let tree = Tree::new("older");
        let queue = tree.queue("sda");
        let note = tree.directory().join("sda.before.json");
        let older = r#"{"pid":1,"started":0,"device":"sda","before":[["scheduler","mq-deadline"],["nr_requests","64"],["read_ahead_kb","128"]]}"#;
        fs::write(&note, older).unwrap();
        queue.set("scheduler", "bfq").unwrap();
        queue.set("nr_requests", "256").unwrap();
        let said = recover(&tree.directory(), &tree.block());
        assert_eq!(
            said,
            ["sda: put back after process 1, which was killed: scheduler=mq-deadline nr_requests=64"]
        );
        assert_eq!(now(&queue), ["mq-deadline", "64", "128"]);
    }

    fn now(queue: &QueueSettings) -> [String; 3] {
        ["scheduler", "nr_requests", "read_ahead_kb"].map(|setting| queue.get(setting).unwrap())
    }

    #[test]
    fn a_damaged_note_is_left_where_it_is_and_stops_nobody() {
        let tree = Tree::new("damaged");
        let queue = tree.queue("sda");
        let note = tree.directory().join("sda.before.json");
        fs::write(&note, "{\"pid\": 1, \"sta").unwrap();
        assert_eq!(recover(&tree.directory(), &tree.block()), [""; 0]);
        let journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        assert_eq!(journal.record.before("scheduler"), Some("mq-deadline"));
    }

    #[test]
    fn what_cannot_be_noted_is_not_begun() {
        let tree = Tree::new("no-note");
        let queue = tree.queue("sda");
        fs::create_dir_all(tree.directory().join("sda.before.json/in-the-way")).unwrap();
        let said = SettingsBackup::begin(&tree.directory(), &queue).unwrap_err().to_string();
        assert!(said.contains("sda.before.json: ") && said.contains("--database"), "{said}");
        assert_eq!(fs::read_dir(tree.directory()).unwrap().count(), 1, "nothing half written stays");
    }

    /// As on a full disk: by the older note what the tuner has set since would be somebody else's.
    #[test]
    fn where_there_is_no_room_for_another_note_all_is_the_tuners_own() {
        let tree = Tree::new("no-room");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq")]);
        let in_the_way = tree.directory().join("sda.before.new");
        fs::create_dir(&in_the_way).unwrap();
        switch(&mut journal, &[("scheduler", "none")]);
        let path = journal.path.clone();
        std::mem::forget(journal);
        let mut noted = read(&path).unwrap();
        noted.started += 1;
        fs::remove_dir(in_the_way).unwrap();
        write(&path, &noted).unwrap();
        let said = recover(&tree.directory(), &tree.block());
        assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline", "{said:?}");
    }

    /// Whoever has no leave to put back must not lose what is to be put back, nor take what was left for what was there before.
    #[test]
    fn what_is_refused_stays_noted_until_it_is_put_back() {
        let tree = Tree::new("refused");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq"), ("read_ahead_kb", "4096")]);
        let path = kill(journal);
        let mut record = read(&path).unwrap();
        // Nobody may write to this one.
        let ahead = queue.file("read_ahead_kb");
        fs::remove_file(&ahead).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/ostype", &ahead).unwrap();
        let reads = queue.get("read_ahead_kb").unwrap();
        record.set.as_mut().unwrap().insert("read_ahead_kb".to_owned(), vec![reads, "4096".to_owned()]);
        write(&path, &record).unwrap();
        let said = recover(&tree.directory(), &tree.block());
        assert!(
            said.len() == 2 && said[0].contains("not all") && said[1].contains("read_ahead_kb"),
            "{said:?}"
        );
        let journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        assert_eq!(journal.record.before("read_ahead_kb"), Some("128"), "not what is there now");
        drop(journal);
        assert!(path.exists(), "it was refused again");
        fs::remove_file(&ahead).unwrap();
        fs::write(&ahead, "4096\n").unwrap();
        // The process that noted it last is this one, which lives.
        write(&path, &record).unwrap();
        assert_eq!(recover(&tree.directory(), &tree.block()).len(), 1);
        assert_eq!((queue.get("read_ahead_kb").unwrap(), path.exists()), ("128".to_owned(), false));
    }

    #[test]
    fn a_device_that_vanished_needs_nothing() {
        let tree = Tree::new("vanished");
        let queue = tree.queue("sda");
        kill(SettingsBackup::begin(&tree.directory(), &queue).unwrap());
        tree.unplug("sda");
        let said = recover(&tree.directory(), &tree.block());
        assert!(said.len() == 1 && said[0].contains("is gone"), "{said:?}");
    }

    #[test]
    fn another_device_of_the_same_name_is_left_as_it_is() {
        let tree = Tree::new("replaced");
        let queue = tree.queue("sda");
        let mut journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        switch(&mut journal, &[("scheduler", "bfq")]);
        // As if it were of another disk, which had the name when this was noted.
        journal.record.inode = journal.record.inode.map(|inode| inode + 1);
        let (path, mut record) = (journal.path.clone(), journal.record.clone());
        drop(journal);
        assert_eq!(
            queue.get("scheduler").unwrap(),
            "bfq",
            "pulled out and another put in while it was tuned"
        );
        record.started += 1;
        write(&path, &record).unwrap();
        let begun = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        assert_eq!(begun.record.before("scheduler"), Some("bfq"), "what was noted is of the other one");
        drop(begun);
        write(&path, &record).unwrap();
        let said = recover(&tree.directory(), &tree.block());
        assert!(said.len() == 1 && said[0].contains("is gone since"), "{said:?}");
        assert_eq!((queue.get("scheduler").unwrap(), path.exists()), ("bfq".to_owned(), false));
    }

    #[test]
    fn what_was_noted_before_the_machine_started_anew_is_nothing_to_put_back() {
        let tree = Tree::new("boot");
        let queue = tree.queue("sda");
        let journal = SettingsBackup::begin(&tree.directory(), &queue).unwrap();
        let (path, mut record) = (journal.path.clone(), journal.record.clone());
        std::mem::forget(journal);
        // The very same process number and time after its start: no other process is meant by it.
        record.boot = Some("another".to_owned());
        write(&path, &record).unwrap();
        // By that name there may be another disk now.
        queue.set("scheduler", "bfq").unwrap();
        let said = recover(&tree.directory(), &tree.block());
        assert!(said.len() == 1 && said[0].contains("started anew"), "{said:?}");
        assert_eq!(queue.get("scheduler").unwrap(), "bfq");
        assert!(!path.exists());
    }
}
