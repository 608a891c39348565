//! Copies a big file, again and again, as `cp` does: what runs beside those who are in a hurry.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Round;

/// `cp` copies in pieces of this size.
const PIECE: usize = 128 << 10;

/// What is copied where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CopyFile {
    /// The file.
    pub from: PathBuf,
    /// Its copies: this name and a number.
    pub to: PathBuf,
}

impl CopyFile {
    pub(crate) fn run(&self, round: &mut Round) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        for copy in 0u32.. {
            let to = self.to.with_extension(copy.to_string());
            let (mut input, mut output) = (File::open(&self.from)?, File::create(&to)?);
            loop {
                if !round.goes_on() {
                    return fs::remove_file(&to);
                }
                let read = round.timed(|| input.read(&mut piece))?;
                if read == 0 {
                    break;
                }
                round.timed(|| output.write_all(&piece[..read]))?;
                round.moved(2 * read);
            }
            round.count();
            fs::remove_file(&to)?;
        }
        Ok(())
    }
}
