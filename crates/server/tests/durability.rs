//! Acknowledged writes survive `kill -9`: a writer logs every acknowledgement, the server is killed at random times, and
//! after the next start the test reads everything that was acknowledged, flushed or not.
//!
//! `DWELL_KILLS` sets the number of kills, `DWELL_VERIFY_SECONDS` how long fio verifies mixed I/O on an emulated drive while
//! schedulers are switched, `DWELL_VERIFY_SPEED` the speed of that drive relative to real time; the defaults are for a
//! short test run.

mod common;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::client::{FLUSH, FUA, Nbd};
use common::{Directory, Loop, Random, Served, can_attach, have, run};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 512;

/// The writer's record of a block: the newest acknowledged version, and the latest one, which may or may not be present.
#[derive(Default, Clone)]
struct Known {
    promised: u64,
    latest: u64,
}

/// The content of a block: its number and version in each part of it, so that torn writes are detected.
fn block(number: u64, version: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK as usize);
    while bytes.len() < BLOCK as usize {
        bytes.extend(number.to_le_bytes());
        bytes.extend(version.to_le_bytes());
    }
    bytes
}

/// Keeps several writes in flight until the server ends. A block has at most one write in flight, because the order of two is undefined.
fn write_until_killed(socket: &Path, known: &mut [Known], random: &mut Random, stopped: &AtomicBool) {
    // The server may have been killed before it listened.
    let Ok(mut client) = Nbd::try_connect(socket) else { return };
    // By cookie: the block and version of a write, none for a flush.
    let mut sent: HashMap<u64, Option<(u64, u64)>> = HashMap::new();
    let mut busy = vec![false; BLOCKS as usize];
    for cookie in 0.. {
        while sent.len() < 16 && !stopped.load(Ordering::Relaxed) {
            if random.below(12) == 0 {
                if client.send(0, FLUSH, cookie, 0, 0).is_err() {
                    return;
                }
                sent.insert(cookie, None);
                break;
            }
            let number = random.below(BLOCKS);
            if busy[number as usize] {
                continue;
            }
            let fua = random.below(4) == 0;
            let version = known[number as usize].latest + 1;
            known[number as usize].latest = version;
            if client
                .send_write(if fua { FUA } else { 0 }, cookie, number * BLOCK, &block(number, version))
                .is_err()
            {
                return;
            }
            busy[number as usize] = true;
            sent.insert(cookie, Some((number, version)));
            break;
        }
        if sent.len() < 16 && random.below(3) > 0 {
            continue;
        }
        let Ok((cookie, error)) = client.reply() else { return };
        assert_eq!(error, 0);
        // An acknowledged write survives the server, flushed or not: the kernel has it.
        if let Some((block, version)) = sent.remove(&cookie).expect("a request that was sent") {
            busy[block as usize] = false;
            known[block as usize].promised = version;
        }
    }
}

fn check(socket: &Path, known: &mut [Known]) {
    let mut client = Nbd::connect(socket);
    for (number, known) in known.iter_mut().enumerate() {
        let number = number as u64;
        let found = client.read(number * BLOCK, BLOCK as u32).unwrap();
        let version = u64::from_le_bytes(found[8..16].try_into().unwrap());
        if version == 0 {
            assert_eq!(known.promised, 0, "block {number} was acknowledged and is missing");
        } else {
            assert_eq!(found, block(number, version), "block {number} is torn");
        }
        let range = known.promised..=known.latest;
        assert!(range.contains(&version), "block {number} has version {version}, promised were {range:?}");
        // The version read after a restart is the block's content from now on.
        *known = Known { promised: version, latest: known.latest };
    }
}

fn kills(directory: &Directory, arguments: &[&str], count: u64, seed: u64) {
    kills_over(&directory.join("disk").to_string_lossy(), directory, arguments, count, seed);
}

fn kills_over(disk: &str, directory: &Directory, arguments: &[&str], count: u64, seed: u64) {
    let socket = directory.join("sock");
    let address = format!("unix:{}", socket.display());
    let mut all = vec!["--file", disk, "--size", "2M", "--nbd", &address];
    all.extend_from_slice(arguments);
    let mut known = vec![Known::default(); BLOCKS as usize];
    let mut random = Random(seed);
    for _ in 0..count {
        let mut server = Served::start(&all);
        check(&socket, &mut known);
        let after = Duration::from_micros(random.below(60_000));
        let stopped = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| write_until_killed(&socket, &mut known, &mut random, &stopped));
            thread::sleep(after);
            server.kill();
            stopped.store(true, Ordering::Relaxed);
        });
    }
    let server = Served::start(&all);
    check(&socket, &mut known);
    server.stop();
    let promised = known.iter().filter(|known| known.promised > 0).count();
    eprintln!("{count} kills, {promised} of {BLOCKS} blocks acknowledged at the end, seed {seed}");
}

