//! Initial content of the disk: files, sets of files and source trees, drawn from documented distributions.

mod tree;

use elevator::Random;
use machine::kernel::{Image, Path};

pub use tree::Like;

/// An item of the content.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Item {
    Place(Option<u64>),
    Directory(Box<str>),
    File(Box<str>, u64),
}

/// Directories and files in the order of their creation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    items: Vec<Item>,
    bytes: u64,
}

/// A set of files of similar size, spread evenly over directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Set {
    /// Number of files.
    pub count: u64,
    /// Smallest size in bytes.
    pub least: u64,
    /// Largest size in bytes; sizes are distributed evenly.
    pub most: u64,
    /// Number of directories.
    pub directories: u64,
    /// Seed of the sizes.
    pub seed: u64,
}

impl Contents {
    /// Sets the position of the following items on the device; `None` lets the allocator choose.
    pub fn place(&mut self, byte: Option<u64>) {
        self.items.push(Item::Place(byte));
    }

    /// Adds a directory and its missing parents.
    pub fn directories(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        for end in ends.filter(|&end| end > 1) {
            if !self.has_directory(&path[..end]) {
                self.directory(&path[..end]);
            }
        }
    }

    fn directory(&mut self, path: &str) {
        self.items.push(Item::Directory(path.into()));
    }

    /// Adds a file and its missing parents.
    pub fn file(&mut self, path: &str, bytes: u64) {
        if let Some(slash) = path.rfind('/') {
            self.directories(&path[..slash]);
        }
        self.put(path, bytes);
    }

    fn put(&mut self, path: &str, bytes: u64) {
        self.items.push(Item::File(path.into(), bytes));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds a set of files below a directory.
    pub fn set(&mut self, root: &str, set: Set) {
        let mut random = Random::new(set.seed ^ 0x5e7);
        self.directories(root);
        let directories = set.directories.max(1);
        let per_directory = set.count.div_ceil(directories).max(1);
        for n in 0..set.count {
            let directory = format!("{root}/d{}", n / per_directory);
            if n.is_multiple_of(per_directory) {
                self.directory(&directory);
            }
            let bytes = set.least + random.below(set.most.saturating_sub(set.least) + 1);
            self.put(&format!("{directory}/f{n}"), bytes);
        }
    }

    /// Bytes of all files.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, Item::File(..))).count()
    }

    fn has_directory(&self, path: &str) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Directory(known) if **known == *path))
    }

    /// Whether a file or directory exists.
    pub fn has(&self, path: &str) -> bool {
        path == "/"
            || self.items.iter().any(|item| match item {
                Item::Directory(known) | Item::File(known, _) => **known == *path,
                Item::Place(_) => false,
            })
    }

    /// Directories and files below a directory, in order.
    pub fn below(&self, root: &str) -> (Vec<Path>, Vec<Path>) {
        let is_below = |path: &str| {
            path.strip_prefix(root).is_some_and(|rest| root.ends_with('/') || rest.starts_with('/'))
        };
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        for item in &self.items {
            match item {
                Item::Directory(path) if is_below(path) => directories.push(Path::from(&**path)),
                Item::File(path, _) if is_below(path) => files.push(Path::from(&**path)),
                _ => {}
            }
        }
        (directories, files)
    }

    /// The image for the machine.
    pub fn image(&self) -> Image {
        let mut image = Image::new();
        for item in &self.items {
            match item {
                Item::Place(Some(byte)) => image.place(*byte),
                Item::Place(None) => image.anywhere(),
                Item::Directory(path) => image.directory(&**path),
                Item::File(path, bytes) => image.file(&**path, *bytes),
            };
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_spread_over_its_directories() {
        let mut contents = Contents::default();
        contents.set("/a/b", Set { count: 10, least: 4096, most: 65_536, directories: 3, seed: 1 });
        let (directories, files) = contents.below("/a");
        assert_eq!(directories.len(), 4, "b and its three");
        assert_eq!(files.len(), 10);
        assert!((40_960..=655_360).contains(&contents.bytes()));
        assert!(contents.has("/a/b/d0/f0") && !contents.has("/a/b/d0/f9"));
    }

    #[test]
    fn directories_above_a_file_are_made_once() {
        let mut contents = Contents::default();
        contents.file("/x/y/one", 1);
        contents.file("/x/y/two", 1);
        assert_eq!(
            contents.below("/"),
            (vec!["/x".into(), "/x/y".into()], vec!["/x/y/one".into(), "/x/y/two".into()])
        );
    }
}
