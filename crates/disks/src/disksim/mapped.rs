//! `dm_layout_g2`: a layout given as a map of its tracks in a separate file.
//!
//! DIXtrac writes the map: ranges of consecutive sectors and their positions. The zones state sectors per track and skews. Here each
//! track becomes a run in an index of runs, and unused sectors of a track become slips.
//!
//! DiskSim adds up skews in two ways that contradict its zones, and so does this reader: cylinder 0, and all cylinders of a zone but
//! the first, begin without the zone's own skew.
//!
//! *Source.* Behaviour of DiskSim 4.0's diskmodel library; no published drive has such a layout.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use super::fields::Fields;
use super::parser::Block;
use super::{Note, ReadError, Resolver, SourceLine, indexed};
use crate::layout::{Turn, turn};
use crate::parameters::{IndexedLayout, LayoutParameters, Repeated, Run, Slip};

/// Lines before the one with the numbers of cylinders and heads.
const PREFACE: usize = 2;

/// Consecutive sectors of a track.
#[derive(Clone, Copy)]
struct Extent {
    first: u64,
    cylinder: u32,
    head: u32,
    sector: u64,
    count: u64,
}

/// A zone.
struct Zone {
    cylinders: RangeInclusive<u32>,
    sectors_per_track: u32,
    skew: Turn,
    track_skew: Turn,
    cylinder_skew: Turn,
}

/// Reads the layout of a drive with that many sectors.
pub(super) fn layout(
    block: Block,
    surfaces: u32,
    cylinders: u32,
    sectors: Option<f64>,
    open: Resolver<'_>,
) -> Result<(LayoutParameters, Vec<Note>), ReadError> {
    let mut fields = Fields::of(block, "dm_layout_g2")?;
    let place = fields.place().clone();
    let (file, text) = fields
        .optional_file("Layout Map File", open)?
        .ok_or_else(|| ReadError::at(&place, "dm_layout_g2: the field 'Layout Map File' is missing"))?;
    let zones = fields.blocks("Zones")?.into_iter().map(zone).collect::<Result<Vec<_>, _>>()?;
    let extents = extents(&file, &text, surfaces, cylinders)?;
    let wrong = |what| ReadError::at(&SourceLine { file: file.clone(), line: 1 }, what);
    let all = extents.last().map_or(0, |last| last.first + last.count);
    let sectors = sectors.filter(|&count| count <= all as f64).map_or(all, |count| count as u64);
    let indexed = index(&extents, &zones, sectors).map_err(wrong)?;
    let layout = indexed::of_runs(surfaces, cylinders, indexed, ("Zones", &place))?;
    Ok((layout, fields.done()?))
}

fn zone(block: Block) -> Result<Zone, ReadError> {
    let mut fields = Fields::of(block, "dm_layout_g2_zone")?;
    let skews = ["Zone Skew", "Skew for track switch", "Skew for cylinder switch"];
    if skews.iter().any(|skew| fields.stands_before(skew, "Skew units")) {
        let what = "'Skew units' must precede the skews: in DiskSim it applies only to the skews that follow";
        return Err(ReadError::at(&fields.place_of("Skew units"), what));
    }
    let in_turns = fields.skew_units()?.unwrap_or(false);
    let sectors_per_track = fields.whole("Blocks per track", 1, 65_535)?;
    let width = ((1_u64 << 32) / u64::from(sectors_per_track)).min(u64::from(Turn::MAX)) as Turn;
    let mut skew = |name| -> Result<Turn, ReadError> {
        let value = fields.optional_number(name, 0.0, 65_535.0)?.unwrap_or(0.0);
        Ok(if in_turns { turn(value) } else { width.wrapping_mul(value as Turn) })
    };
    let (zone_skew, track_skew, cylinder_skew) = (skew(skews[0])?, skew(skews[1])?, skew(skews[2])?);
    let first = fields.whole("First cylinder number", 0, u32::MAX)?;
    let last = fields.whole("Last cylinder number", first, u32::MAX)?;
    // The map has these.
    fields.optional_number("First LBN", 0.0, 9e15)?;
    fields.optional_number("Last LBN", 0.0, 9e15)?;
    fields.done()?;
    Ok(Zone { cylinders: first..=last, sectors_per_track, skew: zone_skew, track_skew, cylinder_skew })
}

