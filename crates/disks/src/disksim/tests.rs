use std::io::Cursor;

use super::*;
use crate::description::{DriveDescription, DriveParameters};
use crate::parameters::{Angle, QueueOrder, Repeated, SeekCurve, SeekPoint};

const SPECS: &str = include_str!("testdata/plain.diskspecs");
const MODEL: &str = include_str!("testdata/plain.model");
/// Four tracks up on head 0 and four down on head 1, again and again; the third time is cut short.
const RUNS: &str = include_str!("testdata/runs.layout");
/// Two zones of three cylinders; a track with a gap, tracks with unused first or last sectors, heads in descending order on cylinder 1.
const TRACKS: &str = include_str!("testdata/tracks.layout");
const MAP: &str = include_str!("testdata/tracks.map");

fn read_changed(change: impl Fn(&str, String) -> String) -> Result<ParsedDrive, ReadError> {
    read_with_notes("plain.diskspecs", &mut |name| {
        let text = match name {
            "plain.diskspecs" => SPECS,
            "plain.model" => MODEL,
            "plain.seek" => "Seek distances measured: 2\n1,\t1.5\n9, 4.25, 0.1\n",
            "runs.layout" => RUNS,
            "tracks.layout" => TRACKS,
            "tracks.map" => MAP,
            _ => return Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        Ok(Box::new(Cursor::new(change(name, text.to_owned()).into_bytes())))
    })
}

fn replaced(from: &'static str, to: &'static str) -> String {
    let result = read_changed(move |_, text| text.replace(from, to));
    result.err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
}

#[test]
fn reads_a_drive_from_three_files() {
    let reading = read_changed(|_, text| text).unwrap();
    let p = reading.parameters;
    assert_eq!(p.name, "PLAIN");
    assert_eq!((p.layout.surfaces, p.layout.cylinders, p.layout.zones.len()), (2, 100, 1));
    assert_eq!(p.layout.zones[0].track_skew, Angle::Sectors(3));
    assert_eq!(p.layout.zones[0].slips, [7, 9]);
    let curve = [SeekPoint { distance: 1, ms: 1.5 }, SeekPoint { distance: 9, ms: 4.25 }];
    assert_eq!(p.mechanics.seek, SeekCurve::Measured(curve.to_vec()));
    assert_eq!(p.mechanics.write_settle_ms, -0.25);
    assert_eq!(p.queue.order, QueueOrder::PositioningTime { ageing: 0.006 });
    let notes: Vec<String> = reading.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        ["plain.model:29: 'HPL seek equation values' has no effect: the seek type is extracted"]
    );
}

#[test]
fn errors_name_the_position_and_the_reason() {
    let table = [
        (
            "Print stats",
            "Prnt stats",
            "plain.diskspecs:16: disksim_disk has no field 'Prnt stats'; did you mean 'Print stats'?",
        ),
        (
            "Preseeking level = 0",
            "Preseeking level = 3",
            "plain.diskspecs:14: 'Preseeking level = 3': must lie between 0 and 2",
        ),
        (
            "transfer time = 0.125000",
            "transfer time = 3600000",
            "plain.diskspecs:5: 'Bulk sector transfer time = 3600000': must lie between -10 and 10",
        ),
        (
            "overheads = 1.0",
            "overheads = 1001.0",
            "plain.diskspecs:4: 'Time scale for overheads = 1001': must lie between 0 and 1000",
        ),
        (
            "Preseeking level = 0",
            "Preseeking level = deep",
            "plain.diskspecs:14: 'Preseeking level' must be a number",
        ),
        (
            "   Never disconnect = 0,\n",
            "",
            "plain.diskspecs:1: disksim_disk: the field 'Never disconnect' is missing",
        ),
        (
            "queue length = 1,\n   Scheduler = disksim_ioqueue {\n      Scheduling policy = 14",
            "queue length = 4,\n   Scheduler = disksim_ioqueue {\n      Scheduling policy = 17",
            "plain.diskspecs:20: 'Scheduling policy = 17' is not modelled for 4 commands; 1 (FCFS), 2 (LOOK), 3 (C-LOOK), 4 (SSTF), 8, 14, 20 (SPTF) and 9, 15, 21 (SPCTF) are",
        ),
        ("plain.seek", "gone.seek", "plain.model:26: gone.seek: entity not found"),
        ("source plain.model", "source gone.model", "plain.diskspecs:2: gone.model: entity not found"),
        ("9, 4.25", "1, 4.25", "plain.seek:3: distances must rise, and begin at 1 or more"),
        ("9, 4.25", "9; 4.25", "plain.seek:3: expected 'distance, milliseconds', found '9; 4.25, 0.1'"),
        (
            "= dm_layout_g1 {",
            "= dm_layout_g3 {",
            "plain.model:4: a dm_layout_g3 block where a dm_layout_g1, g2 or g4 is expected",
        ),
        (
            "Last cylinder number = 99",
            "Last cylinder number = 101",
            "plain.model:9: 'Zones': zone 0: its cylinders are out of order or beyond the last",
        ),
        ("slips = [7, 9]", "slips = [7, 9", "plain.model:19: expected ',' or ']'"),
        (
            "source plain.model",
            "source plain.diskspecs",
            "plain.diskspecs:1: blocks, lists or files are nested more than 16 deep",
        ),
    ];
    for (from, to, message) in table {
        assert_eq!(replaced(from, to), message, "{from} -> {to}");
    }
}

