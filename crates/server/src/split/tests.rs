//! The host between a kernel and a policy that are both simulated.

use std::io::{Read, Write};
use std::sync::mpsc::{Sender, channel};

use ::control::admission::{Operation, take};
use elevator::queue::{Event, Observer, Options, Submission, SwitchMode, Token};
use elevator::{Flags, Op, Priority, Sector, Sectors, Span};
use schedulers::{Environment, Spec};

use super::*;
use crate::backend::{Memory, Payload};
use crate::device::Device;
use crate::operation::NewOperation;

/// An observer that reports what a test sends.
struct Sent(Receiver<CauseEvent>);

impl ObserveCauses for Sent {
    fn take(&mut self, events: &mut Vec<CauseEvent>) -> bool {
        events.extend(self.0.try_iter());
        true
    }
}

struct Machine {
    host: SplitHost,
    queue: Queue<Watch>,
    kernel: Sender<CauseEvent>,
    now: Time,
}

const PROCESS: u32 = 4711;
const PAGES: u64 = 256;

fn scheduler(name: &str) -> Box<dyn elevator::Scheduler> {
    Spec::parse(name).unwrap().build(&Environment::default()).unwrap()
}

impl Machine {
    fn new(name: &str) -> Self {
        let (observed, awaited) = channel();
        let (kernel, events) = channel();
        observed.send((Box::new(Sent(events)) as Box<dyn ObserveCauses>, (7, 0))).unwrap();
        let queue = Queue::observed(Options::default(), scheduler(name), Watch::new(None));
        Self { host: SplitHost::new(awaited), queue, kernel, now: Time::ZERO }
    }

    /// An agent with a process; it is connected as long as the stream is kept.
    fn joins(&mut self, terms: AccountTerms) -> UnixStream {
        let (stream, agent) = UnixStream::pair().unwrap();
        self.host.join(Joining { stream, account: "web".to_owned(), terms, process: PROCESS }).unwrap();
        agent
    }

    /// The first agent's process calls `write`.
    fn enters(&mut self, agent: &mut UnixStream) {
        let message =
            Message::Enter { call: 0, operation: Operation::Write, process: PROCESS, file: 7, bytes: 4096 };
        agent.write_all(&message.to_bytes()).unwrap();
        self.host.receive(&mut self.queue, self.now, 0);
    }

    fn acts(&mut self) {
        self.host.act(&mut self.queue, self.now);
    }

    fn dirties(&mut self) {
        let all = (0..PAGES).map(|n| n * 4096);
        all.for_each(|offset| {
            let event =
                CauseEvent::Dirtied { process: Some(PROCESS), file: 7, offset, bytes: 4096, stored_by: None };
            self.kernel.send(event).unwrap();
        });
        self.acts();
    }

    fn submits(&mut self) {
        let event = CauseEvent::Submitted {
            start: 8000,
            sectors: PAGES as u32 * 8,
            is_read: false,
            is_data: true,
            processes: vec![PROCESS],
            file: Some((7, 0)),
        };
        self.kernel.send(event).unwrap();
        self.acts();
    }

    fn faults(&mut self) -> u64 {
        self.queue.observer().statistics.faults
    }
}

#[test]
fn what_the_kernel_submits_is_no_credit_before_its_requests_arrive() {
    let mut machine = Machine::new("split-token");
    let mut agent = machine.joins(AccountTerms { rate: Some(1000), ..AccountTerms::default() });
    machine.dirties();
    machine.enters(&mut agent);
    let held = |machine: &Machine| machine.host.accounts(machine.now)[1].held;
    machine.acts();
    assert_eq!(held(&machine), 1, "the debt is 1 MB");
    machine.submits();
    assert_eq!(held(&machine), 1);
    assert_eq!(machine.host.accounts(machine.now)[1].dirty, 0);
    let half = Sectors::from_bytes(PAGES * 2048);
    for (start, left) in [(Sector(8000), 1), (Sector(8000) + half, 0)] {
        machine.host.causes(&mut machine.queue, machine.now, Op::Write, start, half);
        machine.acts();
        assert_eq!(held(&machine), left, "the request is charged instead");
    }
}

/// The first that the policy of a switch receives is the end of pages that it has not seen become dirty.
#[test]
fn a_switch_reports_the_state_before_the_events_that_follow() {
    for submitted in [false, true] {
        let mut machine = Machine::new("afq");
        let _agent = machine.joins(AccountTerms::default());
        machine.dirties();
        machine.queue.switch(machine.now, scheduler("deadline"), SwitchMode::Transfer);
        machine.acts();
        machine.queue.switch(machine.now, scheduler("afq"), SwitchMode::Transfer);
        if submitted {
            machine.submits();
        }
        machine.kernel.send(CauseEvent::Dropped { file: 7, offset: 0, bytes: PAGES as u32 * 4096 }).unwrap();
        machine.acts();
        machine.queue.switch(machine.now, scheduler("afq"), SwitchMode::Transfer);
        machine.host.causes(&mut machine.queue, machine.now, Op::Write, Sector(8000), Sectors(8));
        machine.acts();
        assert_eq!(machine.faults(), 0);
    }
}

