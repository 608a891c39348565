//! Drives by name, by file, and with overrides; errors of invalid specifications.

mod common;

use std::io::{self, Read};

use dwell_disks::parameters::{Caching, FastWrite, ReadAhead};
use dwell_disks::{Command, DriveDescription, DriveParameters, RotatingParameters, Tag, catalogue};
use elevator::{Op, Sector, Sectors, Span, Time};

fn no_files(_: &str) -> io::Result<Box<dyn Read>> {
    Err(io::Error::from(io::ErrorKind::NotFound))
}

fn wrong(spec: &str) -> String {
    match catalogue::open(spec, &mut no_files) {
        Ok(_) => panic!("{spec} opens"),
        Err(error) => error.to_string(),
    }
}

fn rotating(spec: &str) -> RotatingParameters {
    match catalogue::describe(spec, &mut no_files).unwrap().parameters {
        DriveParameters::Rotating(p) => *p,
        _ => panic!("{spec} rotates"),
    }
}

const SMALL: &str = r#"
kind = "rotating"
name = "small"
[layout]
surfaces = 1
cylinders = 10
zones = [{ first_cylinder = 0, last_cylinder = 9, sectors_per_track = 100 }]
[mechanics]
revolutions_per_minute = 6000
origin.revolutions_per_minute = "assumed: a round number"
head_switch_ms = 1
seek.linear = { single_ms = 1, average_ms = 5.0, full_ms = 10 }
"#;

fn parse_error(text: &str) -> String {
    DriveDescription::parse("my.toml", text).unwrap_err().to_string()
}

#[test]
fn a_built_in_drive_opens_by_name() {
    let (drive, description) = catalogue::open("wd5000aaks", &mut no_files).unwrap();
    assert_eq!(drive.capacity(), description.capacity().unwrap());
    assert_eq!((description.name(), description.source.as_str()), ("wd5000aaks", "built in"));
}

#[test]
fn overrides_change_the_named_field() {
    let p = rotating("wd5000aaks{depth=1,buffer=off}");
    assert_eq!(p.queue.depth, 1);
    assert_eq!(
        (p.buffer.caching, p.buffer.read_ahead, p.buffer.fast_write),
        (Caching::None, ReadAhead::None, FastWrite::None)
    );
    let p = rotating("wd5000aaks { write_cache = off , mechanics.revolutions_per_minute = 5400 }");
    assert_eq!((p.buffer.fast_write, p.mechanics.revolutions_per_minute), (FastWrite::None, 5400.0));
    assert_eq!(rotating("wd5000aaks{}"), rotating("wd5000aaks"));
    let ssd = catalogue::describe("ssd-nvme{write_cache=off,depth=8}", &mut no_files).unwrap();
    let DriveParameters::SolidState(p) = ssd.parameters else { panic!() };
    assert_eq!((p.write_buffer.write_cache, p.depth), (false, 8));
}

/// Omitted overheads are zero; an override adds one.
#[test]
fn an_overhead_override_applies_where_none_was_stated() {
    let mut files = |_: &str| Ok(Box::new(SMALL.as_bytes()) as Box<dyn Read>);
    let mut read = |spec: &str| {
        let mut drive = catalogue::open(spec, &mut files).unwrap().0;
        let command =
            Command { tag: Tag(0), op: Op::Read, start: Sector(0), sectors: Sectors(1), fua: false };
        drive.submit(Time::ZERO, command);
        loop {
            let at = drive.next_event().unwrap();
            if let Some(done) = drive.poll(at) {
                return done.at;
            }
        }
    };
    assert!(read("my.toml{overheads.request_ms=7.0}") >= read("my.toml") + Span::from_millis(7));
}

#[test]
fn an_override_replaces_the_stated_origin() {
    let drive = catalogue::describe("wd5000aaks{depth=4}", &mut no_files).unwrap();
    let origin = drive.origins.iter().find(|o| o.table == "queue" && o.field.as_deref() == Some("depth"));
    assert!(origin.unwrap().text.contains("override"));
}

