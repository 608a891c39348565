//! The rotating drive.
//!
//! *Theory of operation.* A drive has three parts that work in parallel. The **arm** belongs to one task at a time; sectors pass
//! under it one by one. The **bus** carries commands, data and completions, one at a time. The **buffer** between them is divided
//! into segments, each holding a run of sectors. A command arrives over the bus. A read whose data is in a segment, or a write for
//! which a segment has room, keeps the bus and transfers its data; any other command disconnects until arm and medium have done
//! their part. After a read the arm reads ahead until another task needs it. A fast write completes in the buffer and gets the arm
//! afterwards.
//!
//! There is no event per sector: an [`Access`] is a move, a wait and a run of sectors of equal duration on one track, so that a
//! division gives the sectors that have passed at any time. The drive's events are the end of the wanted sectors, of the track and
//! of read-ahead, watermarks, and the end of bus transfers. Transfers that nothing can interrupt (module `uninterrupted`) are
//! computed at once.
//!
//! *Where it differs from DiskSim*: see [`Fidelity`].
//!
//! *Sources.* DiskSim 4.0 reference manual and its observed behaviour; Ruemmler and Wilkes 1994; Worthington, Ganger,
//! Patt, Wilkes, "On-line extraction of SCSI disk drive parameters", 1995 (overheads, disconnections).

mod access;
mod arm;
mod arrival;
mod bus;
mod earliest_completion;
mod media;
mod memory;
mod ncq;
mod positioning;
mod preempt;
mod read_ahead;
mod segment;
mod select;
mod sneak;
mod task;
mod timing;
mod uninterrupted;
mod write_back;

use std::collections::VecDeque;

use access::{Access, Head, Rotation};
use bus::{Bus, BusRequest};
use elevator::{Op, Outcome, Positioning, Sector, Span, Time, cold_path};
pub(crate) use segment::SEGMENTS_MAX;
use segment::Segments;
use task::{COMMANDS_MAX, TaskId, Tasks};
use timing::Timing;

use crate::drive::Ideal;
use crate::drive::{Command, Completion, Drive, Service, Tag, Travel};
use crate::layout::{Layout, TrackLayoutError};
use crate::mechanics::{Mechanics, MechanicsError, Picos};
use crate::parameters::{BufferParameters, BusParameters, Fidelity, QueueParameters, RotatingParameters};

/// Upper bound for the events that the drive processes ahead of the host's time: a drive that never completes a command must not hang its host.
const RUN_AHEAD_MAX: u32 = 1000;

/// A rotating drive in virtual time.
#[derive(Clone, Debug)]
pub struct Rotating {
    layout: Layout,
    mechanics: Mechanics,
    /// Duration of a sector, by zone.
    sectors: Vec<Rotation>,
    timing: Timing,
    buffer: BufferParameters,
    /// Watermarks for reads and writes in sectors, where they are shares of a segment and not of the request.
    watermarks: [u64; 2],
    bus_parameters: BusParameters,
    queue: QueueParameters,
    fidelity: Fidelity,
    /// Writes gather data in the buffer before their access to the medium begins.
    gathers: bool,

    /// Zero of the drive's own clock, in the host's nanoseconds.
    origin: u64,
    tasks: Tasks,
    /// Tasks in use, in order of arrival.
    live: Vec<TaskId>,
    /// Tasks in use that have not had the arm.
    waiting: Vec<TaskId>,
    segments: Segments,
    /// Segments, least recently used first.
    order: Vec<u16>,

    /// The task that has the arm.
    arm: Option<TaskId>,
    access: Option<Access>,
    /// The current access is read-ahead, or writes data of a completed command.
    background: bool,
    /// The current event is at a sector boundary.
    between_sectors: bool,
    head: Head,
    /// The first sector of the access (`begins`), and the sector behind the last that passed before it (`left`).
    begins: u64,
    left: u64,
    travel: Travel,
    /// The arm does not move before this time: a stopped access ends at a sector boundary.
    arm_free_at: Picos,
    /// The sector before which the next event on the medium lies (`goal`), and the time of that event (`wake`).
    goal: u64,
    wake: Picos,
    /// Time of the latest event.
    now: Picos,
    /// Time of the drive's next event.
    next: Picos,

