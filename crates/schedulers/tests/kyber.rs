//! Kyber: its decisions, its contract, and its effect on processes.

mod closed_loop;

use closed_loop::{Disk, reader, run};
use dwell_schedulers::policies::kyber::Kyber;
use elevator::queue::{Event, Limits, Observer, Options, Plugging, Queue, Step, Submission, Ticket, Token};
use elevator::{Flags, HoldReason, Op, Outcome, Reason, Sector, Sectors, Span, Time, Value};

/// The reasons of dispatches.
#[derive(Default)]
struct Reasons(Vec<Reason>);

impl Observer for Reasons {
    fn event(&mut self, _now: Time, event: &Event<'_>) {
        if let Event::Dispatched { reason, .. } = event {
            self.0.push(*reason);
        }
    }
}

/// A queue with kyber and a device of unlimited depth.
struct Host {
    queue: Queue<Reasons>,
    now: Time,
    tokens: u64,
    device: Vec<Ticket>,
}

impl Host {
    fn new() -> Self {
        let options =
            Options { depth: 1024, plugging: Plugging::None, limits: Limits::NONE, ..Options::default() };
        Self {
            queue: Queue::observed(options, Box::new(Kyber::new(256)), Reasons::default()),
            now: Time::ZERO,
            tokens: 0,
            device: Vec::new(),
        }
    }

    fn submit_at(&mut self, op: Op, start: u64, sync: bool) {
        let mut submission = Submission::new(Token(self.tokens), op, Sector(start), Sectors(8));
        submission.flags = Flags { sync, ..Flags::default() };
        self.tokens += 1;
        let _ = self.queue.submit(self.now, submission);
    }

    /// Submits `n` requests that cannot merge.
    fn submit(&mut self, op: Op, n: u32) {
        for _ in 0..n {
            self.submit_at(op, self.tokens * 1000, true);
        }
    }

    /// The requests dispatched now, and the reason why the others are held.
    fn dispatched(&mut self) -> (Vec<Op>, Option<HoldReason>) {
        let mut ops = Vec::new();
        loop {
            match self.queue.next(self.now, None) {
                Step::Dispatch(ticket) => {
                    ops.push(self.queue.request(&ticket).op);
                    self.device.push(ticket);
                }
                Step::Wait(hold) => return (ops, Some(hold.reason)),
                Step::Full | Step::Idle => return (ops, None),
            }
        }
    }

    fn complete_all(&mut self) {
        for ticket in std::mem::take(&mut self.device) {
            self.queue.complete(self.now, ticket, Outcome::Done);
        }
    }

    /// Submits and dispatches `n` requests, which complete after `latency`.
    fn serve(&mut self, op: Op, n: u32, latency: Span) {
        self.submit(op, n);
        self.dispatched();
        self.now += latency;
        self.complete_all();
    }
}

fn runs(ops: &[Op]) -> Vec<(Op, usize)> {
    let mut runs: Vec<(Op, usize)> = Vec::new();
    for &op in ops {
        match runs.last_mut() {
            Some((last, n)) if *last == op => *n += 1,
            _ => runs.push((op, 1)),
        }
    }
    runs
}

#[test]
fn domains_take_turns_in_batches_of_16_8_and_1() {
    let mut host = Host::new();
    for op in [Op::Discard, Op::Write, Op::Read] {
        host.submit(op, 20);
    }
    let (ops, held) = host.dispatched();
    assert_eq!(held, None);
    let expected = [
        (Op::Read, 16),
        (Op::Write, 8),
        (Op::Discard, 1),
        (Op::Read, 4),
        (Op::Write, 8),
        (Op::Discard, 1),
        (Op::Write, 4),
        (Op::Discard, 18),
    ];
    assert_eq!(runs(&ops), expected);
}

#[test]
fn a_domain_without_tokens_does_not_delay_others() {
    let mut host = Host::new();
    host.submit(Op::Write, 130);
    host.submit(Op::Read, 10);
    let (ops, held) = host.dispatched();
    assert_eq!(ops.iter().filter(|&&op| op == Op::Write).count(), 128, "the number of write tokens");
    assert_eq!(ops.iter().filter(|&&op| op == Op::Read).count(), 10);
    assert_eq!(held, Some(HoldReason::NoToken));
    host.complete_all();
    assert_eq!(host.dispatched(), (vec![Op::Write; 2], None));
}