fn count(default: u64) -> u64 {
    setting("DWELL_KILLS", default)
}

#[test]
fn acknowledged_writes_survive_kills_with_direct_io_and_io_uring() {
    kills(&Directory::on_disk(), &["--scheduler", "deadline"], count(20), 11);
}

#[test]
fn acknowledged_writes_survive_kills_over_a_block_device() {
    if !can_attach() {
        return;
    }
    let directory = Directory::on_disk();
    let disk = Loop::over(&directory.join("disk"));
    kills_over(&disk.0, &directory, &["--scheduler", "deadline"], count(10), 14);
}

#[test]
fn acknowledged_writes_survive_kills_with_threads() {
    kills(&Directory::on_disk(), &["--engine", "threads", "--scheduler", "noop"], count(10), 12);
}

#[test]
fn acknowledged_writes_survive_kills_of_an_emulated_drive() {
    kills(
        &Directory::in_memory(),
        &["--buffered", "--fixed", "200", "--scheduler", "deadline"],
        count(10),
        13,
    );
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Every policy by its full name, and the stream framework around each policy that it accepts.
fn every_policy() -> Vec<String> {
    let inside = schedulers::registry::all().filter(|policy| policy.is_work_conserving());
    let wrapped = inside.map(|policy| format!("stream({})", policy.full_name()));
    let plain = schedulers::registry::all().filter(|policy| !policy.is_wrapper());
    plain.map(schedulers::Listing::full_name).chain(wrapped).collect()
}

/// Repeats verified mixed I/O with different seeds, orders and sizes of requests until `end`.
fn verify_until(end: Instant, device: &str, region: u32) -> u64 {
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < end {
        let order = ["randwrite", "write", "randrw"][rounds as usize % 3];
        let sizes = ["4k-64k", "512-16k", "64k-512k"][(rounds / 3) as usize % 3];
        let job = ["--name=verify", "--direct=1", "--ioengine=libaio", "--iodepth=16", "--verify=crc32c"];
        let job = [
            &job[..],
            &["--do_verify=1", "--verify_fatal=1", "--size=24M", "--fsync=64", "--bs_unaligned=0"],
        ]
        .concat();
        let own = [
            format!("--filename={device}"),
            format!("--offset={}G", region * 100),
            format!("--rw={order}"),
            format!("--bsrange={sizes}"),
            format!("--randseed={}", u64::from(region) * 1_000_003 + rounds),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        run("fio", &[&job[..], &own].concat());
        rounds += 1;
    }
    rounds
}

#[test]
fn fio_verifies_mixed_io_while_schedulers_are_switched() {
    if !can_attach() || !have("fio") {
        return;
    }
    let directory = Directory::in_memory();
    let (control, runtime) = (directory.join("control"), directory.join("run"));
    let (control_path, runtime) =
        (control.to_string_lossy().into_owned(), runtime.to_string_lossy().into_owned());
    let verify = Duration::from_secs(setting("DWELL_VERIFY_SECONDS", 6));
    let speed = setting("DWELL_VERIFY_SPEED", 60).to_string();
    let drive = ["--drive", "wd5000aaks", "--speed", &speed];
    let server = Served::start(
        &[&drive[..], &["--attach", "--runtime", &runtime, "--control", &control_path]].concat(),
    );
    let policies = every_policy();
    let every = Duration::from_secs(3).min(verify / policies.len() as u32);
    let end = Instant::now() + verify;
    let mut switches = 0;
    let rounds: u64 = thread::scope(|scope| {
        let jobs: Vec<_> = (0..3)
            .map(|region| {
                scope.spawn({
                    let device = &server.what;
                    move || verify_until(end, device, region)
                })
            })
            .collect();
        let mut client = server::control::Client::connect(&control).unwrap();
        while jobs.iter().any(|job| !job.is_finished()) {
            client.switch(&policies[switches % policies.len()], switches % 2 == 1).unwrap();
            switches += 1;
            thread::sleep(every);
        }
        jobs.into_iter().map(|job| job.join().unwrap()).sum()
    });
    // The contract's checker observed the queue; a violation would fail here.
    let state = &server.stop()["state"];
    let sum =
        |of: &str| state["operations"].as_object().unwrap().values().filter_map(|op| op[of].as_u64()).sum();
    let (done, failed): (u64, u64) = (sum("done"), sum("failed"));
    assert_eq!((state["switches"].as_u64(), failed), (Some(switches as u64), 0));
    eprintln!(
        "{:.2} hours of the drive's time at speed {speed}: {done} operations, {rounds} rounds verified during {switches} \
         switches between {} policies",
        state["time_ns"].as_f64().unwrap() / 3.6e12,
        policies.len()
    );
}
