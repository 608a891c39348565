//! Tests on the running kernel. They print SKIPPED without root or BPF.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capture::profile::{Load, Plan, Profile};
use capture::topology::{Scheduling, Stack};
use capture::{Arrival, Backend, Batch, Capture, Completed, Error, Options, Source};
use common::{Loop, discard_at_once, queue, read, set, write};
use elevator::{Op, Sector, Sectors};

/// Opens a capture; prints SKIPPED with the reason if that fails.
fn open(device: &Loop, options: &Options) -> Option<Capture> {
    match Capture::open(&device.path, options) {
        Ok(capture) => Some(capture),
        Err(error @ (Error::Permission { .. } | Error::Kernel { .. })) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn bpf() -> Options {
    Options { backend: Some(Backend::Bpf), ..Options::default() }
}

/// Held by tests that check this process's instances in tracefs.
static TRACEFS: Mutex<()> = Mutex::new(());

#[test]
fn tracefs_reports_the_same_and_removes_its_instance() {
    let _alone = TRACEFS.lock();
    let Some(device) = Loop::new(16 << 20) else { return };
    set(&device.path, "scheduler", "none");
    let options = Options { completions: true, backend: Some(Backend::Tracefs), ..Options::default() };
    let Some(mut capture) = open(&device, &options) else { return };
    let file = device.open();
    (0..50).for_each(|page| read(&file, page * 7));
    let mut batch = Batch::default();
    capture.take(&mut batch, Duration::ZERO).unwrap();
    let seen = mine(&batch);
    assert_eq!(seen.len(), 50);
    assert!(seen.iter().zip(0..).all(|(arrival, page)| arrival.start == Sector(page * 56)));
    assert_eq!(batch.completed.iter().filter(|c| seen.contains(&c.arrival)).count(), 50);
    assert_eq!(capture.counts().unwrap().lost, 0);
    drop(capture);
    let own = format!("dwell-{}-", std::process::id());
    let left = std::fs::read_dir("/sys/kernel/tracing/instances").unwrap().flatten();
    assert_eq!(left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count(), 0);
}

/// A process repeatedly reads one position, each read after the completion of the last. Reads in flight at the start of the capture, and lost
/// events, must not shift the assignment of completions.
#[test]
fn tracefs_does_not_confuse_consecutive_reads() {
    let _alone = TRACEFS.lock();
    let Some(device) = Loop::new(1 << 20) else { return };
    let (file, ended) = (device.open(), AtomicBool::new(false));
    let some_are_lost = (1 << 16, Duration::from_millis(300));
    for (ring_bytes, between) in [(16 << 20, Duration::from_millis(50)), some_are_lost] {
        let backend = Some(Backend::Tracefs);
        let options = Options { completions: true, backend, ring_bytes, ..Options::default() };
        let mut batch = Batch::default();
        let capture = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    read(&file, 3);
                }
            });
            let mut capture = open(&device, &options);
            if let Some(capture) = &mut capture {
                for _ in 0..3 {
                    std::thread::sleep(between);
                    capture.take(&mut batch, Duration::ZERO).unwrap();
                }
            }
            ended.store(true, Ordering::Relaxed);
            capture
        });
        let Some(capture) = capture else { return };
        ended.store(false, Ordering::Relaxed);
        let lost = capture.counts().unwrap().lost;
        assert_eq!(lost > 0, (ring_bytes, between) == some_are_lost, "{lost} lost");
        assert!(batch.completed.len() > 100);
        let too_late = |done: &&Completed| {
            let next = batch.arrivals.partition_point(|arrival| arrival.at <= done.arrival.at);
            batch.arrivals.get(next).is_some_and(|next| done.at > next.at)
        };
        let wrong: Vec<_> = batch.completed.iter().filter(too_late).collect();
        // At each gap a completion may be assigned to the previous read; if that shifted all later ones, nearly all would
        // be wrong.
        let most = if lost > 0 { batch.completed.len() / 4 } else { 0 };
        assert!(wrong.len() <= most, "{} of {}: {:?}", wrong.len(), batch.completed.len(), wrong[0]);
    }
}

#[test]
fn a_removed_device_is_distinguished_from_an_idle_one() {
    let Some(device) = Loop::new(1 << 20) else { return };
    let Some(mut capture) = open(&device, &bpf()) else { return };
    let mut batch = Batch::default();
    let patience = Duration::from_millis(100);
    capture.take(&mut batch, patience).unwrap();
    batch.clear();
    capture.take(&mut batch, patience).unwrap();
    drop(device);
    let gone = (0..20).find_map(|_| {
        batch.clear();
        capture.take(&mut batch, patience).err()
    });
    assert!(gone.unwrap().to_string().ends_with("the device was removed"));
}

