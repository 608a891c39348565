//! The model of operations drives every policy of the module through [`Host`], as the module's C files do.

use std::collections::VecDeque;

use elevator::Random;
use elevator::model::{self, Config};
use elevator::queue::{Event, Observer, Options, Queue, Step, Token};
use elevator::{
    Admission, Capabilities, Decision, Direction, Growth, Hold, Op, Outcome, Process, Reason, Request,
    RequestId, Scheduler, Sector, Sectors, Side, Span, Time, View, Wake,
};
use kernel_host::{ELEVATORS, Fault, Host, Injected, Next, Submission};
use schedulers::{Environment, Spec};

/// The policies that the module registers, the parameter's default left out.
fn policies() -> impl Iterator<Item = &'static str> {
    ELEVATORS.iter().filter(|elevator| !elevator.is_custom()).map(|elevator| elevator.spec)
}

/// A policy behind a host, as a scheduler for the model: its own ids in, the host's cookies out.
struct Hosted {
    host: Host,
    /// The host's id of a request, by the model's.
    ids: Vec<RequestId>,
}

impl Hosted {
    fn new(spec: &str, depth: u32) -> Self {
        Self { host: Host::new(spec, Environment::default(), depth).unwrap(), ids: Vec::new() }
    }

    fn id(&self, id: RequestId) -> RequestId {
        self.ids[id.index()]
    }
}

fn submission(request: &Request) -> Submission {
    Submission {
        op: request.op,
        start: request.start,
        sectors: request.sectors,
        flags: request.flags,
        priority: request.priority,
        process: request.process,
    }
}

impl Capabilities for Hosted {}

impl Scheduler for Hosted {
    fn insert(&mut self, now: Time, request: &Request) {
        let index = request.id.index();
        let id = self.host.insert(now, &submission(request), index);
        if self.ids.len() <= index {
            self.ids.resize(index + 1, RequestId(u32::MAX));
        }
        self.ids[index] = id;
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        let absorbed = growth.absorbed.map(|absorbed| self.id(absorbed.id));
        self.host.merged(now, self.id(request.id), request.start, request.sectors, absorbed);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.host.set_depth(view.device.depth);
        match self.host.next(now) {
            Ok(Next::Dispatch { cookie, reason, .. }) => {
                Decision::Dispatch { id: RequestId(cookie as u32), reason }
            }
            Ok(Next::Hold { until, reason }) => {
                let wake = if until.is_some() { Wake::Timer } else { Wake::Completion };
                Decision::Hold(Hold { until, wake, reason })
            }
            Ok(Next::Idle) => Decision::Idle,
            Err(fault) => panic!("{fault}"),
        }
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        if !self.host.is_light() {
            self.host.completed(now, self.id(request.id), outcome);
        }
    }

    fn exited(&mut self, now: Time, process: Process) {
        self.host.exited(now, process);
    }

    fn may_queue(&self, now: Time, process: Option<Process>, direction: Direction, sync: bool) -> Admission {
        self.host.may_queue(now, process, direction, sync)
    }

    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        match self.ids.get(addition.id.index()) {
            Some(&queued) => self.host.may_absorb(self.id(request.id), queued, side),
            None => self.host.may_merge(Time::ZERO, self.id(request.id), &submission(addition), side),
        }
    }
}

fn operations() -> u64 {
    std::env::var("DWELL_OPERATIONS").map_or(100_000, |n| n.parse().expect("DWELL_OPERATIONS is a number"))
}

#[test]
fn every_policy_of_the_module_passes_the_model_through_the_host() {
    for (seed, spec) in (1..).zip(policies()) {
        for depth in [1, 31] {
            let options = Options { depth, ..Options::default() };
            let config = Config { seed, operations: operations() / 14, options, ..Config::default() };
            if let Err(violations) = model::run(&config, &mut |_| Box::new(Hosted::new(spec, depth))) {
                panic!("{spec}, depth {depth}: {violations}");
            }
        }
    }
}

/// Records every dispatch: when, which sector, why.
#[derive(Default)]
struct Dispatches(Vec<(u64, u64, Reason)>);

impl Observer for Dispatches {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        if let Event::Dispatched { request, reason, .. } = event {
            self.0.push((now.as_nanos(), request.start.0, *reason));
        }
    }
}

/// Every decision of a policy for one sequence of events: eight processes that read and write without flushes, which a kernel
/// does not show an elevator, on a device that completes requests in order.
fn decisions(scheduler: Box<dyn Scheduler>, seed: u64) -> Vec<(u64, u64, Reason)> {
    let options = Options { depth: 4, ..Options::default() };
    let mut queue = Queue::observed(options, scheduler, Dispatches::default());
    let mut random = Random::new(seed);
    let mut device = VecDeque::new();
    let mut now = Time::ZERO;
    // Apart, since a policy may decide between two requests for one sector by their ids, which hosts choose.
    let mut at: [u64; 8] = core::array::from_fn(|_| random.below(1 << 27));
    for token in 0..20_000 {
        now += Span::from_nanos(random.below(4_000_000));
        let process = random.below(8) as usize;
        if random.once_in(4) {
            at[process] = random.below(1 << 27);
        }
        let op = if random.once_in(3) { Op::Write } else { Op::Read };
        let mut submission =
            elevator::queue::Submission::new(Token(token), op, Sector(at[process]), Sectors(8));
        submission.process = Some(Process::single(process as u32 + 1));
        at[process] += 8;
        let _ = queue.submit(now, submission);
        while let Step::Dispatch(ticket) = queue.next(now, None) {
            device.push_back(ticket);
        }
        if !random.once_in(5)
            && let Some(ticket) = device.pop_front()
        {
            queue.complete(now, ticket, Outcome::Done);
        }
        while queue.notice().is_some() {}
    }
    core::mem::take(&mut queue.observer().0)
}

