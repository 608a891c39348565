//! The host of split-level policies in front of a real device.
//!
//! | level | source |
//! |---|---|
//! | system calls | agents (`dwell exec`), which joined an account through the control socket |
//! | pages | [`ObserveCauses`]: a BPF program on the attached device |
//! | requests | each request gets the causes of the submissions that it was made of (`Runs`) |
//!
//! If the scheduler has no part above the block layer, nothing is held. If events are lost, all pages are taken for clean, as it is unknown
//! which are dirty: accounts are then charged when their requests arrive. Processes that joined no account are one account.

mod accounts;
mod agents;
mod dirty;
mod front;
mod processes;
mod runs;
mod sets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::Receiver;

use ::control::DeviceNumber;
use ::control::admission::{Message, Operation};
pub use ::control::causes::CauseEvent;
use ::control::protocol::{AccountState, AccountTerms, WaitState};
use elevator::queue::Queue;
use elevator::split::{Account, Action, CallId, CallKind, File, Page, Split, SystemCall, Verdict};
use elevator::{CauseSet, Op, Sector, Sectors, Span, Time};

use crate::ServeError;
use crate::statistics::Watch;
use accounts::{Accounts, OTHERS};
use agents::Agent;
use dirty::DirtyPages;
pub(crate) use front::Admission;
use processes::Processes;
use runs::{Kind, Runs};
use sets::Sets;

/// Observes the attached device. The device's thread calls it, so it must not wait.
pub trait ObserveCauses: Send {
    /// Adds the events since the previous call; `false` if some were lost.
    fn take(&mut self, events: &mut Vec<CauseEvent>) -> bool;
}

/// Makes an observer of the attached device.
pub type CausesFactory = Box<dyn FnOnce(&Path) -> Result<Box<dyn ObserveCauses>, ServeError> + Send>;

/// The observer and the number of the attached device.
pub(crate) type Observed = (Box<dyn ObserveCauses>, DeviceNumber);

/// An agent that wants to join.
pub(crate) struct Joining {
    pub(crate) stream: UnixStream,
    pub(crate) account: String,
    pub(crate) terms: AccountTerms,
    pub(crate) process: u32,
}

/// Why an agent cannot join yet.
pub const NOT_ATTACHED: &str = "the device is not attached yet";

/// How often outdated accounts are looked for.
const LOOK: Span = Span::from_millis(100);

/// The longest name of an account, in bytes.
const NAME_MAX: usize = 255;

/// A call from its beginning to its end.
struct Call {
    agent: usize,
    /// The agent's number for it.
    number: u32,
    system_call: SystemCall,
    since: Time,
    is_held: bool,
    /// It is no call, but what is stopped while it is held.
    stops: Option<Stops>,
}

/// What is stopped, as no system call can be held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stops {
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

/// Stores of a thread to mapped files.
struct Stores {
    account: Account,
    process: u32,
    file: u64,
    bytes: u64,
}

/// The host's state.
pub(crate) struct SplitHost {
    awaited: Receiver<Observed>,
    observed: Option<Observed>,
    accounts: Accounts,
    processes: Processes,
    sets: Sets,
    /// Sets that the policy has received.
    sent: usize,
    dirty: DirtyPages,
    runs: Runs,
    agents: Vec<Option<Agent>>,
    /// Agents that the front end does not watch yet.
    new: Vec<usize>,
    calls: Vec<Option<Call>>,
    events: Vec<CauseEvent>,
    /// Stores since the policy was asked, by thread.
    stores: BTreeMap<u32, Stores>,
    /// Processes that submitted requests themselves since the policy was asked, with their accounts.
    submitters: BTreeMap<u32, Account>,
    /// The scheduler that received the present state: how often it was replaced before.
    generation: Option<u64>,
    /// Accounts whose terms the policy has not received.
    changed: Vec<Account>,
    /// When outdated accounts were looked for.
    looked: Time,
}

impl SplitHost {
    pub(crate) fn new(awaited: Receiver<Observed>) -> Self {
        Self {
            awaited,
            observed: None,
            accounts: Accounts::new(),
            processes: Processes::default(),
            sets: Sets::default(),
            sent: 0,
            dirty: DirtyPages::default(),
            runs: Runs::default(),
            agents: Vec::new(),
            new: Vec::new(),
            calls: Vec::new(),
            events: Vec::new(),
            stores: BTreeMap::new(),
            submitters: BTreeMap::new(),
            generation: None,
            changed: Vec::new(),
            looked: Time::ZERO,
        }
    }

