//! Metadata blocks in the buffer cache: read before an operation, and joined to a transaction or dirtied after it.

use elevator::{CauseSet, Flags, Op};

use super::cache::{FileId, PageId};
use super::calls::Errno;
use super::context::Context;
use super::fs::{Block, Inode, Touched};
use super::journal::{Access, Handle, Started};
use super::state::{Bio, JOURNAL, Purpose, State, TaskId, Wait};

/// Most blocks that one handle changes. Larger operations, such as truncating a large file, take several handles, as in jbd.
const HANDLE_BLOCKS: usize = 64;

/// The file whose durability depends on a metadata change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// No file: the change concerns a name.
    Name,
    /// The file's inode changed.
    Inode(Inode),
    /// The location of the file's data changed. In ordered mode the data is written before the change commits.
    Data(Inode),
}

impl Of {
    const fn inode(self) -> Option<Inode> {
        match self {
            Self::Name => None,
            Self::Inode(inode) | Self::Data(inode) => Some(inode),
        }
    }
}

impl State {
    /// The buffer of a block, if it is up to date.
    fn buffer(&mut self, block: Block) -> Option<PageId> {
        let id = self.pages.find(FileId::DEVICE, block.0)?;
        self.pages[id].uptodate.then(|| {
            self.use_page(id);
            id
        })
    }

    /// Adds a buffer that is about to be read.
    fn reading_buffer(&mut self, block: Block) -> PageId {
        let id = self.add_page(FileId::DEVICE, block.0);
        self.pages[id].reading = true;
        self.pages[id].block = Some(block);
        id
    }

    /// The submissions that read a block, whose buffer is `id`, and the blocks that the file system reads with it and that
    /// are not in memory.
    fn read_beside(&mut self, task: TaskId, block: Block, id: PageId) -> Vec<Bio> {
        let mut bios: Vec<Bio> = Vec::new();
        for at in self.fs.read_beside(block).map(Block) {
            let page = match self.pages.find(FileId::DEVICE, at.0) {
                None => self.reading_buffer(at),
                Some(_) if at == block => id,
                Some(_) => continue,
            };
            match bios.last_mut().filter(|bio| bio.start + bio.sectors == at.sector()) {
                Some(bio) => bio.extend(page),
                None => {
                    let mut pages = self.bios.list();
                    pages.push(page);
                    let bio = Bio::of_pages(task, Purpose::Read, Op::Read, at, pages);
                    bios.push(Bio { flags: Flags { sync: true, meta: true, ..bio.flags }, ..bio });
                }
            }
        }
        bios
    }

    /// Whether a block was read or its read failed; `None` if the buffer was dropped since.
    fn fetched(&mut self, block: Block) -> Option<Result<(), Errno>> {
        let id = self.pages.find(FileId::DEVICE, block.0)?;
        if self.pages[id].uptodate {
            self.use_page(id);
            return Some(Ok(()));
        }
        self.discard_page(id);
        Some(Err(Errno::Io))
    }

    /// A buffer was written to its home location.
    pub(super) fn buffer_written(&mut self, index: u64) {
        if let (Some(tid), Some(journal)) = (self.homes.remove(&index), &mut self.journal) {
            journal.home_written(self.now, Block(index), tid);
            self.pump_journal();
        }
    }

    /// Drops the buffer of a freed block; its content needs no write.
    fn forget_buffer(&mut self, block: Block) {
        if let Some(id) = self.pages.find(FileId::DEVICE, block.0) {
            self.pages[id].held = false;
            self.discard_page(id);
        }
    }

    /// Adds a buffer to a transaction: writeback skips it until the transaction is durable. The home write is attributed to
    /// those who changed the buffer since its last write, not to every process of its transactions.
    fn hold_buffer(&mut self, id: PageId, task: TaskId) {
        let cause = self.cause(task);
        self.change_page(id, cause);
        let page = &mut self.pages[id];
        page.held = true;
        if std::mem::take(&mut page.dirty) {
            let (file, index) = (page.file, page.index);
            self.dirty -= 1;
            self.files.clean(file, index);
        }
    }

