//! Hooks of a split-level policy.
//!
//! The kernel records events in order, and the engine passes them to the policy before anything else happens. A call that the
//! policy may hold sleeps until it is admitted. Without such a policy no event is recorded, calls need no admission, and
//! requests carry no causes.

use elevator::split::{Account, Action, CallId, CallKind, File, Page, Split, SystemCall, Terms, Verdict};
use elevator::{CauseSet, Process, Span, Time};

use super::Kernel;
use super::cache::{FileId, PageId};
use super::calls::{Call, Errno, Open, Returned};
use super::context::Context;
use super::fs::BLOCK_BYTES;
use super::state::{HookEvent, SPLIT_WRITER, State, Tagging, TaskId, Wait};
use super::writeback::Effort;

/// The number of a process as a cause and as an account: its thread group.
const fn account(process: Process) -> u32 {
    process.group
}

impl State {
    fn record(&mut self, event: HookEvent) {
        if self.hooks.on {
            self.hooks.events.push_back(event);
        }
    }

    fn hooked_page(&self, id: PageId) -> Option<Page> {
        let page = &self.pages[id];
        let file = page.file.inode().map_or(File::METADATA, |inode| File(inode.0));
        let offset = page.index * BLOCK_BYTES;
        self.hooks.on.then_some(Page { file, offset, bytes: BLOCK_BYTES as u32 })
    }

    /// Records that a page is dirty with `causes`; `before`: its causes before, if it was dirty.
    pub(super) fn record_dirty(&mut self, id: PageId, causes: CauseSet, before: Option<CauseSet>) {
        if let Some(page) = self.hooked_page(id) {
            self.record(HookEvent::Dirtied(page, causes, before));
        }
    }

    /// Records the writeback of a page.
    pub(super) fn record_submitted(&mut self, id: PageId, causes: Option<CauseSet>) {
        if let (Some(page), Some(causes)) = (self.hooked_page(id), causes) {
            self.record(HookEvent::Submitted(page, causes));
        }
    }

    /// Records that a dirty page was dropped.
    pub(super) fn record_freed(&mut self, id: PageId, causes: Option<CauseSet>) {
        if let (Some(page), Some(causes)) = (self.hooked_page(id), causes) {
            self.record(HookEvent::Freed(page, causes));
        }
    }

    /// Whether requests carry causes.
    pub(super) const fn tags(&self) -> bool {
        self.hooks.on
    }

    /// Records a process with its terms; `usual` if none were agreed.
    pub(super) fn record_process(&mut self, process: Process, usual: Terms) {
        let number = account(process);
        let terms = self.hooks.agreed.get(&number).copied().unwrap_or(usual);
        self.record(HookEvent::Account(Account(number), terms));
    }

    /// The kind of a call that a policy may hold.
    fn kind(&mut self, task: TaskId, call: &Call) -> Option<CallKind> {
        let mut file = |descriptor| {
            let open = self.task(task).descriptors.get(descriptor).ok()?;
            Some(File(open.inode.0))
        };
        match call {
            Call::Read(_, bytes) | Call::ReadAt(_, _, bytes) => Some(CallKind::Read { bytes: *bytes }),
            Call::Write(descriptor, bytes) | Call::WriteAt(descriptor, _, bytes) => {
                Some(CallKind::Write { file: file(*descriptor)?, bytes: *bytes })
            }
            Call::Fsync(descriptor) | Call::Fdatasync(descriptor) => {
                Some(CallKind::Fsync { file: file(*descriptor)? })
            }
            Call::Open(path, Open { create: true, .. }) => {
                (self.fs.find(path) == Err(Errno::NotFound)).then_some(CallKind::Create)
            }
            Call::Mkdir(_) => Some(CallKind::Mkdir),
            _ => None,
        }
    }
}

impl Context {
    /// Waits for the admission of a call; returns the call as the policy sees it.
    pub(super) async fn request_admission(&self, call: &Call) -> Option<SystemCall> {
        let call = self.with(|state| {
            let kind = state.kind(self.task, call)?;
            let account = Account(state.task(self.task).process.map_or(self.task.0, account));
            Some(SystemCall { id: CallId(self.task.0), account, kind })
        })?;
        self.with(|state| {
            state.record(HookEvent::Entered(call));
            state.pay_for_call(self.task);
        });
        self.sleep(Wait::Admission(self.task)).await;
        Some(call)
    }

    /// Records the return of a call.
    pub(super) fn record_return(&self, call: Option<SystemCall>) {
        if let Some(call) = call {
            self.with(|state| state.record(HookEvent::Returned(call)));
        }
    }

