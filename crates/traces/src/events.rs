//! Events of Linux's block layer, independent of the tool that recorded them, and the choice among them.

use elevator::Priority;

use crate::context::Context;
use crate::devices::Key;
use crate::error::{Error, Position};
use crate::lines::{LineFormat, Lines};
use crate::options::StartEvent;
use crate::record::{DeviceId, Item, Pid, Settle};
use crate::rwbs::Rwbs;

/// The event that completes a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndEvent {
    /// `block_rq_complete`, blktrace's C: a request or part of one.
    Request,
    /// `block_bio_complete`: a submission.
    Bio,
    /// `block_io_done`: the counterpart of `block_io_start`.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventKind {
    Start(StartEvent),
    End(EndEvent),
}

impl EventKind {
    /// Bytes of the longest name of a tracepoint.
    pub(crate) const TRACEPOINT_BYTES_MAX: usize = 18;

    /// The event of a tracepoint.
    pub(crate) fn from_tracepoint(name: &[u8]) -> Option<Self> {
        match name {
            b"block_io_start" => Some(Self::Start(StartEvent::IoStart)),
            b"block_bio_queue" => Some(Self::Start(StartEvent::BioQueue)),
            b"block_rq_insert" => Some(Self::Start(StartEvent::Insert)),
            b"block_rq_issue" => Some(Self::Start(StartEvent::Issue)),
            b"block_rq_complete" => Some(Self::End(EndEvent::Request)),
            b"block_bio_complete" => Some(Self::End(EndEvent::Bio)),
            b"block_io_done" => Some(Self::End(EndEvent::Done)),
            _ => None,
        }
    }

    /// The event of a letter of blktrace and blkparse.
    pub(crate) fn from_letter(letter: u8) -> Option<Self> {
        match letter {
            b'Q' => Some(Self::Start(StartEvent::BioQueue)),
            b'I' => Some(Self::Start(StartEvent::Insert)),
            b'D' => Some(Self::Start(StartEvent::Issue)),
            b'C' => Some(Self::End(EndEvent::Request)),
            _ => None,
        }
    }
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    /// Nanoseconds on the recording's clock.
    pub(crate) at: u64,
    pub(crate) device: Key<'static>,
    pub(crate) rwbs: Rwbs,
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
    pub(crate) priority: Option<Priority>,
    pub(crate) process: Option<Pid>,
    pub(crate) place: Position,
}

impl Settle for Event {
    fn settle(&mut self, _ids: &[DeviceId], place: Position) -> bool {
        self.place = place;
        true
    }
}

/// A source of events.
pub(crate) trait EventSource {
    fn next_event(&mut self, context: &mut Context) -> Result<Option<Event>, Error>;

    /// The next event, if it is there already and neither a device nor a name changes before it.
    fn ready_event(&mut self, _context: &mut Context) -> Option<Event> {
        None
    }
}

impl<F: LineFormat<Item: Item<Full = Event>>> EventSource for Lines<F> {
    fn next_event(&mut self, context: &mut Context) -> Result<Option<Event>, Error> {
        self.next_item(context)
    }

    #[inline]
    fn ready_event(&mut self, context: &mut Context) -> Option<Event> {
        self.ready_item(context)
    }
}

/// Upper bound for the devices whose events are surveyed; others are read like the majority.
const SURVEYED_MAX: usize = 256;

/// The events that occur.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    starts: [bool; 4],
    ends: [bool; 3],
}

impl Seen {
    fn saw(&mut self, kind: EventKind) {
        match kind {
            EventKind::Start(event) => self.starts[event as usize] = true,
            EventKind::End(event) => self.ends[event as usize] = true,
        }
    }

    fn best(&self) -> Option<StartEvent> {
        StartEvent::ALL.iter().copied().find(|&event| self.starts[event as usize])
    }

    /// A start event and the matching completion.
    fn selection(&self, start: StartEvent) -> Selection {
        let has = |event: EndEvent| self.ends[event as usize];
        let end = match start {
            StartEvent::BioQueue if has(EndEvent::Bio) => EndEvent::Bio,
            _ if !has(EndEvent::Request) && has(EndEvent::Done) => EndEvent::Done,
            _ => EndEvent::Request,
        };
        Selection { start, end }
    }
}

/// The events that occur in the first part of a recording.
#[derive(Clone, Default, Debug)]
pub(crate) struct Survey {
    all: Seen,
    devices: Vec<(Key<'static>, Seen)>,
}

impl Survey {
    pub(crate) fn saw(&mut self, kind: EventKind) {
        self.all.saw(kind);
    }

    /// Counts an event of a device.
    pub(crate) fn saw_on(&mut self, device: Key<'static>, kind: EventKind) {
        self.saw(kind);
        let known = self.devices.iter().position(|(of, _)| *of == device);
        if known.is_none() && self.devices.len() < SURVEYED_MAX {
            self.devices.push((device, Seen::default()));
        }
        let at = known.unwrap_or(self.devices.len().saturating_sub(1));
        if let Some((of, seen)) = self.devices.get_mut(at)
            && *of == device
        {
            seen.saw(kind);
        }
    }