/// The kernel reuses a loop device's number at once.
#[test]
fn a_later_device_with_the_same_number_is_another_device() {
    let Some(device) = Loop::new(1 << 20) else { return };
    let Some(mut capture) = open(&device, &bpf()) else { return };
    let path = device.path.clone();
    drop(device);
    let another = Loop::new(1 << 20).expect("a loop device, as before");
    if another.path != path {
        return eprintln!("SKIPPED: another process took the loop device");
    }
    let mut batch = Batch::default();
    let gone = (0..20).find_map(|_| {
        read(&another.open(), 3);
        capture.take(&mut batch, Duration::from_millis(10)).err()
    });
    assert!(gone.unwrap().to_string().ends_with("the device was removed"));
}

/// This thread's submissions: other programs (udev) may read the device too.
fn mine(batch: &Batch) -> Vec<Arrival> {
    let task = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    batch.arrivals.iter().filter(|arrival| arrival.process.is_some_and(|p| p.task == task)).copied().collect()
}

#[test]
fn each_submission_is_reported_with_its_task_with_and_without_a_scheduler() {
    let Some(device) = Loop::new(16 << 20) else { return };
    for scheduler in ["none", "mq-deadline"] {
        set(&device.path, "scheduler", scheduler);
        let Some(mut capture) = open(&device, &Options { completions: true, ..bpf() }) else { return };
        let file = device.open();
        (0..50).for_each(|page| read(&file, page * 7));
        write(&file, 3);
        let mut batch = Batch::default();
        capture.take(&mut batch, Duration::ZERO).unwrap();
        let seen = mine(&batch);
        assert_eq!(seen.len(), 51, "under {scheduler}");
        for (page, arrival) in (0..50).zip(&seen) {
            assert_eq!(
                (arrival.op, arrival.start, arrival.sectors),
                (Op::Read, Sector(page * 56), Sectors(8))
            );
        }
        assert_eq!((seen[50].op, seen[50].start, seen[50].flags.sync), (Op::Write, Sector(24), true));
        assert_eq!(seen[0].process.unwrap().group, std::process::id());
        assert!(seen.windows(2).all(|two| two[0].at <= two[1].at));
        let completed = batch.completed.iter().filter(|c| seen.contains(&c.arrival)).count();
        assert_eq!(completed, 51, "under {scheduler}");
        assert!(batch.completed.iter().all(|c| c.at > c.arrival.at && !c.failed));
        let counts = capture.counts().unwrap();
        assert_eq!((counts.skipped, counts.lost), (0, 0));
        assert!(counts.arrived >= 51);
    }
}

#[test]
fn merged_submissions_complete_or_are_counted_as_lost() {
    const BIOS_MAX: usize = 2048;
    let Some(device) = Loop::new(16 << 20) else { return };
    set(&device.path, "scheduler", "none");
    let options = Options { completions: true, rate_max: None, ..bpf() };
    let requests = || {
        let node = device.path.file_name().unwrap().to_str().unwrap();
        let stat = std::fs::read_to_string(format!("/sys/block/{node}/stat")).unwrap();
        stat.split_whitespace().nth(11).map_or(0, |discards| discards.parse::<u64>().unwrap())
    };
    for blocks in [BIOS_MAX, 2 * BIOS_MAX] {
        let Some(mut capture) = open(&device, &options) else { return };
        let before = requests();
        if !discard_at_once(&device.open(), blocks as u32) || requests() != before + 1 {
            return eprintln!("SKIPPED: this kernel does not merge {blocks} discards into one request");
        }
        let mut batch = Batch::default();
        capture.take(&mut batch, Duration::ZERO).unwrap();
        let discard =
            |done: &&Completed| done.arrival.op == Op::Discard && done.arrival.sectors == Sectors(8);
        let (back, lost) =
            (batch.completed.iter().filter(discard).count(), capture.counts().unwrap().ends_lost);
        assert_eq!((back, lost), (BIOS_MAX, (blocks - BIOS_MAX) as u64), "{blocks} blocks");
    }
}

