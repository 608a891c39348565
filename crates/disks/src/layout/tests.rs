use super::*;
use crate::parameters::{
    Angle, IndexedLayout, LayoutParameters, Remap, Repeated, Run, Slip, Sparing, ZoneParameters,
};

fn zone(first: u32, last: u32, per_track: u32, spares: u32, slips: &[u32]) -> ZoneParameters {
    ZoneParameters {
        first_cylinder: first,
        last_cylinder: last,
        sectors_per_track: per_track,
        track_skew: Angle::Sectors(3),
        cylinder_skew: Angle::Sectors(5),
        spares,
        slips: slips.to_vec(),
        ..Default::default()
    }
}

fn parameters(sparing: Sparing, mapping: Mapping) -> LayoutParameters {
    let spares = if sparing == Sparing::None { 0 } else { 3 };
    LayoutParameters {
        indexed: None,
        surfaces: 3,
        cylinders: 30,
        mapping,
        sparing,
        range_cylinders: 2,
        zones: vec![
            zone(0, 9, 20, spares, if spares == 0 { &[] } else { &[4, 5, 130] }),
            zone(12, 29, 16, spares, if spares == 0 { &[] } else { &[7, 8] }),
        ],
    }
}

const SPARINGS: [Sparing; 11] = [
    Sparing::None,
    Sparing::Tracks,
    Sparing::SectorsPerCylinder,
    Sparing::SectorsPerTrack,
    Sparing::SectorsPerCylinderSlipToEnd,
    Sparing::SectorsPerCylinderAtFront,
    Sparing::SectorsPerCylinderAtFrontSlipToEnd,
    Sparing::SectorsAtEnd,
    Sparing::SectorsPerRange,
    Sparing::SectorsPerZone,
    Sparing::SectorsPerZoneSlipToEnd,
];

/// Sectors have distinct positions in ascending order of tracks, and never that of a slip. The tracks cover the drive without gaps.
#[test]
fn sectors_never_share_a_place() {
    for sparing in SPARINGS {
        for mapping in [Mapping::Cylinder, Mapping::SerpentineByZone, Mapping::Serpentine] {
            let layout = Layout::new(&parameters(sparing, mapping)).unwrap();
            let mut seen = std::collections::HashSet::new();
            for sector in 0..layout.capacity() {
                let s = layout.stretch(sector);
                let key = (s.spot.cylinder, s.spot.head, s.spot.sector);
                assert!(seen.insert(key), "{sparing:?} {mapping:?} {sector}");
                assert!(layout.track(sector).0 <= sector && sector < s.end && s.end == s.track_end);
                assert!(s.spot.sector < layout.per_track(sector));
            }
        }
    }
}

/// The angle of a physical sector, computed independently by DiskSim's rule: the skews of all earlier switches and, if cylinders or
/// tracks have spares, one sector for each slip before its cylinder or track.
fn angle(p: &LayoutParameters, spot: PhysicalSector) -> Turn {
    let cylinder = spot.cylinder;
    let z = p.zones.iter().rfind(|z| z.first_cylinder <= cylinder).unwrap();
    let per_track = z.sectors_per_track;
    let row = cylinder - z.first_cylinder;
    let surface = head(p.mapping, p.surfaces, spot.head.into(), row, cylinder);
    let tracks = match p.sparing {
        Sparing::SectorsPerTrack => row * p.surfaces + u32::from(spot.head),
        Sparing::SectorsPerCylinder
        | Sparing::SectorsPerCylinderSlipToEnd
        | Sparing::SectorsPerCylinderAtFront
        | Sparing::SectorsPerCylinderAtFrontSlipToEnd => row * p.surfaces,
        _ => 0,
    };
    let slips = z.slips.iter().filter(|&&slip| slip < tracks * per_track).count() as u32;
    let switches = 3 * (surface + (p.surfaces - 1) * row);
    // The widths divide a revolution, so that the sums are exact.
    (switches + 5 * row + slips + spot.sector)
        .wrapping_mul((1_u64 << 32).div_euclid(per_track.into()) as Turn)
}

