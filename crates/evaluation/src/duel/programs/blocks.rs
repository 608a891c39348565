//! Reads or writes a device in blocks: par-read's reader, a streaming writer, small random reads.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use elevator::Random;
use serde::{Deserialize, Serialize};

use super::Recorder;
use crate::duel::direct::{Aligned, open};

/// The order of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// From the region's start to its end.
    Sequential,
    /// Random, with this seed.
    Random(u64),
}

/// Accesses to a region of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Blocks {
    pub device: PathBuf,
    /// Start of the region in bytes.
    pub start_bytes: u64,
    /// The region's length in bytes.
    pub bytes: u64,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// The order of blocks.
    pub order: Order,
    /// Writes instead of reading.
    pub writes: bool,
    /// Bypass the page cache.
    pub direct: bool,
    /// Think time between two requests.
    pub think: Duration,
}

impl Blocks {
    pub(crate) fn run(&self, recorder: &mut Recorder) -> io::Result<()> {
        let device = open(&self.device, self.writes, self.direct)?;
        let mut buffer = Aligned::new(self.block_bytes as usize);
        let blocks = self.bytes / self.block_bytes;
        let mut random = Random::new(if let Order::Random(seed) = self.order { seed } else { 0 });
        for n in 0..blocks {
            if !recorder.may_continue() {
                break;
            }
            let block = if matches!(self.order, Order::Random(_)) { random.below(blocks) } else { n };
            let at = self.start_bytes + block * self.block_bytes;
            let moved = recorder.timed(|| match self.writes {
                true => device.write_at(&buffer, at),
                false => device.read_at(&mut buffer, at),
            })?;
            recorder.moved(moved);
            recorder.count();
            if self.think > Duration::ZERO {
                std::thread::sleep(self.think);
            }
        }
        // Data in the page cache is not on the disk yet.
        if self.writes { recorder.timed(|| device.sync_data()) } else { Ok(()) }
    }
}
