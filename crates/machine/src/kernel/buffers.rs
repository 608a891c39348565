//! Metadata blocks in memory: fetched before an operation goes on, and given to the journal, or dirtied, after it.

use elevator::{CauseSet, Flags, Op};

use super::cache::{FileId, PageId};
use super::calls::Errno;
use super::fs::{Block, Inode, Touched};
use super::io::{Bio, Purpose};
use super::journal::{Access, Handle, Started};
use super::state::State;
use super::tasks::{Context, TaskId, Wait};
use super::threads::JOURNAL;

/// Most blocks that one handle changes; larger operations (cutting a large file) take several, as in jbd.
const HANDLE_BLOCKS: usize = 64;

/// What a change of metadata belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// A name: no file's own durability needs it.
    Name,
    /// The file's inode.
    Inode(Inode),
    /// What is needed to find the file's data, which has to be written before the change is durable.
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
    /// The metadata block, if it is in memory.
    fn buffer(&mut self, block: Block) -> Option<PageId> {
        let id = self.pages.find(FileId::DEVICE, block.0)?;
        self.pages[id].uptodate.then(|| {
            self.use_page(id);
            id
        })
    }

    /// A buffer of what is about to be read.
    fn reading_buffer(&mut self, block: Block) -> PageId {
        let id = self.add_page(FileId::DEVICE, block.0);
        self.pages[id].reading = true;
        self.pages[id].block = Some(block);
        id
    }

    /// What to read for a block, whose buffer is `id`: it, and what the file system reads together with it and is not in memory.
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

    /// Whether the metadata block was fetched, or could not be; nothing if it has been thrown away since.
    fn fetched(&mut self, block: Block) -> Option<Result<(), Errno>> {
        let id = self.pages.find(FileId::DEVICE, block.0)?;
        if self.pages[id].uptodate {
            self.use_page(id);
            return Some(Ok(()));
        }
        self.throw_away(id);
        Some(Err(Errno::Io))
    }

    /// A buffer reached its home.
    pub(super) fn buffer_written(&mut self, index: u64) {
        if let (Some(tid), Some(journal)) = (self.homes.remove(&index), &mut self.journal) {
            journal.home_written(self.now, Block(index), tid);
            self.pump_journal();
        }
    }

    /// Metadata that is gone: nothing of it needs to be written any more.
    fn forget_buffer(&mut self, block: Block) {
        if let Some(id) = self.pages.find(FileId::DEVICE, block.0) {
            self.pages[id].held = false;
            self.throw_away(id);
        }
    }

    /// A task changed a buffer as part of a transaction: writeback leaves it alone until that is durable. It goes home on
    /// behalf of those who changed it since it was last written, not of everybody whose transactions it was in.
    fn hold_buffer(&mut self, id: PageId, task: TaskId) {
        let cause = self.cause(task);
        let page = &mut self.pages[id];
        page.uptodate = true;
        page.held = true;
        page.causes = Some(self.causes.join(page.causes, cause));
        if std::mem::take(&mut page.dirty) {
            let (file, index) = (page.file, page.index);
            self.dirty -= 1;
            self.files.clean(file, index);
        }
    }

    /// The journal writes these buffers home itself: those that are dirty set out with it. Who changed them.
    pub(super) fn buffers_go_home(&mut self, blocks: &[Block]) -> (Vec<PageId>, Option<CauseSet>) {
        let (mut pages, mut causes) = (self.bios.list(), None);
        for block in blocks {
            let Some(id) = self.pages.find(FileId::DEVICE, block.0) else { continue };
            let page = &self.pages[id];
            if page.dirty && !page.writing && !page.held {
                if let Some(changed) = self.set_out(id) {
                    causes = Some(self.causes.join(causes, changed));
                }
                pages.push(id);
            }
        }
        (pages, causes)
    }

    /// A transaction is durable: its buffers may go home.
    pub(super) fn release_buffer(&mut self, block: Block) {
        let Some(id) = self.pages.find(FileId::DEVICE, block.0) else { return };
        let page = &mut self.pages[id];
        if std::mem::take(&mut page.held) {
            let changed = page.causes.unwrap_or_else(|| self.cause(JOURNAL));
            self.dirty_page(id, changed);
        }
    }
}

impl Context {
    /// Waits until every block is in memory, in this order.
    pub(super) async fn fetch_buffers(&self, blocks: &[Block]) -> Result<(), Errno> {
        for &block in blocks {
            if self.with(|state| state.buffer(block).is_none()) {
                // Boxed, like everything that is rare on the way of a write: what is not used is not moved about.
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
            // Where memory is short, it may be gone again before its reader goes on.
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

    /// Waits until a page is no longer on its way from the device.
    pub(super) async fn wait_for_page(&self, id: PageId) {
        while self.with(|state| state.pages[id].reading) {
            self.sleep(Wait::Page(id)).await;
        }
    }

    /// Makes a block's buffer without reading it: its content is new, or was fetched before.
    async fn new_buffer(&self, block: Block) -> PageId {
        loop {
            let found = self.with(|state| {
                let id = state.pages.find(FileId::DEVICE, block.0)?;
                Some((id, state.pages[id].reading))
            });
            match found {
                // Somebody asked for what the block held before it was given out anew.
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
                    // Whoever reads it before it is part of a transaction finds what it holds.
                    state.pages[id].uptodate = true;
                }
            });
        }
    }

    /// Pays for an operation of the file system: reads what it needed, and hands what it changed to the journal, or
    /// dirties it where there is none.
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
            // Anew after each wait: nothing keeps it in memory until it is part of the transaction.
            let id = self.new_buffer(block).await;
            let access = self.with(|state| {
                // It may be on its way home with its old content: jbd waits for that.
                if state.pages[id].writing {
                    return None;
                }
                let access = state.journal.as_mut().map(|journal| journal.access(handle, block));
                if access == Some(Access::Granted) {
                    state.hold_buffer(id, self.task);
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
    /// Joins the running transaction for a task, if that lets anybody in.
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

    /// Leaves it.
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
