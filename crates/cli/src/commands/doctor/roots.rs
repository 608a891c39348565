//! The system's trees, of which each file that was read is kept for `--bundle`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the system's trees are.
pub(crate) struct Roots {
    pub(crate) root: PathBuf,
    /// What was read, once; `None` for files that are missing.
    files: RefCell<BTreeMap<PathBuf, Option<String>>>,
}

impl Roots {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), files: RefCell::default() }
    }

    /// The text of a file, without the line end. `None` if there is no such file, or it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let file = self.root.join(path);
        let mut files = self.files.borrow_mut();
        let read = |file: &PathBuf| Some(fs::read_to_string(file).ok()?.trim_end().to_owned());
        files.entry(file).or_insert_with_key(read).clone()
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Whether both paths lead to one file.
    pub(super) fn is_same(&self, one: &str, other: &str) -> bool {
        let place = |path: &str| self.root.join(path).canonicalize().ok();
        place(one).is_some_and(|one| place(other) == Some(one))
    }

    /// The names in a directory, sorted.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Every file that was read.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, String> {
        let files = self.files.borrow();
        files.iter().filter_map(|(path, text)| Some((path.clone(), text.clone()?))).collect()
    }

    /// Whether this system runs in a virtual machine.
    pub(crate) fn is_guest(&self) -> bool {
        let flags = self.read("proc/cpuinfo").unwrap_or_default();
        let is_hypervised = |line: &str| {
            line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
        };
        flags.lines().any(is_hypervised) || self.has("sys/hypervisor/type")
    }
}
