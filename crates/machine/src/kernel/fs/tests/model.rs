//! Random operations, compared with a simple model and checked for consistency.

use std::collections::{BTreeMap, BTreeSet};

use elevator::Random;

use super::super::*;

/// A model of names and lengths.
#[derive(Default)]
struct Slow {
    files: BTreeMap<String, u64>,
    directories: BTreeSet<String>,
}

impl Slow {
    fn parent_error(&self, path: &str) -> Option<Errno> {
        let cuts = path.match_indices('/').map(|(i, _)| &path[..i]).filter(|above| !above.is_empty());
        for above in cuts {
            if self.files.contains_key(above) {
                return Some(Errno::NotADirectory);
            }
            if !self.directories.contains(above) {
                return Some(Errno::NotFound);
            }
        }
        None
    }

    fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.directories.contains(path)
    }

    fn is_empty(&self, directory: &str) -> bool {
        let inside = format!("{directory}/");
        !self.files.keys().chain(&self.directories).any(|path| path.starts_with(&inside))
    }

    fn make(&mut self, path: &str, directory: bool) -> Result<(), Errno> {
        match self.parent_error(path) {
            Some(errno) => return Err(errno),
            None if self.exists(path) => return Err(Errno::Exists),
            None => {}
        }
        if directory {
            self.directories.insert(path.to_owned());
        } else {
            self.files.insert(path.to_owned(), 0);
        }
        Ok(())
    }

    fn unlink(&mut self, path: &str) -> Result<(), Errno> {
        match self.parent_error(path) {
            Some(errno) => Err(errno),
            None if self.directories.contains(path) => Err(Errno::IsADirectory),
            None => self.files.remove(path).map(|_| ()).ok_or(Errno::NotFound),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        if let Some(errno) = self.parent_error(from) {
            return Err(errno);
        }
        if !self.exists(from) {
            return Err(Errno::NotFound);
        }
        let directory = self.directories.contains(from);
        if directory && (to == from || to.starts_with(&format!("{from}/"))) {
            return Err(Errno::Invalid);
        }
        if let Some(errno) = self.parent_error(to) {
            return Err(errno);
        }
        if from == to {
            return Ok(());
        }
        if directory {
            if self.files.contains_key(to) {
                return Err(Errno::NotADirectory);
            }
            if self.directories.contains(to) && !self.is_empty(to) {
                return Err(Errno::NotEmpty);
            }
            let inside = format!("{from}/");
            let moved = |path: &String| path == from || path.starts_with(&inside);
            let moving: Vec<String> = self.directories.iter().filter(|path| moved(path)).cloned().collect();
            for path in moving {
                self.directories.remove(&path);
                self.directories.insert(format!("{to}{}", &path[from.len()..]));
            }
            let moving: Vec<String> = self.files.keys().filter(|path| moved(path)).cloned().collect();
            for path in moving {
                let bytes = self.files.remove(&path).unwrap();
                self.files.insert(format!("{to}{}", &path[from.len()..]), bytes);
            }
            return Ok(());
        }
        if self.directories.contains(to) {
            return Err(Errno::IsADirectory);
        }
        let bytes = self.files.remove(from).unwrap();
        self.files.insert(to.to_owned(), bytes);
        Ok(())
    }
}

struct Pair {
    fs: FileSystem,
    slow: Slow,
    touched: Touched,
    random: Random,
    /// Open files without names.
    open: Vec<Inode>,
}

impl Pair {
    fn path(&mut self) -> String {
        let depth = 1 + self.random.below(3);
        (0..depth).map(|_| format!("/{}", self.random.below(6))).collect()
    }

    /// Compares results; returns whether the operation succeeded.
    fn same<T>(&self, what: &str, real: &Result<T, Errno>, slow: &Result<(), Errno>) -> bool {
        let real = real.as_ref().map(|_| ()).map_err(|&errno| errno);
        assert_eq!(real, *slow, "{what}");
        real.is_ok()
    }

