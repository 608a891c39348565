//! What a split-level policy hears of the kernel, and what it has the kernel do.
//!
//! The kernel notes what happens, in order, and the engine hands it on to the policy before anything else happens; a call
//! that a policy may hold sleeps until it has leave. Without such a policy nothing is noted, nobody asks for leave, and
//! requests carry no causes.

use std::collections::VecDeque;

use elevator::split::{Account, Action, CallId, CallKind, File, Page, Split, SystemCall, Terms, Verdict};
use elevator::{CauseSet, Process, Time};
use hashbrown::HashMap;

use super::Kernel;
use super::cache::{FileId, PageId};
use super::calls::{Call, Errno, Open, Returned};
use super::dispatch::job;
use super::fs::BLOCK_BYTES;
use super::state::State;
use super::tasks::{Context, TaskId, Wait};
use super::threads::BLEEDER;
use super::writeback::Effort;

/// Something that happened.
enum Note {
    Account(Account, Terms),
    Entered(SystemCall),
    Returned(SystemCall),
    Dirtied(Page, CauseSet, Option<CauseSet>),
    Submitted(Page, CauseSet),
    Freed(Page, CauseSet),
}

/// What was noted, and what was asked for.
#[derive(Default)]
pub(super) struct Hooks {
    /// A split policy listens.
    on: bool,
    notes: VecDeque<Note>,
    /// Terms that are not a process's priority alone, by its number.
    agreed: HashMap<u32, Terms>,
    /// Sets of causes that the policy has heard of: all before this one.
    told: u32,
    /// Files to write back, and how many pages, for the thread that does it.
    bleeding: VecDeque<(FileId, u32)>,
}

/// The number under which a process is a cause, and an account: its thread group's.
const fn account(process: Process) -> u32 {
    process.group
}

impl State {
    fn note(&mut self, note: Note) {
        if self.hooks.on {
            self.hooks.notes.push_back(note);
        }
    }

    fn noted(&self, id: PageId) -> Option<Page> {
        let page = &self.pages[id];
        let inode = page.file.inode().filter(|_| self.hooks.on)?;
        Some(Page { file: File(inode.0), offset: page.index * BLOCK_BYTES, bytes: BLOCK_BYTES as u32 })
    }

    /// A page of a file is dirty because of `causes`, and was before because of `before`.
    pub(super) fn note_dirty(&mut self, id: PageId, causes: CauseSet, before: Option<CauseSet>) {
        if let Some(page) = self.noted(id) {
            self.note(Note::Dirtied(page, causes, before));
        }
    }

    /// It sets out for the device.
    pub(super) fn note_submitted(&mut self, id: PageId, causes: Option<CauseSet>) {
        if let (Some(page), Some(causes)) = (self.noted(id), causes) {
            self.note(Note::Submitted(page, causes));
        }
    }

    /// It is thrown away, dirty as it is.
    pub(super) fn note_freed(&mut self, id: PageId, causes: Option<CauseSet>) {
        if let (Some(page), Some(causes)) = (self.noted(id), causes) {
            self.note(Note::Freed(page, causes));
        }
    }

    /// Whether requests are to carry their causes.
    pub(super) const fn tags(&self) -> bool {
        self.hooks.on
    }

    /// A process exists, with these terms if none were agreed.
    pub(super) fn note_process(&mut self, process: Process, usual: Terms) {
        let number = account(process);
        let terms = self.hooks.agreed.get(&number).copied().unwrap_or(usual);
        self.note(Note::Account(Account(number), terms));
    }

    /// What a call is to a policy, if it may be held at all.
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
    /// Asks for leave to begin a call; what the policy was asked, if there is one.
    pub(super) async fn enter(&self, call: &Call) -> Option<SystemCall> {
        let call = self.with(|state| {
            let kind = state.kind(self.task, call)?;
            let account = Account(state.task(self.task).process.map_or(self.task.0, account));
            Some(SystemCall { id: CallId(self.task.0), account, kind })
        })?;
        self.with(|state| {
            state.note(Note::Entered(call));
            state.pay_for_call(self.task);
        });
        self.sleep(Wait::Leave(self.task)).await;
        Some(call)
    }

    /// It is over.
    pub(super) fn left(&self, call: Option<SystemCall>) {
        if let Some(call) = call {
            self.with(|state| state.note(Note::Returned(call)));
        }
    }

    /// A call under a split policy.
    pub(super) async fn run_with_leave(&self, call: Call) -> Returned {
        let asked = self.enter(&call).await;
        let at_once = self.with(|state| state.at_once(self.task, &call));
        let returned = match at_once {
            Some(returned) => returned,
            None => job(self.clone(), call).await,
        };
        self.left(asked);
        returned
    }

    /// The thread that writes back what a policy wants written.
    pub(super) async fn bleed_forever(&self) -> Returned {
        loop {
            match self.with(|state| state.hooks.bleeding.pop_front()) {
                Some((file, pages)) => {
                    self.write_file(file, pages as usize, Effort::WRITER).await;
                }
                None => self.sleep(Wait::Work(BLEEDER)).await,
            }
        }
    }
}

impl Kernel {
    /// What was agreed with a process, by the number of its thread group.
    pub(crate) fn agree(&mut self, process: u32, terms: Terms) {
        self.state.borrow_mut().hooks.agreed.insert(process, terms);
    }

    /// From now on a split policy listens, if `on`.
    pub(crate) fn listen(&mut self, on: bool) {
        let mut state = self.state.borrow_mut();
        if on && !std::mem::replace(&mut state.hooks.on, on) {
            let processes: Vec<_> =
                state.tasks.iter().filter_map(|task| Some((task.process?, task.priority))).collect();
            for (process, priority) in processes {
                state.note_process(process, Terms { priority, ..Terms::default() });
            }
        }
    }

    /// Tells the policy what has happened. Calls that need not wait go on.
    pub(crate) fn tell(&mut self, now: Time, policy: &mut dyn Split) {
        let mut state = self.state.borrow_mut();
        while let Some(note) = state.hooks.notes.pop_front() {
            state.tell_sets(policy);
            match note {
                Note::Account(account, terms) => policy.account(now, account, terms),
                Note::Entered(call) => {
                    if policy.entered(now, &call) == Verdict::Proceed {
                        state.admit(call.id);
                    }
                }
                Note::Returned(call) => policy.returned(now, &call),
                Note::Dirtied(page, causes, before) => policy.dirtied(now, &page, causes, before),
                Note::Submitted(page, causes) => policy.submitted(now, &page, causes),
                Note::Freed(page, causes) => policy.freed(now, &page, causes),
            }
        }
        state.tell_sets(policy);
    }

    /// Does what the policy wants done.
    pub(crate) fn heed(&mut self, action: Action) {
        let mut state = self.state.borrow_mut();
        match action {
            Action::Admit(call) => state.admit(call),
            Action::WriteBack { file, pages } => {
                let file = FileId::from(super::fs::Inode(file.0));
                state.hooks.bleeding.push_back((file, pages));
                let now = state.now;
                state.sleepers.wake(now, Wait::Work(BLEEDER));
            }
        }
    }
}

impl State {
    fn tell_sets(&mut self, policy: &mut dyn Split) {
        while let Some(members) = self.causes.nth(self.hooks.told) {
            let accounts: Vec<Account> = members.iter().copied().map(Account).collect();
            policy.causes(CauseSet(self.hooks.told), &accounts);
            self.hooks.told += 1;
        }
    }

    fn admit(&mut self, call: CallId) {
        self.sleepers.wake(self.now, Wait::Leave(TaskId(call.0)));
    }
}
