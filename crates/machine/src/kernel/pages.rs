//! What happens to a page: it is used, it becomes dirty, it is written, it goes. Every way in which a page becomes dirty or
//! is thrown away dirty passes here, so this is where a policy at memory level is to be asked.

use elevator::CauseSet;

use super::cache::{FileId, List, PageId};
use super::fs::Block;
use super::state::State;
use super::tasks::Wait;

impl State {
    /// A call used the page: the second time makes it active.
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

    /// A page's content was changed, on behalf of these.
    pub(super) fn dirty_page(&mut self, id: PageId, causes: CauseSet) {
        let page = &mut self.pages[id];
        page.uptodate = true;
        let before = page.causes.filter(|_| page.dirty);
        let joined = self.causes.join(page.causes, causes);
        page.causes = Some(joined);
        self.note_dirty(id, joined, before);
        let page = &mut self.pages[id];
        if !page.dirty {
            page.dirty = true;
            let (file, index) = (page.file, page.index);
            self.dirty += 1;
            self.files.dirty(self.now, file, index);
        }
    }

    /// A dirty page sets out for the device by itself; who dirtied it.
    pub(super) fn page_sets_out(&mut self, id: PageId) -> Option<CauseSet> {
        let (file, index) = (self.pages[id].file, self.pages[id].index);
        if let (FileId::DEVICE, Some(journal)) = (file, &mut self.journal)
            && let Some(tid) = journal.home_begins(Block(index))
        {
            self.homes.insert(index, tid);
        }
        self.set_out(id)
    }

    /// A dirty page sets out for the device; who dirtied it.
    pub(super) fn set_out(&mut self, id: PageId) -> Option<CauseSet> {
        let page = &mut self.pages[id];
        debug_assert!(page.dirty && !page.writing, "{page:?} sets out");
        page.dirty = false;
        page.writing = true;
        let (file, index, causes) = (page.file, page.index, page.causes.take());
        self.note_submitted(id, causes);
        self.dirty -= 1;
        self.writing += 1;
        self.files.clean(file, index);
        self.files.entry(file).writing += 1;
        causes
    }

    /// Pages reached the device, or did not.
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

    /// The file drops a page, dirty or not: it was cut off, or the file is gone.
    pub(super) fn throw_away(&mut self, id: PageId) {
        let page = &mut self.pages[id];
        let (file, index) = (page.file, page.index);
        if std::mem::take(&mut page.dirty) {
            let causes = page.causes.take();
            self.note_freed(id, causes);
            self.dirty -= 1;
            self.files.clean(file, index);
        }
        if self.pages[id].is_idle() {
            self.drop_page(id);
        } else {
            self.pages.orphan(id);
        }
    }

    /// The page leaves memory.
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
