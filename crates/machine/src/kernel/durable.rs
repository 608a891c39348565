//! Durability: `fsync`, `fdatasync`, `sync`, `O_SYNC`.

use super::cache::FileId;
use super::calls::{Descriptor, Errno, Returned};
use super::fs::Inode;
use super::io::{Bio, Purpose};
use super::state::State;
use super::tasks::{Context, Wait};
use super::writeback::Effort;
use elevator::Op;

impl State {
    /// The transaction that a file's durability hangs on, if that is not durable yet.
    fn commit_needed(&self, inode: Inode, data_only: bool) -> Option<super::journal::Tid> {
        let cached = self.files.get(inode.into())?;
        let tid = if data_only { cached.data_tid } else { cached.tid }?;
        (self.durable < Some(tid)).then_some(tid)
    }
}

impl Context {
    /// `fsync`, and `fdatasync` if only data counts.
    pub(super) async fn sync_file(&self, file: Descriptor, data_only: bool) -> Result<Returned, Errno> {
        let open = self.with(|state| state.task(self.task).descriptors.get(file).copied())?;
        self.make_durable(open.inode, data_only).await
    }

    /// Returns when a file's data, and its metadata or what of it is needed to find the data, are durable.
    pub(super) async fn make_durable(&self, inode: Inode, data_only: bool) -> Result<Returned, Errno> {
        let file = FileId::from(inode);
        self.write_file(file, usize::MAX, Effort::SYNC).await;
        self.wait_for_writes(file).await;
        if self.with(|state| state.journal.is_some()) {
            match self.with(|state| state.commit_needed(inode, data_only)) {
                Some(tid) => self.wait_for_commit(tid).await,
                None => self.empty_cache().await?,
            }
        } else {
            self.write_metadata(file).await;
            self.empty_cache().await?;
        }
        let failed = self.with(|state| std::mem::take(&mut state.files.entry(file).failed));
        if failed { Err(Errno::Io) } else { Ok(Returned::Done) }
    }

    /// Without a journal: the file's own metadata blocks, one after the other, as they lie.
    async fn write_metadata(&self, file: FileId) {
        let blocks = self.with(|state| std::mem::take(&mut state.files.entry(file).metadata));
        for block in &blocks {
            if let Some(bio) = self.with(|state| state.one_buffer(self.task, *block)) {
                self.submit(bio).await;
            }
        }
        for block in blocks {
            while let Some(id) = self
                .with(|state| state.pages.find(FileId::DEVICE, block.0).filter(|&id| state.pages[id].writing))
            {
                self.sleep(Wait::Page(id)).await;
            }
        }
    }

    /// Where the file system asks for it, the device's cache is made durable.
    async fn empty_cache(&self) -> Result<(), Errno> {
        if self.with(|state| state.rules.description.file_system.journal.barrier) {
            self.submit(Bio::bare(self.task, Purpose::Counted, Op::Flush, None)).await;
            self.counted().await?;
        }
        Ok(())
    }

    /// Waits for what the task submitted itself.
    pub(super) async fn counted(&self) -> Result<(), Errno> {
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
        self.empty_cache().await?;
        Ok(Returned::Done)
    }

    async fn write_everything(&self) {
        let files: Vec<FileId> = self.with(|state| state.files.order.iter().collect());
        // Data first, then the metadata that points to it.
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
    /// A buffer alone, if it is dirty.
    fn one_buffer(&mut self, task: super::tasks::TaskId, block: super::fs::Block) -> Option<Bio> {
        let id = self.pages.find(FileId::DEVICE, block.0)?;
        if !self.pages[id].dirty || self.pages[id].writing {
            return None;
        }
        let causes = self.page_sets_out(id);
        let mut pages = self.bios.list();
        pages.push(id);
        let bio = Bio::of_pages(task, Purpose::Writeback, Op::Write, block, pages);
        let sync = self.rules.sync_writes;
        Some(Bio { flags: elevator::Flags { sync, meta: true, ..bio.flags }, causes, ..bio })
    }
}
