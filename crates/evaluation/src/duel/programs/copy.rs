//! Copies a big file, again and again, as a backup does (`dd iflag=nocache conv=fsync`): what runs beside those who are in a hurry.
//!
//! Each time the file is read from the disk, and its copy is durable before it goes. Without that a copy that fits into memory,
//! and is removed before anybody writes it out, never touches the disk but for reading the file once.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::Recorder;

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
    pub(crate) fn run(&self, recorder: &mut Recorder) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        for copy in 0u32.. {
            let to = self.to.with_extension(copy.to_string());
            let (mut input, mut output) = (File::open(&self.from)?, File::create(&to)?);
            fadvise(&input, 0, None, Advice::DontNeed)?;
            loop {
                if !recorder.goes_on() {
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
