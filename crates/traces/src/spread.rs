//! Distribution of arrivals within a second, for recordings with a resolution of one second.
//!
//! The requests of a second get sorted random times, drawn uniformly by a seeded generator: the order of the file is kept, and the
//! same seed yields the same times. Bursts within a second are not recorded and cannot be restored.
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
        Ok(taken.map(|range| self.timed(range.start)))
    }

    fn read_batch(&mut self, to: &mut Vec<Record>, context: &mut Context) -> Result<(), Error> {
        let taken = self.take(BATCH, context)?.unwrap_or_default();
        to.extend(taken.map(|index| self.timed(index)));
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
    fn timed(&self, index: usize) -> Record {
        let (record, instant) = (self.held.records[index], self.instants.sorted[index]);
        let begin = record.at.as_nanos() / SECOND.as_nanos() * SECOND.as_nanos();
        let at = begin.saturating_add(self.begun + u64::from(instant));
        Plain { at: Time::from_nanos(at), ..record }.full()
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
                    self.hold_equal(now);
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

    /// Holds the next requests of the batch, as far as they are of this second.
    fn hold_equal(&mut self, now: Time) {
        let rest = &self.batch[self.at..];
        let rest = &rest[..rest.len().min(self.room())];
        let count = rest.iter().take_while(|record| record.at == now).count();
        if count > 0 {
            self.held.push(&rest[..count], self.first.after(self.at as u64));
            self.at += count;
        }
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
    drawn: Vec<u32>,
    /// By bucket, the number of times in it, then the place of its next one.
    buckets: Vec<u32>,
}

impl Instants {
    /// Draws `count` times below `width`, at most a second.
    fn draw(&mut self, count: usize, width: u64, random: &mut Random) {
        let Self { sorted, drawn, buckets } = self;
        // Drawn uniformly, so they are sorted in linear time: into as many buckets of equal width as there are times, then within each by insertion.
        let bucket_count = count.max(1) as u64;
        let scale = (bucket_count << u32::BITS) / width;
        let bucket = |time: u32| ((u64::from(time) * scale) >> u32::BITS) as usize;
        buckets.clear();
        buckets.resize(bucket_count as usize, 0);
        drawn.clear();
        drawn.extend((0..count).map(|_| {
            // Usually a whole second: a division by a constant is a multiplication.
            let time = match random.next() {
                number if width == SECOND.as_nanos() => (number % SECOND.as_nanos()) as u32,
                number => (number % width) as u32,
            };
            buckets[bucket(time)] += 1;
            time
        }));
        let mut before = 0;
        for count in &mut *buckets {
            before += std::mem::replace(count, before);
        }
        sorted.resize(count, 0);
        for &time in &*drawn {
            let place = &mut buckets[bucket(time)];
            sorted[*place as usize] = time;
            *place += 1;
        }
        insert_in_order(sorted);
    }
}

/// Sorts numbers that are near their places.
fn insert_in_order(numbers: &mut [u32]) {
    for from in 1..numbers.len() {
        let number = numbers[from];
        let mut to = from;
        while to > 0 && numbers[to - 1] > number {
            numbers[to] = numbers[to - 1];
            to -= 1;
        }
        numbers[to] = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_are_drawn_in_ascending_order() {
        for (count, width) in [(0, 7), (1, 1), (5, 1), (40, 3), (1_000, 999_999_937), (9_000, 1_000_000_000)]
        {
            let (mut instants, mut random) = (Instants::default(), Random::new(1));
            instants.draw(count, width, &mut random);
            let mut again = Random::new(1);
            let mut drawn: Vec<u32> = (0..count).map(|_| (again.next() % width) as u32).collect();
            drawn.sort_unstable();
            assert_eq!(instants.sorted, drawn, "{count} below {width}");
            assert_eq!(random, again);
        }
    }
}
