//! Who caused the writes of a device, on file systems of the running kernel. Skipped where there is no root, BPF or file system.
//!
//! The tests run one after the other: each starts writeback of everything it wrote, and all share the processors. A capture counts only
//! the requests of its own device.

#[allow(dead_code, reason = "the other program uses the rest")]
mod common;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use capture::Error;
use capture::causes::{CauseEvents, Caused, Causes, CausesOptions, CausesReport};
use common::Loop;
use control::causes::CauseEvent;

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file system on a loop device in memory, unmounted when this is dropped.
struct Mounted {
    directory: PathBuf,
    device: Loop,
}

impl Mounted {
    fn new(kind: &str) -> Option<Self> {
        let device = Loop::new(512 << 20)?;
        // Otherwise the kernel writes empty inode tables meanwhile, on behalf of no process.
        let options: &[&str] =
            if kind == "ext4" { &["-E", "lazy_itable_init=0,lazy_journal_init=0"] } else { &[] };
        let make = Command::new(format!("mkfs.{kind}")).arg("-q").args(options).arg(&device.path).output();
        if !make.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: mkfs.{kind} made no file system: {make:?}");
            return None;
        }
        let name = device.path.file_name().unwrap().to_str().unwrap().to_owned();
        let directory = std::env::temp_dir().join(format!("dwell-causes-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let mount = Command::new("mount").args(["-t", kind]).arg(&device.path).arg(&directory).output();
        if !mount.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: this kernel does not mount {kind}: {mount:?}");
            let _ = fs::remove_dir(&directory);
            return None;
        }
        Some(Self { directory, device })
    }

