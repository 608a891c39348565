//! The program of a chain.

use elevator::{Flags, Op, Sector, Sectors, Span, Time};
use machine::{Await, Io, Next, Program};

use super::steps::Reader;
use super::{After, Kind, Step};

struct Replaying {
    steps: Reader,
    phase: Phase,
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

pub(super) fn program(steps: Reader) -> Box<dyn Program> {
    Box::new(Replaying { steps, phase: Phase::Fresh })
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
                Next::Submit(io)
            }
            Phase::Ending => Next::Exit,
        }
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
            After::Together => Next::Submit(step.io()),
            After::At(at) => {
                self.phase = Phase::Ready(step.io());
                Next::Until(Time::from_nanos(at))
            }
            After::Completion(number, think) => {
                self.phase = Phase::Awaited(step.io(), Span::from_nanos(think));
                Next::Await(Await::Io(number.into()))
            }
        }
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