    /// The accounts, for users. Calls that are held now count until now.
    pub(crate) fn accounts(&self, now: Time) -> Vec<AccountState> {
        let mut states = self.accounts.states();
        for call in self.calls.iter().flatten().filter(|call| call.is_held) {
            let of = |state: &&mut AccountState| state.number == call.system_call.account.0;
            let Some(state) = states.iter_mut().find(of) else { continue };
            let held_ns = now.since(call.since).as_nanos();
            state.held_ns += held_ns;
            state.waits.entry(call.system_call.kind.name().to_string()).or_default().held_ns += held_ns;
        }
        states
    }

    /// Adds an agent; returns the number of the attached device.
    pub(crate) fn join(&mut self, joining: Joining) -> Result<DeviceNumber, String> {
        self.await_observer();
        let device = self.observed.as_ref().map(|(_, device)| *device);
        let device = device.ok_or(NOT_ATTACHED)?;
        let Joining { stream, account: name, terms, process } = joining;
        // Names are printed on terminals.
        if name.trim().is_empty() || name.len() > NAME_MAX || name.contains(char::is_control) {
            let limit = format!("1 to {NAME_MAX} bytes, not only spaces, and no control characters");
            return Err(format!("the name of an account has {limit}"));
        }
        if terms.weight.is_some_and(|weight| !(1..=8).contains(&weight)) {
            return Err("the weight of an account is 1 to 8".to_string());
        }
        stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        // After an error, the control socket's client goes on with the connection.
        let account = self.accounts.join(name, terms).inspect_err(|_| _ = stream.set_nonblocking(false))?;
        let agent = Agent::new(stream, account, process);
        let terms = Message::Terms(self.accounts[account].terms);
        let receives_them = |agent: &&mut Agent| agent.is_ready && agent.account == account;
        for agent in self.agents.iter_mut().flatten().filter(receives_them) {
            let _ = agent.send(terms);
        }
        self.processes.add(process, account);
        let free = self.agents.iter().position(Option::is_none).unwrap_or(self.agents.len());
        self.agents.resize_with(self.agents.len().max(free + 1), || None);
        self.agents[free] = Some(agent);
        self.new.push(free);
        self.changed.push(account);
        Ok(device)
    }

    fn await_observer(&mut self) {
        if self.observed.is_none() {
            self.observed = self.awaited.try_recv().ok();
        }
    }

    /// The causes of a request that arrived, and whether it is a direct write.
    pub(crate) fn causes(
        &mut self,
        queue: &mut Queue<Watch>,
        now: Time,
        op: Op,
        start: Sector,
        sectors: Sectors,
    ) -> (Option<CauseSet>, bool) {
        if !matches!(op, Op::Read | Op::Write) {
            return (None, false);
        }
        self.update(queue, now);
        if op == Op::Write {
            let arrived = self.runs.arrived(start, sectors);
            self.notify(queue, now, &arrived, |policy, now, page, set| policy.submitted(now, page, set));
        }
        let (found, is_direct) = self.runs.causes(op == Op::Read, start, sectors);
        let mut parts = BTreeMap::new();
        for &(set, bytes) in &found {
            let members = self.sets.members(set);
            let own = bytes / members.len().max(1) as u64;
            members.iter().for_each(|&account| *parts.entry(account).or_insert(0) += own);
        }
        let set = self.sets.by_bytes(&parts);
        let members = set.map_or(&[][..], |set| self.sets.members(set));
        for &account in members {
            self.accounts[account].caused += sectors.bytes() / members.len() as u64;
        }
        self.with_policy(queue, now, |_| ());
        (set, is_direct)
    }

    /// Reads what was observed and passes it to the policy.
    fn update(&mut self, queue: &mut Queue<Watch>, now: Time) {
        // First, as a new policy receives the pages that are dirty, and no event of others.
        self.with_policy(queue, now, |_| ());
        let agents = &self.agents;
        self.processes
            .pass(now, |process| agents.iter().flatten().any(|agent| agent.processes.contains(&process)));
        self.remove_outdated(queue, now);
        self.await_observer();
        let Some((observer, _)) = &mut self.observed else { return };
        let mut events = std::mem::take(&mut self.events);
        let is_complete = observer.take(&mut events);
        events.drain(..).for_each(|event| self.happened(queue, now, event));
        self.events = events;
        if !is_complete {
            self.forget(queue, now);
        }
        while let Some((thread, stores)) = self.stores.pop_first() {
            let kind = CallKind::Write { file: File(stores.file), bytes: stores.bytes };
            self.stops_if_held(queue, now, stores.account, stores.process, (Stops::Thread(thread), kind));
        }
        while let Some((process, account)) = self.submitters.pop_first() {
            self.stops_if_held(queue, now, account, process, (Stops::Process(process), CallKind::Submit));
        }
    }