/// As in libparam, a name is relative to the file that contains it, or else to the first file.
#[test]
fn names_are_relative_to_the_file_that_contains_them() {
    let found = |seek: &'static str| {
        let mut opened = Vec::new();
        let reading = read_with_notes("drives/plain.diskspecs", &mut |name| {
            let text = match name {
                "drives/plain.diskspecs" => SPECS.replace("plain.model", "models/plain.model"),
                "models/plain.model" => MODEL.to_owned(),
                name if name == seek => "1, 1.5\n".to_owned(),
                _ => return Err(io::Error::from(io::ErrorKind::NotFound)),
            };
            opened.push(name.to_owned());
            Ok(Box::new(Cursor::new(text.into_bytes())))
        });
        reading.map(|_| opened.last().cloned().unwrap()).map_err(|error| error.to_string())
    };
    assert_eq!(found("models/plain.seek").unwrap(), "models/plain.seek");
    assert_eq!(found("plain.seek").unwrap(), "plain.seek");
    assert_eq!(found("none").unwrap_err(), "models/plain.model:26: plain.seek: entity not found");
}

/// Some editors write a byte-order mark.
#[test]
fn a_byte_order_mark_is_skipped() {
    let plain = read_changed(|_, text| text).unwrap();
    assert_eq!(read_changed(|_, text| format!("\u{feff}{text}")).unwrap(), plain);
}

/// The same drive with an index of runs for a layout.
fn with_runs(change: impl Fn(String) -> String) -> Result<ParsedDrive, ReadError> {
    read_changed(|name, text| match name {
        "plain.model" => {
            let (begin, end) = (text.find("dm_layout_g1").unwrap(), text.find("Mechanical").unwrap());
            let text = format!("{}source runs.layout,\n   {}", &text[..begin], &text[end..]);
            text.replace("Number of cylinders", "Block count = 180,\n   Number of cylinders")
        }
        "runs.layout" => change(text),
        _ => text,
    })
}

#[test]
fn reads_an_index_of_runs() {
    let reading = with_runs(|text| text).unwrap();
    let p = reading.parameters.layout;
    let runs = p.indexed.as_ref().unwrap();
    assert_eq!((runs.sectors, &runs.patterns[..], runs.slips.len()), (180, &[10, 8][..], 2));
    assert_eq!(runs.indexes[1][0].repeats, Repeated::Index(0));
    let toml = toml::to_string(&p).unwrap();
    assert_eq!(toml::from_str::<crate::parameters::LayoutParameters>(&toml).unwrap(), p);
    let wrong = |from: &'static str, to: &'static str| {
        let changed = with_runs(move |text| text.replace(from, to));
        changed.err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
    };
    let index = "runs.layout:3: 'IDX': ";
    for (from, to, message) in [
        ("TRACK, 0, 0", "TRACK, 2, 0", "a run repeats a track or has a head that is not there"),
        ("TRACK, 0, 0", "TRACK, 0, 2", "a run repeats a track or has a head that is not there"),
        ("IDX, 0", "IDX, 1", "a run must repeat an index before its own"),
        ("40, 3,", "41, 3,", "runs of an index must follow each other without a gap"),
        ("0, 0, 0.0, 80", "0, 0, 0.0, 81", "an index is shorter than what a run repeats of it"),
    ] {
        assert_eq!(wrong(from, to), format!("{index}{message}"), "{from} -> {to}");
    }
    assert!(
        wrong("TRACK, 0, 0", "TRACK, zero, 0")
            .starts_with("runs.layout:3: 'IDX': a run must be eight numbers")
    );
    assert!(wrong("0, 9, 10", "1, 9, 10").starts_with("runs.layout:2: 'TP' must be triples"));
    assert!(
        wrong("Remaps = []", "Remaps = [1, 1, 0, 0, 0, 10]")
            .contains("must be an empty list: DiskSim aborts")
    );
}

