//! The block bitmap, with free counts per group.
//!
//! Block numbers inside the file system count from its start and have 32 bits.

/// Blocks of a group, 128 MB: the bits of a bitmap block of 4 KB.
pub(super) const GROUP: u32 = 32_768;

const WORD: u32 = 64;

/// The block bitmap.
#[derive(Clone, Debug)]
pub(super) struct Space {
    /// Set bits are used blocks; bits beyond the end are set.
    used: Vec<u64>,
    free_in: Vec<u32>,
    free: u64,
    blocks: u32,
}

impl Space {
    /// A bitmap of `blocks` free blocks.
    pub(super) fn new(blocks: u32) -> Self {
        let groups = blocks.div_ceil(GROUP);
        let mut used = vec![u64::MAX; (groups * (GROUP / WORD)) as usize];
        used[..(blocks / WORD) as usize].fill(0);
        if !blocks.is_multiple_of(WORD) {
            used[(blocks / WORD) as usize] = u64::MAX << (blocks % WORD);
        }
        let free_in = (0..groups).map(|g| (blocks - g * GROUP).min(GROUP)).collect();
        Self { used, free_in, free: u64::from(blocks), blocks }
    }

    pub(super) fn groups(&self) -> u32 {
        self.free_in.len() as u32
    }

    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// All free blocks.
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    pub(super) fn free_in(&self, group: u32) -> u32 {
        self.free_in[group as usize]
    }

    /// Free blocks of a group, counted from the bitmap.
    pub(super) fn count_free(&self, group: u32) -> u32 {
        let words = (group * (GROUP / WORD)) as usize..((group + 1) * (GROUP / WORD)) as usize;
        self.used[words].iter().map(|word| word.count_zeros()).sum()
    }

    pub(super) fn group_end(&self, group: u32) -> u32 {
        (group * GROUP).saturating_add(GROUP).min(self.blocks)
    }

    pub(super) fn is_free(&self, at: u32) -> bool {
        at < self.blocks && self.used[(at / WORD) as usize] >> (at % WORD) & 1 == 0
    }

    /// Marks `n` free blocks used.
    pub(super) fn take(&mut self, at: u32, n: u32) {
        self.each_word(at, n, |word, mask| {
            debug_assert_eq!(*word & mask, 0, "a block was allocated twice");
            *word |= mask;
        });
        self.count(at, n, |free, n| *free -= n);
        self.free -= u64::from(n);
    }

    /// Marks `n` used blocks free.
    pub(super) fn give(&mut self, at: u32, n: u32) {
        self.each_word(at, n, |word, mask| {
            debug_assert_eq!(*word & mask, mask, "a block was freed twice");
            *word &= !mask;
        });
        self.count(at, n, |free, n| *free += n);
        self.free += u64::from(n);
    }

    fn each_word(&mut self, at: u32, n: u32, mut change: impl FnMut(&mut u64, u64)) {
        let (mut at, end) = (at, at + n);
        while at < end {
            let within = at % WORD;
            let here = (WORD - within).min(end - at);
            change(&mut self.used[(at / WORD) as usize], ones(here) << within);
            at += here;
        }
    }

    fn count(&mut self, at: u32, n: u32, change: impl Fn(&mut u32, u32)) {
        let (mut at, end) = (at, at + n);
        while at < end {
            let here = (GROUP - at % GROUP).min(end - at);
            change(&mut self.free_in[(at / GROUP) as usize], here);
            at += here;
        }
    }

    /// The first free block in `from..to`. Full groups are skipped.
    pub(super) fn next_free(&self, from: u32, to: u32) -> Option<u32> {
        let (mut at, to) = (from, to.min(self.blocks));
        while at < to {
            let group = at / GROUP;
            if self.free_in[group as usize] == 0 {
                at = self.group_end(group);
                continue;
            }
            let word = !self.used[(at / WORD) as usize] >> (at % WORD);
            if word != 0 {
                return Some(at + word.trailing_zeros()).filter(|&at| at < to);
            }
            at = (at / WORD + 1) * WORD;
        }
        None
    }

