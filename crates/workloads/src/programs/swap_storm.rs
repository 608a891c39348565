//! A program that sorts more data than fits in memory (`qsbench`), so the kernel has to swap.
//!
//! Quicksort passes over its array from both ends, then over halves of it, and so on; each pass reads and writes its part.

use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Size};

/// A sort in anonymous memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SwapStorm {
    /// Bytes to sort.
    pub bytes: Size,
    /// Parts of this size are sorted without further passes.
    #[serde(default = "least")]
    pub least: Bytes,
    /// Bytes accessed at a time.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// Processor time for each access.
    #[serde(default)]
    pub think: Delay,
}

fn least() -> Bytes {
    Bytes(16 << 20)
}

fn chunk() -> Bytes {
    Bytes(64 << 10)
}

impl SwapStorm {
    /// Executes the step.
    pub async fn run(&self, os: &Os) {
        let bytes = self.bytes.at(os.scale());
        self.pass(os, 0, bytes).await;
        let mut parts = vec![(0, bytes)];
        while let Some((at, bytes)) = parts.pop() {
            self.pass(os, at, bytes).await;
            if bytes > self.least.0.max(1) {
                parts.extend([(at + bytes / 2, bytes - bytes / 2), (at, bytes / 2)]);
            }
        }
    }

    /// Partitions a part, from both ends to the middle.
    async fn pass(&self, os: &Os, at: u64, bytes: u64) {
        let chunk = self.chunk.0.max(4096);
        let (mut low, mut high) = (at, at + bytes);
        while low < high {
            os.touch(low, chunk.min(high - low), true).await;
            low += chunk;
            if low < high {
                let step = chunk.min(high - low);
                high -= step;
                os.touch(high, step, true).await;
            }
            os.think(self.think.0).await;
        }
    }
}
