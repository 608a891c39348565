//! PostMark: small files of an Internet server. Creates files, runs transactions on them, removes them.
//!
//! As in version 1.5, a transaction is a read or an append, and a creation or a deletion, with equal probabilities. The
//! stream paper gives 10,000 files of 0.5 to 10 KB and no number of transactions; 500 is the program's default.

use elevator::Random;
use elevator::Span;
use machine::kernel::Path;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Count, Name};
use super::{ffsb, read, write};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PostMark {
    pub directory: Name,
    /// Initial number of files.
    #[serde(default = "files")]
    pub files: Count,
    /// Number of transactions.
    #[serde(default = "transactions")]
    pub transactions: Count,
    /// Smallest file.
    #[serde(default = "least")]
    pub least: Bytes,
    /// Largest file.
    #[serde(default = "most")]
    pub most: Bytes,
    /// Largest append; by default the size of the largest file.
    pub append: Option<Bytes>,
    /// Whether the initial files are written back and dropped from the page cache before the transactions.
    #[serde(default)]
    pub forget: bool,
    /// Whether the files exist already, so that only transactions run.
    #[serde(default)]
    pub made: bool,
    /// Seed; each copy of the process adds its number.
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
    /// Executes the step.
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
