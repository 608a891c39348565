//! The steps of a chain, packed into twelve bytes each.
//!
//! Recordings are long, so a step stores its time as a difference and its dependency as a distance. The few steps that do not fit are stored
//! in a separate list. The first steps of a long chain are in a [`Spill`], in segments.

use std::io;
use std::sync::Arc;

use super::{After, Kind, Spill, Step};

/// Steps of a segment: less than a megabyte.
const SEGMENT_STEPS: usize = 1 << 16;

/// Steps, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    /// The first steps.
    spilled: Vec<Place>,
    spilled_steps: usize,
    /// The others.
    rest: Segment,
    /// The latest time of a step.
    latest: u64,
}

/// The place of a segment in the spill.
#[derive(Clone, Copy, Debug)]
struct Place {
    from: u64,
    steps: u32,
    large: u32,
}

/// Steps in memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Segment {
    packed: Vec<Packed>,
    /// Steps that do not fit.
    large: Vec<Step>,
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

/// Bytes of a packed step.
const PACKED_BYTES: usize = 12;
/// Bytes of a step that does not fit: dependency, its two numbers, sector, length, operation.
const LARGE_BYTES: usize = 36;

impl Segment {
    /// The step at `at`, which is the `index`-th of the chain; `latest`: the latest time of the steps before it, 0 at first.
    fn get(&self, at: usize, index: usize, latest: u64) -> Option<Step> {
        let &Packed { what: [lower, upper], time } = self.packed.get(at)?;
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

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.packed.len() * PACKED_BYTES + self.large.len() * LARGE_BYTES);
        for Packed { what: [lower, upper], time } in &self.packed {
            for word in [lower, upper, time] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        for step in &self.large {
            let (after, first, second) = match step.after {
                After::Together => (TOGETHER, 0, 0),
                After::At(at) => (AT, at, 0),
                After::Completion(number, think) => (COMPLETION, number.into(), think),
            };
            for word in [after << 8 | u64::from(step.kind.0), first, second, step.start] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            bytes.extend_from_slice(&step.sectors.to_le_bytes()[..]);
        }
        bytes
    }

    /// The segment at `place`.
    fn read(place: Place, spill: &dyn Spill) -> io::Result<Self> {
        let packed_bytes = place.steps as usize * PACKED_BYTES;
        let mut bytes = vec![0; packed_bytes + place.large as usize * LARGE_BYTES];
        spill.read(place.from, &mut bytes)?;
        let (packed, large) = bytes.split_at(packed_bytes);
        let word =
            |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let long =
            |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let packed = packed.chunks_exact(PACKED_BYTES);
        let packed = packed.map(|step| Packed { what: [word(step, 0), word(step, 4)], time: word(step, 8) });
        let large = large.chunks_exact(LARGE_BYTES).map(|step| Step {
            after: match long(step, 0) >> 8 {
                TOGETHER => After::Together,
                AT => After::At(long(step, 8)),
                _ => After::Completion(long(step, 8) as u32, long(step, 16)),
            },
            start: long(step, 24),
            sectors: word(step, 32),
            kind: Kind(step[0]),
        });
        Ok(Self { packed: packed.collect(), large: large.collect() })
    }
}

impl Steps {
    /// Number of steps.
    pub(super) fn len(&self) -> usize {
        self.spilled_steps + self.rest.packed.len()
    }

    /// Whether the chain is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of steps in memory.
    pub(super) fn in_memory(&self) -> usize {
        self.rest.packed.len()
    }

    /// Appends a step.
    #[inline]
    pub(super) fn push(&mut self, step: Step) {
        let index = self.len();
        let Segment { packed, large } = &mut self.rest;
        let new = Packed::new(&step, index, self.latest).unwrap_or_else(|| {
            large.push(step);
            Packed::of((large.len() as u64 - 1) << AFTER_BITS | LARGE, 0)
        });
        packed.push(new);
        if let After::At(at) = step.after {
            self.latest = at;
        }
    }