    bus: Bus,
    bus_request: Option<BusRequest>,
    /// When the host received a completion while it may have held back commands.
    reported_at: Option<Picos>,
    /// The write that is between its two disconnections.
    extra: Option<TaskId>,
    /// Commands that have not arrived yet, with the time from which the drive can accept them.
    inbox: VecDeque<(Picos, Command)>,
    last_was_write: bool,
    /// The sector behind the last completed request.
    last_end: u64,
    /// For orders by sector: the first sector of the last scheduled request; for nearest-first, the sector behind it.
    last_place: u64,
    upwards: bool,
    serial: u64,

    flushes: Vec<(u64, Tag, Picos)>,
    /// Commands without a completion, not counting those in `completions`.
    unanswered: u32,
    completions: VecDeque<Completion>,
}

/// Why parameters describe no drive.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotatingError {
    /// The layout is impossible.
    #[error("layout: {0}")]
    Layout(#[from] TrackLayoutError),
    /// The mechanics are impossible.
    #[error("mechanics: {0}")]
    Mechanics(#[from] MechanicsError),
    /// The buffer needs 1 to 2048 segments of at least one sector, 1 to as many write segments, and a shared memory of at least one
    /// segment.
    #[error(
        "buffer: it needs 1 to 2048 segments of at least one sector, 1 to as many write segments, and a memory of at least \
         one segment if they share it"
    )]
    Buffer,
    /// The queue depth is not 1 to 32.
    #[error("queue: its depth must lie between 1 and 32")]
    Depth,
}

impl Rotating {
    /// An idle drive: head on cylinder 0, buffer empty.
    ///
    /// # Errors
    /// If the parameters contradict each other.
    pub fn new(p: RotatingParameters) -> Result<Self, RotatingError> {
        let b = &p.buffer;
        let room = b.segment_sectors > 0 && (1..=SEGMENTS_MAX).contains(&b.segments);
        let shared = b.memory_sectors == 0 || b.memory_sectors >= b.segment_sectors;
        if !room || !shared || b.write_segments == 0 || b.write_segments > b.segments {
            return Err(RotatingError::Buffer);
        }
        if !(1..=COMMANDS_MAX).contains(&p.queue.depth) {
            return Err(RotatingError::Depth);
        }
        let tasks = p.queue.depth + b.segments;
        let layout = Layout::new(&p.layout)?;
        let mechanics = Mechanics::new(&p.mechanics, p.layout.cylinders)?;
        Ok(Self {
            sectors: layout.widths().map(|width| Rotation::new(&mechanics, width)).collect(),
            layout,
            mechanics,
            timing: Timing::new(&p),
            segments: Segments::new(b.segments as usize),
            order: (0..b.segments as u16).collect(),
            tasks: Tasks::new(),
            live: Vec::with_capacity(tasks as usize),
            waiting: Vec::with_capacity(p.queue.depth as usize),
            inbox: VecDeque::with_capacity(p.queue.depth as usize),
            completions: VecDeque::with_capacity(p.queue.depth as usize),
            flushes: Vec::new(),
            unanswered: 0,
            watermarks: [b.read_watermark, b.write_watermark]
                .map(|part| (f64::from(b.segment_sectors) * part).ceil() as u64),
            gathers: p.overheads.extra_disconnect.is_some()
                || (b.write_watermark > 0.0 && p.fidelity == Fidelity::Drive),
            buffer: p.buffer,
            bus_parameters: p.bus,
            queue: p.queue,
            fidelity: p.fidelity,
            origin: 0,
            arm: None,
            access: None,
            background: false,
            between_sectors: false,
            head: Head::default(),
            begins: 0,
            left: 0,
            travel: Travel::default(),
            arm_free_at: 0,
            goal: 0,
            wake: Picos::MAX,
            now: 0,
            next: Picos::MAX,
            bus: Bus::Idle,
            bus_request: None,
            reported_at: None,
            extra: None,
            last_was_write: false,
            last_end: 0,
            last_place: 0,
            upwards: true,
            serial: 0,
        })
    }

