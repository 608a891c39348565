//! The queue's calls of its scheduler, and the sleep of submitters.

mod common;

use std::sync::{Arc, Mutex};

use common::Fifo;
use dwell_elevator::queue::{
    Accepted, Cache, Event, Identity, Limits, Notice, Observer, Options, Plugging, Queue, Step, Submission,
    SwitchMode, SyncWrites, Ticket, Token,
};
use dwell_elevator::{
    Admission, Capabilities, CauseSet, Decision, Direction, Growth, Hold, HoldReason, Op, Outcome, Process,
    Request, Scheduler, Sector, Sectors, Side, Span, Time, View, Wake,
};

/// First come, first served, with a record of calls that the test shares.
#[derive(Default)]
struct Listening {
    fifo: Fifo,
    record: Arc<Record>,
}

/// A value that a scheduler and its test share.
#[derive(Default)]
struct Shared<T>(Mutex<T>);

impl<T: Copy> Shared<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    fn get(&self) -> T {
        *self.0.lock().unwrap()
    }

    fn set(&self, value: T) {
        *self.0.lock().unwrap() = value;
    }
}

/// The calls of a scheduler, and its prepared results.
struct Record {
    inserted: Mutex<Vec<Request>>,
    completed: Mutex<Vec<u64>>,
    exited: Shared<u32>,
    /// Flushes that began (`true`) and ended.
    flushes: Mutex<Vec<bool>>,
    /// The end of the last dispatched request at the last call of `next`.
    head: Shared<Option<Sector>>,
    leave: Shared<Admission>,
    may_merge: Shared<bool>,
    holds: Shared<bool>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            inserted: Mutex::default(),
            completed: Mutex::default(),
            exited: Shared::default(),
            flushes: Mutex::default(),
            head: Shared::default(),
            leave: Shared::new(Admission::ByLimit),
            may_merge: Shared::new(true),
            holds: Shared::new(false),
        }
    }
}

impl Scheduler for Listening {
    fn insert(&mut self, now: Time, request: &Request) {
        self.record.inserted.lock().unwrap().push(*request);
        self.fifo.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.record.inserted.lock().unwrap().push(*request);
        self.fifo.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.record.head.set(view.device.last_dispatched.map(|last| last.end));
        if self.record.holds.get() {
            let until = Some(now.max(ms(1)) + Span::from_millis(1));
            return Decision::Hold(Hold { until, wake: Wake::Timer, reason: HoldReason::AwaitProcess });
        }
        self.fifo.next(now, view)
    }

    fn completed(&mut self, _now: Time, request: &Request, _outcome: Outcome) {
        self.record.completed.lock().unwrap().push(request.start.0);
    }

    fn flushing(&mut self, _now: Time) {
        self.record.flushes.lock().unwrap().push(true);
    }

    fn flushed(&mut self, _now: Time) {
        self.record.flushes.lock().unwrap().push(false);
    }

    fn exited(&mut self, _now: Time, _process: Process) {
        self.record.exited.set(self.record.exited.get() + 1);
    }

    fn may_queue(
        &self,
        _now: Time,
        _process: Option<Process>,
        _direction: Direction,
        _sync: bool,
    ) -> Admission {
        self.record.leave.get()
    }

    fn may_merge(&self, _request: &Request, _addition: &Request, _side: Side) -> bool {
        self.record.may_merge.get()
    }
}

impl Capabilities for Listening {}

/// Counts reported waits.
#[derive(Default)]
struct Waits(u32);

impl Observer for Waits {
    fn event(&mut self, _now: Time, event: &Event<'_>) {
        self.0 += u32::from(matches!(event, Event::Held { .. }));
    }
}

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// A queue, and the record of its scheduler's calls.
struct Host {
    queue: Queue<Waits>,
    record: Arc<Record>,
    now: Time,
}

impl Host {
    fn new(options: Options) -> Self {
        let scheduler = Listening::default();
        let record = Arc::clone(&scheduler.record);
        let options = Options { plugging: Plugging::None, ..options };
        Self {
            queue: Queue::observed(options, Box::new(scheduler), Waits::default()),
            record,
            now: Time::ZERO,
        }
    }

    fn limited(nr_requests: u32, batch_requests: u32) -> Self {
        let limits = Limits { nr_requests, batch_requests, batch_time: Span::from_millis(20) };
        Self::new(Options { limits, depth: 1, ..Options::default() })
    }

