//! The interface of modelled devices.

use elevator::{Op, Outcome, Positioning, Sector, Sectors, Span, Time};

/// A command's identifier in the device: one of `0..depth`, chosen by the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tag(pub u32);

/// A command for a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// The identifier, which the host may reuse after the command has completed.
    pub tag: Tag,
    /// The operation.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length; zero only for a flush.
    pub sectors: Sectors,
    /// Force unit access: a write completes only when it is on the medium.
    pub fua: bool,
}

/// A completed command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The command's identifier.
    pub tag: Tag,
    /// The time of completion, at or before the time passed to [`Drive::poll`].
    pub at: Time,
    /// Done, or failed (a command beyond the device's end fails).
    pub outcome: Outcome,
    /// The parts of its service time.
    pub service: Service,
}

/// The parts of a command's time in the device. Where parts overlap (a transfer over the bus while the medium is read), the part
/// that the completion waited for counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Service {
    /// When the device began to process it; before that it waited in the device's queue.
    pub started: Time,
    /// Command overheads, and bus transfers that do not overlap with another part.
    pub overhead: Span,
    /// Moving the arm, settling, switching heads.
    pub seek: Span,
    /// Rotational delay before the first sector.
    pub rotation: Span,
    /// Reading or writing the medium, including head and cylinder switches.
    pub transfer: Span,
    /// The device's buffer answered it, without an access to the medium.
    pub from_buffer: bool,
}

/// A modelled device in virtual time.
///
/// The host submits at most [`depth`](Self::depth) commands, calls [`poll`](Self::poll) at the time that
/// [`next_event`](Self::next_event) returns, and thereby collects the completions. Times passed to a drive must not decrease. The
/// same calls return the same results on every machine.
pub trait Drive {
    /// Size in sectors of 512 bytes.
    fn capacity(&self) -> Sector;

    /// Number of commands that the device accepts at once; at least 1.
    fn depth(&self) -> u32;

    /// Submits a command. Its tag must be unused and the depth not exceeded.
    fn submit(&mut self, now: Time, command: Command);

    /// When [`poll`](Self::poll) may return a completion if nothing else is submitted. Any other call invalidates the result. `None`: not
    /// before another command.
    fn next_event(&self) -> Option<Time>;

    /// A time before which no command completes if nothing else is submitted: [`next_event`](Self::next_event), or later if the next
    /// event is only an intermediate step. A host in real time may sleep until then; its next poll processes the steps.
    fn earliest_completion(&self) -> Option<Time> {
        self.next_event()
    }

    /// The next command that completed at or before `now`, in order of completion.
    fn poll(&mut self, now: Time) -> Option<Completion>;

    /// Estimates of positioning times, for devices with a position.
    fn positioning(&self) -> Option<&dyn Positioning>;

    /// Lower bounds of seek and transfer times, if the device has them.
    fn ideal(&self) -> Option<&dyn Ideal> {
        None
    }

    /// The distance that the head has moved so far; zero for devices without a head.
    fn travel(&self) -> Travel {
        Travel::default()
    }
}

/// Movement of a head for any purpose: commands, read-ahead, and writes whose command completed earlier in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Travel {
    /// Sectors of address space between the end of an access to the medium and the beginning of the next.
    pub sectors: u64,
    /// Number of accesses that did not begin where the one before ended.
    pub seeks: u64,
}

/// Lower bounds of times, without rotational delay, command overhead and queueing.
///
/// The sum over the best order of some requests is a time that no order of serving them can beat, except by hits in the
/// device's buffer.
pub trait Ideal {
    /// The arm's move from the end of a request (`from`: the sector behind its last) to the start of another. If `from` equals `to`:
    /// the switch between two tracks, or zero. Zero for devices without an arm.
    fn least_seek(&self, from: Sector, to: Sector) -> Span;

    /// The time in which these sectors pass under the head, including switches between tracks. For devices without a head: the transfer
    /// time over the slowest stage to the host.
    fn sequential_transfer(&self, start: Sector, sectors: Sectors) -> Span;

    /// Whether reads and writes have separate paths to the host and can be transferred at the same time.
    fn full_duplex(&self) -> bool {
        false
    }

    /// Picoseconds in which a sector that is read, and one that is written, crosses the interface to the host, also from or to the
    /// device's buffer.
    fn interface_picos(&self) -> [u64; 2] {
        [0; 2]
    }

    /// The least time in which the medium serves these sectors (from the first of a pair to the one before the second; in order, without
    /// overlap), each once, in any order and from any position, and the number of moves in it. Without `moves`, only the sectors count.
    fn least_pass(&self, extents: &mut dyn Iterator<Item = (Sector, Sector)>, moves: bool) -> (Span, u64) {
        let (_, _) = (extents, moves);
        (Span::ZERO, 0)
    }

    /// How many sectors behind a request the drive may have in its buffer because of it. It has none before the request. `None`: not known, so
    /// that [`least_gaps`](Self::least_gaps) says nothing about requests.
    fn reach(&self) -> Option<u64> {
        None
    }

    /// The cylinder of a sector; 0 for devices without an arm.
    fn cylinder(&self, sector: Sector) -> u32 {
        let _ = sector;
        0
    }

    /// The least times between two passes under the head, whatever passes between them.
    fn least_gaps(&self, gaps: &[Gap]) -> Vec<Span> {
        gaps.iter().map(|gap| gap.at_least).collect()
    }

    /// By how much less than [`least_pass`](Self::least_pass) a set of writes may take, because data can be in the buffer when they have
    /// completed. `None`: no write has to reach the medium.
    fn buffered_writes(&self) -> Option<Span> {
        None
    }
}

/// From the pass of one sector under the head to a later pass of another.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// The sector that passes first.
    pub from: Sector,
    /// The sector that passes later.
    pub to: Sector,
    /// A lower bound for another reason.
    pub at_least: Span,
    /// Whether the angle between the sectors counts. Otherwise `from` is any sector of its cylinder.
    pub turns: bool,
}

/// Implements methods of [`Drive`] by calling the drive in the field `drive`.
macro_rules! delegate {
    ($($method:ident),+ $(,)?) => { $(crate::drive::delegate!(@ $method);)+ };
    (@ capacity) => { fn capacity(&self) -> elevator::Sector { self.drive.capacity() } };
    (@ depth) => { fn depth(&self) -> u32 { self.drive.depth() } };
    (@ next_event) => { fn next_event(&self) -> Option<elevator::Time> { self.drive.next_event() } };
    (@ earliest_completion) => {
        fn earliest_completion(&self) -> Option<elevator::Time> { self.drive.earliest_completion() }
    };
    (@ poll) => {
        fn poll(&mut self, now: elevator::Time) -> Option<crate::Completion> { self.drive.poll(now) }
    };
    (@ positioning) => {
        fn positioning(&self) -> Option<&dyn elevator::Positioning> { self.drive.positioning() }
    };
    (@ ideal) => { fn ideal(&self) -> Option<&dyn crate::Ideal> { self.drive.ideal() } };
    (@ travel) => { fn travel(&self) -> crate::Travel { self.drive.travel() } };
}
pub(crate) use delegate;
