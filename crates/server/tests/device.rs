//! The device without a thread: the tests pass all times.

mod common;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use common::Random;
use disks::Fixed;
use elevator::check::Checker;
use elevator::queue::{Barriers, Cache, Event, Observer, Options, Plugging, Queue, SwitchMode};
use elevator::{Flags, Op, Scheduler, Sector, Sectors, Span, Time};
use rustix::io::Errno;
use schedulers::{Environment, Spec};
use server::backend::{Backend, Done, Emulated, Geometry, Job, Medium, Memory, Nature, Nothing, Payload};
use server::{Answer, Device, Failure, FrontEndEvent, NewOperation, Watch};

fn scheduler(name: &str) -> Box<dyn Scheduler> {
    Spec::parse(name).unwrap().build(&Environment::default()).unwrap()
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Checker>>);

impl Observer for Shared {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        self.0.lock().unwrap().event(now, event);
    }
}

/// A device with a checker, whose plug is not used.
fn device(name: &str, backend: Box<dyn Backend>) -> (Device, Shared) {
    let geometry = backend.geometry();
    let options = Options {
        depth: geometry.depth,
        cache: geometry.cache,
        barriers: geometry.barriers,
        plugging: Plugging::Task { most: 32 },
        ..Options::default()
    };
    let shared = Shared(Arc::new(Mutex::new(Checker::new(&options))));
    let observer: Box<dyn Observer + Send> = Box::new(shared.clone());
    let watch = Watch::new(Some(observer));
    (Device::new(Queue::observed(options, scheduler(name), watch), backend), shared)
}

fn submit(device: &mut Device, now: Time, cookie: u64, op: Op, start: u64, sectors: u32) {
    let payload = match op {
        Op::Read | Op::Write => {
            let mut buffer = device.pool.take(sectors as usize * 512);
            buffer.fill(cookie as u8);
            Payload::Data(buffer)
        }
        _ => Payload::None,
    };
    let (start, sectors) = (Sector(start), Sectors(sectors));
    let operation =
        NewOperation { cookie, op, start, sectors, flags: Flags::default(), process: None, payload };
    let _ = device.submit(now, 0, operation);
}

fn answers(device: &mut Device) -> Vec<Answer> {
    let now = device.now();
    std::iter::from_fn(|| device.next_event(now))
        .filter_map(|event| match event {
            FrontEndEvent::Answer(answer) => Some(answer),
            FrontEndEvent::Woken(_) => None,
        })
        .collect()
}

fn write_through() -> Nature {
    Nature { cache: Cache::WriteThrough, ..Nature::default() }
}

/// The sectors of each request as the scheduler receives it.
#[derive(Clone, Default)]
struct Inserted(Arc<Mutex<Vec<Sectors>>>);

impl Observer for Inserted {
    fn event(&mut self, _now: Time, event: &Event<'_>) {
        if let Event::Inserted(request) = event {
            self.0.lock().unwrap().push(request.sectors);
        }
    }
}

#[test]
fn operations_of_a_batch_are_merged_before_the_scheduler_receives_them() {
    for (plugged, expected) in [(true, &[Sectors(32)][..]), (false, &[Sectors(8)])] {
        let inserted = Inserted::default();
        let watch = Watch::new(Some(Box::new(inserted.clone())));
        let options = Options { depth: 1, plugging: Plugging::Task { most: 32 }, ..Options::default() };
        let queue = Queue::observed(options, scheduler("noop"), watch);
        let mut device = Device::new(queue, Box::new(Memory::new(1 << 20, 1)));
        if plugged {
            device.plug();
        }
        (0..4).for_each(|cookie| submit(&mut device, Time::ZERO, cookie, Op::Write, cookie * 8, 8));
        device.unplug();
        assert_eq!(*inserted.0.lock().unwrap(), expected);
    }
}

/// Memory with one bad sector.
struct Bad {
    memory: Memory,
    sector: u64,
    done: VecDeque<Job>,
}

