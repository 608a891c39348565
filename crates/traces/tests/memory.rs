//! Memory for a Parquet file of many devices. A program of its own: other tests would count.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::BufWriter;

use dwell_traces::write::ParquetWriter;
use dwell_traces::{DeviceChoice, DeviceId, Options, Pid, Record};
use elevator::{Op, Span, Time};

const DEVICES: u32 = 20_000;
/// Of each device: more than a batch of so many devices has, so that the groups are opened again.
const ROWS: u32 = 60;

/// A number of kilobytes in `/proc/self/status`.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn record(row: u32, device: u32) -> Record {
    let at = Time::from_nanos(u64::from(row) * u64::from(DEVICES) + u64::from(device));
    let op = if (row + device).is_multiple_of(3) { Op::Write } else { Op::Read };
    let mut record = Record::new(at, DeviceId(device), op, u64::from(row * 7919 + device) * 512, 4096);
    record.completed = (!row.is_multiple_of(5)).then(|| at + Span::from_nanos(device.into()));
    record.process = (!row.is_multiple_of(7)).then_some(Pid(1 + device));
    record
}

#[test]
fn a_device_needs_few_kilobytes() {
    let path = std::env::temp_dir().join(format!("dwell-memory-{}.parquet", std::process::id()));
    let mut writer = ParquetWriter::new(BufWriter::new(File::create(&path).unwrap()), "test").unwrap();
    for row in 0..ROWS {
        for device in 0..DEVICES {
            writer.write(&record(row, device), None).unwrap();
        }
    }
    writer.finish().unwrap();
    let options = Options { device: DeviceChoice::All, ..Options::default() };
    let mut records = dwell_traces::open_file("a.parquet", File::open(&path).unwrap(), &options).unwrap();
    for row in 0..ROWS {
        for device in 0..DEVICES {
            assert_eq!(records.next().unwrap().unwrap(), record(row, device), "row {row} of {device}");
        }
    }
    assert!(records.next().is_none());
    let peak = status("VmHWM:");
    std::fs::remove_file(&path).unwrap();
    // With the writer, 75,020 KiB; with readers of each device that stay open, 523,088 KiB.
    assert!(peak < 200 << 10, "{peak} KiB for {DEVICES} devices");
}