    fn step(&mut self) {
        let (path, other) = (self.path(), self.path());
        self.touched.clear();
        match self.random.below(11) {
            0 | 1 => {
                let real = self.fs.mkdir(&path, &mut self.touched);
                let slow = self.slow.make(&path, true);
                self.same(&path, &real, &slow);
            }
            2..=4 => {
                let real = self.fs.create(&path, &mut self.touched);
                let slow = self.slow.make(&path, false);
                self.same(&path, &real, &slow);
            }
            5 => {
                let real = self.fs.unlink(&path, &mut self.touched);
                let slow = self.slow.unlink(&path);
                if self.same(&path, &real, &slow) {
                    self.open.extend(real);
                }
            }
            6 => {
                let real = self.fs.rename(&path, &other, &mut self.touched);
                let slow = self.slow.rename(&path, &other);
                if self.same(&format!("{path} to {other}"), &real, &slow) {
                    self.open.extend(real.unwrap());
                }
            }
            7 => {
                if let Some(inode) = self.open.pop() {
                    self.fs.evict(inode, &mut self.touched);
                }
            }
            _ => self.write(&path),
        }
        let unread: Vec<_> =
            self.touched.forgets.iter().filter(|block| self.touched.dirties.contains(block)).collect();
        assert!(unread.is_empty(), "{unread:?} are both freed and changed");
    }

    /// Writes to or truncates a file.
    fn write(&mut self, path: &str) {
        let real = self.fs.lookup(path, &mut self.touched);
        let known = self.slow.exists(path);
        assert_eq!(real.is_ok(), known, "{path}");
        let Ok(inode) = real else { return };
        if self.slow.directories.contains(path) {
            assert_eq!(self.fs.set_size(inode, 0, &mut self.touched), Err(Errno::IsADirectory));
            return;
        }
        let bytes = self.slow.files.get_mut(path).unwrap();
        assert_eq!(self.fs.size(inode), *bytes);
        if self.random.once_in(3) {
            *bytes = self.random.below(1 + *bytes * 3 / 2);
            self.fs.set_size(inode, *bytes, &mut self.touched).unwrap();
            return;
        }
        let page = self.random.below(1 + *bytes / BLOCK_BYTES * 9 / 8);
        let most = if self.random.once_in(8) { 3000 } else { 20 };
        let pages = 1 + self.random.below(most);
        *bytes = (*bytes).max((page + pages) * BLOCK_BYTES);
        let old = self.fs.size(inode);
        if *bytes > old {
            self.fs.set_size(inode, *bytes, &mut self.touched).unwrap();
        }
        let by = self.random.below(20) as u32;
        let mut new = Vec::new();
        match self.fs.allocate(inode, page, pages as u32, by, &mut new, &mut self.touched) {
            Ok(()) => {
                let mut runs = Vec::new();
                self.fs.map(inode, page, pages as u32, &mut runs, &mut Touched::default()).unwrap();
                assert!(runs.iter().all(|run| run.block.is_some()));
            }
            Err(errno) => assert_eq!(errno, Errno::NoSpace),
        }
        if self.random.once_in(4) {
            self.fs.closed(inode);
        }
    }

    /// Compares the names of both.
    fn compare(&mut self) {
        let mut todo = vec![String::new()];
        let mut seen = 0;
        while let Some(path) = todo.pop() {
            let at = if path.is_empty() { "/" } else { &path };
            for entry in self.fs.readdir(at, &mut self.touched).unwrap() {
                let path = format!("{path}/{}", entry.name);
                seen += 1;
                if entry.directory {
                    assert!(self.slow.directories.contains(&path), "{path}");
                    todo.push(path);
                } else {
                    assert_eq!(self.slow.files.get(&path), Some(&self.fs.size(entry.inode)), "{path}");
                }
            }
        }
        assert_eq!(seen, self.slow.files.len() + self.slow.directories.len());
        self.fs.check().unwrap();
    }
}

