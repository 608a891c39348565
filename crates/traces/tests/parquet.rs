//! Recordings in Parquet: what is written is read back, and damaged files are errors.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use dwell_traces::write::{Encoders, GroupStore, ParquetWriter};
use dwell_traces::{
    DeviceChoice, DeviceId, Format, Op, Options, Pid, Priority, PriorityClass, Record, Recording, Span, Time,
};

const ALL: Options = Options {
    format: None,
    device: DeviceChoice::All,
    capacity: None,
    unit: None,
    event: None,
    block_bytes: None,
    seed: 1,
    strict: false,
    threads: 1,
};

/// The recording as a Parquet file.
fn written(recording: &mut Recording) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ParquetWriter::new(&mut bytes, "test").unwrap();
    while let Some(record) = recording.next() {
        let record = record.unwrap();
        writer.meet(recording.devices().iter().map(|device| &device.name));
        let name = record.process.and_then(|pid| recording.process_name(pid));
        writer.write(&record, name.as_deref()).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

/// The lines of each device, and whether times ascend over all.
fn lines(recording: &mut Recording) -> (BTreeMap<String, Vec<String>>, bool) {
    let (mut lines, mut last, mut ascends): (BTreeMap<String, Vec<String>>, _, _) =
        (BTreeMap::new(), 0, true);
    while let Some(record) = recording.next() {
        let record = record.unwrap();
        ascends &= record.at.as_nanos() >= last;
        last = record.at.as_nanos();
        let device = recording.devices()[record.device.0 as usize].name.clone();
        let fields = (record.at, record.completed, record.op, record.flags, record.priority, record.offset);
        let process = record.process.map(|pid| (pid, recording.process_name(pid)));
        lines.entry(device).or_default().push(format!("{fields:?} {} {process:?}", record.bytes));
    }
    (lines, ascends)
}

#[test]
fn every_recording_of_the_corpus_survives() {
    for (name, bytes) in common::corpus() {
        let open = || common::open(&name, &bytes, &ALL).unwrap();
        let mut original = open();
        let (expected, _) = lines(&mut original);
        let parquet = written(&mut open());
        let mut again = common::open(&name, &parquet, &ALL).unwrap();
        assert_eq!(again.interpretation().format, Format::Parquet);
        let (found, ascends) = lines(&mut again);
        // The latest name of a process may come after the first records of it.
        assert_eq!(found.len(), expected.len(), "{name}");
        for (device, expected) in &expected {
            let fields = |line: &String| line.split(" Some((").next().unwrap_or_default().to_owned();
            let of = |lines: &[String]| lines.iter().map(fields).collect::<Vec<_>>();
            assert_eq!(of(&found[device]), of(expected), "{name} {device}");
        }
        assert!(ascends && again.skips().is_empty(), "{name}: {}", again.skips());
    }
}

/// Gaps between times, offsets and lengths around the greatest ones that a row in memory holds, of two devices in turn.
#[test]
fn large_numbers_survive() {
    const MAX: u64 = u32::MAX as u64;
    let numbers = [512, MAX, 4096, MAX + 1 - 512, MAX + 1, 1 << 40, MAX - 1, 1, 0];
    let offset = |number: u64| if number.is_multiple_of(2) { number * 512 } else { number * 512 + 1 };
    let mut at = 1 << 62;
    let mut records = Vec::new();
    for (n, (gap, place)) in numbers.iter().flat_map(|gap| numbers.map(|place| (gap, place))).enumerate() {
        at += gap;
        let (device, op) = (DeviceId(n as u32 % 2), if n % 3 == 0 { Op::Read } else { Op::Write });
        records.push(Record::new(Time::from_nanos(at), device, op, offset(place), place.max(1)));
    }
    let mut file = Vec::new();
    let mut writer = ParquetWriter::new(&mut file, "test").unwrap();
    writer.meet(["0", "1"]);
    writer.write_batch(&records, |_| None::<&str>).unwrap();
    writer.finish().unwrap();
    for device in 0..2 {
        let name = device.to_string();
        let options = Options { device: DeviceChoice::Named(name), ..ALL.clone() };
        let read = common::open("x", &file, &options).unwrap().map(Result::unwrap);
        // The only device of a choice has the number of its first row group.
        let read: Vec<Record> = read.map(|record| Record { device: DeviceId(device), ..record }).collect();
        let written: Vec<Record> =
            records.iter().copied().filter(|record| record.device.0 == device).collect();
        assert_eq!(read, written);
    }
}

/// Operations of a row group: one, two and all.
#[test]
fn every_mixture_of_operations_survives() {
    for (count, of) in [(1, 1), (8, 1), (7, 2), (8, 2), (1_001, 2), (1_000, 4)] {
        for first in [Op::Read, Op::Write, Op::Discard] {
            let all = [first, if first == Op::Write { Op::Read } else { Op::Write }, Op::Discard, Op::Flush];
            let record = |n: u64| {
                let op = all[(n * n / 3) as usize % of];
                Record::new(Time::from_nanos(n), DeviceId(0), op, n * 4096, 4096)
            };
            let records: Vec<Record> = (0..count).map(record).collect();
            let mut file = Vec::new();
            let mut writer = ParquetWriter::new(&mut file, "test").unwrap();
            writer.meet(["0"]);
            writer.write_batch(&records, |_| None::<&str>).unwrap();
            writer.finish().unwrap();
            let read: Vec<Op> =
                common::open("x", &file, &ALL).unwrap().map(|record| record.unwrap().op).collect();
            assert!(read.into_iter().eq(records.iter().map(|record| record.op)), "{count} {of} {first:?}");
        }
    }
}

/// Lines of several devices in turn.
fn several(requests: u32) -> String {
    let line = |n: u32| format!("{}.5 {} {} 8 {}\n", n / 3, n % 5, u64::from(n) * 8, n % 2);
    (0..requests).map(line).collect()
}

#[test]
fn one_device_is_read_without_the_others() {
    let text = several(1_000);
    let parquet = written(&mut common::open("a.ascii", text.as_bytes(), &ALL).unwrap());
    let path = std::env::temp_dir().join(format!("dwell-traces-{}.parquet", std::process::id()));
    std::fs::write(&path, &parquet).unwrap();
    let open = |device: DeviceChoice| {
        let options = Options { device, ..ALL };
        dwell_traces::open_file("a.parquet", File::open(&path).unwrap(), &options).unwrap()
    };
    for device in 0..5 {
        let chosen = DeviceChoice::Named(device.to_string());
        let mut original =
            common::open("a.ascii", text.as_bytes(), &Options { device: chosen.clone(), ..ALL }).unwrap();
        let mut one = open(chosen);
        assert_eq!(lines(&mut one).0, lines(&mut original).0);
        assert!(one.devices().iter().all(|entry| entry.requests == 200), "{:?}", one.devices());
    }
    let mut single = open(DeviceChoice::Single);
    assert!(single.find_map(Result::err).unwrap().to_string().contains("several devices"));
    let mut none = open(DeviceChoice::Named("7".to_owned()));
    assert!(none.next().unwrap().unwrap_err().to_string().contains("there is no request of device '7'"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn any_number_of_row_groups_is_read() {
    // The reader decodes the groups in parts of 256.
    for devices in [0_u32, 1, 14, 15, 256, 300, 600] {
        let mut bytes = Vec::new();
        let mut writer = ParquetWriter::new(&mut bytes, "test").unwrap();
        let record = |n: u32| Record::new(Time::from_nanos(n.into()), DeviceId(n), Op::Read, 0, 512);
        for n in 0..devices {
            writer.write(&record(n), None).unwrap();
        }
        writer.finish().unwrap();
        let recording = common::open("a.parquet", &bytes, &ALL).unwrap();
        let found: Vec<Record> = recording.map(Result::unwrap).collect();
        assert_eq!(found, (0..devices).map(record).collect::<Vec<_>>());
        let mut stored = Vec::new();
        let writer = ParquetWriter::new(&mut stored, "test").unwrap();
        let mut writer = writer.with_group_store(Arc::new(Memory::default()));
        (0..devices).for_each(|n| writer.write(&record(n), None).unwrap());
        writer.finish().unwrap();
        assert!(stored == bytes, "the file depends on where the groups' descriptions are kept");
    }
}

/// A place for descriptions of row groups.
#[derive(Default)]
struct Memory(Mutex<Vec<u8>>);

impl GroupStore for Memory {
    fn append(&self, bytes: &[u8]) -> io::Result<u64> {
        let mut all = self.0.lock().unwrap();
        all.extend_from_slice(bytes);
        Ok((all.len() - bytes.len()) as u64)
    }

    fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self.0.lock().unwrap()[from as usize..from as usize + into.len()]);
        Ok(())
    }
}

/// Files of other programs; `tests/parquet/generate.py` writes them.
#[test]
fn zstandard_is_read() {
    for (name, bytes) in [
        ("zstd-polars", &include_bytes!("parquet/zstd-polars.parquet")[..]),
        ("zstd-pyarrow", include_bytes!("parquet/zstd-pyarrow.parquet")),
    ] {
        let mut recording = common::open(name, bytes, &ALL).unwrap();
        for n in 0..1_500_u64 {
            let at = Time::from_nanos(n * 1_000 + n * n % 700);
            let op = if n % 2 == 1 { Op::Write } else { Op::Read };
            let device = DeviceId(u32::from(n % 3 != 0));
            let mut expected = Record::new(at, device, op, n * n % 99_991 * 512, 512 * (1 + n % 8));
            let latency = Span::from_nanos(50_000 + n * n % 9_000);
            expected.completed = (n % 7 != 0).then(|| at + latency);
            assert_eq!(recording.next().unwrap().unwrap(), expected, "{name}, row {n}");
        }
        assert!(recording.next().is_none() && recording.skips().is_empty(), "{name}: {}", recording.skips());
        let devices: Vec<&str> = recording.devices().iter().map(|device| device.name.as_str()).collect();
        assert_eq!(devices, ["8,16", "8,0"], "{name}");
    }
}

/// Columns that recordings do not have, of types and in a compression that are not read, do not matter.
#[test]
fn other_columns_are_ignored() {
    let bytes = include_bytes!("parquet/other-columns.parquet");
    let mut recording = common::open("a.parquet", bytes, &ALL).unwrap();
    for n in 0..20_u64 {
        let at = Time::from_nanos(n * 1_000 + n * n % 700);
        let op = if n % 2 == 1 { Op::Write } else { Op::Read };
        let expected = Record::new(at, DeviceId(0), op, n * n % 99_991 * 512, 512 * (1 + n % 8));
        assert_eq!(recording.next().unwrap().unwrap(), expected, "row {n}");
    }
    assert!(recording.next().is_none());
}

#[test]
fn damaged_zstandard_is_an_error_or_read() {
    let parquet = include_bytes!("parquet/zstd-pyarrow.parquet");
    // Behind the first bytes: pages. The index at the end is damaged by the test below.
    for at in (4..parquet.len() / 2).step_by(17) {
        let mut bytes = parquet.to_vec();
        bytes[at] ^= 0x55;
        if let Ok(recording) = common::open("a.parquet", &bytes, &ALL) {
            assert!(recording.take(2_000).count() <= 1_501, "byte {at}");
        }
    }
}

#[test]
fn threads_write_the_same_file() {
    // Full row groups of three devices, in which few columns have few values, and one has all.
    let record = |n: u64| {
        let mut record =
            Record::new(Time::from_nanos(n * 10), DeviceId(n as u32 % 3), Op::Write, n * n % (1 << 40), 512);
        record.bytes *= 1 + if n < 300_000 { n % 37 } else { n };
        record.flags.sync = n % 200_000 == 7;
        record.completed = (!n.is_multiple_of(5)).then(|| Time::from_nanos(n * 10 + n % 1_000));
        record.process = (n > 400_000).then_some(Pid(n as u32));
        record.priority = n.is_multiple_of(2).then_some(Priority { class: PriorityClass::Idle, level: 7 });
        record
    };
    let records: Vec<Record> = (0..600_000).map(record).collect();
    let name = |record: &Record| record.process.map(|pid| format!("name {}", pid.0 / 20_000));
    let write = |encoders: Option<Arc<Encoders>>| {
        let mut bytes = Vec::new();
        let mut writer = ParquetWriter::new(&mut bytes, "test").unwrap();
        if let Some(encoders) = encoders {
            writer = writer.with_encoders(encoders);
        }
        writer.meet(["a", "b", "c"]);
        for record in &records {
            writer.write(record, name(record).as_deref()).unwrap();
        }
        assert_eq!(writer.finish().unwrap().written, 600_000);
        bytes
    };
    let bytes = write(None);
    assert!(write(Some(Arc::new(Encoders::new(3)))) == bytes, "the file depends on threads");
    let mut recording = common::open("a.parquet", &bytes, &ALL).unwrap();
    for expected in &records {
        let found = recording.next().unwrap().unwrap();
        let found_name = found.process.and_then(|pid| recording.process_name(pid));
        // Names are kept for a limited number of processes.
        let expected_name = name(expected).filter(|_| found_name.is_some());
        assert_eq!((&found, found_name), (expected, expected_name));
    }
    assert!(recording.next().is_none());
    assert_eq!(
        recording.devices().iter().map(|device| device.name.as_str()).collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
}

#[test]
fn a_split_writes_the_file_that_each_device_has_alone() {
    let record = |n: u64| {
        let mut record =
            Record::new(Time::from_nanos(n * 10), DeviceId((n * n % 3) as u32), Op::Read, n * 512, 512);
        record.process = n.is_multiple_of(3).then_some(Pid(n as u32 % 7));
        record
    };
    let records: Vec<Record> = (0..400_000).map(record).collect();
    let name = |pid: Pid| (pid.0 > 2).then(|| format!("name {}", pid.0));
    let mut files = [Vec::new(), Vec::new()];
    let mut writer = ParquetWriter::split("test").unwrap();
    for (device, file) in (0..).zip(&mut files) {
        writer.open(DeviceId(device), file).unwrap();
    }
    writer.meet(["a", "b"]);
    records.chunks(1_000).for_each(|records| writer.write_batch(records, name).unwrap());
    assert_eq!(writer.finish().unwrap().written, 400_000);
    for (device, file) in files.iter().enumerate() {
        let mut alone = Vec::new();
        let mut writer = ParquetWriter::new(&mut alone, "test").unwrap();
        writer.meet([["a", "b"][device]]);
        for record in records.iter().filter(|record| record.device.0 as usize == device) {
            let name = record.process.and_then(name);
            writer.write(&Record { device: DeviceId(0), ..*record }, name.as_deref()).unwrap();
        }
        writer.finish().unwrap();
        assert!(*file == alone, "device {device}: {} and {} bytes", file.len(), alone.len());
    }
    let mut writer = ParquetWriter::<Vec<u8>>::split("test").unwrap();
    writer.write(&record(0), None).unwrap();
    assert!(writer.finish().is_err(), "the device has no file");
}

#[test]
fn a_changed_bit_in_a_page_is_an_error() {
    let text = several(1_000);
    let parquet = written(&mut common::open("a.ascii", text.as_bytes(), &ALL).unwrap());
    let footer = parquet[parquet.len() - 8..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let pages = 4..parquet.len() - 8 - footer as usize;
    let read = |bytes: &[u8]| -> Option<Vec<Record>> {
        common::open("a.parquet", bytes, &Options { strict: true, ..ALL })
            .ok()?
            .collect::<Result<_, _>>()
            .ok()
    };
    let expected = read(&parquet).unwrap();
    assert_eq!(expected.len(), 1_000);
    let (mut changed, mut tried) = (Vec::new(), 0);
    for at in pages.step_by(3) {
        let mut bytes = parquet.clone();
        bytes[at] ^= 1 << (at % 8);
        tried += 1;
        if read(&bytes).is_some_and(|found| found != expected) {
            changed.push(at);
        }
    }
    // Headers of pages have no checksum.
    assert!(tried > 300 && changed.len() < tried / 100, "{changed:?} of {tried}");
}

#[test]
fn damaged_files_are_errors_or_read() {
    let parquet = written(&mut common::open("a.ascii", several(60).as_bytes(), &ALL).unwrap());
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..3_000 {
        let mut bytes = parquet.clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] ^= 1 << random(8),
                1 => bytes[at] = random(256) as u8,
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at + 1),
            }
        }
        if let Ok(recording) = common::open("a.parquet", &bytes, &ALL) {
            assert!(recording.take(1_000).count() < 1_000);
        }
    }
}
