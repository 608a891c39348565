//! The built-in drives have the figures of their sources.

use dwell_disks::{
    Command, Drive, DriveDescription, DriveParameters, Ideal, Origin, Rotating, Tag, catalogue, curve,
};
use elevator::Random;
use elevator::{Op, Sector, Sectors, Span, Time};

fn description(name: &str) -> DriveDescription {
    catalogue::built_in().find(|drive| drive.name() == name).expect("a built-in drive")
}

fn rotating(name: &str) -> Rotating {
    match description(name).parameters {
        DriveParameters::Rotating(p) => Rotating::new(*p).unwrap(),
        _ => panic!("{name} rotates"),
    }
}

/// A drive's figures in its sources.
struct Stated {
    name: &'static str,
    capacity: u64,
    /// Media rate at the outermost and the innermost track, MB/s.
    media: (f64, f64),
    /// Sequential rate at the outermost tracks, skews included, MB/s.
    sustained: f64,
    average_seek_ms: f64,
    full_seek_ms: f64,
    single_ms: f64,
    depth: u32,
}

const STATED: [Stated; 5] = [
    Stated {
        name: "wd5000aaks",
        capacity: 976_773_168,
        media: (126.0, 63.0),
        sustained: 107.0,
        average_seek_ms: 8.9,
        full_seek_ms: 21.0,
        single_ms: 2.0,
        depth: 31,
    },
    Stated {
        name: "barracuda-7200.10",
        capacity: 976_773_168,
        media: (89.2, 44.6),
        sustained: 78.0,
        average_seek_ms: 8.5,
        full_seek_ms: 18.0,
        single_ms: 0.8,
        depth: 31,
    },
    Stated {
        name: "maxtor-20gb",
        capacity: 40_021_632,
        media: (41.7, 20.8),
        sustained: 35.5,
        average_seek_ms: 9.0,
        full_seek_ms: 20.0,
        single_ms: 1.0,
        depth: 1,
    },
    Stated {
        name: "ide-2003",
        capacity: 156_301_488,
        media: (47.2, 23.6),
        sustained: 40.5,
        average_seek_ms: 8.9,
        full_seek_ms: 20.0,
        single_ms: 1.0,
        depth: 1,
    },
    Stated {
        name: "st31500341as",
        capacity: 2_930_277_168,
        media: (136.6, 68.3),
        sustained: 120.5,
        average_seek_ms: 8.5,
        full_seek_ms: 18.0,
        single_ms: 0.8,
        depth: 31,
    },
];

fn near(found: f64, stated: f64, percent: f64) -> bool {
    (found / stated - 1.0).abs() * 100.0 <= percent
}

fn rate(sectors: u32, time: Span) -> f64 {
    f64::from(sectors) * 512e-6 / time.as_secs_f64()
}

#[test]
fn sizes_depths_and_rotation_are_exact() {
    for stated in &STATED {
        let (text, drive) = (description(stated.name), rotating(stated.name));
        assert_eq!(drive.capacity(), Sector(stated.capacity), "{}", stated.name);
        assert_eq!(text.capacity().unwrap(), drive.capacity(), "{}", stated.name);
        assert_eq!((drive.depth(), text.depth()), (stated.depth, stated.depth));
        assert_eq!(drive.revolution().as_nanos(), 8_333_333);
    }
}

#[test]
fn media_rates_match_the_data_sheet_with_skews() {
    for stated in &STATED {
        let drive = rotating(stated.name);
        let media = |sector: u64| {
            f64::from(drive.sectors_per_track(Sector(sector))) * 512e-6 / drive.revolution().as_secs_f64()
        };
        assert!(near(media(0), stated.media.0, 0.5), "{}: {}", stated.name, media(0));
        assert!(near(media(stated.capacity - 1), stated.media.1, 0.5), "{}", stated.name);
        let sustained = rate(400_000, drive.sequential_transfer(Sector(0), Sectors(400_000)));
        assert!(near(sustained, stated.sustained, 1.0), "{}: {sustained} MB/s", stated.name);
    }
}

/// Reads of 128 KiB, one at a time, through the drive's buffer.
#[test]
fn sequential_reads_reach_the_media_rate() {
    for stated in &STATED {
        let mut drive = rotating(stated.name);
        let (mut now, mut start) = (Time::ZERO, Sector(0));
        for _ in 0..800 {
            let sectors = Sectors(256);
            drive.submit(now, Command { tag: Tag(0), op: Op::Read, start, sectors, fua: false });
            start = start + sectors;
            now = completion(&mut drive);
        }
        let streamed = rate(800 * 256, now.since(Time::ZERO));
        assert!(near(streamed, stated.sustained, 3.0), "{}: {streamed:.1} MB/s", stated.name);
    }
}

