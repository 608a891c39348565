//! Source trees like those of Linux.
//!
//! The project contains no tree, so one is generated: nested directories, and files with a size distribution like a kernel
//! tree's: half below 4.4 KB, a tenth above 26 KB, a hundredth above 90 KB, 12.5 KB on average. The distribution is stored as
//! quantiles and sampled in integers, so that trees are equal on every machine. Numbers of files and directories are
//! approximate, from published statistics of the releases.

use elevator::Random;
use serde::Deserialize;

use super::Contents;

/// The release that a tree is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub enum Like {
    /// 11,500 files, about 140 MB: the tree of the benchmarks of 2003.
    #[serde(rename = "linux-2.4.19")]
    Linux2_4_19,
    /// 16,500 files, about 205 MB: the time of the cooperative paper.
    #[serde(rename = "linux-2.6.9")]
    Linux2_6_9,
    /// 29,000 files, about 360 MB: the time of the stream paper.
    #[serde(rename = "linux-2.6.31")]
    Linux2_6_31,
}

impl Like {
    /// Number of files.
    pub const fn files(self) -> u64 {
        match self {
            Self::Linux2_4_19 => 11_500,
            Self::Linux2_6_9 => 16_500,
            Self::Linux2_6_31 => 29_000,
        }
    }
}

/// Mean number of files in a directory.
const FILES_A_DIRECTORY: u64 = 16;
/// Depth below the root.
const DEPTH: usize = 4;

/// (per mille of files that are smaller, size in bytes); sizes between two entries are distributed evenly.
const SIZES: [(u64, u64); 9] = [
    (0, 100),
    (100, 700),
    (250, 1_600),
    (500, 4_400),
    (750, 11_500),
    (900, 26_000),
    (950, 42_000),
    (990, 90_000),
    (1000, 400_000),
];

fn size(random: &mut Random) -> u64 {
    let share = random.below(1000);
    let above = SIZES.iter().position(|(below, _)| *below > share).unwrap_or(SIZES.len() - 1);
    let ((_, low), (_, high)) = (SIZES[above.saturating_sub(1)], SIZES[above]);
    low + random.below(high.saturating_sub(low))
}

impl Contents {
    /// Adds a tree, in the order of unpacking an archive: a directory, its files, its subdirectories.
    /// below it.
    pub fn tree(&mut self, root: &str, files: u64, seed: u64) {
        let mut random = Random::new(seed ^ 0x7ee);
        self.directories(root);
        let mut path = vec![root.to_owned()];
        let mut left = files;
        let mut number = 0;
        while left > 0 {
            let here = (1 + random.below(2 * FILES_A_DIRECTORY - 1)).min(left);
            let directory = path.join("/");
            for n in 0..here {
                let bytes = size(&mut random);
                self.put(&format!("{directory}/file{n}.c"), bytes);
            }
            left -= here;
            if left > 0 {
                number += 1;
                // One level down, or up any number of levels and down again.
                let keep = if path.len() <= DEPTH && random.once_in(2) {
                    path.len()
                } else {
                    random.below(path.len() as u64) as usize
                };
                path.truncate(keep.max(1));
                path.push(format!("dir{number}"));
                self.directory(&path.join("/"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_documented_sizes() {
        let mut contents = Contents::default();
        contents.tree("/linux", 11_500, 1);
        assert_eq!(contents.files(), 11_500);
        let mean = contents.bytes() / 11_500;
        assert!((11_500..=13_500).contains(&mean), "{mean} bytes a file");
        let (directories, _) = contents.below("/linux");
        assert!((600..=900).contains(&directories.len()), "{} directories", directories.len());
    }

    #[test]
    fn a_tree_is_the_same_for_the_same_seed() {
        let tree = |seed| {
            let mut contents = Contents::default();
            contents.tree("/t", 200, seed);
            contents
        };
        assert_eq!(tree(7), tree(7));
        assert_ne!(tree(7), tree(8));
    }
}
