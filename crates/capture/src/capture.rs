//! A live device, looked at in the best way that the kernel allows.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use crate::bpf::Bpf;
use crate::error::Error;
use crate::event::Batch;
use crate::source::{Counts, Options, Source, Way};

/// Looks at a device as long as it lives.
pub struct Capture {
    source: Box<dyn Source + Send>,
    notes: Vec<String>,
}

impl Capture {
    /// Looks at the device of that node: a whole disk. What a partition is asked is reported of the disk that it is on.
    ///
    /// # Errors
    /// It is no block device, there is no leave (CAP_BPF and CAP_PERFMON), or the kernel cannot.
    pub fn open(device: &Path, options: &Options) -> Result<Self, Error> {
        let number = number(device)?;
        let source = Box::new(Bpf::open(number, options)?);
        Ok(Self { source, notes: Vec::new() })
    }

    /// What must be said aloud of how it looks.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Source for Capture {
    fn take(&mut self, batch: &mut Batch, patience: Duration) -> Result<(), Error> {
        self.source.take(batch, patience)
    }

    fn counts(&self) -> Result<Counts, Error> {
        self.source.counts()
    }

    fn way(&self) -> Way {
        self.source.way()
    }
}

/// Major and minor number of a block device's node.
pub(crate) fn number(path: &Path) -> Result<(u32, u32), Error> {
    let metadata = fs::metadata(path).map_err(|error| Error::device(path, error.to_string()))?;
    if !metadata.file_type().is_block_device() {
        return Err(Error::device(path, "is no block device"));
    }
    let device = metadata.rdev();
    Ok((rustix::fs::major(device), rustix::fs::minor(device)))
}