fn completion(drive: &mut Rotating) -> Time {
    loop {
        let at = drive.next_event().expect("a command is in the drive");
        if let Some(done) = drive.poll(at) {
            return done.at;
        }
    }
}

#[test]
fn random_seeks_average_the_stated_time() {
    for stated in &STATED {
        let (drive, mut random) = (rotating(stated.name), Random::new(42));
        let count = 100_000;
        let mut sector = || Sector(random.next() % stated.capacity);
        let total: Span = (0..count).map(|_| drive.least_seek(sector(), sector())).sum();
        let average = total.as_millis_f64() / f64::from(count);
        assert!(near(average, stated.average_seek_ms, 0.5), "{}: {average:.3} ms", stated.name);
        let full = drive.least_seek(Sector(0), Sector(stated.capacity - 1)).as_millis_f64();
        assert!(near(full, stated.full_seek_ms, 0.5), "{}: {full:.3} ms", stated.name);
        let DriveParameters::Rotating(p) = description(stated.name).parameters else { panic!() };
        let track = u64::from(drive.sectors_per_track(Sector(0)));
        let single = drive.least_seek(Sector(1), Sector(track * u64::from(p.layout.surfaces) + 1));
        assert!(near(single.as_millis_f64(), stated.single_ms, 0.5), "{}: {single}", stated.name);
    }
}

#[test]
fn lower_bounds_are_exact_across_tracks() {
    let drive = rotating("wd5000aaks");
    let track = drive.sectors_per_track(Sector(0));
    let revolution = drive.revolution();
    let one = drive.sequential_transfer(Sector(0), Sectors(track));
    assert!(revolution.saturating_sub(one) < Span::from_micros(5), "a whole track is a revolution: {one}");
    let switch = drive.least_seek(Sector(u64::from(track)), Sector(u64::from(track)));
    assert!(near(switch.as_millis_f64(), 1.2, 0.5), "the skew: {switch}");
    let two = drive.sequential_transfer(Sector(0), Sectors(2 * track));
    assert!((two.saturating_sub(one * 2 + switch)).as_nanos() < 5);
    assert_eq!(drive.least_seek(Sector(100), Sector(100)), Span::ZERO);
}

#[test]
fn every_number_states_its_origin() {
    for drive in catalogue::built_in() {
        for origin in &drive.origins {
            let text = &origin.text;
            assert!(Origin::BASES.iter().any(|basis| text.contains(basis)), "{}: '{text}'", drive.name());
        }
        let table: toml::Table = drive.to_toml().parse().unwrap();
        check_origins(drive.name(), "", &table);
    }
}

/// Each number or switch of a table has an origin, or its table has one.
fn check_origins(drive: &str, path: &str, table: &toml::Table) {
    let origin = table.get("origin");
    if origin.is_some_and(toml::Value::is_str) {
        return;
    }
    for (key, value) in table.iter().filter(|(key, _)| *key != "origin") {
        let named = ["kind", "summary", "name", "fidelity"].contains(&key.as_str());
        let has = origin.and_then(|origin| origin.get(key)).is_some();
        match value {
            toml::Value::Table(inner) if !has => check_origins(drive, &format!("{path}.{key}"), inner),
            _ => assert!(named || has, "{drive}: where is {path}.{key} from?"),
        }
    }
}

#[test]
fn descriptions_round_trip_through_toml() {
    for drive in catalogue::built_in() {
        let again = DriveDescription::parse("built in", &drive.to_toml()).unwrap();
        assert_eq!(again, drive);
    }
}

#[test]
fn service_time_curves_rise_from_buffer_hits_to_seek_and_half_a_turn() {
    for stated in &STATED {
        let measure = || curve::measure(&mut rotating(stated.name), curve::SEED);
        let measured = measure();
        assert_eq!(measured, measure(), "the same seed, the same points");
        let curve = measured.fit();
        let at = |distance| curve.at_distance(distance).as_millis_f64();
        assert!(at(0) < 0.5, "{}: the next sectors are in the buffer: {} ms", stated.name, at(0));
        let third = at(stated.capacity / 3);
        // A third of the sectors is a little less than the average seek's distance in cylinders.
        let expected = stated.average_seek_ms + 8.333 / 2.0;
        assert!(near(third, expected, 12.0), "{}: {third} ms, not {expected}", stated.name);
        let inner = measured.transfer_per_sector.as_secs_f64();
        let (slow, fast) = (stated.sustained * 0.5, stated.sustained);
        assert!((slow..=fast).contains(&(512e-6 / inner)), "{}: {} ns", stated.name, inner * 1e9);
    }
}

