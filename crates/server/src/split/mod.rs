//! The host of split-level policies in front of a real device.
//!
//! | level | source |
//! |---|---|
//! | system calls | agents (`dwell exec`), which joined an account through the control socket |
//! | pages | [`ObserveCauses`]: a BPF program on the attached device |
//! | requests | each request gets the causes of the submissions that it was made of (`Runs`) |
//!
//! The host's methods are in the file of their subject: `calls` (held calls, and what is stopped in their place), `observed` (pages and requests),
//! `policy` (calls of the policy), and here agents.
//!
//! If the scheduler has no part above the block layer, nothing is held. If events are lost, all pages are taken for clean, as it is unknown
//! which are dirty: accounts are then charged when their requests arrive. Processes that joined no account are one account.

mod accounts;
mod agents;
mod calls;
mod dirty;
mod front;
mod observed;
mod policy;
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
use ::control::admission::Message;
pub use ::control::causes::CauseEvent;
use ::control::protocol::{AccountState, AccountTerms};
use elevator::Time;
use elevator::queue::Queue;
use elevator::split::Account;

use crate::ServeError;
use crate::statistics::Watch;
use accounts::Accounts;
use agents::Agent;
use calls::Call;
use dirty::DirtyPages;
pub(crate) use front::Admission;
use observed::Stores;
use processes::Processes;
use runs::Runs;
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

/// The longest name of an account, in bytes.
const NAME_MAX: usize = 255;

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
                    self.entered(queue, now, index, (call, process), calls::kind(operation, file, bytes));
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

    /// Sends a message to an agent.
    fn send(&mut self, queue: &mut Queue<Watch>, now: Time, index: usize, message: Message) {
        let agent = self.agents.get_mut(index).and_then(Option::as_mut);
        if !agent.is_some_and(|agent| agent.send(message)) {
            self.part(queue, now, index);
        }
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
}
