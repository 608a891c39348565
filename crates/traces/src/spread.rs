//! Distribution of arrivals within a second, for recordings with a resolution of one second.
//!
//! The requests of a second get random times in ascending order, uniform over the second, by a seeded generator: the order of the file is kept, and
//! the same seed yields the same times. Bursts within a second are not recorded and cannot be restored.
//!
//! In published files the end of a second and the beginning of the next are mixed (Tencent's begins with one request of a second,
//! then 276 of the one before, then one of the first again). A second therefore ends with the first request that is two seconds
//! later.

use std::collections::VecDeque;
use std::ops::Range;

use elevator::{Random, Span, Time};

use crate::blocks::BATCH;
use crate::context::{Context, Source};
use crate::error::{Error, Position};
use crate::line_format::LineFormat;
use crate::lines::Lines;
use crate::options::TimeUnit;
use crate::record::{Item, Plain, Record};

const SECOND: Span = Span::from_secs(1);
/// Upper bound for waiting requests. A second with more is distributed in parts, each over half of the remaining time.
const HELD_MAX: usize = 262_144;

/// Distributes the requests of `source` within their seconds if their resolution is one second, and adds a note.
pub(crate) fn spread_seconds<F: LineFormat<Item = Plain>>(
    source: Lines<F>,
    context: &mut Context,
) -> Box<dyn Source> {
    if context.unit.is_none_or(|(unit, _)| unit != TimeUnit::Seconds) {
        return Box::new(source);
    }
    let seed = context.options.seed;
    context.notes.push(format!("arrivals spread within their second, seed {seed}"));
    Box::new(Spread {
        source,
        batch: Vec::new(),
        first: context.place,
        at: 0,
        random: Random::new(seed),
        held: Held::default(),
        next: Held::default(),
        ahead: None,
        second: None,
        used: 0,
        begun: 0,
        instants: Instants::default(),
    })
}

struct Spread<F: LineFormat<Item = Plain>> {
    source: Lines<F>,
    /// Requests from the source, the position of the first one, and the number of those that are used.
    batch: Vec<Plain>,
    first: Position,
    at: usize,
    random: Random,
    held: Held,
    /// Requests of the next second among them.
    next: Held,
    /// The first request of a later second.
    ahead: Option<(Plain, Position)>,
    /// The second that is being distributed.
    second: Option<Time>,
    /// Nanoseconds of the second that earlier parts have used.
    used: u64,
    /// The same, without the part of the held requests.
    begun: u64,
    /// The times of the held requests behind `begun`.
    instants: Instants,
}

/// Requests in the order of the file.
#[derive(Default)]
struct Held {
    records: Vec<Plain>,
    /// Number of requests that were taken.
    taken: usize,
    /// The positions of the others: those of a run follow on each other.
    runs: VecDeque<(Position, usize)>,
}

impl Held {
    fn len(&self) -> usize {
        self.records.len() - self.taken
    }

    /// Appends requests whose positions follow on each other.
    fn push(&mut self, records: &[Plain], first: Position) {
        self.records.extend_from_slice(records);
        self.push_run(first, records.len());
    }

    fn push_run(&mut self, first: Position, count: usize) {
        match self.runs.back_mut() {
            Some((begin, known)) if begin.after(*known as u64) == first => *known += count,
            _ if count == 0 => {}
            _ => self.runs.push_back((first, count)),
        }
    }

    fn append(&mut self, other: &mut Self) {
        if self.len() == 0 {
            std::mem::swap(self, other);
        } else {
            self.records.extend_from_slice(&other.records[other.taken..]);
            other.runs.iter().for_each(|&(first, count)| self.push_run(first, count));
        }
        other.clear();
    }

    fn clear(&mut self) {
        self.records.clear();
        self.runs.clear();
        self.taken = 0;
    }

    /// Takes up to `most` requests whose positions follow on each other; returns the position of the first, and their numbers.
    fn take(&mut self, most: usize) -> Option<(Position, Range<usize>)> {
        let (place, count) = self.runs.front_mut()?;
        let (first, from, taken) = (*place, self.taken, most.min(*count));
        (*place, *count) = (place.after(taken as u64), *count - taken);
        if *count == 0 {
            self.runs.pop_front();
        }
        self.taken += taken;
        Some((first, from..self.taken))
    }
}

impl<F: LineFormat<Item = Plain>> Source for Spread<F> {
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error> {
        let taken = self.take(1, context)?;
        Ok(taken.map(|range| self.timed(range.start).full()))
    }

