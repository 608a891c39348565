//! The write buffer: pages on their way to the flash, in the order of writing.
//!
//! Pages are numbered consecutively. The log holds them from the oldest that is not on flash to the newest: first those that
//! programs have taken, in units, then those that wait. "Everything written before" is therefore one number, and a flush needs no
//! search.
use std::collections::VecDeque;
use std::ops::Range;

use hashbrown::HashMap;

/// Marks a discarded page in the log. Page numbers are smaller.
const NOTHING: u64 = u64::MAX;

/// Pages of one program: `count` from number `first`.
#[derive(Clone, Copy, Debug)]
struct Unit {
    first: u64,
    count: u32,
    done: bool,
}

/// A page's copies in the buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    waiting: bool,
    /// Copies that programs have taken.
    taken: u32,
}

/// The write buffer.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    /// Pages numbered from `base`.
    log: VecDeque<u64>,
    base: u64,
    /// The number of the first page that no program has taken.
    untaken: u64,
    units: VecDeque<Unit>,
    /// Number of the first entry of `units`.
    first_unit: u64,
    held: HashMap<u64, Held>,
    room: u64,
    unit_pages: u64,
    /// Pages below this number are programmed even if they do not fill a program.
    forced: u64,
}

impl WriteBuffer {
    pub(super) fn new(pages: u64, unit_pages: u64) -> Self {
        Self {
            log: VecDeque::new(),
            base: 0,
            untaken: 0,
            units: VecDeque::new(),
            first_unit: 0,
            held: HashMap::new(),
            room: pages,
            unit_pages,
            forced: 0,
        }
    }

    /// Whether the buffer has the page.
    pub(super) fn holds(&self, page: u64) -> bool {
        !self.held.is_empty() && self.held.contains_key(&page)
    }

    /// Adds a written page; false if there is no room. A page that still waits is overwritten in place.
    pub(super) fn admit(&mut self, page: u64) -> bool {
        if self.held.get(&page).is_some_and(|held| held.waiting) {
            return true;
        }
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        self.held.entry(page).or_default().waiting = true;
        self.log.push_back(page);
        true
    }

    /// The number of the next new page: all pages so far have lower numbers.
    pub(super) fn next_number(&self) -> u64 {
        self.base + self.log.len() as u64
    }

    /// All pages below this number are on flash.
    pub(super) fn durable_below(&self) -> u64 {
        self.base
    }

    /// Programs all pages below `number`, even in incomplete programs.
    pub(super) fn force(&mut self, number: u64) {
        self.forced = self.forced.max(number);
    }

    /// Discards waiting pages. They keep their numbers and are programmed without content.
    pub(super) fn discard(&mut self, pages: &Range<u64>) {
        let waiting = (self.untaken - self.base) as usize;
        for place in self.log.range_mut(waiting..).filter(|page| pages.contains(page)) {
            if let Some(held) = self.held.get_mut(place) {
                held.waiting = false;
                if held.taken == 0 {
                    self.held.remove(place);
                }
            }
            *place = NOTHING;
        }
    }

    /// The next pages to program, if they fill a program or are forced. Returns the unit's number; passes its pages to `each`, except
    /// discarded ones.
    pub(super) fn take(&mut self, mut each: impl FnMut(u64)) -> Option<u64> {
        let waiting = self.next_number() - self.untaken;
        if waiting == 0 || (waiting < self.unit_pages && self.untaken >= self.forced) {
            return None;
        }
        let unit = Unit { first: self.untaken, count: waiting.min(self.unit_pages) as u32, done: false };
        self.untaken += u64::from(unit.count);
        for page in pages_of(&self.log, self.base, unit).filter(|&page| page != NOTHING) {
            each(page);
            let held = self.held.entry(page).or_default();
            held.waiting = false;
            held.taken += 1;
        }
        self.units.push_back(unit);
        Some(self.first_unit + self.units.len() as u64 - 1)
    }