    /// A read of 8 sectors by a process; its first sector is its token.
    fn read(&mut self, process: u32, start: u64) -> Accepted {
        let mut read = Submission::new(Token(start), Op::Read, Sector(start), Sectors(8));
        read.process = Some(Process::single(process));
        self.queue.submit(self.now, read)
    }

    /// Submits distant reads from `first` on; returns the number of reads before the submitter has to sleep.
    fn reads_until_asleep(&mut self, process: u32, first: u64) -> u64 {
        (0..100).find(|n| self.read(process, first + n * 100) == Accepted::Asleep).expect("asleep at last")
    }

    fn dispatch(&mut self) -> Ticket {
        match self.queue.next(self.now, None) {
            Step::Dispatch(ticket) => ticket,
            other => panic!("expected a dispatch, got {other:?}"),
        }
    }

    fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.queue.complete(self.now, ticket, outcome);
    }

    /// Serves one request; returns its position and length.
    fn serve(&mut self) -> (u64, u32) {
        let ticket = self.dispatch();
        let request = *self.queue.request(&ticket);
        self.complete(ticket, Outcome::Done);
        (request.start.0, request.sectors.0)
    }

    fn woken(&mut self) -> Vec<u64> {
        let notices = std::iter::from_fn(|| self.queue.notice());
        let woken = notices.filter_map(|notice| match notice {
            Notice::Woken(token) => Some(token.0),
            Notice::Finished(_) => None,
        });
        woken.collect()
    }
}

#[test]
fn only_a_woken_submitter_may_add_a_batch() {
    let mut host = Host::limited(8, 2);
    assert_eq!(host.reads_until_asleep(1, 0), 8);
    host.serve();
    assert_eq!(host.woken(), [800]);
    assert_eq!(host.read(2, 90_000), Accepted::Asleep, "somebody else");
    assert_eq!(host.reads_until_asleep(1, 10_000), 2, "two more than the limit allows");
}

#[test]
fn a_batch_ends_with_its_time_and_at_half_as_many_again() {
    for (after, batch, most) in [(20, 1, 1), (21, 1, 0), (0, 100, 4)] {
        let mut host = Host::limited(8, batch);
        assert_eq!(host.reads_until_asleep(1, 0), 8);
        host.serve();
        host.now = ms(after);
        assert_eq!(host.reads_until_asleep(1, 10_000), most, "{after} ms after, {batch} at a time");
    }
}

#[test]
fn a_scheduler_may_admit_beyond_the_limit_but_not_beyond_the_hard_limit() {
    let mut host = Host::limited(8, 0);
    host.record.leave.set(Admission::Must);
    assert_eq!(host.reads_until_asleep(1, 0), 12);
    host.serve();
    assert_eq!(host.woken(), [1_200], "a sleeper continues below the hard limit");
}

#[test]
fn a_scheduler_may_refuse_below_the_limit_but_not_all_submitters() {
    let mut host = Host::limited(8, 0);
    host.record.leave.set(Admission::No);
    assert_eq!(host.read(1, 0), Accepted::Queued, "without another request no completion would wake it");
    assert_eq!(host.read(1, 100), Accepted::Asleep);
    assert_eq!(host.read(1, 200), Accepted::Asleep);
    host.serve();
    assert_eq!(host.woken(), [100], "one submitter at a time");
    host.serve();
    assert_eq!(host.woken(), [200]);
}

#[test]
fn no_submitter_passes_a_sleeping_one() {
    let mut host = Host::limited(8, 0);
    host.record.leave.set(Admission::No);
    assert_eq!([0, 100].map(|start| host.read(1, start)), [Accepted::Queued, Accepted::Asleep]);
    host.record.leave.set(Admission::ByLimit);
    assert_eq!(host.read(2, 200), Accepted::Asleep, "although there is room");
    host.serve();
    assert_eq!(host.woken(), [100, 200]);
}

#[test]
fn an_absorbed_request_makes_room_for_a_sleeper() {
    let mut host = Host::limited(2, 0);
    let accepted = [0, 16, 900].map(|start| host.read(1, start));
    assert_eq!(accepted, [Accepted::Queued, Accepted::Queued, Accepted::Asleep]);
    assert_eq!(host.read(1, 8), Accepted::Queued);
    assert_eq!(host.woken(), [900]);
    assert_eq!([host.serve(), host.serve()], [(0, 24), (900, 8)]);
}

