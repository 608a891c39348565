//! Charges to accounts. A dirtied page is charged an estimate. When the page is submitted, the estimate is refunded and
//! the request is charged instead: its bytes at once, its seek at dispatch. The estimate of a discarded page is refunded.
//!
//! A page or request with several causes is charged to them in equal parts. Pages with different causes may share a request,
//! which then has all of these causes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use elevator::split::{Account, File, Page};
use elevator::{CauseSet, Op, Request};

use super::tokens::{Head, seek};

/// The dirty data of a set of causes.
#[derive(Clone, Debug, Default)]
struct Set {
    /// Indexes of its members in the policy's list.
    members: Vec<usize>,
    /// Dirtied bytes that were neither submitted nor discarded.
    bytes: u64,
    /// The estimate charged for them, in byte equivalents.
    estimate: u64,
}

impl Set {
    /// Removes and returns the part of the estimate for `bytes`.
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
    /// The end of the page that was dirtied last, in bytes.
    end: u64,
    /// Dirty pages.
    pages: u64,
}

/// The charges to accounts. `place` is an account's index in the policy's list.
#[derive(Clone, Debug)]
pub struct Ledger {
    places: BTreeMap<Account, usize>,
    sets: Vec<Set>,
    files: BTreeMap<File, Written>,
    /// Dirty metadata on the device: the end of each block by its beginning, in bytes.
    metadata: BTreeMap<u64, u64>,
    head: Head,
    /// Whether writes are charged their seeks.
    charges_seeks: bool,
    /// Whether the device has a head. Without one a request costs its size.
    has_head: bool,
}

/// The account of requests without known causes.
const NO_CAUSE: Account = Account(u32::MAX);

/// Receives each charge: an account's index and byte equivalents, negative for a refund.
pub type Charge<'a> = &'a mut dyn FnMut(usize, i64);

impl Ledger {
    /// Without charges. `charges_seeks`: whether writes are charged their seeks.
    #[must_use]
    pub const fn new(charges_seeks: bool) -> Self {
        Self {
            places: BTreeMap::new(),
            sets: Vec::new(),
            files: BTreeMap::new(),
            metadata: BTreeMap::new(),
            head: Head::new(),
            charges_seeks,
            has_head: true,
        }
    }

    /// For a device without a head, if `has_head` is false: reads and writes cost their bytes, and nothing for their distance.
    #[must_use]
    pub const fn for_device(mut self, has_head: bool) -> Self {
        self.has_head = has_head;
        self
    }

    /// Sets whether writes are charged their seeks from now on.
    pub const fn charge_seeks(&mut self, charges_seeks: bool) {
        self.charges_seeks = charges_seeks;
    }

    /// An account's index. Indexes are assigned from 0 in the order of first use.
    pub fn place(&mut self, account: Account) -> usize {
        let next = self.places.len();
        *self.places.entry(account).or_insert(next)
    }