    /// The events to read: the specified or else best start event, and the matching completion. A device without that start event has its own
    /// best one.
    pub(crate) fn choose(&self, forced: Option<StartEvent>) -> Selections {
        let start = forced.or(self.all.best()).unwrap_or(StartEvent::BioQueue);
        let mut chosen = Selections { general: self.all.selection(start), own: Vec::new() };
        // Every submission to a device, or to a partition of it, has this event.
        if forced.is_some() || start == StartEvent::BioQueue {
            return chosen;
        }
        for (device, seen) in &self.devices {
            let own = seen.best().filter(|_| !seen.starts[start as usize]);
            let Some(selection) = own.map(|own| seen.selection(own)) else { continue };
            let completes = seen.ends[selection.end as usize];
            if completes && (selection.start != StartEvent::BioQueue || !self.is_partition(*device)) {
                chosen.own.push((*device, selection));
            }
        }
        chosen
    }

    /// Whether requests of another device contain the submissions to this one: a partition has the major number of its disk.
    fn is_partition(&self, device: Key<'static>) -> bool {
        let Key::Pair(major, _) = device else { return false };
        let has_requests = |seen: &Seen| seen.best().is_some_and(|event| event != StartEvent::BioQueue);
        self.devices
            .iter()
            .any(|(of, seen)| matches!(of, Key::Pair(m, _) if *m == major) && has_requests(seen))
    }
}

/// The events that are read, of most devices and of those that lack these.
#[derive(Clone, Debug)]
pub(crate) struct Selections {
    pub(crate) general: Selection,
    own: Vec<(Key<'static>, Selection)>,
}

impl Selections {
    /// The selection for a device.
    #[inline]
    pub(crate) fn of(&self, device: Key<'static>) -> Selection {
        let own = self.own.iter().find(|(of, _)| *of == device);
        own.map_or(self.general, |(_, selection)| *selection)
    }

    /// Whether events of this kind are read of any device.
    #[inline]
    pub(crate) fn wants(&self, kind: EventKind) -> bool {
        self.general.wants(kind) || self.own.iter().any(|(_, selection)| selection.wants(kind))
    }

    /// What is read of the devices that lack the general start event: `253:0 block_bio_queue`.
    pub(crate) fn note(&self) -> Option<String> {
        let of = |(device, selection): &(Key<'static>, Selection)| match device {
            Key::Pair(major, minor) => Some(format!("{major}:{minor} {}", selection.start)),
            _ => None,
        };
        let all: Vec<String> = self.own.iter().filter_map(of).collect();
        (!all.is_empty()).then(|| format!("read by events of their own: {}", all.join(", ")))
    }
}

/// The events that are read; others are ignored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    pub(crate) start: StartEvent,
    pub(crate) end: EndEvent,
}

impl Selection {
    /// Whether an event is read. Issues always are, because they have the final extent of a request.
    #[inline]
    pub(crate) fn wants(&self, kind: EventKind) -> bool {
        match kind {
            EventKind::Start(event) => event == self.start || event == StartEvent::Issue,
            EventKind::End(event) => event == self.end,
        }
    }

    /// Whether requests grow after their start event without further events.
    pub(crate) fn grows(&self) -> bool {
        matches!(self.start, StartEvent::IoStart | StartEvent::Insert)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_without_the_best_event_are_read_by_their_own() {
        use EndEvent::{Bio, Request};
        use StartEvent::{BioQueue, Insert, IoStart, Issue};
        let selections = |seen: &[(Key<'static>, &[StartEvent], EndEvent)]| {
            let mut survey = Survey::default();
            for (device, starts, end) in seen {
                starts.iter().for_each(|start| survey.saw_on(*device, EventKind::Start(*start)));
                survey.saw_on(*device, EventKind::End(*end));
            }
            survey.choose(None)
        };
        let (disk, part, mapped) = (Key::Pair(8, 0), Key::Pair(8, 1), Key::Pair(253, 0));
        let of = selections(&[
            (disk, &[IoStart, Issue], Request),
            (part, &[BioQueue], Bio),
            (mapped, &[BioQueue], Bio),
        ]);
        assert_eq!([disk, part, mapped].map(|device| of.of(device).start), [IoStart, IoStart, BioQueue]);
        assert_eq!(of.of(mapped).end, Bio);
        assert_eq!(of.note().as_deref(), Some("read by events of their own: 253:0 block_bio_queue"));
        // `block_rq_insert` does not occur under `none`.
        let of = selections(&[(disk, &[Insert, Issue], Request), (mapped, &[Issue], Request)]);
        assert_eq!([disk, mapped].map(|device| of.of(device).start), [Insert, Issue]);
        // The submissions to the partition are the disk's.
        let of = selections(&[(part, &[BioQueue], Bio), (disk, &[Insert, Issue], Request)]);
        assert_eq!([disk, part].map(|device| of.of(device).start), [BioQueue, BioQueue]);
    }
}