#[test]
fn a_woken_submission_merges_with_a_neighbour_queued_meanwhile() {
    let mut host = Host::limited(2, 0);
    for start in [100, 200, 300, 308] {
        let _ = host.read(1, start);
    }
    assert_eq!([host.serve(), host.serve(), host.serve()], [(100, 8), (200, 8), (300, 16)]);
}

#[test]
fn schedulers_and_causes_keep_neighbours_apart() {
    let mut host = Host::new(Options::default());
    host.record.may_merge.set(false);
    let _ = [0, 8].map(|start| host.read(1, start));
    assert_eq!(host.queue.queued(), 2);
    host.record.may_merge.set(true);
    let caused = |start, cause| {
        let mut read = Submission::new(Token(start), Op::Read, Sector(start), Sectors(8));
        read.causes = Some(CauseSet(cause));
        read
    };
    for (read, queued) in [(caused(100, 1), 3), (caused(108, 2), 4), (caused(116, 2), 4)] {
        let _ = host.queue.submit(host.now, read);
        assert_eq!(host.queue.queued(), queued);
    }
}

#[test]
fn a_request_is_joined_at_its_back_first_and_is_as_old_as_its_oldest_part() {
    let mut host = Host::limited(8, 0);
    let old = host.read(1, 16);
    host.now = ms(5);
    let _ = [old, host.read(1, 0)];
    host.record.may_merge.set(true);
    let _ = host.read(1, 8);
    let last = *host.record.inserted.lock().unwrap().last().unwrap();
    assert_eq!(
        (last.start, last.arrived),
        (Sector(0), Time::ZERO),
        "0..8 grew at its back and absorbed 16..24"
    );
    assert_eq!(last.serial, 1);
}

#[test]
fn completions_are_reported_to_the_scheduler_that_dispatched() {
    let mut host = Host::new(Options { depth: 2, ..Options::default() });
    let _ = [0, 100].map(|start| host.read(1, start));
    let [first, second] = [host.dispatch(), host.dispatch()];
    host.complete(first, Outcome::GivenBack);
    let again = host.dispatch();
    host.complete(again, Outcome::Done);
    assert_eq!(*host.record.completed.lock().unwrap(), [0], "the queue itself repeats the returned requests");
    let successor = Listening::default();
    let record = Arc::clone(&successor.record);
    host.queue.switch(host.now, Box::new(successor), SwitchMode::Transfer).expect("at once");
    host.complete(second, Outcome::Done);
    assert_eq!((host.record.completed.lock().unwrap().len(), record.completed.lock().unwrap().len()), (1, 0));
}

#[test]
fn given_back_requests_are_repeated_in_their_order() {
    let mut host = Host::new(Options { depth: 3, ..Options::default() });
    let _ = [0, 100, 200].map(|start| host.read(1, start));
    let tickets = [host.dispatch(), host.dispatch(), host.dispatch()];
    for ticket in tickets {
        host.complete(ticket, Outcome::GivenBack);
    }
    assert_eq!([host.serve().0, host.serve().0, host.serve().0], [0, 100, 200]);
}

#[test]
fn a_switch_hands_over_in_the_order_of_arrival_and_the_last_one_ordered_stays() {
    let mut host = Host::new(Options { depth: 1, ..Options::default() });
    let _ = [0, 100].map(|start| host.read(1, start));
    host.serve();
    let _ = [200, 300].map(|start| host.read(1, start)); // 200 has the id that 0 had
    let successor = Listening::default();
    let record = Arc::clone(&successor.record);
    host.queue.switch(host.now, Box::new(successor), SwitchMode::Transfer).expect("at once");
    let starts: Vec<u64> = record.inserted.lock().unwrap().iter().map(|request| request.start.0).collect();
    assert_eq!(starts, [100, 200, 300]);
    let drained: Vec<Arc<Record>> = (0..2)
        .map(|_| {
            let next = Listening::default();
            let record = Arc::clone(&next.record);
            assert_eq!(host.queue.switch(host.now, Box::new(next), SwitchMode::Drain), None);
            record
        })
        .collect();
    let _ = host.read(1, 400);
    for _ in 0..4 {
        host.serve();
    }
    assert_eq!(
        drained.iter().map(|record| record.inserted.lock().unwrap().len()).collect::<Vec<_>>(),
        [0, 1]
    );
}

