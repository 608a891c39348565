//! The steps of a chain, packed into twelve bytes each.
//!
//! Recordings are long, so a step stores its time as a difference and its dependency as a distance. The few steps that do not fit are stored
//! in a separate list. The steps of a long recording are in a [`Spill`], in segments. A segment begins with the position of the chain's next one and its own number
//! of steps, so that a recording may have any number of chains and segments: memory has only the position of each chain's first segment.

use std::io;
use std::sync::Arc;

use machine::Rest;

use super::{After, Chains, Kind, Spill, Step};

/// Steps of a segment: less than a megabyte.
const SEGMENT_STEPS: usize = 1 << 16;

/// Steps, in order, that grow.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    chain: Chain,
    /// The last segment in the spill.
    last: u64,
    /// The latest time of a step.
    latest: u64,
    rest: Segment,
}

/// Steps, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// The first segment in the spill, if there are spilled steps.
    first: u64,
    /// The first steps, which are in the spill.
    spilled: u32,
    /// The others.
    rest: Option<Box<Segment>>,
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

impl Packed {
    /// The step, which is the `index`-th of the chain; `latest`: the latest time of the steps before it, 0 at first; `large`: a step that does not
    /// fit.
    #[inline]
    fn unpack(self, index: usize, latest: u64, large: impl FnOnce(usize) -> Option<Step>) -> Option<Step> {
        let Self { what: [lower, upper], time } = self;
        let what = u64::from(upper) << 32 | u64::from(lower);
        let low = |from: u32, bits: u32| what >> from & ((1 << bits) - 1);
        let after = match low(0, AFTER_BITS) {
            TOGETHER => After::Together,
            AT => After::At(latest + u64::from(time)),
            COMPLETION => After::Completion(index as u32 - low(BACK_AT, BACK_BITS) as u32, time.into()),
            _ => return large((what >> AFTER_BITS) as usize),
        };
        let kind = Kind(low(AFTER_BITS, KIND_BITS) as u8);
        Some(Step { after, start: what >> START_AT, sectors: low(SECTORS_AT, SECTORS_BITS) as u32, kind })
    }
}

impl Segment {
    /// A segment of some of its steps.
    fn segment(&self, packed: &[Packed]) -> Self {
        let mut segment = Self { packed: packed.to_vec(), large: Vec::new() };
        for step in &mut segment.packed {
            let what = u64::from(step.what[1]) << 32 | u64::from(step.what[0]);
            if what & ((1 << AFTER_BITS) - 1) == LARGE {
                segment.large.extend(self.large.get((what >> AFTER_BITS) as usize));
                *step = Packed::of((segment.large.len() as u64 - 1) << AFTER_BITS | LARGE, 0);
            }
        }
        segment
    }

    /// As it is in the spill, without the position of a next segment.
    fn to_bytes(&self) -> Vec<u8> {
        let steps = self.packed.len() * PACKED_BYTES + self.large.len() * LARGE_BYTES;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + steps);
        bytes.extend_from_slice(&0_u64.to_le_bytes());
        bytes.extend_from_slice(&(self.packed.len() as u32).to_le_bytes());
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
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// Bytes before the steps of a segment: the position of the chain's next segment, and the number of steps.
const HEAD_BYTES: usize = 12;

/// A segment in the spill.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    from: u64,
    next: u64,
    steps: u32,
}

impl Place {
    fn open(from: u64, spill: &dyn Spill) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES];
        spill.read(from, &mut head)?;
        Ok(Self { from, next: long(&head, 0), steps: word(&head, 8) })
    }

    const fn at(self, byte: usize) -> u64 {
        self.from + (HEAD_BYTES + byte) as u64
    }

    /// Reads up to [`PIECE_STEPS`] steps from the `first`-th on.
    fn read(self, first: u32, spill: &dyn Spill, to: &mut Vec<Packed>) -> io::Result<()> {
        let mut bytes = [0; PIECE_STEPS * PACKED_BYTES];
        let steps = ((self.steps - first) as usize).min(PIECE_STEPS);
        let bytes = &mut bytes[..steps * PACKED_BYTES];
        spill.read(self.at(first as usize * PACKED_BYTES), bytes)?;
        to.clear();
        let packed = bytes.chunks_exact(PACKED_BYTES);
        to.extend(packed.map(|step| Packed { what: [word(step, 0), word(step, 4)], time: word(step, 8) }));
        Ok(())
    }

    /// Reads a step that does not fit.
    #[cold]
    fn read_large(self, number: usize, spill: &dyn Spill) -> io::Result<Step> {
        let mut step = [0; LARGE_BYTES];
        spill.read(self.at(self.steps as usize * PACKED_BYTES + number * LARGE_BYTES), &mut step)?;
        Ok(Step {
            after: match long(&step, 0) >> 8 {
                TOGETHER => After::Together,
                AT => After::At(long(&step, 8)),
                _ => After::Completion(long(&step, 8) as u32, long(&step, 16)),
            },
            start: long(&step, 24),
            sectors: word(&step, 32),
            kind: Kind(step[0]),
        })
    }
}

impl Chain {
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| rest.packed.len())
    }

    /// Number of steps.
    pub(super) fn len(&self) -> usize {
        self.spilled as usize + self.rest.as_ref().map_or(0, |rest| rest.packed.len())
    }
}

