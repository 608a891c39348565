//! The position of sectors on a drive whose layout is an index of runs: DiskSim's `layout_g4`.
//!
//! Such drives use one surface over a range of cylinders before they turn to the next, some up and back again, with arbitrary angles
//! for each run. A position is found by descending the index: the run, the repetition within it, and so on down to a track. Angles
//! add up on the way in DiskSim's arithmetic, in which each number of the file is converted to a fraction of 2^-32 separately.
//!
//! *Source.* DiskSim 4.0 reference manual, "G4 layout"; behaviour of its diskmodel library.

use super::slips::Slips;
use super::{TrackLayoutError, TrackSpan, Turn};
use crate::parameters::{IndexedLayout, Repeated, Run};

/// Upper bound for slipped sectors.
const SLIPS_MAX: u64 = 10_000_000;

/// Upper bound for sectors: a float counts them exactly, and sums of some of them do not overflow.
const PLACES_MAX: u64 = 1 << 53;

/// The checked index: every sector of the drive leads to a track.
#[derive(Clone, Debug)]
pub(super) struct Indexed {
    layout: IndexedLayout,
    slips: Slips,
    /// The longest part that a run of the last index repeats, in cylinders.
    pub(super) longest_piece: u32,
    /// Later sectors never lie on an earlier part of the last index.
    pub(super) rises: bool,
}

/// A track and its sectors.
struct Track {
    first: u64,
    end: u64,
    cylinder: u32,
    head: u32,
    pattern: u16,
    angle: Turn,
}

/// A fraction of a revolution as an angle. The cast saturates, and NaN becomes 0.
pub(crate) fn turn(revolutions: f64) -> Turn {
    ((revolutions - revolutions.floor()) * (1_u64 << 32) as f64) as Turn
}

impl Indexed {
    pub(super) fn new(
        layout: &IndexedLayout,
        surfaces: u32,
        cylinders: u32,
    ) -> Result<Self, TrackLayoutError> {
        let wrong = |what| Err(TrackLayoutError::Indexed(what));
        if layout.patterns.is_empty() || layout.patterns.iter().any(|n| !(1..=65_535).contains(n)) {
            return wrong("a track must have 1 to 65535 sectors");
        }
        // The greatest number of cylinders that each index covers.
        let mut reaches: Vec<i64> = Vec::with_capacity(layout.indexes.len());
        for runs in &layout.indexes {
            check(layout, &reaches, runs, surfaces)?;
            reaches.push(
                runs.iter().map(|run| span(run).1.saturating_add(piece(run, &reaches))).max().unwrap_or(0),
            );
        }
        if slipped(layout) > SLIPS_MAX || layout.slips.iter().any(|slip| slip.first > PLACES_MAX) {
            return wrong("it has more than ten million slipped sectors, or they are beyond its runs");
        }
        let Some(root) = layout.indexes.last() else { return wrong("it has no index") };
        if layout.sectors == 0 || layout.sectors > capacity(layout) {
            return wrong("its runs hold fewer sectors than the drive has");
        }
        if root.iter().any(|run| run.first_cylinder >= cylinders) {
            return wrong("a run begins beyond the last cylinder");
        }
        let longest = root.iter().map(|run| piece(run, &reaches)).max().unwrap_or(1);
        let longest_piece = longest.clamp(1, i64::from(u32::MAX)) as u32;
        let places = layout.slips.iter().flat_map(|slip| slip.first..slip.first + slip.sectors);
        let rises = rises(root);
        Ok(Self { slips: Slips::new(places), layout: layout.clone(), longest_piece, rises })
    }

    fn runs(&self, index: u32) -> &[Run] {
        &self.layout.indexes[index as usize]
    }

    /// The run that contains a position, counted from the index's beginning.
    fn run(runs: &[Run], place: u64) -> &Run {
        &runs[runs.partition_point(|run| run.first_sector <= place).max(1) - 1]
    }

    fn track(&self, place: u64) -> Track {
        let (mut index, mut base, mut end) = (self.layout.indexes.len() as u32 - 1, 0, u64::MAX);
        let (mut cylinder, mut angle) = (0_i64, 0 as Turn);
        loop {
            let run = Self::run(self.runs(index), place - base);
            let times = (place - base - run.first_sector) / run.sectors;
            let down = if run.run_cylinders < 0 { -1 } else { 1 };
            cylinder += i64::from(run.first_cylinder) + down * times as i64 * i64::from(run.cylinders);
            let steps = turn(run.angle_step).wrapping_mul(times as Turn);
            angle = angle.wrapping_add(turn(run.angle)).wrapping_add(steps);
            end = end.min(base + run.first_sector + run.run_sectors);
            base += run.first_sector + times * run.sectors;
            end = end.min(base + run.sectors);
            match run.repeats {
                Repeated::Index(below) => index = below,
                Repeated::Track { pattern, head } => {
                    let cylinder = cylinder.max(0) as u32;
                    return Track { first: base, end, cylinder, head, pattern: pattern as u16, angle };
                }
            }
        }
    }

