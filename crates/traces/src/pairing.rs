//! Matching of completions with start events.
//!
//! A completion event has a device, a direction and an extent, but no identifier; and extents change:
//!
//! - requests merge: one completion ends several starts;
//! - a large submission is split: several completions end one start;
//! - a request grows by submissions without a start event (`block_io_start`, `block_rq_insert`): its start has 4 KiB, its issue 512
//!   KiB.
//!
//! Starts wait in the order of device, direction and sector. An issue (or a completion, if issues are not recorded) that contains
//! starts extends them until they cover it. A completion belongs to the oldest start of exactly its extent. If there is none, it takes its sectors
//! from the starts that it overlaps, oldest first; a start without remaining sectors is complete. Two concurrent reads of the same sectors are two starts and need a completion each.
//!
//! Flushes have no sectors: the completion of a zero-length write ends the oldest flush. On a device without forced unit access, a
//! write with FUA completes twice: its data, and after another flush with zero length at the same sector. The second completion
//! counts.
//!
//! Requests are returned in the order of their starts, so that an incomplete one delays those behind it, up to [`HELD_MAX`].

use std::collections::{BTreeSet, VecDeque};

use elevator::{Op, SECTOR_BYTES, Time};

use crate::blocks::BATCH;
use crate::context::{Context, Source};
use crate::devices::Key;
use crate::error::{Error, ErrorKind, Position};
use crate::events::{Event, EventKind, EventSource, Selections};
use crate::options::StartEvent;
use crate::record::{DeviceId, Record};
use crate::skips::Oddity;

/// Upper bound for waiting requests: 16 times the largest queue of a Linux device.
const HELD_MAX: usize = 65_536;
/// Number of further requests until a request without a completion no longer waits for one.
pub(crate) const WAITS: u64 = HELD_MAX as u64;
/// Number of starts examined below an extent to find one that reaches into it.
const LOOK_BACK: usize = 32;
/// Upper bound for the starts of one event: more than a request of the largest size has pages.
const PARTS_MAX: usize = 4_096;
/// Upper bound for the devices among which the start of a completion is searched: a disk's partitions.
const STARTED_MAX: usize = 16;
/// How long a write with FUA or preflush waits for a second completion, in nanoseconds.
const LINGER: u64 = 1_000_000_000;

struct Held {
    record: Record,
    place: Position,
    sector: u64,
    sectors: u64,
    /// Sectors without a completion.
    left: u64,
    /// The final extent is known.
    issued: bool,
    /// Complete, unless a second completion follows before this time.
    lingers_until: Option<u64>,
}

impl Held {
    fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors)
    }

    fn is_complete(&self) -> bool {
        self.record.completed.is_some()
    }

    /// Its key in the order of starts.
    fn key(&self, seq: u64) -> StartKey {
        (place(self.record.device, self.record.op, self.sector), seq)
    }
}

/// Device, direction and first sector, and sequence number: the order of waiting starts.
type StartKey = (u128, u64);

const fn place(device: DeviceId, op: Op, sector: u64) -> u128 {
    (device.0 as u128) << 72 | (op as u128) << 64 | sector as u128
}

/// Makes a source of records from a source of events.
pub(crate) struct Paired<E> {
    events: E,
    selections: Selections,
    held: VecDeque<Held>,
    /// Sequence number of the first waiting start.
    first: u64,
    by_sector: BTreeSet<StartKey>,
    /// Waiting flushes: device, sequence number.
    flushes: BTreeSet<(u32, u64)>,
    now: u64,
    ended: bool,
    completions_seen: bool,
    scratch: Vec<u64>,
    /// The devices of start events.
    started: Vec<DeviceId>,
}

impl<E: EventSource> Paired<E> {
    pub(crate) fn new(events: E, selections: Selections, context: &mut Context) -> Self {
        context.event = Some(selections.general.start);
        context.notes.extend(selections.note());
        Self {
            events,
            selections,
            held: VecDeque::new(),
            first: 0,
            by_sector: BTreeSet::new(),
            flushes: BTreeSet::new(),
            now: 0,
            ended: false,
            completions_seen: false,
            scratch: Vec::new(),
            started: Vec::new(),
        }
    }

    /// Whether only issues to the event's device are recorded, not submissions.
    fn starts_are_issues(&self, event: &Event) -> bool {
        self.selections.of(event.device).start == StartEvent::Issue
    }

