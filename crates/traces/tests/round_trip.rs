//! Records that were written and read again are equal in all fields that the format can express.

mod common;

use std::collections::HashMap;
use std::fmt::Write as _;

use common::{external, open, read, repository};
use dwell_traces::write::{Compressed, Field, Writer, Written};
use dwell_traces::{DeviceChoice, Format, Oddity, Options, Position, Record, Recording};
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

/// The formats that are written.
fn written() -> impl Iterator<Item = Format> {
    Format::ALL.iter().copied().filter(|format| format.holds().is_some())
}

/// Writes records in a format; returns the bytes, and what was written.
fn write(format: Format, records: &[Record], recording: &Recording) -> (Vec<u8>, Written) {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(format, &mut bytes, recording.devices(), "of a test").unwrap();
    for record in records {
        let process = record.process.and_then(|pid| recording.process_name(pid));
        writer.write(record, process.as_deref()).unwrap();
    }
    let written = writer.finish().unwrap();
    assert_eq!(written.written + written.left_out, records.len() as u64);
    (bytes, written)
}

/// Writes records in a format and compares what is read back in every field that the format holds. `pairs`: completions are compared in formats of
/// events, too, which match them by their sectors.
fn check(format: Format, name: &str, records: &[Record], recording: &Recording, pairs: bool) {
    let holds = format.holds().unwrap();
    let has = |field| holds.fields.has(field);
    let (bytes, written) = write(format, records, recording);
    let is_kept = |record: &&Record| match record.op {
        Op::Discard => has(Field::Discards),
        Op::Flush => has(Field::Flushes),
        Op::Read | Op::Write => true,
    };
    let mut kept: Vec<Record> = records.iter().filter(is_kept).copied().collect();
    if format == Format::DiskSimValidate {
        // One request at a time, each with a completion.
        let mut ended = Time::ZERO;
        kept.retain(|record| {
            let fits = record.at >= ended && record.completed.is_some();
            ended = record.completed.filter(|_| fits).unwrap_or(ended);
            fits
        });
    }
    if format == Format::Vscsi || format == Format::Srt || format == Format::Blktrace {
        kept.retain(|record| record.bytes < 1 << 32);
    }
    assert_eq!(written.written, kept.len() as u64, "{format} {name}");
    if kept.is_empty() {
        return;
    }
    // Dense or strange times of the corpus may suggest another unit.
    let options = Options { format: Some(format), unit: None, ..all() };
    let (again, reread) = read("again", &bytes, &options).unwrap();
    assert_eq!(again.len(), kept.len(), "{format} {name}");
    let unit = holds.resolution.as_nanos();
    let tolerance = if format == Format::Tencent { 2 * unit } else { unit };
    let span = |of: &[Record], index: usize| of[index].at.as_nanos() - of[0].at.as_nanos();
    let mut devices = HashMap::new();
    for (index, (record, again_record)) in kept.iter().zip(&again).enumerate() {
        let moved = span(&kept, index).abs_diff(span(&again, index));
        let again = again_record;
        let context = format!("{format} {name} {index}: {record:?} {again:?}");
        assert!(moved < tolerance, "{context}");
        assert_eq!(record.op, again.op, "{context}");
        if has(Field::Devices) {
            assert_eq!(*devices.entry(record.device).or_insert(again.device), again.device, "{context}");
        }
        if has(Field::Bytes) {
            assert_eq!((record.offset, record.bytes), (again.offset, again.bytes), "{context}");
        } else {
            let start = |record: &Record| if record.op == Op::Flush { 0 } else { record.start().0 };
            let extent = |record: &Record| (start(record), record.sectors());
            assert_eq!(extent(record), extent(again), "{context}");
        }
        let latency = |record: &Record| record.latency().map(|latency| latency.as_nanos() / unit);
        // The completion of a flush has no sectors: it ends the oldest one.
        let is_paired = pairs && (record.op != Op::Flush || has(Field::Bytes));
        if has(Field::Completions) && is_paired {
            let expected = latency(record).or((!has(Field::NoCompletion)).then_some(0));
            assert_eq!(expected, latency(again), "{context}");
        }
        if has(Field::Synchronous) && record.op != Op::Flush {
            assert_eq!(record.flags.sync, again.flags.sync, "{context}");
        }
        if has(Field::Flags) && record.op != Op::Flush {
            assert_eq!(record.flags, again.flags, "{context}");
        }
        if has(Field::Priorities) {
            assert_eq!(record.priority, again.priority, "{context}");
        }
        if has(Field::Processes) {
            assert_eq!(record.process, again.process.filter(|pid| pid.0 > 0), "{context}");
        }
        if has(Field::Names) {
            let names = [recording, &reread].map(|of| record.process.and_then(|pid| of.process_name(pid)));
            assert_eq!(names[0], names[1], "{context}");
        }
    }
}

