//! Paths and the operations on names.

use super::directory::{Directory, Named, PageAccess};
use super::recorder::Recorder;
use super::types::{BLOCK_BYTES, Entry, Inode, NewInode, Touched};
use super::{Errno, FileSystem, Node};

impl FileSystem {
    /// Finds a file or directory, reading the directories on the path and its inode.
    ///
    /// # Errors
    /// [`Errno::NotFound`]; [`Errno::NotADirectory`] if a component is a file.
    pub fn lookup(&mut self, path: &str, touched: &mut Touched) -> Result<Inode, Errno> {
        let mut inode = self.root();
        self.read_inode(inode, touched);
        for name in names(path) {
            inode = self.look(inode, name, touched)?.ok_or(Errno::NotFound)?.inode;
            self.read_inode(inode, touched);
        }
        Ok(inode)
    }

    /// Finds a file or directory without side effects: no reads are recorded, and later searches are unaffected.
    pub fn find(&self, path: &str) -> Result<Inode, Errno> {
        names(path).try_fold(self.root(), |inode, name| {
            let node = self.nodes.get(&inode).ok_or(Errno::NotFound)?;
            let directory = node.directory.as_deref().ok_or(Errno::NotADirectory)?;
            directory.find(name).map(|named| named.inode).ok_or(Errno::NotFound)
        })
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// [`Errno::Exists`], [`Errno::NoSpace`], and those of [`lookup`](Self::lookup).
    pub fn create(&mut self, path: &str, touched: &mut Touched) -> Result<Inode, Errno> {
        self.make(path, false, None, touched)
    }

    /// Creates an empty directory.
    pub fn mkdir(&mut self, path: &str, touched: &mut Touched) -> Result<Inode, Errno> {
        self.make(path, true, None, touched)
    }

    /// Removes a file's name. The file stays until it is evicted.
    ///
    /// # Errors
    /// [`Errno::IsADirectory`], and those of [`lookup`](Self::lookup).
    pub fn unlink(&mut self, path: &str, touched: &mut Touched) -> Result<Inode, Errno> {
        let (parent, name, found) = self.present(path, touched)?;
        if found.directory {
            return Err(Errno::IsADirectory);
        }
        self.remove_name(parent, name, touched);
        self.make_orphan(found.inode, touched);
        Ok(found.inode)
    }

    /// Renames a file or directory. A file with the new name is replaced and its inode returned, for eviction; an empty
    /// directory is freed.
    ///
    /// # Errors
    /// [`Errno::Invalid`] for a directory into itself; [`Errno::IsADirectory`], [`Errno::NotADirectory`] and
    /// [`Errno::NotEmpty`] if the target cannot be replaced; and those of [`lookup`](Self::lookup).
    pub fn rename(&mut self, from: &str, to: &str, touched: &mut Touched) -> Result<Option<Inode>, Errno> {
        let (parent, name, found) = self.present(from, touched)?;
        if found.directory && is_within(to, from) {
            return Err(Errno::Invalid);
        }
        let (target, new_name) = self.parent(to, touched)?;
        let replaced = self.look(target, new_name, touched)?;
        let mut evict = None;
        if let Some(replaced) = replaced {
            match (found.directory, replaced.directory) {
                _ if replaced.inode == found.inode => return Ok(None),
                (true, _) => self.empty_directory(replaced)?,
                (false, true) => return Err(Errno::IsADirectory),
                (false, false) => evict = Some(replaced.inode),
            }
            self.remove_name(target, new_name, touched);
        }
        // A replaced name leaves enough room, so this can fail only before anything was removed.
        self.add_name(target, new_name, found.inode, found.directory, touched)?;
        self.remove_name(parent, name, touched);
        match (replaced, evict) {
            (Some(_), Some(file)) => self.make_orphan(file, touched),
            (Some(directory), None) => {
                self.free_node(directory.inode, &mut Recorder::new(touched, self.area.start));
            }
            _ => {}
        }
        Ok(evict)
    }

    /// Entries of a directory, in its order.
    ///
    /// # Errors
    /// [`Errno::NotADirectory`], and those of [`lookup`](Self::lookup).
    pub fn readdir(&mut self, path: &str, touched: &mut Touched) -> Result<Vec<Entry>, Errno> {
        let inode = self.lookup(path, touched)?;
        let mut accesses = std::mem::take(&mut self.accesses);
        let listed = self.directory(inode).map(|directory| directory.list(&mut accesses));
        self.charge_accesses(inode, &mut accesses, touched);
        self.accesses = accesses;
        listed
    }

    fn directory(&mut self, inode: Inode) -> Result<&mut Directory, Errno> {
        let node = self.nodes.get_mut(&inode).ok_or(Errno::NotFound)?;
        node.directory.as_deref_mut().ok_or(Errno::NotADirectory)
    }

    fn empty_directory(&mut self, named: Named) -> Result<(), Errno> {
        if self.directory(named.inode)?.is_empty() { Ok(()) } else { Err(Errno::NotEmpty) }
    }

    fn read_inode(&self, inode: Inode, touched: &mut Touched) {
        Recorder::new(touched, self.area.start).read(self.allocator.layout.inode_block(inode));
    }

    /// The directory of a path's last component, and that component.
    fn parent<'p>(&mut self, path: &'p str, touched: &mut Touched) -> Result<(Inode, &'p str), Errno> {
        let mut inode = self.root();
        self.read_inode(inode, touched);
        let mut names = names(path).peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                self.directory(inode)?;
                return Ok((inode, name));
            }
            inode = self.look(inode, name, touched)?.ok_or(Errno::NotFound)?.inode;
            self.read_inode(inode, touched);
        }
        Err(Errno::Exists)
    }

    fn absent<'p>(&mut self, path: &'p str, touched: &mut Touched) -> Result<(Inode, &'p str), Errno> {
        let (parent, name) = self.parent(path, touched)?;
        match self.look(parent, name, touched)? {
            Some(_) => Err(Errno::Exists),
            None => Ok((parent, name)),
        }
    }

    fn present<'p>(
        &mut self,
        path: &'p str,
        touched: &mut Touched,
    ) -> Result<(Inode, &'p str, Named), Errno> {
        let (parent, name) = self.parent(path, touched)?;
        let found = self.look(parent, name, touched)?.ok_or(Errno::NotFound)?;
        self.read_inode(found.inode, touched);
        Ok((parent, name, found))
    }

    /// Looks a name up in a directory.
    fn look(&mut self, inode: Inode, name: &str, touched: &mut Touched) -> Result<Option<Named>, Errno> {
        let mut accesses = std::mem::take(&mut self.accesses);
        let found = self.directory(inode).map(|directory| directory.look(name, &mut accesses));
        self.charge_accesses(inode, &mut accesses, touched);
        self.accesses = accesses;
        found
    }

    /// Creates a file or directory; a directory in the group of block `near`, if given.
    pub(super) fn make(
        &mut self,
        path: &str,
        directory: bool,
        near: Option<u32>,
        touched: &mut Touched,
    ) -> Result<Inode, Errno> {
        let (parent, name) = self.absent(path, touched)?;
        let kind = NewInode { parent, directory, near };
        let inode = self.new_node(kind, touched)?;
        if let Err(full) = self.add_name(parent, name, inode, directory, touched) {
            self.free_node(inode, &mut Recorder::new(touched, self.area.start));
            return Err(full);
        }
        Ok(inode)
    }

    fn new_node(&mut self, kind: NewInode, touched: &mut Touched) -> Result<Inode, Errno> {
        let mut recorder = Recorder::new(touched, self.area.start);
        let allocator = &mut self.allocator;
        let inode = allocator.layout.new_inode(&mut allocator.space, kind, &mut recorder)?;
        let node = if kind.directory { self.new_directory() } else { Node::default() };
        self.nodes.insert(inode, node);
        if let Err(full) = self.first_pages(inode, touched) {
            self.free_node(inode, &mut Recorder::new(touched, self.area.start));
            return Err(full);
        }
        Ok(inode)
    }

    /// Adds a name to a directory, which may grow. The directory's inode changes.
    fn add_name(
        &mut self,
        parent: Inode,
        name: &str,
        inode: Inode,
        directory: bool,
        touched: &mut Touched,
    ) -> Result<(), Errno> {
        let growth = self.directory(parent)?.growth(name);
        for page in growth {
            self.directory_page(parent, page, &mut Recorder::new(touched, self.area.start))?;
        }
        let mut accesses = std::mem::take(&mut self.accesses);
        let holder = self.directory(parent)?;
        holder.add(name, inode, directory, &mut accesses);
        let bytes = u64::from(holder.length()) * BLOCK_BYTES;
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.bytes = bytes;
        }
        self.charge_accesses(parent, &mut accesses, touched);
        self.accesses = accesses;
        self.change_inode(parent, touched);
        Ok(())
    }

    fn remove_name(&mut self, parent: Inode, name: &str, touched: &mut Touched) {
        let mut accesses = std::mem::take(&mut self.accesses);
        if let Ok(holder) = self.directory(parent) {
            holder.remove(name, &mut accesses);
        }
        self.charge_accesses(parent, &mut accesses, touched);
        self.accesses = accesses;
        self.change_inode(parent, touched);
    }

    fn make_orphan(&mut self, inode: Inode, touched: &mut Touched) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.orphan = true;
        }
        self.allocator.layout.charge_orphan(&mut Recorder::new(touched, self.area.start));
        self.change_inode(inode, touched);
    }

    fn change_inode(&self, inode: Inode, touched: &mut Touched) {
        Recorder::new(touched, self.area.start).change(self.allocator.layout.inode_block(inode));
    }

    /// Records accesses to a directory's pages as block accesses.
    fn charge_accesses(&self, inode: Inode, accesses: &mut Vec<PageAccess>, touched: &mut Touched) {
        let mut recorder = Recorder::new(touched, self.area.start);
        if let Some(node) = self.nodes.get(&inode) {
            for step in &*accesses {
                let (PageAccess::Read(page) | PageAccess::Change(page)) = *step;
                match (node.extents.block(page), step) {
                    (Some(at), PageAccess::Read(_)) => recorder.read(at),
                    (Some(at), PageAccess::Change(_)) => recorder.change(at),
                    // A directory inside its inode, whose block is recorded anyway.
                    (None, _) => {}
                }
            }
        }
        accesses.clear();
    }
}

/// The components of a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Whether a path is `directory` or below it.
fn is_within(path: &str, directory: &str) -> bool {
    let mut path = names(path);
    names(directory).all(|name| path.next() == Some(name))
}
