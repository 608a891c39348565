//! The steps of a chain, packed into twelve bytes each.
//!
//! Whole recordings are kept in memory, so a step stores its time as a difference and its dependency as a distance. The few
//! steps that do not fit are stored in a separate list.

use super::{After, Kind, Step};

/// Steps, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Steps {
    packed: Vec<Packed>,
    /// Steps that do not fit.
    large: Vec<Step>,
    /// The latest time of a step.
    latest: u64,
}

/// A step in three words of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Packed {
    /// From the lowest bit: dependency, operation and flags, length, distance of the dependency, first sector; or the index
    /// among the large steps. Lower half first.
    what: [u32; 2],
    /// Time since the latest time in the chain, or think time, in nanoseconds.
    time: u32,
}

const AFTER_BITS: u32 = 2;
const KIND_BITS: u32 = 7;
/// Requests up to 2 MiB.
const SECTORS_BITS: u32 = 12;
/// A dependency within 63 steps; most drives' queues are not deeper.
const BACK_BITS: u32 = 6;
const SECTORS_AT: u32 = AFTER_BITS + KIND_BITS;
const BACK_AT: u32 = SECTORS_AT + SECTORS_BITS;
/// The remaining bits hold a first sector up to 70 TB.
const START_AT: u32 = BACK_AT + BACK_BITS;

const TOGETHER: u64 = 0;
const AT: u64 = 1;
const COMPLETION: u64 = 2;
const LARGE: u64 = 3;

impl Packed {
    /// Packs the `index`-th step of a chain; `None` if it does not fit. `latest`: the latest time before it.
    fn new(step: &Step, index: usize, latest: u64) -> Option<Self> {
        let &Step { after, start, sectors, kind } = step;
        let (after, time, back) = match after {
            After::Together => (TOGETHER, 0, 0),
            After::At(at) => (AT, at.checked_sub(latest)?, 0),
            After::Completion(number, think) => {
                (COMPLETION, think, (index as u64).checked_sub(number.into())?)
            }
        };
        let large =
            start >> (u64::BITS - START_AT) != 0 || back >> BACK_BITS != 0 || sectors >> SECTORS_BITS != 0;
        if large {
            return None;
        }
        let place = start << START_AT | back << BACK_AT;
        let what = place | u64::from(sectors) << SECTORS_AT | u64::from(kind.0) << AFTER_BITS | after;
        Some(Self::of(what, u32::try_from(time).ok()?))
    }

    fn of(what: u64, time: u32) -> Self {
        Self { what: [what as u32, (what >> 32) as u32], time }
    }
}

impl Steps {
    /// Number of steps.
    pub(super) fn len(&self) -> usize {
        self.packed.len()
    }

    /// Whether the chain is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Appends a step.
    #[inline]
    pub(super) fn push(&mut self, step: Step) {
        let packed = Packed::new(&step, self.len(), self.latest).unwrap_or_else(|| {
            self.large.push(step);
            Packed::of((self.large.len() as u64 - 1) << AFTER_BITS | LARGE, 0)
        });
        self.packed.push(packed);
        if let After::At(at) = step.after {
            self.latest = at;
        }
    }

    /// The `index`-th step; `latest`: the latest time of the steps before it, 0 at first.
    pub(super) fn get(&self, index: usize, latest: u64) -> Option<Step> {
        let &Packed { what: [lower, upper], time } = self.packed.get(index)?;
        let what = u64::from(upper) << 32 | u64::from(lower);
        let low = |from: u32, bits: u32| what >> from & ((1 << bits) - 1);
        let after = match low(0, AFTER_BITS) {
            TOGETHER => After::Together,
            AT => After::At(latest + u64::from(time)),
            COMPLETION => After::Completion(index as u32 - low(BACK_AT, BACK_BITS) as u32, time.into()),
            _ => return self.large.get((what >> AFTER_BITS) as usize).copied(),
        };
        let kind = Kind(low(AFTER_BITS, KIND_BITS) as u8);
        Some(Step { after, start: what >> START_AT, sectors: low(SECTORS_AT, SECTORS_BITS) as u32, kind })
    }

    /// All steps.
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
    fn packing_keeps_steps_of_any_size() {
        let bits = [0, SECTORS_BITS, 32, u64::BITS - START_AT, 60, BACK_BITS];
        let limits: Vec<u64> = bits.iter().flat_map(|&bits| [(1 << bits) - 1, 1 << bits]).collect();
        let mut pushed = Vec::new();
        for (n, &limit) in limits.iter().enumerate() {
            let kind = Kind(127 - n as u8);
            let step = |after| Step { after, start: limit, sectors: limit as u32, kind };
            let number = pushed.len() as u32;
            let back = After::Completion(number.saturating_sub(limit as u32), 1);
            pushed.extend([
                Step { sectors: 8, start: 8, ..step(back) },
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
