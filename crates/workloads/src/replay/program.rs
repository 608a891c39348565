//! The program of a chain.

use std::sync::Arc;

use elevator::{Flags, Op, Sector, Sectors, Span, Time};
use machine::{Await, Io, Next, Program};

use super::{After, Kind, Step};

struct Replaying {
    steps: Arc<Vec<Step>>,
    index: usize,
    phase: Phase,
}

/// What has been done of the present step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    Awaited,
    Ready,
    Ending,
}

pub(super) fn program(steps: Arc<Vec<Step>>) -> Box<dyn Program> {
    Box::new(Replaying { steps, index: 0, phase: Phase::Fresh })
}

impl Program for Replaying {
    fn next(&mut self, _now: Time) -> Next {
        let Some(step) = self.steps.get(self.index) else {
            return self.end();
        };
        match (self.phase, step.after) {
            (Phase::Fresh, After::At(at)) => {
                self.phase = Phase::Ready;
                Next::Until(Time::from_nanos(at))
            }
            (Phase::Fresh, After::Completion(number, _)) => {
                self.phase = Phase::Awaited;
                Next::Await(Await::Io(number.into()))
            }
            (Phase::Awaited, After::Completion(_, think)) => {
                self.phase = Phase::Ready;
                Next::Think(Span::from_nanos(think))
            }
            _ => {
                self.index += 1;
                self.phase = Phase::Fresh;
                Next::Submit(step.io())
            }
        }
    }
}

impl Replaying {
    fn end(&mut self) -> Next {
        if self.phase == Phase::Ending {
            return Next::Exit;
        }
        self.phase = Phase::Ending;
        Next::Await(Await::All)
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
        let Flags { sync, meta, ahead, fua, preflush } = flags;
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
        (op, Flags { sync: bit(0), meta: bit(1), ahead: bit(2), fua: bit(3), preflush: bit(4) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_and_flags_survive_packing() {
        for op in [Op::Read, Op::Write, Op::Discard, Op::Flush] {
            for bits in 0..32u8 {
                let bit = |n: u8| bits >> n & 1 == 1;
                let flags =
                    Flags { sync: bit(0), meta: bit(1), ahead: bit(2), fua: bit(3), preflush: bit(4) };
                assert_eq!(Kind::pack(op, flags).unpack(), (op, flags));
            }
        }
    }
}
