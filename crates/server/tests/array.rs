//! Arrays: several members in one process, programs that stripe themselves over them, members that fail and are replaced, and md's
//! superblock.

mod common;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Directory, Random, can_attach, client, have, run, try_run};
use control::protocol::ArrayState;
use disks::array::{Arrangement, Layout};
use elevator::Sectors;
use schedulers::{Environment, Spec};
use server::array::{Array, ArrayConfiguration, start_array};
use server::backend::{Backend, FileBackend, FileOptions};
use server::control::{Client, SchedulerFactory};
use server::{AttachOptions, Configuration, Lifetime, LoopDevice, NbdOptions, ServeError};

const SCHEDULER: &str = "array-stream(deadline)";
const UNIT: u64 = 64 << 10;
const SIZE: u64 = 32 << 20;

/// An array that a thread serves until its control socket receives an order to stop.
struct Served {
    directory: Directory,
    thread: Option<std::thread::JoinHandle<()>>,
    devices: Vec<Option<PathBuf>>,
}

fn array(layout: Option<Arrangement>, members: u32) -> Array {
    let coordinator = Spec::parse(SCHEDULER).unwrap();
    let coordinator = coordinator.build_coordinator(&Environment::default(), members).unwrap().unwrap();
    let array = Array::new(Some(coordinator), members, 1, 1 << 20);
    if let Some(arrangement) = layout {
        let layout = Layout::new(arrangement, members, Sectors(128), 0, SIZE / 512).unwrap();
        array.set_layout(layout).unwrap();
    }
    array
}

impl Served {
    fn start(members: u32, layout: Option<Arrangement>, attach: bool) -> Self {
        Self::start_of_size(SIZE, members, layout, attach)
    }

