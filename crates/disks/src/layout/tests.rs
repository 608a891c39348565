use super::*;
use crate::parameters::{Angle, LayoutParameters, Remap, Sparing, ZoneParameters};

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

/// Every sector has a place of its own, in ascending order of tracks, on no slip; and tracks tile the drive.
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

#[test]
fn capacities_are_what_is_left_after_spares() {
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
fn a_moved_sector_is_reached_by_itself() {
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
fn serpentine_cylinders_are_entered_on_the_head_they_were_left_on() {
    let layout = Layout::new(&parameters(Sparing::None, Mapping::SerpentineByZone)).unwrap();
    let heads: Vec<u16> = (0..6).map(|track| layout.stretch(track * 20).spot.head).collect();
    assert_eq!(heads, [0, 1, 2, 2, 1, 0]);
}

#[test]
fn impossible_layouts_are_refused() {
    let good = parameters(Sparing::None, Mapping::Cylinder);
    let with = |change: fn(&mut LayoutParameters)| {
        let mut p = good.clone();
        change(&mut p);
        Layout::new(&p).unwrap_err()
    };
    assert_eq!(with(|p| p.surfaces = 0), LayoutError::Empty);
    assert_eq!(with(|p| p.zones[1].first_cylinder = 9), LayoutError::Cylinders(1));
    assert_eq!(with(|p| p.zones[0].sectors_per_track = 0), LayoutError::SectorsPerTrack(0));
    assert_eq!(with(|p| p.zones[1].reserved_sectors = u32::MAX), LayoutError::NoRoom(1));
    assert_eq!(with(|p| p.zones[0].remaps = vec![Remap { from: 1, to: 600 }]), LayoutError::Beyond(0));
}