    /// The thread that writes back files for the policy.
    pub(super) async fn split_writer(&self) -> Returned {
        loop {
            match self.with(|state| state.hooks.writeback.pop_front()) {
                Some((file, pages)) => {
                    self.write_file(file, pages as usize, Effort::WRITER).await;
                }
                None => self.sleep(Wait::Work(SPLIT_WRITER)).await,
            }
        }
    }
}

impl Kernel {
    /// Sets the terms of a process, by the number of its thread group.
    pub(crate) fn agree(&mut self, process: u32, terms: Terms) {
        self.state.borrow_mut().hooks.agreed.insert(process, terms);
    }

    /// Connects a split-level policy, if `on`.
    pub(crate) fn listen(&mut self, on: bool) {
        let mut state = self.state.borrow_mut();
        if on && !std::mem::replace(&mut state.hooks.on, on) {
            let processes: Vec<_> =
                state.tasks.iter().filter_map(|task| Some((task.process?, task.priority))).collect();
            for (process, priority) in processes {
                state.record_process(process, Terms { priority, ..Terms::default() });
            }
        }
    }

    /// Passes recorded events to the policy. Calls that the policy admits at once continue.
    pub(crate) fn notify(&mut self, now: Time, policy: &mut dyn Split) {
        let mut state = self.state.borrow_mut();
        while let Some(event) = state.hooks.events.pop_front() {
            state.send_cause_sets(policy);
            match event {
                HookEvent::Account(account, terms) => policy.account(now, account, terms),
                HookEvent::Entered(call) => {
                    if policy.entered(now, &call) == Verdict::Proceed {
                        state.admit(call.id);
                    }
                }
                HookEvent::Returned(call) => policy.returned(now, &call),
                HookEvent::Dirtied(page, causes, before) => policy.dirtied(now, &page, causes, before),
                HookEvent::Submitted(page, causes) => policy.submitted(now, &page, causes),
                HookEvent::Freed(page, causes) => policy.freed(now, &page, causes),
            }
        }
        state.send_cause_sets(policy);
    }

    /// Applies an action of the policy.
    pub(crate) fn apply(&mut self, action: Action) {
        let mut state = self.state.borrow_mut();
        match action {
            Action::Admit(call) => state.admit(call),
            Action::WriteBack { file, pages } => {
                let file = FileId::from(super::fs::Inode(file.0));
                state.hooks.writeback.push_back((file, pages));
                let now = state.now;
                state.sleepers.wake(now, Wait::Work(SPLIT_WRITER));
            }
        }
    }
}

impl State {
    fn send_cause_sets(&mut self, policy: &mut dyn Split) {
        while let Some(members) = self.causes.nth(self.hooks.sets_sent) {
            let accounts: Vec<Account> = members.iter().copied().map(Account).collect();
            policy.causes(CauseSet(self.hooks.sets_sent), &accounts);
            self.hooks.sets_sent += 1;
        }
    }

    fn admit(&mut self, call: CallId) {
        self.sleepers.wake(self.now, Wait::Admission(TaskId(call.0)));
    }
}

impl State {
    fn pay_for_hooks(&mut self, task: TaskId, ns: u64) {
        self.tagging.hooks_ns += ns;
        self.sleepers.spend(self.now, task, Span::from_nanos(ns));
    }

    /// Charges the hooks of a call.
    pub(super) fn pay_for_call(&mut self, task: TaskId) {
        self.tagging.calls += 1;
        self.pay_for_hooks(task, self.rules.description.processor.hooks.call_ns);
    }

    /// Charges the hooks of dirtied pages.
    pub(super) fn pay_for_pages(&mut self, task: TaskId, pages: u64) {
        if self.tags() {
            self.tagging.pages += pages;
            self.pay_for_hooks(task, self.rules.description.processor.hooks.page_ns * pages);
        }
    }

    /// Charges the hook of a submission.
    pub(super) fn pay_for_request(&mut self, task: TaskId) {
        if self.tags() {
            self.tagging.requests += 1;
            self.pay_for_hooks(task, self.rules.description.processor.hooks.request_ns);
        }
    }
}

impl Kernel {
    /// The cost of hooks and tags so far. Without a split-level policy only the processor time is counted. Tag memory is
    /// measured once a second: a set number in every page that has existed at once, the cause sets, and the cached unions.
    pub fn tagging(&self) -> Tagging {
        let state = self.state.borrow();
        let mut tagging = state.tagging;
        tagging.processor_ns = state.sleepers.spent().as_nanos();
        tagging.bytes_mean = tagging.bytes_sum.checked_div(tagging.weighed).unwrap_or(0);
        tagging
    }
}