impl Backend for Bad {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn start(&mut self, now: Time, job: Job) {
        let end = job.start.0 + u64::from(job.sectors.0);
        if (job.start.0..end).contains(&self.sector) {
            self.done.push_back(job);
        } else {
            self.memory.start(now, job);
        }
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        let bad = self.done.pop_front().map(|job| Done { job, at: now, result: Err(Errno::IO) });
        bad.or_else(|| self.memory.poll(now))
    }

    fn describe(&self) -> String {
        "bad".to_string()
    }
}

#[test]
fn a_bad_sector_fails_only_its_operation_and_not_those_merged_with_it() {
    let memory = Memory::new(1 << 20, 4);
    let (mut device, checker) =
        device("deadline", Box::new(Bad { memory, sector: 20, done: VecDeque::new() }));
    device.plug();
    for cookie in 0..8 {
        submit(&mut device, Time::ZERO, cookie, Op::Write, cookie * 8, 8);
    }
    device.unplug();
    device.advance(Time::ZERO);
    let failed: Vec<(u64, Errno)> =
        answers(&mut device).iter().filter_map(|a| a.result.err().map(|error| (a.cookie, error))).collect();
    assert_eq!(failed, [(2, Errno::IO)]);
    assert_eq!(device.statistics().salvaged, 1, "the operations were one request");
    let failure = Failure { op: Op::Write, start: Sector(16), sectors: Sectors(8), error: Errno::IO };
    assert_eq!((device.failure(), device.failure()), (Some(failure), None));
    for cookie in (0..8).filter(|&cookie| cookie != 2) {
        submit(&mut device, Time::ZERO, cookie, Op::Read, cookie * 8, 8);
        device.advance(Time::ZERO);
        match &answers(&mut device)[..] {
            [Answer { result: Ok(()), payload: Payload::Data(data), .. }] => {
                assert!(data.iter().all(|&byte| byte == cookie as u8), "the others' data was written");
            }
            _ => panic!("one answer"),
        }
    }
    checker.0.lock().unwrap().finish();
    assert_eq!(checker.0.lock().unwrap().violations(), [] as [String; 0]);
}

#[test]
fn an_emulated_drive_reports_errors_of_its_store() {
    let memory = Memory::new(1 << 20, 4);
    let store = Box::new(Bad { memory, sector: 20, done: VecDeque::new() });
    let drive = Box::new(Fixed::new(1 << 20, 4, Span::from_millis(1)));
    let backend = Emulated::new(drive, store, write_through()).unwrap();
    let (mut device, _) = device("noop", Box::new(backend));
    for cookie in 0..4 {
        submit(&mut device, Time::ZERO, cookie, Op::Write, cookie * 16, 8);
    }
    device.advance(Time::ZERO);
    device.advance(Time::ZERO + Span::from_millis(10));
    let results: Vec<_> = answers(&mut device).iter().map(|answer| (answer.cookie, answer.result)).collect();
    assert_eq!(results, [(0, Ok(())), (1, Err(Errno::IO)), (2, Ok(())), (3, Ok(()))]);
}

/// Memory that keeps the first job until it is let go.
struct Stuck {
    memory: Memory,
    has_kept: bool,
    kept: Option<Job>,
    let_go: Arc<AtomicBool>,
}

impl Backend for Stuck {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn start(&mut self, now: Time, job: Job) {
        if self.has_kept {
            self.memory.start(now, job);
        } else {
            (self.has_kept, self.kept) = (true, Some(job));
        }
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        if let Some(job) = self.kept.take_if(|_| self.let_go.load(Relaxed)) {
            self.memory.start(now, job);
        }
        self.memory.poll(now)
    }

    fn describe(&self) -> String {
        "stuck".to_string()
    }
}

