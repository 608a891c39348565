use std::io::Cursor;

use super::*;
use crate::parameters::{Angle, QueueOrder, SeekCurve, SeekPoint};

const SPECS: &str = include_str!("testdata/plain.diskspecs");
const MODEL: &str = include_str!("testdata/plain.model");

fn read_changed(change: impl Fn(&str, String) -> String) -> Result<Reading, ReadError> {
    read_with_notes("plain.diskspecs", &mut |name| {
        let text = match name {
            "plain.diskspecs" => SPECS,
            "plain.model" => MODEL,
            "plain.seek" => "Seek distances measured: 2\n1,\t1.5\n9, 4.25, 0.1\n",
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
fn says_where_and_what_is_wrong() {
    let table = [
        (
            "Print stats",
            "Prnt stats",
            "plain.diskspecs:16: disksim_disk has no field 'Prnt stats'; the nearest is 'Print stats'",
        ),
        (
            "Preseeking level = 0",
            "Preseeking level = 3",
            "plain.diskspecs:14: 'Preseeking level = 3': must lie between 0 and 2",
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
            "prebuffering = 0",
            "prebuffering = 1",
            "plain.diskspecs:13: 'Allow write prebuffering = 1' is not modelled; only 0 is",
        ),
        (
            "policy = 14",
            "policy = 20",
            "plain.diskspecs:19: 'Scheduling policy = 20' is not modelled; 1 (FCFS), 2 (LOOK), 3 (C-LOOK), 4 (SSTF), 8 (SPTF) and 14 (aged SPTF) are",
        ),
        ("plain.seek", "gone.seek", "gone.seek: entity not found"),
        ("9, 4.25", "1, 4.25", "plain.seek:3: distances must rise, and begin at 1 or more"),
        ("9, 4.25", "9; 4.25", "plain.seek:3: expected 'distance, milliseconds', found '9; 4.25, 0.1'"),
        (
            "= dm_layout_g1 {",
            "= dm_layout_g4 {",
            "plain.model:4: a dm_layout_g4 block where dm_layout_g1 is expected; this model reads dm_layout_g1 only",
        ),
        (
            "Last cylinder number = 99",
            "Last cylinder number = 101",
            "plain.model:4: 'Zones': zone 0: its cylinders are out of order or beyond the last",
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

/// No prefix of the files and no byte exchanged in them makes the reader panic.
#[test]
fn never_panics_on_damaged_files() {
    for cut in 0..SPECS.len() {
        let _ =
            read_changed(|name, text| if name == "plain.diskspecs" { text[..cut].to_owned() } else { text });
    }
    let mut state = 1_u64;
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (at, byte) = ((state >> 33) as usize, b"0129-.e#{}[],= \nAz\xff"[(state >> 20) as usize % 19]);
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
