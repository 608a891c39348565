//! The behaviour of processes: as requests, the level of recordings, or as system calls.

use elevator::{Flags, Op, Priority, Process, Sector, Sectors, Span, Time};

use crate::kernel::{Call, Returned};

/// A process as a state machine: the engine asks for the next step whenever the process can continue.
///
/// As in a real process, completions are visible only by waiting for them.
pub trait Program {
    /// The next step. `now` is the time at which the process could continue.
    fn next(&mut self, now: Time) -> Next;

    /// Receives the result of the last call, before [`next`](Self::next). Returns whether the program handles failures; if
    /// not, a failed call ends the run with an error that names process and call.
    fn returned(&mut self, returned: Returned) -> bool {
        let _ = returned;
        false
    }

    /// Whether the process runs in the background and arrives at no barrier. A run in which all other processes wait for each
    /// other is a deadlock, however busy background processes are.
    fn is_background(&self) -> bool {
        false
    }

    /// While it sleeps and has nothing in flight: the state from which its [`Source`] can make the program again.
    fn rest(&self) -> Option<Rest> {
        None
    }
}

/// The state of a program at rest, as its source defines it.
pub type Rest = [u64; 3];

/// Processes of which only those that do something are in memory: a recording may have hundreds of thousands.
pub trait Source {
    /// Number of processes.
    fn count(&self) -> usize;

    /// The identity of a process in the block layer, and its priority.
    fn identity(&self, number: usize) -> (Option<Process>, Priority);

    /// Its name in results.
    fn name(&self, number: usize) -> &str;

    /// Whether it belongs to a group of processes that is reported as a whole, without a physical limit and without a share in the fairness index.
    fn is_grouped(&self, number: usize) -> bool;

    /// The number of requests that it has submitted.
    fn submitted(&self, rest: Rest) -> u64;

    /// Its program at the start (`None`), or where it rests.
    fn program(&self, number: usize, rest: Option<Rest>) -> Box<dyn Program>;
}

/// A step of a program.
pub enum Next {
    /// Submits and continues at once, or sleeps first if the queue is full.
    Submit(Io),
    /// The same for a request that arrived at this time from outside, as a recording's time stamp says: its latency begins then, also if the program slept
    /// because the queue was full.
    Arrive(Io, Time),
    /// Continues when this has completed.
    Await(Await),
    /// Makes a system call and continues when it returns.
    Call(Call),
    /// Computes or sleeps for this long.
    Think(Span),
    /// Sleeps until then; continues at once if the time has passed.
    Until(Time),
    /// Continues when all members of the barrier have arrived.
    Barrier(Barrier),
    /// The same across machines; see [`Cluster`](crate::Cluster).
    ClusterBarrier(Barrier),
    /// Starts a child process. Processes are numbered in the order of their start.
    Spawn(Submitter, Box<dyn Program>),
    /// Continues when all its children have ended.
    AwaitChildren,
    /// Ends.
    Exit,
}

/// What a program waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Await {
    /// All its submissions.
    All,
    /// Its n-th submission, counted from 0.
    Io(u64),
    /// Until fewer than this many of its submissions are unfinished; at least 1.
    Fewer(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Barrier {
    /// Its name, the same for all members.
    pub name: u32,
    /// Number of members.
    pub members: u32,
}

/// A request of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// The operation.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length; zero only for a flush.
    pub sectors: Sectors,
    pub flags: Flags,
}

impl Io {
    /// A read without flags.
    pub fn read(start: Sector, sectors: Sectors) -> Self {
        Self { op: Op::Read, start, sectors, flags: Flags::default() }
    }
}

/// The identity of a process, for schedulers and in results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submitter {
    /// Its identity in the block layer; `None` if a recording lacks it.
    pub process: Option<Process>,
    pub priority: Priority,
    /// Its name in results; processes that share a name are reported together.
    pub name: String,
}

impl Submitter {
    /// A single-threaded process with the default priority.
    pub fn process(id: u32, name: impl Into<String>) -> Self {
        Self { process: Some(Process::single(id)), priority: Priority::default(), name: name.into() }
    }
}
