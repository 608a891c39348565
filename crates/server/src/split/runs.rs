//! The causes of requests: what was submitted to the attached device is joined with what arrives by sector.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeBounds;

use elevator::split::{File, Page};
use elevator::{CauseSet, SECTOR_BYTES, Sector, Sectors, Span, Time};

/// Submissions that are remembered: many times those in flight.
const REMEMBERED: usize = 8192;

/// The kind of a submission.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    /// A write that did not pass the page cache.
    Direct,
}

/// A submission.
struct Run {
    is_read: bool,
    /// Of a direct write.
    is_direct: bool,
    start: Sector,
    end: Sector,
    causes: CauseSet,
}

/// A page that was submitted, and whose request has not arrived.
struct Submitted {
    page: Page,
    causes: CauseSet,
    at: Time,
}

/// How long a request may take from its submission, in the queue of the attached device. Some never arrive, as after an error there.
const LATEST: Span = Span::from_secs(120);

/// The latest submissions.
#[derive(Default)]
pub(super) struct Runs {
    runs: VecDeque<Run>,
    /// By sector, file and offset. The kernel submits the dirty pages of a file faster than the device takes them: an estimate that is refunded at
    /// once would be credit until the requests arrive.
    pages: BTreeMap<(u64, File, u64), Submitted>,
}

impl Runs {
    pub(super) fn add(&mut self, kind: Kind, start: Sector, sectors: Sectors, causes: CauseSet) {
        if self.runs.len() == REMEMBERED {
            self.runs.pop_front();
        }
        let (is_read, is_direct) = (kind == Kind::Read, kind == Kind::Direct);
        self.runs.push_back(Run { is_read, is_direct, start, end: start + sectors, causes });
    }

    /// The causes of a request: those of the latest submissions of its sectors, each with its bytes; and whether all of it is direct writes.
    pub(super) fn causes(
        &self,
        is_read: bool,
        start: Sector,
        sectors: Sectors,
    ) -> (Vec<(CauseSet, u64)>, bool) {
        let (end, mut found, mut left) = (start + sectors, Vec::new(), u64::from(sectors.0));
        let mut is_direct = true;
        let overlapping =
            self.runs.iter().rev().filter(|run| run.is_read == is_read && run.start < end && run.end > start);
        for run in overlapping {
            let own = (run.end.min(end).0 - run.start.max(start).0).min(left);
            match found.iter_mut().find(|(causes, _)| *causes == run.causes) {
                Some((_, bytes)) => *bytes += own * SECTOR_BYTES,
                None => found.push((run.causes, own * SECTOR_BYTES)),
            }
            left -= own;
            is_direct &= run.is_direct;
            if left == 0 {
                break;
            }
        }
        (found, is_direct && left == 0)
    }

    /// Dirty pages were submitted from a sector on, the first of them from an offset in its file on. Returns those that were submitted there before.
    pub(super) fn submitted(
        &mut self,
        at: Time,
        (start, sectors): (Sector, Sectors),
        offset: u64,
        pages: impl IntoIterator<Item = (Page, CauseSet)>,
    ) -> Vec<(Page, CauseSet)> {
        let last = u64::from(sectors.0).saturating_sub(1);
        let add = |(page, causes): (Page, CauseSet)| {
            // What a folio has behind the end of its file is clean with the rest, and not written.
            let place = start.0 + (page.offset.saturating_sub(offset) / 512).min(last);
            let before = self.pages.insert((place, page.file, page.offset), Submitted { page, causes, at });
            before.map(|before| (before.page, before.causes))
        };
        pages.into_iter().filter_map(add).collect()
    }

    /// A request arrived: returns its pages.
    pub(super) fn arrived(&mut self, start: Sector, sectors: Sectors) -> Vec<(Page, CauseSet)> {
        let first = |sector: Sector| (sector.0, File(0), 0);
        self.take(first(start)..first(start + sectors), |_| true)
    }