#[test]
fn what_was_dirty_before_a_switch_is_charged_to_no_account() {
    let mut machine = Machine::new("deadline");
    let mut agent = machine.joins(AccountTerms { rate: Some(1000), ..AccountTerms::default() });
    machine.dirties();
    machine.queue.switch(machine.now, scheduler("split-token"), SwitchMode::Transfer);
    machine.submits();
    let sectors = Sectors::from_bytes(PAGES * 4096);
    machine.host.causes(&mut machine.queue, machine.now, Op::Write, Sector(8000), sectors);
    let accounts = machine.host.accounts(machine.now);
    assert_eq!((accounts[0].caused, accounts[1].caused), (PAGES * 4096, 0));
    assert_eq!((accounts[0].dirty, accounts[1].dirty), (0, 0));
    machine.enters(&mut agent);
    machine.acts();
    assert_eq!(machine.host.accounts(machine.now)[1].held, 0);
}

/// As after `--join`: otherwise an account that writes some pages among those of others pays for half of all.
#[test]
fn a_request_is_charged_by_the_bytes_of_its_causes() {
    let mut machine = Machine::new("split-token");
    let _agent = machine.joins(AccountTerms { rate: Some(1000), ..AccountTerms::default() });
    for (process, first, pages) in [(None, 0, PAGES), (Some(PROCESS), 100, 3)] {
        let offset = first * 4096;
        let bytes = pages as u32 * 4096;
        machine
            .kernel
            .send(CauseEvent::Dirtied { process, file: 7, offset, bytes, stored_by: None })
            .unwrap();
    }
    machine.acts();
    assert_eq!(machine.host.accounts(machine.now)[1].dirty, 3 * 4096);
    machine.submits();
    let sectors = Sectors::from_bytes(PAGES * 4096);
    machine.host.causes(&mut machine.queue, machine.now, Op::Write, Sector(8000), sectors);
    let caused = machine.host.accounts(machine.now)[1].caused;
    assert!((3 * 4096..=5 * 4096).contains(&caused), "{caused}");
}

/// The time of a call that is held counts also if it is never admitted.
#[test]
fn the_time_of_held_calls_does_not_decrease() {
    let mut machine = Machine::new("split-token");
    let mut agent = machine.joins(AccountTerms { rate: Some(1000), ..AccountTerms::default() });
    machine.dirties();
    machine.enters(&mut agent);
    machine.now += Span::from_secs(4);
    let held_ns = |machine: &Machine| {
        let account = &machine.host.accounts(machine.now)[1];
        (account.held, account.held_ns, account.waits["write"].held_ns)
    };
    let expected = Span::from_secs(4).as_nanos();
    assert_eq!(held_ns(&machine), (1, expected, expected));
    drop(agent);
    machine.host.receive(&mut machine.queue, machine.now, 0);
    assert_eq!(held_ns(&machine), (0, expected, expected));
}

/// Sends the flags of each submission.
struct Flagged(Sender<Flags>);

impl Observer for Flagged {
    fn event(&mut self, _now: Time, event: &Event<'_>) {
        if let Event::Submitted { flags, .. } = event {
            self.0.send(*flags).unwrap();
        }
    }
}

/// Policies charge a direct write as it arrives, because no page became dirty before.
#[test]
fn a_request_of_a_direct_write_is_marked() {
    for (file, direct) in [(None, true), (Some((7, 0)), false)] {
        let machine = Machine::new("noop");
        let submitted = CauseEvent::Submitted {
            start: 8000,
            sectors: 8,
            is_read: false,
            is_data: true,
            processes: vec![PROCESS],
            file,
        };
        machine.kernel.send(submitted).unwrap();
        let (flagged, flags) = channel();
        let watch = Watch::new(Some(Box::new(Flagged(flagged))));
        let queue = Queue::observed(Options::default(), scheduler("noop"), watch);
        let mut device = Device::new(queue, Box::new(Memory::new(16 << 20, 1)));
        device.split = Some(Box::new(machine.host));
        let (op, start, sectors) = (Op::Write, Sector(8000), Sectors(8));
        let (flags_of_host, payload) = (Flags { fua: true, ..Flags::default() }, Payload::Zeroes);
        let operation =
            NewOperation { cookie: 0, op, start, sectors, flags: flags_of_host, process: None, payload };
        let _ = device.submit(machine.now, 0, operation);
        assert_eq!(flags.try_recv().unwrap(), Flags { direct, ..flags_of_host });
    }
}