/// An override has an origin of its own also if the table, or the drive, has one origin for all fields. The other fields keep that origin.
#[test]
fn an_override_adds_an_origin_where_none_was_stated() {
    let origin = |spec: &str, table: &str, field: Option<&str>| {
        let drive = catalogue::describe(spec, &mut plain).unwrap();
        let mut origins = drive.origins.iter();
        let found = origins.find(|o| o.table == table && o.field.as_deref() == field);
        found.map(|origin| origin.text.clone())
    };
    let files = "DiskSim parameter files: plain.diskspecs and those it names";
    let requested = "override";
    assert_eq!(origin("plain.diskspecs{depth=4}", "queue", Some("depth")).as_deref(), Some(requested));
    assert_eq!(origin("plain.diskspecs{depth=4}", "", None).as_deref(), Some(files));
    assert_eq!(origin("plain.diskspecs{name=other}", "", Some("name")).as_deref(), Some(requested));
    assert_eq!(origin("plain.diskspecs{name=other}", "", Some("buffer")).as_deref(), Some(files));
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let text = wrong("wd5000aakx");
    assert!(text.contains("did you mean 'wd5000aaks'?") && text.contains("ssd-nvme"), "{text}");
    assert!(wrong("WD5000AAKS").contains("did you mean 'wd5000aaks'?"));
    assert!(wrong("wd5000aaks{dept=1}").contains("did you mean 'depth'?"));
    let text = wrong("wd5000aaks{mechanics.revolution_per_minute=1}");
    assert!(text.contains("did you mean 'revolutions_per_minute'?"), "{text}");
    assert!(wrong("wd5000aaks{depth=1").contains("overrides are written"));
    assert!(wrong("wd5000aaks{depth}").contains("overrides are written"));
}

#[test]
fn invalid_values_of_overrides_are_rejected() {
    assert_eq!(wrong("wd5000aaks{depth=99}"), "wd5000aaks: queue: its depth must lie between 1 and 32");
    assert!(wrong("wd5000aaks{buffer=perhaps}").contains("expected on or off"));
    assert!(wrong("ssd-sata{flash.planes=9}").contains("flash.planes must lie between 1 and 8"));
    assert!(wrong("wd5000aaks{mechanics.head_switch_ms=-1}").contains("head_switch_ms"));
    assert!(
        wrong("wd5000aaks{depth=x}").ends_with("text \"x\", expected a whole number from 0 to 4294967295")
    );
    assert!(wrong("ssd-sata{read_ahead=off}").contains("does not read ahead"));
}

#[test]
fn errors_name_file_line_field_and_the_nearest_name() {
    assert!(DriveDescription::parse("my.toml", SMALL).is_ok());
    let cases = [
        ("surfaces = 1", "surface = 1", "my.toml:5: ", "did you mean 'surfaces'?"),
        (
            "surfaces = 1",
            "surfaces = \"one\"",
            "my.toml:5: surfaces: ",
            "expected a whole number from 0 to 4294967295",
        ),
        ("surfaces = 1\n", "", "my.toml:4: ", "surfaces"),
        ("head_switch_ms = 1", "head_switch_ms = nan", "my.toml:11: head_switch_ms", "not NaN"),
        ("head_switch_ms = 1", "head_switch_ms = -1", "my.toml:11: head_switch_ms", "not -1"),
        (
            "head_switch_ms = 1",
            "head_switch_ms = 0xFFFFFFFFFF",
            "my.toml:11: head_switch_ms",
            "not 1099511627775",
        ),
        ("origin.rev", "origin.rov", "my.toml:10: ", "did you mean 'revolutions_per_minute'?"),
        ("seek.linear", "seek.lineal", "my.toml:12: ", "did you mean 'linear'?"),
        ("kind = \"rotating\"", "kind = \"round\"", "my.toml:2: ", "\"solid-state\""),
        ("kind = \"rotating\"", "kind = ", "my.toml:2: ", ""),
        ("sectors_per_track = 100", "sectors_per_track = 0", "my.toml: layout: zone 0", "1 to 65535"),
    ];
    for (from, to, place, reason) in cases {
        let text = parse_error(&SMALL.replace(from, to));
        assert!(text.starts_with(place) && text.contains(reason), "{to}: {text}");
    }
}