    /// After a loss, which pages are dirty is unknown.
    fn forget(&mut self, queue: &mut Queue<Watch>, now: Time) {
        let mut all: Vec<_> = self.dirty.iter().collect();
        all.extend(self.runs.outdated(now, |_| true));
        self.dirty.clear();
        self.runs.clear();
        self.accounts.forget_dirty();
        self.notify(queue, now, &all, |policy, now, page, set| policy.freed(now, page, set));
    }

    /// Removes accounts whose programs have ended. What they left belongs to the account of all others from now on, and is charged when it is written.
    fn remove_outdated(&mut self, queue: &mut Queue<Watch>, now: Time) {
        if now.since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        let lost = self.runs.outdated(now, |_| false);
        self.notify(queue, now, &lost, |policy, now, page, set| policy.submitted(now, page, set));
        while let Some(account) = self.accounts.outdated(now) {
            let sets = &self.sets;
            let is_its = |set| sets.members(set).contains(&account);
            let mut left = self.dirty.take(is_its);
            let submitted = self.runs.outdated(now, is_its);
            left.iter().for_each(|(page, causes)| self.count_clean(*causes, page.bytes.into()));
            left.extend(submitted);
            self.processes.forget(account);
            self.notify(queue, now, &left, |policy, now, page, set| policy.freed(now, page, set));
            self.with_policy(queue, now, |policy| policy.forget(now, account));
            self.accounts.remove(account);
        }
    }

    fn happened(&mut self, queue: &mut Queue<Watch>, now: Time, event: CauseEvent) {
        match event {
            CauseEvent::Dirtied { process, file, offset, bytes, stored_by } => {
                let account = self.account_of(now, process);
                if let (Some(thread), Some(process)) = (stored_by.filter(|_| account != OTHERS), process) {
                    let new = Stores { account, process, file, bytes: 0 };
                    self.stores.entry(thread).or_insert(new).bytes += u64::from(bytes);
                }
                let Some(set) = self.sets.of([account]) else { return };
                let pages = self.dirty.add(file, offset, bytes, set);
                if pages.is_empty() {
                    return;
                }
                for (page, before) in &pages {
                    before.iter().for_each(|&before| self.count_clean(before, page.bytes.into()));
                    self.accounts[account].dirty += u64::from(page.bytes);
                }
                self.with_policy(queue, now, |policy| {
                    pages.iter().for_each(|(page, before)| policy.dirtied(now, page, set, *before));
                });
            }
            CauseEvent::Dropped { file, offset, bytes } => {
                let pages = self.dirty.remove(file, offset, bytes.into());
                self.are_clean(&pages);
                self.notify(queue, now, &pages, |policy, now, page, set| policy.freed(now, page, set));
            }
            CauseEvent::Submitted { start, sectors, is_read, is_data, processes, file } => {
                let (start, sectors) = (Sector(start), Sectors(sectors));
                let is_of_one = processes.len() == 1;
                let process = processes.first().copied().filter(|_| is_of_one);
                let accounts: Vec<_> =
                    processes.into_iter().map(|process| self.account_of(now, Some(process))).collect();
                let (file, offset) = file.filter(|_| !is_read).unzip();
                let offset = offset.unwrap_or(0);
                let pages =
                    file.map(|file| self.dirty.remove(file, offset, sectors.bytes())).unwrap_or_default();
                // Pages of the page cache have a file. A program whose pages were dirty before the device was observed makes them durable by an fsync.
                let syncs = |account: &Account| self.is_syncing(*account);
                let kind = match (is_read, process) {
                    (true, _) => Kind::Read,
                    (false, Some(_)) if is_data && file.is_none() && !accounts.iter().any(syncs) => {
                        Kind::Direct
                    }
                    (false, _) => Kind::Write,
                };
                if let (Some(process), [account], Kind::Read | Kind::Direct) = (process, &accounts[..], kind)
                    && *account != OTHERS
                {
                    self.submitters.insert(process, *account);
                }
                if let Some(set) = self.sets.of(accounts) {
                    self.runs.add(kind, start, sectors, set);
                    let mut bytes = sectors.bytes();
                    // What a process dirtied before it joined its account is not its account's.
                    let others = if is_of_one && is_data { dirty::parts(&pages, set) } else { Vec::new() };
                    for (from, to, before) in others {
                        let (from, to) = (from.max(offset), to.min(offset + sectors.bytes()));
                        if from < to {
                            let place = start + Sectors::from_bytes(from - offset);
                            self.runs.add(Kind::Write, place, Sectors::from_bytes(to - from), before);
                            self.count_submitted(before, to - from, false, true);
                            bytes -= to - from;
                        }
                    }
                    self.count_submitted(set, bytes, is_read, is_data);
                }
                self.are_clean(&pages);
                let before = self.runs.submitted(now, (start, sectors), offset, pages);
                self.notify(queue, now, &before, |policy, now, page, set| policy.submitted(now, page, set));
            }
        }
    }