    /// Whether requests of the event's device grow after their start event without further events.
    fn grows(&self, event: &Event) -> bool {
        self.selections.of(event.device).grows()
    }

    fn take_event(&mut self, event: &Event, context: &mut Context) -> Result<(), Error> {
        self.now = event.at;
        let start_event = self.selections.of(event.device).start;
        let Some(op) = event.rwbs.op else {
            if event.kind == EventKind::Start(start_event) {
                context.skip(Oddity::OtherCommand)?;
            }
            return Ok(());
        };
        let device = device_of(event.device, context)?;
        match event.kind {
            EventKind::Start(start) if start == start_event => self.start(event, op, device, context),
            EventKind::Start(_) => {
                self.issued(event, op, device, context);
                Ok(())
            }
            EventKind::End(_) => {
                let device = self.submitted_to(device, op, event);
                self.completed(event, op, device, context);
                Ok(())
            }
        }
    }

    /// The device of the start that a completion on `device` ends: `block_bio_queue` has the partition, completions the disk, both with
    /// the disk's sectors.
    fn submitted_to(&mut self, device: DeviceId, op: Op, event: &Event) -> DeviceId {
        if self.started.contains(&device) || self.started.len() >= STARTED_MAX {
            return device;
        }
        let to = event.sector.saturating_add(event.sectors.max(1));
        for candidate in self.started.clone() {
            self.find_overlapping(candidate, op, event.sector, to);
            if !self.scratch.is_empty() {
                return candidate;
            }
        }
        device
    }

    fn start(&mut self, event: &Event, op: Op, device: DeviceId, context: &mut Context) -> Result<(), Error> {
        let flush = event.sectors == 0 && (op == Op::Flush || event.rwbs.flags.preflush);
        // The block layer's own flushes are ignored, unless only issues are recorded.
        if event.rwbs.own_flush && !self.starts_are_issues(event) {
            return Ok(());
        }
        let Some(offset) = event.sector.checked_mul(SECTOR_BYTES).or(flush.then_some(0)) else {
            return context.skip(Oddity::BeyondCapacity);
        };
        let bytes = event.sectors.saturating_mul(SECTOR_BYTES);
        let op = if flush { Op::Flush } else { op };
        let offset = if flush { 0 } else { offset };
        let mut record = Record::new(Time::from_nanos(event.at), device, op, offset, bytes);
        record.flags = event.rwbs.flags;
        record.flags.preflush &= !flush;
        record.priority = event.priority;
        record.process = event.process;
        self.hold(record, event);
        Ok(())
    }

    fn hold(&mut self, record: Record, event: &Event) {
        if !self.started.contains(&record.device) && self.started.len() < STARTED_MAX {
            self.started.push(record.device);
        }
        let seq = self.first + self.held.len() as u64;
        if record.op == Op::Flush {
            self.flushes.insert((record.device.0, seq));
        } else {
            self.by_sector.insert((place(record.device, record.op, event.sector), seq));
        }
        self.held.push_back(Held {
            record,
            place: event.place,
            sector: event.sector,
            sectors: event.sectors,
            left: event.sectors,
            issued: !self.grows(event),
            lingers_until: None,
        });
    }

    fn get(&mut self, seq: u64) -> Option<&mut Held> {
        self.held.get_mut(usize::try_from(seq.checked_sub(self.first)?).ok()?)
    }

    /// Stores the waiting starts that overlap the extent in `scratch`, by sector and then by age.
    fn find_overlapping(&mut self, device: DeviceId, op: Op, from: u64, to: u64) {
        let mut found = std::mem::take(&mut self.scratch);
        found.clear();
        let mut missed = 0;
        let below = |sector: u64| (place(device, op, sector), 0);
        for &(place, seq) in self.by_sector.range(below(0)..below(to)).rev() {
            let sector = place as u64;
            let reaches = self.get_end(seq) > from;
            if reaches && found.len() < PARTS_MAX {
                found.push(seq);
            } else if sector < from {
                missed += 1;
            }
            if missed > LOOK_BACK || found.len() >= PARTS_MAX {
                break;
            }
        }
        found.reverse();
        self.scratch = found;
    }

    fn get_end(&self, seq: u64) -> u64 {
        seq.checked_sub(self.first).and_then(|index| self.held.get(index as usize)).map_or(0, Held::end)
    }

