//! Temporary files: the log of a run, because runs are parallel and their logs are printed one after the other; and the steps of a recording
//! that is larger than memory.

use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use workloads::replay::Spill;

/// Bytes kept in memory. The log of a million requests has a gigabyte.
const KEPT: usize = 1 << 20;

/// Bytes in order: the latest in memory, earlier ones in an unlinked file.
#[derive(Default)]
pub struct Spool {
    kept: Vec<u8>,
    file: Option<File>,
    folder: PathBuf,
    /// The first failure. Writers do not see it, because the run is useful without its log.
    failed: Option<io::Error>,
}

impl Spool {
    /// An empty spool. Its file is in `folder`, or in the temporary directory if `folder` is not writable.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..Self::default() }
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unnamed(&self.folder).or_else(|_| unnamed(&std::env::temp_dir()))?),
        };
        file.write_all(&self.kept)?;
        self.kept.clear();
        Ok(())
    }

    /// Writes everything to `out`.
    ///
    /// # Errors
    /// `out` fails, or the spool's own file failed earlier.
    pub fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(failed) = &self.failed {
            return Err(io::Error::new(failed.kind(), failed.to_string()));
        }
        if let Some(mut file) = self.file.as_ref() {
            file.seek(SeekFrom::Start(0))?;
            io::copy(&mut file, out)?;
        }
        out.write_all(&self.kept)
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed.is_none() && self.kept.len() + bytes.len() > KEPT {
            self.failed = self.spill().err();
        }
        if self.failed.is_none() {
            self.kept.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The steps of a recording: an unlinked file in the temporary directory, created when it is first needed.
#[derive(Debug, Default)]
pub struct StepFile {
    /// With its length.
    file: Mutex<Option<(Arc<File>, u64)>>,
    failure: Mutex<Option<String>>,
}

impl StepFile {
    fn file(&self) -> MutexGuard<'_, Option<(Arc<File>, u64)>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_at(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        let file = self.file().as_ref().map(|(file, _)| Arc::clone(file));
        file.ok_or(io::ErrorKind::NotFound)?.read_exact_at(into, from)
    }
}

impl Spill for StepFile {
    fn append(&self, bytes: &[u8]) -> io::Result<u64> {
        let mut file = self.file();
        let (file, length) = match &mut *file {
            Some(file) => file,
            none => none.insert((Arc::new(unnamed(&std::env::temp_dir())?), 0)),
        };
        file.write_all_at(bytes, *length)?;
        *length += bytes.len() as u64;
        Ok(*length - bytes.len() as u64)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file().as_ref().map(|(file, _)| Arc::clone(file));
        file.ok_or(io::ErrorKind::NotFound)?.write_all_at(bytes, at)
    }

    fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        let read = self.read_at(from, into);
        if let Err(error) = &read {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| {
                format!("the recording's file in {} cannot be read: {error}", std::env::temp_dir().display())
            });
        }
        read
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns memory that was freed to the system: the runs of a recording of many processes need what its reading needed, and allocate it in other threads.
pub fn return_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no memory in use is involved.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// An unlinked file.
fn unnamed(folder: &Path) -> io::Result<File> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".dwell-{}-{number}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bytes_than_the_memory_limit_are_returned_unchanged() {
        let folder = std::env::temp_dir().join(format!("dwell-spool-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut spool = Spool::new(&folder);
        let mut all = Vec::new();
        for n in 0..400_000 {
            let line = format!("line {n}\n");
            spool.write_all(line.as_bytes()).unwrap();
            all.extend_from_slice(line.as_bytes());
        }
        assert!(all.len() > 2 * KEPT && spool.kept.capacity() <= 2 * KEPT);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the folder must be empty");
        for _ in 0..2 {
            let mut copy = Vec::new();
            spool.copy_to(&mut copy).unwrap();
            assert!(copy == all);
        }
        std::fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn a_full_disk_is_reported_by_copy_to() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut spool = Spool { file: Some(full), ..Spool::default() };
        for _ in 0..3 {
            spool.write_all(&vec![0; KEPT]).unwrap();
        }
        assert_eq!(spool.copy_to(&mut Vec::new()).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