#[test]
fn the_host_takes_the_same_decisions_as_the_queue() {
    for (seed, spec) in (1..).zip(policies()) {
        let direct = Spec::parse(spec).unwrap().build(&Environment::default()).unwrap();
        let direct = decisions(direct, seed);
        assert!(direct.len() > 5_000, "{spec} dispatched {}", direct.len());
        let hosted = decisions(Box::new(Hosted::new(spec, 4)), seed);
        let differs = direct.iter().zip(&hosted).position(|(direct, hosted)| direct != hosted);
        if let Some(i) = differs {
            panic!("{spec}: decision {i} is {:?}, through the host {:?}", direct[i], hosted[i]);
        }
        assert_eq!(direct.len(), hosted.len(), "{spec}");
    }
}

fn read(start: u64) -> Submission {
    Submission {
        op: Op::Read,
        start: Sector(start),
        sectors: Sectors(8),
        flags: elevator::Flags::default(),
        priority: elevator::Priority::default(),
        process: None,
    }
}

/// A process reads and exits while another one's request is queued: the decisions after its read and after its exit. `context` numbers the I/O
/// context of a task.
fn around_an_exit(spec: &str, context: impl Fn(u32) -> u32) -> [Next; 2] {
    let mut host = Host::new(spec, Environment::default(), 1).unwrap();
    let process = |task| Process { task, group: task, context: context(task) };
    let read_by = |task, start| Submission { process: Some(process(task)), ..read(start) };
    let mut now = Time::ZERO;
    for start in 0..8 {
        host.insert(now, &read_by(100, start * 8), 100);
        let Ok(Next::Dispatch { id, .. }) = host.next(now) else { panic!("{spec} waits") };
        now += Span::from_millis(1);
        host.completed(now, id, Outcome::Done);
        host.next(now).unwrap();
    }
    host.insert(now, &read_by(101, 900_000_000), 101);
    let before = host.next(now).unwrap();
    host.exited(now, process(100));
    [before, host.next(now).unwrap()]
}

/// The module numbers I/O contexts; elsewhere a context that is not shared has the number of its task.
#[test]
fn an_exit_ends_a_wait_whatever_the_number_of_the_context_is() {
    for spec in ["anticipatory", "cooperative", "cfq-2.6.32", "bfq"] {
        let [numbered, plain] =
            [around_an_exit(spec, |task| 1 << 31 | task), around_an_exit(spec, |task| task)];
        assert_eq!(numbered, plain, "{spec}");
    }
    let [before, after] = around_an_exit("cfq-2.6.32", |task| 1 << 31 | task);
    assert!(matches!(before, Next::Hold { .. }), "{before:?}");
    assert!(matches!(after, Next::Dispatch { cookie: 101, .. }), "{after:?}");
}

#[test]
fn an_unknown_request_is_a_fault() {
    let mut host = Host::new("deadline", Environment::default(), 1).unwrap();
    host.insert(Time::ZERO, &read(0), 1);
    host.inject(Injected::UnknownRequest);
    assert!(matches!(host.next(Time::ZERO), Err(Fault::UnknownRequest(_))));
}

#[test]
fn service_times_change_under_load_without_losing_a_request() {
    let mut host = Host::new("stream(deadline){stream_threshold=2}", Environment::default(), 4).unwrap();
    let threshold = host.tunable("stream_threshold");
    for cookie in 1..=8 {
        host.insert(Time::from_nanos(cookie), &read(cookie * 1_000), cookie as usize);
    }
    let dispatch = |host: &mut Host, now| match host.next(Time::from_nanos(now)) {
        Ok(Next::Dispatch { id, cookie, .. }) => (id, cookie),
        other => panic!("{other:?}"),
    };
    let (first, cookie) = dispatch(&mut host, 100);
    let mut served = vec![cookie];
    host.set_service_times(Time::from_nanos(101), elevator::service_time::ServiceCurve::default()).unwrap();
    assert_eq!(host.tunable("stream_threshold"), threshold, "tunables are kept");
    host.completed(Time::from_nanos(200), first, Outcome::Done);
    let mut now = 300;
    while host.queued() > 0 {
        let (id, cookie) = dispatch(&mut host, now);
        host.completed(Time::from_nanos(now + 1), id, Outcome::Done);
        served.push(cookie);
        now += 1_000_000_000;
    }
    served.sort_unstable();
    assert_eq!(served, [1, 2, 3, 4, 5, 6, 7, 8]);
}