    fn read_batch(&mut self, to: &mut Vec<Record>, context: &mut Context) -> Result<(), Error> {
        let taken = self.take(BATCH, context)?.unwrap_or_default();
        Plain::append(taken.map(|index| self.timed(index)), to);
        Ok(())
    }
}

impl<F: LineFormat<Item = Plain>> Spread<F> {
    /// The numbers of the next requests, up to `most`.
    fn take(&mut self, most: usize, context: &mut Context) -> Result<Option<Range<usize>>, Error> {
        if self.held.len() == 0 {
            self.hold_a_second(context)?;
        }
        let Some((place, taken)) = self.held.take(most) else { return Ok(None) };
        context.place = place;
        Ok(Some(taken))
    }

    /// A held request with its time.
    fn timed(&self, index: usize) -> Plain {
        let (record, instant) = (self.held.records[index], self.instants.sorted[index]);
        let begin = record.at.as_nanos() / SECOND.as_nanos() * SECOND.as_nanos();
        let at = begin.saturating_add(self.begun + u64::from(instant));
        Plain { at: Time::from_nanos(at), ..record }
    }

    fn hold_a_second(&mut self, context: &mut Context) -> Result<(), Error> {
        self.held.clear();
        self.held.append(&mut self.next);
        let mut second = self.held.records.first().map(|record| record.at);
        let mut whole = true;
        while let Some((record, place)) = self.read(context)? {
            let at = record.at;
            let now = *second.get_or_insert(at);
            let begun = self.second == second && self.used > 0;
            if at == now + SECOND {
                self.next.push(&[record], place);
            } else if at > now {
                self.ahead = Some((record, place));
                break;
            } else {
                if at + SECOND == now && self.next.len() == 0 && !begun {
                    self.next.append(&mut self.held);
                    second = Some(at);
                }
                self.held.push(&[record], place);
                if at == now {
                    self.hold_equal(now, context)?;
                }
            }
            if self.room() == 0 {
                whole = false;
                break;
            }
        }
        if self.second != second {
            self.second = second;
            self.used = 0;
        }
        self.give_instants(whole);
        Ok(())
    }

    /// The number of further requests that may wait.
    fn room(&self) -> usize {
        HELD_MAX.saturating_sub(self.held.len() + self.next.len())
    }

    /// Holds the next requests, as far as they are of this second.
    fn hold_equal(&mut self, now: Time, context: &mut Context) -> Result<(), Error> {
        let equal = |records: &[Plain]| records.iter().take_while(|record| record.at == now).count();
        let rest = &self.batch[self.at..];
        let rest = &rest[..rest.len().min(self.room())];
        let count = equal(rest);
        if count > 0 {
            self.held.push(&rest[..count], self.first.after(self.at as u64));
            self.at += count;
        }
        // Most batches are of one second: they are read to where they stay.
        while self.at == self.batch.len() && self.room() > BATCH {
            let before = self.held.records.len();
            self.source.read_plain(&mut self.held.records, context)?;
            let read = &self.held.records[before..];
            let count = equal(read);
            self.batch.clear();
            self.batch.extend_from_slice(&read[count..]);
            (self.first, self.at) = (context.place.after(count as u64), 0);
            self.held.records.truncate(before + count);
            self.held.push_run(context.place, count);
            if count == 0 {
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self, context: &mut Context) -> Result<Option<(Plain, Position)>, Error> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(Some(ahead));
        }
        if self.at == self.batch.len() {
            self.at = 0;
            self.batch.clear();
            self.source.read_plain(&mut self.batch, context)?;
            self.first = context.place;
        }
        let Some(record) = self.batch.get(self.at) else { return Ok(None) };
        self.at += 1;
        Ok(Some((*record, self.first.after(self.at as u64 - 1))))
    }

    fn give_instants(&mut self, whole: bool) {
        let second = SECOND.as_nanos();
        let left = second.saturating_sub(self.used);
        let width = if whole { left } else { left / 2 };
        self.instants.draw(self.held.records.len(), width.max(1), &mut self.random);
        self.begun = self.used;
        self.used += width;
    }
}

/// Random times in ascending order.
#[derive(Default)]
struct Instants {
    sorted: Vec<u32>,
    /// Of the gaps up to each time, in a unit of their own.
    sums: Vec<f64>,
}

