//! What a process does: as requests, the level at which recordings live, or as system calls of a kernel.

use elevator::{Flags, Op, Priority, Process, Sector, Sectors, Span, Time};

use crate::kernel::{Call, Returned};

/// One process's behaviour, as a script that is asked for its next step whenever it can go on.
///
/// A program sees completions only by waiting for them, as a real process does.
pub trait Program {
    /// What it does next. `now` is when it could go on.
    fn next(&mut self, now: Time) -> Next;

    /// What its latest call came back with; heard before [`next`](Self::next). Answers whether a failure is part of the plan:
    /// if not, a call that fails ends the run with an error that names process and call.
    fn returned(&mut self, returned: Returned) -> bool {
        let _ = returned;
        false
    }

    /// Whether it runs beside the others and comes to no meeting: when all others wait for each other, the run is stuck, however
    /// busy this one is.
    fn is_beside(&self) -> bool {
        false
    }
}

/// A step of a program.
pub enum Next {
    /// Asks the device for something and goes on at once (or sleeps first, where the request limit says so).
    Submit(Io),
    /// Goes on when this has completed.
    Await(Await),
    /// Asks something of the kernel, and goes on when that has returned.
    Call(Call),
    /// Computes, or sleeps, for so long.
    Think(Span),
    /// Sleeps until then; goes on at once if that has passed.
    Until(Time),
    /// Goes on when everybody who takes part in the meeting has come to it.
    Meet(Meeting),
    /// The same with processes of other machines; see [`Cluster`](crate::Cluster).
    Gather(Meeting),
    /// Starts another process, which runs beside it. The new process's number is the order of its start.
    Spawn(Who, Box<dyn Program>),
    /// Goes on when every process that it has started has ended.
    AwaitChildren,
    /// Ends.
    Exit,
}

/// What a program waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Await {
    /// Everything that it has submitted.
    All,
    /// Its n-th submission, counted from 0.
    Io(u64),
    /// Fewer than so many of its submissions unfinished; at least 1.
    Fewer(u32),
}

/// A meeting of threads: the place at which they wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// Its name; the same for everybody who takes part.
    pub name: u32,
    /// How many take part.
    pub members: u32,
}

/// What a program asks of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// What to do.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length; zero only for a flush.
    pub sectors: Sectors,
    /// What the submitter says of it.
    pub flags: Flags,
}

impl Io {
    /// A plain read.
    #[must_use]
    pub fn read(start: Sector, sectors: Sectors) -> Self {
        Self { op: Op::Read, start, sectors, flags: Flags::default() }
    }
}

/// Who a program is, to schedulers and in results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// What the block layer knows of it. `None` if the recording did not say.
    pub process: Option<Process>,
    /// Its priority.
    pub priority: Priority,
    /// The line of the results that it counts in; processes that share a name share a line.
    pub name: String,
}

impl Who {
    /// A single-threaded process of ordinary priority.
    #[must_use]
    pub fn process(id: u32, name: impl Into<String>) -> Self {
        Self { process: Some(Process::single(id)), priority: Priority::default(), name: name.into() }
    }
}