    /// The track of a data sector.
    pub(super) fn find(&self, sector: u64) -> TrackSpan {
        let track = self.track(self.slips.nth_good(0, sector));
        let first = track.first - self.slips.before(track.first);
        let end = (track.end - self.slips.before(track.end)).min(self.layout.sectors);
        let (from, last) = (self.slips.nth_good(0, first), self.slips.nth_good(0, end - 1));
        TrackSpan {
            first,
            end,
            row: track.cylinder,
            surface: track.head,
            angle: track.angle,
            zone: track.pattern,
            offset: (from - track.first) as u16,
            broken: last - from != end - 1 - first,
        }
    }

    /// Number of a data sector on its track.
    pub(super) fn on_track(&self, sector: u64) -> u32 {
        let place = self.slips.nth_good(0, sector);
        (place - self.track(place).first) as u32
    }

    /// First cylinder of the last index's part that contains a sector: does not decrease with the sector if `rises`.
    pub(super) fn piece_cylinder(&self, sector: u64) -> u32 {
        let place = self.slips.nth_good(0, sector);
        let run = Self::run(self.runs(self.layout.indexes.len() as u32 - 1), place);
        let times = (place - run.first_sector) / run.sectors;
        run.first_cylinder.saturating_add(times as u32 * run.cylinders)
    }
}

/// Checks that an index contains every position from 0 to its length once.
fn check(
    layout: &IndexedLayout,
    reaches: &[i64],
    runs: &[Run],
    surfaces: u32,
) -> Result<(), TrackLayoutError> {
    let wrong = |what| Err(TrackLayoutError::Indexed(what));
    let mut next = 0;
    for run in runs {
        if run.first_sector != next {
            return wrong("runs of an index must follow each other without a gap");
        }
        if run.sectors == 0 || run.run_sectors == 0 || run.run_cylinders == 0 || run.cylinders == 0 {
            return wrong("a run must have sectors and cylinders");
        }
        if next > PLACES_MAX || run.run_sectors > PLACES_MAX || run.sectors > PLACES_MAX {
            return wrong("a run has more sectors than a drive can have");
        }
        let before_last = (run.run_sectors - 1) / run.sectors;
        if before_last.saturating_mul(u64::from(run.cylinders)) >= u64::from(run.run_cylinders.unsigned_abs())
        {
            return wrong("a run repeats what it holds on more cylinders than it has");
        }
        if span(run).0 < 0 {
            return wrong("a run begins before cylinder 0");
        }
        match run.repeats {
            Repeated::Index(below) if (below as usize) < reaches.len() => {
                if length(&layout.indexes[below as usize]) < run.sectors {
                    return wrong("an index is shorter than what a run repeats of it");
                }
            }
            Repeated::Index(_) => return wrong("a run must repeat an index before its own"),
            Repeated::Track { pattern, head } => match layout.patterns.get(pattern as usize) {
                Some(&sectors) if head < surfaces && u64::from(sectors) >= run.sectors => {}
                _ => return wrong("a run repeats a track or has a head that is not there"),
            },
        }
        next += run.run_sectors;
    }
    if runs.is_empty() { wrong("an index without a run") } else { Ok(()) }
}

fn rises(root: &[Run]) -> bool {
    root.iter().all(|run| run.run_cylinders >= 0)
        && root.windows(2).all(|pair| span(&pair[0]).1 <= i64::from(pair[1].first_cylinder) + 1)
}

/// Number of data sectors that a layout has room for.
pub(crate) fn capacity(layout: &IndexedLayout) -> u64 {
    layout.indexes.last().map_or(0, |root| length(root)).saturating_sub(slipped(layout))
}

fn slipped(layout: &IndexedLayout) -> u64 {
    layout.slips.iter().fold(0, |sum, slip| sum.saturating_add(slip.sectors))
}

fn length(runs: &[Run]) -> u64 {
    runs.last().map_or(0, |run| run.first_sector.saturating_add(run.run_sectors))
}

/// The first cylinder of a run, and the one behind its last.
fn span(run: &Run) -> (i64, i64) {
    let (first, count) = (i64::from(run.first_cylinder), i64::from(run.run_cylinders));
    if count < 0 { (first + count + 1, first + 1) } else { (first, first + count) }
}

/// The greatest number of cylinders that one repetition of a run covers.
fn piece(run: &Run, reaches: &[i64]) -> i64 {
    match run.repeats {
        Repeated::Track { .. } => i64::from(run.run_cylinders.unsigned_abs()),
        Repeated::Index(below) => reaches[below as usize],
    }
}
