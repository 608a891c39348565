//! `cp` and `cp -a`.

use machine::kernel::{Open, Path};
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Name};
use super::walk::{Entry, Walk};

/// Copies a file or a tree.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Copy {
    /// A file or directory.
    pub from: Name,
    /// The copy; a directory is created.
    pub to: Name,
    /// Whether `from` is a directory.
    #[serde(default)]
    pub tree: bool,
    /// Bytes of a call; `cp` of 2003 used the file system's block size.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
}

fn chunk() -> Bytes {
    Bytes(4096)
}

impl Copy {
    /// Executes the step.
    pub async fn run(&self, os: &Os) {
        let (from, to) = (self.from.of(os), self.to.of(os));
        if !self.tree {
            return self.file(os, &from, &to).await;
        }
        os.mkdir(&to).await;
        let mut walk = Walk::new(&from);
        while let Some(entry) = walk.next(os).await {
            let below = |path: &Path| Path::from(format!("{to}{}", &path[from.len()..]));
            match entry {
                Entry::Directory(path) => os.mkdir(&below(&path)).await,
                Entry::File(path) => self.file(os, &path, &below(&path)).await,
            }
        }
    }

    async fn file(&self, os: &Os, from: &Path, to: &Path) {
        let source = os.open(from, Open::default()).await;
        let copy = os.open(to, Open { create: true, truncate: true, ..Open::default() }).await;
        let chunk = self.chunk.0.max(1);
        loop {
            let bytes = os.read(source, chunk).await;
            if bytes > 0 {
                os.write(copy, bytes).await;
            }
            if bytes < chunk {
                break;
            }
        }
        os.close(copy).await;
        os.close(source).await;
    }
}
