//! A host with the hooks of split policies, for decision tables.

use alloc::vec::Vec;

use elevator::split::{Account, Action, CallId, CallKind, File, Page, Split, SystemCall, Terms, Verdict};
use elevator::{CauseSet, Op, RequestId, Scheduler, Span};

use crate::testing::{Table, request};

/// A table of operations whose scheduler is a split policy. Account n alone is the set of causes n.
pub(crate) struct Host {
    pub(crate) table: Table,
    calls: Vec<SystemCall>,
}

impl Host {
    pub(crate) fn new(scheduler: impl Scheduler + 'static) -> Self {
        Self { table: Table::new(scheduler), calls: Vec::new() }
    }

    pub(crate) fn split(&mut self) -> &mut dyn Split {
        self.table.scheduler.split().expect("a split policy")
    }

    /// Registers accounts 0, 1, … with these terms, and a cause set for each of them.
    pub(crate) fn accounts(mut self, terms: &[Terms]) -> Self {
        let now = self.table.now;
        for (n, &terms) in (0..).zip(terms) {
            self.split().account(now, Account(n), terms);
            self.split().causes(CauseSet(n), &[Account(n)]);
        }
        self
    }

    fn enters(&mut self, account: u32, kind: CallKind) -> (CallId, Verdict) {
        let (now, id) = (self.table.now, CallId(self.calls.len() as u32));
        let call = SystemCall { id, account: Account(account), kind };
        self.calls.push(call);
        (id, self.split().entered(now, &call))
    }

    pub(crate) fn write(&mut self, account: u32, file: u64) -> (CallId, Verdict) {
        self.enters(account, CallKind::Write { file: File(file), bytes: 4096 })
    }

    pub(crate) fn fsync(&mut self, account: u32, file: u64) -> (CallId, Verdict) {
        self.enters(account, CallKind::Fsync { file: File(file) })
    }

    pub(crate) fn submits(&mut self, account: u32) -> (CallId, Verdict) {
        self.enters(account, CallKind::Submit)
    }

    pub(crate) fn returns(&mut self, id: CallId) {
        let (now, call) = (self.table.now, self.calls[id.0 as usize]);
        self.split().returned(now, &call);
    }

    /// An account dirties `pages` pages of a file, starting with page `from`.
    pub(crate) fn dirty(&mut self, account: u32, file: u64, from: u64, pages: u64) {
        let now = self.table.now;
        for page in from..from + pages {
            let page = Page { file: File(file), offset: page * 4096, bytes: 4096 };
            self.split().dirtied(now, &page, CauseSet(account), None);
        }
    }

    /// Submits those pages.
    pub(crate) fn submit(&mut self, account: u32, file: u64, from: u64, pages: u64) {
        let now = self.table.now;
        for page in from..from + pages {
            let page = Page { file: File(file), offset: page * 4096, bytes: 4096 };
            self.split().submitted(now, &page, CauseSet(account));
        }
    }

    /// Discards those pages.
    pub(crate) fn free(&mut self, account: u32, file: u64, from: u64, pages: u64) {
        let now = self.table.now;
        for page in from..from + pages {
            let page = Page { file: File(file), offset: page * 4096, bytes: 4096 };
            self.split().freed(now, &page, CauseSet(account));
        }
    }

    /// Inserts a request whose cause is an account.
    pub(crate) fn caused(&mut self, account: u32, op: Op, start: u64, sectors: u32) -> RequestId {
        self.table.insert(elevator::Request {
            op,
            causes: Some(CauseSet(account)),
            ..request(start, sectors)
        })
    }

    /// Inserts a direct write of an account.
    pub(crate) fn writes_directly(&mut self, account: u32, start: u64) -> RequestId {
        let flags = elevator::Flags { sync: true, direct: true, ..elevator::Flags::default() };
        let causes = Some(CauseSet(account));
        self.table.insert(elevator::Request { op: Op::Write, flags, causes, ..request(start, 8) })
    }

    /// The actions that the policy returns now.
    pub(crate) fn acts(&mut self) -> Vec<Action> {
        let now = self.table.now;
        core::iter::from_fn(|| self.split().act(now)).collect()
    }

    /// The policy's alarm, in milliseconds.
    pub(crate) fn alarm_ms(&mut self) -> Option<u64> {
        let alarm = self.split().alarm()?;
        Some(alarm.as_nanos().div_ceil(Span::from_millis(1).as_nanos()))
    }
}
