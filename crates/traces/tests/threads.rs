//! A text that several threads parse yields the records, counts and errors of one thread.

mod common;

use std::fmt::Write;

use dwell_traces::{DeviceChoice, Options, Recording};

const LINES: u64 = 30_000;

/// A line of each format, with new devices and new names of processes throughout.
fn line(format: &str, n: u64) -> String {
    let (device, sector) = (n * n / 7 % (1 + n / 40), n * 2_654_435_761 % 100_000);
    let op = n % 3 % 2;
    let rw = ["R", "W"][op as usize];
    match format {
        "alibaba.csv" => format!("{device},{rw},{},4096,{}", sector * 512, 1_577_808_144_360_767 + n * 100),
        "tencent.csv" => format!("{},{sector},8,{op},{device}", 1_538_323_200 + n / 500),
        "msr.csv" => {
            let stamp = 128_166_372_003_061_629 + n * 1_000;
            format!("{stamp},src{device},2,{},{},24576,41286", ["Read", "Write"][op as usize], sector * 512)
        }
        "cloudphysics.csv" => format!("1,{},{},4096,{sector}", n * 10, ["28", "2a", "12"][n as usize % 3]),
        "a.spc" => format!("{device},{sector},4096,{rw},{}.{:06}", n / 100, n % 100 * 10_000),
        "a.ascii" => format!("{}.{:06} {device} {sector} 8 {op}", n * 16, n),
        "a.mqsim" => format!("{} {device} {sector} 8 {op}", n * 1_000_000),
        "a.ftrace" => {
            let (time, pid) = (format!("{}.{:06}", n / 10_000, n % 10_000 * 100), n / 100 % 70);
            let event = ["block_rq_issue", "block_rq_complete", "sched_switch"][n as usize % 3];
            let bytes = if n.is_multiple_of(3) { "4096 " } else { "" };
            let name = n / 3_000;
            format!(
                "  c{name}-{pid} [001] .....  {time}: {event}: 7,{} {rw} {bytes}() {sector} + 8 [c{name}]",
                device % 50
            )
        }
        "a.blkparse" => {
            let time = format!("{}.{:09}", n / 10_000, n % 10_000 * 100_000);
            let (letter, pid, name) = (["Q", "C", "G"][n as usize % 3], 1 + n / 100 % 70, n / 3_000);
            format!("  8,{} 0 {n} {time} {pid} {letter} {rw} {sector} + 8 [c{name}]", device % 50)
        }
        "a.trace" if n == 0 => "# dwell recording 1".to_owned(),
        "a.trace" if n % 50 == 7 => format!("# process {} name {n}", n % 90),
        "a.trace" => {
            let response = if n.is_multiple_of(4) { "-".to_owned() } else { (n % 1000).to_string() };
            format!(
                "{} {response} d{device} {rw} {} 4096 be4 {} c{}",
                n * 1_000,
                sector * 512,
                1 + n % 90,
                n / 999
            )
        }
        "v2.iolog" | "v3.iolog" if n == 0 => format!("fio version {} iolog", &format[1..2]),
        "v2.iolog" | "v3.iolog" => {
            let start = if format == "v3.iolog" { format!("{n} /dev/d") } else { "/dev/d".to_owned() };
            let offset = sector * 5_120_000;
            match n % 17 {
                3 => format!("{start}{device} sync"),
                4 => format!("{start}{device} trim {offset} 4096"),
                5 => format!("{start}{device} add"),
                _ if format == "v2.iolog" && (n % 5).is_multiple_of(2) => {
                    format!("{start}{} wait {}", n % 3, n % 999)
                }
                _ => {
                    let device = if n % 50 < 40 { n / 5_000 } else { device };
                    format!("{start}{device} {} {offset} 4096", ["read", "write"][op as usize])
                }
            }
        }
        _ => panic!("{format}"),
    }
}

const FORMATS: [&str; 12] = [
    "alibaba.csv",
    "tencent.csv",
    "msr.csv",
    "cloudphysics.csv",
    "a.spc",
    "a.ascii",
    "a.mqsim",
    "a.ftrace",
    "a.blkparse",
    "a.trace",
    "v2.iolog",
    "v3.iolog",
];

/// A text with some lines that are not as they should be.
fn text(format: &str, end: &str) -> String {
    let mut text = String::new();
    for n in 0..LINES {
        match n * 48_271 % 2_011 {
            0 if n > 1_000 => text += "neither 1 nor 2\n",
            1 => text += "\n",
            6 => text += "# a comment\n",
            7 => text += "\t # another one, 1 2 3 4 5\n",
            8 if n > 1_000 => text += &format!(" \t{}\n", line(format, n)),
            2 if n > 1_000 => text += &line(format, n).replace("4096", "4x96"),
            3 => text += &line(format, n).replace("4096", "0"),
            4 if n > 5_000 => text += &line(format, n - 2_000),
            5 => text += &line(format, n).replace(' ', "  "),
            _ => {}
        }
        text += &line(format, n);
        text += if n % 9 == 0 { "\r\n" } else { "\n" };
    }
    text + end
}

