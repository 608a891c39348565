//! What users will feed us: one clear error with file, line, field and what to do, or a counted skip.

mod common;

use std::io::Write;

use common::read;
use dwell_traces::{DeviceChoice, ErrorKind, Format, Oddity, Options, Position, TimeUnit};

fn error(name: &str, text: &str, options: &Options) -> String {
    match read(name, text.as_bytes(), options) {
        Ok(_) => panic!("'{name}' was read"),
        Err(error) => error.to_string(),
    }
}

fn strict() -> Options {
    Options { strict: true, ..Options::default() }
}

fn of(format: Format) -> Options {
    Options { format: Some(format), ..Options::default() }
}

#[test]
fn a_malformed_line_is_skipped_and_counted() {
    let text = "0.5 0 100 8 1\n1.5 0 1x0 8 1\n2.5 0 200 8 1\n";
    let (records, recording) = read("a.ascii", text.as_bytes(), &Options::default()).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(recording.skips().get(Oddity::Malformed).first, Some(Position::Line(2)));
    assert_eq!(
        error("a.ascii", text, &strict()),
        "a.ascii:2: bcount: expected a whole number below 2^64, found 'x0 8 1'; delete the line, or read without \
         strict, which counts it and leaves it out"
    );
}

#[test]
fn a_malformed_line_adds_no_device() {
    let all = Options { device: DeviceChoice::All, ..Options::default() };
    for (name, text) in [
        ("a.ascii", "0.5 0 100 8 1\n1.5 7 1x0 8 1\n2.5 0 200 8 1\n"),
        ("a.mqsim", "5 0 100 8 1\n15 7 1x0 8 1\n25 0 200 8 1\n"),
        ("a.trace", "# dwell recording 1\n5 - 8,0 R 0 512 - -\n6 - 7,0 R 0 x - -\n7 - 8,0 R 512 512 - -\n"),
    ] {
        let (records, recording) = read(name, text.as_bytes(), &all).unwrap();
        assert_eq!((records.len(), recording.devices().len()), (2, 1), "{name}");
    }
}

#[test]
fn a_file_of_another_format_is_an_error_and_not_an_empty_recording() {
    let text = "128166372003061629,src1,2,Read,7014609920,24576,41286\n";
    assert_eq!(
        error("src.csv", text, &of(Format::DiskSim)),
        "src.csv:1: arrival: expected a time within 584 years, found '128166372003061629,src1,2,Read,701460992'; \
         if it has another format, specify it"
    );
    for format in [Format::Vscsi, Format::Blktrace, Format::Srt] {
        let failure = error("src.csv", text, &of(format));
        assert!(failure.starts_with("src.csv, byte 0, "), "{failure}");
        assert!(failure.ends_with("; if it has another format, specify it"), "{failure}");
    }
    // FIU's files have blkparse's name and columns of their own.
    let named = "329131208190249 4892 syslogd 904265560 8 W 6 0 531e779b1d3fd9a3a3a4d5fcd28ed0b5\n";
    let failure = error("homes.blkparse", named, &Options::default());
    assert!(
        failure.ends_with("; it was detected as blkparse text; if that is wrong, specify the format"),
        "{failure}"
    );
    let noise = "lorem ipsum dolor\n".repeat(300);
    let failure = error("noise", &noise, &of(Format::Ftrace));
    assert!(failure.starts_with("noise:2: event: expected a line of an ftrace recording"), "{failure}");
    let failure = error("noise", &noise, &Options::default());
    assert!(
        failure.starts_with("noise: in none of the formats that are known; name it if it is one of ftrace")
    );
    assert_eq!(error("empty", "", &Options::default()), "empty: is empty; name a recording");
}

