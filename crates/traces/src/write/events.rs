//! Formats of events: a line or record for the start and the completion of each request, in time order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io::{self, Write};

use elevator::{Flags, Op, Priority, Time};

use super::{Field, Holds, RecordWriter, Sink, Written};
use crate::devices::DeviceEntry;
use crate::pairing::WAITS;
use crate::record::Record;

/// Upper bound for waiting completions. With more requests in flight, completions are written out of order.
const HELD_MAX: usize = 1 << 20;

/// A format of events of the block layer. Extents are in sectors, rounded outwards.
pub(crate) trait Events {
    /// What it holds.
    const HOLDS: Holds = Holds::all(1).except(Field::Bytes);

    /// Appends what precedes the events.
    fn head(&self, _to: &mut Vec<u8>) {}

    /// Whether the format can express the event.
    fn can_hold(&self, _event: &Event) -> bool {
        true
    }

    /// Appends the start of a request, with the name of its process if known.
    fn start(&mut self, at: Time, event: &Event, name: Option<&str>, to: &mut Vec<u8>);

    /// Appends the completion of a request.
    fn complete(&mut self, at: Time, event: &Event, to: &mut Vec<u8>);
}

/// What both events of a request have.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Major and minor number.
    pub(crate) device: (u32, u32),
    /// 0 if the process is unknown.
    pub(crate) pid: u32,
    pub(crate) op: Op,
    pub(crate) flags: Flags,
    pub(crate) priority: Option<Priority>,
    pub(crate) start: u64,
    pub(crate) sectors: u64,
}

/// Makes a writer.
pub(super) fn open<'a, E: Events + Default + 'static>(
    sink: Sink<'a>,
    devices: &[DeviceEntry],
    _comment: &str,
) -> io::Result<Box<dyn RecordWriter + 'a>> {
    let events = E::default();
    let mut text = Vec::new();
    events.head(&mut text);
    let mut writer = Writer {
        sink,
        events,
        text,
        devices: Vec::new(),
        completions: BinaryHeap::new(),
        taken: 0,
        written: Written::default(),
        open: Open::default(),
    };
    writer.sink.write_all(&writer.text)?;
    writer.meet(devices);
    Ok(Box::new(writer))
}

struct Writer<'a, E> {
    sink: Sink<'a>,
    events: E,
    text: Vec<u8>,
    /// `major,minor` of each device, by id; `0,n` for a device with another name.
    devices: Vec<(u32, u32)>,
    completions: BinaryHeap<Reverse<Completion>>,
    taken: u64,
    written: Written,
    open: Open,
}

/// What a reader finds of a request in its completion: device, operation, first sector, number of sectors. Flushes are equal.
type Extent = ((u32, u32), u8, u64, u64);

/// The requests without a completion for which readers wait.
#[derive(Default)]
struct Open {
    /// The number of the latest request of each extent.
    last: HashMap<Extent, u64>,
    order: VecDeque<(u64, Extent)>,
}

impl Open {
    /// Adds a request without a completion.
    fn add(&mut self, number: u64, extent: Extent) {
        self.last.insert(extent, number);
        self.order.push_back((number, extent));
    }

    /// Whether readers assign the completion of request `number` to an earlier one without a completion, which has the same extent.
    fn takes(&mut self, number: u64, extent: &Extent) -> bool {
        while let Some((first, of)) = self.order.front().filter(|(first, _)| first + WAITS < number) {
            if self.last.get(of) == Some(first) {
                self.last.remove(of);
            }
            self.order.pop_front();
        }
        self.last.contains_key(extent)
    }
}

/// A completion to come, ordered by time and then by start.
struct Completion(Time, u64, Event);

impl PartialEq for Completion {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Completion {}

impl PartialOrd for Completion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Completion {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl<E: Events> Writer<'_, E> {
    fn write_completions(&mut self, until: Time) -> io::Result<()> {
        while self.completions.peek().is_some_and(|Reverse(Completion(at, ..))| *at <= until) {
            self.write_first_completion()?;
        }
        Ok(())
    }

    fn write_first_completion(&mut self) -> io::Result<()> {
        let Some(Reverse(Completion(at, _, event))) = self.completions.pop() else { return Ok(()) };
        self.text.clear();
        self.events.complete(at, &event, &mut self.text);
        self.sink.write_all(&self.text)
    }
}

impl<E: Events> RecordWriter for Writer<'_, E> {
    fn meet(&mut self, devices: &[DeviceEntry]) {
        for device in devices.iter().skip(self.devices.len()) {
            let pair = device.name.split_once(',');
            let pair = pair.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
            self.devices.push(pair.unwrap_or((0, self.devices.len() as u32)));
        }
    }

    fn write(&mut self, record: &Record, process_name: Option<&str>) -> io::Result<()> {
        self.write_completions(record.at)?;
        let is_flush = record.op == Op::Flush;
        let device = self.devices.get(record.device.0 as usize).copied();
        let event = Event {
            device: device.unwrap_or((0, record.device.0)),
            pid: record.process.map_or(0, |pid| pid.0),
            op: record.op,
            flags: record.flags,
            priority: record.priority,
            start: if is_flush { 0 } else { record.start().0 },
            sectors: u64::from(record.sectors().0),
        };
        if !self.events.can_hold(&event) {
            self.written.left_out += 1;
            return Ok(());
        }
        // Processes choose their names, which may contain line breaks.
        let name = process_name.map(|name| name.replace(char::is_control, "?"));
        self.text.clear();
        self.events.start(record.at, &event, name.as_deref(), &mut self.text);
        self.sink.write_all(&self.text)?;
        self.written.written += 1;
        self.written.rounded += u64::from(!record.is_aligned());
        self.taken += 1;
        let extent = (event.device, event.op as u8, event.start, event.sectors);
        let is_taken = self.open.takes(self.taken, &extent);
        self.written.uncompleted += u64::from(is_taken && record.completed.is_some());
        match record.completed.filter(|_| !is_taken) {
            Some(completed) => self.completions.push(Reverse(Completion(completed, self.taken, event))),
            None => self.open.add(self.taken, extent),
        }
        if self.completions.len() > HELD_MAX {
            self.write_first_completion()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<Written> {
        self.write_completions(Time::MAX)?;
        self.sink.flush().map(|()| self.written)
    }
}
