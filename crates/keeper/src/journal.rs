//! What was set before anything was changed, in a file, so that a run that was killed is put right by the next.
//!
//! The file is written whole before the first change and removed after the last was taken back: while something is refused it stays, and
//! is tried again by whoever begins next. It names the process and when that started, as process numbers are used again, and the number
//! of the queue's directory, as names of devices are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use capture::{is_process, this_process};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::queue::QueueSettings;
use crate::system;

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
}

/// A device's settings from before; puts them back when it is dropped.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    queue: QueueSettings,
    record: Record,
    restore: bool,
}

impl Journal {
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
        let before = left.map_or_else(|| queue.all(), |left| left.before);
        let record = Record { pid, started, boot, device, inode: queue.inode(), before };
        write(&path, &record).map_err(|source| Error::Note { path: path.clone(), source })?;
        Ok(Self { path, queue: queue.clone(), record, restore: true })
    }

    /// What a setting was.
    #[must_use]
    pub fn before(&self, setting: &str) -> Option<&str> {
        self.record.before.iter().find(|(name, _)| name == setting).map(|(_, value)| value.as_str())
    }

    /// Somebody else has set a scheduler here or of a device beside this one: leaves everything as it is now unless the one in use
    /// is `ours`.
    pub fn leave_unless(&mut self, ours: &str) {
        self.restore = self.queue.get("scheduler").is_ok_and(|now| now == ours);
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let restore = self.restore && self.record.is_of(&self.queue);
        let problems = if restore { put_back(&self.queue, &self.record) } else { Vec::new() };
        problems.iter().for_each(|problem| system::say(problem));
        if problems.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
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
        let was = record.in_words();
        let problems = put_back(&queue, &record);
        if problems.is_empty() {
            let _ = fs::remove_file(&path);
            done.push(format!("{device}: put back after process {pid}, which was killed: {was}"));
        } else {
            let note = path.display();
            done.push(format!("{device}: not all is put back after process {pid}, which was killed: {was}; the next start tries again, unless {note} is removed"));
            done.extend(problems);
        }
    }
    done
}

/// Keeps others from looking at notes and writing or removing them in between, for as long as it is held.
fn alone_in(directory: &Path) -> io::Result<fs::File> {
    let directory = fs::File::open(directory)?;
    directory.lock()?;
    Ok(directory)
}

/// Sets everything that differs; what was refused, in words.
fn put_back(queue: &QueueSettings, record: &Record) -> Vec<String> {
    let differs = |(setting, value): &&(String, String)| queue.get(setting).is_ok_and(|now| now != *value);
    let set = |(setting, value): &(String, String)| queue.set(setting, value).err().map(|e| e.to_string());
    record.before.iter().filter(differs).filter_map(set).collect()
}