#[test]
fn a_truncated_recording_loses_only_its_last_line() {
    let whole = "0.5 0 100 8 1\n1.5 0 200 8 1\n2.5 0 30";
    let (records, recording) = read("a.ascii", whole.as_bytes(), &Options::default()).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(recording.skips().get(Oddity::CutShort).first, Some(Position::Line(3)));
    assert!(error("a.ascii", whole, &strict()).starts_with("a.ascii:3: truncated;"));
    for (name, bytes) in common::corpus().iter().filter(|(name, _)| name.starts_with("blktrace")) {
        let (_, recording) = read(name, &bytes[..bytes.len() - 5], &Options::default()).unwrap();
        assert_eq!(recording.skips().get(Oddity::CutShort).count, 1, "{name}");
    }
}

#[test]
fn small_clock_steps_are_corrected_and_jumps_skipped() {
    let text = "5000.5 0 100 8 1\n5000.4 0 200 8 1\n1.5 0 300 8 1\n6000.5 0 400 8 1\n";
    let (records, recording) = read("a.ascii", text.as_bytes(), &Options::default()).unwrap();
    let times: Vec<_> = records.iter().map(|record| record.at.as_nanos()).collect();
    assert_eq!(times, [5_000_500_000, 5_000_500_000, 6_000_500_000]);
    assert_eq!(recording.skips().get(Oddity::ClockBackwards).first, Some(Position::Line(2)));
    assert_eq!(recording.skips().get(Oddity::ClockJump).first, Some(Position::Line(3)));
}

#[test]
fn two_recordings_in_one_file_are_an_error() {
    let one: String = (0..3_000).map(|n| format!("{n}.5 0 {n} 8 1\n")).collect();
    let failure = error("a.ascii", &format!("{one}{one}"), &Options::default());
    assert_eq!(
        failure,
        "a.ascii:3001: time: the clock runs back by 2.000 s and stays there; sort the file by time; cut it there if it is two \
         recordings, or cut out the stamps before if they are wrong"
    );
}

#[test]
fn impossible_lengths_and_offsets_are_skipped() {
    let text = "1,R,0,0,1577808144360767\n1,R,100,1000,1577808144360768\n1,W,4096,4096,1577808144360769\n\
                1,W,18446744073709551615,4096,1577808144360770\n";
    let options = Options { capacity: Some(8192), ..Options::default() };
    let (records, recording) = read("a.csv", text.as_bytes(), &options).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!((records[0].start().0, records[0].sectors().0), (0, 3));
    let skips = recording.skips();
    assert_eq!(skips.get(Oddity::ZeroLength).first, Some(Position::Line(1)));
    assert_eq!(skips.get(Oddity::Unaligned).first, Some(Position::Line(2)));
    assert_eq!(skips.get(Oddity::BeyondCapacity).first, Some(Position::Line(4)));
    let small = Options { capacity: Some(4096), ..Options::default() };
    assert_eq!(
        read("a.csv", text.as_bytes(), &small).unwrap().1.skips().get(Oddity::BeyondCapacity).count,
        2
    );
}

#[test]
fn several_devices_require_a_choice() {
    let text = "0.5 0 100 8 1\n1.5 3 200 8 1\n2.5 3 300 8 1\n";
    let failure = error("a.ascii", text, &Options::default());
    assert_eq!(
        failure,
        "a.ascii:2: the recording has several devices: '3' (2 requests), '0' (1 request); choose one of \
         them, or all"
    );
    let chosen = |device| Options { device, ..Options::default() };
    let named = chosen(DeviceChoice::Named("3".into()));
    assert_eq!(read("a.ascii", text.as_bytes(), &named).unwrap().0.len(), 2);
    assert_eq!(read("a.ascii", text.as_bytes(), &chosen(DeviceChoice::All)).unwrap().0.len(), 3);
    let failure = error("a.ascii", text, &chosen(DeviceChoice::Named("7".into())));
    assert!(
        failure.starts_with("a.ascii: there is no request of device '7'; it has '3' (2 requests)"),
        "{failure}"
    );
}

