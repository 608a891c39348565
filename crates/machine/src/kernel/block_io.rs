//! Submitting to the block layer and handling completions.

use elevator::queue::{Submission, Token};
use elevator::{Op, Outcome};

use super::cache::PageId;
use super::state::{Bio, Purpose, State, TaskId, Wait};

impl State {
    /// Queues a submission of a task; the engine submits it before the task continues.
    pub(super) fn send(&mut self, task: TaskId, mut bio: Bio) {
        if self.tags() && bio.op == Op::Read && bio.causes.is_none() {
            bio.causes = Some(self.cause(task));
        }
        self.pay_for_request(task);
        match bio.op {
            Op::Read => self.watch.now.pages_in += bio.sectors.bytes() / super::fs::BLOCK_BYTES,
            Op::Write => self.watch.now.pages_out += bio.sectors.bytes() / super::fs::BLOCK_BYTES,
            Op::Flush | Op::Discard => {}
        }
        if matches!(bio.purpose, Purpose::Counted | Purpose::Journal(_)) {
            self.task(task).pending += 1;
        }
        self.bios.add(bio);
    }

    /// Takes the submission of the running task; `token` maps the kernel's number to the engine's token.
    pub(super) fn outgoing(&mut self, token: impl FnOnce(u32) -> Token) -> Option<Submission> {
        let tags = self.tags();
        let (id, bio) = self.bios.take_outgoing()?;
        let task = &self.tasks[bio.task.index()];
        Some(Submission {
            token: token(id),
            op: bio.op,
            start: bio.start,
            sectors: bio.sectors,
            flags: bio.flags,
            priority: task.priority,
            process: task.process,
            causes: bio.causes.filter(|_| tags),
        })
    }

    /// Handles a completed submission.
    pub(super) fn arrived(&mut self, id: u32, outcome: Outcome) {
        let Some(bio) = self.bios.remove(id) else { return };
        let done = outcome == Outcome::Done;
        match bio.purpose {
            Purpose::Read => self.pages_arrived(&bio.pages, done),
            Purpose::Writeback => self.pages_written(&bio.pages, done),
            Purpose::Swap => self.swapped_out(&bio.pages, done),
            Purpose::Journal(write) => {
                self.pages_written(&bio.pages, done);
                self.journal_written(write);
                self.own_io_finished(bio.task, done);
            }
            Purpose::Counted => self.own_io_finished(bio.task, done),
        }
        self.bios.spare(bio.pages);
    }

    fn own_io_finished(&mut self, id: TaskId, done: bool) {
        let task = self.task(id);
        task.pending -= 1;
        task.failed |= !done;
        if task.pending == 0 {
            self.sleepers.wake(self.now, Wait::Io(id));
        }
    }

    fn pages_arrived(&mut self, pages: &[PageId], done: bool) {
        for &id in pages {
            self.page_arrived(id, done);
        }
    }

    /// Marks a page as read.
    pub(super) fn page_arrived(&mut self, id: PageId, done: bool) {
        let page = &mut self.pages[id];
        page.reading = false;
        page.uptodate = done;
        if page.orphan {
            self.drop_page(id);
        }
        self.sleepers.wake(self.now, Wait::Page(id));
    }

    /// Updates the congestion state from the number of write requests. The thresholds have hysteresis, so that waiting tasks
    /// are not woken for every completed request.
    pub(super) fn update_congestion(&mut self, requests: u32) {
        if requests >= self.rules.congestion_on {
            self.congested = true;
        } else if self.congested && requests < self.rules.congestion_off {
            self.congested = false;
            self.sleepers.wake(self.now, Wait::AnyWrite);
        }
    }
}
