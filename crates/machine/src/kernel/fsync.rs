//! `fsync`, `fdatasync`, `sync` and `O_SYNC`.

use super::cache::{FileId, Page};
use super::calls::{Descriptor, Errno, Returned};
use super::context::Context;
use super::fs::{Block, Inode};
use super::journal::Tid;
use super::state::{Bio, Purpose, State, TaskId, Wait};
use super::writeback::Effort;
use elevator::Op;

impl State {
    /// The transaction that must commit for a file to be durable, if it is not durable yet. For a directory, the newest
    /// transaction, as in ext4 (`ext4_fsync_journal`).
    fn commit_needed(&self, inode: Inode, data_only: bool) -> Option<Tid> {
        let tid = if self.fs.is_directory(inode) {
            self.journal.as_ref()?.newest()
        } else {
            let cached = self.files.get(inode.into())?;
            if data_only { cached.data_tid } else { cached.tid }
        }?;
        (self.durable < Some(tid)).then_some(tid)
    }

    /// Whether data that the device has received becomes durable with this transaction.
    fn flush_to_come(&self, tid: Tid) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.flush_to_come(tid))
    }
}

impl Context {
    /// `fsync`, or `fdatasync` if `data_only`.
    pub(super) async fn sync_file(&self, file: Descriptor, data_only: bool) -> Result<Returned, Errno> {
        let open = self.with(|state| state.task(self.task).descriptors.get(file).copied())?;
        self.make_durable(open.inode, data_only).await
    }

    /// Returns when a file's data, and its metadata or the part of it that locates the data, are durable.
    pub(super) async fn make_durable(&self, inode: Inode, data_only: bool) -> Result<Returned, Errno> {
        let file = FileId::from(inode);
        self.write_file(file, usize::MAX, Effort::SYNC).await;
        self.wait_for_writes(file).await;
        if self.with(|state| state.journal.is_some()) {
            match self.with(|state| state.commit_needed(inode, data_only)) {
                Some(tid) => {
                    let flushes = self.with(|state| state.flush_to_come(tid));
                    self.wait_for_commit(tid).await;
                    if !flushes {
                        self.flush_device().await?;
                    }
                }
                None => self.flush_device().await?,
            }
        } else {
            self.write_metadata(file).await;
            self.flush_device().await?;
        }
        let failed = self.with(|state| std::mem::take(&mut state.files.entry(file).failed));
        if failed { Err(Errno::Io) } else { Ok(Returned::Done) }
    }

    /// Without a journal: writes the file's metadata blocks, in block order.
    async fn write_metadata(&self, file: FileId) {
        let blocks = self.with(|state| std::mem::take(&mut state.files.entry(file).metadata));
        for &block in &blocks {
            // A block under writeback with its old content is written again after that write (`sync_dirty_buffer`).
            self.wait_for_buffer(block, |page| page.writing && page.dirty).await;
            if let Some(bio) = self.with(|state| state.one_buffer(self.task, block)) {
                self.submit(bio).await;
            }
        }
        for block in blocks {
            self.wait_for_buffer(block, |page| page.writing).await;
        }
    }

    /// Waits while a condition holds for a block's buffer.
    async fn wait_for_buffer(&self, block: Block, holds: impl Fn(&Page) -> bool) {
        while let Some(id) =
            self.with(|state| state.pages.find(FileId::DEVICE, block.0).filter(|&id| holds(&state.pages[id])))
        {
            self.sleep(Wait::Page(id)).await;
        }
    }

    /// Flushes the device's cache if the file system uses barriers.
    async fn flush_device(&self) -> Result<(), Errno> {
        if self.with(|state| state.rules.description.file_system.journal.barrier) {
            self.submit(Bio::bare(self.task, Purpose::Counted, Op::Flush, None)).await;
            self.own_io_finished().await?;
        }
        Ok(())
    }

    /// Waits for the task's own submissions.
    pub(super) async fn own_io_finished(&self) -> Result<(), Errno> {
        while self.with(|state| state.task(self.task).pending > 0) {
            self.sleep(Wait::Io(self.task)).await;
        }
        let failed = self.with(|state| std::mem::take(&mut state.task(self.task).failed));
        if failed { Err(Errno::Io) } else { Ok(()) }
    }