fn options() -> Vec<Options> {
    let small = |ext: Ext| Options::Ext(Ext { journal_blocks: ext.journal_blocks.min(1024), ..ext });
    let mut all = vec![
        small(Ext::default()),
        small(Ext::ext3()),
        small(Ext::ext4()),
        small(Ext { directories: Directories::Old, htree: true, ..Ext::default() }),
        small(Ext { ahead: Ahead::Reserve, ..Ext::ext3() }),
        small(Ext { ahead: Ahead::Multiblock, ..Ext::default() }),
        small(Ext { map: Map::Extents, ahead: Ahead::Nothing, ..Ext::default() }),
    ];
    all.push(Options::XfsLike(Xfs { journal_blocks: 1024, ..Xfs::default() }));
    all.push(Options::XfsLike(Xfs {
        journal_blocks: 1024,
        ahead_grows: true,
        inode_bytes: 512,
        groups: 7,
        ..Xfs::default()
    }));
    all
}

#[test]
fn random_operations_keep_the_file_system_consistent() {
    for options in options() {
        for seed in 0..6 {
            let fs = FileSystem::new(&options, Block(12_345), 100_000).unwrap();
            let slow = Slow::default();
            let (touched, random) = (Touched::default(), Random::new(seed));
            let mut pair = Pair { fs, slow, touched, random, open: Vec::new() };
            for i in 0..3000 {
                pair.step();
                if i % 500 == 499 {
                    pair.compare();
                }
            }
        }
    }
}

/// Removing all files frees everything except the root directory's pages.
#[test]
fn removing_all_files_frees_their_blocks() {
    for options in options() {
        let mut fs = FileSystem::new(&options, Block(0), 100_000).unwrap();
        fs.mkdir("/empty", &mut Touched::default()).unwrap();
        let free = fs.free_blocks();
        let mut image = Image::new(&mut fs);
        image.mkdir("/d").unwrap();
        for i in 0..300 {
            image.file(&format!("/d/{i}"), i * 3000).unwrap();
        }
        let mut touched = Touched::default();
        for i in 0..300 {
            let inode = fs.unlink(&format!("/d/{i}"), &mut touched).unwrap();
            fs.evict(inode, &mut touched);
        }
        fs.rename("/empty", "/d", &mut touched).unwrap();
        fs.check().unwrap();
        fs.reserve(free).unwrap();
        assert_eq!(fs.reserve(1), Err(Errno::NoSpace), "{options:?}");
    }
}

/// Writes until the file system is full.
#[test]
fn a_full_file_system_stays_consistent() {
    for options in options() {
        let mut fs = FileSystem::new(&options, Block(0), 60_000).unwrap();
        let mut touched = Touched::default();
        let files: Vec<Inode> = (0..3).map(|i| fs.create(&format!("/{i}"), &mut touched).unwrap()).collect();
        let mut page = 0;
        'full: loop {
            for &file in &files {
                fs.set_size(file, (page + 7) * BLOCK_BYTES, &mut touched).unwrap();
                touched.clear();
                let done = fs.allocate(file, page, 7, file.0 as u32, &mut Vec::new(), &mut touched);
                if done.is_err() {
                    assert_eq!(done, Err(Errno::NoSpace));
                    break 'full;
                }
            }
            page += 7;
        }
        assert_eq!(fs.free_blocks(), 0, "{options:?}");
        assert_eq!(
            fs.mkdir("/d", &mut touched).and_then(|_| fs.mkdir("/d/e", &mut touched)).err(),
            full(&options)
        );
        fs.check().unwrap();
    }
}

/// The error of creating a directory on a full file system; XFS directories fit in the inode.
fn full(options: &Options) -> Option<Errno> {
    match options {
        Options::Ext(_) => Some(Errno::NoSpace),
        Options::XfsLike(_) => None,
    }
}
