//! Writes: pages are found or added, allocated or reserved, and dirtied; then the writer may be throttled.

use super::buffers::Of;
use super::cache::FileId;
use super::calls::{Descriptor, Errno, Open, Returned};
use super::context::Context;
use super::fs::{BLOCK_BYTES, Block, Inode, Run};
use super::read::block_of;
use super::state::{State, TaskId, Wait};

/// Most pages allocated at once.
const CHUNK: u64 = 64;

/// A write in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub(super) inode: Inode,
    /// The descriptor whose file position advances.
    moves: Option<Descriptor>,
    /// First byte.
    pub(super) from: u64,
    /// End.
    pub(super) to: u64,
    /// The write begins at the end of the file when its turn comes.
    pub(super) append: bool,
    pub(super) direct: bool,
    pub(super) sync: bool,
}

impl State {
    /// Begins a write. `at`: the position, if it is not the file position.
    pub(super) fn begin_write(
        &mut self,
        task: TaskId,
        file: Descriptor,
        at: Option<u64>,
        length: u64,
    ) -> Result<Writing, Errno> {
        let open = *self.task(task).descriptors.get(file)?;
        let inode = open.inode;
        if self.fs.is_directory(inode) {
            return Err(Errno::IsADirectory);
        }
        let from = if open.how.append { self.fs.size(inode) } else { at.unwrap_or(open.position) };
        let to = from.checked_add(length).ok_or(Errno::NoSpace)?;
        self.task(task).descriptors.get(file)?.wrote = true;
        let Open { append, direct, sync, .. } = open.how;
        let moves = at.is_none().then_some(file);
        Ok(Writing { inode, moves, from, to, append, direct, sync })
    }

    /// Sets the file position to the end of the write.
    pub(super) fn wrote_to(&mut self, task: TaskId, writing: Writing, to: u64) -> Result<(), Errno> {
        if let Some(file) = writing.moves {
            self.task(task).descriptors.get(file)?.position = to;
        }
        Ok(())
    }

    /// The write at the current end of the file, if it appends: the file may have grown since the write began.
    pub(super) fn at_the_end(&self, writing: Writing) -> Writing {
        let Writing { inode, from, to, append, .. } = writing;
        let at = if append { self.fs.size(inode) } else { from };
        Writing { from: at, to: at.saturating_add(to - from), ..writing }
    }

    /// Whether a page must be read before a part of it is overwritten, also if the file ends in it (`block_prepare_write`).
    fn needs_reading(&self, inode: Inode, page: u64, from: u64, to: u64) -> bool {
        let whole = from <= page * BLOCK_BYTES && to >= (page + 1) * BLOCK_BYTES;
        let beyond = page * BLOCK_BYTES >= self.fs.size(inode);
        let there = self.pages.find(inode.into(), page).is_some_and(|id| self.pages[id].uptodate);
        !(whole || beyond || there)
    }

    /// Whether the page must be read and no task reads it. A page whose read failed is dropped, as the read may have failed
    /// for another page.
    fn must_read(&mut self, inode: Inode, page: u64) -> bool {
        let Some(id) = self.pages.find(inode.into(), page) else { return true };
        let on_its_way = self.pages[id].reading;
        if !on_its_way {
            self.discard_page(id);
        }
        !on_its_way
    }

    /// Fails if the page's read failed: then a partial write has no content to change.
    fn require_content(&mut self, inode: Inode, page: u64) -> Result<(), Errno> {
        match self.pages.find(inode.into(), page).filter(|&id| !self.pages[id].uptodate) {
            Some(unread) => {
                self.discard_page(unread);
                Err(Errno::Io)
            }
            None => Ok(()),
        }
    }

    /// The time stamp of a file that is written now.
    pub(super) fn stamp(&self) -> u64 {
        self.now.as_nanos() / self.rules.stamp.as_nanos()
    }

    /// Whether the file's time stamp changes now.
    fn stamps(&mut self, file: FileId) -> bool {
        let stamp = self.stamp();
        self.files.entry(file).stamp.replace(stamp) != Some(stamp)
    }
}

impl Context {
    /// Locks the file's content.
    pub(super) async fn lock(&self, file: FileId) {
        while self.with(|state| std::mem::replace(&mut state.files.entry(file).locked, true)) {
            self.sleep(Wait::Lock(file)).await;
        }
    }

    /// Unlocks the file's content.
    pub(super) fn unlock(&self, file: FileId) {
        self.with(|state| {
            state.files.entry(file).locked = false;
            state.sleepers.wake(state.now, Wait::Lock(file));
        });
    }

    /// Writes, through the page cache or with direct I/O.
    pub(super) async fn write(
        &self,
        file: Descriptor,
        at: Option<u64>,
        length: u64,
    ) -> Result<Returned, Errno> {
        let writing = self.with(|state| state.begin_write(self.task, file, at, length))?;
        let written = if writing.direct {
            Box::pin(self.write_direct(writing)).await
        } else {
            self.write_pages(writing).await
        };
        written.map(Returned::Bytes)
    }

    /// Writes through the page cache; returns the bytes written, fewer after a failure.
    pub(super) async fn write_pages(&self, writing: Writing) -> Result<u64, Errno> {
        let Writing { inode, from, to, .. } = writing;
        if to == from {
            return Ok(0);
        }
        self.lock(inode.into()).await;
        let writing = self.with(|state| state.at_the_end(writing));
        let written = self.write_locked(writing).await;
        self.unlock(inode.into());
        let bytes = written?;
        self.with(|state| state.wrote_to(self.task, writing, writing.from + bytes))?;
        if writing.sync {
            Box::pin(self.make_durable(inode, false)).await?;
        }
        Ok(bytes)
    }

