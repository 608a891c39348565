//! A workload on a real device: the programs of the modelled machine, in real time, with direct I/O.
//!
//! A workload's programs ([`machine::Program`]) are state machines that wait for their requests. Here their requests go to a block device, so that
//! the same recording or fio job runs on the model and on the device. Each process has threads of its own, because the kernel's schedulers
//! identify a process by its I/O context: one thread as long as the process has one request at a time, more if it has more in flight.

mod host;
mod workers;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use machine::Latency;
use rustix::fs::OFlags;
use serde::Serialize;
use workloads::Workload;

use crate::error::Error;

/// A device open for direct I/O.
#[derive(Debug)]
pub struct Target {
    file: File,
    /// Requests are extended to multiples of these many bytes: the device's logical block.
    block_bytes: u64,
    writes: bool,
    fua: bool,
}

/// What to do with a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Whether requests may write.
    pub writes: bool,
    /// Whether requests bypass the page cache; false only for tests on files.
    pub direct: bool,
    /// The device's logical block in bytes.
    pub block_bytes: u64,
    /// Whether the device executes writes with forced unit access.
    pub fua: bool,
}

impl Target {
    /// Opens a device.
    ///
    /// # Errors
    /// The device cannot be opened for this access.
    pub fn open(node: &Path, access: Access) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(access.writes);
        if access.direct {
            options.custom_flags(OFlags::DIRECT.bits() as i32);
        }
        let file = options.open(node).map_err(|error| Error::file(node.display(), &error))?;
        let Access { writes, block_bytes, fua, .. } = access;
        Ok(Self { file, block_bytes: block_bytes.max(512), writes, fua })
    }
}

/// The result of one run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Replayed {
    /// From the start to the last completion, in nanoseconds.
    pub elapsed_ns: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Completed requests.
    pub requests: u64,
    /// Requests that the device cannot execute (discards).
    pub left_out: u64,
    /// From submission to completion, of all but flushes.
    pub latency: Latency,
    pub reads: Latency,
    /// Of writes, each with the flush before it and the one that forced unit access needs.
    pub writes: Latency,
    /// Of flushes, also those before the data of a write.
    pub flushes: Latency,
    /// Mean time by which requests were submitted later than their program was ready, in nanoseconds.
    pub late_mean_ns: u64,
    /// The run was stopped before its end.
    pub cut: bool,
}

impl Replayed {
    /// Throughput in 10^6 bytes a second.
    pub fn megabytes_per_second(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.bytes as f64 * 1e3 / self.elapsed_ns as f64 }
    }
}

