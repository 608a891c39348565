//! Reads every file below a directory in the order of the directory entries and searches each for a word, with the same system calls as
//! `grep -r`; each call is timed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::Recorder;

/// `grep` reads files in pieces of this size.
const PIECE: usize = 32 << 10;

/// A tree to read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tree {
    /// The directory.
    pub root: PathBuf,
}

impl Tree {
    pub(crate) fn run(&self, recorder: &mut Recorder) -> io::Result<()> {
        let word = Finder::new("a word that is in no file");
        self.read(&self.root, &word, &mut vec![0; PIECE], recorder)
    }

    fn read(
        &self,
        at: &Path,
        word: &Finder<'_>,
        piece: &mut [u8],
        recorder: &mut Recorder,
    ) -> io::Result<()> {
        let mut entries = recorder.timed(|| fs::read_dir(at))?;
        while let Some(entry) = recorder.timed(|| entries.next().transpose())? {
            if !recorder.may_continue() {
                return Ok(());
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.read(&entry.path(), word, piece, recorder)?;
            } else if kind.is_file() {
                let mut file = recorder.timed(|| File::open(entry.path()))?;
                loop {
                    let read = recorder.timed(|| file.read(piece))?;
                    if read == 0 {
                        break;
                    }
                    recorder.moved(read);
                    std::hint::black_box(word.find(&piece[..read]));
                }
                recorder.count();
            }
        }
        Ok(())
    }
}
