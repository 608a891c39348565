//! Recordings to Parquet: one file, or one for each device.

mod folder;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use evaluation::input::{Reading, open_recording, options, read_batch};
use folder::Folder;
use study::recordings::{convert, split};
use traces::{Record, Recording};

/// A recording of Alibaba's form.
fn fleet(folder: &Folder, volumes: u64, requests: u64) -> PathBuf {
    let path = folder.0.join("fleet.csv");
    let line = |n: u64| format!("{},W,{},4096,{}\n", n * 7 % volumes, n * 4096, 1_577_808_000_000_000 + n);
    fs::write(&path, (0..requests).map(line).collect::<String>()).unwrap();
    path
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
    let (from, to) = (fleet(&folder, 500, 20_000), folder.0.join("volumes"));
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
    let (from, to) = (fleet(&folder, 10, 100), folder.0.join("volumes"));
    fs::create_dir(&to).unwrap();
    fs::write(to.join("3.parquet"), "mine").unwrap();
    let error = split(&mut open(&from, "all"), &to).map(drop).unwrap_err().to_string();
    assert!(error.contains("3.parquet: exists; name an empty folder"), "{error}");
    assert_eq!(names(&to), ["3.parquet"]);
    assert_eq!(fs::read(to.join("3.parquet")).unwrap(), b"mine");
}

#[test]
fn devices_whose_files_would_have_one_name_are_numbered() {
    let folder = Folder::new();
    let (from, to) = (folder.0.join("many.txt"), folder.0.join("volumes"));
    let line = |(n, device): (u64, &str)| format!("{n} - {device} R {} 4096 be4 - -\n", n * 4096);
    let names_of = ["a/b", "a.b", "a_b-2", "a:b"];
    let lines: String = (1..).zip(names_of).map(line).collect();
    fs::write(&from, format!("# dwell recording 1\n{lines}")).unwrap();
    let (written, files) = split(&mut open(&from, "all"), &to).unwrap();
    assert_eq!((written.written, files), (4, 4));
    assert_eq!(names(&to), ["a_b-2-2.parquet", "a_b-2.parquet", "a_b-3.parquet", "a_b.parquet"]);
    for (file, offset) in [("a_b", 4096), ("a_b-2", 8192), ("a_b-2-2", 12_288), ("a_b-3", 16_384)] {
        assert_eq!(records(&to.join(format!("{file}.parquet")), "all")[0].offset, offset, "{file}");
    }
}

#[test]
fn long_names_of_devices_are_shortened() {
    let folder = Folder::new();
    let (from, to) = (folder.0.join("long.txt"), folder.0.join("volumes"));
    let long = "volume/".repeat(40);
    let lines = format!("0 - {long}a R 4096 4096 be4 - -\n1 - {long}b R 8192 4096 be4 - -\n");
    fs::write(&from, format!("# dwell recording 1\n{lines}")).unwrap();
    let (written, files) = split(&mut open(&from, "all"), &to).unwrap();
    assert_eq!((written.written, files), (2, 2));
    let name = &long.replace('/', "_")[..200];
    assert_eq!(names(&to), [format!("{name}-2.parquet"), format!("{name}.parquet")]);
    let second = records(&to.join(format!("{name}-2.parquet")), &format!("{long}b"));
    assert_eq!(second[0].offset, 8192);
}

#[test]
fn files_with_the_endings_of_temporary_ones_are_kept() {
    let folder = Folder::new();
    let (from, to) = (fleet(&folder, 2, 10), folder.0.join("volumes"));
    let single = folder.0.join("x.parquet");
    fs::create_dir(&to).unwrap();
    let kept = ["volumes/0.tmp", "volumes/0.parquet.tmp", "x.tmp", "x.parquet.tmp"];
    for name in kept {
        fs::write(folder.0.join(name), name).unwrap();
    }
    split(&mut open(&from, "all"), &to).unwrap();
    convert(&mut open(&from, "all"), &single).unwrap();
    let fields = [study::Field { name: "n", kind: study::Type::Whole, about: "a number" }];
    study::write_table(&single, &fields, &[vec![study::Cell::Whole(7)]]).unwrap();
    assert_eq!(study::read_table(&single, &["n"]).unwrap(), [[study::Cell::Whole(7)]]);
    for name in kept {
        assert_eq!(fs::read_to_string(folder.0.join(name)).unwrap(), name);
    }
    assert_eq!(names(&to), ["0.parquet", "0.parquet.tmp", "0.tmp", "1.parquet"]);
    let missing = folder.0.join("none/x.parquet");
    let error = study::write_table(&missing, &fields, &[]).unwrap_err().to_string();
    assert!(error.contains("none/x.parquet: cannot be written"), "{error}");
    let error = split(&mut open(&from, "all"), &from).map(drop).unwrap_err().to_string();
    assert!(error.contains("fleet.csv: is a file; name an empty folder"), "{error}");
}

