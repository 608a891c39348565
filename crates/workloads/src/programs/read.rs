//! `cat FILE > /dev/null`: reads a file sequentially.

use elevator::Span;
use machine::kernel::Open;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Meet, Name, Size};

/// Reads a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Read {
    pub file: Name,
    /// Bytes of a call.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// Start position.
    #[serde(default)]
    pub from: Size,
    /// Bytes read; by default to the end of the file.
    pub bytes: Option<Size>,
    /// Bytes skipped after each call, for strided patterns.
    #[serde(default)]
    pub skip: Bytes,
    /// Processor time after each call.
    #[serde(default)]
    pub think: Delay,
    /// Calls between two waits at the barrier.
    pub meet_every: Option<u64>,
    /// The barrier.
    pub meet: Option<Meet>,
    /// Uses direct I/O.
    #[serde(default)]
    pub direct: bool,
}

/// Bytes of a call of `cat`.
pub(super) const CHUNK: u64 = 32 << 10;

pub(super) fn chunk() -> Bytes {
    Bytes(CHUNK)
}

impl Read {
    /// Executes the step.
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

/// Reads a whole file as `cat` does, with `think` after each call.
pub(super) async fn whole(os: &Os, path: &machine::kernel::Path, think: Span) {
    let file = os.open(path, Open::default()).await;
    while os.read(file, CHUNK).await == CHUNK {
        os.think(think).await;
    }
    os.close(file).await;
}