#[test]
fn other_devices_are_not_reported() {
    let (Some(device), Some(other)) = (Loop::new(1 << 20), Loop::new(1 << 20)) else { return };
    let Some(mut capture) = open(&device, &bpf()) else { return };
    let file = other.open();
    (0..50).for_each(|page| read(&file, page));
    let mut batch = Batch::default();
    capture.take(&mut batch, Duration::ZERO).unwrap();
    assert_eq!(mine(&batch), []);
}

#[test]
fn above_the_rate_bursts_are_reported_completely_and_the_rest_is_counted() {
    let Some(device) = Loop::new(16 << 20) else { return };
    let Some(mut capture) = open(&device, &Options { rate_max: Some(100), ..bpf() }) else { return };
    let file = device.open();
    (0..2_000).for_each(|page| read(&file, page));
    let mut batch = Batch::default();
    capture.take(&mut batch, Duration::ZERO).unwrap();
    let counts = capture.counts().unwrap();
    assert!(counts.skipped > 0 && counts.lost == 0, "{counts:?}");
    assert_eq!(counts.arrived - counts.skipped, batch.arrivals.len() as u64);
    let seen = mine(&batch);
    let in_sequence = seen.windows(2).filter(|two| two[1].start == two[0].start + Sectors(8)).count();
    // A sequence breaks at the end of a burst, and when the reader moves to another processor, which has bursts of its own.
    assert!(in_sequence * 2 >= seen.len() - 1, "{in_sequence} of {}", seen.len());
}

/// Also submissions in flight when the rate is exceeded, and when it is no longer exceeded.
#[test]
fn above_the_rate_reported_submissions_complete() {
    let Some(device) = Loop::new(16 << 20) else { return };
    let options = Options { completions: true, rate_max: Some(100), ..bpf() };
    let Some(mut capture) = open(&device, &options) else { return };
    let file = device.open();
    let mut batch = Batch::default();
    for _ in 0..8 {
        if !discard_at_once(&file, 256) {
            return eprintln!("SKIPPED: this kernel does not support asynchronous discards");
        }
        std::thread::sleep(Duration::from_millis(40));
        capture.take(&mut batch, Duration::ZERO).unwrap();
    }
    let discards = |arrival: &&Arrival| arrival.op == Op::Discard;
    let asked = batch.arrivals.iter().filter(discards).count();
    let back = batch.completed.iter().map(|done| &done.arrival).filter(discards).count();
    assert!(asked > 0 && capture.counts().unwrap().skipped > 1000);
    assert_eq!(back, asked);
}

#[test]
fn events_not_read_in_time_are_counted_as_lost() {
    let Some(device) = Loop::new(16 << 20) else { return };
    for completions in [false, true] {
        let options = Options { completions, ring_bytes: 1 << 16, rate_max: None, ..bpf() };
        let Some(mut capture) = open(&device, &options) else { return };
        let file = device.open();
        (0..2_000).for_each(|page| read(&file, page));
        let mut batch = Batch::default();
        capture.take(&mut batch, Duration::ZERO).unwrap();
        let counts = capture.counts().unwrap();
        assert!(counts.lost > 0, "{counts:?}");
        assert_eq!(counts.arrived, counts.lost + batch.arrivals.len() as u64);
        assert_eq!(counts.ends_lost > 0, completions, "{counts:?}");
    }
}

#[test]
fn the_end_of_a_task_with_submissions_is_reported() {
    let Some(device) = Loop::new(1 << 20) else { return };
    let Some(mut capture) = open(&device, &Options { exits: true, ..bpf() }) else { return };
    let file = device.open();
    let task = std::thread::spawn(move || {
        read(&file, 1);
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    });
    let task = task.join().unwrap();
    let mut batch = Batch::default();
    for _ in 0..50 {
        capture.take(&mut batch, Duration::from_millis(20)).unwrap();
    }
    assert_eq!(batch.exited.iter().filter(|process| process.task == task).count(), 1);
}

#[test]
fn a_loop_device_on_another_is_scheduled_by_the_lower_one() {
    let Some(below) = Loop::new(1 << 20) else { return };
    let Some(above) = Loop::over(&below.path) else { return };
    let scheduling = || Stack::of(&above.path).unwrap().scheduling().unwrap().above.node();
    set(&above.path, "scheduler", "none");
    assert_eq!(scheduling(), below.path);
    set(&above.path, "scheduler", "mq-deadline");
    assert_eq!(scheduling(), above.path);
    set(&above.path, "scheduler", "none");
}

