//! Recordings to Parquet: one file, or one for each device.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use evaluation::input::{Reading, open_recording, options, read_batch};
use study::recordings::{convert, split};
use traces::{Record, Recording};

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dwell-recordings-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A recording of Alibaba's form.
    fn fleet(&self, volumes: u64, requests: u64) -> PathBuf {
        let path = self.0.join("fleet.csv");
        let line =
            |n: u64| format!("{},W,{},4096,{}\n", n * 7 % volumes, n * 4096, 1_577_808_000_000_000 + n);
        fs::write(&path, (0..requests).map(line).collect::<String>()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path, device: &str) -> Recording {
    let reading = Reading { device: Some(device.to_owned()), ..Reading::default() };
    open_recording(path, &options(&reading, None).unwrap()).unwrap()
}

fn records(path: &Path, device: &str) -> Vec<Record> {
    let (mut recording, mut all, mut batch) = (open(path, device), Vec::new(), Vec::new());
    while read_batch(&mut recording, &mut batch).unwrap() {
        all.append(&mut batch);
    }
    all
}

/// Time, offset and length.
fn fields(records: &[Record]) -> Vec<(u64, u64, u64)> {
    let first = records.first().map_or(0, |record| record.at.as_nanos());
    records.iter().map(|record| (record.at.as_nanos() - first, record.offset, record.bytes)).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_fleet_has_more_volumes_than_a_process_may_open_files() {
    const CHILD: &str = "DWELL_TEST_FEW_FILES";
    if std::env::var_os(CHILD).is_none() {
        let limited =
            "ulimit -n 40 && exec \"$0\" --exact a_fleet_has_more_volumes_than_a_process_may_open_files";
        let mut child = Command::new("sh");
        child.arg("-c").arg(limited).arg(std::env::current_exe().unwrap()).env(CHILD, "1");
        let ended = child.output().unwrap();
        return assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
    let folder = Folder::new();
    let (from, to) = (folder.fleet(500, 20_000), folder.0.join("volumes"));
    let (written, files) = split(&mut open(&from, "all"), &to).unwrap();
    assert_eq!((written.written, files), (20_000, 500));
    assert!(names(&to).iter().all(|name| name.ends_with(".parquet")), "{:?}", names(&to));
    for volume in ["0", "7", "499"] {
        let found = records(&to.join(format!("{volume}.parquet")), volume);
        assert_eq!(fields(&found), fields(&records(&from, volume)));
        assert_eq!(found.len(), 40);
    }
}

#[test]
fn an_existing_volume_is_kept_and_no_other_file_appears() {
    let folder = Folder::new();
    let (from, to) = (folder.fleet(10, 100), folder.0.join("volumes"));
    fs::create_dir(&to).unwrap();
    fs::write(to.join("3.parquet"), "mine").unwrap();
    let error = split(&mut open(&from, "all"), &to).map(drop).unwrap_err().to_string();
    assert!(error.contains("3.parquet: exists; name an empty folder"), "{error}");
    assert_eq!(names(&to), ["3.parquet"]);
    assert_eq!(fs::read(to.join("3.parquet")).unwrap(), b"mine");
}

#[test]
fn devices_whose_files_would_have_one_name_are_an_error() {
    let folder = Folder::new();
    let from = folder.0.join("two.txt");
    let line = |n: u64, device: &str| format!("{n} - {device} R {} 4096 be4 - -\n", n * 4096);
    fs::write(&from, format!("# dwell recording 1\n{}{}", line(1, "a/b"), line(2, "a.b"))).unwrap();
    let error = split(&mut open(&from, "all"), &folder.0.join("volumes")).map(drop).unwrap_err().to_string();
    assert!(error.contains("a_b.parquet: two devices have this file, the second is 'a.b'"), "{error}");
}

#[test]
fn a_pipe_is_written_and_not_replaced() {
    let folder = Folder::new();
    let from = folder.fleet(3, 1_000);
    let (file, pipe) = (folder.0.join("a.parquet"), folder.0.join("pipe"));
    fs::write(folder.0.join("a.tmp"), "mine").unwrap();
    assert_eq!(convert(&mut open(&from, "all"), &file).unwrap().written, 1_000);
    assert_eq!(fields(&records(&file, "all")), fields(&records(&from, "all")));
    assert_eq!(fs::read(folder.0.join("a.tmp")).unwrap(), b"mine");
    if !Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        return eprintln!("SKIPPED: mkfifo is not installed");
    }
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            fs::File::open(pipe).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        })
    };
    convert(&mut open(&from, "all"), &pipe).unwrap();
    assert!(reader.join().unwrap() == fs::read(&file).unwrap());
    assert!(!pipe.metadata().unwrap().is_file());
}
