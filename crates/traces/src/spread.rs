//! Distribution of arrivals within a second, for recordings with a resolution of one second.
//!
//! The requests of a second get sorted random times, drawn uniformly by a seeded generator: the order of the file is kept, and the
//! same seed yields the same times. Bursts within a second are not recorded and cannot be restored.
//!
//! In published files the end of a second and the beginning of the next are mixed (Tencent's begins with one request of a second,
//! then 276 of the one before, then one of the first again). A second therefore ends with the first request that is two seconds
//! later.

use std::collections::VecDeque;

use elevator::{Span, Time};

use crate::context::{Context, Source};
use crate::error::{Error, Position};
use crate::options::TimeUnit;
use crate::record::Record;

const SECOND: Span = Span::from_secs(1);
/// Upper bound for waiting requests. A second with more is distributed in parts, each over half of the remaining time.
const HELD_MAX: usize = 262_144;

/// Distributes the requests of `source` within their seconds if their resolution is one second, and adds a note.
pub(crate) fn spread_seconds(source: impl Source + 'static, context: &mut Context) -> Box<dyn Source> {
    if context.unit.is_none_or(|(unit, _)| unit != TimeUnit::Seconds) {
        return Box::new(source);
    }
    let seed = context.options.seed;
    context.notes.push(format!("arrivals spread within their second, seed {seed}"));
    let (held, next) = (VecDeque::new(), VecDeque::new());
    let (batch, first, at) = (Vec::new(), context.place, 0);
    Box::new(Spread {
        source,
        batch,
        first,
        at,
        random: seed,
        held,
        next,
        ahead: None,
        second: None,
        used: 0,
    })
}

struct Spread<S> {
    source: S,
    /// Requests from the source, the position of the first one, and the number of those that are used.
    batch: Vec<Record>,
    first: Position,
    at: usize,
    random: u64,
    held: VecDeque<(Record, Position)>,
    /// Requests of the next second among them.
    next: VecDeque<(Record, Position)>,
    /// The first request of a later second.
    ahead: Option<(Record, Position)>,
    /// The second that is being distributed.
    second: Option<Time>,
    /// Nanoseconds of the second that earlier parts have used.
    used: u64,
}

impl<S: Source> Source for Spread<S> {
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error> {
        if self.held.is_empty() {
            self.hold_a_second(context)?;
        }
        let Some((record, place)) = self.held.pop_front() else { return Ok(None) };
        context.place = place;
        Ok(Some(record))
    }

    fn read(&mut self, record: &mut Record, context: &mut Context) -> Result<bool, Error> {
        if self.held.is_empty() {
            self.hold_a_second(context)?;
        }
        let Some((held, place)) = self.held.front() else { return Ok(false) };
        (*record, context.place) = (*held, *place);
        self.held.pop_front();
        Ok(true)
    }

    fn read_batch(&mut self, to: &mut Vec<Record>, context: &mut Context) -> Result<(), Error> {
        if self.held.is_empty() {
            self.hold_a_second(context)?;
        }
        if let Some((_, first)) = self.held.front() {
            context.place = *first;
            let positions = (0..).map(|n| context.place.after(n));
            let count =
                self.held.iter().zip(positions).take_while(|((_, held), place)| held == place).count();
            to.extend(self.held.drain(..count).map(|(record, _)| record));
        }
        Ok(())
    }
}

impl<S: Source> Spread<S> {
    fn hold_a_second(&mut self, context: &mut Context) -> Result<(), Error> {
        self.held.append(&mut self.next);
        let mut second = self.held.front().map(|(record, _)| record.at);
        let mut whole = true;
        while let Some((record, place)) = self.read(context)? {
            let at = record.at;
            let now = *second.get_or_insert(at);
            let begun = self.second == second && self.used > 0;
            if at == now + SECOND {
                self.next.push_back((record, place));
            } else if at > now {
                self.ahead = Some((record, place));
                break;
            } else {
                if at + SECOND == now && self.next.is_empty() && !begun {
                    self.next.append(&mut self.held);
                    second = Some(at);
                }
                self.held.push_back((record, place));
            }
            if self.held.len() + self.next.len() >= HELD_MAX {
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

    fn read(&mut self, context: &mut Context) -> Result<Option<(Record, Position)>, Error> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(Some(ahead));
        }
        if self.at == self.batch.len() {
            self.at = 0;
            self.batch.clear();
            self.source.read_batch(&mut self.batch, context)?;
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
        let mut instants: Vec<u64> = self.held.iter().map(|_| self.used).collect();
        for instant in &mut instants {
            *instant += next_random(&mut self.random) % width.max(1);
        }
        instants.sort_unstable();
        for ((record, _), instant) in self.held.iter_mut().zip(instants) {
            let begin = record.at.as_nanos() / second * second;
            record.at = Time::from_nanos(begin.saturating_add(instant));
        }
        self.used += width;
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
