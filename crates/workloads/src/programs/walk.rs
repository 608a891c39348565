//! `find`: everything below a directory, in directory order, parents first.

use machine::kernel::Path;

use super::os::Os;

pub(super) enum Entry {
    Directory(Path),
    File(Path),
}

/// A walk over a tree.
pub(super) struct Walk {
    /// Open directories with the names not visited yet, the last one first.
    open: Vec<(Path, Vec<Path>)>,
    root: Option<Path>,
}

impl Walk {
    pub(super) fn new(root: &Path) -> Self {
        Self { open: Vec::new(), root: Some(Path::clone(root)) }
    }

    /// The next entry; the root is not included.
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