    /// Reports pages to the policy.
    fn notify(
        &mut self,
        queue: &mut Queue<Watch>,
        now: Time,
        pages: &[(Page, CauseSet)],
        notify: fn(&mut dyn Split, Time, &Page, CauseSet),
    ) {
        if !pages.is_empty() {
            self.with_policy(queue, now, |policy| {
                pages.iter().for_each(|(page, causes)| notify(policy, now, page, *causes));
            });
        }
    }

    /// Pages are no longer dirty.
    fn are_clean(&mut self, pages: &[(Page, CauseSet)]) {
        pages.iter().for_each(|(page, causes)| self.count_clean(*causes, page.bytes.into()));
    }

    fn count_submitted(&mut self, set: CauseSet, bytes: u64, is_read: bool, is_data: bool) {
        let members = self.sets.members(set);
        for &account in members {
            let account = &mut self.accounts[account];
            let field = match (is_read, is_data) {
                (true, _) => &mut account.read,
                (false, true) => &mut account.data,
                (false, false) => &mut account.metadata,
            };
            *field += bytes / members.len() as u64;
        }
    }

    /// The calls of an account that are of the same kind as this one.
    fn waits(&mut self, call: &SystemCall) -> &mut WaitState {
        self.accounts[call.account].waits.entry(call.kind.name().to_string()).or_default()
    }

    fn count_clean(&mut self, causes: CauseSet, bytes: u64) {
        for &account in self.sets.members(causes) {
            let dirty = &mut self.accounts[account].dirty;
            *dirty = dirty.saturating_sub(bytes);
        }
    }

    fn account_of(&mut self, now: Time, process: Option<u32>) -> Account {
        process.and_then(|process| self.processes.account(now, process)).unwrap_or(OTHERS)
    }

    /// Messages of an agent arrived, or its end.
    fn receive(&mut self, queue: &mut Queue<Watch>, now: Time, index: usize) {
        self.update(queue, now);
        let Some(agent) = self.agents.get_mut(index).and_then(Option::as_mut) else { return };
        let was_ready = agent.is_ready;
        let messages = agent.receive().filter(|_| agent.send_kept());
        agent.collects = true;
        if agent.is_ready && !was_ready {
            // If it fails, the agent has ended, of which the next message informs.
            let _ = agent.send(Message::Terms(self.accounts[agent.account].terms));
        }
        match messages {
            Some(messages) => messages.into_iter().for_each(|message| match message {
                Message::Enter { call, operation, process, file, bytes } => {
                    self.entered(queue, now, index, (call, process), kind(operation, file, bytes));
                }
                Message::Process { process } => self.belongs(index, process),
                Message::Return { call } => self.returned(queue, now, index, call),
                Message::Admit { .. }
                | Message::WriteBack { .. }
                | Message::Stop { .. }
                | Message::Resume { .. }
                | Message::StopAll { .. }
                | Message::ResumeAll { .. }
                | Message::Terms(_) => {}
            }),
            None => self.part(queue, now, index),
        }
        let agent = self.agents.get_mut(index).and_then(Option::as_mut);
        if agent.is_some_and(|agent| {
            agent.collects = false;
            !agent.send_kept()
        }) {
            self.part(queue, now, index);
        }
    }

    /// A process makes calls through an agent.
    fn belongs(&mut self, index: usize, process: u32) {
        let Some(agent) = self.agents[index].as_mut() else { return };
        self.processes.add(process, agent.account);
        agent.processes.insert(process);
    }

