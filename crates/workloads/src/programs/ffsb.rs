//! Four profiles of the Flexible File System Benchmark, as used by the cooperative paper.
//!
//! "Each profile creates 100,000 files; each file ranges in size from 4 KB to 64KB. Four concurrent threads makes 80,000
//! operations. All operations are random. Capture time for 80,000 operations." These are profiles of the benchmark's
//! distribution (FFSB 5.2.1, `profile_bm/prof_websrv`, `prof_filesrv` and `prof_mailsrv`, `old-profiles/prof_mail2srv`):
//! `numfiles=100000`, `minfilesize=4096`, `maxfilesize=65536`, `threads=4`, `iterations=20000` and the paper's weights; the
//! paper's mail is `prof_mail2srv` and its metadata `prof_mailsrv`. They define what the paper omits:
//!
//! - `numdirs=100`; a file's directory is one of these or their parent, at random (`add_file`);
//! - `readsize=readblocksize=4096`: a read is one call for 4096 bytes at a random byte (`ffsb_readfile`);
//! - `writesize=4096`: a write is one call for 4096 bytes at the end of the file ("write means append in ffsb", `USAGE`);
//! - no `fsync`; new files are written 4096 bytes at a time (`writefile_helper`);
//! - a new file takes the name of the one deleted the longest ago, if any (`holes`).
//!
//! FFSB creates its files, calls sync, and starts to measure ("fs setup took 73 secs; Syncing()...1 sec; Starting Actual
//! Benchmark"), so names, inodes and the newest files are in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use elevator::Random;
use machine::kernel::{Open, Path};
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Count, Name};
use super::write;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Reads only.
    Web,
    /// 40% reads, 40% creates, 20% deletes.
    Mail,
    /// 80% reads, 20% appends.
    File,
    /// 40% creates, 40% appends, 20% deletes.
    Meta,
}

/// FFSB.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ffsb {
    pub profile: Profile,
    /// The directory of the files.
    pub files: Name,
    /// Number of files.
    #[serde(default = "count")]
    pub count: Count,
    /// Number of subdirectories.
    #[serde(default = "directories")]
    pub directories: u32,
    #[serde(default = "threads")]
    pub threads: u32,
    /// Operations of all threads together.
    #[serde(default = "operations")]
    pub operations: Count,
    /// Smallest new file.
    #[serde(default = "least")]
    pub least: Bytes,
    /// Largest new file.
    #[serde(default = "most")]
    pub most: Bytes,
    #[serde(default = "page")]
    pub read_size: Bytes,
    #[serde(default = "page")]
    pub write_size: Bytes,
    #[serde(default)]
    pub seed: u64,
}

fn count() -> Count {
    Count(100_000)
}

fn directories() -> u32 {
    100
}

fn threads() -> u32 {
    4
}

fn operations() -> Count {
    Count(80_000)
}

fn least() -> Bytes {
    Bytes(4 << 10)
}

fn most() -> Bytes {
    Bytes(64 << 10)
}

fn page() -> Bytes {
    Bytes(4096)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Read,
    Append,
    Create,
    Delete,
}

impl Profile {
    fn draw(self, random: &mut Random) -> Operation {
        match (self, random.below(5)) {
            (Self::Web, _) | (Self::Mail, 0..2) | (Self::File, 0..4) => Operation::Read,
            (Self::File, _) | (Self::Meta, 0..2) => Operation::Append,
            (Self::Mail | Self::Meta, 2..4) => Operation::Create,
            (Self::Mail | Self::Meta, _) => Operation::Delete,
        }
    }
}

/// A file of the set.
struct File {
    name: Path,
    /// It exists and is not being deleted, so it can be selected.
    there: bool,
    /// Number of threads that read or append to it.
    users: u32,
}

/// The files that all threads select from.
#[derive(Default)]
struct Set {
    files: Vec<File>,
    /// Deleted files, the oldest first.
    holes: VecDeque<usize>,
}

impl Set {
    /// A random file, or the next one if it is deleted or, for deletion, in use.
    fn choose(&self, random: &mut Random, for_deletion: bool) -> Option<usize> {
        let count = self.files.len();
        let first = random.below(count as u64) as usize;
        let fits = |n: &usize| self.files[*n].there && !(for_deletion && self.files[*n].users > 0);
        (first..count).chain(0..first).find(fits)
    }
}

/// A thread. It has its own random numbers, so its operations are the same under every scheduler.
struct Thread<'a> {
    os: &'a Os,
    of: &'a Ffsb,
    set: &'a RefCell<Set>,
    random: Random,
}

impl Ffsb {
    /// Creates the files and runs the operations. The threads (`pthread_create`) share a thread group: one process to a
    /// scheduler that uses groups, several to one that uses tasks.
    pub async fn run(&self, os: &Os) {
        let set = RefCell::new(Set::default());
        self.set_up(os, &set).await;
        let set = Rc::new(set);
        let operations = self.operations.at(os.scale());
        let threads = u64::from(self.threads.max(1));
        for thread in 0..threads {
            let (own, set) = (self.clone(), Rc::clone(&set));
            let name = format!("{}/thread-{}", os.name(), thread + 1);
            let share = operations / threads + u64::from(thread < operations % threads);
            os.thread(&name, |os| async move { Thread::new(&os, &own, &set, thread + 1).run(share).await })
                .await;
        }
        os.wait().await;
    }