#[test]
fn carriage_returns_are_stripped() {
    for (name, bytes) in common::corpus() {
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if name.contains("two-devices") || name.contains("srt") || text.contains('\r') || text.contains('\0')
        {
            continue;
        }
        let plain = read(&name, text.as_bytes(), &Options::default()).unwrap().0;
        let crlf = read(&name, text.replace('\n', "\r\n").as_bytes(), &Options::default()).unwrap().0;
        assert_eq!(plain, crlf, "{name}");
    }
}

#[test]
fn a_forced_time_unit_is_used_and_the_judged_one_reported() {
    let text = "1,R,0,4096,1577808144360\n1,R,4096,4096,1577808144361\n";
    let (records, recording) = read("a.csv", text.as_bytes(), &Options::default()).unwrap();
    assert_eq!(records[1].at.as_nanos(), 1_000_000);
    assert!(
        recording.interpretation().to_string().contains("read as milliseconds (judged by the time stamps")
    );
    let forced = Options { unit: Some(TimeUnit::Microseconds), ..Options::default() };
    let (records, recording) = read("a.csv", text.as_bytes(), &forced).unwrap();
    assert_eq!(records[1].at.as_nanos(), 1_000);
    assert!(recording.interpretation().to_string().contains("read as microseconds (as specified)"));
}

#[test]
fn an_impossible_request_rate_is_reported() {
    let text: String = (0..2_000).map(|n| format!("{n} 0 {n} 8 1\n")).collect();
    let (_, recording) = read("a.mqsim", text.as_bytes(), &Options::default()).unwrap();
    let doubt = recording.interpretation().doubt().expect("a doubt");
    assert!(doubt.contains("requests a second, read as nanoseconds: is the unit of time right"), "{doubt}");
}

#[test]
fn five_integers_are_mqsim_unless_name_or_option_differs() {
    let text = "1000 0 100 8 1\n2000 0 200 8 1\n";
    let format = |name, options: &Options| {
        let interpretation = read(name, text.as_bytes(), options).unwrap().1.interpretation();
        (interpretation.format, interpretation.notes.len())
    };
    assert_eq!(format("a.trace", &Options::default()), (Format::MqSim, 1));
    assert_eq!(format("a.ascii.gz", &Options::default()), (Format::DiskSim, 1));
    assert_eq!(format("a.trace", &of(Format::DiskSim)), (Format::DiskSim, 0));
}

#[test]
fn every_format_refuses_or_skips_foreign_input() {
    for &format in Format::ALL {
        for (name, bytes) in common::corpus() {
            let Ok((records, recording)) = read(&name, &bytes, &of(format)) else { continue };
            let detected = common::open(&name, &bytes, &Options::default()).unwrap().interpretation().format;
            let odd = !recording.skips().is_empty();
            assert!(
                format == detected || odd || records.is_empty() || is_twin(format, detected),
                "{name} as {format}"
            );
        }
    }
}

/// MQSim's lines are DiskSim's, and the other way round; Alibaba's are SPC's but for a permutation of the numbers.
fn is_twin(a: Format, b: Format) -> bool {
    matches!((a, b), (Format::MqSim, Format::DiskSim) | (Format::DiskSim, Format::MqSim))
}

#[test]
fn a_damaged_stream_is_reported_as_damaged() {
    let (name, bytes) =
        common::corpus().into_iter().find(|(name, _)| name.ends_with("cut.ascii.gz")).unwrap();
    let mut damaged = bytes.clone();
    damaged[2_000] ^= 0xff;
    damaged[2_001] ^= 0xff;
    match read(&name, &damaged, &Options::default()) {
        Err(error) => assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Malformed), "{error}"),
        Ok((_, recording)) => assert!(!recording.skips().is_empty()),
    }
}