#[test]
fn no_truncated_description_panics() {
    let whole = catalogue::built_in().next().unwrap().to_toml();
    for end in (0..whole.len()).step_by(7).filter(|&end| whole.is_char_boundary(end)) {
        if let Ok(drive) = DriveDescription::parse("cut", &whole[..end]) {
            let _ = drive.build();
        }
    }
}

#[test]
fn a_toml_file_opens_through_the_resolver() {
    let mut files = |name: &str| match name {
        "my.toml" => Ok(Box::new(SMALL.as_bytes()) as Box<dyn Read>),
        _ => no_files(name),
    };
    let (drive, description) = catalogue::open("my.toml{depth=2}", &mut files).unwrap();
    assert_eq!((drive.capacity().0, drive.depth(), description.name()), (1000, 2, "small"));
    assert!(wrong("other.toml").starts_with("other.toml: "));
}

/// DiskSim's files of a small drive.
fn plain(name: &str) -> io::Result<Box<dyn Read>> {
    let text = match name {
        "plain.diskspecs" => include_str!("../src/disksim/testdata/plain.diskspecs"),
        "plain.model" => include_str!("../src/disksim/testdata/plain.model"),
        "plain.seek" => "1, 1.5\n9, 4.25\n",
        _ => return no_files(name),
    };
    Ok(Box::new(text.as_bytes()))
}

/// `on` keeps the drive's own values of an enabled feature; it does not set the defaults.
#[test]
fn enabling_an_enabled_feature_changes_nothing() {
    let buffer = |spec: &str| match catalogue::describe(spec, &mut plain).unwrap().parameters {
        DriveParameters::Rotating(p) => p.buffer,
        _ => panic!("{spec} rotates"),
    };
    let own = buffer("plain.diskspecs");
    assert_eq!(own.read_ahead, ReadAhead::TrackAhead);
    for on in ["buffer=on", "read_ahead=on", "write_cache=on", "buffer=on,read_ahead=on"] {
        assert_eq!(buffer(&format!("plain.diskspecs{{{on}}}")), own, "{on}");
    }
    assert_eq!(buffer("plain.diskspecs{read_ahead=off,read_ahead=on}").read_ahead, ReadAhead::Segment);
    assert!(wrong("wd5000aaks{buffer=perhaps}").contains("expected on or off"));
}

/// The description contains the notes about settings without effect, with and without overrides.
#[test]
fn settings_without_effect_are_reported() {
    let note = "plain.model:29: 'HPL seek equation values' has no effect: the seek type is extracted";
    for spec in ["plain.diskspecs", "plain.diskspecs{buffer=off}"] {
        assert_eq!(catalogue::describe(spec, &mut plain).unwrap().notes, [note], "{spec}");
    }
}

/// Every drive published with DiskSim is unchanged after a conversion to TOML and back.
#[test]
fn disksim_drives_round_trip_through_toml() {
    for name in ["barracuda", "cheetah9LP", "atlas_III", "hp_c2247a", "st41601n"] {
        let folder = common::disksim("parameters");
        let mut open = |file: &str| Ok(Box::new(std::fs::File::open(folder.join(file))?) as Box<dyn Read>);
        let drive = catalogue::describe(&format!("{name}.diskspecs"), &mut open).unwrap();
        let again = DriveDescription::parse(&drive.source, &drive.to_toml()).unwrap();
        assert_eq!((again.parameters, again.origins), (drive.parameters, drive.origins), "{name}");
    }
}