    async fn set_up(&self, os: &Os, set: &RefCell<Set>) {
        let root = self.files.of(os);
        for n in 0..self.directories {
            os.mkdir(&Path::from(format!("{root}/dir{n}"))).await;
        }
        let mut maker = Thread::new(os, self, set, 0);
        for _ in 0..self.count.at(os.scale()) {
            maker.create().await;
        }
        os.sync().await;
    }
}

impl<'a> Thread<'a> {
    fn new(os: &'a Os, of: &'a Ffsb, set: &'a RefCell<Set>, number: u64) -> Self {
        Self { os, of, set, random: Random::new((of.seed ^ 0x0ff5_b000) + number) }
    }

    async fn run(mut self, operations: u64) {
        for _ in 0..operations {
            match self.of.profile.draw(&mut self.random) {
                Operation::Read => self.read().await,
                Operation::Append => self.append().await,
                Operation::Create => self.create().await,
                Operation::Delete => self.delete().await,
            }
        }
    }

    /// Selects a file and protects it from deletion until it is returned.
    fn borrow(&mut self) -> Option<(usize, Path)> {
        let mut set = self.set.borrow_mut();
        let number = set.choose(&mut self.random, false)?;
        let file = &mut set.files[number];
        file.users += 1;
        Some((number, Path::clone(&file.name)))
    }

    fn give_back(&self, number: usize) {
        self.set.borrow_mut().files[number].users -= 1;
    }

    async fn read(&mut self) {
        let Some((number, name)) = self.borrow() else { return };
        let bytes = self.of.read_size.0;
        let file = self.os.open(&name, Open::default()).await;
        let range = self.os.stat(&name).await.saturating_sub(bytes);
        self.os.read_at(file, self.random.below(range), bytes).await;
        self.os.close(file).await;
        self.give_back(number);
    }

    async fn append(&mut self) {
        let Some((number, name)) = self.borrow() else { return };
        append(self.os, &name, self.of.write_size.0).await;
        self.give_back(number);
    }

    async fn create(&mut self) {
        let (least, most) = (self.of.least.0, self.of.most.0);
        let bytes = least + self.random.below(most.saturating_sub(least));
        let hole = self.set.borrow_mut().holes.pop_front();
        let number = hole.unwrap_or_else(|| self.add());
        let name = Path::clone(&self.set.borrow().files[number].name);
        write::small(self.os, &name, bytes).await;
        self.set.borrow_mut().files[number].there = true;
    }

    /// A new name, in a random directory.
    fn add(&mut self) -> usize {
        let root = self.of.files.of(self.os);
        let mut set = self.set.borrow_mut();
        let number = set.files.len();
        let name = match self.random.below(u64::from(self.of.directories) + 1) {
            0 => format!("{root}/file{number}"),
            n => format!("{root}/dir{}/file{number}", n - 1),
        };
        set.files.push(File { name: Path::from(name), there: false, users: 0 });
        number
    }

    async fn delete(&mut self) {
        let chosen = self.set.borrow().choose(&mut self.random, true);
        let Some(number) = chosen else { return };
        let name = {
            let file = &mut self.set.borrow_mut().files[number];
            file.there = false;
            Path::clone(&file.name)
        };
        self.os.unlink(&name).await;
        self.set.borrow_mut().holes.push_back(number);
    }
}

/// Appends to a file.
pub(super) async fn append(os: &Os, path: &Path, bytes: u64) {
    let file = os.open(path, Open { append: true, ..Open::default() }).await;
    os.write(file, bytes).await;
    os.close(file).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights of the benchmark's profiles.
    #[test]
    fn operations_have_the_shares_of_the_profile() {
        use Operation::{Append, Create, Delete, Read};
        let shares = |profile: Profile| {
            let mut random = Random::new(1);
            let drawn: Vec<_> = (0..100_000).map(|_| profile.draw(&mut random)).collect();
            [Read, Append, Create, Delete]
                .map(|operation| (drawn.iter().filter(|&&o| o == operation).count() + 500) / 1000)
        };
        assert_eq!(shares(Profile::Web), [100, 0, 0, 0]);
        assert_eq!(shares(Profile::File), [80, 20, 0, 0]);
        assert_eq!(shares(Profile::Mail), [40, 0, 40, 20]);
        assert_eq!(shares(Profile::Meta), [0, 40, 40, 20]);
    }

    /// Files in use are not deleted, deleted files are not used, and existing files are found.
    #[test]
    fn selection_skips_files_in_use() {
        let file = |there, users| File { name: Path::from("/f"), there, users };
        let mut random = Random::new(2);
        let mut set =
            Set { files: vec![file(false, 0), file(true, 1), file(true, 0)], holes: VecDeque::new() };
        for _ in 0..100 {
            assert_ne!(set.choose(&mut random, false), Some(0));
            assert_eq!(set.choose(&mut random, true), Some(2));
        }
        set.files.truncate(2);
        assert_eq!(set.choose(&mut random, true), None);
        set.files.clear();
        assert_eq!(set.choose(&mut random, false), None);
    }
}
