//! A chain's steps, sixteen bytes each.
//!
//! A recording is kept whole, and a long one is memory that is touched for the first time. So a step says its time as the
//! distance from the one before, and what it waits for as how far back that is; the few that say more than fits stand in a list
//! of their own.

use super::{After, Kind, Step};

/// Steps, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Steps {
    packed: Vec<Packed>,
    /// Those that do not fit.
    large: Vec<Step>,
    /// The time of the latest that has one.
    latest: u64,
}

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Packed {
    /// From the lowest bit: what it waits for, its kind, its length, its first sector; or the place among the large ones.
    what: u64,
    /// How long after the latest time in the chain, or how long it thinks, in nanoseconds.
    time: u32,
    /// How many steps before this one that is which it waits for.
    back: u32,
}

const AFTER_BITS: u32 = 2;
const KIND_BITS: u32 = 7;
const SECTORS_BITS: u32 = 15;
const SECTORS_AT: u32 = AFTER_BITS + KIND_BITS;
const START_AT: u32 = SECTORS_AT + SECTORS_BITS;

const TOGETHER: u64 = 0;
const AT: u64 = 1;
const COMPLETION: u64 = 2;
const LARGE: u64 = 3;

impl Packed {
    /// The step, the `index`-th of its chain, after one at `latest`; nothing if it does not fit.
    fn new(step: &Step, index: usize, latest: u64) -> Option<Self> {
        let &Step { after, start, sectors, kind } = step;
        let (after, time, back) = match after {
            After::Together => (TOGETHER, 0, 0),
            After::At(at) => (AT, at.checked_sub(latest)?, 0),
            After::Completion(number, think) => {
                (COMPLETION, think, (index as u64).checked_sub(number.into())?)
            }
        };
        if start >> (u64::BITS - START_AT) != 0 || sectors >> SECTORS_BITS != 0 {
            return None;
        }
        let what =
            start << START_AT | u64::from(sectors) << SECTORS_AT | u64::from(kind.0) << AFTER_BITS | after;
        Some(Self { what, time: u32::try_from(time).ok()?, back: u32::try_from(back).ok()? })
    }
}

impl Steps {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.packed.len()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Adds one behind the others.
    #[inline]
    pub(super) fn push(&mut self, step: Step) {
        let packed = Packed::new(&step, self.len(), self.latest).unwrap_or_else(|| {
            self.large.push(step);
            Packed { what: (self.large.len() as u64 - 1) << AFTER_BITS | LARGE, time: 0, back: 0 }
        });
        self.packed.push(packed);
        if let After::At(at) = step.after {
            self.latest = at;
        }
    }

    /// The `index`-th, if there are so many; `latest` is the time of the latest before it that has one, at first 0.
    pub(super) fn get(&self, index: usize, latest: u64) -> Option<Step> {
        let &Packed { what, time, back } = self.packed.get(index)?;
        let low = |from: u32, bits: u32| what >> from & ((1 << bits) - 1);
        let after = match low(0, AFTER_BITS) {
            TOGETHER => After::Together,
            AT => After::At(latest + u64::from(time)),
            COMPLETION => After::Completion(index as u32 - back, time.into()),
            _ => return self.large.get((what >> AFTER_BITS) as usize).copied(),
        };
        let kind = Kind(low(AFTER_BITS, KIND_BITS) as u8);
        Some(Step { after, start: what >> START_AT, sectors: low(SECTORS_AT, SECTORS_BITS) as u32, kind })
    }

    /// All of them.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = Step> {
        let mut latest = 0;
        (0..self.len()).filter_map(move |index| {
            let step = self.get(index, latest)?;
            if let After::At(at) = step.after {
                latest = at;
            }
            Some(step)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_as_they_were_pushed_however_large() {
        let limits = [0, 1, (1 << 15) - 1, 1 << 15, (1 << 32) - 1, 1 << 32, (1 << 40) - 1, 1 << 40, 1 << 60];
        let mut pushed = Vec::new();
        for (n, &limit) in limits.iter().enumerate() {
            let kind = Kind(127 - n as u8);
            let step = |after| Step { after, start: limit, sectors: limit as u32, kind };
            let number = pushed.len() as u32;
            pushed.extend([
                step(After::Together),
                step(After::At(limit)),
                step(After::At(limit)),
                step(After::Completion(number, limit)),
                Step { sectors: 8, start: 8, ..step(After::At(limit + 1)) },
                Step { sectors: 8, start: 8, ..step(After::Completion(0, limit)) },
            ]);
        }
        let mut steps = Steps::default();
        pushed.iter().for_each(|&step| steps.push(step));
        assert_eq!(steps.iter().collect::<Vec<_>>(), pushed);
        assert!(steps.large.len() < pushed.len(), "some of them fit");
    }
}
