//! `dd if=/dev/zero of=FILE`: writes a file sequentially; with `fsync`, `write-and-fsync -f`.

use machine::kernel::{Open, Path};
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name, Size};

/// Writes a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Write {
    /// The file; created if absent.
    pub file: Name,
    /// Bytes written.
    pub bytes: Size,
    /// Bytes of a call.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// Truncates the file first; otherwise overwrites it (`conv=notrunc`).
    #[serde(default)]
    pub truncate: bool,
    /// Appends.
    #[serde(default)]
    pub append: bool,
    /// Calls fsync at the end.
    #[serde(default)]
    pub fsync: bool,
    /// Bytes between two fsync calls.
    pub fsync_every: Option<Bytes>,
    /// Processor time after each call.
    #[serde(default)]
    pub think: Delay,
    /// Uses direct I/O.
    #[serde(default)]
    pub direct: bool,
}

fn chunk() -> Bytes {
    Bytes(1 << 20)
}

impl Write {
    /// Executes the step.
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

/// Creates a file of this length in calls of 4 KB, as small files are written.
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
