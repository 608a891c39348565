//! Who is charged what, and when: an estimate as soon as a page is dirty; when it sets out, the estimate is given back and
//! the request pays, its bytes at once and its way when it goes. What is thrown away is given back.
//!
//! A page or request with several causes is charged to them in equal parts. Pages of different causes may share a request,
//! which then has them all.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use elevator::split::{Account, File, Page};
use elevator::{CauseSet, Op, Request};

use super::tokens::{Head, seek};

/// What is outstanding on behalf of a set of causes.
#[derive(Clone, Debug, Default)]
struct Set {
    /// Places of its members in the policy's own list.
    members: Vec<usize>,
    /// Bytes dirtied that have neither set out nor been thrown away.
    bytes: u64,
    /// What was charged for them in advance, in byte equivalents.
    estimate: u64,
}

impl Set {
    /// Takes the part of the estimate that stands for so many bytes.
    fn refund(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.bytes);
        if bytes == 0 {
            return 0;
        }
        let refund = (u128::from(self.estimate) * u128::from(bytes) / u128::from(self.bytes)) as u64;
        self.bytes -= bytes;
        self.estimate -= refund;
        refund
    }
}

/// A file with dirty pages.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// The byte behind the page that was dirtied last.
    end: u64,
    /// Dirty pages.
    pages: u64,
}

/// What accounts owe. An account is named here by its place in the policy's own list.
#[derive(Clone, Debug)]
pub struct Ledger {
    places: BTreeMap<Account, usize>,
    sets: Vec<Set>,
    files: BTreeMap<File, Written>,
    head: Head,
    /// Whether writes are charged their way.
    charges_seeks: bool,
}

/// Requests that nobody is known to have caused are this account's.
const NOBODY: Account = Account(u32::MAX);

/// Hears of each charge: an account's place, and byte equivalents, negative when some are given back.
pub type Charge<'a> = &'a mut dyn FnMut(usize, i64);

impl Ledger {
    /// An empty one, which charges writes their way or not.
    #[must_use]
    pub const fn new(charges_seeks: bool) -> Self {
        Self {
            places: BTreeMap::new(),
            sets: Vec::new(),
            files: BTreeMap::new(),
            head: Head::new(),
            charges_seeks,
        }
    }

    /// From now on writes are charged their way, or not.
    pub const fn charge_seeks(&mut self, charges_seeks: bool) {
        self.charges_seeks = charges_seeks;
    }

    /// An account's place; places are given in the order in which accounts are first heard of, from 0.
    pub fn place(&mut self, account: Account) -> usize {
        let next = self.places.len();
        *self.places.entry(account).or_insert(next)
    }

    /// How many accounts have a place.
    #[must_use]
    pub fn accounts(&self) -> usize {
        self.places.len()
    }

    /// Who is in a set. Accounts not heard of before get their places; all must be known to the policy.
    pub fn define(&mut self, set: CauseSet, members: &[Account]) {
        let members = members.iter().map(|&account| self.place(account)).collect();
        let index = set.0 as usize;
        if index >= self.sets.len() {
            self.sets.resize(index + 1, Set::default());
        }
        self.sets[index].members = members;
    }

    /// The places of a set's members; none for a set that was never defined.
    #[must_use]
    pub fn members(&self, set: CauseSet) -> &[usize] {
        self.sets.get(set.0 as usize).map_or(&[], |set| &set.members)
    }

    /// The place of the account that a request queues with: the first of its causes.
    pub fn place_of(&mut self, request: &Request) -> usize {
        let first = request.causes.and_then(|set| self.members(set).first().copied());
        first.unwrap_or_else(|| self.place(NOBODY))
    }

    /// How many of a file's pages are dirty.
    #[must_use]
    pub fn dirty_pages(&self, file: File) -> u64 {
        self.files.get(&file).map_or(0, |file| file.pages)
    }

    /// A page is dirty: its size is charged, and the way from the file's last one. If others dirtied it before, they get
    /// back what their part of it was thought to cost; if the same did, nothing changes.
    pub fn dirtied(&mut self, page: &Page, set: CauseSet, before: Option<CauseSet>, charge: Charge<'_>) {
        if before == Some(set) {
            return;
        }
        let file = self.files.entry(page.file).or_default();
        let charged = self.charges_seeks && file.pages > 0;
        let way = if charged { seek(file.end.abs_diff(page.offset)) } else { 0 };
        file.end = page.offset + u64::from(page.bytes);
        file.pages += u64::from(before.is_none());
        let estimate = u64::from(page.bytes) + way;
        if let Some(before) = before {
            self.refund(before, u64::from(page.bytes), charge);
        }
        if let Some(outstanding) = self.sets.get_mut(set.0 as usize) {
            outstanding.bytes += u64::from(page.bytes);
            outstanding.estimate += estimate;
        }
        self.split(set, estimate as i64, charge);
    }

    /// A dirty page is on its way, in a request that will pay for it, or was thrown away: what was charged is given back.
    pub fn cleaned(&mut self, page: &Page, set: CauseSet, charge: Charge<'_>) {
        if let Some(file) = self.files.get_mut(&page.file) {
            file.pages -= 1;
            if file.pages == 0 {
                self.files.remove(&page.file);
            }
        }
        self.refund(set, u64::from(page.bytes), charge);
    }

    /// A write of so many bytes entered the queue: they are charged now, as nothing stands for them any more.
    pub fn queued(&mut self, request: &Request, bytes: u64, charge: Charge<'_>) {
        if let Some(set) = request.causes.filter(|_| request.op != Op::Read) {
            self.split(set, bytes as i64, charge);
        }
    }

