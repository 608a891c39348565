//! Reads every file below a directory, in the order in which the directories list them, and looks for a word in each: what
//! `grep -r` asks of a disk, with every system call timed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::Round;

/// `grep` reads files in pieces of this size.
const PIECE: usize = 32 << 10;

/// What is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tree {
    /// The directory.
    pub root: PathBuf,
}

impl Tree {
    pub(crate) fn run(&self, round: &mut Round) -> io::Result<()> {
        let word = Finder::new("a word that is in no file");
        self.read(&self.root, &word, &mut vec![0; PIECE], round)
    }

    fn read(&self, at: &Path, word: &Finder<'_>, piece: &mut [u8], round: &mut Round) -> io::Result<()> {
        let mut entries = round.timed(|| fs::read_dir(at))?;
        while let Some(entry) = round.timed(|| entries.next().transpose())? {
            if !round.goes_on() {
                return Ok(());
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.read(&entry.path(), word, piece, round)?;
            } else if kind.is_file() {
                let mut file = round.timed(|| File::open(entry.path()))?;
                loop {
                    let read = round.timed(|| file.read(piece))?;
                    if read == 0 {
                        break;
                    }
                    round.moved(read);
                    std::hint::black_box(word.find(&piece[..read]));
                }
                round.count();
            }
        }
        Ok(())
    }
}