#[test]
fn a_failed_write_is_not_made_durable_and_a_flush_moves_no_head() {
    let cache = Cache::WriteBack { fua: false };
    let mut host = Host::new(Options { cache, depth: 1, ..Options::default() });
    let mut write = Submission::new(Token(0), Op::Write, Sector(100), Sectors(8));
    write.flags.fua = true;
    for (outcome, flushed) in [(Outcome::Failed, false), (Outcome::Done, true)] {
        let _ = host.queue.submit(host.now, write);
        let ticket = host.dispatch();
        host.complete(ticket, outcome);
        assert_eq!(host.queue.notice().is_none(), flushed, "{outcome:?}");
    }
    assert_eq!(host.serve(), (0, 0), "the flush");
    assert_eq!(host.queue.next(host.now, None), Step::Idle);
    assert_eq!(host.record.head.get(), Some(Sector(108)));
}

#[test]
fn a_hold_is_reported_once_until_a_dispatch_or_a_different_hold() {
    let mut host = Host::new(Options { depth: 2, ..Options::default() });
    let _ = [0, 100].map(|start| host.read(1, start));
    let waits = |host: &mut Host, holds: bool| {
        host.record.holds.set(holds);
        let step = host.queue.next(host.now, None);
        assert_eq!(matches!(step, Step::Wait(_)), holds);
        host.queue.observer().0
    };
    assert_eq!([true, true, false, true].map(|holds| waits(&mut host, holds)), [1, 1, 1, 2]);
    host.now = ms(2);
    assert_eq!(waits(&mut host, true), 3, "until another time");
    let successor = Listening::default();
    host.record = Arc::clone(&successor.record);
    host.queue.switch(host.now, Box::new(successor), SwitchMode::Transfer).expect("at once");
    assert_eq!(waits(&mut host, true), 4, "of another scheduler");
}

#[test]
fn hidden_processes_are_hidden_and_do_not_exit() {
    for (identity, expected, exits) in [
        (Identity::Shown, Some(Process::single(7)), 1),
        (Identity::Hidden, None, 0),
        (Identity::Same, Some(Process::single(1)), 0),
    ] {
        let mut host = Host::new(Options { identity, ..Options::default() });
        let _ = host.read(7, 0);
        host.queue.exited(host.now, Process::single(7));
        assert_eq!(host.record.inserted.lock().unwrap()[0].process, expected, "{identity:?}");
        assert_eq!(host.record.exited.get(), exits, "{identity:?}");
    }
}

#[test]
fn a_scheduler_learns_of_the_flush_that_runs_while_it_is_in_charge() {
    let mut host = Host::new(Options { depth: 2, ..Options::default() });
    let flush = Submission::new(Token(0), Op::Flush, Sector(0), Sectors::ZERO);
    let _ = host.queue.submit(host.now, flush);
    let running = host.dispatch();
    let successor = Listening::default();
    let first = std::mem::replace(&mut host.record, Arc::clone(&successor.record));
    host.queue.switch(host.now, Box::new(successor), SwitchMode::Transfer).expect("at once");
    host.complete(running, Outcome::GivenBack);
    let running = host.dispatch();
    host.complete(running, Outcome::Done);
    assert_eq!(*first.flushes.lock().unwrap(), [true]);
    assert_eq!(*host.record.flushes.lock().unwrap(), [true, false, true, false]);
}

#[test]
fn few_short_writes_at_a_time_are_guessed_to_be_synchronous() {
    let guessing =
        Options { sync_writes: SyncWrites::Guessed, merges: false, depth: 1, ..Options::default() };
    let mut host = Host::new(guessing);
    let write = |host: &mut Host, start: u64, sectors: u32| {
        let mut write = Submission::new(Token(start), Op::Write, Sector(start), Sectors(sectors));
        write.flags.sync = sectors > 128;
        let _ = host.queue.submit(host.now, write);
        host.record.inserted.lock().unwrap().last().unwrap().flags.sync
    };
    assert!(!write(&mut host, 0, 136), "a long one is not, whatever its submission says");
    assert_eq!(
        [1000, 2000, 3000, 4000, 5000].map(|start| write(&mut host, start, 128)),
        [true, true, true, true, false]
    );
    for _ in 0..3 {
        host.serve();
    }
    assert_eq!([6000, 7000].map(|start| write(&mut host, start, 8)), [true, false], "two of five have ended");
}