    /// The duration of one revolution.
    #[must_use]
    pub fn revolution(&self) -> Span {
        Span::from_nanos(self.mechanics.period() / 1000)
    }

    /// Physical sectors on the track of `sector`.
    #[must_use]
    pub fn sectors_per_track(&self, sector: Sector) -> u32 {
        self.layout.per_track(sector.0.min(self.layout.capacity() - 1))
    }

    fn picos_of(&self, time: Time) -> Picos {
        time.as_nanos().saturating_sub(self.origin).saturating_mul(1000)
    }

    /// The first whole nanosecond at or after `picos`.
    fn time_of(&self, picos: Picos) -> Time {
        Time::from_nanos(self.origin.saturating_add(picos.div_ceil(1000)))
    }

    /// Processes all events until `now`. While every tag is in use, no command can arrive before one completes; events up to that
    /// completion are then processed as well, which spares the host intermediate steps.
    #[inline]
    fn advance(&mut self, now: Picos) {
        let rests = self.unanswered == 0;
        if now < self.next && (rests || (self.next != Picos::MAX && !self.is_full())) {
            self.now = self.now.max(now);
        } else {
            self.advance_to(now);
        }
    }

    /// Whether every tag is in use and no completion waits for the host.
    fn is_full(&self) -> bool {
        self.unanswered >= self.queue.depth && self.completions.is_empty()
    }

    /// The same out of line: hosts poll far more often than an event is due.
    #[inline(never)]
    fn advance_to(&mut self, now: Picos) {
        // `Picos::MAX` means never, also at the end of time.
        let mut now = now.min(Picos::MAX - 1);
        let mut left = RUN_AHEAD_MAX;
        loop {
            if self.next > now {
                if left == 0 || !self.may_run_ahead() {
                    break;
                }
                left -= 1;
                now = self.next;
            }
            self.happen();
        }
        self.now = self.now.max(now);
    }

    /// Whether the next event comes before any new command can.
    fn may_run_ahead(&mut self) -> bool {
        let something = self.next != Picos::MAX || (self.unanswered > 0 && self.recheck_bus());
        something && self.is_full()
    }

    /// Processes the next event.
    fn happen(&mut self) {
        let now = self.now.max(self.next);
        self.now = now;
        if self.wake <= now {
            self.medium_event(now);
        } else if self.bus.until() <= now {
            self.bus_event(now);
        } else if let Some((_, command)) = self.inbox.pop_front() {
            self.arrive(now, command);
        }
        self.aim_wake();
        if !self.flushes.is_empty() {
            self.check_flushes(now);
        }
        self.next = self.next_step();
    }

    /// No event is pending although a command has no completion: a task that needs the bus was passed over while others had it.
    /// Returns whether an event is pending now.
    #[cold]
    fn recheck_bus(&mut self) -> bool {
        self.sync(self.now);
        match self.bus {
            Bus::Held(id) => self.step(self.now, id),
            _ => self.check_bus(self.now, None),
        }
        self.aim_wake();
        self.next = self.next_step();
        self.next != Picos::MAX
    }

    /// The time of the next event in the present state.
    fn next_step(&self) -> Picos {
        let on_the_bus = match self.bus {
            Bus::Busy { until, .. } => until,
            Bus::Idle | Bus::Held(_) => self.inbox_at(),
        };
        self.wake.min(on_the_bus)
    }