/// Until the back end returns a request that was failed, only writes to the sectors of a failed write fail: the late one could replace them.
#[test]
fn an_overdue_request_fails_later_writes_to_its_sectors_and_nothing_else() {
    let limit = Span::from_secs(5);
    for (op, overwritten) in [(Op::Write, Err(Errno::IO)), (Op::Read, Ok(()))] {
        let let_go = Arc::new(AtomicBool::new(false));
        let backend =
            Stuck { memory: Memory::new(1 << 20, 8), has_kept: false, kept: None, let_go: let_go.clone() };
        let (mut device, checker) = device("noop", Box::new(backend));
        submit(&mut device, Time::ZERO, 0, op, 8, 8);
        device.advance(Time::ZERO);
        assert_eq!(device.expire(Time::ZERO + Span::from_secs(4), limit), None);
        let now = Time::ZERO + limit;
        let first = Failure { op, start: Sector(8), sectors: Sectors(8), error: Errno::TIMEDOUT };
        let overdue = device.expire(now, limit).expect("it is overdue");
        assert_eq!((overdue.first, overdue.count, device.unreturned()), (first, 1, 1));
        assert_eq!(device.expire(now, limit), None, "it was failed already");
        let result = |device: &mut Device, op, start| {
            submit(device, now, 1, op, start, 8);
            device.advance(now);
            let [answer] = answers(device).try_into().ok().expect("one answer");
            answer.result
        };
        device.advance(now);
        assert_eq!(answers(&mut device)[0].result, Err(Errno::IO));
        for (start, written) in [(0, Ok(())), (4, overwritten), (12, overwritten), (16, Ok(()))] {
            assert_eq!(result(&mut device, Op::Write, start), written, "{start}");
            assert_eq!(result(&mut device, Op::Read, start), Ok(()), "{start}");
        }
        let_go.store(true, Relaxed);
        device.advance(now);
        assert_eq!((device.unreturned(), answers(&mut device).len()), (0, 0));
        assert_eq!(result(&mut device, Op::Write, 4), Ok(()));
        checker.0.lock().unwrap().finish();
        assert_eq!(checker.0.lock().unwrap().violations(), [] as [String; 0]);
    }
}

/// The model serves consecutive requests without a gap, however late the host polls.
#[test]
fn lateness_never_accumulates() {
    const SERVICE: Span = Span::from_millis(1);
    for depth in [1, 4, 31] {
        let drive = Fixed::new(1 << 30, depth, SERVICE);
        let store = Nothing::new(1 << 30, depth);
        let backend = Emulated::new(Box::new(drive), Box::new(store), write_through()).unwrap();
        let (mut device, checker) = device("noop", Box::new(backend));
        let mut random = Random(7);
        for cookie in 0..100 {
            submit(&mut device, Time::ZERO, cookie, Op::Read, random.below(1 << 20), 8);
        }
        let (mut now, mut answered) = (Time::ZERO, 0);
        device.advance(now);
        while answered < 100 {
            // The host polls some hundred microseconds late each time.
            let (event, _) = device.due();
            now = event.unwrap().max(now) + Span::from_micros(1 + random.below(900));
            device.advance(now);
            answered += answers(&mut device).len();
            device.answered(now, true);
        }
        let late = now.since(Time::ZERO + SERVICE * 100);
        assert!(late < SERVICE, "depth {depth}: the hundredth request was {late} late");
        assert!(device.statistics().lateness.summary().max_ns < 2_000_000);
        checker.0.lock().unwrap().finish();
        assert_eq!(checker.0.lock().unwrap().violations(), [] as [String; 0]);
    }
}

/// While a switch drains the queue, the device reports for how long. A round reports whether operations were answered.
#[test]
fn a_draining_switch_has_a_duration_and_a_round_knows_of_answers() {
    let drive = Fixed::new(1 << 30, 1, Span::from_millis(1));
    let backend =
        Emulated::new(Box::new(drive), Box::new(Nothing::new(1 << 30, 1)), write_through()).unwrap();
    let (mut device, _) = device("noop", Box::new(backend));
    let at = |micros| Time::ZERO + Span::from_micros(micros);
    for cookie in 0..2 {
        submit(&mut device, at(0), cookie, Op::Read, cookie << 20, 8);
    }
    device.advance(at(0));
    assert_eq!((device.draining_for(), device.answered(at(0), true)), (None, false));
    assert!(device.switch(at(100), scheduler("deadline"), SwitchMode::Drain).is_none());
    device.advance(at(1000));
    assert_eq!(device.draining_for(), Some(Span::from_micros(900)));
    assert_eq!(answers(&mut device).len(), 1);
    assert!(device.answered(at(1000), true));
    assert!(!device.answered(at(1000), true), "only the answers since the last round");
    device.advance(at(2000));
    assert_eq!((answers(&mut device).len(), device.draining_for()), (1, None));
}