#[test]
fn solid_state_reads_do_not_depend_on_location() {
    for name in ["ssd-sata", "ssd-nvme"] {
        let curve = description(name).service_curve().unwrap();
        let (near, far) = (curve.at_distance(1 << 16), curve.longest());
        assert!(far <= near.percent(110), "{name}: {near} and {far}");
        assert!((50_000..=120_000).contains(&near.as_nanos()), "{name}: {near}");
    }
}

/// A drive that wrote each command of a stream separately would lose a revolution for each: 10 MB/s at 128 KB.
#[test]
fn a_stream_of_buffered_writes_does_not_lose_a_revolution_at_each() {
    const SECTORS: u64 = 256;
    const WRITES: u64 = 800;
    for name in ["ide-2003", "maxtor-20gb"] {
        let mut drive = rotating(name);
        let mut now = Time::ZERO;
        for n in 0..WRITES {
            let start = Sector(n * SECTORS);
            let command =
                Command { tag: Tag(0), op: Op::Write, start, sectors: Sectors(SECTORS as u32), fua: false };
            drive.submit(now, command);
            loop {
                now = drive.next_event().expect("a command is in the drive");
                if drive.poll(now).is_some() {
                    break;
                }
            }
        }
        let rate = (WRITES * SECTORS * 512) as f64 / 1e6 / now.as_secs_f64();
        let medium = STATED.iter().find(|stated| stated.name == name).expect("it is in the table").sustained;
        assert!(rate > medium * 0.6, "{name}: {rate:.1} MB/s of {medium}");
    }
}

/// Duration of the third of these reads: a miss in stream A, a buffer hit in stream B, and 20 ms later the next read of stream A.
fn miss_hit_miss(changes: &str) -> Span {
    let changed = format!("ide-2003{{{changes}}}");
    let opened = dwell_disks::open(&changed, &mut |_| Err(std::io::ErrorKind::NotFound.into()));
    let (mut drive, _) = opened.expect("a built-in drive");
    let mut now = Time::ZERO;
    let mut read = |pause: Span, start: u64| {
        let begun = now + pause;
        now = begun;
        let command =
            Command { tag: Tag(0), op: Op::Read, start: Sector(start), sectors: Sectors(16), fua: false };
        drive.submit(now, command);
        while drive.poll(now).is_none() {
            now = drive.next_event().expect("a read comes to its end").max(now);
        }
        now.since(begun)
    };
    // Read-ahead for the first stream fills its segment.
    for n in 0..8 {
        read(Span::ZERO, 1_000_000 + n * 16);
    }
    read(Span::ZERO, 80_000_000);
    read(Span::ZERO, 80_000_016);
    read(Span::ZERO, 1_000_128);
    read(Span::from_millis(20), 80_000_032)
}

/// Two streams alternate with buffer hits, much faster than the arm could follow. Each hit stops the other stream's read-ahead. A seek
/// that has not begun is cancelled; in an earlier version all of these seeks were executed later.
#[test]
fn seeks_that_never_started_are_not_performed() {
    let (mut drive, _) = dwell_disks::open("wd5000aaks", &mut |_| Err(std::io::ErrorKind::NotFound.into()))
        .expect("a built-in drive");
    let mut now = Time::ZERO;
    let mut longest = Span::ZERO;
    let mut next = [0, 400_000_000];
    let mut random = Random::new(1);
    for _ in 0..4_000 {
        for stream in &mut next {
            now += Span::from_micros(random.below(100));
            let (begun, command) = (
                now,
                Command {
                    tag: Tag(0),
                    op: Op::Read,
                    start: Sector(*stream),
                    sectors: Sectors(8),
                    fua: false,
                },
            );
            *stream += 8;
            drive.submit(now, command);
            while drive.poll(now).is_none() {
                now = drive.next_event().expect("a read comes to its end").max(now);
            }
            longest = longest.max(now.since(begun));
        }
    }
    assert!(longest < Span::from_millis(60), "longer than a seek across the disk and back: {longest:?}");
}

#[test]
fn a_read_from_the_buffer_does_not_disturb_read_ahead() {
    let (goes_on, stops) = (miss_hit_miss(""), miss_hit_miss("buffer.hit_stops_read_ahead=true"));
    assert!(goes_on < Span::from_millis(2), "the read is a buffer hit: {goes_on:?}");
    assert!(stops > Span::from_millis(8), "read-ahead was stopped, so the read seeks: {stops:?}");
}
