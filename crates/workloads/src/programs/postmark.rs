//! PostMark: an Internet server's small files. Makes a set of files, runs transactions on it, removes it.
//!
//! As its version 1.5 does: a transaction is a read or an append, and a create or a delete, each evenly. The stream paper
//! gives 10,000 files of 0.5 to 10 KB and no number of transactions; 500 is the program's default.

use elevator::Random;
use elevator::Span;
use machine::kernel::Path;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Count, Name};
use super::{ffsb, read, write};

/// The benchmark.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PostMark {
    /// The directory that it works in.
    pub directory: Name,
    /// Files made first.
    #[serde(default = "files")]
    pub files: Count,
    /// Transactions.
    #[serde(default = "transactions")]
    pub transactions: Count,
    /// Least size of a file.
    #[serde(default = "least")]
    pub least: Bytes,
    /// Greatest size of a file.
    #[serde(default = "most")]
    pub most: Bytes,
    /// Most that is appended at once; as much as a file's greatest size if not given.
    pub append: Option<Bytes>,
    /// Whether the files that were made are written out and leave the page cache before the transactions.
    #[serde(default)]
    pub forget: bool,
    /// Whether the files are there already, so that transactions alone are run.
    #[serde(default)]
    pub made: bool,
    /// Of what is drawn; each copy of the process adds its number.
    #[serde(default)]
    pub seed: u64,
}

fn files() -> Count {
    Count(10_000)
}

fn transactions() -> Count {
    Count(500)
}

fn least() -> Bytes {
    Bytes(512)
}

fn most() -> Bytes {
    Bytes(10 << 10)
}

impl PostMark {
    /// Runs it.
    pub async fn run(&self, os: &Os) {
        let root = self.directory.of(os);
        let mut random = Random::new((self.seed ^ 0x9057_3a4c) + u64::from(os.copy()));
        let mut made = 0;
        let mut set = Vec::new();
        if self.made {
            set = os.session().contents_below(&root).1;
        } else {
            for _ in 0..self.files.at(os.scale()) {
                set.push(self.make(os, &root, &mut made, &mut random).await);
            }
        }
        if self.forget {
            os.sync().await;
            for file in &set {
                os.forget(file).await;
            }
        }
        let append = self.append.unwrap_or(self.most).0.max(1);
        for _ in 0..self.transactions.at(os.scale()) {
            if let Some(file) = draw(&set, &mut random).map(|n| Path::clone(&set[n])) {
                match random.below(2) {
                    0 => read::whole(os, &file, Span::ZERO).await,
                    _ => ffsb::append(os, &file, 1 + random.below(append)).await,
                }
            }
            match (random.below(2), draw(&set, &mut random)) {
                (0, Some(n)) => os.unlink(&set.swap_remove(n)).await,
                _ => set.push(self.make(os, &root, &mut made, &mut random).await),
            }
        }
        for file in set {
            os.unlink(&file).await;
        }
    }

    async fn make(&self, os: &Os, root: &Path, made: &mut u64, random: &mut Random) -> Path {
        *made += 1;
        let path = Path::from(format!("{root}/new-{made}"));
        let bytes = self.least.0 + random.below(self.most.0.saturating_sub(self.least.0).max(1));
        write::small(os, &path, bytes).await;
        path
    }
}

fn draw(set: &[Path], random: &mut Random) -> Option<usize> {
    (!set.is_empty()).then(|| random.below(set.len() as u64) as usize)
}
