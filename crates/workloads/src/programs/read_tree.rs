//! Reading a source tree: `find | xargs cat`, `find -exec cat {} \;`, `grep -r`.
//!
//! The three differ in the reading processes. `xargs` passes a few hundred names to each `cat`, so that one process reads for
//! a while; `-exec` starts a process for every file, which defeats anticipation by process; `grep` is one process that also
//! computes. `find -type f` reads every file's inode (it uses file types from directories only since 2005). `find` and
//! `xargs` alternate, because the pipe between them holds one page of names: the inodes of a batch are read before its files.

use elevator::Span;
use machine::kernel::Path;
use serde::Deserialize;

use super::os::Os;
use super::read;
use super::units::{Delay, Name};
use super::walk::{Entry, Walk};

/// The reading processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// `find -type f | xargs cat`: a process for as many files as fit on a command line of 20 KB.
    #[default]
    Xargs,
    /// `find -type f -exec cat {} \;`: a process for each file, one after the other.
    Exec,
    /// `grep -r`: one process.
    Grep,
}

/// Reads all files of a tree.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReadTree {
    /// Its root.
    pub tree: Name,
    /// The reading processes.
    #[serde(default)]
    pub by: By,
    /// Time to start a process: fork, exec and the dynamic linker, cached.
    #[serde(default = "fork")]
    pub fork: Delay,
    /// Processor time for each 32 KB and each file.
    #[serde(default)]
    pub think: Delay,
}

/// About the cost of fork, exec and the dynamic linker on a Pentium 4.
fn fork() -> Delay {
    Delay(Span::from_millis(1))
}

/// Bytes of a command line that `xargs` builds: findutils 4.1 used no more, whatever the system's limit.
const COMMAND_LINE: usize = 20 << 10;

impl ReadTree {
    /// Executes the step.
    pub async fn run(&self, os: &Os) {
        let mut walk = Walk::new(&self.tree.of(os));
        let (mut batch, mut length) = (Vec::new(), 0);
        while let Some(entry) = walk.next(os).await {
            let Entry::File(path) = entry else { continue };
            if self.by != By::Grep {
                os.stat(&path).await;
            }
            match self.by {
                By::Grep => {
                    read::whole(os, &path, self.think.0).await;
                    os.think(self.think.0).await;
                }
                By::Exec => self.cat(os, vec![path]).await,
                By::Xargs => {
                    length += path.len() + 1;
                    batch.push(path);
                    if length >= COMMAND_LINE {
                        self.cat(os, std::mem::take(&mut batch)).await;
                        length = 0;
                    }
                }
            }
        }
        if !batch.is_empty() {
            self.cat(os, batch).await;
        }
    }

    /// Starts a process that reads these files, and waits for it.
    async fn cat(&self, os: &Os, files: Vec<Path>) {
        let think = self.think.0;
        os.think(self.fork.0).await;
        os.fork(&format!("{}/cat", os.name()), |os| async move {
            for file in files {
                read::whole(&os, &file, think).await;
            }
        })
        .await;
        os.wait().await;
    }
}