    /// A request goes to the device: its causes are charged its way there, and a read its bytes.
    pub fn dispatched(&mut self, request: &Request, charge: Charge<'_>) {
        let cost = self.head.moves(request.start, request.sectors);
        let owed = match request.op {
            Op::Read => cost,
            _ if self.charges_seeks => cost - request.sectors.bytes(),
            _ => 0,
        };
        if let Some(set) = request.causes {
            self.split(set, owed as i64, charge);
        }
    }

    fn refund(&mut self, set: CauseSet, bytes: u64, charge: Charge<'_>) {
        let refund = self.sets.get_mut(set.0 as usize).map_or(0, |set| set.refund(bytes));
        if refund > 0 {
            self.split(set, -(refund as i64), charge);
        }
    }

    fn split(&self, set: CauseSet, amount: i64, charge: Charge<'_>) {
        let members = self.members(set);
        for &member in members {
            charge(member, amount / members.len() as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;
    use alloc::vec;

    const A: CauseSet = CauseSet(0);
    const B: CauseSet = CauseSet(1);
    const BOTH: CauseSet = CauseSet(2);

    struct Owed {
        ledger: Ledger,
        owed: Vec<i64>,
    }

    impl Owed {
        fn new() -> Self {
            let mut ledger = Ledger::new(true);
            ledger.define(A, &[Account(10)]);
            ledger.define(B, &[Account(20)]);
            ledger.define(BOTH, &[Account(10), Account(20)]);
            Self { ledger, owed: vec![0; 2] }
        }

        fn dirty(&mut self, offset: u64, set: CauseSet, before: Option<CauseSet>) {
            let Self { ledger, owed } = self;
            ledger.dirtied(&page(offset), set, before, &mut |place, amount| owed[place] += amount);
        }

        fn clean(&mut self, offset: u64, set: CauseSet) {
            let Self { ledger, owed } = self;
            ledger.cleaned(&page(offset), set, &mut |place, amount| owed[place] += amount);
        }

        fn send(&mut self, start: u64, sectors: u32, set: CauseSet) {
            let Self { ledger, owed } = self;
            let write = Request { op: Op::Write, causes: Some(set), ..request(start, sectors) };
            ledger.queued(&write, write.sectors.bytes(), &mut |place, amount| owed[place] += amount);
            ledger.dispatched(&write, &mut |place, amount| owed[place] += amount);
        }
    }

    fn page(offset: u64) -> Page {
        Page { file: File(1), offset, bytes: 4096 }
    }

    #[test]
    fn a_page_is_charged_when_it_is_dirtied_and_not_again_by_the_same() {
        let mut t = Owed::new();
        t.dirty(0, A, None);
        t.dirty(0, A, Some(A));
        assert_eq!(t.owed, [4096, 0]);
        assert_eq!(t.ledger.dirty_pages(File(1)), 1);
    }

    #[test]
    fn the_way_from_the_files_last_page_is_part_of_the_estimate_up_to_two_mebibytes() {
        let mut t = Owed::new();
        t.dirty(0, A, None);
        t.dirty(4096 + 1000 * 4096, A, None);
        assert_eq!(t.owed[0], 4096 + 4096 + (2 << 20));
    }

    #[test]
    fn a_cause_that_joins_takes_its_half() {
        let mut t = Owed::new();
        t.dirty(0, A, None);
        t.dirty(0, BOTH, Some(A));
        assert_eq!(t.owed[0] + t.owed[1], 4096 + 4096, "the way back to the same page counts as one page");
        assert_eq!(t.owed[0], t.owed[1]);
        assert_eq!(t.ledger.dirty_pages(File(1)), 1);
    }

    #[test]
    fn where_ways_are_not_charged_a_write_is_its_pages_and_a_read_still_its_way() {
        let mut t = Owed::new();
        t.ledger.charge_seeks(false);
        t.dirty(0, A, None);
        t.dirty(100 * 4096, A, None);
        t.clean(0, A);
        t.clean(100 * 4096, A);
        t.send(1_000_000, 8, A);
        t.send(9_000_000, 8, A);
        assert_eq!(t.owed[0], 2 * 4096);
        let read = Request { op: Op::Read, causes: Some(A), ..request(0, 8) };
        let Owed { ledger, owed } = &mut t;
        ledger.dispatched(&read, &mut |place, amount| owed[place] += amount);
        assert_eq!(t.owed[0], 3 * 4096 + (2 << 20));
    }

    #[test]
    fn discarded_pages_cost_nothing() {
        let mut t = Owed::new();
        t.dirty(0, B, None);
        t.dirty(4096, B, None);
        t.clean(0, B);
        t.clean(4096, B);
        assert_eq!(t.owed, [0, 0]);
        assert_eq!(t.ledger.dirty_pages(File(1)), 0);
    }

    #[test]
    fn when_the_request_goes_the_estimate_has_given_way_to_the_true_cost() {
        let mut t = Owed::new();
        t.dirty(0, A, None);
        t.dirty(100 * 4096, A, None);
        assert_eq!(t.owed[0], 2 * 4096 + 99 * 4096);
        t.clean(0, A);
        t.clean(100 * 4096, A);
        t.send(1000, 16, A); // the file system had put both pages side by side
        assert_eq!(t.owed[0], 2 * 4096, "the first request has no way to go");
        t.send(1000, 16, A); // a journal's block: nothing was estimated
        assert_eq!(t.owed[0], 2 * 4096 + 8192 + 8192);
    }

    #[test]
    fn pages_of_two_that_share_a_request_leave_no_estimate_behind() {
        let mut t = Owed::new();
        t.dirty(0, A, None);
        t.dirty(4096, B, None);
        t.clean(0, A);
        t.clean(4096, B);
        assert_eq!(t.owed, [0, 0]);
        t.send(0, 16, BOTH);
        assert_eq!(t.owed, [4096, 4096]);
    }
}
