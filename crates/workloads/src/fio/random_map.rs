//! Which blocks of a region have been accessed: fio's random map.

use std::collections::BTreeMap;

/// Blocks of a chunk, one bit each.
const CHUNK: u64 = 4096;
const WORDS: usize = (CHUNK / 64) as usize;

/// Accessed blocks. Chunks are allocated when one of their blocks is accessed.
#[derive(Clone, Debug)]
pub(super) struct RandomMap {
    blocks: u64,
    chunks: BTreeMap<u64, Chunk>,
}

#[derive(Clone, Debug)]
struct Chunk {
    used: [u64; WORDS],
    free: u64,
}

impl RandomMap {
    pub(super) fn new(blocks: u64) -> Self {
        Self { blocks, chunks: BTreeMap::new() }
    }

    /// The first block from `from` on that has not been accessed; at the end of the region it continues at the beginning.
    pub(super) fn next_free(&self, from: u64) -> Option<u64> {
        self.free_between(from, self.blocks).or_else(|| self.free_between(0, from))
    }

    fn free_between(&self, from: u64, to: u64) -> Option<u64> {
        let mut at = from;
        while at < to {
            let Some(chunk) = self.chunks.get(&(at / CHUNK)) else { return Some(at) };
            if chunk.free > 0 {
                let within = (at % CHUNK) as usize;
                let first = !chunk.used[within / 64] >> (within % 64) << (within % 64);
                let words = std::iter::once((within / 64, first))
                    .chain((within / 64 + 1..WORDS).map(|word| (word, !chunk.used[word])));
                if let Some((word, free)) = words.into_iter().find(|(_, free)| *free != 0) {
                    let found = at / CHUNK * CHUNK + word as u64 * 64 + u64::from(free.trailing_zeros());
                    return Some(found).filter(|&found| found < to);
                }
            }
            at = (at / CHUNK + 1) * CHUNK;
        }
        None
    }

    /// Marks up to `count` blocks from `from` on, until one that is marked already; returns how many.
    pub(super) fn mark(&mut self, from: u64, count: u64) -> u64 {
        for at in from..from.saturating_add(count).min(self.blocks) {
            let last = (self.blocks - at / CHUNK * CHUNK).min(CHUNK);
            let chunk = self.chunks.entry(at / CHUNK).or_insert(Chunk { used: [0; WORDS], free: last });
            let (word, bit) = ((at % CHUNK / 64) as usize, 1_u64 << (at % 64));
            if chunk.used[word] & bit != 0 {
                return at - from;
            }
            chunk.used[word] |= bit;
            chunk.free -= 1;
        }
        count.min(self.blocks.saturating_sub(from))
    }

    pub(super) fn clear(&mut self) {
        self.chunks.clear();
    }
}

#[cfg(test)]
mod tests {
    use elevator::Random;

    use super::*;

    /// Against a list of flags.
    #[test]
    fn agrees_with_a_list_of_flags() {
        for blocks in [1, 63, 64, 4096, 4097, 9000] {
            let (mut map, mut random) = (RandomMap::new(blocks), Random::new(blocks));
            let mut used = vec![false; blocks as usize];
            while let Some(at) = map.next_free(random.below(blocks)) {
                assert!(!used[at as usize]);
                let count = 1 + random.below(40);
                let run = used[at as usize..].iter().take(count as usize).take_while(|used| !**used).count();
                assert_eq!(map.mark(at, count), run as u64, "{at} of {blocks}");
                used[at as usize..at as usize + run].fill(true);
                let from = random.below(blocks);
                let expected = (from..blocks).chain(0..from).find(|&at| !used[at as usize]);
                assert_eq!(map.next_free(from), expected);
            }
            assert!(used.iter().all(|used| *used));
        }
    }
}
