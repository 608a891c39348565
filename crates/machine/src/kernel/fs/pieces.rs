//! Which page of a file lies in which block: pieces of the file, in the order of its pages.

use super::words::{Block, Run};

/// Pages in a row that lie in blocks in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) page: u32,
    pub(super) at: u32,
    pub(super) n: u32,
}

impl Piece {
    pub(super) fn end(&self) -> u32 {
        self.page + self.n
    }
}

/// The pieces of one file, longest possible, none overlapping.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces(Vec<Piece>);

impl Pieces {
    pub(super) fn as_slice(&self) -> &[Piece] {
        &self.0
    }

    /// The index of the piece that holds a page, or else of the first one after it.
    pub(super) fn index(&self, page: u32) -> usize {
        match self.0.last() {
            Some(last) if last.end() <= page => self.0.len(),
            _ => self.0.partition_point(|piece| piece.end() <= page),
        }
    }

    /// The last piece that begins before a page.
    pub(super) fn before(&self, page: u32) -> Option<&Piece> {
        let after = self.0.partition_point(|piece| piece.page < page);
        self.0[..after].last()
    }

    pub(super) fn block(&self, page: u32) -> Option<u32> {
        let piece = self.0.get(self.index(page))?;
        (piece.page <= page).then(|| piece.at + (page - piece.page))
    }

    /// The first hole in `page..end`: where it begins and how long it is.
    pub(super) fn next_hole(&self, page: u32, end: u32) -> Option<(u32, u32)> {
        let mut page = page;
        for piece in &self.0[self.index(page)..] {
            if piece.page > page || page >= end {
                break;
            }
            page = piece.end();
        }
        if page >= end {
            return None;
        }
        let next = self.0.get(self.index(page)).map_or(end, |piece| piece.page.min(end));
        Some((page, next - page))
    }

    /// Every run in `page..end`, holes too. `start` is the device's block of block 0.
    pub(super) fn runs(&self, page: u32, end: u32, start: Block, runs: &mut Vec<Run>) {
        let mut page = page;
        let mut push = |page: u32, pages: u32, at: Option<u32>| {
            let block = at.map(|at| start.plus(u64::from(at)));
            runs.push(Run { page: u64::from(page), pages, block });
        };
        for piece in &self.0[self.index(page)..] {
            if page >= end || piece.page >= end {
                break;
            }
            if piece.page > page {
                push(page, piece.page - page, None);
                page = piece.page;
            }
            let n = piece.end().min(end) - page;
            push(page, n, Some(piece.at + (page - piece.page)));
            page += n;
        }
        if page < end {
            push(page, end - page, None);
        }
    }

    /// Fills a hole.
    pub(super) fn insert(&mut self, new: Piece) {
        let i = self.index(new.page);
        let follows = |a: &Piece, b: &Piece| a.end() == b.page && a.at + a.n == b.at;
        let with_left = i > 0 && follows(&self.0[i - 1], &new);
        let with_right = i < self.0.len() && follows(&new, &self.0[i]);
        match (with_left, with_right) {
            (true, true) => {
                self.0[i - 1].n += new.n + self.0[i].n;
                self.0.remove(i);
            }
            (true, false) => self.0[i - 1].n += new.n,
            (false, true) => self.0[i] = Piece { n: new.n + self.0[i].n, ..new },
            (false, false) => self.0.insert(i, new),
        }
    }

    /// Takes every page from `page` on away; what they held is told piece by piece.
    pub(super) fn cut(&mut self, page: u32, mut freed: impl FnMut(u32, u32)) {
        let i = self.index(page);
        for piece in &self.0[i..] {
            let kept = page.saturating_sub(piece.page);
            freed(piece.at + kept, piece.n - kept);
        }
        let split = self.0.get(i).copied().filter(|piece| piece.page < page);
        self.0.truncate(i);
        if let Some(piece) = split {
            self.0.push(Piece { n: page - piece.page, ..piece });
        }
    }
}

#[cfg(test)]
mod tests {
    use elevator::Random;

    use super::*;

    /// Against one slot per page.
    #[test]
    fn agrees_with_a_list_of_pages() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut pieces = Pieces::default();
            let mut slow: Vec<Option<u32>> = vec![None; 400];
            let mut next = 0;
            for _ in 0..300 {
                let page = random.below(400) as u32;
                if random.once_in(20) {
                    let mut freed = 0;
                    pieces.cut(page, |_, n| freed += n);
                    let cut = slow[page as usize..].iter_mut().filter_map(Option::take).count();
                    assert_eq!(freed as usize, cut);
                } else if let Some((page, n)) = pieces.next_hole(page, 400) {
                    let n = n.min(1 + random.below(9) as u32);
                    next += random.below(2) as u32 * 100;
                    pieces.insert(Piece { page, at: next, n });
                    for i in 0..n {
                        assert_eq!(slow[(page + i) as usize].replace(next + i), None);
                    }
                    next += n;
                }
                let mut runs = Vec::new();
                pieces.runs(page, 400, Block(0), &mut runs);
                let mut at = u64::from(page);
                for run in &runs {
                    assert_eq!(run.page, at);
                    for i in 0..run.pages {
                        let block = run.block.map(|block| (block.0 as u32) + i);
                        assert_eq!(slow[at as usize], block);
                        assert_eq!(pieces.block(at as u32), block);
                        at += 1;
                    }
                }
                assert_eq!(at, 400);
            }
            for pair in pieces.as_slice().windows(2) {
                assert!(pair[0].end() < pair[1].page || pair[0].at + pair[0].n != pair[1].at);
            }
        }
    }
}