/// The same drive with a map of its tracks for a layout.
fn with_tracks(from: &'static str, to: &'static str) -> Result<ParsedDrive, ReadError> {
    read_changed(|name, text| match name {
        "plain.model" => {
            let (begin, end) = (text.find("dm_layout_g1").unwrap(), text.find("Mechanical").unwrap());
            format!("{}source tracks.layout,\n   {}", &text[..begin], &text[end..])
        }
        "tracks.layout" | "tracks.map" => text.replacen(from, to, 1),
        _ => text,
    })
}

/// Sector, cylinder, head, physical sector and angle as DiskSim's library computes them.
#[test]
fn reads_a_map_of_tracks() {
    let p = with_tracks("", "").unwrap().parameters.layout;
    let layout = crate::layout::Layout::new(&p).unwrap();
    assert_eq!(layout.capacity(), 100);
    for (lbn, cylinder, head, sector, angle) in [
        (0, 0, 0, 0, 0),
        (9, 0, 1, 0, 1_288_490_187),
        (18, 1, 1, 0, 3_006_477_103),
        (21, 1, 1, 3, 4_294_967_290),
        (22, 1, 1, 6, 1_288_490_181),
        (26, 1, 0, 1, 429_496_723),
        (34, 2, 0, 0, 1_717_986_910),
        (44, 2, 1, 0, 3_006_477_097),
        (54, 3, 0, 0, 429_496_729),
        (62, 3, 1, 0, 1_717_986_917),
        (70, 4, 0, 0, 3_006_477_106),
        (78, 4, 1, 2, 1_073_741_822),
        (84, 5, 0, 0, 1_717_986_916),
        (92, 5, 1, 0, 3_006_477_104),
    ] {
        let spot = layout.stretch(lbn).spot;
        let found = (spot.cylinder, spot.head, spot.sector, spot.angle);
        assert_eq!(found, (cylinder, head, sector, angle), "sector {lbn}");
    }
}

#[test]
fn errors_in_a_map_of_tracks_name_the_reason() {
    for (from, to, message) in [
        ("lbn 9 ", "lbn 8 ", "tracks.map:5: sectors must follow each other from 0 on"),
        ("lbn 9 -->", "lbn 9 ->", "tracks.map:5: must be 'lbn N --> cyl N"),
        ("cyl 5, head 1", "cyl 5, head 2", "tracks.map:16: there is no such cylinder or head"),
        (
            "cyl 5, head 1, sect 0",
            "cyl 0, head 0, sect 9",
            "tracks.map:1: the sectors of a track must be contiguous",
        ),
        ("Last cylinder number = 5", "Last cylinder number = 4", "tracks.map:1: a cylinder is in no zone"),
        ("Zone Skew = 0.1,", "", "no error"),
        (
            "Skew units = revolutions,\n         Zone Skew = 0.1,",
            "Zone Skew = 1.0,\n         Skew units = revolutions,",
            "tracks.layout:21: 'Skew units' must precede the skews",
        ),
        ("tracks.map", "other.map", "tracks.layout:2: other.map: "),
        (
            "Layout Map File = tracks.map,",
            "",
            "tracks.layout:1: dm_layout_g2: the field 'Layout Map File' is missing",
        ),
    ] {
        let error =
            with_tracks(from, to).err().map_or_else(|| "no error".to_owned(), |error| error.to_string());
        assert!(error.starts_with(message), "{from} -> {to}: {error}");
    }
}

/// Overrides convert a drive to TOML and back. Negative cylinders and angles must survive the conversion.
#[test]
fn an_index_of_runs_round_trips_through_toml() {
    let reading = with_runs(|text| text.replace("0.125, 40, -4", "-0.125, 40, -4")).unwrap();
    let parameters = DriveParameters::Rotating(Box::new(reading.parameters));
    let (summary, source) = (String::new(), "plain.diskspecs".to_owned());
    let drive = DriveDescription { summary, source, parameters, origins: Vec::new(), notes: Vec::new() };
    let again = DriveDescription::parse("again.toml", &drive.to_toml()).unwrap();
    assert_eq!(again.parameters, drive.parameters);
}