    async fn write_locked(&self, writing: Writing) -> Result<u64, Errno> {
        let Writing { from, to, .. } = writing;
        let (mut page, last) = (from / BLOCK_BYTES, (to - 1) / BLOCK_BYTES);
        while page <= last {
            let count =
                self.with(|state| state.dirtiers.until_balance()).clamp(1, CHUNK).min(last - page + 1);
            if let Err(errno) = self.write_chunk(writing, page, count).await {
                let before = (page * BLOCK_BYTES).saturating_sub(from);
                return if before > 0 { Ok(before) } else { Err(errno) };
            }
            self.balance_dirty_pages(count).await;
            page += count;
        }
        Ok(to - from)
    }

    async fn write_chunk(&self, writing: Writing, first: u64, count: u64) -> Result<(), Errno> {
        let Writing { inode, from, to, .. } = writing;
        for edge in [first, first + count - 1] {
            // With little memory, or after a failed read by another task, the page may be dropped before this task continues.
            while self.with(|state| state.needs_reading(inode, edge, from, to)) {
                Box::pin(self.read_edge(inode, edge)).await?;
            }
        }
        let runs = self.place(inode, first, count, to).await?;
        for index in first..first + count {
            self.dirty_one(inode, index, block_of(&runs, index)).await;
        }
        self.with(|state| {
            state.runs.push(runs);
            state.sleepers.spend(state.now, self.task, state.rules.page * count);
            state.pay_for_pages(self.task, count);
        });
        Ok(())
    }

    /// Reads a page, or waits for another task's read.
    async fn read_edge(&self, inode: Inode, page: u64) -> Result<(), Errno> {
        let alone = self.with(|state| state.must_read(inode, page));
        if alone {
            self.room().await;
            self.fetch(inode, page, 1, None).await;
        }
        if let Some(id) = self.with(|state| state.pages.find(inode.into(), page)) {
            self.wait_for_page(id).await;
        }
        if alone { self.with(|state| state.require_content(inode, page)) } else { Ok(()) }
    }

    /// Allocates or reserves blocks for pages and extends the file.
    async fn place(&self, inode: Inode, first: u64, count: u64, to: u64) -> Result<Vec<Run>, Errno> {
        let file = FileId::from(inode);
        let (touched, runs, allocated) = self.with(|state| {
            let mut touched = state.take_touched();
            let mut runs = state.take_runs();
            state.fs.map(inode, first, count as u32, &mut runs, &mut touched)?;
            runs.retain(|run| run.block.is_some());
            let there = runs.len();
            if state.rules.delayed {
                state.promise(inode, first, count, &runs)?;
            } else if runs.iter().map(|run| u64::from(run.pages)).sum::<u64>() < count {
                let by = state.number(self.task);
                state.fs.allocate(inode, first, count as u32, by, &mut runs, &mut touched)?;
            }
            let allocated = runs.len() > there;
            let end = ((first + count) * BLOCK_BYTES).min(to);
            if end > state.fs.size(inode) {
                state.fs.set_size(inode, end, &mut touched)?;
            }
            if state.stamps(file) && touched.dirties.is_empty() {
                let block = state.fs.inode_block(inode);
                touched.reads.push(block);
                touched.dirties.push(block);
            }
            Ok((touched, runs, allocated))
        })?;
        let ordered = allocated || self.with(|state| state.rules.orders_overwrites);
        self.settle(touched, if ordered { Of::Data(inode) } else { Of::Inode(inode) }).await?;
        Ok(runs)
    }

    /// Finds or adds a page and dirties it.
    async fn dirty_one(&self, inode: Inode, index: u64, block: Option<Block>) {
        let file = FileId::from(inode);
        loop {
            let dirtied = self.with(|state| {
                let id = match state.pages.find(file, index) {
                    Some(id) if state.pages[id].reading => return Err(Some(id)),
                    Some(id) => id,
                    None if state.make_room() => state.add_page(file, index),
                    None => return Err(None),
                };
                state.use_page(id);
                state.pages[id].block = block;
                let cause = state.cause(self.task);
                state.dirty_page(id, cause);
                Ok(())
            });
            match dirtied {
                Ok(()) => return,
                Err(Some(id)) => self.wait_for_page(id).await,
                Err(None) => self.room().await,
            }
        }
    }
}

impl State {
    /// Delayed allocation: reserves blocks for all pages that have none, or for none of them.
    fn promise(&mut self, inode: Inode, first: u64, count: u64, runs: &[Run]) -> Result<(), Errno> {
        let unplaced = || (first..first + count).filter(|&index| block_of(runs, index).is_none());
        let reserved = &mut self.files.entry(inode.into()).reserved;
        let new = unplaced().filter(|index| !reserved.contains(index)).count();
        self.fs.reserve(new as u64)?;
        reserved.extend(unplaced());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use elevator::Sector;

    use super::super::fs::Touched;
    use super::super::{Description, Image, Kernel};
    use super::*;

    #[test]
    fn a_write_without_space_reserves_nothing() {
        let machine = Description::named("pc-2012").expect("built in");
        let machine =
            Description { memory: super::super::Memory { swap_mib: 0, ..machine.memory }, ..machine };
        let kernel = Kernel::new(&machine, Sector(1 << 21), &Image::new()).expect("a kernel");
        let mut state = kernel.state.borrow_mut();
        let inode = state.fs.create("/a", &mut Touched::default()).expect("room for a name");
        let free = state.fs.free_blocks();
        state.promise(inode, 0, 1, &[]).expect("room");
        assert_eq!(state.promise(inode, 0, free + 1, &[]), Err(Errno::NoSpace));
        assert_eq!(state.fs.free_blocks(), free - 1, "the earlier reservation stays");
        state.promise(inode, 1, free - 1, &[]).expect("all there is");
    }
}
