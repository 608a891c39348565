//! Calls of the policy, and the state that a new policy receives.

use ::control::admission::Message;
use elevator::queue::Queue;
use elevator::split::{Action, File, Split, Verdict};
use elevator::{Span, Time};

use super::SplitHost;
use super::accounts::OTHERS;
use super::agents::Agent;
use super::calls::Call;
use crate::statistics::Watch;

impl SplitHost {
    /// Carries out what the policy requests; returns when it must be asked again.
    pub(super) fn act(&mut self, queue: &mut Queue<Watch>, now: Time) -> Option<Span> {
        self.update(queue, now);
        while let Some(action) = self.with_policy(queue, now, |policy| policy.act(now)).flatten() {
            match action {
                Action::Admit(id) => self.admit(queue, now, id),
                Action::WriteBack { file: File(file), pages } => {
                    let Some((offset, pages)) = self.dirty.write_back(file, pages) else { continue };
                    let message = Message::WriteBack { file, pages, offset };
                    // Without room, the scheduler orders it again.
                    let has_room = |agent: &&mut Agent| agent.is_ready && !agent.has_unsent();
                    for agent in self.agents.iter_mut().flatten().filter(has_room) {
                        // Of one that has ended its connection informs.
                        let _ = agent.send(message);
                    }
                }
            }
        }
        let alarm = self.with_policy(queue, now, |policy| policy.alarm());
        if alarm.is_none() {
            self.admit_all(queue, now);
        }
        alarm.flatten().map(|at| at.since(now))
    }

    /// Calls the policy, which receives everything that precedes the call first. `None`: the scheduler has no such part.
    pub(super) fn with_policy<R>(
        &mut self,
        queue: &mut Queue<Watch>,
        now: Time,
        call: impl FnOnce(&mut dyn Split) -> R,
    ) -> Option<R> {
        let statistics = &queue.observer().statistics;
        let generation = statistics.switches.0 + statistics.faults;
        let is_new = self.generation != Some(generation);
        self.generation = Some(generation);
        if is_new {
            self.forget_predecessor();
        }
        let Self { accounts, sets, dirty, calls, changed, sent, .. } = self;
        let mut admitted = Vec::new();
        let result = queue.with_chosen(now, "split", |scheduler| {
            let policy = scheduler.split()?;
            if is_new {
                sets.since(0).for_each(|(set, members)| policy.causes(set, members));
                dirty.iter().for_each(|(page, causes)| policy.dirtied(now, &page, causes, None));
                *sent = sets.count();
            }
            for account in changed.drain(..) {
                policy.account(now, account, accounts.terms(account));
            }
            sets.since(*sent).for_each(|(set, members)| policy.causes(set, members));
            if is_new {
                for call in calls.iter().flatten() {
                    if policy.entered(now, &call.system_call) == Verdict::Proceed {
                        admitted.push(call.system_call.id);
                    }
                }
            }
            Some(call(policy))
        });
        self.sent = self.sets.count();
        admitted.into_iter().for_each(|id| self.admit(queue, now, id));
        result.flatten()
    }

    /// Removes what only the replaced policy had.
    fn forget_predecessor(&mut self) {
        // The predecessor admitted these calls.
        let is_admitted = |call: &Call| !call.is_held;
        self.calls
            .iter_mut()
            .filter(|call| call.as_ref().is_some_and(is_admitted))
            .for_each(|call| *call = None);
        self.sent = 0;
        self.changed = self.accounts.numbers();
        self.runs.forget_pages();
        // What was dirtied under the predecessor is written at no account's expense.
        if let Some(others) = self.sets.of([OTHERS]) {
            let bytes = self.dirty.give(others);
            self.accounts.forget_dirty();
            self.accounts[OTHERS].dirty = bytes;
        }
    }
}