impl Instants {
    /// Draws `count` times, uniformly below `width`, at most a second.
    ///
    /// The gaps between sorted uniform times are in the proportions of independent exponential variables, one more than there are times (Devroye,
    /// *Non-Uniform Random Variate Generation*, 1986, chapter V, theorem 2.2). So the times are drawn in their order, without a sort.
    fn draw(&mut self, count: usize, width: u64, random: &mut Random) {
        let Self { sorted, sums } = self;
        let mut sum = 0.0;
        let mut next = || {
            sum += exponential(random.next());
            sum
        };
        sums.clear();
        sums.extend((0..count).map(|_| next()));
        let scale = width as f64 / next();
        let last = (width - 1) as u32;
        sorted.clear();
        // A sum with 2^52 is rounded to a whole number, which is in its lowest bits. The processor adds several numbers at once; it converts them one by one.
        sorted.extend(sums.iter().map(|sum| ((sum * scale + UNITS).to_bits() as u32).min(last)));
    }
}

/// 2^52: the sum with a smaller number is whole.
const UNITS: f64 = 4_503_599_627_370_496.0;

/// `-log2(u)` of a number between 0 and 1 with these bits behind the point: exponential, to 1.2e-4. It uses only operations that yield the same bits on
/// all machines, as a library's logarithm does not.
#[inline]
fn exponential(bits: u64) -> f64 {
    /// Of the polynomial `r` for `log2(1 + x) = x (1 + (1 - x) r(x))`, which is exact at 0 and 1, with the least greatest error between.
    const R: [f64; 3] = [0.438_725_75, -0.239_058_26, 0.082_130_72];
    let bits = bits | 1;
    let zeros = bits.leading_zeros();
    // Without the highest one.
    let fraction = (bits << zeros << 1) >> 12;
    let x = f64::from_bits(1_f64.to_bits() | fraction) - 1.0;
    let r = (R[2] * x + R[1]) * x + R[0];
    f64::from(zeros) + (1.0 - x) * (1.0 - x * r)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponential_variable_is_the_logarithm() {
        let mut random = Random::new(1);
        for bits in (0..10_000).map(|_| random.next()).chain([0, 1, 1 << 62, 1 << 63, u64::MAX]) {
            // As many bits as the mantissa holds.
            let expected = 64.0 - ((bits | 1) as f64).log2();
            let found = exponential(bits);
            assert!(found >= 0.0 && (found - expected).abs() < 1.2e-4, "{bits:x}: {found}, not {expected}");
        }
    }

    /// The least distance of distributions that a test of Kolmogorov and Smirnov detects with an error of 1 in a million.
    fn distance_max(samples: usize) -> f64 {
        2.7 / (samples as f64).sqrt()
    }

    #[test]
    fn times_are_uniform_ascending_and_below_the_width() {
        for (count, width) in [(0, 7), (1, 1), (5, 1), (40, 3), (1_000, 999_999_937), (9_000, 1_000_000_000)]
        {
            let (mut instants, mut random) = (Instants::default(), Random::new(1));
            instants.draw(count, width, &mut random);
            let times = &instants.sorted;
            assert_eq!(times.len(), count);
            assert!(times.is_sorted() && times.iter().all(|&time| u64::from(time) < width), "{width}");
            for (before, &time) in times.iter().enumerate().filter(|_| width > 1_000) {
                let distance = before as f64 / count as f64 - f64::from(time) / width as f64;
                assert!(distance.abs() < distance_max(count), "{before} of {count} before {time}");
            }
        }
    }

    #[test]
    fn each_time_in_the_order_has_its_distribution() {
        // The share of draws of which the k-th of n times is later than t is that in which fewer than k are earlier.
        const COUNT: usize = 3;
        const DRAWS: usize = 20_000;
        let (mut instants, mut random) = (Instants::default(), Random::new(7));
        let mut drawn: Vec<[f64; COUNT]> = Vec::new();
        for _ in 0..DRAWS {
            instants.draw(COUNT, 1_000_000_000, &mut random);
            drawn.push(std::array::from_fn(|index| f64::from(instants.sorted[index]) / 1e9));
        }
        for tenth in 1..10 {
            let p = f64::from(tenth) / 10.0;
            let q = 1.0 - p;
            let earlier = [1.0 - q.powi(3), p * p * (3.0 - 2.0 * p), p.powi(3)];
            for (index, expected) in earlier.into_iter().enumerate() {
                let found = drawn.iter().filter(|times| times[index] < p).count() as f64 / DRAWS as f64;
                assert!(
                    (found - expected).abs() < distance_max(DRAWS),
                    "{index} before {p}: {found}, {expected}"
                );
            }
        }
    }
}
