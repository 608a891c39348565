//! What every modelled device answers to.

use elevator::{Op, Outcome, Positioning, Sector, Sectors, Span, Time};

/// The host's name for a command in the device: one of `0..depth`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tag(pub u32);

/// A command for a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// The host's name for it, free for another command once this one has completed.
    pub tag: Tag,
    /// What to do.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length; zero only for a flush.
    pub sectors: Sectors,
    /// Complete a write only when it is on the medium.
    pub fua: bool,
}

/// A command that a device has finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The command.
    pub tag: Tag,
    /// When it completed, never later than the time asked about.
    pub at: Time,
    /// Done or failed (a command beyond the device's end fails).
    pub outcome: Outcome,
    /// Where its time went.
    pub service: Service,
}

/// Where a command's time in the device went. The parts that overlap (a transfer over the bus while the medium is
/// read) are counted once, as what the completion waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Service {
    /// When the device turned to it; before that it waited in the device's own queue.
    pub started: Time,
    /// Electronics: command overheads, bus transfers that nothing hides.
    pub overhead: Span,
    /// Moving the arm, settling, switching heads.
    pub seek: Span,
    /// Waiting for the first sector to come round.
    pub rotation: Span,
    /// Reading or writing the medium, head and cylinder switches on the way included.
    pub transfer: Span,
    /// Answered by the device's buffer: nothing moved for it.
    pub from_buffer: bool,
}

/// A modelled device in virtual time.
///
/// The host submits at most [`depth`](Self::depth) commands, asks [`next_event`](Self::next_event) when something may
/// happen, and collects what has completed with [`poll`](Self::poll). Times passed in never run backwards. The same
/// calls give the same answers, on every machine.
pub trait Drive {
    /// Its size in sectors.
    fn capacity(&self) -> Sector;

    /// How many commands it takes at once; at least 1.
    fn depth(&self) -> u32;

    /// Hands over a command. Its tag must be free and the depth not exceeded.
    fn submit(&mut self, now: Time, command: Command);

    /// When [`poll`](Self::poll) may next have something to give, if nothing else is submitted. Stale after any
    /// other call.
    fn next_event(&self) -> Option<Time>;

    /// No command completes before this, if nothing else is submitted: never earlier than [`next_event`](Self::next_event),
    /// and later where what happens next is only a step on the way to an answer. A host in real time need not be awake for
    /// such steps; it makes up for them when it polls.
    fn earliest_completion(&self) -> Option<Time> {
        self.next_event()
    }

    /// The next command completed at `now` or before, in order of completion.
    fn poll(&mut self, now: Time) -> Option<Completion>;

    /// The oracle that tells positioning times, where the device has a position.
    fn positioning(&self) -> Option<&dyn Positioning>;

    /// What it could do at best, where it knows.
    fn ideal(&self) -> Option<&dyn Ideal> {
        None
    }

    /// How far its head has gone so far; nothing where it has none.
    fn travel(&self) -> Travel {
        Travel::default()
    }
}

/// The way of a head, whatever it went for: a command, reading ahead, or writing what was answered from the buffer long ago.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Travel {
    /// Sectors of address space between where it left the medium and where it went on.
    pub sectors: u64,
    /// How often that was not the same place.
    pub seeks: u64,
}

/// Least times, from the device's own model, with nothing lost: no rotation waited for, no command's overhead, no queue.
///
/// A host that adds them up for requests in the best order has a time that no order of serving them can beat, but for
/// what the device's buffer answers.
pub trait Ideal {
    /// From the end of a request (the sector behind its last one) to the start of another: the arm's move. Nothing
    /// where the one goes on at the other, but for the switch between two tracks; nothing on a device without an arm.
    fn least_seek(&self, from: Sector, to: Sector) -> Span;

    /// The time in which these sectors pass under the head, switches between tracks on the way included; without a head,
    /// the time that the slowest way to the host takes for them.
    fn sequential_transfer(&self, start: Sector, sectors: Sectors) -> Span;

    /// Whether reads and writes have a way to the host each, and so may pass at the same time.
    fn full_duplex(&self) -> bool {
        false
    }
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