    /// A unit has been programmed.
    pub(super) fn programmed(&mut self, name: u64) {
        let unit = &mut self.units[(name - self.first_unit) as usize];
        unit.done = true;
        let unit = *unit;
        self.room += u64::from(unit.count);
        for page in pages_of(&self.log, self.base, unit) {
            release(&mut self.held, page);
        }
        while let Some(oldest) = self.units.front().copied().filter(|unit| unit.done) {
            self.units.pop_front();
            self.first_unit += 1;
            self.base += u64::from(oldest.count);
            self.log.drain(..oldest.count as usize);
        }
    }
}

fn pages_of(log: &VecDeque<u64>, base: u64, unit: Unit) -> impl Iterator<Item = u64> {
    let first = (unit.first - base) as usize;
    log.range(first..first + unit.count as usize).copied()
}

fn release(held: &mut HashMap<u64, Held>, page: u64) {
    if let Some(entry) = held.get_mut(&page) {
        entry.taken -= 1;
        if entry.taken == 0 && !entry.waiting {
            held.remove(&page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(buffer: &mut WriteBuffer) -> Option<(u64, Vec<u64>)> {
        let mut pages = Vec::new();
        buffer.take(|page| pages.push(page)).map(|name| (name, pages))
    }

    #[test]
    fn programs_wait_until_they_are_full_or_forced() {
        let mut buffer = WriteBuffer::new(8, 2);
        assert!(buffer.admit(10));
        assert_eq!(taken(&mut buffer), None);
        assert!(buffer.admit(20) && buffer.admit(30));
        assert_eq!(taken(&mut buffer), Some((0, vec![10, 20])));
        assert_eq!(taken(&mut buffer), None);
        buffer.force(buffer.next_number());
        assert_eq!(taken(&mut buffer), Some((1, vec![30])));
    }

    #[test]
    fn a_waiting_page_is_overwritten_and_a_page_being_programmed_is_written_again() {
        let mut buffer = WriteBuffer::new(2, 1);
        assert!(buffer.admit(10) && buffer.admit(10));
        assert_eq!(buffer.next_number(), 1);
        let (first, _) = taken(&mut buffer).unwrap();
        assert!(buffer.admit(10) && !buffer.admit(20), "both copies take room");
        buffer.programmed(first);
        assert!(buffer.holds(10) && buffer.admit(20));
    }

    #[test]
    fn pages_discarded_while_waiting_are_not_written() {
        let mut buffer = WriteBuffer::new(8, 2);
        assert!([10, 20, 10, 30].into_iter().all(|page| buffer.admit(page)));
        let (first, _) = taken(&mut buffer).unwrap();
        assert!(buffer.admit(10) && buffer.admit(40));
        buffer.discard(&(0..31));
        assert!(buffer.holds(10) && buffer.holds(20), "they are on their way");
        assert!(!buffer.holds(30) && buffer.holds(40));
        assert!(buffer.admit(10), "written again");
        assert_eq!(taken(&mut buffer), Some((1, vec![])));
        assert_eq!(taken(&mut buffer), Some((2, vec![40, 10])));
        (first..3).for_each(|name| buffer.programmed(name));
        assert_eq!((buffer.durable_below(), buffer.holds(10)), (6, false));
        assert_eq!(buffer.room, 8);
    }

    #[test]
    fn pages_are_durable_up_to_the_oldest_unfinished_program() {
        let mut buffer = WriteBuffer::new(8, 1);
        for page in [1, 2, 3] {
            assert!(buffer.admit(page));
        }
        let names: Vec<u64> = (0..3).map(|_| taken(&mut buffer).unwrap().0).collect();
        buffer.programmed(names[1]);
        assert_eq!(buffer.durable_below(), 0);
        buffer.programmed(names[0]);
        assert_eq!(buffer.durable_below(), 2);
        assert!(!buffer.holds(1) && buffer.holds(3));
    }
}