#[test]
fn tracks_begin_at_the_angle_of_their_skews_and_slips() {
    for sparing in SPARINGS {
        for mapping in [Mapping::Cylinder, Mapping::SerpentineByZone, Mapping::Serpentine] {
            let mut p = parameters(sparing, mapping);
            p.zones[0].sectors_per_track = 32;
            if sparing != Sparing::None {
                p.zones[0].slips.extend([200, 389, 579, 768]);
                p.zones[0].spares = 8;
                p.zones[1].slips.extend([100, 200, 300, 400, 500, 600]);
                p.zones[1].spares = 8;
            }
            let layout = Layout::new(&p).unwrap();
            for sector in 0..layout.capacity() {
                let spot = layout.stretch(sector).spot;
                assert_eq!(spot.angle, angle(&p, spot), "{sparing:?} {mapping:?} {sector}: {spot:?}");
            }
        }
    }
}

#[test]
fn capacity_excludes_spares() {
    let capacity = |sparing| Layout::new(&parameters(sparing, Mapping::Cylinder)).unwrap().capacity();
    let all = 10 * 3 * 20 + 18 * 3 * 16;
    assert_eq!(capacity(Sparing::None), all);
    assert_eq!(capacity(Sparing::Tracks), all - 3 * 20 - 3 * 16);
    assert_eq!(capacity(Sparing::SectorsPerCylinder), all - 3 * 28);
    assert_eq!(capacity(Sparing::SectorsPerTrack), all - 3 * 3 * 28);
    assert_eq!(capacity(Sparing::SectorsAtEnd), all - 5);
    assert_eq!(capacity(Sparing::SectorsPerRange), all - 3 * (5 + 9));
    assert_eq!(capacity(Sparing::SectorsPerZone), all - 6);
}

#[test]
fn a_moved_sector_is_an_extent_of_its_own() {
    let mut p = parameters(Sparing::SectorsPerZone, Mapping::Cylinder);
    p.zones[0].remaps = vec![Remap { from: 50, to: 599 }];
    let layout = Layout::new(&p).unwrap();
    let moved = 48;
    assert_eq!(layout.stretch(moved).spot.cylinder, 9);
    assert_eq!(layout.stretch(moved).spot.sector, 19);
    assert_eq!(layout.stretch(moved).end, moved + 1);
    assert_eq!(layout.stretch(moved - 3).end, moved);
    assert_eq!(layout.stretch(moved + 1).spot.sector, 11);
}

#[test]
fn a_serpentine_cylinder_begins_on_the_head_where_the_previous_ended() {
    let layout = Layout::new(&parameters(Sparing::None, Mapping::SerpentineByZone)).unwrap();
    let heads: Vec<u16> = (0..6).map(|track| layout.stretch(track * 20).spot.head).collect();
    assert_eq!(heads, [0, 1, 2, 2, 1, 0]);
}

#[test]
fn impossible_layouts_are_rejected() {
    let good = parameters(Sparing::None, Mapping::Cylinder);
    let with = |change: fn(&mut LayoutParameters)| {
        let mut p = good.clone();
        change(&mut p);
        let error = Layout::new(&p).unwrap_err();
        assert_eq!(capacity(&p), Err(error.clone()));
        error
    };
    assert_eq!(with(|p| p.surfaces = 0), TrackLayoutError::Empty);
    let all_reserved = with(|p| (p.zones[0].reserved_sectors, p.zones[1].reserved_sectors) = (600, 864));
    assert_eq!(all_reserved, TrackLayoutError::Empty);
    assert_eq!(with(|p| p.zones[1].first_cylinder = 9), TrackLayoutError::Cylinders(1));
    assert_eq!(with(|p| p.zones[0].sectors_per_track = 0), TrackLayoutError::SectorsPerTrack(0));
    assert_eq!(with(|p| p.zones[1].reserved_sectors = u32::MAX), TrackLayoutError::NoRoom(1));
    assert_eq!(with(|p| p.zones[0].remaps = vec![Remap { from: 1, to: 600 }]), TrackLayoutError::Beyond(0));
}