/// Messages that an agent has received, without the terms.
fn received(agent: &UnixStream) -> Vec<Message> {
    agent.set_nonblocking(true).unwrap();
    let mut bytes = Vec::new();
    let _ = (&mut &*agent).read_to_end(&mut bytes);
    take(&mut bytes).into_iter().flatten().filter(|message| !matches!(message, Message::Terms(_))).collect()
}

#[test]
fn a_thread_that_stores_is_stopped_while_a_write_would_be_held() {
    let mut machine = Machine::new("split-token");
    let mut agent = machine.joins(AccountTerms { rate: Some(4096), ..AccountTerms::default() });
    agent.write_all(&Message::Process { process: PROCESS }.to_bytes()).unwrap();
    machine.host.receive(&mut machine.queue, machine.now, 0);
    let thread = PROCESS + 1;
    for offset in [0, 4096] {
        let (process, stored_by) = (Some(PROCESS), Some(thread));
        machine
            .kernel
            .send(CauseEvent::Dirtied { process, file: 7, offset, bytes: 4096, stored_by })
            .unwrap();
    }
    machine.acts();
    machine.acts();
    assert_eq!(received(&agent), [Message::Stop { thread }], "once");
    assert_eq!(machine.host.accounts(machine.now)[1].held, 1);
    machine.now += Span::from_millis(1900);
    machine.acts();
    assert_eq!(received(&agent), []);
    machine.now += Span::from_millis(200);
    machine.acts();
    assert_eq!(received(&agent), [Message::Resume { thread }], "two pages take two seconds");
    let account = &machine.host.accounts(machine.now)[1];
    assert_eq!((account.held, account.held_ns), (0, Span::from_millis(2100).as_nanos()));
}

#[test]
fn a_process_whose_requests_crowd_the_device_is_stopped_until_its_debt_is_paid() {
    let mut machine = Machine::new("split-token{crowd=2}");
    let mut agent = machine.joins(AccountTerms { rate: Some(4096), ..AccountTerms::default() });
    agent.write_all(&Message::Process { process: PROCESS }.to_bytes()).unwrap();
    machine.host.receive(&mut machine.queue, machine.now, 0);
    machine.dirties();
    for (token, start) in [(1, 800), (2, 80_000), (3, 8_000)] {
        let (processes, file) = (vec![PROCESS], None);
        let submitted =
            CauseEvent::Submitted { start, sectors: 8, is_read: false, is_data: true, processes, file };
        machine.kernel.send(submitted).unwrap();
        let (op, start, sectors) = (Op::Write, Sector(start), Sectors(8));
        let (causes, direct) = machine.host.causes(&mut machine.queue, machine.now, op, start, sectors);
        assert!(direct, "no page of a file");
        let flags = Flags { direct, ..Flags::default() };
        let (token, priority) = (Token(token), Priority::default());
        let submission = Submission { token, op, start, sectors, flags, priority, process: None, causes };
        let _ = machine.queue.submit(machine.now, submission);
    }
    assert_eq!(received(&agent), [Message::StopAll { process: PROCESS }], "once, when two wait");
    machine.queue.switch(machine.now, scheduler("noop"), SwitchMode::Transfer);
    machine.acts();
    assert_eq!(received(&agent), [Message::ResumeAll { process: PROCESS }]);
}

/// More than its socket has room for.
#[test]
fn an_agent_with_thousands_of_waiting_calls_receives_every_admission() {
    const CALLS: u32 = 5000;
    let mut machine = Machine::new("split-token");
    let mut agent = machine.joins(AccountTerms { rate: Some(1000), ..AccountTerms::default() });
    machine.dirties();
    for call in 0..CALLS {
        let (operation, process) = (Operation::Write, PROCESS);
        let enter = Message::Enter { call, operation, process, file: 7, bytes: 4096 };
        agent.write_all(&enter.to_bytes()).unwrap();
        machine.host.receive(&mut machine.queue, machine.now, 0);
    }
    assert_eq!(machine.host.accounts(machine.now)[1].held, CALLS);
    machine.queue.switch(machine.now, scheduler("noop"), SwitchMode::Transfer);
    machine.acts();
    assert!(machine.host.agents[0].as_ref().is_some_and(Agent::has_unsent), "its socket is full");
    let mut all = Vec::new();
    while machine.host.agents[0].as_ref().is_some_and(Agent::has_unsent) {
        all.extend(received(&agent));
        machine.host.receive(&mut machine.queue, machine.now, 0);
    }
    all.extend(received(&agent));
    let admitted: Vec<_> = (0..CALLS).map(|call| Message::Admit { call }).collect();
    assert_eq!(all, admitted);
    assert_eq!(machine.host.accounts(machine.now)[1].agents, 1);
}