#[test]
fn every_recording_is_read_back_from_every_format() {
    for (name, records, recording) in &recordings() {
        for format in written() {
            check(format, name, records, recording, name.contains("pgbench") && format != Format::Blktrace);
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
    for (name, records, recording) in &recordings {
        written().for_each(|format| check(format, name, records, recording, true));
    }
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
    for (name, records, recording) in &recordings() {
        let (bytes, written) = write(Format::Dwell, records, recording);
        assert!(written.lost.is_empty() && written.rounded == 0, "{name}: {}", written.lost);
        let (again, reread) = read("again", &bytes, &all()).unwrap();
        assert!(again == *records, "{name}");
        let devices = |recording: &Recording| -> Vec<_> {
            let used = recording.devices().iter().filter(|device| device.requests > 0);
            used.map(|device| device.name.clone()).collect()
        };
        assert_eq!(devices(recording), devices(&reread), "{name}");
    }
}

/// Random records of several devices and processes, in Dwell's format. Each has sectors of its own, because formats of events match completions by
/// sectors.
fn random(seed: u64) -> String {
    let mut random = elevator::Random::new(seed);
    let mut text = "# dwell recording 1\n".to_owned();
    let mut at = random.below(1_000_000_000_000);
    let parts = if seed.is_multiple_of(2) { 1 } else { 512 };
    for n in 1..=300 {
        at += random.below(3) * random.below(40_000_000);
        let response = match random.below(5) {
            0 => "-".to_owned(),
            1 => "0".to_owned(),
            _ => random.below(30_000_000).to_string(),
        };
        let device = ["8,0", "259,1", "17"][random.below(3) as usize];
        let letters = ["R", "RA", "RSM", "W", "WS", "WFS", "FWS", "D", "FWS"][random.below(9) as usize];
        let is_flush = letters == "FWS" && random.below(2) == 0;
        let (offset, bytes) = match is_flush {
            true => (0, 0),
            false => {
                (n * (1 << 30) + random.below(1 << 20) / parts * parts, (1 + random.below(2_000)) * parts)
            }
        };
        let priority = ["-", "be4", "rt0", "idle7"][random.below(4) as usize];
        let process = ["-", "7 a name", "4242 x[1]", "9 k:1"][random.below(4) as usize];
        text += &format!("{at} {response} {device} {letters} {offset} {bytes} {priority} {process}\n");
    }
    text
}

#[test]
fn random_records_are_read_back_from_every_format() {
    for seed in 1..=20 {
        let (records, recording) = read("random", random(seed).as_bytes(), &all()).unwrap();
        assert_eq!(records.len(), 300);
        for format in written() {
            check(format, &format!("seed {seed}"), &records, &recording, true);
        }
    }
}

/// Random records of few extents that overlap, a third of them without a completion, in Dwell's format. One is issued every 10 ms.
fn overlapping(seed: u64, response_most: u64) -> String {
    let mut random = elevator::Random::new(seed);
    let mut text = "# dwell recording 1\n".to_owned();
    for n in 0..400_u64 {
        let response = match random.below(3) {
            0 => "-".to_owned(),
            _ => (1 + random.below(response_most)).to_string(),
        };
        let letters = ["R", "W", "WFS", "D", "FWS"][random.below(5) as usize];
        let (offset, bytes) = match letters {
            "FWS" => (0, 0),
            _ => (4096 * (1 + random.below(3)), 4096 << random.below(3)),
        };
        let device = ["8,0", "259,1"][random.below(2) as usize];
        text += &format!("{} {response} {device} {letters} {offset} {bytes} - 7 x\n", n * 10_000_000);
    }
    text
}

#[test]
fn a_request_without_a_completion_gets_none_of_another_one() {
    for seed in 1..=20 {
        // The first without others in flight that complete: only those may exchange their completions.
        for (response_most, is_alone) in [(9_000_000, true), (60_000_000, false)] {
            let text = overlapping(seed, response_most);
            let (records, recording) = read("few", text.as_bytes(), &all()).unwrap();
            for format in [Format::Ftrace, Format::Blkparse, Format::Blktrace] {
                let (bytes, written) = write(format, &records, &recording);
                let (again, _) = read("again", &bytes, &Options { format: Some(format), ..all() }).unwrap();
                assert_eq!(again.len(), records.len());
                let mut without = 0;
                for (record, again) in records.iter().zip(&again) {
                    let extent = |record: &Record| (record.op, record.offset, record.bytes);
                    let context = format!("{format} {seed}: {record:?} {again:?}");
                    assert_eq!(extent(record), extent(again), "{context}");
                    assert!(record.completed.is_some() || again.completed.is_none(), "{context}");
                    without += u64::from(record.completed.is_some() && again.completed.is_none());
                    if is_alone && again.completed.is_some() {
                        assert_eq!(record.latency(), again.latency(), "{context}");
                    }
                }
                assert!(without > 0 && without == written.uncompleted, "{without} {}", written.uncompleted);
            }
        }
    }
}

#[test]
fn a_recording_of_no_request_is_read_back() {
    let (records, recording) = read("none", b"# dwell recording 1\n", &all()).unwrap();
    assert!(records.is_empty());
    for format in written() {
        let (bytes, _) = write(format, &records, &recording);
        let (again, reread) = read("again", &bytes, &Options { format: Some(format), ..all() }).unwrap();
        assert!(again.is_empty() && reread.skips().is_empty(), "{format}");
    }
}

/// The requests before it are read in batches of usual ones.
#[test]
fn a_flush_with_an_extent_among_many_requests_has_none() {
    let mut text = "# dwell recording 1\n".to_owned();
    let lines = 300_000;
    for line in 0..lines {
        let op = if line == lines - 100 { "F" } else { "R" };
        writeln!(text, "{line} 5 a {op} 4096 4096 - -").unwrap();
    }
    let mut recording = open("many", text.as_bytes(), &all()).unwrap();
    let (mut batch, mut flushes) = (Vec::new(), Vec::new());
    while recording.read_batch(&mut batch).unwrap() {
        flushes.extend(
            batch.iter().filter(|record| record.op == Op::Flush).map(|record| (record.offset, record.bytes)),
        );
    }
    assert_eq!(flushes, [(0, 0)]);
    assert_eq!(recording.skips().get(Oddity::FlushExtent).first, Some(Position::Line(lines - 98)));
}

#[test]
fn a_flush_has_no_extent() {
    let text = "# dwell recording 1\n0 5 a F 4096 4096 - -\n10 5 a FF 0 0 - -\n20 5 a FF 512 0 - -\n\
        30 5 a FWFSM 0 0 - -\n40 5 a FW 4096 512 - -\n";
    let (records, recording) = read("flushes", text.as_bytes(), &all()).unwrap();
    let tally = recording.skips().get(Oddity::FlushExtent);
    assert_eq!((tally.count, tally.first), (2, Some(Position::Line(2))));
    let of = |record: &Record| (record.op, record.offset, record.bytes, record.flags.preflush);
    let flush = (Op::Flush, 0, 0, false);
    let expected = [flush, flush, flush, flush, (Op::Write, 4096, 512, true)];
    assert!(records.iter().map(of).eq(expected), "{records:?}");
    for format in written() {
        check(format, "flushes", &records, &recording, true);
        let (bytes, written) = write(format, &records, &recording);
        let again = read("again", &bytes, &Options { format: Some(format), ..all() }).unwrap().1;
        assert_eq!(again.skips().get(Oddity::FlushExtent).count, 0, "{format}");
        // The fourth one has flags.
        let has_flags = format.holds().unwrap().fields.has(Field::Flags);
        assert_eq!(written.lost.has(Field::Flags), !has_flags, "{format}");
    }
}

#[test]
fn the_fields_that_a_format_lacks_are_named() {
    let text = "# dwell recording 1\n0 - a RA 512 512 be4 7 x\n5 7 b W 3 9 - -\n";
    let (records, recording) = read("two", text.as_bytes(), &all()).unwrap();
    let lost = |format| write(format, &records, &recording).1.lost.to_string();
    assert_eq!(lost(Format::Dwell), "");
    assert_eq!(
        lost(Format::Vscsi),
        "several devices, missing response times (0 instead), other flags, priorities, processes, names of processes, parts of a sector"
    );
    assert_eq!(lost(Format::Ftrace), "parts of a sector");
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
    let mut writer = Writer::new(Format::Blkparse, &mut bytes, &[], "").unwrap();
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