    /// Number of free blocks from `at` on, at most `most`.
    pub(super) fn free_run(&self, at: u32, most: u32) -> u32 {
        let mut n = 0;
        while n < most && at + n < self.blocks {
            let place = at + n;
            let word = self.used[(place / WORD) as usize] >> (place % WORD);
            let here = word.trailing_zeros().min(WORD - place % WORD);
            n += here;
            if here < WORD - place % WORD {
                break;
            }
        }
        n.min(most)
    }

    /// The first run of `n` free blocks in `from..to`.
    pub(super) fn find_run(&self, from: u32, to: u32, n: u32) -> Option<u32> {
        let mut from = from;
        while let Some(at) = self.next_free(from, to) {
            let run = self.free_run(at, n);
            if run >= n {
                return Some(at);
            }
            from = at + run + 1;
        }
        None
    }

    /// The first eight free blocks that share a byte of the bitmap in `from..to`.
    pub(super) fn next_free_byte(&self, from: u32, to: u32) -> Option<u32> {
        let mut at = from.next_multiple_of(8);
        while at + 8 <= to.min(self.blocks) {
            let word = self.used[(at / WORD) as usize] | ones(at % WORD);
            let zero_bytes = word.wrapping_sub(LOWS) & !word & HIGHS;
            if zero_bytes != 0 {
                let found = at / WORD * WORD + zero_bytes.trailing_zeros() / 8 * 8;
                return Some(found).filter(|&found| found + 8 <= to);
            }
            at = (at / WORD + 1) * WORD;
        }
        None
    }
}

/// The lowest and the highest bit of every byte.
const LOWS: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// `n` set bits, at most 64.
const fn ones(n: u32) -> u64 {
    if n >= WORD { u64::MAX } else { (1 << n) - 1 }
}

#[cfg(test)]
mod tests {
    use elevator::Random;

    use super::*;

    /// Compares with a list of flags.
    #[test]
    fn agrees_with_a_list_of_flags() {
        let blocks = 3 * GROUP + 777;
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut space = Space::new(blocks);
            let mut free = vec![true; blocks as usize];
            for _ in 0..400 {
                let at = random.below(u64::from(blocks)) as u32;
                let n = (1 + random.below(2000) as u32).min(blocks - at);
                let range = at as usize..(at + n) as usize;
                if free[range.clone()].iter().all(|&free| free) {
                    space.take(at, n);
                    free[range].fill(false);
                } else if free[range.clone()].iter().all(|&free| !free) {
                    space.give(at, n);
                    free[range].fill(true);
                }
                let (from, to) = (at, (at + 5000).min(blocks));
                let slow = |f: &dyn Fn(usize) -> bool| {
                    (from as usize..to as usize).find(|&i| f(i)).map(|i| i as u32)
                };
                assert_eq!(space.next_free(from, to), slow(&|i| free[i]));
                let row = |i: usize, n: usize| free[i..].iter().take(n).filter(|&&f| f).count() == n;
                assert_eq!(space.find_run(from, to, 300), slow(&|i| row(i, 300)));
                let byte = |i: usize| i.is_multiple_of(8) && i + 8 <= to as usize && row(i, 8);
                assert_eq!(space.next_free_byte(from, to), slow(&byte));
                let run = free[at as usize..].iter().take(1500).take_while(|&&f| f).count();
                assert_eq!(space.free_run(at, 1500), run as u32);
            }
            assert_eq!(space.free(), free.iter().filter(|&&f| f).count() as u64);
            for g in 0..space.groups() {
                let range = (g * GROUP) as usize..space.group_end(g) as usize;
                assert_eq!(space.free_in(g), free[range].iter().filter(|&&f| f).count() as u32);
            }
        }
    }
}