    fn entered(
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
    fn stops_if_held(
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

    /// The agent that can stop a process of an account now. A process that has made no call yet belongs to its parent's agent: any of the account can
    /// stop it. An agent without room for the message is asked the next time.
    fn agent_that_stops(&self, account: Account, process: u32) -> Option<usize> {
        let find = |is_it: &dyn Fn(&Agent) -> bool| {
            self.agents.iter().position(|agent| agent.as_ref().is_some_and(is_it))
        };
        let index = find(&|agent| agent.processes.contains(&process))
            .or_else(|| find(&|agent| agent.account == account))?;
        let agent = self.agents[index].as_ref()?;
        (agent.is_ready && !agent.has_unsent() && agent.account == account).then_some(index)
    }

    /// Whether a program of an account waits for an fsync.
    fn is_syncing(&self, account: Account) -> bool {
        let is_it =
            |call: &SystemCall| call.account == account && matches!(call.kind, CallKind::Fsync { .. });
        self.calls.iter().flatten().any(|call| is_it(&call.system_call))
    }

    /// Sends a message to an agent.
    fn send(&mut self, queue: &mut Queue<Watch>, now: Time, index: usize, message: Message) {
        let agent = self.agents.get_mut(index).and_then(Option::as_mut);
        if !agent.is_some_and(|agent| agent.send(message)) {
            self.part(queue, now, index);
        }
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

    fn admit(&mut self, queue: &mut Queue<Watch>, now: Time, id: CallId) {
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

    fn returned(&mut self, queue: &mut Queue<Watch>, now: Time, agent: usize, number: u32) {
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
    fn forget_call(&mut self, queue: &mut Queue<Watch>, now: Time, place: usize) {
        // First, as a new policy receives all held calls, and none that its predecessor admitted.
        self.with_policy(queue, now, |_| ());
        let Some(call) = self.calls[place].take() else { return };
        let system_call = call.system_call;
        if call.is_held {
            self.count_released(&system_call, now.since(call.since));
        }
        self.with_policy(queue, now, |policy| policy.returned(now, &system_call));
    }

    /// An agent ended: its calls continue by themselves.
    fn part(&mut self, queue: &mut Queue<Watch>, now: Time, index: usize) {
        let Some(agent) = self.agents.get_mut(index).and_then(Option::take) else { return };
        self.accounts.part(now, agent.account);
        self.changed.push(agent.account);
        let is_left =
            |process: &u32| !self.agents.iter().flatten().any(|other| other.processes.contains(process));
        self.processes.leave(now, agent.processes.into_iter().filter(is_left), agent.account);
        for place in 0..self.calls.len() {
            if self.calls[place].as_ref().is_some_and(|call| call.agent == index) {
                self.forget_call(queue, now, place);
            }
        }
    }

    /// Carries out what the policy requests; returns when it must be asked again.
    fn act(&mut self, queue: &mut Queue<Watch>, now: Time) -> Option<Span> {
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

    /// An agent's connection.
    fn stream(&self, index: usize) -> Option<&UnixStream> {
        Some(&self.agents.get(index)?.as_ref()?.stream)
    }

    /// The connected agents with their numbers.
    fn agents(&mut self) -> impl Iterator<Item = (usize, &mut Agent)> {
        self.agents.iter_mut().enumerate().filter_map(|(index, agent)| Some((index, agent.as_mut()?)))
    }

    /// The server ends: connections close, and all calls continue.
    fn end(&mut self, queue: &mut Queue<Watch>, now: Time) {
        (0..self.agents.len()).for_each(|index| self.part(queue, now, index));
    }

    /// The scheduler has no part above the block layer.
    fn admit_all(&mut self, queue: &mut Queue<Watch>, now: Time) {
        for place in 0..self.calls.len() {
            self.admit(queue, now, CallId(place as u32));
            self.calls[place] = None;
        }
    }

    /// Calls the policy, which receives everything that precedes the call first. `None`: the scheduler has no such part.
    fn with_policy<R>(
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
            // Its predecessor admitted them.
            let is_admitted = |call: &Call| !call.is_held;
            self.calls
                .iter_mut()
                .filter(|call| call.as_ref().is_some_and(is_admitted))
                .for_each(|call| *call = None);
            self.sent = 0;
            self.changed = self.accounts.numbers();
            self.runs.forget_pages();
            // What was dirtied under its predecessor is written at no account's expense.
            if let Some(others) = self.sets.of([OTHERS]) {
                let bytes = self.dirty.give(others);
                self.accounts.forget_dirty();
                self.accounts[OTHERS].dirty = bytes;
            }
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
}

const fn kind(operation: Operation, file: u64, bytes: u64) -> CallKind {
    match operation {
        Operation::Write => CallKind::Write { file: File(file), bytes },
        Operation::Fsync => CallKind::Fsync { file: File(file) },
        Operation::Create => CallKind::Create,
        Operation::Mkdir => CallKind::Mkdir,
    }
}