/// The events of a leftover instance would cost every request of the machine some time, until the next boot.
#[test]
fn the_next_capture_removes_instances_of_killed_processes_with_any_back_end() {
    let left = std::path::Path::new("/sys/kernel/tracing/instances/dwell-1-1-0");
    let Some(device) = Loop::new(1 << 20) else { return };
    if let Err(error) = std::fs::create_dir(left) {
        return eprintln!("SKIPPED: {}: {error}", left.display());
    }
    let capture = open(&device, &bpf());
    let exists = left.exists();
    let _ = std::fs::remove_dir(left);
    assert!(capture.is_none() || !exists);
}

/// Two processes that switch schedulers would each restore a scheduler that the other one had set.
#[test]
fn a_device_that_is_being_measured_cannot_be_claimed() {
    let Some(device) = Loop::new(8 << 20) else { return };
    let stack = Stack::of(&device.path).unwrap();
    let load = Load { readers: 1, sizes: vec![4096], each: Duration::from_nanos(1) };
    // Windows of milliseconds are noise.
    let plan = Plan { switch: true, even_if_unsteady: true, load, ..Plan::default() };
    let mut refused = Vec::new();
    let mut say = |_: &str| {
        let other = Profile::measure(&Scheduling::by(stack.itself()), &plan, &mut |_| (), &|| true);
        refused.push(other.map_err(|error| error.to_string()));
    };
    let profile = Profile::measure(&Scheduling::by(stack.itself()), &plan, &mut say, &|| false).unwrap();
    assert!(
        refused.iter().all(|result| result.as_ref().is_err_and(|error| error.contains("mounted or held")))
    );
    let rates = profile.throughput.iter().flat_map(|one| &one.curves).flat_map(|curve| &curve.points);
    assert!(rates.clone().count() > 0 && rates.clone().all(|&(_, rate)| rate > 0.0), "{profile:?}");
}

/// As a file whose pages are not cached yet: in the first round each reader waits after each read.
#[test]
fn a_device_that_warms_up_is_rejected() {
    let Some(device) = Loop::new(8 << 20) else { return };
    let stack = Stack::of(&device.path).unwrap();
    let scheduling = Scheduling::by(stack.itself());
    if !scheduling.offers_a_choice() {
        return eprintln!("SKIPPED: the kernel offers one scheduler for {}", device.path.display());
    }
    let is_cold = AtomicBool::new(false);
    // Called by each reader after each read.
    let stop = || {
        if is_cold.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(400));
        }
        false
    };
    let measure = |even_if_unsteady: bool| {
        let load = Load { readers: 2, sizes: vec![4096, 65536], each: Duration::from_millis(100) };
        let plan = Plan { switch: true, rounds: 2, even_if_unsteady, load, ..Plan::default() };
        let cold = "under none (round 1 of 2)";
        let mut say = |what: &str| is_cold.store(what.ends_with(cold), Ordering::Relaxed);
        Profile::measure(&scheduling, &plan, &mut say, &stop)
    };
    let before = std::fs::read_to_string(queue(&device.path, "scheduler")).unwrap();
    let error = measure(false).unwrap_err();
    assert!(matches!(&error, Error::Unsteady { path, .. } if *path == device.path), "{error}");
    assert!(
        error.to_string().contains(": none gave ") && error.to_string().contains(" in 2 rounds, so "),
        "{error}"
    );
    assert!(measure(true).unwrap().unsteady.is_some_and(|why| why.starts_with("none gave ")));
    assert_eq!(std::fs::read_to_string(queue(&device.path, "scheduler")).unwrap(), before);
}

#[test]
fn a_device_without_a_sector_is_not_measured() {
    let Some(device) = Loop::new(0) else { return };
    let stack = Stack::of(&device.path).unwrap();
    let error = Profile::measure(&Scheduling::by(stack.itself()), &Plan::default(), &mut |_| (), &|| false)
        .unwrap_err();
    assert!(error.to_string().contains("no sectors"), "{error}");
    // It was never there, so it is not reported as removed.
    let error = Capture::open(&device.path, &Options::default()).err().unwrap();
    assert!(error.to_string().contains("no sectors"), "{error}");
}

#[test]
fn other_files_than_block_devices_are_rejected() {
    for (path, reason) in
        [("/dev/null", "is no block device"), ("/dev/dwell-nothing", "no such device or file")]
    {
        let error = Capture::open(path.as_ref(), &Options::default()).err().unwrap().to_string();
        assert!(error.contains(reason) && error.contains(path), "{error}");
    }
}
