//! `find`: everything below a directory, in the order in which directories hold it, each before what lies below it.

use machine::kernel::Path;

use super::os::Os;

/// Something that was found.
pub(super) enum Entry {
    /// A directory.
    Directory(Path),
    /// A file.
    File(Path),
}

/// A walk over a tree.
pub(super) struct Walk {
    /// Directories that are open: names of each that are still to be looked at, last one first.
    open: Vec<(Path, Vec<Path>)>,
    root: Option<Path>,
}

impl Walk {
    pub(super) fn new(root: &Path) -> Self {
        Self { open: Vec::new(), root: Some(Path::clone(root)) }
    }

    /// The next thing found; the root itself is not.
    pub(super) async fn next(&mut self, os: &Os) -> Option<Entry> {
        if let Some(root) = self.root.take() {
            self.enter(os, root).await;
        }
        loop {
            let (directory, names) = self.open.last_mut()?;
            let Some(name) = names.pop() else {
                self.open.pop();
                continue;
            };
            let path = |name: &str| match &**directory {
                "/" => Path::from(format!("/{name}")),
                directory => Path::from(format!("{directory}/{name}")),
            };
            let Some(name) = name.strip_suffix('/') else { return Some(Entry::File(path(&name))) };
            let path = path(name);
            self.enter(os, Path::clone(&path)).await;
            return Some(Entry::Directory(path));
        }
    }

    async fn enter(&mut self, os: &Os, directory: Path) {
        let mut names = os.readdir(&directory).await;
        names.reverse();
        self.open.push((directory, names));
    }
}
