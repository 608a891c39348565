//! Calls on names: open, close, create, remove, rename, list, stat.

use super::buffers::Of;
use super::cache::FileId;
use super::calls::{Descriptor, Errno, Open, Path, Returned};
use super::context::Context;
use super::fs::{BLOCK_BYTES, Inode, Touched};
use super::state::State;

impl Context {
    /// Executes an operation of the file system and charges its metadata accesses.
    async fn name<R>(
        &self,
        of: Of,
        does: impl FnOnce(&mut State, &mut Touched) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let (result, touched) = self.with(|state| {
            let mut touched = state.take_touched();
            (does(state, &mut touched), touched)
        });
        // A failed operation has read metadata as well.
        self.settle(touched, of).await?;
        result
    }

    /// Charges the lookup of each path component.
    fn walk(&self, path: &str) {
        let components = path.bytes().filter(|&byte| byte == b'/').count() as u64;
        self.with(|state| state.sleepers.spend(state.now, self.task, state.rules.name * components));
    }

    pub(super) async fn open(&self, path: &Path, how: Open) -> Result<Returned, Errno> {
        self.walk(path);
        let found = self.hold(|state, touched| state.fs.lookup(path, touched)).await;
        let inode = match found {
            Err(Errno::NotFound) if how.create => {
                self.hold(|state, touched| match state.fs.create(path, touched) {
                    // Another process created the file meanwhile.
                    Err(Errno::Exists) => state.fs.lookup(path, touched),
                    created => created,
                })
                .await?
            }
            found => found?,
        };
        if how.truncate
            && self.with(|state| state.fs.size(inode) > 0)
            && let Err(errno) = self.cut(inode, 0).await
        {
            self.release_file(inode, false).await?;
            return Err(errno);
        }
        Ok(self.with(|state| Returned::Opened(state.task(self.task).descriptors.open(inode, how))))
    }

    /// Finds a file by name and counts it as open at once: if its name is removed while this task waits for the device, the
    /// file stays.
    async fn hold(
        &self,
        finds: impl FnOnce(&mut State, &mut Touched) -> Result<Inode, Errno>,
    ) -> Result<Inode, Errno> {
        let mut held = None;
        let found = self
            .name(Of::Name, |state, touched| {
                let inode = finds(state, touched)?;
                state.files.entry(inode.into()).opened += 1;
                held = Some(inode);
                Ok(inode)
            })
            .await;
        if let (Err(_), Some(inode)) = (found, held) {
            self.release_file(inode, false).await?;
        }
        found
    }

    pub(super) async fn close(&self, file: Descriptor) -> Result<Returned, Errno> {
        let open = self.with(|state| state.task(self.task).descriptors.close(file))?;
        self.release_file(open.inode, open.wrote).await?;
        Ok(Returned::Done)
    }

    /// Ends one use of a file.
    async fn release_file(&self, inode: Inode, wrote: bool) -> Result<(), Errno> {
        let (last, unlinked) = self.with(|state| {
            let cached = state.files.entry(inode.into());
            cached.opened -= 1;
            (cached.opened == 0, cached.unlinked)
        });
        if last && unlinked {
            self.evict(inode).await?;
        } else if last && wrote {
            self.with(|state| state.fs.closed(inode));
        }
        self.with(|state| state.files.tidy(inode.into()));
        Ok(())
    }

    pub(super) async fn mkdir(&self, path: &Path) -> Result<Returned, Errno> {
        self.walk(path);
        self.name(Of::Name, |state, touched| state.fs.mkdir(path, touched)).await?;
        Ok(Returned::Done)
    }

    pub(super) async fn unlink(&self, path: &Path) -> Result<Returned, Errno> {
        self.walk(path);
        let inode = self.name(Of::Name, |state, touched| state.fs.unlink(path, touched)).await?;
        self.remove_file(inode).await?;
        Ok(Returned::Done)
    }

    pub(super) async fn rename(&self, from: &Path, to: &Path) -> Result<Returned, Errno> {
        self.walk(from);
        self.walk(to);
        let replaced = self.name(Of::Name, |state, touched| state.fs.rename(from, to, touched)).await?;
        if let Some(inode) = replaced {
            self.remove_file(inode).await?;
        }
        Ok(Returned::Done)
    }