/// Four cylinders upwards on head 0, the same four downwards on head 1, then the next four. 10 sectors per track; two slips.
fn there_and_back() -> LayoutParameters {
    let track = |first_sector, first_cylinder, run_cylinders, angle, angle_step, head| Run {
        first_sector,
        first_cylinder,
        angle,
        sectors: 10,
        cylinders: 1,
        angle_step,
        run_sectors: 40,
        run_cylinders,
        repeats: Repeated::Track { pattern: 0, head },
    };
    let piece = Run {
        first_sector: 0,
        first_cylinder: 0,
        angle: 0.0,
        sectors: 80,
        cylinders: 4,
        angle_step: 0.0625,
        run_sectors: 230,
        run_cylinders: 12,
        repeats: Repeated::Index(0),
    };
    let indexed = IndexedLayout {
        sectors: 228,
        patterns: vec![10],
        indexes: vec![vec![track(0, 0, 4, 0.0, 0.25, 0), track(40, 3, -4, 0.5, 0.125, 1)], vec![piece]],
        slips: vec![Slip { first: 3, sectors: 1 }, Slip { first: 90, sectors: 1 }],
    };
    LayoutParameters {
        zones: Vec::new(),
        indexed: Some(indexed),
        surfaces: 2,
        cylinders: 12,
        ..parameters(Sparing::None, Mapping::Cylinder)
    }
}

#[test]
fn an_index_of_runs_may_reverse_its_direction() {
    let layout = Layout::new(&there_and_back()).unwrap();
    assert_eq!(layout.capacity(), 228);
    // Among all positions, slips included: the part, the track in it, and the sector on the track.
    let mut sector = 0;
    for place in (0..230_u64).filter(|place| ![3, 90].contains(place)) {
        let (piece, track, on_track) = (place / 80, place % 80 / 10, place % 10);
        let down = track >= 4;
        let cylinder = piece * 4 + if down { 7 - track } else { track };
        let quarters = if down { 8 + (track - 4) * 2 } else { track * 4 };
        let angle = ((quarters + piece) << 28) as Turn;
        let stretch = layout.stretch(sector);
        let expected = (cylinder as u32, u16::from(down), on_track as u32);
        assert_eq!((stretch.spot.cylinder, stretch.spot.head, stretch.spot.sector), expected, "{place}");
        let width = ((1_u64 << 32) / 10) as Turn;
        assert_eq!(stretch.spot.angle, angle.wrapping_add(width.wrapping_mul(on_track as Turn)), "{place}");
        let (first, end) = layout.track(sector);
        assert!(first <= sector && sector < end && end == stretch.end && end - first <= 10, "{place}");
        assert_eq!(layout.per_track(sector), 10);
        // Searches for the nearest request prune with this bound, which must not be too small.
        let farthest = layout.farthest_moved();
        let bound = layout.plain_cylinder(sector);
        assert!((sector..228).all(|s| layout.stretch(s).spot.cylinder + farthest >= bound), "{place}");
        sector += 1;
    }
    assert_eq!(sector, 228);
}

#[test]
fn inconsistent_indexes_are_rejected() {
    let with = |change: fn(&mut IndexedLayout)| {
        let mut p = there_and_back();
        change(p.indexed.as_mut().unwrap());
        Layout::new(&p).unwrap_err().to_string()
    };
    assert_eq!(with(|p| p.sectors = 229), "its runs hold fewer sectors than the drive has");
    assert_eq!(with(|p| p.indexes.clear()), "it has no index");
    assert_eq!(with(|p| p.indexes[0][1].first_cylinder = 2), "a run begins before cylinder 0");
    assert_eq!(with(|p| p.indexes[1][0].first_cylinder = 12), "a run begins beyond the last cylinder");
    assert_eq!(with(|p| p.indexes[0][0].sectors = 0), "a run must have sectors and cylinders");
    assert_eq!(
        with(|p| p.indexes[1][0].run_cylinders = 8),
        "a run repeats what it holds on more cylinders than it has"
    );
    assert_eq!(
        with(|p| p.indexes[1][0].run_sectors = u64::MAX),
        "a run has more sectors than a drive can have"
    );
    let slips = "it has more than ten million slipped sectors, or they are beyond its runs";
    assert_eq!(with(|p| p.slips[1].sectors = u64::MAX), slips);
    assert_eq!(with(|p| p.slips[1].first = u64::MAX), slips);
    assert_eq!(with(|p| p.patterns[0] = 0), "a track must have 1 to 65535 sectors");
}
