//! The cold start of a program, such as an xterm.
//!
//! Fork, exec, the dynamic linker and the program fault in a few hundred pieces of some dozens of files (binary, libraries,
//! fonts, locale, configuration), each at the end of the last fault or elsewhere, and compute between them. No list is
//! published, so the accesses are drawn from a seed; the numbers are parameters.

use elevator::Random;
use elevator::Span;
use machine::kernel::Open;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name};

/// The cold start of a program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ColdStart {
    /// The directory of its files.
    pub files: Name,
    /// Number of pieces.
    #[serde(default = "pieces")]
    pub pieces: u32,
    /// Consecutive pieces of a file.
    #[serde(default = "row")]
    pub row: u32,
    /// Bytes of a piece: the read-around of a fault.
    #[serde(default = "piece")]
    pub piece: Bytes,
    /// Processor time between two pieces.
    #[serde(default = "think")]
    pub think: Delay,
    /// Seed of the accesses.
    #[serde(default)]
    pub seed: u64,
}

fn pieces() -> u32 {
    300
}

fn row() -> u32 {
    4
}

fn piece() -> Bytes {
    Bytes(16 << 10)
}

fn think() -> Delay {
    Delay(Span::from_millis(1))
}

impl ColdStart {
    /// Executes the step.
    pub async fn run(&self, os: &Os) {
        let mut random = Random::new(self.seed ^ 0xc01d);
        let (_, files) = os.session().contents_below(&self.files.of(os));
        let piece = self.piece.0.max(1);
        let mut left = if files.is_empty() { 0 } else { self.pieces };
        while left > 0 {
            let path = &files[random.below(files.len() as u64) as usize];
            let places = (os.stat(path).await / piece).max(1);
            let file = os.open(path, Open::default()).await;
            for _ in 0..self.row.clamp(1, left) {
                os.read_at(file, random.below(places) * piece, piece).await;
                os.think(self.think.0).await;
                left -= 1;
            }
            os.close(file).await;
        }
    }
}