    pub(super) async fn readdir(&self, path: &Path) -> Result<Returned, Errno> {
        self.walk(path);
        let listed = self.name(Of::Name, |state, touched| {
            let entries = state.fs.readdir(path, touched)?;
            let stamped = state.fs.lookup(path, touched).ok().and_then(|inode| state.access(inode));
            Ok((entries, stamped))
        });
        let (entries, stamped) = listed.await?;
        if let Some(touched) = stamped {
            self.settle(touched, Of::Name).await?;
        }
        let names = entries.iter().map(|entry| match entry.directory {
            true => Path::from(format!("{}/", entry.name)),
            false => Path::clone(&entry.name),
        });
        Ok(Returned::Entries(names.collect()))
    }

    pub(super) async fn stat(&self, path: &Path) -> Result<Returned, Errno> {
        self.walk(path);
        // The length at this moment: the file may be removed while this task waits for the device.
        let size = self.name(Of::Name, |state, touched| {
            let inode = state.fs.lookup(path, touched)?;
            Ok(state.fs.size(inode))
        });
        Ok(Returned::Bytes(size.await?))
    }

    pub(super) fn seek(&self, file: Descriptor, at: u64) -> Result<Returned, Errno> {
        self.with(|state| state.task(self.task).descriptors.get(file).map(|open| open.position = at))?;
        Ok(Returned::Done)
    }

    pub(super) fn forget(&self, file: Descriptor) -> Result<Returned, Errno> {
        self.with(|state| {
            let inode = state.task(self.task).descriptors.get(file)?.inode;
            state.forget_pages(inode);
            Ok(Returned::Done)
        })
    }

    pub(super) async fn truncate(&self, file: Descriptor, bytes: u64) -> Result<Returned, Errno> {
        let inode = self.with(|state| state.task(self.task).descriptors.get(file).map(|open| open.inode))?;
        self.cut(inode, bytes).await.map(|()| Returned::Done)
    }

    /// Sets a file's length while no task writes to it.
    async fn cut(&self, inode: Inode, bytes: u64) -> Result<(), Errno> {
        self.lock(inode.into()).await;
        let cut = self.set_length(inode, bytes).await;
        self.unlock(inode.into());
        cut
    }

    async fn set_length(&self, inode: Inode, bytes: u64) -> Result<(), Errno> {
        self.truncate_cache(inode, bytes).await;
        self.name(Of::Inode(inode), |state, touched| state.fs.set_size(inode, bytes, touched)).await
    }

    /// Frees a file that lost its name, or marks it to be freed at its last close.
    async fn remove_file(&self, inode: Inode) -> Result<(), Errno> {
        let open = self.with(|state| {
            let cached = state.files.entry(inode.into());
            cached.unlinked = true;
            cached.opened > 0
        });
        if open { Ok(()) } else { self.evict(inode).await }
    }

    /// Drops a file's pages beyond its new end. Those under writeback are waited for, as in `truncate_inode_pages`, because
    /// their blocks may be reallocated afterwards.
    async fn truncate_cache(&self, inode: Inode, bytes: u64) {
        loop {
            self.with(|state| state.cut_pages(inode, bytes));
            // A task may have read there again meanwhile.
            if !self.wait_for_dropped(inode.into()).await {
                break;
            }
        }
    }

    async fn evict(&self, inode: Inode) -> Result<(), Errno> {
        self.truncate_cache(inode, 0).await;
        self.with(|state| state.files.forget(inode.into()));
        self.name(Of::Name, |state, touched| {
            state.fs.evict(inode, touched);
            Ok(())
        })
        .await
    }

    /// Closes all files of a process that ends.
    pub(super) async fn close_all(&self) {
        while let Some(file) = self.with(|state| state.task(self.task).descriptors.first()) {
            // Closing an open file fails only if the device does.
            if self.close(file).await.is_err() {
                return;
            }
        }
    }
}

impl State {
    /// Drops a file's clean pages.
    fn forget_pages(&mut self, inode: Inode) {
        let end = self.fs.size(inode).div_ceil(BLOCK_BYTES);
        for id in self.pages.within(inode.into(), 0..end) {
            if self.pages[id].is_idle() {
                self.drop_page(id);
            }
        }
    }

    /// Drops a file's pages beyond its new end.
    fn cut_pages(&mut self, inode: Inode, bytes: u64) {
        let file = FileId::from(inode);
        let first = bytes.div_ceil(BLOCK_BYTES);
        let end = self.fs.size(inode).div_ceil(BLOCK_BYTES);
        for id in self.pages.within(file, first..end) {
            self.discard_page(id);
        }
        let cached = self.files.entry(file);
        let promised = cached.reserved.split_off(&first).len();
        cached.resume = 0;
        self.fs.unreserve(promised as u64);
    }
}
