//! Copies a large file repeatedly, as a backup does (`dd iflag=nocache conv=fsync`): background load.
//!
//! Each copy reads the file from the disk, and is durable before its removal. Otherwise a copy that fits into memory
//! and is removed before writeback would access the disk only for the first read of the file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::Recorder;

/// `cp` copies in pieces of this size.
const PIECE: usize = 128 << 10;

/// A program that copies a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CopyFile {
    /// The file.
    pub from: PathBuf,
    /// Its copies: this name and a number.
    pub to: PathBuf,
}

impl CopyFile {
    pub(crate) fn run(&self, recorder: &mut Recorder) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        for copy in 0u32.. {
            let to = self.to.with_extension(copy.to_string());
            let (mut input, mut output) = (File::open(&self.from)?, File::create(&to)?);
            fadvise(&input, 0, None, Advice::DontNeed)?;
            loop {
                if !recorder.may_continue() {
                    return fs::remove_file(&to);
                }
                let read = recorder.timed(|| input.read(&mut piece))?;
                if read == 0 {
                    break;
                }
                recorder.timed(|| output.write_all(&piece[..read]))?;
                recorder.moved(2 * read);
            }
            recorder.timed(|| output.sync_all())?;
            recorder.count();
            fs::remove_file(&to)?;
        }
        Ok(())
    }
}
