//! What a run writes down until it is its turn to be printed: runs go on side by side, and what they say is not to be mixed.

use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that stand in memory. The decisions over a million requests are a gigabyte.
const KEPT: usize = 1 << 20;

/// Takes bytes in order: the latest in memory, those before in a file without a name.
#[derive(Default)]
pub(crate) struct Spool {
    kept: Vec<u8>,
    file: Option<File>,
    folder: PathBuf,
    /// Why it could not go on. Who writes is not told, for a run is worth having without.
    failed: Option<io::Error>,
}

impl Spool {
    /// Its file, if it needs one, is in `folder`, or where temporary files are if nothing can be made there.
    pub(crate) fn new(folder: &Path) -> Self {
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

    /// Writes all that it was given.
    ///
    /// # Errors
    /// If `out` does not take it, or its own file did not.
    pub(crate) fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
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

/// A file that is gone when it is closed.
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
    fn what_is_more_than_memory_may_hold_comes_back_as_it_was() {
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
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "it leaves nothing");
        for _ in 0..2 {
            let mut copy = Vec::new();
            spool.copy_to(&mut copy).unwrap();
            assert!(copy == all);
        }
        std::fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn a_full_disk_is_told_in_the_end() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut spool = Spool { file: Some(full), ..Spool::default() };
        for _ in 0..3 {
            spool.write_all(&vec![0; KEPT]).unwrap();
        }
        assert_eq!(spool.copy_to(&mut Vec::new()).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
