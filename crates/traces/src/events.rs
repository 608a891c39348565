//! Events of Linux's block layer, independent of the tool that recorded them, and the choice among them.

use elevator::Priority;

use crate::blocks::Settle;
use crate::context::Context;
use crate::devices::Key;
use crate::error::{Error, Position};
use crate::lines::{LineFormat, Lines};
use crate::options::StartEvent;
use crate::record::{DeviceId, Pid};
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
}

impl<F: LineFormat<Item = Event>> EventSource for Lines<F> {
    fn next_event(&mut self, context: &mut Context) -> Result<Option<Event>, Error> {
        self.next_item(context)
    }
}

/// The events that occur in the first part of a recording.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Survey {
    starts: [bool; 4],
    ends: [bool; 3],
}

impl Survey {
    pub(crate) fn saw(&mut self, kind: EventKind) {
        match kind {
            EventKind::Start(event) => self.starts[event as usize] = true,
            EventKind::End(event) => self.ends[event as usize] = true,
        }
    }

    /// The events to read: the specified or else best start event, and the matching completion.
    pub(crate) fn choose(&self, forced: Option<StartEvent>) -> Selection {
        let best = StartEvent::ALL.iter().copied().find(|&event| self.starts[event as usize]);
        let start = forced.or(best).unwrap_or(StartEvent::BioQueue);
        let has = |event: EndEvent| self.ends[event as usize];
        let end = match start {
            StartEvent::BioQueue if has(EndEvent::Bio) => EndEvent::Bio,
            _ if !has(EndEvent::Request) && has(EndEvent::Done) => EndEvent::Done,
            _ => EndEvent::Request,
        };
        Selection { start, end }
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
