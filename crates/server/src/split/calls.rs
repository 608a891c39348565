//! Calls that the policy delays, and what is stopped in their place.

use ::control::admission::{Message, Operation};
use ::control::protocol::WaitState;
use elevator::queue::Queue;
use elevator::split::{Account, CallId, CallKind, File, SystemCall, Verdict};
use elevator::{Span, Time};

use super::SplitHost;
use crate::statistics::Watch;

/// A call from its beginning to its end.
pub(super) struct Call {
    pub(super) agent: usize,
    /// The agent's number for it.
    number: u32,
    pub(super) system_call: SystemCall,
    pub(super) since: Time,
    pub(super) is_held: bool,
    /// It is no call, but what is stopped while it is held.
    stops: Option<Stops>,
}

/// What is stopped, as no system call can be held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stops {
    /// A thread that stores to mapped files.
    Thread(u32),
    /// A process whose requests crowd the device.
    Process(u32),
}

impl Stops {
    const fn stop(self) -> Message {
        match self {
            Self::Thread(thread) => Message::Stop { thread },
            Self::Process(process) => Message::StopAll { process },
        }
    }

    const fn resume(self) -> Message {
        match self {
            Self::Thread(thread) => Message::Resume { thread },
            Self::Process(process) => Message::ResumeAll { process },
        }
    }
}

impl SplitHost {
    /// The calls of an account that are of the same kind as this one.
    fn waits(&mut self, call: &SystemCall) -> &mut WaitState {
        self.accounts[call.account].waits.entry(call.kind.name().to_string()).or_default()
    }

    pub(super) fn entered(
        &mut self,
        queue: &mut Queue<Watch>,
        now: Time,
        index: usize,
        (number, process): (u32, u32),
        kind: CallKind,
    ) {
        let Some(account) = self.agents[index].as_ref().map(|agent| agent.account) else { return };
        self.belongs(index, process);
        let system_call = SystemCall { id: self.free_call(), account, kind };
        // First, as a new policy receives all held calls.
        let verdict = self.with_policy(queue, now, |policy| policy.entered(now, &system_call));
        let place = system_call.id.0 as usize;
        self.hold(Call { agent: index, number, system_call, since: now, is_held: true, stops: None });
        match verdict {
            Some(Verdict::Hold) => {}
            Some(Verdict::Proceed) => self.admit(queue, now, CallId(place as u32)),
            None => {
                self.admit(queue, now, CallId(place as u32));
                self.calls[place] = None;
            }
        }
    }

    fn free_call(&mut self) -> CallId {
        let place = self.calls.iter().position(Option::is_none).unwrap_or(self.calls.len());
        self.calls.resize_with(self.calls.len().max(place + 1), || None);
        CallId(place as u32)
    }

    fn hold(&mut self, call: Call) {
        let system_call = call.system_call;
        self.calls[system_call.id.0 as usize] = Some(call);
        self.accounts[system_call.account].held += 1;
        self.waits(&system_call).held += 1;
    }

    /// A process did what no system call delays. If the policy would hold a call of this kind, the process or its thread is stopped as long.
    pub(super) fn stops_if_held(
        &mut self,
        queue: &mut Queue<Watch>,
        now: Time,
        account: Account,
        process: u32,
        (stops, kind): (Stops, CallKind),
    ) {
        if self.calls.iter().flatten().any(|call| call.stops == Some(stops)) {
            return;
        }
        let Some(agent) = self.agent_that_stops(account, process) else { return };
        let system_call = SystemCall { id: self.free_call(), account, kind };
        match self.with_policy(queue, now, |policy| policy.entered(now, &system_call)) {
            Some(Verdict::Hold) => {
                let stops_it = Some(stops);
                self.hold(Call { agent, number: 0, system_call, since: now, is_held: true, stops: stops_it });
                self.send(queue, now, agent, stops.stop());
            }
            Some(Verdict::Proceed) => {
                self.with_policy(queue, now, |policy| policy.returned(now, &system_call));
            }
            None => {}
        }
    }

    /// Whether a program of an account waits for an fsync.
    pub(super) fn is_syncing(&self, account: Account) -> bool {
        let is_it =
            |call: &SystemCall| call.account == account && matches!(call.kind, CallKind::Fsync { .. });
        self.calls.iter().flatten().any(|call| is_it(&call.system_call))
    }

    /// A call is no longer held.
    fn count_released(&mut self, call: &SystemCall, held: Span) {
        let account = &mut self.accounts[call.account];
        account.held -= 1;
        account.held_ns += held.as_nanos();
        let waits = self.waits(call);
        waits.held -= 1;
        waits.held_ns += held.as_nanos();
    }

    pub(super) fn admit(&mut self, queue: &mut Queue<Watch>, now: Time, id: CallId) {
        let call = self.calls.get_mut(id.0 as usize).and_then(Option::as_mut).filter(|call| call.is_held);
        let Some(call) = call else { return };
        call.is_held = false;
        let (agent, number, system_call, since) = (call.agent, call.number, call.system_call, call.since);
        let stops = call.stops;
        self.count_released(&system_call, now.since(since));
        if let Some(stops) = stops {
            self.calls[id.0 as usize] = None;
            self.with_policy(queue, now, |policy| policy.returned(now, &system_call));
            return self.send(queue, now, agent, stops.resume());
        }
        self.accounts[system_call.account].calls += 1;
        self.waits(&system_call).calls += 1;
        self.send(queue, now, agent, Message::Admit { call: number });
    }

    pub(super) fn returned(&mut self, queue: &mut Queue<Watch>, now: Time, agent: usize, number: u32) {
        let is_it = |call: &&Call| call.agent == agent && call.number == number && call.stops.is_none();
        let found = self.calls.iter().flatten().find(is_it).map(|call| (call.system_call, call.is_held));
        if let Some((call, is_held)) = found {
            // A held one was so small that it continued without an answer, or a signal interrupted it.
            if is_held {
                self.accounts[call.account].calls += 1;
                self.waits(&call).calls += 1;
            }
            self.forget_call(queue, now, call.id.0 as usize);
        }
    }

    /// A call ended, or goes on although it is held, as its agent has ended.
    pub(super) fn forget_call(&mut self, queue: &mut Queue<Watch>, now: Time, place: usize) {
        // First, as a new policy receives all held calls, and none that its predecessor admitted.
        self.with_policy(queue, now, |_| ());
        let Some(call) = self.calls[place].take() else { return };
        let system_call = call.system_call;
        if call.is_held {
            self.count_released(&system_call, now.since(call.since));
        }
        self.with_policy(queue, now, |policy| policy.returned(now, &system_call));
    }

    /// The scheduler has no part above the block layer.
    pub(super) fn admit_all(&mut self, queue: &mut Queue<Watch>, now: Time) {
        for place in 0..self.calls.len() {
            self.admit(queue, now, CallId(place as u32));
            self.calls[place] = None;
        }
    }
}

/// The policy's description of an agent's call.
pub(super) const fn kind(operation: Operation, file: u64, bytes: u64) -> CallKind {
    match operation {
        Operation::Write => CallKind::Write { file: File(file), bytes },
        Operation::Fsync => CallKind::Fsync { file: File(file) },
        Operation::Create => CallKind::Create,
        Operation::Mkdir => CallKind::Mkdir,
    }
}