    /// Removes the pages of some sets, and those whose request is not expected any longer.
    pub(super) fn outdated(&mut self, now: Time, is_it: impl Fn(CauseSet) -> bool) -> Vec<(Page, CauseSet)> {
        self.take(.., |submitted| is_it(submitted.causes) || now.since(submitted.at) > LATEST)
    }

    fn take(
        &mut self,
        range: impl RangeBounds<(u64, File, u64)>,
        is_it: impl Fn(&Submitted) -> bool,
    ) -> Vec<(Page, CauseSet)> {
        let found = self.pages.range(range).filter(|(_, submitted)| is_it(submitted));
        let keys: Vec<_> = found.map(|(&key, _)| key).collect();
        let remove = |key| self.pages.remove(&key).map(|submitted| (submitted.page, submitted.causes));
        keys.into_iter().filter_map(remove).collect()
    }

    /// Another scheduler, which knows of no page that was submitted before.
    pub(super) fn forget_pages(&mut self) {
        self.pages.clear();
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_causes_of_the_latest_submissions_of_its_sectors() {
        let mut runs = Runs::default();
        runs.add(Kind::Write, Sector(0), Sectors(16), CauseSet(1));
        runs.add(Kind::Write, Sector(0), Sectors(8), CauseSet(2));
        runs.add(Kind::Read, Sector(0), Sectors(8), CauseSet(3));
        runs.add(Kind::Direct, Sector(16), Sectors(8), CauseSet(3));
        let causes = |start, sectors| runs.causes(false, Sector(start), Sectors(sectors)).0;
        assert_eq!(causes(0, 8), [(CauseSet(2), 4096)]);
        assert_eq!(causes(8, 8), [(CauseSet(1), 4096)]);
        assert_eq!(causes(2, 8), [(CauseSet(2), 3072), (CauseSet(1), 1024)]);
        assert_eq!(causes(100, 8), []);
        assert_eq!(runs.causes(true, Sector(0), Sectors(8)), (vec![(CauseSet(3), 4096)], false));
        let is_direct = |start, sectors| runs.causes(false, Sector(start), Sectors(sectors)).1;
        assert!(is_direct(16, 8) && !is_direct(8, 16) && !is_direct(16, 16), "all of it");
    }

    #[test]
    fn a_page_is_submitted_when_the_request_with_its_sectors_arrives() {
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let page = |n: u64| Page { file: File(7), offset: n * 4096, bytes: 4096 };
        let of = |pages: &[(u64, u32)]| -> Vec<_> {
            pages.iter().map(|&(n, set)| (page(n), CauseSet(set))).collect()
        };
        let mut runs = Runs::default();
        // Four pages of a folio, of which the last one is behind the end of the file.
        let folio = of(&[(2, 1), (3, 1), (4, 2), (5, 2)]);
        assert_eq!(runs.submitted(at(0), (Sector(800), Sectors(24)), 8192, folio.clone()), []);
        assert_eq!(runs.arrived(Sector(792), Sectors(8)), []);
        assert_eq!(runs.arrived(Sector(800), Sectors(16)), of(&[(2, 1), (3, 1)]));
        assert_eq!(runs.arrived(Sector(816), Sectors(100)), of(&[(4, 2), (5, 2)]));
        assert_eq!(runs.arrived(Sector(800), Sectors(24)), []);
        runs.submitted(at(0), (Sector(800), Sectors(24)), 8192, folio.clone());
        let again = of(&[(2, 3)]);
        assert_eq!(runs.submitted(at(9), (Sector(800), Sectors(8)), 8192, again), of(&[(2, 1)]));
        assert_eq!(runs.outdated(at(120), |set| set == CauseSet(2)), of(&[(4, 2), (5, 2)]));
        assert_eq!(runs.outdated(at(121), |_| false), of(&[(3, 1)]), "its request was lost");
        runs.forget_pages();
        assert_eq!(runs.outdated(at(999), |_| true), []);
    }
}
