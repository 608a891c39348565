//! A real device as a [`disks::Drive`], so that the same code measures real and modelled drives.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use disks::{Command, Completion, Drive, Service, Tag};
use elevator::{Op, Outcome, Positioning, Sector, Span, Time};

use super::direct::Direct;
use crate::error::Error;

/// The largest read of a curve, in bytes.
const LARGEST: usize = 1 << 20;

/// Executes each command at submission and reports how long it took. Reads only, and completes nothing in a hole of a file.
pub(super) struct Real<'a> {
    node: PathBuf,
    direct: Direct,
    capacity: Sector,
    done: Option<Completion>,
    failure: Option<io::Error>,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> Real<'a> {
    pub(super) fn open(node: &Path, stop: &'a (dyn Fn() -> bool + Sync)) -> Result<Self, Error> {
        let direct = Direct::open(node, LARGEST)?;
        let bytes = direct.bytes().map_err(|error| Error::device(node, error.to_string()))?;
        let capacity = Sector(bytes / elevator::SECTOR_BYTES);
        Ok(Self { node: node.to_path_buf(), direct, capacity, done: None, failure: None, stop })
    }

    /// The first failed read.
    pub(super) fn failure(&mut self) -> Result<(), Error> {
        let what = || format!("reading {}", self.node.display());
        self.failure.take().map_or(Ok(()), |error| Err(Error::io(what(), error)))
    }

    fn read(&mut self, command: Command) -> io::Result<Option<Span>> {
        if command.op != Op::Read {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a profile only reads the device"));
        }
        let (offset, bytes) = (command.start.bytes(), command.sectors.bytes() as usize);
        if !self.direct.has_data(offset)? {
            return Ok(None);
        }
        let begun = Instant::now();
        self.direct.read(offset, bytes)?;
        Ok(Some(Span::from_nanos(begun.elapsed().as_nanos() as u64)))
    }
}

impl Drive for Real<'_> {
    fn capacity(&self) -> Sector {
        self.capacity
    }

    fn depth(&self) -> u32 {
        1
    }

    /// After a failure or a stop, nothing completes any more.
    fn submit(&mut self, now: Time, command: Command) {
        self.done = None;
        if self.failure.is_some() || (self.stop)() {
            return;
        }
        match self.read(command) {
            Ok(took) => self.done = took.map(|took| completion(command.tag, now + took)),
            Err(error) => self.failure = Some(error),
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.done.map(|done| done.at)
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        self.done.take_if(|done| done.at <= now)
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        None
    }
}

fn completion(tag: Tag, at: Time) -> Completion {
    Completion { tag, at, outcome: Outcome::Done, service: Service::default() }
}