    /// The oldest waiting start of exactly this extent, no part of which is complete.
    fn find_equal(&self, device: DeviceId, op: Op, from: u64, sectors: u64) -> Option<u64> {
        self.starting_at(device, op, from).take(PARTS_MAX).find(|&seq| {
            let held = seq.checked_sub(self.first).and_then(|index| self.held.get(index as usize));
            held.is_some_and(|held| !held.is_complete() && (held.sectors, held.left) == (sectors, sectors))
        })
    }

    /// The waiting starts whose first sector is this one, oldest first.
    fn starting_at(&self, device: DeviceId, op: Op, sector: u64) -> impl Iterator<Item = u64> {
        let place = place(device, op, sector);
        let from_here = self.by_sector.range((place, 0)..);
        from_here.take_while(move |(of, _)| *of == place).map(|(_, seq)| *seq)
    }

    /// A request was issued: its starts have grown to its extent.
    fn issued(&mut self, event: &Event, op: Op, device: DeviceId, context: &mut Context) {
        if self.grows(event) && event.sectors > 0 {
            let _ = self.find_issued(event, op, device, context);
        }
    }

    /// The start of exactly the event's extent, also if starts within it are extended.
    fn find_issued(&mut self, event: &Event, op: Op, device: DeviceId, context: &mut Context) -> Option<u64> {
        let (from, sectors) = (event.sector, event.sectors);
        let equal = self.find_equal(device, op, from, sectors);
        if let Some(held) = equal.and_then(|seq| self.get(seq)) {
            held.issued = true;
            return equal;
        }
        if !self.grows(event) {
            return None;
        }
        self.stretch(device, op, from, from.saturating_add(sectors), context);
        self.find_equal(device, op, from, sectors)
    }

    /// Extends the starts within the extent until they cover it.
    fn stretch(&mut self, device: DeviceId, op: Op, from: u64, to: u64, context: &mut Context) {
        self.find_overlapping(device, op, from, to);
        let parts = std::mem::take(&mut self.scratch);
        let mut chosen: Vec<(u64, u64, u64)> = Vec::new();
        for &seq in &parts {
            let Some(held) = self.get(seq) else { continue };
            let (sector, end) = (held.sector, held.end());
            let follows = chosen.last().is_none_or(|&(_, _, last_end)| sector >= last_end);
            if !held.issued && follows && sector >= from && end <= to {
                chosen.push((seq, sector, end));
            }
        }
        for (index, &(seq, sector, end)) in chosen.iter().enumerate() {
            let new_sector = if index == 0 { from } else { sector };
            let new_end = chosen.get(index + 1).map_or(to, |next| next.1);
            context.grown += u64::from(new_sector != sector || new_end != end);
            self.resize(seq, new_sector, new_end);
        }
        self.scratch = parts;
    }

    fn resize(&mut self, seq: u64, sector: u64, end: u64) {
        let Some(held) = self.get(seq) else { return };
        held.issued = true;
        let key = held.key(seq);
        held.sector = sector;
        held.sectors = end - sector;
        held.left = held.sectors;
        held.record.offset = sector.saturating_mul(SECTOR_BYTES);
        held.record.bytes = held.sectors.saturating_mul(SECTOR_BYTES);
        let new = held.key(seq);
        if new != key {
            self.by_sector.remove(&key);
            self.by_sector.insert(new);
        }
    }

    fn completed(&mut self, event: &Event, op: Op, device: DeviceId, context: &mut Context) {
        self.completions_seen = true;
        if event.sectors == 0 {
            return self.completed_empty(event, device, context);
        }
        let to = event.sector.saturating_add(event.sectors);
        if let Some(seq) = self.find_issued(event, op, device, context) {
            self.cover(seq, event.sector, to, event.at);
            return;
        }
        self.find_overlapping(device, op, event.sector, to);
        let parts = std::mem::take(&mut self.scratch);
        let mut covered = event.sector;
        for &seq in &parts {
            covered = self.cover(seq, covered, to, event.at);
        }
        if covered == event.sector {
            context.skips.add(Oddity::StrayCompletion, 1, event.place);
        }
        self.scratch = parts;
    }

