//! md's stripe cache, as far as reads of an array with a failed member use it.
//!
//! Without it every remaining unit would be read for itself, and again to reconstruct a lost unit of the same row. A *stripe* is
//! one page of every member at the same position. Cached pages are not read again, and a page whose read is in progress is waited
//! for. As in md, pages are read whole, the least recently used stripes are dropped, and reads of an array without a failed
//! member bypass the cache.
//!
//! Not modelled: writes through the cache (here written pages are dropped), and waiting when every stripe is in use (here the
//! cache exceeds its size meanwhile).

use elevator::{Op, Sector, Sectors};
use hashbrown::HashMap;

use super::access::Part;

/// Sectors of a page.
const PAGE: u64 = 8;

/// State of a page of one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    Absent,
    /// The read with that identifier is in progress.
    Coming(u32),
    Here,
}

#[derive(Clone, Debug)]
struct Stripe {
    /// By member.
    pages: Vec<Page>,
    /// Number of the latest use.
    used: u64,
}

/// The recently read stripes.
#[derive(Clone, Debug)]
pub struct StripeCache {
    members: u32,
    stripes_max: usize,
    /// By page number.
    stripes: HashMap<u64, Stripe>,
    coming: HashMap<u32, Part>,
    uses: u64,
}

/// The pages that a part covers, by number.
fn pages(part: &Part) -> core::ops::Range<u64> {
    part.start.0 / PAGE..(part.start + part.sectors).0.div_ceil(PAGE)
}

fn is_idle(stripe: &Stripe) -> bool {
    !stripe.pages.iter().any(|page| matches!(page, Page::Coming(_)))
}

impl StripeCache {
    /// An empty cache for an array with that many members; md's default is 256 stripes.
    #[must_use]
    pub fn new(members: u32, stripes_max: u32) -> Self {
        let (stripes, coming) = (HashMap::new(), HashMap::new());
        Self { members, stripes_max: stripes_max as usize, stripes, coming, uses: 0 }
    }

    /// Reduces `reads`, sorted by member and sector, to the pages that are neither cached nor being read. Adds the identifiers of reads
    /// in progress that must be waited for to `awaited`, each once.
    pub fn leave_missing(&mut self, reads: &mut Vec<Part>, awaited: &mut Vec<u32>) {
        let mut missing: Vec<Part> = Vec::new();
        for part in reads.iter() {
            for page in pages(part) {
                match self.page(page, part.member) {
                    Page::Here => {}
                    Page::Coming(name) if awaited.contains(&name) => {}
                    Page::Coming(name) => awaited.push(name),
                    Page::Absent => add(&mut missing, part.member, page),
                }
            }
        }
        *reads = missing;
    }

    /// The state of a member's page; marks its stripe as used.
    fn page(&mut self, page: u64, member: u32) -> Page {
        self.uses += 1;
        let Some(stripe) = self.stripes.get_mut(&page) else { return Page::Absent };
        stripe.used = self.uses;
        stripe.pages[member as usize]
    }

    /// Registers a read of missing pages that is sent to its member. `name` is unique among reads in progress.
    pub fn sends(&mut self, name: u32, part: &Part) {
        self.coming.insert(name, *part);
        for page in pages(part) {
            self.uses += 1;
            let (used, members) = (self.uses, self.members as usize);
            let stripe = self
                .stripes
                .entry(page)
                .or_insert_with(|| Stripe { pages: vec![Page::Absent; members], used });
            stripe.pages[part.member as usize] = Page::Coming(name);
        }
        while self.stripes.len() > self.stripes_max && self.drop_oldest() {}
    }

    /// Drops the least recently used stripe without a read in progress, if there is one.
    fn drop_oldest(&mut self) -> bool {
        let idle = self.stripes.iter().filter(|(_, stripe)| is_idle(stripe));
        let oldest = idle.min_by_key(|(_, stripe)| stripe.used).map(|(&page, _)| page);
        oldest.is_some_and(|page| self.stripes.remove(&page).is_some())
    }

