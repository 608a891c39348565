//! State changes of pages: used, dirtied, written, dropped. Every page that becomes dirty or is dropped dirty passes here, so
//! that hooks see it.

use elevator::CauseSet;

use super::cache::{FileId, List, PageId};
use super::fs::Block;
use super::state::{State, Wait};

impl State {
    /// A call used the page; the second use activates it.
    pub(super) fn use_page(&mut self, id: PageId) {
        let page = &mut self.pages[id];
        if std::mem::take(&mut page.ahead) {
            self.watch.now.read_ahead_hits += 1;
        }
        if page.active || !page.referenced {
            page.referenced = true;
        } else if !page.orphan {
            page.referenced = false;
            page.active = true;
            self.lru.remove(List::Inactive, id);
            self.lru.push(List::Active, id);
        }
    }

    /// Adds causes to a page that is changed. For policies it is dirty from now on.
    pub(super) fn change_page(&mut self, id: PageId, causes: CauseSet) {
        let page = &mut self.pages[id];
        page.uptodate = true;
        // A page has causes from its first change until it is written or discarded.
        let before = page.causes;
        let joined = self.causes.join(before, causes);
        page.causes = Some(joined);
        self.record_dirty(id, joined, before);
    }

    /// Marks a page dirty with these causes.
    pub(super) fn dirty_page(&mut self, id: PageId, causes: CauseSet) {
        self.change_page(id, causes);
        self.mark_dirty(id);
    }

    /// Lets writeback find a changed page.
    pub(super) fn mark_dirty(&mut self, id: PageId) {
        let page = &mut self.pages[id];
        if !page.dirty {
            page.dirty = true;
            let (file, index) = (page.file, page.index);
            self.dirty += 1;
            self.files.dirty(self.now, file, index);
        }
    }

    /// Begins the writeback of a dirty page that the journal did not request; returns its causes.
    pub(super) fn start_page_writeback(&mut self, id: PageId) -> Option<CauseSet> {
        let (file, index) = (self.pages[id].file, self.pages[id].index);
        if let (FileId::DEVICE, Some(journal)) = (file, &mut self.journal)
            && let Some(tid) = journal.home_begins(Block(index))
        {
            self.homes.insert(index, tid);
        }
        self.start_writeback(id)
    }

    /// Begins the writeback of a dirty page; returns its causes.
    pub(super) fn start_writeback(&mut self, id: PageId) -> Option<CauseSet> {
        let page = &mut self.pages[id];
        debug_assert!(page.dirty && !page.writing, "{page:?} starts writeback");
        page.dirty = false;
        page.writing = true;
        let (file, index, causes) = (page.file, page.index, page.causes.take());
        self.record_submitted(id, causes);
        self.dirty -= 1;
        self.writing += 1;
        self.files.clean(file, index);
        self.files.entry(file).writing += 1;
        causes
    }

    /// Writeback of pages completed or failed.
    pub(super) fn pages_written(&mut self, pages: &[PageId], done: bool) {
        for &id in pages {
            let page = &mut self.pages[id];
            page.writing = false;
            let (file, index, orphan) = (page.file, page.index, page.orphan);
            self.writing -= 1;
            let cached = self.files.entry(file);
            cached.writing -= 1;
            cached.failed |= !done;
            if file == FileId::DEVICE {
                self.buffer_written(index);
            }
            if orphan {
                self.drop_page(id);
            }
            self.sleepers.wake(self.now, Wait::Page(id));
            self.files.tidy(file);
        }
        self.sleepers.wake(self.now, Wait::Memory);
    }

    /// Drops a page of a truncated or removed file, dirty or not.
    pub(super) fn discard_page(&mut self, id: PageId) {
        let page = &mut self.pages[id];
        let (file, index) = (page.file, page.index);
        let (causes, was_dirty) = (page.causes.take(), std::mem::take(&mut page.dirty));
        self.record_freed(id, causes);
        if was_dirty {
            self.dirty -= 1;
            self.files.clean(file, index);
        }
        if self.pages[id].is_idle() {
            self.drop_page(id);
        } else {
            self.pages.orphan(id);
        }
    }

    /// Removes a page from memory.
    pub(super) fn drop_page(&mut self, id: PageId) {
        let page = &self.pages[id];
        debug_assert!(page.is_idle(), "{page:?} leaves memory");
        let list = if page.active { List::Active } else { List::Inactive };
        let file = page.file;
        self.watch.now.read_ahead_wasted += u64::from(page.ahead);
        self.lru.remove(list, id);
        self.pages.remove(id);
        self.memory_dropped(file);
    }
}