    /// Begins writing these buffers home for a checkpoint of the journal, those that are dirty; returns their pages and
    /// causes.
    pub(super) fn start_home_writes(&mut self, blocks: &[Block]) -> (Vec<PageId>, Option<CauseSet>) {
        let (mut pages, mut causes) = (self.bios.list(), None);
        for block in blocks {
            let Some(id) = self.pages.find(FileId::DEVICE, block.0) else { continue };
            let page = &self.pages[id];
            if page.dirty && !page.writing && !page.held {
                if let Some(changed) = self.start_writeback(id) {
                    causes = Some(self.causes.join(causes, changed));
                }
                pages.push(id);
            }
        }
        (pages, causes)
    }

    /// The transaction of a buffer is durable: the buffer may be written home.
    pub(super) fn release_buffer(&mut self, block: Block) {
        let Some(id) = self.pages.find(FileId::DEVICE, block.0) else { return };
        let page = &mut self.pages[id];
        if std::mem::take(&mut page.held) {
            match page.causes {
                Some(_) => self.mark_dirty(id),
                None => {
                    let journal = self.cause(JOURNAL);
                    self.dirty_page(id, journal);
                }
            }
        }
    }
}

impl Context {
    /// Reads blocks that are not in memory, one after the other.
    pub(super) async fn fetch_buffers(&self, blocks: &[Block]) -> Result<(), Errno> {
        for &block in blocks {
            if self.with(|state| state.buffer(block).is_none()) {
                // Boxed, because rare parts would enlarge the future of every write.
                Box::pin(self.fetch_buffer(block)).await?;
            }
        }
        Ok(())
    }

    async fn fetch_buffer(&self, block: Block) -> Result<(), Errno> {
        loop {
            self.room().await;
            let id = match self.with(|state| state.pages.find(FileId::DEVICE, block.0)) {
                Some(id) => id,
                None => self.read_buffer(block).await,
            };
            self.wait_for_page(id).await;
            // With little memory the buffer may be dropped before this task continues.
            if let Some(fetched) = self.with(|state| state.fetched(block)) {
                return fetched;
            }
        }
    }

    async fn read_buffer(&self, block: Block) -> PageId {
        let (id, bios) = self.with(|state| {
            let id = state.reading_buffer(block);
            (id, state.read_beside(self.task, block, id))
        });
        for bio in bios {
            self.submit(bio).await;
        }
        id
    }

    /// Waits until the read of a page completes.
    pub(super) async fn wait_for_page(&self, id: PageId) {
        while self.with(|state| state.pages[id].reading) {
            self.sleep(Wait::Page(id)).await;
        }
    }

    /// Adds a buffer without reading the block, whose content is new or was read before.
    async fn new_buffer(&self, block: Block) -> PageId {
        loop {
            let found = self.with(|state| {
                let id = state.pages.find(FileId::DEVICE, block.0)?;
                Some((id, state.pages[id].reading))
            });
            match found {
                // A task is still reading the content from before the block was reallocated.
                Some((id, true)) => {
                    self.wait_for_page(id).await;
                    continue;
                }
                Some((id, false)) => return id,
                None => {}
            }
            self.room().await;
            self.with(|state| {
                if state.pages.find(FileId::DEVICE, block.0).is_none() {
                    let id = state.add_page(FileId::DEVICE, block.0);
                    state.pages[id].block = Some(block);
                    // A task that reads the block before it joins a transaction finds the content.
                    state.pages[id].uptodate = true;
                }
            });
        }
    }