    /// Registers the end of a read; without effect if no read has that identifier. `is_done`: it did not fail.
    pub fn arrives(&mut self, name: u32, is_done: bool) {
        let Some(part) = self.coming.remove(&name) else { return };
        let now = if is_done { Page::Here } else { Page::Absent };
        self.replace(&part, |page| if page == Page::Coming(name) { now } else { page });
    }

    /// Drops pages that are being written.
    pub fn forget(&mut self, part: &Part) {
        self.replace(part, |_| Page::Absent);
    }

    fn replace(&mut self, part: &Part, now: impl Fn(Page) -> Page) {
        for number in pages(part) {
            if let Some(stripe) = self.stripes.get_mut(&number) {
                let page = &mut stripe.pages[part.member as usize];
                *page = now(*page);
            }
        }
    }
}

/// Adds a page to the reads, extending the last one if adjacent.
fn add(missing: &mut Vec<Part>, member: u32, page: u64) {
    let start = Sector(page * PAGE);
    match missing.last_mut() {
        Some(last) if last.member == member && last.start + last.sectors == start => {
            last.sectors += Sectors(PAGE as u32);
        }
        _ => missing.push(Part { member, op: Op::Read, start, sectors: Sectors(PAGE as u32) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(member: u32, start: u64, sectors: u32) -> Part {
        Part { member, op: Op::Read, start: Sector(start), sectors: Sectors(sectors) }
    }

    /// The missing parts of a read, registered under `name`, and the reads that it waits for.
    fn ask(cache: &mut StripeCache, name: u32, part: Part) -> (Vec<Part>, Vec<u32>) {
        let (mut reads, mut awaited) = (vec![part], Vec::new());
        cache.leave_missing(&mut reads, &mut awaited);
        for part in &reads {
            cache.sends(name, part);
        }
        (reads, awaited)
    }

    #[test]
    fn pages_being_read_are_awaited_and_cached_pages_are_not_read_again() {
        let mut cache = StripeCache::new(3, 256);
        assert_eq!(ask(&mut cache, 7, read(1, 0, 16)), (vec![read(1, 0, 16)], vec![]));
        assert_eq!(ask(&mut cache, 8, read(1, 8, 16)), (vec![read(1, 16, 8)], vec![7]));
        assert_eq!(ask(&mut cache, 9, read(2, 8, 8)), (vec![read(2, 8, 8)], vec![]), "another member's");
        cache.arrives(7, true);
        assert_eq!(ask(&mut cache, 10, read(1, 0, 24)), (vec![], vec![8]));
    }

    #[test]
    fn pages_are_read_whole() {
        let mut cache = StripeCache::new(3, 256);
        assert_eq!(ask(&mut cache, 1, read(0, 3, 10)).0, [read(0, 0, 16)]);
    }

    #[test]
    fn failed_and_written_pages_are_read_again() {
        let mut cache = StripeCache::new(3, 256);
        ask(&mut cache, 1, read(0, 0, 8));
        cache.arrives(1, false);
        assert_eq!(ask(&mut cache, 2, read(0, 0, 8)).0, [read(0, 0, 8)]);
        cache.forget(&read(0, 0, 8));
        cache.arrives(2, true); // The write was later: the read returned old data.
        assert_eq!(ask(&mut cache, 3, read(0, 0, 8)).0, [read(0, 0, 8)]);
    }

    #[test]
    fn the_least_recently_used_stripes_are_dropped() {
        let mut cache = StripeCache::new(3, 2);
        for name in 0..3 {
            ask(&mut cache, name, read(0, u64::from(name) * 8, 8));
        }
        assert_eq!(cache.stripes.len(), 3, "all in use");
        (0..3).for_each(|name| cache.arrives(name, true));
        assert_eq!(ask(&mut cache, 3, read(0, 0, 8)).0, [], "used again");
        ask(&mut cache, 4, read(0, 80, 8));
        assert_eq!(cache.stripes.len(), 2);
        assert_eq!(ask(&mut cache, 5, read(0, 0, 8)).0, []);
        assert_eq!(ask(&mut cache, 6, read(0, 8, 8)).0, [read(0, 8, 8)]);
    }
}
