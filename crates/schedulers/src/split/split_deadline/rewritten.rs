//! Pages that a program rewrites in the page cache. To write them early is in vain: the next writeback writes them again.

use alloc::collections::{BTreeMap, VecDeque};

use elevator::split::{File, Page};
use elevator::{Span, Time};

/// A page that becomes dirty again within this time after it was written is rewritten. The kernel writes pages that have been dirty for 30 s, so
/// that it would have written the page once. Longer: more pages are left to the kernel.
const SOON: Span = Span::from_secs(30);

/// Of pages that were not written recently, but are before the end of what was written to their file, so many count as rewritten: a program that
/// writes at random places would have to wait for the writeback of all of them before it is known to rewrite them. 64 MB, which a drive with a head
/// writes in 0.6 s if they are contiguous. If so many are dirty that were written recently, the program overwrites more than the kernel keeps dirty, or
/// than it may write at once, as it does when there are too many. More: more data reaches the device at once when the kernel writes it.
const AT_ONCE: u64 = 16_384;

pub(super) const PAGE_BYTES: u64 = 4096;
const PAGE_SECTORS: u64 = 8;

/// Pages that share an entry: the bits of a word.
const CHUNK_PAGES: u64 = 64;

type Place = (File, u64);

/// Neighbouring pages, one per bit.
#[derive(Clone, Copy)]
struct Chunk {
    /// The time of the latest write of one of them.
    at: Time,
    written: u64,
    dirty: u64,
    /// Dirty again, while their writes have not arrived yet.
    again: u64,
    /// Dirty, and rewritten.
    rewritten: u64,
    /// Rewritten because of their place.
    before_end: u64,
}

#[derive(Clone, Copy)]
struct Written {
    rewritten: u64,
    /// The end of what was written to the file.
    end: u64,
    at: Time,
}

/// The pages of background accounts that are dirty or were written recently.
#[derive(Default)]
pub(super) struct Rewritten {
    chunks: BTreeMap<Place, Chunk>,
    /// When to look whether a chunk is outdated; each chunk once.
    outdated: VecDeque<(Time, Place)>,
    files: BTreeMap<File, Written>,
    /// When to look for outdated files.
    look: Time,
    pages: u64,
    before_end: u64,
    /// More were rewritten than the kernel may write at once: until then, pages that were written recently are written early nevertheless.
    too_many: Option<Time>,
}

impl Rewritten {
    /// All rewritten dirty pages.
    pub(super) const fn pages(&self) -> u64 {
        if self.too_many.is_some() { self.before_end } else { self.pages }
    }

    /// A file's rewritten dirty pages.
    pub(super) fn pages_of(&self, file: File) -> u64 {
        self.files.get(&file).filter(|_| self.too_many.is_none()).map_or(0, |file| file.rewritten)
    }

    /// The end of what became dirty of a file recently.
    pub(super) fn end_of(&self, file: File) -> u64 {
        self.files.get(&file).map_or(0, |file| file.end)
    }

    /// A page is written.
    pub(super) fn written(&mut self, now: Time, page: &Page) {
        let (place, bit) = place(page);
        let chunk = self.chunk(now, place);
        chunk.at = now;
        chunk.written |= bit;
    }

    /// A page that was clean, or whose write is under way, became dirty.
    pub(super) fn dirtied(&mut self, now: Time, page: &Page) {
        let (place, bit) = place(page);
        let new = Written { rewritten: 0, end: 0, at: now };
        let file = self.files.entry(page.file).or_insert(new);
        let is_before_end = page.offset < file.end;
        (file.at, file.end) = (now, file.end.max(page.offset + u64::from(page.bytes)));
        let may_wait = self.before_end < AT_ONCE;
        let chunk = self.chunk(now, place);
        let is_again = chunk.dirty & bit != 0;
        chunk.again |= if is_again { bit } else { 0 };
        chunk.dirty |= bit;
        if chunk.rewritten & bit != 0 {
            return;
        }
        if is_again || chunk.written & bit != 0 && now.since(chunk.at) < SOON {
            chunk.rewritten |= bit;
        } else if is_before_end && may_wait {
            chunk.rewritten |= bit;
            chunk.before_end |= bit;
            self.before_end += 1;
        } else {
            return;
        }
        self.pages += 1;
        if let Some(file) = self.files.get_mut(&page.file) {
            file.rewritten += 1;
        }
        let is_too_many = self.pages >= self.before_end + AT_ONCE;
        self.too_many =
            if is_too_many { Some(now + SOON) } else { self.too_many.filter(|&until| now < until) };
    }

    /// A page is no longer dirty, or not counted any longer.
    pub(super) fn cleaned(&mut self, page: &Page) {
        let (place, bit) = place(page);
        let Some(chunk) = self.chunks.get_mut(&place).filter(|chunk| chunk.dirty & bit != 0) else { return };
        if chunk.again & bit != 0 {
            chunk.again &= !bit;
            return;
        }
        chunk.dirty &= !bit;
        if chunk.rewritten & bit == 0 {
            return;
        }
        chunk.rewritten &= !bit;
        self.pages -= 1;
        self.before_end -= u64::from(chunk.before_end & bit != 0);
        chunk.before_end &= !bit;
        if let Some(file) = self.files.get_mut(&page.file) {
            file.rewritten -= 1;
        }
    }