fn read(path: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write(path: &Path, record: &Record) -> io::Result<()> {
    system::replace(path, |new| {
        let file = fs::File::create(new)?;
        serde_json::to_writer(&file, record)?;
        // On the disk before the first change.
        file.sync_all()
    })
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

    /// What was set of the queue.
    fn in_words(&self) -> String {
        let queues = self.before.iter().filter(|(name, _)| !name.starts_with("iosched/"));
        queues.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
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

    #[test]
    fn what_was_set_is_put_back_in_order() {
        let tree = Tree::new("put-back");
        let queue = tree.queue("sda");
        let journal = Journal::begin(&tree.directory(), &queue).unwrap();
        queue.set("scheduler", "bfq").unwrap();
        queue.set("read_ahead_kb", "4096").unwrap();
        assert_eq!(journal.before("scheduler"), Some("mq-deadline"));
        drop(journal);
        assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline");
        assert_eq!(queue.get("read_ahead_kb").unwrap(), "128");
        assert!(fs::read_dir(tree.directory()).unwrap().next().is_none(), "no file stays");
    }

    #[test]
    fn a_killed_run_is_put_right_by_the_next_and_a_living_one_left_alone() {
        let tree = Tree::new("killed");
        let queue = tree.queue("sda");
        let journal = Journal::begin(&tree.directory(), &queue).unwrap();
        queue.set("scheduler", "bfq").unwrap();
        assert_eq!(recover(&tree.directory(), &tree.block()), [""; 0], "it lives");
        let again = Journal::begin(&tree.directory(), &queue).unwrap_err().to_string();
        assert!(again.contains("tunes it already"), "{again}");
        // As SIGKILL leaves it: the file stays, its process has another start time.
        let mut record = journal.record.clone();
        record.started += 1;
        let path = journal.path.clone();
        std::mem::forget(journal);
        write(&path, &record).unwrap();
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
                Journal::begin(&tree.directory(), &queue)
            };
            let (one, other) = std::thread::scope(|scope| {
                let one = scope.spawn(begin);
                (begin(), one.join().unwrap())
            });
            assert_eq!([one.is_ok(), other.is_ok()].iter().filter(|began| **began).count(), 1);
        }
    }

    #[test]
    fn settings_of_the_scheduler_that_was_in_use_are_put_back_too() {
        let tree = Tree::new("iosched");
        let queue = tree.queue("sda");
        let own = queue.file("iosched");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("fifo_batch"), "16\n").unwrap();
        let journal = Journal::begin(&tree.directory(), &queue).unwrap();
        queue.set("iosched/fifo_batch", "1").unwrap();
        // As SIGKILL leaves it, with an arm of the very scheduler that was there before.
        let mut record = journal.record.clone();
        record.started += 1;
        let path = journal.path.clone();
        std::mem::forget(journal);
        write(&path, &record).unwrap();
        let said = recover(&tree.directory(), &tree.block());
        assert!(said.len() == 1 && !said[0].contains("fifo_batch"), "{said:?}");
        assert_eq!(queue.get("iosched/fifo_batch").unwrap(), "16");
    }

    #[test]
    fn a_damaged_note_is_left_where_it_is_and_stops_nobody() {
        let tree = Tree::new("damaged");
        let queue = tree.queue("sda");
        let note = tree.directory().join("sda.before.json");
        fs::write(&note, "{\"pid\": 1, \"sta").unwrap();
        assert_eq!(recover(&tree.directory(), &tree.block()), [""; 0]);
        let journal = Journal::begin(&tree.directory(), &queue).unwrap();
        assert_eq!(journal.before("scheduler"), Some("mq-deadline"));
    }

    #[test]
    fn what_cannot_be_noted_is_not_begun() {
        let tree = Tree::new("no-note");
        let queue = tree.queue("sda");
        fs::create_dir_all(tree.directory().join("sda.before.json/in-the-way")).unwrap();
        let said = Journal::begin(&tree.directory(), &queue).unwrap_err().to_string();
        assert!(said.contains("sda.before.json: ") && said.contains("--database"), "{said}");
        assert_eq!(fs::read_dir(tree.directory()).unwrap().count(), 1, "nothing half written stays");
    }

    /// Whoever has no leave to put back must not lose what is to be put back, nor take what was left for what was there before.
    #[test]
    fn what_is_refused_stays_noted_until_it_is_put_back() {
        let tree = Tree::new("refused");
        let queue = tree.queue("sda");
        let journal = Journal::begin(&tree.directory(), &queue).unwrap();
        let mut record = journal.record.clone();
        record.started += 1;
        let path = journal.path.clone();
        std::mem::forget(journal);
        write(&path, &record).unwrap();
        queue.set("scheduler", "bfq").unwrap();
        // Nobody may write to this one.
        let ahead = queue.file("read_ahead_kb");
        fs::remove_file(&ahead).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/ostype", &ahead).unwrap();
        let said = recover(&tree.directory(), &tree.block());
        assert!(
            said.len() == 2 && said[0].contains("not all") && said[1].contains("read_ahead_kb"),
            "{said:?}"
        );
        let journal = Journal::begin(&tree.directory(), &queue).unwrap();
        assert_eq!(journal.before("read_ahead_kb"), Some("128"), "not what is there now");
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
        let journal = Journal::begin(&tree.directory(), &queue).unwrap();
        let (path, mut record) = (journal.path.clone(), journal.record.clone());
        std::mem::forget(journal);
        record.started += 1;
        write(&path, &record).unwrap();
        tree.unplug("sda");
        let said = recover(&tree.directory(), &tree.block());
        assert!(said.len() == 1 && said[0].contains("is gone"), "{said:?}");
    }

    #[test]
    fn another_device_of_the_same_name_is_left_as_it_is() {
        let tree = Tree::new("replaced");
        let queue = tree.queue("sda");
        let mut journal = Journal::begin(&tree.directory(), &queue).unwrap();
        queue.set("scheduler", "bfq").unwrap();
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
        let begun = Journal::begin(&tree.directory(), &queue).unwrap();
        assert_eq!(begun.before("scheduler"), Some("bfq"), "what was noted is of the other one");
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
        let journal = Journal::begin(&tree.directory(), &queue).unwrap();
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