/// The layout determines the size if the file states more sectors.
#[test]
fn a_layout_smaller_than_the_block_count_is_reported() {
    let reading = with_runs(|text| text.replace("230, 9", "170, 9")).unwrap();
    assert_eq!(reading.parameters.layout.indexed.unwrap().sectors, 166);
    let note = "'Block count = 180': the layout has only 166 sectors, which the model uses";
    assert!(reading.notes.iter().any(|n| n.text == note), "{:?}", reading.notes);
}

/// Western Digital's files have the seek times of writes in a fourth column.
#[test]
fn writes_may_have_a_seek_curve_of_their_own() {
    let curve = |text: &'static str| {
        let change = move |name: &str, old: String| if name == "plain.seek" { text.to_owned() } else { old };
        read_changed(change).map(|reading| reading.parameters.mechanics.write_seek)
    };
    let both = curve("1, 1.5, 0.1, 1.75\n9, 4.25, 0.1, 4.5\n").unwrap();
    let writes = [SeekPoint { distance: 1, ms: 1.75 }, SeekPoint { distance: 9, ms: 4.5 }];
    assert_eq!(both, Some(SeekCurve::Measured(writes.to_vec())));
    assert_eq!(curve("1, 1.5\n").unwrap(), None);
    let half = curve("1, 1.5, 0.1\n9, 4.25, 0.1, 4.5\n").unwrap_err().to_string();
    assert_eq!(half, "plain.seek:2: every line must have a write's time or none");
}

#[test]
fn more_segments_than_the_model_supports_are_reported() {
    let reading =
        read_changed(|_, text| text.replace("buffer segments = 3,", "buffer segments = 4096,")).unwrap();
    assert_eq!(reading.parameters.buffer.segments, 2048);
    let expected = |n: &Note| {
        n.to_string() == "plain.diskspecs:34: 'Number of buffer segments = 4096': the model has 2048"
    };
    assert!(reading.notes.iter().any(expected), "{:?}", reading.notes);
}

/// Settings that matter only with several commands are accepted for a drive that queues one.
#[test]
fn one_command_at_a_time_needs_no_schemes() {
    let reading = read_changed(|_, text| {
        text.replace("policy = 14", "policy = 20")
            .replace("Overlapping request scheme = 0", "Overlapping request scheme = 2")
    });
    let reading = reading.unwrap();
    assert_eq!(reading.parameters.queue.order, QueueOrder::Fcfs);
    let note = "'Overlapping request scheme = 2' has no effect: the drive takes one command at a time";
    assert!(reading.notes.iter().any(|n| n.text == note), "{:?}", reading.notes);
}

/// DiskSim's numbers for the orders in which a drive serves its commands.
#[test]
fn orders_by_number() {
    let order = |number: u32| {
        let changed = read_changed(|_, text| {
            text.replace("queue length = 1", "queue length = 4")
                .replace("policy = 14", &format!("policy = {number}"))
        });
        changed.unwrap().parameters.queue.order
    };
    assert_eq!((order(2), order(4)), (QueueOrder::Look, QueueOrder::Sstf));
    assert_eq!(order(9), QueueOrder::PositioningTimeOrBuffer { ageing: 0.0 });
    assert_eq!(order(15), QueueOrder::PositioningTimeOrBuffer { ageing: 0.006 });
    assert_eq!(order(20), QueueOrder::PositioningTime { ageing: 0.0 });
    assert_eq!(order(21), QueueOrder::PositioningTimeOrBuffer { ageing: 0.0 });
}

const EXPERIMENT: &str = include_str!("testdata/plain.parv");

