//! `dd if=/dev/zero of=FILE`: writes a file from start to end; with `fsync`, `write-and-fsync -f`.

use machine::kernel::{Open, Path};
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name, Size};

/// A file written from start to end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Write {
    /// The file; made if it is not there.
    pub file: Name,
    /// Bytes written.
    pub bytes: Size,
    /// Bytes of a call.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// Throws away what the file held; otherwise it is written over (`conv=notrunc`).
    #[serde(default)]
    pub truncate: bool,
    /// Writes at the file's end.
    #[serde(default)]
    pub append: bool,
    /// Waits at the end until everything is durable.
    #[serde(default)]
    pub fsync: bool,
    /// Waits after every so many bytes until they are durable.
    pub fsync_every: Option<Bytes>,
    /// Computing after each call.
    #[serde(default)]
    pub think: Delay,
    /// Past the page cache.
    #[serde(default)]
    pub direct: bool,
}

fn chunk() -> Bytes {
    Bytes(1 << 20)
}

impl Write {
    /// Runs it.
    pub async fn run(&self, os: &Os) {
        let how = Open {
            create: true,
            truncate: self.truncate,
            append: self.append,
            direct: self.direct,
            sync: false,
        };
        let file = os.open(&self.file.of(os), how).await;
        let (mut left, mut loose) = (self.bytes.at(os.scale()), 0);
        while left > 0 {
            let bytes = self.chunk.0.max(1).min(left);
            os.write(file, bytes).await;
            left -= bytes;
            loose += bytes;
            if self.fsync_every.is_some_and(|every| loose >= every.0) {
                os.fsync(file).await;
                loose = 0;
            }
            os.think(self.think.0).await;
        }
        if self.fsync {
            os.fsync(file).await;
        }
        os.close(file).await;
    }
}

/// Makes a file of this length, in calls of 4 KB as small files are written.
pub(super) async fn small(os: &Os, path: &Path, bytes: u64) {
    let file = os.open(path, Open { create: true, truncate: true, ..Open::default() }).await;
    let mut left = bytes;
    while left > 0 {
        let step = left.min(4096);
        os.write(file, step).await;
        left -= step;
    }
    os.close(file).await;
}
