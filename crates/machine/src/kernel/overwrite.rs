//! Overwrites of cached pages: no read, no allocation and no wait, so no future is built.

use super::buffers::Of;
use super::cache::PageId;
use super::calls::Descriptor;
use super::fs::{BLOCK_BYTES, Inode};
use super::state::{State, TaskId};

/// Largest overwrite in pages; longer writes take the general path.
const AT_ONCE: usize = 16;

impl State {
    /// Writes if every page is cached and allocated and no wait is needed; returns the length. On `None` nothing has changed,
    /// and [`write`](super::context::Context::write) applies. `at`: the position, if it is not the file position.
    pub(super) fn overwrite(
        &mut self,
        task: TaskId,
        file: Descriptor,
        at: Option<u64>,
        length: u64,
    ) -> Option<u64> {
        let open = *self.task(task).descriptors.get(file).ok()?;
        let (inode, how) = (open.inode, open.how);
        let from = at.unwrap_or(open.position);
        let to = from.checked_add(length)?;
        let inside = length > 0 && to <= self.fs.size(inode);
        if how.append || how.direct || how.sync || !inside || self.is_busy_or_stamps(inode) {
            return None;
        }
        let (first, last) = (from / BLOCK_BYTES, (to - 1) / BLOCK_BYTES);
        let count = last - first + 1;
        if count > AT_ONCE as u64 || count >= self.dirtiers.until_balance() {
            return None;
        }
        let mut pages = [PageId::default(); AT_ONCE];
        for (index, slot) in (first..=last).zip(&mut pages) {
            let id = self.pages.find(inode.into(), index)?;
            let page = &self.pages[id];
            if page.reading || !page.uptodate || page.block.is_none() {
                return None;
            }
            *slot = id;
        }
        if self.rules.orders_overwrites && self.journal.is_some() {
            let handle = self.try_begin(task, 0)?;
            self.end_handle(handle, Of::Data(inode));
        }
        self.dirtiers.dirtied(count);
        let cause = self.cause(task);
        for &id in &pages[..count as usize] {
            self.use_page(id);
            self.dirty_page(id, cause);
        }
        self.sleepers.spend(self.now, task, self.rules.page * count);
        self.pay_for_pages(task, count);
        let open = self.task(task).descriptors.get(file).ok()?;
        open.wrote = true;
        if at.is_none() {
            open.position = to;
        }
        Some(length)
    }

    /// Whether another task writes the file, or its time stamp would change now.
    fn is_busy_or_stamps(&self, inode: Inode) -> bool {
        let stamp = self.stamp();
        self.files.get(inode.into()).is_none_or(|cached| cached.locked || cached.stamp != Some(stamp))
    }
}