#[test]
fn a_pipe_is_written_and_not_replaced() {
    let folder = Folder::new();
    let from = fleet(&folder, 3, 1_000);
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

/// Requests of five devices, as device, nanoseconds and offset, sorted by device: each begins before the end of the one before.
fn by_device() -> Vec<(u64, u64, u64)> {
    let of = |device: u64| (0..2_000).map(move |n| (device, n * 10_000_000 + device * 1_000, n * 4096));
    [3, 1, 4, 0, 2].into_iter().flat_map(of).collect()
}

#[test]
fn a_fleet_sorted_by_volume_is_split() {
    let folder = Folder::new();
    let (from, to) = (folder.0.join("sorted.csv"), folder.0.join("volumes"));
    let line = |(device, at, offset): (u64, u64, u64)| {
        format!("{device},W,{offset},4096,{}\n", 1_577_808_000_000_000 + at / 1_000)
    };
    fs::write(&from, by_device().into_iter().map(line).collect::<String>()).unwrap();
    let error = split(&mut open(&from, "all"), &to).map(drop).unwrap_err().to_string();
    assert!(error.contains("if it is sorted by device, choose one device, or split the file"), "{error}");
    assert!(!to.exists(), "a folder without files");
    let mut recording = open(&from, "all").ordered_by_device();
    assert_eq!(split(&mut recording, &to).unwrap().1, 5);
    assert!(recording.skips().is_empty(), "{}", recording.skips());
    assert_eq!(recording.interpretation().span.as_nanos(), 1_999 * 10_000_000 + 4_000);
    for device in 0..5 {
        let device = device.to_string();
        let found = fields(&records(&to.join(format!("{device}.parquet")), &device));
        assert!(found.len() == 2_000 && found == fields(&records(&from, &device)), "{device}");
    }
}

#[test]
fn a_table_sorted_by_device_is_read_in_the_order_of_time() {
    use study::{Cell, Field, Type};
    let folder = Folder::new();
    let path = folder.0.join("sorted.parquet");
    let field = |name, kind| Field { name, kind, about: "" };
    let numbers = ["at_ns", "op", "offset", "bytes"].map(|name| field(name, Type::Whole));
    let columns = [vec![field("device", Type::Text)], numbers.into()].concat();
    let row = |(device, at, offset): (u64, u64, u64)| {
        let numbers = [at, 1, offset, 4096].map(|number| Cell::Whole(number as i64));
        [vec![Cell::Text(device.to_string())], numbers.into()].concat()
    };
    let rows: Vec<Vec<Cell>> = by_device().into_iter().map(row).collect();
    study::write_table(&path, &columns, &rows).unwrap();
    let all = records(&path, "all");
    assert!(all.len() == 10_000 && all.is_sorted_by_key(|record| record.at));
    for device in 0..5_u64 {
        let expected: Vec<_> = by_device()
            .into_iter()
            .filter(|of| of.0 == device)
            .map(|of| (of.1 - device * 1_000, of.2, 4096))
            .collect();
        assert_eq!(fields(&records(&path, &device.to_string())), expected, "{device}");
    }
    // Devices that alternate, in the order of time.
    let mut alternating = by_device();
    alternating.sort_by_key(|of| of.1);
    study::write_table(&path, &columns, &alternating.into_iter().map(row).collect::<Vec<_>>()).unwrap();
    assert!(records(&path, "all").len() == 10_000);
    // A number below zero.
    let mut wrong = rows[..1].to_vec();
    wrong[0][3] = Cell::Whole(-5);
    study::write_table(&path, &columns, &wrong).unwrap();
    let mut recording = open(&path, "all");
    let error = read_batch(&mut recording, &mut Vec::new()).unwrap_err().to_string();
    assert!(
        error.contains("row 1, offset: expected a number from 0, found '-5'; correct the rows"),
        "{error}"
    );
}