/// What a reader finds, as text.
fn found(name: &str, text: &[u8], options: &Options) -> String {
    let mut recording = match common::open(name, text, options) {
        Ok(recording) => recording,
        Err(error) => return error.to_string(),
    };
    let mut out = String::new();
    while let Some(record) = recording.next() {
        match record {
            Ok(record) => {
                let line = common::line(&record, &recording);
                writeln!(out, "{line}\t{} {}", recording.place(), recording.devices().len()).unwrap();
            }
            Err(error) => writeln!(out, "{error}").unwrap(),
        }
    }
    out + &end(&recording)
}

/// What a reader finds at the end.
fn end(recording: &Recording) -> String {
    let mut out = format!("{}\n{}\n", recording.interpretation(), recording.skips());
    for device in recording.devices() {
        writeln!(out, "{} {}", device.name, device.requests).unwrap();
    }
    out
}

/// Compares batches of records with `one`, what [`found`] has found. An error comes without the records before it in its batch.
fn assert_same_batches(name: &str, text: &[u8], options: &Options, one: &str) {
    let Ok(mut recording) = common::open(name, text, options) else { return };
    let mut expected = one.lines().filter_map(|line| line.split_once('\t')).map(|(line, _)| line);
    let mut batch = Vec::new();
    let failed = loop {
        match recording.read_batch(&mut batch) {
            Ok(true) => {
                for record in &batch {
                    let line = common::line(record, &recording);
                    assert_eq!(Some(line.as_str()), expected.next(), "{name}, in a batch");
                }
            }
            Ok(false) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    match failed {
        Some(error) => assert!(one.contains(&error), "{name}, in a batch: {error}"),
        None => assert_eq!(expected.next(), None, "{name}, in a batch"),
    }
    assert!(one.ends_with(&end(&recording)), "{name}, in a batch:\n{}\n{one}", end(&recording));
    assert!(!recording.read_batch(&mut batch).unwrap());
}

/// Compares the first line that differs, because the whole has megabytes.
fn assert_same(name: &str, text: &[u8], options: &Options) -> String {
    let one = found(name, text, &Options { threads: 1, ..options.clone() });
    for threads in [2, 5] {
        let several = found(name, text, &Options { threads, ..options.clone() });
        if one != several {
            let (number, lines) = one
                .lines()
                .zip(several.lines())
                .enumerate()
                .find(|(_, (a, b))| a != b)
                .expect("one is longer");
            panic!("{name}, {threads} threads, line {number}:\n{}\n{}", lines.0, lines.1);
        }
    }
    for threads in [1, 3] {
        assert_same_batches(name, text, &Options { threads, ..options.clone() }, &one);
    }
    one
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let all = Options { device: DeviceChoice::All, ..Options::default() };
    for format in FORMATS {
        let text = text(format, "");
        assert!(text.len() > 600_000, "{format}: several blocks");
        let whole = assert_same(format, text.as_bytes(), &all);
        assert!(whole.lines().count() > LINES as usize / 4, "{format}: {}", whole.lines().last().unwrap());
        assert_same(format, text.as_bytes(), &Options { strict: true, ..all.clone() });
        assert_same(format, text.as_bytes(), &Options::default());
        let named = Options { device: DeviceChoice::Named("3".to_owned()), ..all.clone() };
        assert_same(format, text.as_bytes(), &named);
    }
}

#[test]
fn ends_are_handled_as_by_one_thread() {
    let all = Options { device: DeviceChoice::All, ..Options::default() };
    let long = "x".repeat(300_000);
    let hopeless = "what is this?\n".repeat(200);
    let summary = "CPU0 (8,0):\n Reads Queued: 1\n".repeat(20_000);
    for (format, end) in [
        ("alibaba.csv", "1,R,100"),
        ("alibaba.csv", &long),
        ("a.blkparse", &long),
        ("a.ftrace", &long),
        ("alibaba.csv", &hopeless),
        ("a.blkparse", &summary),
        ("a.trace", "# a comment without an end"),
    ] {
        let text = text(format, end);
        let whole = assert_same(format, text.as_bytes(), &all);
        assert!(end.len() < 200_000 || format == "a.blkparse" || whole.contains("longer than 256 KiB"));
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        let packed = encoder.finish().unwrap();
        assert_same(format, &packed, &all);
        assert_same(format, &packed[..packed.len() / 2], &all);
        assert_same(format, &[&packed[..], b"behind"].concat(), &all);
    }
}

#[test]
fn devices_beyond_the_limit_are_the_same_error() {
    let all = Options { device: DeviceChoice::All, ..Options::default() };
    let text: String = (0..70_000).map(|n| format!("{n}.5 {n} 100 8 1\n")).collect();
    let whole = assert_same("devices.ascii", text.as_bytes(), &all);
    assert!(whole.contains("devices.ascii:65537: device: expected one of at most 65536 devices"), "{whole}");
    // The same in the last line, without its end.
    let lines: Vec<&str> = text.lines().take(65_537).collect();
    let last = assert_same("devices.ascii", lines.join("\n").as_bytes(), &all);
    assert!(last.contains("devices.ascii:65537: device: expected one of at most 65536 devices"), "{last}");
    // Items of two lines.
    let lines: String = (0..66_000).map(|n| format!("d{n} wait 3\nd{n} read {n} 512\n")).collect();
    let text = "fio version 2 iolog\n".to_owned() + &lines;
    let waits = assert_same("devices.iolog", text.as_bytes(), &all);
    let expected = "devices.iolog:131075: device: expected one of at most 65536 devices, found 'd65536 read";
    assert!(waits.contains(expected), "{waits}");
}

#[test]
fn waits_add_up_over_blocks() {
    let all = Options { device: DeviceChoice::All, ..Options::default() };
    let begin = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n".to_owned();
    let lines = "/dev/sda wait 7\n/dev/sda read 0 4096\n/dev/sda write 4096 4096\n";
    let few = begin.clone() + &lines.repeat(20_000);
    let whole = assert_same("waits.iolog", few.as_bytes(), &all);
    // 20,000 waits of 7 us.
    assert!(
        whole.contains("\n0.140000000s /dev/sda write 4096+4096 not done\tline 60003"),
        "{}",
        &whole[..400]
    );
    // 2^64 ns after the first blocks, within a block, and at once; later requests are malformed.
    let year = format!("/dev/sda wait {}\n", 365_u64 * 86_400 * 1_000_000);
    for (repeats, every) in [(20_000, 40), (20_000, 1), (0, 1)] {
        let mut text = begin.clone() + &lines.repeat(repeats);
        for n in 0..30_000 {
            text += if n % every == 0 { &year } else { "" };
            text += lines;
        }
        let whole = assert_same("waits.iolog", text.as_bytes(), &all);
        assert!(whole.contains("time: expected waits before this line that sum up to less than 584 years"));
        assert_same("waits.iolog", text.as_bytes(), &Options { strict: true, ..all.clone() });
    }
    // A damaged number has no effect on the lines behind it.
    let damaged = few.replacen("wait 7\n", "wait 7000000000000000\n", 1);
    let whole = assert_same("waits.iolog", damaged.as_bytes(), &all);
    assert!(whole.contains("\n0.139993000s /dev/sda write 4096+4096 not done\tline 60003"));
    assert!(whole.contains("1 malformed"), "{}", &whole[whole.len() - 400..]);
}

#[test]
fn comments_and_blanks_before_a_line_are_passed() {
    let all = Options { device: DeviceChoice::All, ..Options::default() };
    for format in ["alibaba.csv", "tencent.csv", "msr.csv", "cloudphysics.csv", "a.spc", "a.ascii", "a.mqsim"]
    {
        // Few lines, which one thread reads, and several blocks.
        for lines in [10, LINES] {
            let mut text = String::new();
            for n in 0..lines {
                text += &format!("{}{}\n", ["", " ", "\t "][n as usize % 3], line(format, n));
                text += ["# a comment, 1 2 3 4\n", "\t# another one\n", ""][n as usize % 3];
            }
            let options = Options { strict: true, ..all.clone() };
            let found = match lines {
                LINES => assert_same(format, text.as_bytes(), &options),
                _ => found(format, text.as_bytes(), &options),
            };
            assert!(!found.contains("malformed") && !found.contains("expected"), "{format}: {found:.900}");
            assert!(
                found.lines().filter(|line| line.contains('\t')).count() as u64 > lines / 2,
                "{found:.900}"
            );
        }
    }
}

#[test]
fn a_recording_is_dropped_before_its_end() {
    let options = Options { device: DeviceChoice::All, threads: 3, ..Options::default() };
    let text = text("alibaba.csv", "");
    for records in [0, 1, 10_000] {
        let recording = common::open("alibaba.csv", text.as_bytes(), &options).unwrap();
        assert_eq!(recording.take(records).filter(Result::is_ok).count(), records);
    }
}
