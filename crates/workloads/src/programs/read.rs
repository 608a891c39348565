//! `cat FILE > /dev/null`: reads a file from start to end, one call behind the other.

use elevator::Span;
use machine::kernel::Open;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Meet, Name, Size};

/// A file read from start to end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Read {
    /// The file.
    pub file: Name,
    /// Bytes of a call.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// Where it begins.
    #[serde(default)]
    pub from: Size,
    /// Bytes read; the rest of the file if not given.
    pub bytes: Option<Size>,
    /// What is left out behind each call: a strided pattern.
    #[serde(default)]
    pub skip: Bytes,
    /// Computing after each call.
    #[serde(default)]
    pub think: Delay,
    /// Waits for the others at a barrier after every so many calls.
    pub meet_every: Option<u64>,
    /// That barrier.
    pub meet: Option<Meet>,
    /// Past the page cache.
    #[serde(default)]
    pub direct: bool,
}

/// What `cat` asks for at a time, in bytes.
pub(super) const CHUNK: u64 = 32 << 10;

pub(super) fn chunk() -> Bytes {
    Bytes(CHUNK)
}

impl Read {
    /// Runs it.
    pub async fn run(&self, os: &Os) {
        let file = os.open(&self.file.of(os), Open { direct: self.direct, ..Open::default() }).await;
        let mut at = if self.from.0 == 0 { 0 } else { self.from.at(os.scale()) };
        let end = self.bytes.map_or(u64::MAX, |bytes| at.saturating_add(bytes.at(os.scale())));
        let mut calls = 0;
        while at < end {
            let asked = self.chunk.0.max(1).min(end - at);
            let bytes = os.read_at(file, at, asked).await;
            if bytes < asked {
                break;
            }
            at = at.saturating_add(bytes).saturating_add(self.skip.0);
            calls += 1;
            os.think(self.think.0).await;
            if let (Some(every), Some(meet)) = (self.meet_every, self.meet)
                && calls % every.max(1) == 0
            {
                os.meet(meet.meeting()).await;
            }
        }
        os.close(file).await;
    }
}

/// Reads all of a file, as `cat` does, and computes for `think` per call.
pub(super) async fn whole(os: &Os, path: &machine::kernel::Path, think: Span) {
    let file = os.open(path, Open::default()).await;
    while os.read(file, CHUNK).await == CHUNK {
        os.think(think).await;
    }
    os.close(file).await;
}
