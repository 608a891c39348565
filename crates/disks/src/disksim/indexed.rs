//! `dm_layout_g4`: a layout given as an index of runs.

use super::fields::Fields;
use super::parser::{Block, Value};
use super::{Note, ReadError, SourceLine};
use crate::parameters::{IndexedLayout, LayoutParameters, Mapping, Repeated, Run, Slip, Sparing};

/// Numbers of a track pattern: first and last sector, and number of sectors.
const PATTERN: usize = 3;
/// Numbers of a run before what it repeats.
const RUN: usize = 8;

/// Reads the layout of a drive with that many sectors.
pub(super) fn layout(
    block: Block,
    surfaces: u32,
    cylinders: u32,
    sectors: Option<f64>,
) -> Result<(LayoutParameters, Vec<Note>), ReadError> {
    let mut fields = Fields::of(block, "dm_layout_g4")?;
    let place = fields.place().clone();
    let sectors = sectors.ok_or_else(|| {
        ReadError::at(&place, "a dm_layout_g4 needs the drive's 'Block count', which is missing")
    })?;
    let patterns = patterns(&mut fields)?;
    let (indexes, index_place) = fields.values("IDX")?;
    let indexes = indexes.iter().map(|list| index(list, &index_place)).collect::<Result<_, _>>()?;
    let slips = slips(&mut fields)?;
    let (remaps, remap_place) = fields.values("Remaps")?;
    if !remaps.is_empty() {
        let what = "'Remaps' of a dm_layout_g4 must be an empty list: DiskSim aborts on an access to a remapped sector, so that no \
                    reference for the model exists";
        return Err(ReadError::at(&remap_place, what));
    }
    let mut indexed = IndexedLayout { sectors: sectors as u64, patterns, indexes, slips };
    let room = crate::layout::capacity_of_runs(&indexed);
    if room < indexed.sectors {
        let text =
            format!("'Block count = {sectors}': the layout has only {room} sectors, which the model uses");
        fields.notes.push(Note { place: place.clone(), text });
        indexed.sectors = room;
    }
    let layout = of_runs(surfaces, cylinders, indexed, ("IDX", &index_place))?;
    Ok((layout, fields.done()?))
}

/// The layout of an index, if valid.
pub(super) fn of_runs(
    surfaces: u32,
    cylinders: u32,
    indexed: IndexedLayout,
    (field, place): (&str, &SourceLine),
) -> Result<LayoutParameters, ReadError> {
    let layout = LayoutParameters {
        surfaces,
        cylinders,
        mapping: Mapping::Cylinder,
        sparing: Sparing::None,
        range_cylinders: 1,
        zones: Vec::new(),
        indexed: Some(indexed),
    };
    crate::layout::Layout::new(&layout).map_err(|e| ReadError::at(place, format!("'{field}': {e}")))?;
    Ok(layout)
}

fn patterns(fields: &mut Fields) -> Result<Vec<u32>, ReadError> {
    let (values, place) = fields.values("TP")?;
    let wrong = || {
        let what = "'TP' must be triples: first sector 0, last sector, and one more than that, at most 65535";
        ReadError::at(&place, what)
    };
    let numbers = values.iter().map(number).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    let pattern = |triple: &[f64]| match *triple {
        [0.0, last, count] if count == last + 1.0 && (1.0..=65_535.0).contains(&count) => Ok(count as u32),
        _ => Err(wrong()),
    };
    numbers.chunks(PATTERN).map(pattern).collect()
}

fn slips(fields: &mut Fields) -> Result<Vec<Slip>, ReadError> {
    let (values, place) = fields.values("Slips")?;
    let wrong = || ReadError::at(&place, "'Slips' must be pairs of whole numbers: a place and how many");
    let numbers = values.iter().map(whole).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    let slip = |pair: &[u64]| match *pair {
        [first, sectors] => Ok(Slip { first, sectors }),
        _ => Err(wrong()),
    };
    numbers.chunks(2).map(slip).collect()
}

/// The runs of an index. Runs of tracks also have a head.
fn index(list: &Value, place: &SourceLine) -> Result<Vec<Run>, ReadError> {
    let Value::List(values) = list else {
        return Err(ReadError::at(place, "'IDX' must be a list of lists"));
    };
    let (mut runs, mut rest) = (Vec::new(), &values[..]);
    while !rest.is_empty() {
        let wrong = || {
            let what = "'IDX': a run must be eight numbers (sector, cylinder, angle, sectors, cylinders, angle, sectors, \
                        cylinders) and either TRACK, pattern, head or IDX, index";
            ReadError::at(place, what)
        };
        let (found, length) = run(rest).ok_or_else(wrong)?;
        runs.push(found);
        rest = &rest[length..];
    }
    Ok(runs)
}

fn run(values: &[Value]) -> Option<(Run, usize)> {
    let (numbers, rest) = values.split_at_checked(RUN)?;
    let small = |value: &Value| whole(value).and_then(|n| u32::try_from(n).ok());
    let (repeats, more) = match rest {
        [Value::Word(word), pattern, head, ..] if word == "TRACK" => {
            (Repeated::Track { pattern: small(pattern)?, head: small(head)? }, 3)
        }
        [Value::Word(word), below, ..] if word == "IDX" => (Repeated::Index(small(below)?), 2),
        _ => return None,
    };
    let signed = number(&numbers[7]).filter(|n| n.fract() == 0.0 && n.abs() < 2e9)?;
    let run = Run {
        first_sector: whole(&numbers[0])?,
        first_cylinder: small(&numbers[1])?,
        angle: number(&numbers[2])?,
        sectors: whole(&numbers[3])?,
        cylinders: small(&numbers[4])?,
        angle_step: number(&numbers[5])?,
        run_sectors: whole(&numbers[6])?,
        run_cylinders: signed as i32,
        repeats,
    };
    Some((run, RUN + more))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) if n.is_finite() => Some(*n),
        _ => None,
    }
}

/// A whole number that a float represents exactly.
fn whole(value: &Value) -> Option<u64> {
    number(value).filter(|n| n.fract() == 0.0 && (0.0..9e15).contains(n)).map(|n| n as u64)
}