#[test]
fn every_dispatch_states_whether_it_begins_a_batch() {
    let mut host = Host::new();
    host.submit(Op::Read, 1);
    host.submit(Op::Write, 2);
    host.dispatched();
    assert_eq!(host.queue.observer().0, [Reason::Domain, Reason::NewBatch, Reason::Domain]);
}

/// Reads take 5 ms with a target of 2 ms, writes 4 ms of 10 ms: the device is congested. Writes (second bucket of
/// four) give up half of their tokens; reads get more, but at most their initial number.
#[test]
fn congestion_takes_tokens_from_domains_that_meet_their_target() {
    let mut host = Host::new();
    let step = |host: &mut Host| {
        for _ in 0..5 {
            host.submit(Op::Read, 100);
            host.submit(Op::Write, 100);
            host.dispatched();
            host.now += Span::from_millis(4);
            let (writes, reads) = std::mem::take(&mut host.device)
                .into_iter()
                .partition::<Vec<_>, _>(|t| host.queue.request(t).op == Op::Write);
            host.device = writes;
            host.complete_all();
            host.now += Span::from_millis(1);
            host.device = reads;
            host.complete_all();
        }
        host.now += Span::from_millis(200);
        let _ = host.queue.next(host.now, None);
    };
    step(&mut host);
    assert_eq!(depths(&host), [256, 64, 64, 16]);
    step(&mut host);
    assert_eq!(depths(&host), [256, 64, 64, 16], "the depth is stable");
}

/// With fewer than 500 completions per second, the evaluation of the device's histogram always closes the window that it shares with the
/// other histogram. The source therefore never changes depths on a slow disk, and neither does this policy.
#[test]
fn a_slow_disk_is_never_throttled() {
    let mut host = Host::new();
    for _ in 0..200 {
        host.serve(Op::Read, 2, Span::from_millis(30));
        host.serve(Op::Write, 2, Span::from_millis(3));
    }
    assert_eq!(depths(&host), [256, 128, 64, 16]);
}

fn depths(host: &Host) -> [u64; 4] {
    ["read_depth", "write_depth", "discard_depth", "other_depth"].map(|name| {
        match host.queue.scheduler().tunable(name) {
            Some(Value::Count(n)) => n,
            other => panic!("{name} is {other:?}"),
        }
    })
}

#[test]
fn a_submission_joins_one_of_the_eight_youngest_staged_requests() {
    let mut host = Host::new();
    for n in 0..10 {
        host.submit_at(Op::Read, n * 1000, true);
    }
    host.submit_at(Op::Read, 1008, true);
    assert_eq!(host.queue.queued(), 11, "the ninth youngest is not compared");
    for start in [3008, 9008] {
        host.submit_at(Op::Read, start, true);
        assert_eq!(host.queue.queued(), 11, "the eighth youngest grew, and then the second");
    }
    let Step::Dispatch(ticket) = host.queue.next(host.now, None) else { panic!("nothing dispatched") };
    host.device.push(ticket);
    host.submit_at(Op::Read, 9016, true);
    assert_eq!(host.queue.queued(), 11, "the first dispatch closed all of them to merges");
}

#[test]
fn kyber_never_waits_for_a_process() {
    let loads: Vec<_> = (1..=4).map(reader).collect();
    let options = Options { depth: 31, ..Options::default() };
    let disk =
        Disk::in_order(
            |head, request| {
                if request.start == head { Span::from_micros(200) } else { Span::from_millis(12) }
            },
        );
    let served = run(Box::new(Kyber::new(256)), options, disk, &loads, Span::from_secs(5)).served;
    let sectors: u64 = served.iter().map(|s| s.sectors).sum();
    assert!((3_000..3_600).contains(&sectors), "each read of 4 KiB needs a seek: {sectors} sectors in 5 s");
}
