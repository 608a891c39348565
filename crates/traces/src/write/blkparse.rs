//! Writer of blkparse's default text. See [`format::blkparse`](crate::format::blkparse) for the columns.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use elevator::{Op, Time};

use super::Written;
use crate::devices::DeviceEntry;
use crate::record::{DeviceId, Record};
use crate::rwbs::Rwbs;

/// Upper bound for waiting completions. With more requests in flight, completions are written out of order.
const HELD_MAX: usize = 1 << 20;

/// Writes a Q line for each request's issue and a C line for its completion, in time order, with sectors rounded outwards.
///
/// A device without a `major,minor` name becomes `0,n`. Priorities are not written, nor is a summary.
pub struct BlkparseWriter<W> {
    sink: W,
    /// `major,minor` of each device, by id.
    devices: Vec<(u32, u32)>,
    completions: BinaryHeap<Reverse<(Time, u64, Completion)>>,
    sequence: u64,
    taken: u64,
    written: Written,
}

/// The content of a C line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Completion {
    device: u32,
    pid: u32,
    letters: String,
    start: u64,
    sectors: u32,
}

impl<W: Write> BlkparseWriter<W> {
    /// Writes to `sink`, which should be buffered.
    pub fn new(sink: W, devices: &[DeviceEntry]) -> Self {
        let mut writer = Self {
            sink,
            devices: Vec::new(),
            completions: BinaryHeap::new(),
            sequence: 0,
            taken: 0,
            written: Written::default(),
        };
        writer.meet(devices);
        writer
    }

    /// Adds the names of new devices; `devices` are all devices of the recording.
    pub fn meet(&mut self, devices: &[DeviceEntry]) {
        for device in devices.iter().skip(self.devices.len()) {
            let pair = device.name.split_once(',');
            let pair = pair.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
            self.devices.push(pair.unwrap_or((0, self.devices.len() as u32)));
        }
    }

    /// Writes a record; `process_name` is the name of its process, if known.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write(&mut self, record: &Record, process_name: Option<&str>) -> io::Result<()> {
        self.write_completions(record.at)?;
        let event = Completion {
            device: record.device.0,
            pid: record.process.map_or(0, |pid| pid.0),
            letters: Rwbs::letters(record.op, record.flags),
            start: if record.op == Op::Flush { 0 } else { record.start().0 },
            sectors: record.sectors().0,
        };
        // Processes choose their names, which may contain line breaks.
        let name = process_name.unwrap_or("?").replace(char::is_control, "?");
        self.line(record.at, 'Q', &event, &name)?;
        self.written.written += 1;
        self.written.rounded += u64::from(!record.is_aligned());
        self.taken += 1;
        if let Some(completed) = record.completed {
            self.completions.push(Reverse((completed, self.taken, event)));
        }
        if self.completions.len() > HELD_MAX {
            self.write_first_completion()?;
        }
        Ok(())
    }

    /// Writes the remaining completions and flushes the sink.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(mut self) -> io::Result<Written> {
        self.write_completions(Time::MAX)?;
        self.sink.flush().map(|()| self.written)
    }

    fn write_completions(&mut self, until: Time) -> io::Result<()> {
        while self.completions.peek().is_some_and(|Reverse((at, ..))| *at <= until) {
            self.write_first_completion()?;
        }
        Ok(())
    }

    fn write_first_completion(&mut self) -> io::Result<()> {
        match self.completions.pop() {
            Some(Reverse((at, _, completion))) => self.line(at, 'C', &completion, "0"),
            None => Ok(()),
        }
    }

    fn line(&mut self, at: Time, action: char, event: &Completion, bracketed: &str) -> io::Result<()> {
        let (major, minor) = self.number(DeviceId(event.device));
        self.sequence += 1;
        let (seconds, nanos) = (at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000);
        let Completion { pid, letters, start, sectors, .. } = event;
        write!(self.sink, "{major:3},{minor:<3} {:2} {:8} {seconds:5}.{nanos:09} ", 0, self.sequence)?;
        writeln!(self.sink, "{pid:5} {action:>2} {letters:>3} {start} + {sectors} [{bracketed}]")
    }

    fn number(&self, device: DeviceId) -> (u32, u32) {
        self.devices.get(device.0 as usize).copied().unwrap_or((0, device.0))
    }
}
