//! Calls that name files: open, close, make, remove, rename, list, look at.

use super::buffers::Of;
use super::cache::FileId;
use super::calls::{Descriptor, Errno, Open, Path, Returned};
use super::fs::{BLOCK_BYTES, Inode, Touched};
use super::state::State;
use super::tasks::Context;

impl Context {
    /// Does an operation of the file system and pays for what it touched.
    async fn name<R>(
        &self,
        of: Of,
        does: impl FnOnce(&mut State, &mut Touched) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let (result, touched) = self.with(|state| {
            let mut touched = state.take_touched();
            (does(state, &mut touched), touched)
        });
        // What failed had to read as well to find that out.
        self.settle(touched, of).await?;
        result
    }

    /// Looking up costs the processor something for every component.
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
                    // Somebody was faster.
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
            self.let_go(inode, false).await?;
            return Err(errno);
        }
        Ok(self.with(|state| Returned::Opened(state.task(self.task).descriptors.open(inode, how))))
    }

    /// Finds a file by name, which counts as open from that moment on: whoever removes its name while this one still waits for
    /// the device leaves the file to it.
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
            self.let_go(inode, false).await?;
        }
        found
    }

    pub(super) async fn close(&self, file: Descriptor) -> Result<Returned, Errno> {
        let open = self.with(|state| state.task(self.task).descriptors.close(file))?;
        self.let_go(open.inode, open.wrote).await?;
        Ok(Returned::Done)
    }

    /// One fewer has the file open.
    async fn let_go(&self, inode: Inode, wrote: bool) -> Result<(), Errno> {
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
        self.gone(inode).await?;
        Ok(Returned::Done)
    }

    pub(super) async fn rmdir(&self, path: &Path) -> Result<Returned, Errno> {
        self.walk(path);
        self.name(Of::Name, |state, touched| state.fs.rmdir(path, touched)).await?;
        Ok(Returned::Done)
    }

    pub(super) async fn rename(&self, from: &Path, to: &Path) -> Result<Returned, Errno> {
        self.walk(from);
        self.walk(to);
        let replaced = self.name(Of::Name, |state, touched| state.fs.rename(from, to, touched)).await?;
        if let Some(inode) = replaced {
            self.gone(inode).await?;
        }
        Ok(Returned::Done)
    }

    pub(super) async fn readdir(&self, path: &Path) -> Result<Returned, Errno> {
        self.walk(path);
        let entries = self.name(Of::Name, |state, touched| state.fs.readdir(path, touched)).await?;
        let names = entries.iter().map(|entry| match entry.directory {
            true => Path::from(format!("{}/", entry.name)),
            false => Path::clone(&entry.name),
        });
        Ok(Returned::Entries(names.collect()))
    }

    pub(super) async fn stat(&self, path: &Path) -> Result<Returned, Errno> {
        self.walk(path);
        // Its length now: while this waits for the device, the file may go.
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

    /// Sets a file's length while nobody writes to it.
    async fn cut(&self, inode: Inode, bytes: u64) -> Result<(), Errno> {
        self.lock(inode.into()).await;
        let cut = self.set_length(inode, bytes).await;
        self.unlock(inode.into());
        cut
    }

    async fn set_length(&self, inode: Inode, bytes: u64) -> Result<(), Errno> {
        self.cut_off(inode, bytes).await;
        self.name(Of::Inode(inode), |state, touched| state.fs.set_size(inode, bytes, touched)).await
    }

    /// A file lost its name: it goes now, or when the last who has it open closes it.
    async fn gone(&self, inode: Inode) -> Result<(), Errno> {
        let open = self.with(|state| {
            let cached = state.files.entry(inode.into());
            cached.unlinked = true;
            cached.opened > 0
        });
        if open { Ok(()) } else { self.evict(inode).await }
    }

    /// Throws away what is in memory of a file from its new end on. What of it is on its way to the device is waited for, as in
    /// `truncate_inode_pages`: then its blocks may be given to others.
    async fn cut_off(&self, inode: Inode, bytes: u64) {
        loop {
            self.with(|state| state.cut_pages(inode, bytes));
            // Meanwhile somebody may have read there again.
            if !self.wait_for_dropped(inode.into()).await {
                break;
            }
        }
    }

    async fn evict(&self, inode: Inode) -> Result<(), Errno> {
        self.cut_off(inode, 0).await;
        self.with(|state| state.files.forget(inode.into()));
        self.name(Of::Name, |state, touched| {
            state.fs.evict(inode, touched);
            Ok(())
        })
        .await
    }

    /// A process ended: what it had open is closed.
    pub(super) async fn close_all(&self) {
        while let Some(file) = self.with(|state| state.task(self.task).descriptors.first()) {
            // It is open, so there is nothing that can be wrong with it but the device.
            if self.close(file).await.is_err() {
                return;
            }
        }
    }
}

impl State {
    /// Drops a file's pages, but for those that are dirty or on their way.
    fn forget_pages(&mut self, inode: Inode) {
        let end = self.fs.size(inode).div_ceil(BLOCK_BYTES);
        for id in self.pages.within(inode.into(), 0..end) {
            if self.pages[id].is_idle() {
                self.drop_page(id);
            }
        }
    }

    /// Throws away what is in memory of a file from its new end on.
    fn cut_pages(&mut self, inode: Inode, bytes: u64) {
        let file = FileId::from(inode);
        let first = bytes.div_ceil(BLOCK_BYTES);
        let end = self.fs.size(inode).div_ceil(BLOCK_BYTES);
        for id in self.pages.within(file, first..end) {
            self.throw_away(id);
        }
        let cached = self.files.entry(file);
        let promised = cached.reserved.split_off(&first).len();
        cached.resume = 0;
        self.fs.unreserve(promised as u64);
    }
}
