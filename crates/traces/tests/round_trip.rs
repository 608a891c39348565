//! Records that were written and read again are equal in all fields that the format can express.

mod common;

use common::{external, open, read, repository};
use dwell_traces::write::{BlkparseWriter, Compressed, DiskSimWriter, DwellWriter, FioWriter, Written};
use dwell_traces::{DeviceChoice, Options, Record, Recording};
use elevator::{Op, Time};

fn all() -> Options {
    Options { device: DeviceChoice::All, ..Options::default() }
}

type Read = (String, Vec<Record>, Recording);

fn read_all(files: Vec<(String, Vec<u8>)>) -> Vec<Read> {
    let read_one = |(name, bytes): (String, Vec<u8>)| {
        let (records, recording) = read(&name, &bytes, &all()).ok()?;
        Some((name, records, recording))
    };
    files.into_iter().filter_map(read_one).collect()
}

/// The corpus and the bundled recordings, except files that have an error.
fn recordings() -> Vec<Read> {
    let mut files = common::corpus();
    for name in ["pgbench.ftrace.gz", "two-greps-and-a-copy.ftrace.gz"] {
        files.push((name.to_owned(), repository(&format!("recordings/{name}"))));
    }
    read_all(files)
}

#[test]
fn disksim_ascii_is_read_back() {
    disksim_ascii(&recordings());
}

fn disksim_ascii(recordings: &[Read]) {
    for (name, records, _) in recordings {
        let mut bytes = Vec::new();
        let mut writer = DiskSimWriter::new(&mut bytes);
        records.iter().for_each(|record| writer.write(record).unwrap());
        let Written { written, left_out, .. } = writer.finish().unwrap();
        assert_eq!(written + left_out, records.len() as u64);
        if written == 0 {
            continue;
        }
        let kept = records.iter().filter(|record| matches!(record.op, Op::Read | Op::Write));
        let expected: Vec<_> = kept.map(|r| (r.at, r.op, r.start(), r.sectors())).collect();
        let again = read("again.ascii", &bytes, &all()).unwrap().0;
        let again: Vec<_> = again.iter().map(|r| (r.at, r.op, r.start(), r.sectors())).collect();
        assert!(again == expected, "{name}");
    }
}

#[test]
fn fio_iolog_is_read_back() {
    fio_iolog(&recordings());
}

fn fio_iolog(recordings: &[Read]) {
    for (name, records, recording) in recordings {
        let mut bytes = Vec::new();
        let mut writer = FioWriter::new(&mut bytes, recording.devices()).unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        assert_eq!(writer.finish().unwrap().written, records.len() as u64);
        let micros = |at: Time| Time::from_nanos(at.as_nanos() / 1_000 * 1_000);
        let expected: Vec<_> = records.iter().map(|r| (micros(r.at), r.op, r.offset, r.bytes)).collect();
        let again = read("again.iolog", &bytes, &all()).unwrap().0;
        let again: Vec<_> = again.iter().map(|r| (r.at, r.op, r.offset, r.bytes)).collect();
        assert!(again == expected, "{name}");
    }
}

#[test]
fn blkparse_text_is_read_back() {
    blkparse_text(&recordings());
}

fn blkparse_text(recordings: &[Read]) {
    for (name, records, recording) in recordings {
        let mut bytes = Vec::new();
        let mut writer = BlkparseWriter::new(&mut bytes, recording.devices());
        for record in records {
            let process = record.process.and_then(|pid| recording.process_name(pid));
            writer.write(record, process.as_deref()).unwrap();
        }
        assert_eq!(writer.finish().unwrap().written, records.len() as u64);
        let (again, reread) = read("again.blkparse", &bytes, &all()).unwrap();
        assert_eq!(again.len(), records.len(), "{name}\n{}", String::from_utf8_lossy(&bytes));
        for (record, again) in records.iter().zip(&again) {
            let comparable = |r: &Record| (r.at, r.op, r.start(), r.sectors(), r.flags.sync, r.process);
            assert_eq!(comparable(record), comparable(again), "{name}");
            let names = [recording, &reread].map(|of| record.process.and_then(|pid| of.process_name(pid)));
            assert_eq!(names[0], names[1], "{name}");
        }
        let completions = |records: &[Record]| {
            let mut times: Vec<_> = records.iter().filter_map(|record| record.completed).collect();
            times.sort_unstable();
            times
        };
        if name.contains("greps") || name.contains("pgbench") {
            assert!(completions(records) == completions(&again), "{name}");
        }
    }
}

#[test]
fn the_real_recordings_pair_completely() {
    for (name, starts, issued_bytes) in
        [("pgbench", 26_020, 184_401_920_u64), ("two-greps-and-a-copy", 11_134, 656_179_200)]
    {
        let bytes = repository(&format!("recordings/{name}.ftrace.gz"));
        let (records, recording) = read(name, &bytes, &Options::default()).unwrap();
        assert_eq!(records.len(), starts);
        assert!(records.iter().all(|record| record.completed.is_some()));
        // The sum over block_rq_issue's own byte counts: merging neither lost nor doubled any.
        assert_eq!(records.iter().map(|record| record.bytes).sum::<u64>(), issued_bytes);
        assert!(recording.skips().is_empty(), "{}", recording.skips());
    }
}

#[test]
fn every_measured_drive_is_read() {
    for drive in [
        "atlas_III",
        "barracuda",
        "cheetah4LP",
        "cheetah9LP",
        "dec_rz26",
        "hp_c2247a",
        "hp_c3323a",
        "st41601n",
    ] {
        let bytes = repository(&format!("crates/disks/tests/disksim/measured/{drive}.trace.gz"));
        let (records, recording) = read(drive, &bytes, &Options::default()).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text).unwrap();
        assert_eq!(records.len(), text.lines().count(), "{drive}");
        assert!(recording.skips().is_empty(), "{drive}");
        assert!(records.windows(2).all(|pair| pair[0].completed.unwrap() <= pair[1].at));
    }
}