    /// Charges an operation of the file system: reads the blocks that it read, and adds the changed blocks to the journal, or
    /// dirties them without a journal.
    pub(super) async fn settle(&self, touched: Touched, of: Of) -> Result<(), Errno> {
        let fetched = self.fetch_buffers(&touched.reads).await;
        let changes = !touched.dirties.is_empty() || !touched.forgets.is_empty();
        if fetched.is_ok() && (changes || matches!(of, Of::Data(_))) {
            if self.with(|state| state.journal.is_some()) {
                self.join_transaction(&touched, of).await;
            } else if changes {
                self.dirty_buffers(&touched, of).await;
            }
        }
        self.with(|state| state.touched.push(touched));
        fetched
    }

    async fn dirty_buffers(&self, touched: &Touched, of: Of) {
        for &block in &touched.dirties {
            let id = self.new_buffer(block).await;
            self.with(|state| {
                let cause = state.cause(self.task);
                state.dirty_page(id, cause);
                state.pay_for_pages(self.task, 1);
                if let Some(inode) = of.inode() {
                    state.files.entry(inode.into()).metadata.insert(block);
                }
            });
        }
        self.with(|state| touched.forgets.iter().for_each(|&block| state.forget_buffer(block)));
    }

    async fn join_transaction(&self, touched: &Touched, of: Of) {
        let mut first = true;
        let mut rest = &touched.dirties[..];
        while first || !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(HANDLE_BLOCKS));
            let handle = self.begin(now.len() as u32).await;
            for &block in now {
                self.change(handle, block).await;
            }
            self.with(|state| {
                if first {
                    touched.forgets.iter().for_each(|&block| state.forget_journalled(handle, block));
                }
                state.end_handle(handle, of);
            });
            first = false;
            rest = later;
        }
    }

    /// Joins the running transaction.
    async fn begin(&self, credits: u32) -> Handle {
        loop {
            match self.with(|state| state.try_begin(self.task, credits)) {
                Some(handle) => return handle,
                None => self.sleep(Wait::JournalRetry).await,
            }
        }
    }

    async fn change(&self, handle: Handle, block: Block) {
        loop {
            // Again after each wait, because the buffer may be dropped until it is part of the transaction.
            let id = self.new_buffer(block).await;
            let access = self.with(|state| {
                // A buffer under writeback to its home must not change: jbd waits as well.
                if state.pages[id].writing {
                    return None;
                }
                let access = state.journal.as_mut().map(|journal| journal.access(handle, block));
                if access == Some(Access::Granted) {
                    state.hold_buffer(id, self.task);
                    state.pay_for_pages(self.task, 1);
                }
                access
            });
            match access {
                Some(Access::Granted) => return,
                Some(Access::Wait) => self.sleep(Wait::JournalRetry).await,
                None => self.sleep(Wait::Page(id)).await,
            }
        }
    }
}

impl State {
    /// Joins the running transaction for a task, if the transaction admits handles now.
    pub(super) fn try_begin(&mut self, task: TaskId, credits: u32) -> Option<Handle> {
        let cause = self.cause(task);
        let Self { journal, causes, now, .. } = self;
        let started = journal.as_mut().map(|journal| journal.start(*now, credits, cause, causes));
        self.pump_journal();
        match started {
            Some(Started::Handle(handle)) => Some(handle),
            Some(Started::Wait) | None => None,
        }
    }

    fn forget_journalled(&mut self, handle: Handle, block: Block) {
        self.forget_buffer(block);
        if let Some(journal) = &mut self.journal {
            journal.forget(handle, block);
        }
    }

    pub(super) fn end_handle(&mut self, handle: Handle, of: Of) {
        let Some(journal) = &mut self.journal else { return };
        if let Of::Data(inode) = of {
            journal.order(handle, inode);
        }
        let tid = journal.stop(self.now, handle, &mut self.causes);
        if let Some(inode) = of.inode() {
            let file = self.files.entry(inode.into());
            file.tid = Some(tid);
            if matches!(of, Of::Data(_)) {
                file.data_tid = Some(tid);
            }
        }
        self.pump_journal();
    }
}
