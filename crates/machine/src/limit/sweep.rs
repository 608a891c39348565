//! The head's position over batches of requests.

use disks::Ideal;
use elevator::{Direction, Op, Sector, Span};

use crate::program::Io;

/// The least service time of batches, one after the other. A batch is added in any number of pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweep {
    /// Where the last batch may have left the head, in order: at the end of one of its requests.
    ends: Vec<Place>,
    /// What the present batch covers: in order, with a gap between any two.
    covered: Vec<Extent>,
    /// The ends of the present batch's requests, in no order; none if they are too many: then the head may be anywhere in `covered`.
    next_ends: Vec<Sector>,
    is_exact: bool,
    /// The shortest seek to a request of the present batch, the request's first sector and direction.
    nearest: Option<(Span, Sector, Direction)>,
    /// Service times of reads and of writes.
    pub(super) total: [Span; 2],
}

/// Sectors of a batch's requests that are covered without a gap.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// The first sector, times two, plus one if the request that begins there is a write.
    first: u64,
    end: Sector,
}

impl Extent {
    fn of(io: &Io) -> Self {
        Self { first: io.start.0 << 1 | io.op.direction() as u64, end: io.start + io.sectors }
    }

    const fn start(self) -> Sector {
        Sector(self.first >> 1)
    }

    const fn direction(self) -> usize {
        self.first as usize & 1
    }
}

/// Sectors at one of which the head is: from the first to the second, both included.
type Place = (Sector, Sector);

fn transfers(io: &Io) -> bool {
    matches!(io.op, Op::Read | Op::Write)
}

impl Sweep {
    /// Adds requests to the present batch: their transfers now, and the seeks when it [ends](Self::end_batch).
    pub(super) fn add(&mut self, ios: &mut [Io], ideal: &dyn Ideal) {
        ios.sort_by_key(|io| io.start);
        let known = self.covered.len();
        if known == 0 {
            self.is_exact = true;
        }
        for io in ios.iter().filter(|io| transfers(io)) {
            self.total[io.op.direction() as usize] += ideal.sequential_transfer(io.start, io.sectors);
            if let Some(way) = self.way_to(io.start, ideal)
                && self.nearest.is_none_or(|(least, start, _)| (way, io.start) < (least, start))
            {
                self.nearest = Some((way, io.start, io.op.direction()));
            }
            let extent = Extent::of(io);
            if self.is_exact {
                self.next_ends.push(extent.end);
            }
            match self.covered[known..].last_mut() {
                Some(last) if last.end >= io.start => last.end = last.end.max(extent.end),
                _ => self.covered.push(extent),
            }
        }
        if known > 0 && self.covered.len() > known {
            self.merge();
        }
    }

    /// Merges extents that overlap or touch.
    fn merge(&mut self) {
        // Two sorted runs, which a stable sort merges. The request that came first decides the direction.
        self.covered.sort_by_key(|extent| extent.start());
        self.covered.dedup_by(|next, last| {
            let touches = next.start() <= last.end;
            if touches {
                last.end = last.end.max(next.end);
            }
            touches
        });
    }

    /// Ends the present batch. Its seeks are those to the nearest request, and across each gap between neighbours, which every order crosses.
    pub(super) fn end_batch(&mut self, ideal: &dyn Ideal) {
        if self.covered.is_empty() {
            return;
        }
        for pair in self.covered.windows(2) {
            self.total[pair[1].direction()] += ideal.least_seek(pair[0].end, pair[1].start());
        }
        if let Some((way, _, direction)) = self.nearest.take() {
            self.total[direction as usize] += way;
        }
        self.ends.clear();
        if self.is_exact {
            self.next_ends.sort_unstable();
            self.next_ends.dedup();
            self.ends.extend(self.next_ends.drain(..).map(|end| (end, end)));
        } else {
            self.ends.extend(self.covered.iter().map(|extent| (extent.start(), extent.end)));
        }
        self.covered.clear();
    }

    /// The shortest seek to a sector from any possible position of the head.
    fn way_to(&self, start: Sector, ideal: &dyn Ideal) -> Option<Span> {
        let above = self.ends.partition_point(|&(_, to)| to < start);
        let neighbours = &self.ends[above.saturating_sub(1)..self.ends.len().min(above + 1)];
        let way = |&(from, to): &Place| match start {
            _ if start < from => ideal.least_seek(from, start),
            _ if start > to => ideal.least_seek(to, start),
            _ => Span::ZERO,
        };
        neighbours.iter().map(way).min()
    }

    /// Places and extents in memory.
    pub(super) fn size(&self) -> usize {
        self.ends.len() + self.covered.len() + self.next_ends.len()
    }

    /// Frees the ends of the present batch's requests: its extents replace them.
    pub(super) fn forget_ends(&mut self) {
        if !self.covered.is_empty() {
            (self.is_exact, self.next_ends) = (false, Vec::new());
        }
    }

    /// Reduces places and extents to this number or less: closes the narrowest gaps, so that the times become lower bounds.
    pub(super) fn shrink(&mut self, most: usize) {
        close_gaps(
            &mut self.ends,
            most / 4,
            |&(_, to), &(from, _)| from.0 - to.0,
            |last, next| last.1 = next.1,
        );
        close_gaps(
            &mut self.covered,
            most / 2,
            |last, next| next.start().0 - last.end.0,
            |last, next| last.end = next.end,
        );
    }
}

/// Joins neighbours until at most `most` are left, or one, those with the narrowest gaps first.
fn close_gaps<T>(all: &mut Vec<T>, most: usize, gap: fn(&T, &T) -> u64, join: fn(&mut T, &T)) {
    let excess = all.len().saturating_sub(most.max(1));
    if excess == 0 {
        return;
    }
    let mut gaps: Vec<u64> = all.windows(2).map(|pair| gap(&pair[0], &pair[1])).collect();
    let (_, &mut widest, _) = gaps.select_nth_unstable(excess - 1);
    all.dedup_by(|next, last| {
        let closes = gap(last, next) <= widest;
        if closes {
            join(last, next);
        }
        closes
    });
    all.shrink_to_fit();
}