/// Writes, discards, flushes and switches of schedulers, compared with a plain array.
#[test]
fn reads_return_written_data_under_every_scheduler_and_during_switches() {
    const SECTORS: u64 = 2048;
    let names = ["noop", "deadline", "stream(deadline)", "bfq", "kyber", "look", "sstf", "c-scan"];
    for seed in 1..=8u64 {
        let drive = Fixed::new(SECTORS * 512, 8, Span::from_micros(100));
        let store = Memory::new(SECTORS * 512, 8);
        let nature = Nature {
            barriers: if seed % 2 == 0 { Barriers::Completed } else { Barriers::Alone },
            ..Nature::default()
        };
        let backend = Emulated::new(Box::new(drive), Box::new(store), nature).unwrap();
        let (mut device, checker) = device(names[seed as usize % names.len()], Box::new(backend));
        let mut random = Random(seed);
        let mut model = vec![0u8; SECTORS as usize];
        let mut now = Time::ZERO;
        for round in 0..2000 {
            // One stripe for each operation of a round, because overlapping operations in flight have no order.
            device.plug();
            let operations: Vec<(Op, u64, u32, u8)> = (0..1 + random.below(16))
                .map(|stripe| {
                    let op = [Op::Read, Op::Read, Op::Write, Op::Write, Op::Discard, Op::Flush]
                        [random.below(6) as usize];
                    let length = 1 + random.below(64) as u32;
                    let start = stripe * 128 + random.below(128 - u64::from(length));
                    (op, start, length, random.next() as u8)
                })
                .collect();
            for (cookie, &(op, start, sectors, fill)) in operations.iter().enumerate() {
                let (start, sectors) = if op == Op::Flush { (0, 0) } else { (start, sectors) };
                let payload = match op {
                    Op::Read | Op::Write => {
                        let mut buffer = device.pool.take(sectors as usize * 512);
                        buffer.fill(if op == Op::Write { fill } else { !fill });
                        Payload::Data(buffer)
                    }
                    _ => Payload::None,
                };
                let flags = Flags { fua: op == Op::Write && random.below(8) == 0, ..Flags::default() };
                let (start, sectors) = (Sector(start), Sectors(sectors));
                let _ = device.submit(
                    now,
                    0,
                    NewOperation { cookie: cookie as u64, op, start, sectors, flags, process: None, payload },
                );
            }
            device.unplug();
            if random.below(10) == 0 {
                let name = names[random.below(names.len() as u64) as usize];
                let mode = if random.below(2) == 0 { SwitchMode::Transfer } else { SwitchMode::Drain };
                let _ = device.switch(now, scheduler(name), mode);
            }
            let mut left = operations.len();
            device.advance(now);
            while left > 0 {
                for answer in answers(&mut device) {
                    left -= 1;
                    let (op, start, sectors, fill) = operations[answer.cookie as usize];
                    let part = &mut model[start as usize..start as usize + sectors as usize];
                    assert_eq!(answer.result, Ok(()));
                    match (op, &answer.payload) {
                        (Op::Read, Payload::Data(data)) => {
                            let read: Vec<u8> = data.chunks(512).map(|sector| sector[0]).collect();
                            assert_eq!(read, part, "seed {seed}, round {round}, {start}+{sectors}");
                        }
                        (Op::Write, _) => part.fill(fill),
                        (Op::Discard, _) => part.fill(0),
                        _ => {}
                    }
                    if let Payload::Data(buffer) = answer.payload {
                        device.pool.put(buffer);
                    }
                }
                let (event, held) = device.due();
                let Some(due) = [event, held].into_iter().flatten().min() else { continue };
                now = now.max(due);
                device.advance(now);
            }
        }
        checker.0.lock().unwrap().finish();
        assert_eq!(checker.0.lock().unwrap().violations(), [] as [String; 0], "seed {seed}");
    }
}

/// Memory with a cache that cannot be flushed and without forced unit access.
struct Unflushable(Memory, VecDeque<Job>);