#[test]
fn trailing_bytes_after_a_compressed_stream_are_counted_and_skipped() {
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let text = gzip(b"0.5 0 100 8 1\n1.5 0 200 8 1");
    let binary = gzip(include_bytes!("../corpus/blktrace/v7-little.blktrace"));
    for (name, stream) in [("a.ascii.gz", text), ("a.blktrace.gz", binary)] {
        let whole = read(name, &stream, &Options::default()).unwrap().0.len();
        let padded = [stream, vec![0; 512]].concat();
        let (records, recording) = read(name, &padded, &Options::default()).unwrap();
        let tally = recording.skips().get(Oddity::Trailing).count;
        assert_eq!((records.len(), tally, recording.skips().iter().count()), (whole, 1, 1), "{name}");
        assert!(read(name, &padded, &strict()).is_err());
    }
}

#[test]
fn unsupported_compression_is_named() {
    for (head, what) in [
        (b"\xfd7zXZ\0\0\x04".as_slice(), "xz -dc"),
        (b"PK\x03\x04\x14\0", "unzip -p"),
        (b"\xff\xfe1\0,\0", "UTF-16"),
    ] {
        let refused =
            dwell_traces::open("a.csv", Box::new(head), &Options::default()).err().map(|e| e.to_string());
        assert!(refused.as_ref().is_some_and(|word| word.contains(what)), "{refused:?}");
    }
}

#[test]
fn a_stream_truncated_before_the_first_record_is_not_called_empty() {
    let error = |bytes: &[u8]| read("x", bytes, &Options::default()).map(|_| ()).unwrap_err().to_string();
    for head in [&b"\x28\xb5\x2f\xfd"[..], b"\x1f\x8b\x08", b"BZh91AY&SY"] {
        assert_eq!(error(head), "x: the compressed file is truncated before the first record");
    }
    let nothing = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for empty in [&b""[..], &nothing] {
        assert_eq!(error(empty), "x: is empty; name a recording");
    }
}

#[test]
fn a_byte_order_mark_is_ignored() {
    for (name, text) in [
        ("a.ascii", "0.5 0 100 8 1\n1.5 0 110 8 1\n2.5 0 200 8 1\n"),
        ("b.iolog", "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\n"),
        ("c.csv", "128166372003061629,src1,2,Read,7014609920,24576,41286\n"),
    ] {
        let plain = read(name, text.as_bytes(), &strict()).unwrap().0;
        let marked = format!("\u{feff}{text}");
        let (records, recording) = read(name, marked.as_bytes(), &strict()).unwrap();
        assert!(!records.is_empty() && records == plain, "{name}");
        assert_eq!(recording.skips().get(Oddity::Malformed).count, 0, "{name}");
    }
}

#[test]
fn trace_cmd_headers_are_accepted() {
    let event =
        "  grep-1234  [000]   100.000300: block_rq_issue:       8,0 R 4096 () 1000 + 8 none,0,0 [grep]\n";
    for heading in ["cpus=2\n", "version = 6\nCPU 1 is empty\ncpus=2\n"] {
        let (records, _) = read("trace.txt", format!("{heading}{event}").as_bytes(), &strict()).unwrap();
        assert_eq!(records.len(), 1, "{heading}");
    }
    assert!(error("trace.txt", &format!("{event}CPU of mine\n"), &strict()).contains("trace.txt:2: event"));
}

/// Fails after its first line.
struct Fails(&'static [u8]);

impl std::io::Read for Fails {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match std::io::Read::read(&mut self.0, buffer)? {
            0 => Err(std::io::ErrorKind::PermissionDenied.into()),
            read => Ok(read),
        }
    }
}

#[test]
fn the_readers_error_is_the_source() {
    let source = Box::new(Fails(b"0.5 0 100 8 1\n1.5 0 200 8 1\n"));
    let error = dwell_traces::open("a.ascii", source, &Options::default())
        .and_then(|recording| recording.collect::<Result<Vec<_>, _>>())
        .unwrap_err();
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::PermissionDenied), "{error}");
}