    /// When the next command can arrive: only while the bus is free.
    fn inbox_at(&self) -> Picos {
        match self.inbox.front() {
            Some(&(at, _)) if matches!(self.bus, Bus::Idle) => at,
            _ => Picos::MAX,
        }
    }

    fn complete(&mut self, at: Picos, tag: Tag, outcome: Outcome, service: Service) {
        let at = self.time_of(at);
        self.unanswered -= 1;
        self.completions.push_back(Completion { tag, at, outcome, service });
    }

    fn has_completed(&self, now: Time) -> bool {
        self.completions.front().is_some_and(|completion| completion.at <= now)
    }

    /// Completes flushes for which all earlier writes are on the medium.
    #[cold]
    fn check_flushes(&mut self, now: Picos) {
        while let Some(&(serial, tag, started)) = self.flushes.first() {
            let dirty = |&id: &TaskId| {
                let task = &self.tasks[id];
                task.dirty() && task.serial < serial
            };
            if self.live.iter().any(dirty) {
                return;
            }
            self.flushes.remove(0);
            let service = Service { started: self.time_of(started), ..Default::default() };
            self.complete(now, tag, Outcome::Done, service);
        }
    }

    fn quiet(&self) -> bool {
        self.live.is_empty() && self.inbox.is_empty() && self.access.is_none()
    }

    /// The drive's clock holds 213 days; after a long idle time it starts anew.
    fn set_origin(&mut self, now: Time) {
        let rested = now.as_nanos().saturating_sub(self.origin);
        if rested > Picos::MAX / 4000 && self.quiet() {
            cold_path();
            let since = (u128::from(rested) * 1000).saturating_sub(u128::from(self.head.at));
            let turned = (since % u128::from(self.mechanics.period())) as Picos;
            self.head.angle = self.head.angle.wrapping_add(self.mechanics.turned(turned));
            (self.head.at, self.arm_free_at, self.now) = (0, 0, 0);
            self.origin = now.as_nanos();
        }
    }
}

impl Drive for Rotating {
    fn capacity(&self) -> Sector {
        Sector(self.layout.capacity())
    }

    fn depth(&self) -> u32 {
        self.queue.depth
    }

    fn submit(&mut self, now: Time, command: Command) {
        let at = self.picos_of(now);
        self.advance(at);
        self.set_origin(now);
        let at = self.picos_of(now);
        let beyond = (command.start.0).checked_add(u64::from(command.sectors.0));
        let outside = command.op != Op::Flush && beyond.is_none_or(|end| end > self.layout.capacity());
        let service = Service { started: now, ..Default::default() };
        self.unanswered += 1;
        if outside {
            cold_path();
            self.complete(at, command.tag, Outcome::Failed, service);
        } else if command.op == Op::Discard || (command.sectors.0 == 0 && command.op != Op::Flush) {
            cold_path();
            self.complete(at, command.tag, Outcome::Done, service);
        } else {
            self.inbox.push_back((at + self.timing.request, command));
            self.next = self.next_step();
            self.advance(at);
        }
    }

    fn next_event(&self) -> Option<Time> {
        if let Some(completion) = self.completions.front() {
            return Some(completion.at);
        }
        (self.next != Picos::MAX && self.unanswered > 0).then(|| self.time_of(self.next))
    }

    fn earliest_completion(&self) -> Option<Time> {
        let step = self.next_event()?;
        let at_hand = !self.completions.is_empty();
        Some(if at_hand { step } else { self.time_of(self.no_completion_before(self.next)) })
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        // Events that lead to a known completion have been processed.
        if self.completions.is_empty() {
            self.advance(self.picos_of(now));
        }
        if self.has_completed(now) { self.completions.pop_front() } else { None }
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        Some(self)
    }

    fn ideal(&self) -> Option<&dyn Ideal> {
        Some(self)
    }

    fn travel(&self) -> Travel {
        self.travel
    }
}