/// Reads a drive whose bus takes no time; `beside`: the experiment's file exists beside the drive's.
fn on_a_host(name: &str, beside: bool, change: impl Fn(String) -> String) -> Result<ParsedDrive, ReadError> {
    read_with_notes(name, &mut |file| {
        let text = match file {
            "plain.diskspecs" => SPECS.replace("transfer time = 0.125", "transfer time = 0.0"),
            "plain.model" => MODEL.to_owned(),
            "plain.seek" => "Seek distances measured: 1\n1,\t1.5\n".to_owned(),
            "plain.parv" if beside => change(EXPERIMENT.to_owned()),
            _ => return Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        Ok(Box::new(Cursor::new(text.into_bytes())))
    })
}

#[test]
fn the_experiment_states_the_transfer_time_of_the_bus() {
    for (name, origin) in [
        ("plain.parv", "plain.parv: 0.2 ms a sector read, 0.25 ms written"),
        ("plain.diskspecs", "plain.parv, beside the drive's file: 0.2 ms a sector read, 0.25 ms written"),
    ] {
        let reading = on_a_host(name, true, |text| text).unwrap();
        let bus = reading.parameters.bus;
        assert_eq!((bus.sector_ms, bus.host_read_sector_ms, bus.host_write_sector_ms), (0.0, 0.2, 0.25));
        assert_eq!(reading.host.as_deref(), Some(origin));
    }
    let alone = on_a_host("plain.diskspecs", false, |text| text).unwrap();
    assert_eq!(alone.parameters.bus.host_read_sector_ms, 0.0);
    assert!(alone.host.unwrap().starts_with("no experiment's .parv file was found"));
    // A drive that states its own transfer time needs no host.
    assert_eq!(read_changed(|_, text| text).unwrap().host, None);
}

#[test]
fn errors_in_an_experiment_name_the_reason() {
    let wrong = |from: &'static str, to: &'static str| {
        let changed = on_a_host("plain.parv", true, move |text| text.replace(from, to));
        changed.err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
    };
    assert_eq!(wrong("topology", "# topology"), "plain.parv:26: expected '{' after 'disksim_bus'");
    assert_eq!(
        wrong("disksim_disk disk0 [], disksim_disk disk2 []", ""),
        "plain.parv:25: the topology has no disksim_disk"
    );
    assert_eq!(wrong("as PLAIN", "as PLANE"), "plain.parv:25: the disksim_disk 'disk0' is not instantiated");
    assert_eq!(
        wrong("disk0 .. disk2", "disk0 .. bus2"),
        "plain.parv:20: expected two names that end in rising numbers around '..'"
    );
    assert_eq!(
        wrong("disk0 .. disk2", "disk0 .. disk65535, disk0 .. disk65535"),
        "plain.parv:20: more than 100000 names in a list"
    );
    assert_eq!(
        wrong("Read block transfer time = 0.2", "Read block transfer time = fast"),
        "plain.parv:14: 'Read block transfer time' must be a number"
    );
    assert_eq!(
        wrong("Read block transfer time = 0.2", "Read block transfer time = 11"),
        "plain.parv:14: 'Read block transfer time = 11': must lie between 0 and 10"
    );
    // A sourced file may contain several blocks.
    let two = |name: &str| {
        let text = match name {
            "two.parv" => "source two.specs\ntopology disksim_mems m0 []".to_owned(),
            "two.specs" => "disksim_mems A { }\ndisksim_mems B { }".to_owned(),
            _ => return Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        Ok(Box::new(Cursor::new(text.into_bytes())) as Box<dyn Read>)
    };
    let error = read_with_notes("two.parv", &mut |name| two(name)).unwrap_err();
    assert_eq!(error.to_string(), "two.parv:2: the topology has no disksim_disk");
    // An invalid experiment beside the drive's file is only reported.
    let neighbour = on_a_host("plain.diskspecs", true, |text| text.replace("as PLAIN", "as PLANE")).unwrap();
    assert!(
        neighbour.host.unwrap().ends_with("(plain.parv:25: the disksim_disk 'disk0' is not instantiated)")
    );
}

/// Every published host is valid and in range.
#[test]
fn published_hosts_can_be_read() {
    let found =
        hosts::find("hp_c2247a_VALIDATE", "x.diskspecs", &mut |_| Err(io::ErrorKind::NotFound.into()));
    assert_eq!(found.host, experiment::Host { read_sector_ms: 0.1701, write_sector_ms: 0.18686 });
}

/// The reader does not panic on truncated files, or on files with one changed byte.
#[test]
fn never_panics_on_damaged_files() {
    for cut in 0..SPECS.len() {
        let _ =
            read_changed(|name, text| if name == "plain.diskspecs" { text[..cut].to_owned() } else { text });
    }
    for cut in 0..EXPERIMENT.len() {
        let _ = on_a_host("plain.parv", true, |text| text[..cut].to_owned());
    }
    for cut in 0..RUNS.len() {
        let _ = with_runs(|text| text[..cut].to_owned());
    }
    let mut state = 1_u64;
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (at, byte) = ((state >> 33) as usize, b"0129-.e#{}[],= \nAz\xff"[(state >> 20) as usize % 19]);
        let _ = with_runs(|text| {
            let mut bytes = text.into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let _ = read_changed(|name, text| {
            let mut bytes = text.into_bytes();
            if name == "plain.model" {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            String::from_utf8_lossy(&bytes).into_owned()
        });
    }
}