    /// The accounts that the host defines, with their indexes.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Account, usize)> {
        self.places
            .iter()
            .map(|(&account, &place)| (account, place))
            .filter(|&(account, _)| account != NO_CAUSE)
    }

    /// The number of accounts with an index.
    #[must_use]
    pub fn accounts(&self) -> usize {
        self.places.len()
    }

    /// Defines the members of a set. New accounts get an index; the policy must have data for each of them.
    pub fn define(&mut self, set: CauseSet, members: &[Account]) {
        let members = members.iter().map(|&account| self.place(account)).collect();
        let index = set.0 as usize;
        if index >= self.sets.len() {
            self.sets.resize(index + 1, Set::default());
        }
        self.sets[index].members = members;
    }

    /// The indexes of a set's members; none for an undefined set.
    #[must_use]
    pub fn members(&self, set: CauseSet) -> &[usize] {
        self.sets.get(set.0 as usize).map_or(&[], |set| &set.members)
    }

    /// The index of the account in whose queue a request is: the first of its causes.
    pub fn place_of(&mut self, request: &Request) -> usize {
        let first = request.causes.and_then(|set| self.members(set).first().copied());
        first.unwrap_or_else(|| self.place(NO_CAUSE))
    }

    /// The number of a file's dirty pages.
    #[must_use]
    pub fn dirty_pages(&self, file: File) -> u64 {
        self.files.get(&file).map_or(0, |file| file.pages)
    }

    /// A page was dirtied: charges its size and the seek from the file's last dirtied page, or for metadata what it adds to the cost of a pass
    /// over all dirty metadata. If another set had dirtied it before, that set is refunded its estimate; if the same set had,
    /// nothing changes.
    pub fn dirtied(&mut self, page: &Page, set: CauseSet, before: Option<CauseSet>, charge: Charge<'_>) {
        if before == Some(set) {
            return;
        }
        let file = self.files.entry(page.file).or_default();
        let charged = self.has_head && self.charges_seeks && file.pages > 0;
        let end = page.offset + u64::from(page.bytes);
        let estimate = match charged {
            true if page.file.is_metadata() => added(&self.metadata, page.offset, end),
            true => u64::from(page.bytes) + seek(file.end.abs_diff(page.offset)),
            false => u64::from(page.bytes),
        };
        file.end = end;
        file.pages += u64::from(before.is_none());
        if page.file.is_metadata() {
            self.metadata.insert(page.offset, end);
        }
        if let Some(before) = before {
            self.refund(before, u64::from(page.bytes), charge);
        }
        if let Some(outstanding) = self.sets.get_mut(set.0 as usize) {
            outstanding.bytes += u64::from(page.bytes);
            outstanding.estimate += estimate;
        }
        self.split(set, estimate as i64, charge);
    }

    /// A dirty page was submitted, in a request that is charged instead, or discarded: refunds its estimate.
    pub fn cleaned(&mut self, page: &Page, set: CauseSet, charge: Charge<'_>) {
        if page.file.is_metadata() {
            self.metadata.remove(&page.offset);
        }
        if let Some(file) = self.files.get_mut(&page.file) {
            file.pages -= 1;
            if file.pages == 0 {
                self.files.remove(&page.file);
            }
        }
        self.refund(set, u64::from(page.bytes), charge);
    }

    /// A write entered the queue or grew by `bytes`, which are charged now.
    pub fn queued(&mut self, request: &Request, bytes: u64, charge: Charge<'_>) {
        if let Some(set) = request.causes.filter(|_| request.op != Op::Read) {
            self.split(set, bytes as i64, charge);
        }
    }

    /// A request is dispatched: charges its causes its seek, and for a read also its bytes.
    pub fn dispatched(&mut self, request: &Request, charge: Charge<'_>) {
        let cost = self.head.moves(request.start, request.sectors);
        let bytes = request.sectors.bytes();
        let seek = if self.has_head { cost - bytes } else { 0 };
        let owed = match request.op {
            Op::Read => bytes + seek,
            _ if self.charges_seeks => seek,
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

/// What a block adds to the cost of a pass over dirty metadata in the order of positions, in which the kernel writes it. The sum over blocks does
/// not depend on the order in which they become dirty: a transaction reports them in an order of its own, in which nearly each would be a long seek.
fn added(metadata: &BTreeMap<u64, u64>, start: u64, end: u64) -> u64 {
    let before = metadata.range(..start).next_back().map(|(_, &before)| before);
    let after = metadata.range(start + 1..).next().map(|(&after, _)| after);
    let gap = |from: Option<u64>, to: Option<u64>| {
        from.zip(to).map_or(0, |(from, to)| seek(to.saturating_sub(from)))
    };
    (end - start + gap(before, Some(start)) + gap(Some(end), after)).saturating_sub(gap(before, after))
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

        /// Two pages that are far from each other, in two requests; without charged seeks.
        fn write_far_pages(&mut self) {
            for offset in [0, 100 * 4096] {
                self.dirty(offset, A, None);
            }
            assert_eq!(self.owed[0], 2 * 4096, "the estimate has no seek");
            for offset in [0, 100 * 4096] {
                self.clean(offset, A);
            }
            self.send(1_000_000, 8, A);
            self.send(9_000_000, 8, A);
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
    fn a_page_is_charged_once_per_set() {
        let mut t = Owed::new();
        t.dirty(0, A, None);
        t.dirty(0, A, Some(A));
        assert_eq!(t.owed, [4096, 0]);
        assert_eq!(t.ledger.dirty_pages(File(1)), 1);
    }

    #[test]
    fn the_estimate_includes_a_seek_of_up_to_two_mebibytes() {
        let mut t = Owed::new();
        t.dirty(0, A, None);
        t.dirty(4096 + 1000 * 4096, A, None);
        assert_eq!(t.owed[0], 4096 + 4096 + (2 << 20));
    }

    #[test]
    fn metadata_is_charged_as_one_pass_over_it_in_whatever_order_it_becomes_dirty() {
        const MIB: u64 = 1 << 20;
        // Two runs of neighbours, and between them a gap of 1 MiB; another block is far.
        let sorted = [0, 4096, 8192, 12288 + MIB, 16384 + MIB, 900 * MIB];
        let cost = 6 * 4096 + MIB + 2 * MIB;
        for order in [[0, 1, 2, 3, 4, 5], [5, 0, 4, 1, 3, 2], [2, 5, 1, 4, 0, 3]] {
            let mut t = Owed::new();
            let Owed { ledger, owed } = &mut t;
            let blocks = order.map(|n| Page { file: File::METADATA, ..page(sorted[n]) });
            let mut charge = |place: usize, amount| owed[place] += amount;
            blocks.iter().for_each(|block| ledger.dirtied(block, A, None, &mut charge));
            blocks.iter().for_each(|block| ledger.dirtied(block, A, Some(A), &mut charge));
            blocks.iter().for_each(|block| ledger.cleaned(block, A, &mut charge));
            blocks.iter().for_each(|block| ledger.dirtied(block, B, None, &mut charge));
            assert_eq!(t.owed, [0, cost as i64], "{order:?}");
        }
    }

    #[test]
    fn a_further_cause_is_charged_half() {
        let mut t = Owed::new();
        t.dirty(0, A, None);
        t.dirty(0, BOTH, Some(A));
        assert_eq!(t.owed[0] + t.owed[1], 4096 + 4096, "the seek back to the same page counts as one page");
        assert_eq!(t.owed[0], t.owed[1]);
        assert_eq!(t.ledger.dirty_pages(File(1)), 1);
    }

    #[test]
    fn without_charged_seeks_only_reads_are_charged_seeks() {
        let mut t = Owed::new();
        t.ledger.charge_seeks(false);
        t.write_far_pages();
        assert_eq!(t.owed[0], 2 * 4096);
        let read = Request { op: Op::Read, causes: Some(A), ..request(0, 8) };
        let Owed { ledger, owed } = &mut t;
        ledger.dispatched(&read, &mut |place, amount| owed[place] += amount);
        assert_eq!(t.owed[0], 3 * 4096 + (2 << 20));
    }

    #[test]
    fn without_a_head_everything_costs_its_bytes() {
        let mut t = Owed::new();
        t.ledger = t.ledger.for_device(false);
        t.write_far_pages();
        let read = Request { op: Op::Read, causes: Some(A), ..request(0, 8) };
        let Owed { ledger, owed } = &mut t;
        ledger.dispatched(&read, &mut |place, amount| owed[place] += amount);
        assert_eq!(owed[0], 3 * 4096);
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
    fn at_dispatch_the_true_cost_replaces_the_estimate() {
        let mut t = Owed::new();
        t.dirty(0, A, None);
        t.dirty(100 * 4096, A, None);
        assert_eq!(t.owed[0], 2 * 4096 + 99 * 4096);
        t.clean(0, A);
        t.clean(100 * 4096, A);
        t.send(1000, 16, A); // both pages are adjacent on the device
        assert_eq!(t.owed[0], 2 * 4096, "the first request is charged no seek");
        t.send(1000, 16, A); // a journal block, which has no estimate
        assert_eq!(t.owed[0], 2 * 4096 + 8192 + 8192);
    }

    #[test]
    fn pages_of_two_sets_in_one_request_leave_no_estimate() {
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