/// The lines of a map up to the list of defects, which DiskSim only counts.
fn extents(file: &str, text: &str, surfaces: u32, cylinders: u32) -> Result<Vec<Extent>, ReadError> {
    let mut extents: Vec<Extent> = Vec::new();
    let lines = (1..).zip(text.lines()).skip(PREFACE + 1);
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        if text.trim_start().starts_with("Defect") {
            break;
        }
        let wrong = |what: &str| ReadError::at(&SourceLine { file: file.to_owned(), line }, what);
        let extent = extent(text).ok_or_else(|| {
            wrong("must be 'lbn N --> cyl N, head N, sect N, seqcnt N', where the last is one less than there are")
        })?;
        if extent.first != extents.last().map_or(0, |last| last.first + last.count) {
            return Err(wrong("sectors must follow each other from 0 on"));
        }
        if extent.cylinder >= cylinders || extent.head >= surfaces {
            return Err(wrong("there is no such cylinder or head"));
        }
        extents.push(extent);
    }
    Ok(extents)
}

fn extent(line: &str) -> Option<Extent> {
    let words: Vec<&str> = line.split([' ', ',', '\t']).filter(|word| !word.is_empty()).collect();
    let ["lbn", first, "-->", "cyl", cylinder, "head", head, "sect", sector, counted, count] = words[..]
    else {
        return None;
    };
    let small = |word: &str| word.parse::<u32>().ok();
    let more = u64::from(counted == "seqcnt");
    let count = u64::from(small(count)?) + more;
    let first = u64::from(small(first)?);
    (count > 0).then_some(Extent {
        first,
        cylinder: small(cylinder)?,
        head: small(head)?,
        sector: u64::from(small(sector)?),
        count,
    })
}

/// Builds an index with one run per track.
fn index(extents: &[Extent], zones: &[Zone], sectors: u64) -> Result<IndexedLayout, &'static str> {
    let mut layout = IndexedLayout { sectors, ..Default::default() };
    layout.patterns = zones.iter().map(|zone| zone.sectors_per_track).collect();
    let begins = cylinder_skews(extents, zones)?;
    let (mut runs, mut place, mut angle): (Vec<Run>, _, _) = (Vec::new(), 0, 0 as Turn);
    let mut seen = HashSet::new();
    let same_track = |a: &Extent, b: &Extent| (a.cylinder, a.head) == (b.cylinder, b.head);
    for track in extents.chunk_by(same_track) {
        let &Extent { cylinder, head, .. } = &track[0];
        if !seen.insert((cylinder, head)) || track.windows(2).any(|w| w[0].sector + w[0].count > w[1].sector)
        {
            return Err(
                "the sectors of a track must be contiguous: DiskSim aborts on an access to any other track, so that no \
                        reference for the model exists",
            );
        }
        let pattern = zones.iter().position(|zone| zone.cylinders.contains(&cylinder));
        let pattern = pattern.ok_or("a cylinder is in no zone")?;
        let goes_on = runs.last().is_some_and(|run| run.first_cylinder == cylinder);
        angle = if goes_on { angle.wrapping_add(zones[pattern].track_skew) } else { begins[&cylinder] };
        let length = track.last().map_or(0, |last| last.sector + last.count);
        let mut next = 0;
        for part in track {
            if part.sector > next {
                layout.slips.push(Slip { first: place + next, sectors: part.sector - next });
            }
            next = part.sector + part.count;
        }
        runs.push(Run {
            first_sector: place,
            first_cylinder: cylinder,
            angle: f64::from(angle) / (1_u64 << 32) as f64,
            sectors: length,
            cylinders: 1,
            angle_step: 0.0,
            run_sectors: length,
            run_cylinders: 1,
            repeats: Repeated::Track { pattern: pattern as u32, head },
        });
        place += length;
    }
    layout.indexes = vec![runs];
    Ok(layout)
}

/// The angle of the first track of each cylinder, as in DiskSim: the previous cylinder's angle plus its switches.
fn cylinder_skews(extents: &[Extent], zones: &[Zone]) -> Result<HashMap<u32, Turn>, &'static str> {
    let mut begins = HashMap::from([(0, 0)]);
    let (mut zones, mut before) = (zones.iter().peekable(), 0);
    for (i, &Extent { cylinder, head, .. }) in extents.iter().enumerate() {
        let entered = cylinder != before;
        before = cylinder;
        if entered {
            zones.next_if(|zone| *zone.cylinders.end() < cylinder);
        }
        let zone = zones.peek().ok_or("a cylinder is in no zone")?;
        if entered && *zone.cylinders.start() == cylinder {
            begins.insert(cylinder, zone.skew);
        } else if entered {
            let here = *begins.entry(cylinder).or_default();
            begins.insert(cylinder + 1, here);
        }
        let switch = match extents.get(i + 1) {
            Some(next) if next.cylinder != cylinder => zone.cylinder_skew,
            Some(next) if next.head != head => zone.track_skew,
            _ => 0,
        };
        let behind = begins.entry(cylinder + 1).or_default();
        *behind = behind.wrapping_add(switch);
    }
    Ok(begins)
}
