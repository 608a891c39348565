//! A program that is started cold: how long until an xterm appears.
//!
//! Fork, exec, the dynamic linker and the program itself fault in a few hundred pieces of some dozens of files (the
//! binary, its libraries, fonts, locale, configuration), each where the last fault left off or somewhere else, and compute
//! a little between them. Nobody published a list; this is drawn from a seed, and its numbers are parameters.

use elevator::Random;
use elevator::Span;
use machine::kernel::Open;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name};

/// The start of a program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ColdStart {
    /// The directory below which its files lie.
    pub files: Name,
    /// Pieces that it faults in.
    #[serde(default = "pieces")]
    pub pieces: u32,
    /// Pieces in a row of one file before it turns to another.
    #[serde(default = "row")]
    pub row: u32,
    /// Bytes of a piece: what the kernel reads around a fault.
    #[serde(default = "piece")]
    pub piece: Bytes,
    /// Computing between two pieces.
    #[serde(default = "think")]
    pub think: Delay,
    /// Of what is drawn.
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
    /// Runs it.
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