impl Steps {
    /// Number of steps.
    pub(super) fn len(&self) -> usize {
        self.chain.spilled as usize + self.rest.packed.len()
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

    /// Moves the steps in memory to the spill; after an error the others are where they were.
    pub(super) fn spill(&mut self, spill: &dyn Spill) -> io::Result<()> {
        let mut moved = 0;
        let result = self.rest.packed.chunks(SEGMENT_STEPS).try_for_each(|packed| {
            let from = spill.append(&self.rest.segment(packed).to_bytes())?;
            if self.chain.spilled == 0 {
                self.chain.first = from;
            } else {
                spill.write(self.last, &from.to_le_bytes())?;
            }
            (self.last, moved) = (from, moved + packed.len());
            self.chain.spilled += packed.len() as u32;
            Ok(())
        });
        if result.is_ok() {
            self.rest = Segment::default();
        } else {
            self.rest.packed.drain(..moved);
        }
        result
    }

    /// The chain, which grows no more.
    pub(super) fn finish(self) -> Chain {
        let Self { mut chain, rest, .. } = self;
        chain.rest = (!rest.packed.is_empty()).then(|| Box::new(rest));
        chain
    }
}

/// Steps of a segment that a reader has in memory: 1.5 KiB, because each run reads up to thousands of chains at once.
const PIECE_STEPS: usize = 128;

/// Reads the steps of a chain in order.
pub(super) struct Reader {
    replay: Arc<Chains>,
    chain: u32,
    /// The number of the next step.
    index: u32,
    /// The present segment, and the number of its steps before those in `piece`.
    place: Place,
    before: u32,
    /// The latest steps that were read from the spill; the next one is at `at`.
    piece: Vec<Packed>,
    at: u32,
    /// The latest time of a step.
    latest: u64,
}

impl Reader {
    pub(super) fn new(replay: Arc<Chains>, chain: usize) -> Self {
        let place = Place { next: replay.steps(chain).first, ..Place::default() };
        Self { replay, chain: chain as u32, index: 0, place, before: 0, piece: Vec::new(), at: 0, latest: 0 }
    }

    /// The next step. The chain ends where the spill cannot be read; the spill keeps the failure.
    pub(super) fn next(&mut self) -> Option<Step> {
        let chain = self.replay.steps(self.chain as usize);
        let step = if self.index < chain.spilled {
            self.next_spilled()
        } else {
            let Segment { packed, large } = chain.rest.as_deref()?;
            let packed = packed.get((self.index - chain.spilled) as usize)?;
            packed.unpack(self.index as usize, self.latest, |number| large.get(number).copied())
        }?;
        self.index += 1;
        if let After::At(at) = step.after {
            self.latest = at;
        }
        Some(step)
    }

    /// The latest time of a step that was read.
    pub(super) const fn latest(&self) -> u64 {
        self.latest
    }

    /// Reads the next steps from the spill.
    #[inline(never)]
    fn read_piece(&mut self) -> Option<()> {
        let spill = self.replay.spill.as_deref()?;
        self.before += self.piece.len() as u32;
        if self.before == self.place.steps {
            self.place = Place::open(self.place.next, spill).ok()?;
            self.before = 0;
        }
        self.place.read(self.before, spill, &mut self.piece).ok()?;
        self.at = 0;
        Some(())
    }

    fn next_spilled(&mut self) -> Option<Step> {
        if self.at as usize == self.piece.len() {
            self.read_piece()?;
        }
        let packed = *self.piece.get(self.at as usize)?;
        self.at += 1;
        let (place, spill) = (self.place, self.replay.spill.as_deref()?);
        packed.unpack(self.index as usize, self.latest, |number| place.read_large(number, spill).ok())
    }

    /// The place of the step that was read last, and the latest time up to it.
    pub(super) fn rest(&self) -> Rest {
        let within = self.before + self.at.saturating_sub(1);
        [self.place.from, u64::from(within) << 32 | u64::from(self.index - 1), self.latest]
    }

    /// Goes to the step at which [`rest`](Self::rest) was called, and reads it again.
    pub(super) fn resume(&mut self, [from, numbers, latest]: Rest) -> Option<Step> {
        self.index = submitted(numbers);
        if self.index < self.replay.steps(self.chain as usize).spilled {
            let spill = self.replay.spill.as_deref()?;
            self.place = Place::open(from, spill).ok()?;
            self.before = (numbers >> 32) as u32;
        }
        let step = self.next();
        self.latest = latest;
        step
    }
}

/// The number of the step in the second word of a [`Reader::rest`].
pub(super) const fn submitted(numbers: u64) -> u32 {
    numbers as u32
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

        fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.lock().unwrap()[at as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
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
    use super::super::Chain;
    use super::in_memory::InMemory;
    use super::*;

    fn chains(steps: Steps, spill: Option<Arc<dyn Spill>>) -> Arc<Chains> {
        let chains = vec![Chain { who: 0, steps: steps.finish() }];
        Arc::new(Chains { chains, who: Vec::new(), names: Vec::new(), has_group: false, spill, open: false })
    }

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
        // As it is, and with a rest at each step.
        let read = |steps: Steps, spill: Option<Arc<dyn Spill>>| {
            let chains = chains(steps, spill);
            let mut reader = Reader::new(Arc::clone(&chains), 0);
            let read: Vec<Step> = std::iter::from_fn(|| reader.next()).collect();
            let mut rest = None;
            for (number, step) in read.iter().enumerate() {
                let mut reader = Reader::new(Arc::clone(&chains), 0);
                if let Some(rest) = rest {
                    let resumed = reader.resume(rest).map(|step| step.io());
                    assert_eq!(resumed, Some(read[number - 1].io()), "step {number}");
                }
                assert_eq!(reader.next(), Some(*step), "step {number}");
                rest = Some(reader.rest());
                assert_eq!(submitted(reader.rest()[1]) as usize, number);
            }
            read
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
        assert!(steps.last > steps.chain.first, "two segments");
        let mut reader = Reader::new(chains(steps, Some(memory)), 0);
        (0..3 * SEGMENT_STEPS as u64 / 2).for_each(|n| assert_eq!(reader.next(), Some(step(n))));
        assert_eq!(reader.next(), None);
    }
}