    fn start_of_size(size: u64, members: u32, layout: Option<Arrangement>, attach: bool) -> Self {
        let directory = Directory::in_memory();
        let sources: Vec<_> =
            (0..members).map(|index| Some(directory.join(&format!("disk{index}")))).collect();
        for source in sources.iter().flatten() {
            File::create(source).unwrap().set_len(size).unwrap();
        }
        let root = directory.0.clone();
        let member = move |index: u32, source: Option<&Path>| member(&root, index, source.unwrap(), attach);
        let configuration = ArrayConfiguration {
            array: array(layout, members),
            sources,
            member: Box::new(member),
            schedulers: Box::new(move |name| {
                let spec = Spec::parse(name).map_err(|error| error.to_string())?;
                let coordinator = spec.build_coordinator(&Environment::default(), members);
                Ok((name.to_owned(), coordinator.map_err(|error| error.to_string())?))
            }),
            md: layout.is_none().then(|| "/dev/dwell-has-no-such-md".into()),
            control: Some(directory.join("array")),
            runtime: None,
        };
        let (started, devices) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut server = start_array(configuration).expect("the array starts");
            let devices =
                server.members().into_iter().map(|(device, _)| device.map(Path::to_path_buf)).collect();
            started.send(devices).unwrap();
            server.wait();
        });
        let devices = devices.recv_timeout(Duration::from_secs(120)).expect("the array is served");
        Self { directory, thread: Some(thread), devices }
    }

    fn control(&self) -> Client {
        Client::connect(&self.directory.join("array")).unwrap()
    }

    fn nbd(&self, member: u32) -> client::Nbd {
        client::Nbd::connect(&self.directory.join(&format!("nbd{member}")))
    }

    /// Waits for a state.
    fn until(&self, what: &str, holds: impl Fn(&ArrayState) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let state = self.control().array().unwrap();
            if holds(&state) {
                return;
            }
            assert!(Instant::now() < end, "{what}: {state:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = Client::connect(&self.directory.join("array")).and_then(|mut client| client.stop());
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn member(root: &Path, index: u32, source: &Path, attach: bool) -> Result<Configuration, ServeError> {
    let factory: SchedulerFactory = Arc::new(|name: &str| {
        let spec = Spec::parse(name).map_err(|error| error.to_string())?;
        Ok(spec.build(&Environment::default()).map_err(|error| error.to_string())? as Box<_>)
    });
    let options = FileOptions { depth: 8, direct: false, ..FileOptions::new(source) };
    let backend = move || Ok(Box::new(FileBackend::open(options)?) as Box<dyn Backend>);
    let mut configuration = Configuration::new(backend, SCHEDULER, factory);
    configuration.control = Some(root.join(format!("control{index}")));
    if attach {
        configuration.attach = Some(AttachOptions { runtime: root.join("run"), ..AttachOptions::default() });
    } else {
        let address = format!("unix:{}", root.join(format!("nbd{index}")).display()).parse().unwrap();
        configuration.nbd = Some(NbdOptions { addresses: vec![address], ..NbdOptions::default() });
    }
    Ok(configuration)
}

#[test]
fn a_failed_member_takes_no_other_one_with_it_and_can_be_replaced() {
    let array = Served::start(3, Some(Arrangement::Parity(1)), false);
    let mut clients: Vec<_> = (0..3).map(|member| array.nbd(member)).collect();
    for (member, client) in clients.iter_mut().enumerate() {
        for row in 0..20 {
            let data = vec![(member * 20 + row) as u8 + 1; UNIT as usize];
            assert_eq!(client.write(row as u64 * UNIT, &data), 0);
        }
        assert_eq!(client.command(0, client::FLUSH, 0, 0), 0);
    }
    let state = array.control().array().unwrap();
    assert_eq!(state.layout.as_deref(), Some("raid5 of 3 members, stripe unit 64 KiB"));
    assert!(state.coordinated && state.members.iter().all(|member| member.served), "{state:?}");
    let all = array.control().show().unwrap();
    assert_eq!((all.capacity_sectors, all.operations["write"].done), (3 * SIZE / 512, 60), "one device");
    // The server of a member ends when its clients are gone.
    drop(clients.remove(1));
    array.control().fail_member(1).unwrap();
    array.until("the member ends", |state| !state.members[1].served);
    assert!(array.control().fail_member(1).unwrap_err().to_string().contains("member 1 is not served"));
    assert!(array.control().fail_member(9).unwrap_err().to_string().contains("there is no member 9"));
    for (client, member) in clients.iter_mut().zip([0, 2]) {
        let data = client.read(7 * UNIT, 4096).unwrap();
        assert_eq!(data, [member * 20 + 8; 4096], "member {member} goes on");
    }
    // The same disk returns.
    let back = array.control().replace_member(1, array.directory.join("disk1")).unwrap();
    assert!(back.served, "{back:?}");
    assert_eq!(array.nbd(1).read(7 * UNIT, 4096).unwrap(), [28; 4096], "what was written is there");
    assert!(
        array.control().replace_member(1, array.directory.join("disk1")).is_err(),
        "it is served already"
    );
    array.until("the coordinator has it again", |state| state.members.iter().all(|member| member.present));
}

/// A member has failed a moment ago: its server may not have ended, or the array may not have noticed.
#[test]
fn orders_right_after_a_failure_reach_the_others_and_a_replacement_waits_for_the_end() {
    let array = Served::start(3, Some(Arrangement::Parity(1)), false);
    for _ in 0..10 {
        array.control().fail_member(1).unwrap();
        let state = array.control().show().unwrap();
        assert!(state.capacity_sectors >= 2 * SIZE / 512, "{state:?}");
        array.control().switch("noop", false).unwrap();
        array.control().switch(SCHEDULER, false).unwrap();
        let back = array.control().replace_member(1, array.directory.join("disk1")).unwrap();
        assert!(back.served, "{back:?}");
    }
}

#[test]
fn a_smaller_replacement_is_refused_with_both_sizes() {
    let array = Served::start(2, Some(Arrangement::Mirrored), false);
    let replacement = |name: &str, size: u64| {
        let path = array.directory.join(name);
        File::create(&path).unwrap().set_len(size).unwrap();
        path
    };
    let (small, large) = (replacement("small", SIZE - 4096), replacement("large", SIZE + 4096));
    array.control().fail_member(1).unwrap();
    let refused = array.control().replace_member(1, small).unwrap_err().to_string();
    for part in [(SIZE - 4096).to_string(), SIZE.to_string(), "at least as large".to_owned()] {
        assert!(refused.contains(&part), "{refused}");
    }
    assert!(!array.control().array().unwrap().members[1].served);
    assert!(array.control().replace_member(1, large).unwrap().served);
}

/// Regression: a loop device over the file of another member, and the attached device of another member, were accepted, so that two members had one disk.
#[test]
fn two_members_cannot_have_one_disk() {
    if !can_attach() {
        return;
    }
    let array = Served::start(2, Some(Arrangement::Mirrored), true);
    let state = array.control().array().unwrap();
    let attached = state.members[0].device.clone().unwrap();
    array.control().fail_member(1).unwrap();
    let refused = array.control().replace_member(1, attached).unwrap_err().to_string();
    assert!(refused.contains("is the attached device of member 0"), "{refused}");
    // Before the server has the file.
    let other = array.directory.join("other");
    File::create(&other).unwrap().set_len(SIZE).unwrap();
    let (device, _kept) = LoopDevice::attach(&other, 4096, Lifetime::UntilClosed).unwrap();
    let served = array.control().replace_member(1, device.path()).unwrap();
    assert!(served.served, "{served:?}");
    let refused = FileBackend::open(FileOptions::new(&other)).err().map(|error| error.to_string());
    assert!(refused.is_some_and(|refused| refused.contains("attached to it") || refused.contains("locked")));
    array.control().fail_member(0).unwrap();
    let (second, _kept_too) = LoopDevice::attach(&other, 4096, Lifetime::UntilClosed).unwrap();
    let refused = array.control().replace_member(0, second.path()).unwrap_err().to_string();
    assert!(refused.contains("has locked it"), "{refused}");
}

#[test]
fn a_scheduler_is_switched_for_all_members_at_once() {
    let array = Served::start(2, Some(Arrangement::Striped), false);
    array.control().switch("bfq", false).unwrap();
    assert!(!array.control().array().unwrap().coordinated);
    for member in 0..2 {
        let path = array.directory.join(&format!("control{member}"));
        assert!(Client::connect(&path).unwrap().show().unwrap().scheduler.starts_with("bfq"));
    }
    assert!(array.control().switch("no-such-scheduler", false).is_err());
    array.control().switch("array-stream(noop)", false).unwrap();
    assert!(array.control().array().unwrap().coordinated);
    let one = Client::connect(&array.directory.join("control0")).unwrap().array().unwrap_err().to_string();
    assert!(one.contains("the socket of one device"), "{one}");
}

#[test]
fn one_members_scheduler_is_shown_as_its_own() {
    let array = Served::start(3, Some(Arrangement::Parity(1)), false);
    assert_eq!(array.control().show().unwrap().scheduler, SCHEDULER);
    let mut one = Client::connect(&array.directory.join("control1")).unwrap();
    assert_eq!((one.show().unwrap().member, array.control().show().unwrap().member), (Some(1), None));
    one.switch("noop", false).unwrap();
    let scheduler = array.control().show().unwrap().scheduler;
    assert_eq!(scheduler, format!("{SCHEDULER} (members 0, 2); noop (member 1)"));
    let members = array.control().array().unwrap().members;
    let schedulers: Vec<_> = members.iter().map(|member| member.scheduler.as_deref()).collect();
    assert_eq!(schedulers, [Some(SCHEDULER), Some("noop"), Some(SCHEDULER)]);
}

/// The example, which stripes its reads itself, with these arguments in front of the exports.
fn striped_reader(array: &Served, arguments: &[&str]) -> std::process::Output {
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(2).unwrap().join("examples/striped_reader");
    let exports =
        (0..2).map(|member| format!("unix:{}", array.directory.join(&format!("nbd{member}")).display()));
    std::process::Command::new(program).args(arguments).args(exports).output().expect("cargo builds examples")
}

#[test]
fn the_example_explains_what_it_cannot_do() {
    let array = Served::start(2, Some(Arrangement::Striped), false);
    let errors = |arguments: &[&str]| {
        let output = striped_reader(&array, arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let window = errors(&["par-read", "1", "0.1", "window=0"]);
    assert!(window.contains("window=0: give the bytes") && !window.contains("panicked"), "{window}");
    let many = errors(&["random", "40", "0.1"]);
    assert!(many.contains("dwell serve --connections"), "{many}");
    assert!(striped_reader(&array, &["random", "10", "0.1"]).status.success());
}

/// A superblock of md, version 1.2, as `mdadm --create --level=0 --chunk=64` writes it on this member.
fn superblock(member: u32, members: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let words = [
        (0, 0xa92b_4efc),
        (4, 1),
        (72, 0),
        (88, 128),
        (92, members),
        (128, 2048),
        (136, (SIZE / 512 - 2048) as u32),
        (144, 8),
        (160, member),
        (200, 5),
        (220, members),
    ];
    for (at, word) in words {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    for role in 0..members {
        bytes[256 + role as usize * 2] = role as u8;
    }
    let covered = 256 + members as usize * 2;
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
    let sum: u64 = bytes[..covered].chunks(4).map(word).sum();
    bytes[216..220].copy_from_slice(&((sum & 0xffff_ffff) as u32 + (sum >> 32) as u32).to_le_bytes());
    bytes
}

#[test]
fn the_layout_is_read_once_md_has_written_it() {
    let array = Served::start(4, None, false);
    let state = array.control().array().unwrap();
    assert_eq!((state.layout, state.coordinated), (None, false), "members schedule alone until then");
    for member in 0..4 {
        let mut client = array.nbd(member);
        assert_eq!(client.write(4096, &superblock(member, 4)), 0);
        assert_eq!(client.command(0, client::FLUSH, 0, 0), 0);
    }
    array.until("the superblock is found", |state| state.coordinated);
    let state = array.control().array().unwrap();
    assert_eq!(state.layout.as_deref(), Some("raid0 of 4 members, stripe unit 64 KiB"));
}

/// Programs write and read files that they stripe themselves over attached members, a member fails, and nothing else is lost.
#[test]
fn programs_stripe_over_attached_members() {
    const MEMBERS: u64 = 3;
    if !can_attach() {
        return;
    }
    let array = Served::start(MEMBERS as u32, Some(Arrangement::Striped), true);
    let devices: Vec<PathBuf> = array.devices.iter().flatten().cloned().collect();
    assert_eq!(devices.len(), 3);
    let open = |device: &PathBuf| OpenOptions::new().read(true).write(true).open(device).unwrap();
    let files: Vec<File> = devices.iter().map(open).collect();
    let place = |unit: u64| (&files[(unit % MEMBERS) as usize], unit / MEMBERS * UNIT);
    let data = |unit: u64| {
        let mut random = Random(unit + 1);
        (0..UNIT).map(|_| random.next() as u8).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        for program in 0..4 {
            let (place, data) = (&place, &data);
            scope.spawn(move || {
                for unit in program * 100..program * 100 + 60 {
                    let (file, at) = place(unit);
                    file.write_all_at(&data(unit), at).unwrap();
                }
            });
        }
    });
    files.iter().for_each(|file| file.sync_all().unwrap());
    let check = |unit: u64| {
        let (file, at) = place(unit);
        let mut found = vec![0; UNIT as usize];
        file.read_exact_at(&mut found, at).map(|()| assert!(found == data(unit), "unit {unit}"))
    };
    (0..60).for_each(|unit| check(unit).unwrap());
    drop(files);
    array.control().fail_member(1).unwrap();
    array.until("the member ends", |state| !state.members[1].served);
    for (member, device) in devices.iter().enumerate().filter(|(member, _)| *member != 1) {
        let file = File::open(device).unwrap();
        let mut found = vec![0; UNIT as usize];
        file.read_exact_at(&mut found, 3 * UNIT).unwrap();
        assert!(found == data(3 * MEMBERS + member as u64), "member {member}");
    }
    let back = array.control().replace_member(1, array.directory.join("disk1")).unwrap();
    let mut found = vec![0; UNIT as usize];
    File::open(back.device.unwrap()).unwrap().read_exact_at(&mut found, 3 * UNIT).unwrap();
    assert!(found == data(3 * MEMBERS + 1), "what was written before the failure");
}

/// A file system of several devices, mounted until this is dropped; the kernel forgets the devices then.
struct Mounted(PathBuf);

impl Mounted {
    fn of(device: &Path, at: PathBuf, options: &str) -> Self {
        std::fs::create_dir_all(&at).unwrap();
        run("mount", &["-t", "btrfs", "-o", options, &device.to_string_lossy(), &at.to_string_lossy()]);
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = try_run("umount", &[&self.0.to_string_lossy()]);
        let _ = try_run("btrfs", &["device", "scan", "--forget"]);
    }
}

/// A mirror of btrfs on attached members: it survives the failure of one, which is replaced and restored, and no block is wrong.
#[test]
fn a_mirror_of_btrfs_survives_a_member() {
    if !can_attach() || !have("mkfs.btrfs") || !have("btrfs") {
        return;
    }
    let has = std::fs::read_to_string("/proc/filesystems").unwrap();
    if !has.lines().any(|line| line.trim() == "btrfs") {
        return eprintln!("SKIPPED: the kernel has no btrfs");
    }
    let mut array = Served::start_of_size(256 << 20, 2, Some(Arrangement::Mirrored), true);
    let devices: Vec<PathBuf> = array.devices.drain(..).flatten().collect();
    let [first, second] = devices.as_slice() else { panic!("{devices:?}") };
    let texts = [first.to_string_lossy(), second.to_string_lossy()];
    run("mkfs.btrfs", &["-q", "-d", "raid1", "-m", "raid1", &texts[0], &texts[1]]);
    run("btrfs", &["device", "scan", &texts[0], &texts[1]]);
    let mounted = Mounted::of(first, array.directory.join("mnt"), "noatime");
    let content = |seed: u64| {
        let mut random = Random(seed);
        (0..8 << 20).map(|_| random.next() as u8).collect::<Vec<_>>()
    };
    let write = |name: &str, seed: u64| {
        let path = mounted.0.join(name);
        std::fs::write(&path, content(seed)).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
    };
    write("before", 1);
    array.control().fail_member(1).unwrap();
    array.until("the member ends", |state| !state.members[1].served);
    write("after", 2);
    drop(mounted);
    let empty = array.directory.join("replacement");
    File::create(&empty).unwrap().set_len(256 << 20).unwrap();
    let replacement = array.control().replace_member(1, empty).unwrap().device.unwrap();
    let mounted = Mounted::of(first, array.directory.join("mnt"), "degraded,noatime");
    let at = mounted.0.to_string_lossy();
    run("btrfs", &["replace", "start", "-B", "-f", "2", &replacement.to_string_lossy(), &at]);
    run("btrfs", &["balance", "start", "--full-balance", &at]);
    run("btrfs", &["scrub", "start", "-B", &at]);
    // Now the other one fails: everything is on the replacement.
    drop(mounted);
    array.control().fail_member(0).unwrap();
    array.until("the other member ends", |state| !state.members[0].served);
    let mounted = Mounted::of(&replacement, array.directory.join("mnt"), "degraded,ro");
    for (name, seed) in [("before", 1), ("after", 2)] {
        assert!(std::fs::read(mounted.0.join(name)).unwrap() == content(seed), "{name}");
    }
}