    /// Returns when everything that is dirty now is durable.
    pub(super) async fn sync_all(&self) -> Result<Returned, Errno> {
        self.write_everything().await;
        if let Some(tid) = self.with(State::force_commit) {
            self.wait_for_commit(tid).await;
            self.write_everything().await;
        }
        self.flush_device().await?;
        Ok(Returned::Done)
    }

    async fn write_everything(&self) {
        let files: Vec<FileId> = self.with(|state| state.files.order.iter().collect());
        // Data first, then the metadata that locates it.
        let (devices, mut files): (Vec<_>, Vec<_>) = files.into_iter().partition(|&f| f == FileId::DEVICE);
        for &file in &files {
            self.write_file(file, usize::MAX, Effort::SYNC).await;
        }
        self.with(|state| {
            files.extend(state.files.iter().filter(|(_, f)| f.writing > 0).map(|(id, _)| id));
            files.sort_unstable();
            files.dedup();
        });
        for file in files {
            self.wait_for_writes(file).await;
        }
        for file in devices {
            self.write_file(file, usize::MAX, Effort::SYNC).await;
            self.wait_for_writes(file).await;
        }
    }
}

impl State {
    /// A submission of one dirty buffer.
    fn one_buffer(&mut self, task: TaskId, block: Block) -> Option<Bio> {
        let id = self.pages.find(FileId::DEVICE, block.0)?;
        if !self.pages[id].dirty || self.pages[id].writing {
            return None;
        }
        let causes = self.start_page_writeback(id);
        let mut pages = self.bios.list();
        pages.push(id);
        let bio = Bio::of_pages(task, Purpose::Writeback, Op::Write, block, pages);
        let sync = self.rules.sync_writes;
        Some(Bio { flags: elevator::Flags { sync, meta: true, ..bio.flags }, causes, ..bio })
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Waker;

    use elevator::Sector;
    use elevator::queue::Token;

    use super::super::{Description, Image, Kernel};
    use super::*;

    /// A name is durable when its directory's transaction has committed.
    #[test]
    fn fsync_of_a_directory_commits_the_journal() {
        let machine = Description::named("linux-6").expect("built in");
        let kernel = Kernel::new(&machine, Sector(1 << 22), &Image::new()).expect("a kernel");
        let root = kernel.state.borrow().fs.root();
        let needed = || kernel.state.borrow().commit_needed(root, true);
        assert_eq!(needed(), None, "nothing has changed");
        let context = Context::new(&kernel.state, Kernel::task_of(0));
        kernel.state.borrow_mut().task(Kernel::task_of(0));
        let path = super::super::Path::from("/new");
        let how = super::super::Open { create: true, ..Default::default() };
        let mut opened = pin!(context.open(&path, how));
        while opened.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())).is_pending() {
            let mut state = kernel.state.borrow_mut();
            let sent = state.outgoing(|bio| Token(u64::from(bio))).expect("it waits for the device");
            state.arrived(sent.token.0 as u32, elevator::Outcome::Done);
        }
        assert!(needed().is_some());
    }

    /// The inodes of two files lie in one block, which is under writeback for one file when the other file changes it.
    #[test]
    fn fsync_rewrites_a_block_that_changed_under_writeback() {
        let machine = Description::named("pc-2003").expect("built in");
        let kernel = Kernel::new(&machine, Sector(1 << 22), &Image::new()).expect("a kernel");
        let (task, block, file) = (Kernel::task_of(0), Block(77), FileId::from(Inode(12)));
        let id = {
            let state = &mut *kernel.state.borrow_mut();
            let id = state.add_page(FileId::DEVICE, block.0);
            let cause = state.cause(task);
            state.dirty_page(id, cause);
            state.start_page_writeback(id);
            state.dirty_page(id, cause);
            state.files.entry(file).metadata.insert(block);
            id
        };
        let context = Context::new(&kernel.state, task);
        let mut writes = pin!(context.write_metadata(file));
        let mut poll = || writes.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
        let outgoing = || kernel.state.borrow_mut().outgoing(|bio| Token(u64::from(bio)));
        assert!(poll().is_pending() && outgoing().is_none(), "waits for the write in flight");
        kernel.state.borrow_mut().pages_written(&[id], true);
        assert!(poll().is_pending());
        assert_eq!(outgoing().map(|submission| submission.start), Some(block.sector()));
        assert!(poll().is_pending(), "waits for its own write");
        kernel.state.borrow_mut().arrived(0, elevator::Outcome::Done);
        assert!(poll().is_ready());
    }
}