#[test]
#[ignore = "needs MQSim's TPC-C trace: set DWELL_SHARED to a folder with traces/tpcc-small.mqsim.trace"]
fn a_published_mqsim_trace_is_read_back_from_every_format() {
    let bytes = external("traces/tpcc-small.mqsim.trace");
    let recordings = read_all(vec![("tpcc-small.mqsim.trace".to_owned(), bytes)]);
    assert_eq!(recordings.len(), 1);
    disksim_ascii(&recordings);
    fio_iolog(&recordings);
    blkparse_text(&recordings);
    dwells_own(&recordings);
}

#[test]
#[ignore = "needs a CloudPhysics trace: set DWELL_SHARED to a folder with traces/cloudphysics-vm.vscsi.csv.gz"]
fn cloudphysics_times_span_two_hours() {
    let bytes = external("traces/cloudphysics-vm.vscsi.csv.gz");
    let (records, recording) = read("cloudphysics", &bytes, &Options::default()).unwrap();
    assert_eq!(records.len(), 113_872);
    assert!(recording.interpretation().to_string().contains("seconds (judged"));
    let hours = recording.interpretation().span.as_secs_f64() / 3_600.0;
    assert!((1.99..2.01).contains(&hours));
    let options = Options { seed: 2, ..Options::default() };
    let other = read("cloudphysics", &bytes, &options).unwrap().0;
    assert!(records != other && records == read("again", &bytes, &Options::default()).unwrap().0);
}

#[test]
fn the_bundled_recordings_are_described() {
    let bytes = repository("recordings/pgbench.ftrace.gz");
    let info =
        dwell_traces::Info::of(&mut open("pgbench.ftrace.gz", &bytes, &Options::default()).unwrap()).unwrap();
    assert_eq!((info.reads.requests, info.flushes), (10_052, 5_520));
    assert_eq!(info.interpretation.requests, 26_020);
    assert!(info.read_ahead > 0.9 && info.sync_writes > 0.5);
    let latency = info.latency.unwrap();
    assert!(latency.p50_ns <= latency.p99_ns && latency.p99_ns <= latency.max_ns && latency.depth_max > 4);
    let postgres = info.processes.iter().filter(|row| row.name.as_deref() == Some("postgres")).count();
    assert!(postgres >= 4);
    serde_json::to_string(&info).unwrap();
}

#[test]
fn the_dwell_format_is_read_back_completely() {
    dwells_own(&recordings());
}

fn dwells_own(recordings: &[Read]) {
    for (name, records, recording) in recordings {
        let mut bytes = Vec::new();
        let mut writer =
            DwellWriter::new(&mut bytes, recording.devices().iter().map(|d| &d.name), "of a test").unwrap();
        for record in records {
            let process = record.process.and_then(|pid| recording.process_name(pid));
            writer.write(record, process.as_deref()).unwrap();
        }
        assert_eq!(writer.finish().unwrap().written, records.len() as u64);
        let (again, reread) = read("again", &bytes, &all()).unwrap();
        assert!(again == *records, "{name}");
        let named = |recording: &Recording| -> Vec<_> {
            records.iter().map(|record| recording.process_name(record.process?)).collect()
        };
        assert!(named(recording) == named(&reread), "{name}");
        let devices = |recording: &Recording| -> Vec<_> {
            let used = recording.devices().iter().filter(|device| device.requests > 0);
            used.map(|device| device.name.clone()).collect()
        };
        assert_eq!(devices(recording), devices(&reread), "{name}");
    }
}

#[test]
fn compressed_files_are_read_by_extension() {
    let text: String = (0..60_000).map(|n| format!("{}.5 0 {} 8 1\n", n * 3, n * 64)).collect();
    for name in ["a.ascii", "a.ascii.gz", "a.ascii.zst"] {
        let mut sink = Compressed::new(name, Vec::new());
        std::io::Write::write_all(&mut sink, text.as_bytes()).unwrap();
        let bytes = sink.finish().unwrap();
        assert_eq!(bytes == text.as_bytes(), name == "a.ascii");
        assert_eq!(read(name, &bytes, &all()).unwrap().0.len(), 60_000, "{name}");
    }
}

#[test]
fn a_process_name_with_a_line_break_stays_on_one_line() {
    let mut record = Record::new(Time::ZERO, dwell_traces::DeviceId(0), Op::Read, 4096, 4096);
    record.process = Some(dwell_traces::Pid(7));
    let mut bytes = Vec::new();
    let mut writer = BlkparseWriter::new(&mut bytes, &[]);
    writer.write(&record, Some("two\nlines")).unwrap();
    writer.finish().unwrap();
    let (again, recording) = read("again.blkparse", &bytes, &all()).unwrap();
    assert!(recording.skips().is_empty(), "{}", recording.skips());
    assert_eq!((again.len(), again[0].process), (1, record.process));
}

#[test]
fn mean_requests_in_flight_do_not_exceed_the_maximum() {
    let text = "# dwell recording 1\n0 100000000 8,0 R 0 4096 - -\n1000000 100000000 8,0 R 4096 4096 - -\n";
    let mut recording = open("short.dwell", text.as_bytes(), &Options::default()).unwrap();
    let latency = dwell_traces::Info::of(&mut recording).unwrap().latency.unwrap();
    assert_eq!(latency.depth_max, 2);
    // Both for 99 ms, one of them before and one behind for 1 ms.
    assert!((latency.depth_mean - 200.0 / 101.0).abs() < 1e-9, "{}", latency.depth_mean);
}
