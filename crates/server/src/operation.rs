//! Operations and replies that front ends and the device pass to each other.

use elevator::{Flags, Op, Process, Sector, Sectors};
use rustix::io::Errno;

use crate::backend::Payload;

/// Index of a front end of the device.
pub type FrontIndex = u8;

/// An operation that a front end submits.
pub struct NewOperation {
    /// The front end's identifier, returned with the result.
    pub cookie: u64,
    /// The operation.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length; zero only for a flush.
    pub sectors: Sectors,
    pub flags: Flags,
    /// The issuing process, if known.
    pub process: Option<Process>,
    /// Data to write, or memory to read into, with the length of `sectors`.
    pub payload: Payload,
}

/// The result of an operation.
pub struct Answer {
    /// The front end that submitted it.
    pub front: FrontIndex,
    /// The front end's identifier.
    pub cookie: u64,
    /// Success or error.
    pub result: Result<(), Errno>,
    /// Its memory, with the data of a read.
    pub payload: Payload,
}

/// A submitter may continue.
pub struct Woken {
    /// Its front end.
    pub front: FrontIndex,
    /// The operation after which it had to wait.
    pub cookie: u64,
}

pub enum FrontEndEvent {
    /// An operation ended.
    Answer(Answer),
    /// The submitter of an operation may continue.
    Woken(Woken),
}
