//! Events of Linux's block layer, whichever tool wrote them down, and the choice among them.

use elevator::Priority;

use crate::context::Context;
use crate::devices::Key;
use crate::error::{Error, Position};
use crate::lines::{LineFormat, Lines};
use crate::options::StartEvent;
use crate::record::Pid;
use crate::rwbs::Rwbs;

/// Which event says that a request is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndEvent {
    /// `block_rq_complete`, blktrace's C: a request, or a part of one.
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
    /// The kind with that tracepoint's name.
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

    /// The kind that blktrace and blkparse write with that letter.
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

/// Anything that yields events.
pub(crate) trait EventSource {
    fn next_event(&mut self, context: &mut Context) -> Result<Option<Event>, Error>;
}

impl<F: LineFormat<Item = Event>> EventSource for Lines<F> {
    fn next_event(&mut self, context: &mut Context) -> Result<Option<Event>, Error> {
        self.next_item(context)
    }
}

/// Which kinds of events a recording has, judged by its first part.
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

    /// The events to read: the forced or best start there is, and the end that belongs to it.
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

/// The events that are read; all others are passed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    pub(crate) start: StartEvent,
    pub(crate) end: EndEvent,
}

impl Selection {
    /// Whether events of that kind matter. Issues do also where they are not the start: they tell what a request grew to.
    #[inline]
    pub(crate) fn wants(&self, kind: EventKind) -> bool {
        match kind {
            EventKind::Start(event) => event == self.start || event == StartEvent::Issue,
            EventKind::End(event) => event == self.end,
        }
    }

    /// Whether start events name a request that goes on growing, unseen.
    pub(crate) fn grows(&self) -> bool {
        matches!(self.start, StartEvent::IoStart | StartEvent::Insert)
    }
}
