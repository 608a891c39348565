//! Direct I/O.

use elevator::{Flags, Op, SECTOR_BYTES, Sectors};

use super::buffers::Of;
use super::cache::FileId;
use super::calls::Errno;
use super::context::Context;
use super::fs::{BLOCK_BYTES, Inode, Run};
use super::state::{Bio, Purpose};
use super::write::Writing;
use super::writeback::Effort;

impl Context {
    /// Reads from the device; returns the bytes read.
    pub(super) async fn read_direct(&self, inode: Inode, from: u64, to: u64) -> Result<u64, Errno> {
        self.write_back_first(inode).await;
        let (runs, touched) = self.with(|state| {
            let (first, last) = (from / BLOCK_BYTES, (to - 1) / BLOCK_BYTES);
            state.look_up(inode, first, (last - first + 1) as u32)
        });
        self.settle(touched, Of::Name).await?;
        self.transfer(Op::Read, &runs, from, to).await?;
        let stamped = self.with(|state| {
            state.runs.push(runs);
            state.access(inode)
        });
        if let Some(touched) = stamped {
            self.settle(touched, Of::Name).await?;
        }
        Ok(to - from)
    }

    /// Writes to the device; returns the bytes written.
    pub(super) async fn write_direct(&self, writing: Writing) -> Result<u64, Errno> {
        if writing.to == writing.from {
            return Ok(0);
        }
        self.write_back_first(writing.inode).await;
        let writing = self.with(|state| state.at_the_end(writing));
        let Writing { inode, from, to, .. } = writing;
        let (runs, touched, allocated) = self.with(|state| {
            let (first, last) = (from / BLOCK_BYTES, (to - 1) / BLOCK_BYTES);
            let (mut runs, mut touched) = (state.take_runs(), state.take_touched());
            let (pages, by) = ((last - first + 1) as u32, state.number(self.task));
            state.fs.map(inode, first, pages, &mut runs, &mut touched)?;
            runs.retain(|run| run.block.is_some());
            let there = runs.len();
            state.fs.allocate(inode, first, pages, by, &mut runs, &mut touched)?;
            let allocated = runs.len() > there;
            if to > state.fs.size(inode) {
                state.fs.set_size(inode, to, &mut touched)?;
            }
            for index in first..=last {
                if let Some(id) = state.pages.find(inode.into(), index) {
                    state.discard_page(id);
                }
            }
            Ok((runs, touched, allocated))
        })?;
        let grown = allocated || !touched.dirties.is_empty();
        self.transfer(Op::Write, &runs, from, to).await?;
        self.with(|state| state.runs.push(runs));
        self.settle(touched, if grown { Of::Inode(inode) } else { Of::Name }).await?;
        self.with(|state| state.wrote_to(self.task, writing, to))?;
        if writing.sync {
            self.make_durable(inode, false).await?;
        }
        Ok(to - from)
    }

    /// Writes back the file's dirty pages first.
    async fn write_back_first(&self, inode: Inode) {
        let file = FileId::from(inode);
        if self.with(|state| state.files.get(file).is_some_and(|f| !f.dirty.is_empty() || f.writing > 0)) {
            self.write_file(file, usize::MAX, Effort::SYNC).await;
            self.wait_for_writes(file).await;
        }
    }

    /// Transfers a byte range of the file; holes cost nothing.
    async fn transfer(&self, op: Op, runs: &[Run], from: u64, to: u64) -> Result<(), Errno> {
        let most = self.with(|state| state.rules.request_pages) as u64 * BLOCK_BYTES;
        let (sync, cause) =
            self.with(|state| (op == Op::Read || state.rules.sync_writes, state.cause(self.task)));
        for run in runs {
            let Some(block) = run.block else { continue };
            let start = run.page * BLOCK_BYTES;
            let end = (start + u64::from(run.pages) * BLOCK_BYTES).min(to.next_multiple_of(SECTOR_BYTES));
            let mut at = start.max(from / SECTOR_BYTES * SECTOR_BYTES);
            while at < end {
                let bytes = (end - at).min(most);
                let bio = Bio::bare(self.task, Purpose::Counted, op, None);
                self.submit(Bio {
                    start: block.sector() + Sectors(((at - start) / SECTOR_BYTES) as u32),
                    sectors: Sectors((bytes / SECTOR_BYTES) as u32),
                    flags: Flags { sync, direct: op == Op::Write, ..Flags::default() },
                    causes: Some(cause),
                    ..bio
                })
                .await;
                at += bytes;
            }
        }
        self.own_io_finished().await
    }
}
