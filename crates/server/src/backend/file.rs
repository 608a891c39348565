//! A file or block device.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use elevator::queue::{Barriers, Cache};
use elevator::{Op, SECTOR_BYTES, Sector, Time};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::engine::{Engine, Running};
use super::inline::Inline;
use super::threads::Threads;
use super::uring::Uring;
use super::{Backend, Done, Extent, Extents, FileOptions, Geometry, Job, Medium};
use crate::ServeError;
use crate::guard::{self, Claim};

/// A file or block device, claimed until this is dropped.
pub struct FileBackend {
    options: FileOptions,
    file: Arc<File>,
    claim: Claim,
    engine: Running,
    /// Jobs that a read-only server rejects.
    refused: Vec<Job>,
}

impl FileBackend {
    /// Opens the file and claims it.
    ///
    /// # Errors
    /// It is in use, does not fit, cannot be opened as asked, or no engine starts.
    pub fn open(options: FileOptions) -> Result<Self, ServeError> {
        let claim = guard::claim(&options)?;
        let file = claim.file();
        let engine = start_engine(&options, &file)?;
        Ok(Self { options, file, claim, engine, refused: Vec::new() })
    }

    /// The engine in use.
    pub fn engine(&self) -> Engine {
        self.engine.kind()
    }
}

fn start_engine(options: &FileOptions, file: &Arc<File>) -> Result<Running, ServeError> {
    let in_memory = guard::is_in_memory(file);
    let wanted = options.engine.unwrap_or(if in_memory { Engine::Inline } else { Engine::Uring });
    let failed = |source| ServeError::io(format!("starting {wanted} for {}", options.path.display()), source);
    match wanted {
        Engine::Inline => Ok(Running::Inline(Inline::new(file.clone()))),
        Engine::Threads => Threads::new(file, options.depth).map(Running::Threads).map_err(failed),
        Engine::Uring => match Uring::new(file.clone(), options.depth) {
            Ok(engine) => Ok(Running::Uring(Box::new(engine))),
            Err(error) if options.engine.is_none() => {
                say!("io_uring is refused ({error}): {} threads do its work", options.depth);
                Threads::new(file, options.depth).map(Running::Threads).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        },
    }
}

impl Backend for FileBackend {
    fn geometry(&self) -> Geometry {
        Geometry {
            capacity: Sector(self.claim.bytes() / SECTOR_BYTES),
            block_bytes: self.claim.block_bytes(),
            depth: self.options.depth,
            rotational: self.claim.is_rotational(),
            read_only: self.claim.is_read_only(),
            discards: self.claim.discards(),
            cache: Cache::WriteBack { fua: true },
            barriers: Barriers::Completed,
        }
    }

    fn start(&mut self, _now: Time, job: Job) {
        if self.options.read_only && matches!(job.op, Op::Write | Op::Discard) {
            self.refused.push(job);
        } else {
            self.engine.start(job);
        }
    }

    fn submit(&mut self) {
        self.engine.submit();
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        if let Some(job) = self.refused.pop() {
            return Some(Done { job, at: now, result: Err(Errno::ROFS) });
        }
        self.engine.poll().map(|(job, result)| Done { job, at: now, result })
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.engine.wake_fd()
    }

    fn slow_extents(&self) -> Option<Arc<dyn Extents>> {
        self.claim.sysfs().is_none().then(|| Arc::new(Sparse(self.file.clone())) as Arc<dyn Extents>)
    }

    fn medium(&self) -> Option<Medium> {
        let node = self.options.path.clone();
        self.claim.sysfs().map(|sysfs| Medium { node, sysfs: sysfs.to_path_buf() })
    }

    /// A file in memory allocates its pages when they are written, with direct I/O as well.
    fn allocates(&self) -> bool {
        !self.options.read_only && (!self.options.direct || guard::is_in_memory(&self.file))
    }

    fn describe(&self) -> String {
        let direct = if self.options.direct { "direct" } else { "buffered" };
        format!("{} ({}, {direct}, depth {})", self.options.path.display(), self.engine(), self.options.depth)
    }
}

/// A file that may have holes. To find them, the file system may have to read from the disk.
struct Sparse(Arc<File>);

impl Extents for Sparse {
    fn extent(&self, offset: u64, most: u64) -> Extent {
        let whole = Extent { bytes: most, data: true };
        match seek(&self.0, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => Extent { bytes: most.min(data - offset), data: false },
            Ok(_) => match seek(&self.0, SeekFrom::Hole(offset)) {
                Ok(hole) if hole > offset => Extent { bytes: most.min(hole - offset), data: true },
                _ => whole,
            },
            Err(Errno::NXIO) => Extent { bytes: most, data: false },
            Err(_) => whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn extents_of_a_sparse_file_end_at_holes_and_at_the_requested_length() {
        const MIB: u64 = 1 << 20;
        let path = std::env::temp_dir().join(format!("dwell-extents-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        file.set_len(8 * MIB).unwrap();
        file.write_all_at(&[1; MIB as usize], 2 * MIB).unwrap();
        let backend = FileBackend::open(FileOptions { direct: false, ..FileOptions::new(&path) }).unwrap();
        std::fs::remove_file(path).unwrap();
        let extents = backend.slow_extents().unwrap();
        let extent = |offset, most| {
            let Extent { bytes, data } = extents.extent(offset, most);
            (bytes, data)
        };
        if extent(0, 8 * MIB).1 {
            return eprintln!("SKIPPED: this file system does not report holes");
        }
        assert_eq!(extent(0, 8 * MIB), (2 * MIB, false));
        assert_eq!(extent(MIB, 4096), (4096, false));
        assert_eq!(extent(2 * MIB, 8 * MIB), (MIB, true));
        assert_eq!(extent(2 * MIB, 4096), (4096, true));
        assert_eq!(extent(3 * MIB, 5 * MIB), (5 * MIB, false));
    }
}