/// For any extreme number in a description, the reader rejects it, or the resulting drive serves requests.
#[test]
fn extreme_numbers_are_rejected_or_simulated() {
    let wild =
        ["0", "1", "3", "255", "65535", "4294967295", "3600000.0", "0.0", "1e-9", "1e300", "-1", "1e12"];
    let rotating = DriveDescription::parse("small", SMALL).unwrap();
    let name = "ssd-sata{translation.tracked_pages_max=4096}";
    for drive in [rotating, catalogue::describe(name, &mut no_files).unwrap()] {
        let text = drive.to_toml();
        let lines: Vec<&str> = text.lines().collect();
        let numbers = (0..lines.len())
            .filter(|&i| lines[i].split_once(" = ").is_some_and(|(_, value)| value.parse::<f64>().is_ok()));
        for i in numbers {
            for value in wild {
                let (key, _) = lines[i].split_once(" = ").unwrap();
                // A drive with billions of tracks or pages is valid, but needs too much memory for a test.
                let large = ["cylinders", "capacity_sectors", "last_cylinder", "tracked_pages_max"];
                if large.contains(&key) && value.len() > 3 {
                    continue;
                }
                let changed = format!("{key} = {value}");
                let text = [&lines[..i], &[changed.as_str()], &lines[i + 1..]].concat().join("\n");
                if let Ok(drive) = DriveDescription::parse("wild", &text) {
                    serve_a_few(&drive, &changed);
                }
            }
        }
    }
}

/// The same for any number in DiskSim's files.
#[test]
fn extreme_numbers_in_disksim_files_are_rejected_or_simulated() {
    let wild = [
        "0",
        "1",
        "3",
        "7",
        "32",
        "255",
        "65535",
        "1000000",
        "4294967295",
        "3600000.0",
        "0.0",
        "0.5",
        "1e-9",
        "1e300",
        "-1",
        "1e12",
        "nan",
        "inf",
    ];
    let names = ["plain.diskspecs", "plain.model", "plain.seek"];
    let text = |name: &str| {
        let mut text = String::new();
        plain(name).unwrap().read_to_string(&mut text).unwrap();
        text
    };
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    for changed in names {
        let whole = text(changed);
        let words: Vec<&str> = whole.split_inclusive([' ', ',', '\n', ']']).collect();
        let stem = |word: &str| word.trim_end_matches([' ', ',', '\n', ']']).len();
        for i in (0..words.len()).filter(|&i| is_number(&words[i][..stem(words[i])])) {
            for value in wild {
                let end = &words[i][stem(words[i])..];
                let new = format!("{value}{end}");
                let wild = [&words[..i], &[new.as_str()], &words[i + 1..]].concat().concat();
                let what = format!("{changed}: {}{new}", words[i.saturating_sub(3)..i].concat());
                let mut open = |name: &str| match name == changed {
                    true => Ok(Box::new(io::Cursor::new(wild.clone().into_bytes())) as Box<dyn Read>),
                    false => plain(name),
                };
                if let Ok(drive) = catalogue::describe("plain.diskspecs", &mut open) {
                    serve_a_few(&drive, &what);
                }
            }
        }
    }
}

fn serve_a_few(description: &DriveDescription, changed: &str) {
    let Ok(mut drive) = description.build() else { return };
    let capacity = drive.capacity().0;
    let mut now = Time::ZERO;
    for (i, op) in [Op::Write, Op::Read, Op::Read, Op::Write, Op::Flush].into_iter().enumerate() {
        let start = Sector(capacity / 2 / (i as u64 + 1));
        let sectors = if op == Op::Flush { Sectors::ZERO } else { Sectors(8.min(capacity as u32)) };
        drive.submit(now, Command { tag: Tag(0), op, start, sectors, fua: i == 3 });
        let mut steps = 0;
        loop {
            now = now.max(drive.next_event().unwrap_or_else(|| panic!("{changed}: {op:?} is lost")));
            if drive.poll(now).is_some() {
                break;
            }
            steps += 1;
            assert!(steps < 1_000_000, "{changed}: {op:?} does not end");
        }
    }
}

/// The initial corpus of the fuzz targets.
const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");

#[test]
fn seeds_of_the_fuzz_targets_are_valid() {
    let mut open = |file: &str| {
        let file = std::fs::File::open(format!("{SEEDS}/diskspecs/{file}"))?;
        Ok(Box::new(file) as Box<dyn Read>)
    };
    dwell_disks::disksim::read("plain.diskspecs", &mut open).unwrap();
    for seed in std::fs::read_dir(format!("{SEEDS}/array")).unwrap() {
        let name = std::fs::read_to_string(seed.unwrap().path()).unwrap();
        dwell_disks::array::ArrayDescription::parse(&name).unwrap();
    }
}
