//! Names: walking a path, and the operations that add, remove and list names.

use super::directory::{Directory, Named, Step};
use super::touched::Bill;
use super::words::{BLOCK_BYTES, Entry, Inode, NewInode, Touched};
use super::{Errno, FileSystem, Node};

impl FileSystem {
    /// Walks to a file or directory, reading every directory on the way and its own inode.
    ///
    /// # Errors
    /// [`Errno::NotFound`]; [`Errno::NotADirectory`] if a file stands in the way.
    pub fn lookup(&mut self, path: &str, touched: &mut Touched) -> Result<Inode, Errno> {
        let mut inode = self.root();
        self.read_inode(inode, touched);
        for name in names(path) {
            inode = self.look(inode, name, touched)?.ok_or(Errno::NotFound)?.inode;
            self.read_inode(inode, touched);
        }
        Ok(inode)
    }

    /// What a path leads to, without a trace: nothing is read for it, and no search begins elsewhere because of it.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn find(&self, path: &str) -> Result<Inode, Errno> {
        names(path).try_fold(self.root(), |inode, name| {
            let node = self.nodes.get(&inode).ok_or(Errno::NotFound)?;
            let directory = node.directory.as_deref().ok_or(Errno::NotADirectory)?;
            directory.find(name).map(|named| named.inode).ok_or(Errno::NotFound)
        })
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// [`Errno::Exists`], [`Errno::NoSpace`], and those of [`lookup`](Self::lookup).
    pub fn create(&mut self, path: &str, touched: &mut Touched) -> Result<Inode, Errno> {
        self.make(path, false, None, touched)
    }

    /// Makes an empty directory.
    ///
    /// # Errors
    /// As [`create`](Self::create).
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

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Errno::NotADirectory`], [`Errno::NotEmpty`] (the root too), and those of [`lookup`](Self::lookup).
    pub fn rmdir(&mut self, path: &str, touched: &mut Touched) -> Result<(), Errno> {
        if names(path).next().is_none() {
            return Err(Errno::NotEmpty);
        }
        let (parent, name, found) = self.present(path, touched)?;
        self.empty_directory(found)?;
        self.remove_name(parent, name, touched);
        self.free_node(found.inode, &mut Bill::new(touched, self.area.start));
        Ok(())
    }

    /// Gives a file or directory another name. What bore that name is replaced: a file's number comes back, to be
    /// evicted; an empty directory is gone.
    ///
    /// # Errors
    /// [`Errno::Invalid`] for a directory into itself; [`Errno::IsADirectory`], [`Errno::NotADirectory`] and
    /// [`Errno::NotEmpty`] for what may not be replaced; and those of [`lookup`](Self::lookup).
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
        // If there was such a name, its entry's room is there: this can only fail while nothing is lost.
        self.add_name(target, new_name, found.inode, found.directory, touched)?;
        self.remove_name(parent, name, touched);
        match (replaced, evict) {
            (Some(_), Some(file)) => self.make_orphan(file, touched),
            (Some(directory), None) => {
                self.free_node(directory.inode, &mut Bill::new(touched, self.area.start));
            }
            _ => {}
        }
        Ok(evict)
    }

    /// A directory's entries, in the order in which it holds them.
    ///
    /// # Errors
    /// [`Errno::NotADirectory`], and those of [`lookup`](Self::lookup).
    pub fn readdir(&mut self, path: &str, touched: &mut Touched) -> Result<Vec<Entry>, Errno> {
        let inode = self.lookup(path, touched)?;
        let mut steps = std::mem::take(&mut self.steps);
        let listed = self.directory(inode).map(|directory| directory.list(&mut steps));
        self.charge_steps(inode, &mut steps, touched);
        self.steps = steps;
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
        Bill::new(touched, self.area.start).read(self.ground.layout.inode_block(inode));
    }

    /// The directory that a path's last name is in, and that name.
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

    /// Looks one name up in a directory.
    fn look(&mut self, inode: Inode, name: &str, touched: &mut Touched) -> Result<Option<Named>, Errno> {
        let mut steps = std::mem::take(&mut self.steps);
        let found = self.directory(inode).map(|directory| directory.look(name, &mut steps));
        self.charge_steps(inode, &mut steps, touched);
        self.steps = steps;
        found
    }

    /// Makes a file or directory; a directory in the group of block `near`, if one is given.
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
            self.free_node(inode, &mut Bill::new(touched, self.area.start));
            return Err(full);
        }
        Ok(inode)
    }

    fn new_node(&mut self, kind: NewInode, touched: &mut Touched) -> Result<Inode, Errno> {
        let mut bill = Bill::new(touched, self.area.start);
        let ground = &mut self.ground;
        let inode = ground.layout.new_inode(&mut ground.space, kind, &mut bill)?;
        let node = if kind.directory { self.new_directory() } else { Node::default() };
        self.nodes.insert(inode, node);
        if let Err(full) = self.first_pages(inode, touched) {
            self.free_node(inode, &mut Bill::new(touched, self.area.start));
            return Err(full);
        }
        Ok(inode)
    }

    /// Adds a name to a directory, which grows if it must. The directory's times and length change.
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
            self.directory_page(parent, page, &mut Bill::new(touched, self.area.start))?;
        }
        let mut steps = std::mem::take(&mut self.steps);
        let holder = self.directory(parent)?;
        holder.add(name, inode, directory, &mut steps);
        let bytes = u64::from(holder.length()) * BLOCK_BYTES;
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.bytes = bytes;
        }
        self.charge_steps(parent, &mut steps, touched);
        self.steps = steps;
        self.change_inode(parent, touched);
        Ok(())
    }

    fn remove_name(&mut self, parent: Inode, name: &str, touched: &mut Touched) {
        let mut steps = std::mem::take(&mut self.steps);
        if let Ok(holder) = self.directory(parent) {
            holder.remove(name, &mut steps);
        }
        self.charge_steps(parent, &mut steps, touched);
        self.steps = steps;
        self.change_inode(parent, touched);
    }

    fn make_orphan(&mut self, inode: Inode, touched: &mut Touched) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.orphan = true;
        }
        self.ground.layout.charge_orphan(&mut Bill::new(touched, self.area.start));
        self.change_inode(inode, touched);
    }

    fn change_inode(&self, inode: Inode, touched: &mut Touched) {
        Bill::new(touched, self.area.start).change(self.ground.layout.inode_block(inode));
    }

    /// Turns steps through a directory's pages into blocks, and forgets them.
    fn charge_steps(&self, inode: Inode, steps: &mut Vec<Step>, touched: &mut Touched) {
        let mut bill = Bill::new(touched, self.area.start);
        if let Some(node) = self.nodes.get(&inode) {
            for step in &*steps {
                let (Step::Read(page) | Step::Change(page)) = *step;
                match (node.pieces.block(page), step) {
                    (Some(at), Step::Read(_)) => bill.read(at),
                    (Some(at), Step::Change(_)) => bill.change(at),
                    // A directory in its inode, which is charged anyway.
                    (None, _) => {}
                }
            }
        }
        steps.clear();
    }
}

/// The names on a path from the root.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Whether a path is `directory` or leads through it.
fn is_within(path: &str, directory: &str) -> bool {
    let mut path = names(path);
    names(directory).all(|name| path.next() == Some(name))
}
