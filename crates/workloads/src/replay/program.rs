//! The program of a chain.

use elevator::{Flags, Op, Sector, Sectors, Span, Time};
use machine::{Await, Io, Next, Program, Rest};

use super::steps::Reader;
use super::{After, Kind, Step};

struct Replaying {
    steps: Reader,
    phase: Phase,
    by_time: bool,
    /// The time stamp of the latest step with one; steps together with it share it.
    stamp: Time,
}

/// The progress of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    /// Its dependency has completed; the think time follows.
    Awaited(Io, Span),
    Ready(Io),
    Ending,
}

/// `by_time`: all requests arrive at their time stamps, from outside.
pub(super) fn program(mut steps: Reader, rest: Option<Rest>, by_time: bool) -> Box<dyn Program> {
    let phase = match rest.map(|rest| steps.resume(rest)) {
        None => Phase::Fresh,
        Some(Some(step)) => Phase::Ready(step.io()),
        // The spill cannot be read.
        Some(None) => Phase::Ending,
    };
    let stamp = Time::from_nanos(steps.latest());
    Box::new(Replaying { steps, phase, by_time, stamp })
}

impl Program for Replaying {
    fn next(&mut self, _now: Time) -> Next {
        match self.phase {
            Phase::Fresh => self.begin(),
            Phase::Awaited(io, think) => {
                self.phase = Phase::Ready(io);
                Next::Think(think)
            }
            Phase::Ready(io) => {
                self.phase = Phase::Fresh;
                self.submit(io)
            }
            Phase::Ending => Next::Exit,
        }
    }

    fn rest(&self) -> Option<Rest> {
        matches!(self.phase, Phase::Ready(_)).then(|| self.steps.rest())
    }
}

impl Replaying {
    /// Begins the next step.
    fn begin(&mut self) -> Next {
        let Some(step) = self.steps.next() else {
            self.phase = Phase::Ending;
            return Next::Await(Await::All);
        };
        match step.after {
            After::Together => self.submit(step.io()),
            After::At(at) => {
                let at = Time::from_nanos(at);
                (self.phase, self.stamp) = (Phase::Ready(step.io()), at);
                Next::Until(at)
            }
            After::Completion(number, think) => {
                self.phase = Phase::Awaited(step.io(), Span::from_nanos(think));
                Next::Await(Await::Io(number.into()))
            }
        }
    }

    fn submit(&self, io: Io) -> Next {
        if self.by_time { Next::Arrive(io, self.stamp) } else { Next::Submit(io) }
    }
}

impl Step {
    pub(super) fn io(&self) -> Io {
        let (op, flags) = self.kind.unpack();
        Io { op, start: Sector(self.start), sectors: Sectors(self.sectors), flags }
    }
}

impl Kind {
    pub(super) fn pack(op: Op, flags: Flags) -> Self {
        let Flags { sync, meta, ahead, fua, preflush, direct: _ } = flags;
        let bits = [sync, meta, ahead, fua, preflush]
            .into_iter()
            .rev()
            .fold(0, |bits, flag| bits << 1 | u8::from(flag));
        let op = match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Discard => 2,
            Op::Flush => 3,
        };
        Self(bits << 2 | op)
    }

    fn unpack(self) -> (Op, Flags) {
        let op = [Op::Read, Op::Write, Op::Discard, Op::Flush][usize::from(self.0 & 3)];
        let bit = |n: u8| self.0 >> (2 + n) & 1 == 1;
        let (sync, meta, ahead, fua, preflush) = (bit(0), bit(1), bit(2), bit(3), bit(4));
        (op, Flags { sync, meta, ahead, fua, preflush, direct: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_keeps_operation_and_flags() {
        for op in [Op::Read, Op::Write, Op::Discard, Op::Flush] {
            for bits in 0..32u8 {
                let bit = |n: u8| bits >> n & 1 == 1;
                let (sync, meta, ahead, fua, preflush) = (bit(0), bit(1), bit(2), bit(3), bit(4));
                let flags = Flags { sync, meta, ahead, fua, preflush, direct: false };
                assert_eq!(Kind::pack(op, flags).unpack(), (op, flags));
            }
        }
    }
}