impl Backend for Unflushable {
    fn geometry(&self) -> Geometry {
        Geometry { cache: Cache::WriteBack { fua: false }, ..self.0.geometry() }
    }

    fn start(&mut self, now: Time, job: Job) {
        if job.op == Op::Flush { self.1.push_back(job) } else { self.0.start(now, job) }
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        let flush = self.1.pop_front().map(|job| Done { job, at: now, result: Err(Errno::IO) });
        flush.or_else(|| self.0.poll(now))
    }

    fn describe(&self) -> String {
        "memory that cannot be flushed".to_string()
    }
}

#[test]
fn a_durable_write_fails_with_its_flush() {
    let backend = Unflushable(Memory::new(1 << 20, 4), VecDeque::new());
    let (mut device, _) = device("deadline", Box::new(backend));
    let fua = Flags { fua: true, ..Flags::default() };
    let preflush = Flags { preflush: true, ..Flags::default() };
    for (cookie, flags) in [Flags::default(), fua, preflush].into_iter().enumerate() {
        let payload = Payload::Data(device.pool.take(4096));
        let (start, sectors) = (Sector(cookie as u64 * 64), Sectors(8));
        let cookie = cookie as u64;
        let _ = device.submit(
            Time::ZERO,
            0,
            NewOperation { cookie, op: Op::Write, start, sectors, flags, process: None, payload },
        );
    }
    device.advance(Time::ZERO);
    let mut results: Vec<_> = answers(&mut device).iter().map(|a| (a.cookie, a.result)).collect();
    results.sort_unstable_by_key(|&(cookie, _)| cookie);
    assert_eq!(results, [(0, Ok(())), (1, Err(Errno::IO)), (2, Err(Errno::IO))]);
}

/// Panics at the first poll.
struct Breaking(Memory);

impl Backend for Breaking {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn start(&mut self, now: Time, job: Job) {
        self.0.start(now, job);
    }

    fn poll(&mut self, _now: Time) -> Option<Done> {
        panic!("a fault in the server itself")
    }

    fn describe(&self) -> String {
        "breaking".to_string()
    }
}

#[test]
fn a_panic_in_the_devices_thread_ends_the_server() {
    use server::Configuration;
    let backend = || Ok(Box::new(Breaking(Memory::new(1 << 20, 4))) as Box<dyn Backend>);
    let server =
        server::start(Configuration::new(backend, "noop", Arc::new(|name| Ok(scheduler(name))))).unwrap();
    assert!(server.state().is_err());
    let (ended, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(server.wait().is_err()));
    assert_eq!(waiting.recv_timeout(std::time::Duration::from_secs(60)), Ok(true), "it waits for ever");
}

/// Memory that reports a block device below it, which the test can remove.
struct Pulled(Memory, PathBuf);

impl Backend for Pulled {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn start(&mut self, now: Time, job: Job) {
        self.0.start(now, job);
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        self.0.poll(now)
    }

    fn medium(&self) -> Option<Medium> {
        Some(Medium { node: "/dev/sdx".into(), sysfs: self.1.clone() })
    }

    fn describe(&self) -> String {
        "pulled".to_string()
    }
}

#[test]
fn a_removed_block_device_ends_its_server() {
    use server::{Configuration, ServeError};
    let sysfs = std::env::temp_dir().join(format!("dwell-pulled-{}", std::process::id()));
    std::fs::create_dir(&sysfs).unwrap();
    let place = sysfs.clone();
    let backend = || Ok(Box::new(Pulled(Memory::new(1 << 20, 4), place)) as Box<dyn Backend>);
    let server =
        server::start(Configuration::new(backend, "noop", Arc::new(|name| Ok(scheduler(name))))).unwrap();
    let (ended, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(server.wait().err()));
    assert!(waiting.recv_timeout(std::time::Duration::from_millis(1500)).is_err(), "it is there");
    std::fs::remove_dir(sysfs).unwrap();
    let ended = waiting.recv_timeout(std::time::Duration::from_secs(60)).expect("it serves nothing for ever");
    assert!(matches!(&ended, Some(ServeError::Gone(node)) if node.ends_with("sdx")), "{ended:?}");
}