    fn chunk(&mut self, now: Time, place: Place) -> &mut Chunk {
        self.forget(now);
        let new = Chunk { at: now, written: 0, dirty: 0, again: 0, rewritten: 0, before_end: 0 };
        self.chunks.entry(place).or_insert_with(|| {
            self.outdated.push_back((now + SOON, place));
            new
        })
    }

    /// Forgets what was written long ago.
    fn forget(&mut self, now: Time) {
        while let Some(&(at, place)) = self.outdated.front()
            && at <= now
        {
            self.outdated.pop_front();
            let Some(chunk) = self.chunks.get(&place) else { continue };
            if chunk.dirty != 0 || now.since(chunk.at) < SOON {
                self.outdated.push_back((now + SOON, place));
            } else {
                self.chunks.remove(&place);
            }
        }
        if now >= self.look {
            self.look = now + SOON;
            self.files.retain(|_, file| file.rewritten > 0 || now.since(file.at) < SOON);
        }
    }
}

/// A page's chunk, and its bit there.
const fn place(page: &Page) -> (Place, u64) {
    let number = page.offset / PAGE_BYTES;
    ((page.file, number / CHUNK_PAGES), 1 << (number % CHUNK_PAGES))
}

/// Fsyncs that must not have waited for dirty pages before rewritten ones are left to the kernel.
const ENOUGH: u64 = 2;

/// The number doubles up to this one.
const MOST: u64 = 64;

/// A period without such an fsync that lasts for this number of fsyncs was no accident.
const LASTING: u64 = 16;

/// Whether transactions wait for dirty data, which depends on the file system: on ext3 a commit writes all data that was changed; on ext4 and
/// XFS only what got new blocks, or nothing. An fsync has waited if most of the dirty pages were written while it ran, by synchronous writes:
/// others are the kernel's periodic writeback.
pub(super) struct Transactions {
    /// Dirty pages at the beginning of an fsync whose writeback was not ordered.
    left: u64,
    /// Sectors of synchronous writes that arrived since.
    waited_for: u64,
    /// Fsyncs since the latest one that waited, and the number of them from which the pages are left to the kernel.
    free: u64,
    enough: u64,
}

impl Default for Transactions {
    fn default() -> Self {
        Self { left: 0, waited_for: 0, free: 0, enough: ENOUGH }
    }
}

impl Transactions {
    /// Whether they wait for dirty data, as far as is known.
    pub(super) const fn wait(&self) -> bool {
        self.free < self.enough
    }

    /// An fsync begins when so many pages are dirty, and the writeback of so many pages is ordered.
    pub(super) const fn fsync_begins(&mut self, dirty: u64, ordered: u64) {
        (self.left, self.waited_for) = (dirty.saturating_sub(ordered), 0);
    }

    /// A synchronous write arrived while an fsync runs.
    pub(super) const fn waited_for(&mut self, sectors: u64) {
        self.waited_for += sectors;
    }

