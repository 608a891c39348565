//! The Flexible File System Benchmark's four profiles, as the cooperative paper runs them.
//!
//! "Each profile creates 100,000 files; each file ranges in size from 4 KB to 64KB. Four concurrent threads makes 80,000
//! operations. All operations are random. Capture time for 80,000 operations." FFSB makes its files itself, syncs, and begins
//! to measure ("fs setup took 73 secs; Syncing()...1 sec; Starting Actual Benchmark"): names, inodes and the files made last
//! are in memory then. The shares are the paper's; that a read takes the whole file, a write goes over
//! all of it and an append adds up to 16 KB is ours, as is the number of directories, of which each file's is drawn.

use std::cell::RefCell;
use std::rc::Rc;

use elevator::model::Random;
use machine::kernel::{Open, Path};
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Count, Name};
use super::{read, write};

/// Which profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Reads only.
    Web,
    /// 40% reads, 40% creates, 20% deletes.
    Mail,
    /// 80% reads, 20% writes.
    File,
    /// 40% creates, 40% appends, 20% deletes.
    Meta,
}

/// The benchmark.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ffsb {
    /// The profile.
    pub profile: Profile,
    /// The directory in which the set of files is made.
    pub files: Name,
    /// Files of the set.
    #[serde(default = "count")]
    pub count: Count,
    /// Directories over which they are spread.
    #[serde(default = "directories")]
    pub directories: u32,
    /// Threads that share the operations.
    #[serde(default = "threads")]
    pub threads: u32,
    /// Operations, all threads together.
    #[serde(default = "operations")]
    pub operations: Count,
    /// Least size of a new file.
    #[serde(default = "least")]
    pub least: Bytes,
    /// Greatest size of a new file.
    #[serde(default = "most")]
    pub most: Bytes,
    /// Of what is drawn.
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

#[derive(Clone, Copy)]
enum Operation {
    Read,
    Write,
    Create,
    Append,
    Delete,
}

impl Profile {
    fn draw(self, random: &mut Random) -> Operation {
        match (self, random.below(10)) {
            (Self::Web, _) | (Self::Mail, 0..4) | (Self::File, 0..8) => Operation::Read,
            (Self::File, _) => Operation::Write,
            (Self::Mail, 4..8) | (Self::Meta, 0..4) => Operation::Create,
            (Self::Meta, 4..8) => Operation::Append,
            (Self::Mail | Self::Meta, _) => Operation::Delete,
        }
    }
}

/// The files that there are, which all threads draw from; one that is in use is drawn by nobody else.
struct Set {
    files: Vec<Path>,
    directories: Vec<Path>,
    made: u64,
    random: Random,
    left: u64,
}

impl Set {
    fn take(&mut self) -> Option<Path> {
        let count = self.files.len() as u64;
        if count == 0 {
            return None;
        }
        let index = self.random.below(count) as usize;
        Some(self.files.swap_remove(index))
    }

    fn name(&mut self) -> Path {
        self.made += 1;
        let count = self.directories.len().max(1) as u64;
        let index = self.random.below(count) as usize;
        Path::from(format!("{}/file{}", self.directories[index], self.made))
    }
}

impl Ffsb {
    /// Makes the files, and runs it: the threads are processes of their own, as threads of Linux are to its schedulers of the
    /// time.
    pub async fn run(&self, os: &Os) {
        let set = RefCell::new(Set {
            files: Vec::new(),
            directories: Vec::new(),
            made: 0,
            random: Random::new(self.seed ^ 0x0ff5_b000),
            left: self.operations.at(os.scale()),
        });
        self.set_up(os, &set).await;
        let set = Rc::new(set);
        for thread in 0..self.threads {
            let (own, set) = (self.clone(), Rc::clone(&set));
            let name = format!("{}/thread-{}", os.name(), thread + 1);
            os.fork(&name, |os| async move { own.thread(&os, &set).await }).await;
        }
        os.wait().await;
    }

    async fn set_up(&self, os: &Os, set: &RefCell<Set>) {
        let root = self.files.of(os);
        let count = self.count.at(os.scale());
        for n in 0..u64::from(self.directories.max(1)).min(count) {
            let directory = Path::from(format!("{root}/data{n}"));
            os.mkdir(&directory).await;
            set.borrow_mut().directories.push(directory);
        }
        for _ in 0..count {
            self.create(os, set).await;
        }
        os.sync().await;
    }

    async fn create(&self, os: &Os, set: &RefCell<Set>) {
        let (name, bytes) = {
            let mut set = set.borrow_mut();
            (set.name(), self.least.0 + set.random.below((self.most.0.saturating_sub(self.least.0)).max(1)))
        };
        write::small(os, &name, bytes).await;
        set.borrow_mut().files.push(name);
    }

    async fn thread(&self, os: &Os, set: &RefCell<Set>) {
        loop {
            let operation = {
                let mut set = set.borrow_mut();
                if set.left == 0 {
                    return;
                }
                set.left -= 1;
                self.profile.draw(&mut set.random)
            };
            self.operation(os, set, operation).await;
        }
    }

    async fn operation(&self, os: &Os, set: &RefCell<Set>, operation: Operation) {
        if let Operation::Create = operation {
            return self.create(os, set).await;
        }
        let Some(file) = set.borrow_mut().take() else { return };
        match operation {
            Operation::Read => read::whole(os, &file, elevator::Span::ZERO).await,
            Operation::Delete => return os.unlink(&file).await,
            Operation::Append => {
                let bytes = 1 + set.borrow_mut().random.below(16 << 10);
                append(os, &file, bytes).await;
            }
            Operation::Write | Operation::Create => over(os, &file).await,
        }
        set.borrow_mut().files.push(file);
    }
}

/// Adds to a file's end.
pub(super) async fn append(os: &Os, path: &Path, bytes: u64) {
    let file = os.open(path, Open { append: true, ..Open::default() }).await;
    os.write(file, bytes).await;
    os.close(file).await;
}

/// Writes over all of a file.
async fn over(os: &Os, path: &Path) {
    let bytes = os.stat(path).await;
    let file = os.open(path, Open::default()).await;
    os.write(file, bytes).await;
    os.close(file).await;
}