    /// Moves the steps in memory to the spill; after an error they are where they were.
    pub(super) fn spill(&mut self, spill: &dyn Spill) -> io::Result<()> {
        let mut places = Vec::new();
        for packed in self.rest.packed.chunks(SEGMENT_STEPS) {
            let mut segment = Segment { packed: packed.to_vec(), large: Vec::new() };
            for step in &mut segment.packed {
                let what = u64::from(step.what[1]) << 32 | u64::from(step.what[0]);
                if what & ((1 << AFTER_BITS) - 1) == LARGE {
                    segment.large.extend(self.rest.large.get((what >> AFTER_BITS) as usize));
                    *step = Packed::of((segment.large.len() as u64 - 1) << AFTER_BITS | LARGE, 0);
                }
            }
            let from = spill.append(&segment.to_bytes())?;
            places.push(Place { from, steps: packed.len() as u32, large: segment.large.len() as u32 });
        }
        self.spilled_steps += self.rest.packed.len();
        self.spilled.extend(places);
        self.rest = Segment::default();
        Ok(())
    }
}

/// Reads the steps of a chain in order.
pub(super) struct Reader {
    steps: Arc<Steps>,
    spill: Option<Arc<dyn Spill>>,
    /// Number of segments read.
    segments: usize,
    /// The present segment, if it is not in memory.
    segment: Option<Segment>,
    /// Number of steps before the segment.
    before: usize,
    index: usize,
    /// The latest time of a step.
    latest: u64,
}

impl Reader {
    pub(super) fn new(steps: Arc<Steps>, spill: Option<Arc<dyn Spill>>) -> Self {
        Self { steps, spill, segments: 0, segment: None, before: 0, index: 0, latest: 0 }
    }

    /// The next step. The chain ends where the spill cannot be read; the spill keeps the failure.
    pub(super) fn next(&mut self) -> Option<Step> {
        let at = self.index - self.before;
        let is_over = self.segment.as_ref().is_none_or(|segment| at == segment.packed.len());
        let step = if is_over && self.segments < self.steps.spilled.len() {
            let spill = self.spill.as_ref()?;
            let segment = Segment::read(self.steps.spilled[self.segments], &**spill).ok()?;
            (self.segments, self.before) = (self.segments + 1, self.index);
            self.segment.insert(segment).get(0, self.index, self.latest)
        } else if is_over {
            self.segment = None;
            self.steps.rest.get(self.index - self.steps.spilled_steps, self.index, self.latest)
        } else {
            self.segment.as_ref()?.get(at, self.index, self.latest)
        }?;
        self.index += 1;
        if let After::At(at) = step.after {
            self.latest = at;
        }
        Some(step)
    }
}

/// A spill for tests.
#[cfg(test)]
pub(super) mod in_memory {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default, Debug)]
    pub(in crate::replay) struct InMemory(Mutex<Vec<u8>>);

    impl Spill for InMemory {
        fn append(&self, bytes: &[u8]) -> io::Result<u64> {
            let mut all = self.0.lock().unwrap();
            all.extend_from_slice(bytes);
            Ok((all.len() - bytes.len()) as u64)
        }

        fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
            into.copy_from_slice(&self.0.lock().unwrap()[from as usize..][..into.len()]);
            Ok(())
        }

        fn failure(&self) -> Option<String> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::in_memory::InMemory;
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
        assert!(steps.rest.large.len() < pushed.len(), "some of them fit");
        let read = |steps: Steps, spill: Option<Arc<dyn Spill>>| {
            let mut reader = Reader::new(Arc::new(steps), spill);
            std::iter::from_fn(|| reader.next()).collect::<Vec<_>>()
        };
        assert_eq!(read(steps, None), pushed);
        for every in [1, 7, pushed.len() - 1, pushed.len()] {
            let memory = Arc::new(InMemory::default());
            let mut steps = Steps::default();
            for (n, &step) in pushed.iter().enumerate() {
                steps.push(step);
                if (n + 1) % every == 0 {
                    steps.spill(&*memory).unwrap();
                }
            }
            assert_eq!((steps.len(), steps.in_memory()), (pushed.len(), pushed.len() % every));
            assert_eq!(read(steps, Some(memory)), pushed, "every {every} steps");
        }
    }

    #[test]
    fn a_long_chain_is_spilled_in_segments() {
        let memory = Arc::new(InMemory::default());
        let step = |n: u64| Step { after: After::At(n << (n % 40)), start: n, sectors: 8, kind: Kind(0) };
        let mut steps = Steps::default();
        (0..3 * SEGMENT_STEPS as u64 / 2).for_each(|n| steps.push(step(n)));
        steps.spill(&*memory).unwrap();
        assert_eq!(steps.spilled.len(), 2);
        let mut reader = Reader::new(Arc::new(steps), Some(memory));
        (0..3 * SEGMENT_STEPS as u64 / 2).for_each(|n| assert_eq!(reader.next(), Some(step(n))));
        assert_eq!(reader.next(), None);
    }
}