    /// Completes sectors of a start from `from` on, if it begins no later; returns the end of the completed sectors.
    fn cover(&mut self, seq: u64, from: u64, to: u64, at: u64) -> u64 {
        let Some(held) = self.get(seq) else { return from };
        if held.is_complete() {
            return from;
        }
        let begin = held.sector.max(from);
        let end = held.end().min(to);
        if end <= begin {
            return from;
        }
        held.left = held.left.saturating_sub(end - begin);
        if held.left == 0 {
            held.record.completed = Some(Time::from_nanos(at));
            let key = held.key(seq);
            let twice = held.record.flags.fua || held.record.flags.preflush;
            held.lingers_until = twice.then(|| at.saturating_add(LINGER));
            if !twice {
                self.by_sector.remove(&key);
            }
        }
        end
    }

    /// A zero-length completion: the second one of a write with FUA, or that of a flush.
    fn completed_empty(&mut self, event: &Event, device: DeviceId, context: &mut Context) {
        if event.rwbs.own_flush != self.starts_are_issues(event) {
            return;
        }
        if let Some(seq) = self.lingering(device, event) {
            if let Some(held) = self.get(seq) {
                held.record.completed = Some(Time::from_nanos(event.at));
                held.lingers_until = None;
                let key = held.key(seq);
                self.by_sector.remove(&key);
            }
            return;
        }
        let oldest = self.flushes.range((device.0, 0)..=(device.0, u64::MAX)).next().copied();
        let Some((_, seq)) = oldest.filter(|oldest| self.flushes.remove(oldest)) else {
            context.skips.add(Oddity::StrayCompletion, 1, event.place);
            return;
        };
        if let Some(held) = self.get(seq) {
            held.record.completed = Some(Time::from_nanos(event.at));
        }
    }

    fn lingering(&self, device: DeviceId, event: &Event) -> Option<u64> {
        self.starting_at(device, Op::Write, event.sector).find(|&seq| {
            let held = seq.checked_sub(self.first).and_then(|index| self.held.get(index as usize));
            held.is_some_and(|held| held.lingers_until.is_some())
        })
    }

    /// The oldest request, if no further event can change it or too many requests wait.
    fn release(&mut self, context: &mut Context) -> Option<Record> {
        let front = self.held.front()?;
        let settled = front.is_complete() && front.lingers_until.is_none_or(|until| self.now > until);
        if !(settled || self.ended || self.held.len() > HELD_MAX) {
            return None;
        }
        let held = self.held.pop_front()?;
        let seq = self.first;
        if held.is_complete() && held.lingers_until.is_none() {
            // It is in neither order.
        } else if held.record.op == Op::Flush {
            self.flushes.remove(&(held.record.device.0, seq));
        } else {
            self.by_sector.remove(&held.key(seq));
        }
        self.first += 1;
        context.place = held.place;
        if !held.is_complete() && self.completions_seen {
            context.skips.add(Oddity::NoCompletion, 1, held.place);
        }
        Some(held.record)
    }
}

/// The id of the event's device.
fn device_of(key: Key<'static>, context: &mut Context) -> Result<DeviceId, Error> {
    context.device(key).map_err(|_| {
        let problem = "more than 65536 devices: this is no recording of block events";
        context.error(ErrorKind::Limit, problem).at(context.place).field("device")
    })
}

impl<E: EventSource> Paired<E> {
    fn take_next(&mut self, event: Option<Event>, context: &mut Context) -> Result<(), Error> {
        match event {
            Some(event) => self.take_event(&event, context),
            None => {
                self.ended = true;
                Ok(())
            }
        }
    }
}

impl<E: EventSource> Source for Paired<E> {
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error> {
        loop {
            let released = self.release(context);
            if released.is_some() || self.ended {
                return Ok(released);
            }
            let event = self.events.next_event(context)?;
            self.take_next(event, context)?;
        }
    }

    fn read_batch(&mut self, to: &mut Vec<Record>, context: &mut Context) -> Result<(), Error> {
        context.places.clear();
        while to.len() < BATCH {
            if let Some(record) = self.release(context) {
                to.push(record);
                context.places.push(context.place);
            } else if self.ended {
                break;
            } else if to.is_empty() {
                let event = self.events.next_event(context)?;
                self.take_next(event, context)?;
            } else if let Some(event) = self.events.ready_event(context) {
                self.take_event(&event, context)?;
            } else {
                break;
            }
        }
        Ok(())
    }
}