/// Runs a workload on a device. `stop` ends the run early, when the requests in the device have completed. If one has not after a second, because the
/// scheduler or the drive prefers other requests, `starved` is called: no thread can cancel it, but another scheduler may dispatch it.
///
/// # Errors
/// A request failed, the workload writes although `target` may not be written, or it needs the modelled kernel (system calls).
pub fn run(
    workload: &dyn Workload,
    target: &Target,
    stop: &dyn Fn() -> bool,
    starved: &mut dyn FnMut(),
) -> Result<Replayed, Error> {
    host::Host::new(workload.processes(), target).run(stop, starved)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use elevator::{Flags, Op, Sector, Sectors, Span, Time};
    use machine::{Await, Io, Next, Program, Submitter};
    use workloads::builtin::Builtin;

    use super::*;

    fn run(workload: &dyn Workload, target: &Target, stop: &dyn Fn() -> bool) -> Result<Replayed, Error> {
        super::run(workload, target, stop, &mut || panic!("a file answers"))
    }

    /// A file with known content, removed on drop.
    struct Backing(PathBuf);

    impl Backing {
        fn new(name: &str, bytes: usize) -> Self {
            let path =
                std::env::temp_dir().join(format!("dwell-device-replay-{}-{name}", std::process::id()));
            std::fs::write(&path, vec![7; bytes]).unwrap();
            Self(path)
        }

        fn open(&self, writes: bool) -> Target {
            Target::open(&self.0, Access { writes, direct: false, block_bytes: 512, fua: false }).unwrap()
        }
    }

    impl Drop for Backing {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Steps as a program; several processes if there are several lists.
    struct Steps(Vec<Vec<Io>>);

    struct Running(std::vec::IntoIter<Io>, u64, bool);

    impl Program for Running {
        fn next(&mut self, _now: Time) -> Next {
            if std::mem::take(&mut self.2) {
                self.1 += 1;
                return Next::Await(Await::Io(self.1 - 1));
            }
            match self.0.next() {
                Some(io) => {
                    self.2 = true;
                    Next::Submit(io)
                }
                None => Next::Exit,
            }
        }
    }

    impl Workload for Steps {
        fn describe(&self) -> String {
            "steps".to_owned()
        }

        fn end(&self) -> Sector {
            Sector(1 << 20)
        }

        fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
            let running =
                |ios: &Vec<Io>| Box::new(Running(ios.clone().into_iter(), 0, false)) as Box<dyn Program>;
            (0..).zip(&self.0).map(|(n, ios)| (Submitter::process(n, "p"), running(ios))).collect()
        }
    }

    fn io(op: Op, start: u64, sectors: u32) -> Io {
        Io { op, start: Sector(start), sectors: Sectors(sectors), flags: Flags::default() }
    }

    #[test]
    fn requests_are_executed_and_counted() {
        let backing = Backing::new("counted", 1 << 20);
        let ios = vec![io(Op::Read, 0, 8), io(Op::Write, 8, 8), io(Op::Flush, 0, 0), io(Op::Discard, 8, 8)];
        let done = run(&Steps(vec![ios.clone(), ios]), &backing.open(true), &|| false).unwrap();
        assert_eq!((done.requests, done.left_out, done.bytes), (6, 2, 4 * 4096), "{done:?}");
        assert_eq!((done.reads.count, done.writes.count, done.flushes.count), (2, 2, 2), "{done:?}");
        assert!(done.elapsed_ns >= done.reads.max_ns && !done.cut, "{done:?}");
        assert!(done.reads.mean_ns > 2 && done.reads.max_ns >= done.reads.p50_ns, "{done:?}");
        let content = std::fs::read(&backing.0).unwrap();
        assert!(content[4096..8192].iter().all(|&byte| byte == 0) && content[8192] == 7);
    }

    #[test]
    fn a_write_with_a_preflush_flushes_first() {
        let backing = Backing::new("preflush", 1 << 20);
        let write = |start, preflush, fua| {
            let flags = Flags { preflush, fua, ..Flags::default() };
            Io { flags, ..io(Op::Write, start, 8) }
        };
        let ios = vec![
            write(0, false, false),
            write(8, true, false),
            write(16, true, true),
            write(24, false, true),
        ];
        let done = run(&Steps(vec![ios]), &backing.open(true), &|| false).unwrap();
        assert_eq!((done.requests, done.writes.count, done.flushes.count), (4, 4, 2), "{done:?}");
        assert!(done.writes.max_ns >= done.flushes.max_ns, "a write includes its flush: {done:?}");
        let content = std::fs::read(&backing.0).unwrap();
        assert!(content[..32 * 512].iter().all(|&byte| byte == 0) && content[32 * 512] == 7);
    }

    #[test]
    fn writes_without_permission_change_nothing() {
        let backing = Backing::new("refused", 1 << 20);
        let error =
            run(&Steps(vec![vec![io(Op::Write, 0, 8)]]), &backing.open(false), &|| false).unwrap_err();
        assert!(matches!(&error, Error::Usage(text) if text.contains("writes")), "{error}");
        assert!(std::fs::read(&backing.0).unwrap().iter().all(|&byte| byte == 7));
    }

    #[test]
    fn unaligned_requests_are_extended_to_blocks() {
        let backing = Backing::new("aligned", 1 << 20);
        let target = Target { block_bytes: 4096, ..backing.open(false) };
        let done = run(&Steps(vec![vec![io(Op::Read, 3, 6)]]), &target, &|| false).unwrap();
        assert_eq!((done.requests, done.bytes), (1, 6 * 512), "{done:?}");
    }

    #[test]
    fn a_failed_request_names_its_position() {
        let backing = Backing::new("failed", 1 << 12);
        let error =
            run(&Steps(vec![vec![io(Op::Read, 64, 8)]]), &backing.open(false), &|| false).unwrap_err();
        assert!(error.to_string().contains("sector 64"), "{error}");
    }

    #[test]
    fn built_in_workloads_run_to_their_end() {
        let backing = Backing::new("built-in", 8 << 20);
        let settings = [("file_bytes", "65536"), ("apart_bytes", "1000000")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let workload = Builtin::named("par-read").unwrap().build(&settings).unwrap();
        let done = run(&*workload, &backing.open(false), &|| false).unwrap();
        assert_eq!(done.bytes, 4 * 65_536, "{done:?}");
    }

    /// A process that takes the same step for ever.
    struct Endless(Next);

    impl Program for Endless {
        fn next(&mut self, _now: Time) -> Next {
            match self.0 {
                Next::Think(span) => Next::Think(span),
                _ => Next::Await(Await::All),
            }
        }
    }

    struct Same(fn() -> Next);

    impl Workload for Same {
        fn describe(&self) -> String {
            "the same".to_owned()
        }

        fn end(&self) -> Sector {
            Sector(0)
        }

        fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
            vec![(Submitter::process(1, "p"), Box::new(Endless((self.0)())))]
        }
    }

    #[test]
    fn a_run_can_be_stopped_whatever_its_programs_do() {
        let backing = Backing::new("stopped", 4096);
        let sleeps = Same(|| Next::Think(Span::from_secs(3600)));
        let never_waits = Same(|| Next::Await(Await::All));
        for programs in [sleeps, never_waits] {
            let done = run(&programs, &backing.open(false), &|| true).unwrap();
            assert!(done.cut && done.requests == 0, "{done:?}");
        }
    }
}