    /// The fsync ends. If fewer than `least` pages were left, it shows nothing.
    pub(super) fn fsync_ends(&mut self, least: u64) {
        if self.left < least {
            return;
        }
        if self.waited_for / PAGE_SECTORS * 2 < self.left {
            self.free += 1;
            return;
        }
        if !self.wait() {
            let has_lasted = self.free >= self.enough + LASTING;
            self.enough = if has_lasted { ENOUGH } else { (self.enough * 2).min(MOST) };
        }
        self.free = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at_ms;

    fn page(number: u64) -> Page {
        Page { file: File(7), offset: number * PAGE_BYTES, bytes: 4096 }
    }

    #[test]
    fn a_page_is_rewritten_if_it_becomes_dirty_within_half_a_minute_after_it_was_written() {
        let mut rewritten = Rewritten::default();
        (0..100).for_each(|number| rewritten.dirtied(at_ms(0), &page(number)));
        assert_eq!(rewritten.pages(), 0);
        (0..100).for_each(|number| rewritten.cleaned(&page(number)));
        (0..100).for_each(|number| rewritten.written(at_ms(1000), &page(number)));
        rewritten.before_end = AT_ONCE;
        (50..80).for_each(|number| rewritten.dirtied(at_ms(30_999), &page(number)));
        rewritten.dirtied(at_ms(31_000), &page(80));
        assert_eq!(
            (rewritten.pages(), rewritten.pages_of(File(7)), rewritten.pages_of(File(8))),
            (30, 30, 0)
        );
        (49..52).for_each(|number| rewritten.cleaned(&page(number)));
        assert_eq!(rewritten.pages(), 28);
    }

    #[test]
    fn a_page_that_becomes_dirty_while_its_write_is_under_way_is_rewritten() {
        let mut rewritten = Rewritten::default();
        rewritten.dirtied(at_ms(0), &page(3));
        for _ in 0..2 {
            rewritten.dirtied(at_ms(1), &page(3));
            assert_eq!(rewritten.pages(), 1);
            rewritten.cleaned(&page(3));
            rewritten.written(at_ms(2), &page(3));
            assert_eq!(rewritten.pages(), 1, "it is dirty");
        }
        rewritten.cleaned(&page(3));
        assert_eq!((rewritten.pages(), rewritten.pages_of(File(7))), (0, 0));
    }

    #[test]
    fn some_pages_before_the_end_of_what_was_written_are_rewritten() {
        let mut rewritten = Rewritten::default();
        rewritten.dirtied(at_ms(0), &page(2 * AT_ONCE));
        (0..AT_ONCE + 9).for_each(|number| rewritten.dirtied(at_ms(0), &page(number)));
        assert_eq!(rewritten.pages(), AT_ONCE);
        (0..20).for_each(|number| rewritten.cleaned(&page(number)));
        rewritten.dirtied(at_ms(0), &page(AT_ONCE + 20));
        rewritten.dirtied(at_ms(0), &page(2 * AT_ONCE + 1));
        assert_eq!(rewritten.pages(), AT_ONCE - 19, "the last one is after the end");
        (0..=2 * AT_ONCE + 1).for_each(|number| rewritten.cleaned(&page(number)));
        assert_eq!((rewritten.pages(), rewritten.before_end), (0, 0));
    }

    #[test]
    fn many_pages_that_are_rewritten_are_not_left_to_the_kernel() {
        let mut rewritten = Rewritten::default();
        (0..AT_ONCE).for_each(|number| rewritten.dirtied(at_ms(0), &page(number)));
        (0..AT_ONCE).for_each(|number| rewritten.cleaned(&page(number)));
        (0..AT_ONCE).for_each(|number| rewritten.written(at_ms(1), &page(number)));
        let left = |rewritten: &Rewritten| (rewritten.pages(), rewritten.pages_of(File(7)));
        (0..AT_ONCE - 1).for_each(|number| rewritten.dirtied(at_ms(2), &page(number)));
        assert_eq!(left(&rewritten), (AT_ONCE - 1, AT_ONCE - 1));
        rewritten.dirtied(at_ms(2), &page(AT_ONCE - 1));
        assert_eq!(left(&rewritten), (0, 0));
        (0..100).for_each(|number| rewritten.cleaned(&page(number)));
        (0..100).for_each(|number| rewritten.written(at_ms(10_000), &page(number)));
        rewritten.dirtied(at_ms(10_000), &page(0));
        assert_eq!(left(&rewritten), (0, 0), "for half a minute");
        rewritten.dirtied(at_ms(30_002), &page(1));
        assert_eq!(rewritten.pages(), AT_ONCE - 98);
    }

    #[test]
    fn what_was_written_long_ago_is_forgotten() {
        let mut rewritten = Rewritten::default();
        (0..1000).for_each(|number| rewritten.written(at_ms(0), &page(number)));
        rewritten.dirtied(at_ms(1), &page(700));
        let other = Page { file: File(8), ..page(0) };
        rewritten.dirtied(at_ms(0), &other);
        rewritten.cleaned(&other);
        rewritten.written(at_ms(30_000), &page(5000));
        assert!(rewritten.files.keys().eq(&[File(7)]));
        assert_eq!((rewritten.chunks.len(), rewritten.outdated.len()), (2, 2), "one is dirty");
        rewritten.cleaned(&page(700));
        rewritten.written(at_ms(70_000), &page(5000));
        assert_eq!((rewritten.chunks.len(), rewritten.outdated.len(), rewritten.files.len()), (1, 1, 0));
    }

    /// An fsync at whose beginning 100 pages are dirty, some of them ordered, and which waits for `written`.
    fn fsync(transactions: &mut Transactions, ordered: u64, written: u64) -> bool {
        transactions.fsync_begins(100, ordered);
        (0..written).for_each(|_| transactions.waited_for(PAGE_SECTORS));
        transactions.fsync_ends(25);
        transactions.wait()
    }

    #[test]
    fn transactions_wait_for_dirty_pages_until_two_fsyncs_did_not() {
        let mut t = Transactions::default();
        assert!(t.wait());
        assert!(fsync(&mut t, 0, 49));
        assert!(fsync(&mut t, 80, 0), "too few were left");
        assert!(!fsync(&mut t, 40, 29), "60 were left");
        assert!(fsync(&mut t, 0, 50));
        let until_free = |t: &mut Transactions| (1..100).find(|_| !fsync(t, 0, 0));
        assert_eq!(until_free(&mut t), Some(4), "it was an accident that two did not wait");
        (0..20).for_each(|_| assert!(!fsync(&mut t, 0, 0)));
        assert!(fsync(&mut t, 0, 100));
        assert_eq!(until_free(&mut t), Some(2));
        for _ in 0..10 {
            assert!(fsync(&mut t, 0, 100));
            until_free(&mut t);
        }
        assert!(fsync(&mut t, 0, 100));
        assert_eq!(until_free(&mut t), Some(64));
    }
}
