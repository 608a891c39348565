//! On the running kernel. Loudly skipped where there is no root or no BPF.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capture::profile::{Load, Plan, Profile};
use capture::topology::{Scheduling, Stack};
use capture::{Arrival, Backend, Batch, Capture, Completed, Error, Options, Source};
use common::{Loop, discard_at_once, read, set, write};
use elevator::{Op, Sector, Sectors};

/// Opens a capture, or says why this kernel does not allow it.
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

/// For tests that look at what is left in tracefs by this process.
static TRACEFS: Mutex<()> = Mutex::new(());

#[test]
fn tracefs_sees_the_same_and_leaves_nothing() {
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

/// One process reads one place again and again: each read has come back before the next is asked for, whatever was under way before
/// anybody looked, and whatever was not fetched in time.
#[test]
fn tracefs_takes_no_read_for_the_one_before() {
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
        // One whose submission was lost may be taken for that of the one before, at each gap; if that moved all that follow, nearly all would
        // be wrong.
        let most = if lost > 0 { batch.completed.len() / 4 } else { 0 };
        assert!(wrong.len() <= most, "{} of {}: {:?}", wrong.len(), batch.completed.len(), wrong[0]);
    }
}

#[test]
fn a_device_that_is_gone_is_told_from_an_idle_one() {
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

/// A loop device's number is given to the next one at once.
#[test]
fn a_device_that_has_the_number_of_the_one_that_is_gone_is_another() {
    let Some(device) = Loop::new(1 << 20) else { return };
    let Some(mut capture) = open(&device, &bpf()) else { return };
    let path = device.path.clone();
    drop(device);
    let another = Loop::new(1 << 20).expect("a loop device, as before");
    if another.path != path {
        return eprintln!("SKIPPED: somebody else took the loop device");
    }
    let mut batch = Batch::default();
    let gone = (0..20).find_map(|_| {
        read(&another.open(), 3);
        capture.take(&mut batch, Duration::from_millis(10)).err()
    });
    assert!(gone.unwrap().to_string().ends_with("the device was removed"));
}

/// What this thread asked for, as the device may also be looked at by others (udev).
fn mine(batch: &Batch) -> Vec<Arrival> {
    let task = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    batch.arrivals.iter().filter(|arrival| arrival.process.is_some_and(|p| p.task == task)).copied().collect()
}

#[test]
fn each_submission_is_seen_with_its_task_under_none_and_under_a_scheduler() {
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
fn what_was_merged_into_one_request_comes_back_or_is_counted_as_lost() {
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
            return eprintln!("SKIPPED: this kernel does not make one request of {blocks} discards");
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
fn other_devices_are_not_seen() {
    let (Some(device), Some(other)) = (Loop::new(1 << 20), Loop::new(1 << 20)) else { return };
    let Some(mut capture) = open(&device, &bpf()) else { return };
    let file = other.open();
    (0..50).for_each(|page| read(&file, page));
    let mut batch = Batch::default();
    capture.take(&mut batch, Duration::ZERO).unwrap();
    assert_eq!(mine(&batch), []);
}

#[test]
fn above_the_rate_bursts_are_seen_whole_and_the_rest_is_counted() {
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
    // A sequence breaks where a burst ends, and where the reader moves to another processor, which has a burst of its own.
    assert!(in_sequence * 2 >= seen.len() - 1, "{in_sequence} of {}", seen.len());
}

/// Also what is under way when the first is left out, and when none is any more.
#[test]
fn above_the_rate_what_was_reported_comes_back() {
    let Some(device) = Loop::new(16 << 20) else { return };
    let options = Options { completions: true, rate_max: Some(100), ..bpf() };
    let Some(mut capture) = open(&device, &options) else { return };
    let file = device.open();
    let mut batch = Batch::default();
    for _ in 0..8 {
        if !discard_at_once(&file, 256) {
            return eprintln!("SKIPPED: this kernel lets nobody ask for many discards at once");
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
fn what_nobody_fetches_in_time_is_counted_as_lost() {
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
fn a_task_that_asked_and_ended_is_told_of() {
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
fn a_loop_device_over_another_leaves_it_to_the_one_below() {
    let Some(below) = Loop::new(1 << 20) else { return };
    let Some(above) = Loop::over(&below.path) else { return };
    let scheduling = || Stack::of(&above.path).unwrap().scheduling().unwrap().above.node();
    set(&above.path, "scheduler", "none");
    assert_eq!(scheduling(), below.path);
    set(&above.path, "scheduler", "mq-deadline");
    assert_eq!(scheduling(), above.path);
    set(&above.path, "scheduler", "none");
}

/// Its events would cost every request of the machine some time, for ever.
#[test]
fn what_a_killed_process_left_in_tracefs_is_removed_whatever_way_the_next_looks() {
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

/// Two that switch schedulers would each put back what the other has set.
#[test]
fn while_a_device_is_measured_nobody_else_takes_it() {
    let Some(device) = Loop::new(1 << 20) else { return };
    let stack = Stack::of(&device.path).unwrap();
    let load = Load { readers: 1, sizes: vec![4096], each: Duration::from_nanos(1) };
    let plan = Plan { switch: true, even_if_used: false, load };
    let mut refused = Vec::new();
    let mut say = |_: &str| {
        let other = Profile::measure(&Scheduling::by(stack.itself()), &plan, &mut |_| (), &|| true);
        refused.push(other.map_err(|error| error.to_string()));
    };
    let profile = Profile::measure(&Scheduling::by(stack.itself()), &plan, &mut say, &|| false).unwrap();
    assert!(refused.iter().all(|said| said.as_ref().is_err_and(|said| said.contains("mounted or held"))));
    let rates = profile.throughput.iter().flat_map(|one| &one.curves).flat_map(|curve| &curve.points);
    assert!(rates.clone().count() > 0 && rates.clone().all(|&(_, rate)| rate > 0.0), "{profile:?}");
}

#[test]
fn a_device_without_a_sector_is_not_measured() {
    let Some(device) = Loop::new(0) else { return };
    let stack = Stack::of(&device.path).unwrap();
    let said = Profile::measure(&Scheduling::by(stack.itself()), &Plan::default(), &mut |_| (), &|| false)
        .unwrap_err();
    assert!(said.to_string().contains("no sectors"), "{said}");
}

#[test]
fn what_is_no_block_device_is_refused() {
    for (path, says) in [("/dev/null", "is no block device"), ("/dev/dwell-nothing", "No such file")] {
        let error = Capture::open(path.as_ref(), &Options::default()).err().unwrap().to_string();
        assert!(error.contains(says) && error.contains(path), "{error}");
    }
}