    fn observe(&self) -> Option<Causes> {
        match Causes::open(&self.device.path, &CausesOptions::default()) {
            Ok(causes) => Some(causes),
            Err(error @ (Error::Permission { .. } | Error::Kernel { .. })) => {
                eprintln!("SKIPPED: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn sync(&self) {
        assert!(Command::new("sync").arg("-f").arg(&self.directory).status().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        let unmount = || Command::new("umount").arg(&self.directory).status();
        while !unmount().is_ok_and(|status| status.success()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Writes a file of so many MiB through the page cache, and leaves it dirty.
fn writer(path: &Path, mib: u32) -> Child {
    let file = format!("of={}", path.display());
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", &file, "bs=64k", &format!("count={}", mib * 16)]);
    dd.stderr(Stdio::null()).spawn().unwrap()
}

fn of(report: &CausesReport, process: u32) -> &Caused {
    let found = report.accounts.iter().find(|caused| caused.id == Some(u64::from(process)));
    found.unwrap_or_else(|| panic!("nothing of process {process}: {report:#?}"))
}

/// Two processes write without a sync, and a third one syncs everything.
fn two_writers(kind: &str, share_min: f64) {
    let _alone = alone();
    let Some(mounted) = Mounted::new(kind) else { return };
    mounted.sync();
    let Some(mut causes) = mounted.observe() else { return };
    let mut children = [("a", 24), ("b", 8)].map(|(name, mib)| writer(&mounted.directory.join(name), mib));
    let [a, b] = children.each_ref().map(Child::id);
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    mounted.sync();
    // A commit and its metadata may follow the answer of sync.
    let until = Instant::now() + Duration::from_secs(60);
    let report = loop {
        let report = causes.report().unwrap();
        let data =
            |process| report.accounts.iter().find(|c| c.id == Some(process)).map_or(0, |c| c.data.bytes);
        if Instant::now() > until || data(a.into()) >= 24 << 20 && data(b.into()) >= 8 << 20 {
            break report;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    println!("{kind}: {:.2}% of {} bytes attributed", report.attributed() * 100.0, report.written);
    assert_eq!(report.lost, 0);
    assert_eq!((of(&report, a).data.bytes, of(&report, b).data.bytes), (24 << 20, 8 << 20), "{report:#?}");
    assert!(of(&report, a).dirtied >= 24 << 20 && &*of(&report, a).name == "dd");
    assert!(report.attributed() >= share_min, "{report:#?}");
}

#[test]
fn data_of_ext4_belongs_to_the_process_that_dirtied_it() {
    two_writers("ext4", 0.98);
}

/// Regression: each write into pages that were dirty already was counted as lost, because its event found no room without a reader of events.
#[test]
fn repeated_writes_of_dirty_pages_lose_nothing() {
    let _alone = alone();
    let Some(mounted) = Mounted::new("ext4") else { return };
    let path = mounted.directory.join("file");
    let file = File::create(&path).unwrap();
    let Some(mut causes) = mounted.observe() else { return };
    file.write_all_at(&vec![1; 4 << 20], 0).unwrap();
    mounted.sync();
    // Another process, so that the file has several writers, and parts of a folio.
    assert!(writer(&path, 4).wait().unwrap().success());
    for round in 0..4 {
        (0..1024).for_each(|page| file.write_all_at(&[round; 4096], page << 12).unwrap());
        mounted.sync();
    }
    let report = causes.report().unwrap();
    assert!(report.written >= 4 << 20, "{report:#?}");
    assert_eq!(report.lost, 0);
}

/// Processes that only make directories write nothing themselves: the journal thread does.
#[test]
fn the_journal_belongs_to_the_process_that_changed_the_metadata() {
    let _alone = alone();
    let Some(mounted) = Mounted::new("ext4") else { return };
    mounted.sync();
    let Some(mut causes) = mounted.observe() else { return };
    let directories = (0..50).map(|number| mounted.directory.join(number.to_string()));
    let mut maker = Command::new("mkdir").args(directories).spawn().unwrap();
    let process = maker.id();
    assert!(maker.wait().unwrap().success());
    mounted.sync();
    let until = Instant::now() + Duration::from_secs(60);
    let mut report = causes.report().unwrap();
    let journal = |report: &CausesReport| {
        report.accounts.iter().find(|c| c.id == Some(process.into())).map_or(0, |c| c.journal.bytes)
    };
    while journal(&report) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
        report = causes.report().unwrap();
    }
    // One directory for each, in addition to inodes and bitmaps.
    assert!(journal(&report) >= 50 * 4096, "{report:#?}");
    let mut delegated = report.delegated.iter().filter(|by| by.submitter.starts_with("jbd2/"));
    assert!(delegated.any(|by| by.causes[0].0 == "mkdir"), "{report:#?}");
}

/// The page of one is dirty when the other writes into it.
#[test]
fn a_page_of_two_belongs_to_both() {
    page_of_two("ext4");
}

#[test]
fn a_page_of_two_belongs_to_both_on_xfs() {
    page_of_two("xfs");
}

/// A large folio becomes dirty as a whole for the kernel, and is written in parts.
fn parts_of_folios(kind: &str) {
    let _alone = alone();
    let Some(mounted) = Mounted::new(kind) else { return };
    let file = File::create(mounted.directory.join("file")).unwrap();
    file.write_all_at(&vec![1; 4 << 20], 0).unwrap();
    mounted.sync();
    let Ok((mut causes, _)) = CauseEvents::open(&mounted.device.path) else {
        return eprintln!("SKIPPED: no BPF");
    };
    let written = [0, 8192, 8192, (1 << 20) + 4096, 12288, 0];
    written.iter().for_each(|&at| file.write_all_at(&[2; 4096], at).unwrap());
    file.write_all_at(&[3; 2], (2 << 20) + 4095).unwrap();
    let mut dirtied = || {
        let (mut events, mut pages) = (Vec::new(), BTreeSet::new());
        assert!(causes.take(&mut events).unwrap());
        for event in events {
            if let CauseEvent::Dirtied { process, file, offset, bytes, stored_by } = event
                && process == Some(std::process::id())
                && file != u64::MAX
            {
                assert_eq!(stored_by, None, "by calls that admission holds");
                pages.extend((offset..offset + u64::from(bytes)).step_by(4096));
            }
        }
        pages
    };
    let across = [2 << 20, (2 << 20) + 4096];
    assert_eq!(dirtied(), written.into_iter().chain(across).collect());
    // A program may write dirty pages at the speed of memory, also in large calls.
    let block = |at: u64| file.write_all_at(&vec![4; 256 << 10], at).unwrap();
    block(3 << 20);
    assert_eq!(dirtied().len(), 64);
    written.iter().for_each(|&at| file.write_all_at(&[5; 4096], at).unwrap());
    block(3 << 20);
    assert_eq!(dirtied(), BTreeSet::new(), "they are dirty, unless the kernel wrote them meanwhile");
    mounted.sync();
    block(3 << 20);
    assert_eq!(dirtied().len(), 64);
}

#[test]
fn of_a_large_folio_what_is_written_is_dirty_on_ext4() {
    parts_of_folios("ext4");
}

#[test]
fn of_a_large_folio_what_is_written_is_dirty_on_xfs() {
    parts_of_folios("xfs");
}

fn page_of_two(kind: &str) {
    let _alone = alone();
    let Some(mounted) = Mounted::new(kind) else { return };
    mounted.sync();
    let Some(mut causes) = mounted.observe() else { return };
    let file = mounted.directory.join("file");
    let mut writers = [0, 1].map(|at| {
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", &format!("of={}", file.display()), "bs=1k", "count=1", "conv=notrunc"]);
        let mut dd = dd.arg(format!("seek={at}")).stderr(Stdio::null()).spawn().unwrap();
        let process = dd.id();
        assert!(dd.wait().unwrap().success());
        process
    });
    mounted.sync();
    let until = Instant::now() + Duration::from_secs(60);
    let data = |report: &CausesReport, process: u32| {
        report.accounts.iter().find(|c| c.id == Some(process.into())).map_or(0, |c| c.data.bytes)
    };
    let mut report = causes.report().unwrap();
    while data(&report, writers[0]) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
        report = causes.report().unwrap();
    }
    // The kernel may have written the page between the two; then each wrote it alone.
    writers.sort_unstable_by_key(|process| data(&report, *process));
    let [less, more] = writers.map(|process| data(&report, process));
    assert!((less, more) == (2048, 2048) || (less, more) == (4096, 4096), "{report:#?}");
}

#[test]
fn data_of_xfs_belongs_to_the_process_that_dirtied_it() {
    two_writers("xfs", 0.98);
}

#[test]
fn data_of_btrfs_belongs_to_the_process_that_dirtied_it() {
    two_writers("btrfs", 0.9);
}

/// A btrfs has no device of its own, but a list of them.
#[test]
fn pages_of_a_btrfs_on_another_device_are_not_counted() {
    let _alone = alone();
    let (Some(observed), Some(other)) = (Mounted::new("ext4"), Mounted::new("btrfs")) else { return };
    let Some(mut causes) = observed.observe() else { return };
    let mut dd = writer(&other.directory.join("file"), 8);
    let process = u64::from(dd.id());
    assert!(dd.wait().unwrap().success());
    other.sync();
    let report = causes.report().unwrap();
    let found = report.accounts.iter().find(|caused| caused.id == Some(process));
    assert!(found.is_none_or(|caused| caused.dirtied == 0), "{report:#?}");
}
