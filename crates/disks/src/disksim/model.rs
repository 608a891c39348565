//! `dm_disk`: layout and mechanics.

use super::fields::Fields;
use super::parser::Block;
use super::{Note, ReadError, Resolver, SourceLine, indexed, mapped, seek};
use crate::parameters::{
    AccessTime, Angle, HplSeek, LONGEST_MS, LayoutParameters, Mapping, MechanicsParameters, Remap, SeekCurve,
    Sparing, ZoneParameters,
};

const ANY: u32 = u32::MAX;

/// Layout, mechanics and notes.
pub(super) struct Model {
    pub(super) layout: LayoutParameters,
    pub(super) mechanics: MechanicsParameters,
    pub(super) notes: Vec<Note>,
}

pub(super) fn model(block: Block, open: Resolver<'_>) -> Result<Model, ReadError> {
    let mut fields = Fields::of(block, "dm_disk")?;
    let surfaces = fields.whole("Number of data surfaces", 1, 65_535)?;
    let cylinders = fields.whole("Number of cylinders", 1, ANY)?;
    let sectors = fields.optional_number("Block count", 0.0, 9e15)?;
    let block = fields.block("Layout Model")?;
    let (layout, mut notes) = match block.kind.as_str() {
        "dm_layout_g4" => indexed::layout(block, surfaces, cylinders, sectors)?,
        "dm_layout_g1" => layout(block, surfaces, cylinders)?,
        "dm_layout_g2" => mapped::layout(block, surfaces, cylinders, sectors, open)?,
        other => {
            let what = format!("a {other} block where a dm_layout_g1, g2 or g4 is expected");
            return Err(ReadError::at(&block.place, what));
        }
    };
    let (mechanics, more) = mechanics(fields.block("Mechanical Model")?, open)?;
    notes.extend(more);
    notes.extend(fields.done()?);
    Ok(Model { layout, mechanics, notes })
}

fn layout(block: Block, surfaces: u32, cylinders: u32) -> Result<(LayoutParameters, Vec<Note>), ReadError> {
    // A layout in a separate file is a block inside the block.
    let mut fields = Fields::of(block, "dm_layout_g1")?;
    let mapping = match fields.whole("LBN-to-PBN mapping scheme", 0, 2)? {
        0 => Mapping::Cylinder,
        1 => Mapping::SerpentineByZone,
        _ => Mapping::Serpentine,
    };
    let sparing = sparing(fields.whole("Sparing scheme used", 0, 10)?);
    let range_cylinders = fields.whole("Rangesize for sparing", 1, ANY)?;
    let in_turns = fields.skew_units()?.unwrap_or(false);
    let place = fields.place_of("Zones");
    let blocks = fields.blocks("Zones")?;
    if blocks.is_empty() {
        return Err(ReadError::at(&place, "'Zones': there must be one"));
    }
    let places: Vec<SourceLine> = blocks.iter().map(|block| block.place.clone()).collect();
    let zones = blocks.into_iter().map(|b| zone(b, in_turns)).collect::<Result<_, _>>()?;
    let layout =
        LayoutParameters { surfaces, cylinders, mapping, sparing, range_cylinders, zones, indexed: None };
    crate::layout::capacity(&layout).map_err(|error| {
        let place = error.zone().and_then(|zone| places.get(zone)).unwrap_or(&place);
        ReadError::at(place, format!("'Zones': {error}"))
    })?;
    Ok((layout, fields.done()?))
}

fn sparing(scheme: u32) -> Sparing {
    match scheme {
        0 => Sparing::None,
        1 => Sparing::Tracks,
        2 => Sparing::SectorsPerCylinder,
        3 => Sparing::SectorsPerTrack,
        4 => Sparing::SectorsPerCylinderSlipToEnd,
        5 => Sparing::SectorsPerCylinderAtFront,
        6 => Sparing::SectorsPerCylinderAtFrontSlipToEnd,
        7 => Sparing::SectorsAtEnd,
        8 => Sparing::SectorsPerRange,
        9 => Sparing::SectorsPerZone,
        _ => Sparing::SectorsPerZoneSlipToEnd,
    }
}

fn zone(block: Block, in_turns: bool) -> Result<ZoneParameters, ReadError> {
    let mut fields = Fields::of(block, "dm_layout_g1_zone")?;
    let in_turns = fields.skew_units()?.unwrap_or(in_turns);
    let zone = ZoneParameters {
        first_cylinder: fields.whole("First cylinder number", 0, ANY)?,
        last_cylinder: fields.whole("Last cylinder number", 0, ANY)?,
        sectors_per_track: fields.whole("Blocks per track", 1, 65_535)?,
        offset: angle(fields.number("Offset of first block", 0.0, 65_535.0)?, in_turns),
        reserved_sectors: fields.whole("Empty space at zone front", 0, ANY)?,
        track_skew: skew(&mut fields, "Skew for track switch", in_turns)?,
        cylinder_skew: skew(&mut fields, "Skew for cylinder switch", in_turns)?,
        spares: fields.whole("Number of spares", 0, ANY)?,
        slips: fields.wholes("slips")?,
        remaps: remaps(&mut fields)?,
    };
    fields.done()?;
    Ok(zone)
}

fn skew(fields: &mut Fields, name: &'static str, in_turns: bool) -> Result<Angle, ReadError> {
    Ok(angle(fields.optional_number(name, 0.0, 65_535.0)?.unwrap_or(0.0), in_turns))
}

/// DiskSim drops fractions of a sector.
fn angle(value: f64, in_turns: bool) -> Angle {
    if in_turns { Angle::Revolutions(value) } else { Angle::Sectors(value as u32) }
}

fn remaps(fields: &mut Fields) -> Result<Vec<Remap>, ReadError> {
    let place = fields.place_of("defects");
    let numbers = fields.wholes("defects")?;
    if numbers.len() % 2 != 0 {
        return Err(ReadError::at(&place, "'defects' must be pairs: a place and its replacement"));
    }
    Ok(numbers.chunks_exact(2).map(|pair| Remap { from: pair[0], to: pair[1] }).collect())
}

fn mechanics(block: Block, open: Resolver<'_>) -> Result<(MechanicsParameters, Vec<Note>), ReadError> {
    let mut fields = Fields::of(block, "dm_mech_g1")?;
    let access = access(&mut fields)?;
    let (seek, write_seek) = seek_curve(&mut fields, open)?;
    let mechanics = MechanicsParameters {
        access,
        seek,
        write_seek,
        write_settle_ms: fields.number("Add. write settling delay", -1000.0, LONGEST_MS)?,
        head_switch_ms: fields.ms("Head switch time")?,
        revolutions_per_minute: fields.number("Rotation speed (in rpms)", 60.0, 1e6)?,
    };
    let why = "the model, like DiskSim 4.0, uses the stated speed exactly";
    fields.without_effect("Percent error in rpms", &[0.0], why)?;
    Ok((mechanics, fields.done()?))
}

fn access(fields: &mut Fields) -> Result<AccessTime, ReadError> {
    let constant = fields.optional_number("Constant access time", 0.0, LONGEST_MS)?;
    let (word, place) = fields.word("Access time type")?;
    match (word.as_str(), constant) {
        ("trackSwitchPlusRotation", _) => Ok(AccessTime::SeekAndRotation),
        ("averageRotation", _) => Ok(AccessTime::AverageRotation),
        ("constant", Some(ms)) => Ok(AccessTime::Constant(ms)),
        ("constant", None) => Err(ReadError::at(&place, "'Constant access time' is missing")),
        _ => {
            let known = "trackSwitchPlusRotation, averageRotation or constant";
            Err(ReadError::at(&place, format!("'Access time type = {word}': must be {known}")))
        }
    }
}

/// The seek parameters of a file, which may have more than its seek type uses.
struct Seeks {
    single: Option<f64>,
    average: Option<f64>,
    full: Option<f64>,
    constant: Option<f64>,
    hpl: Option<(Vec<f64>, SourceLine)>,
    first_ten: Option<(Vec<f64>, SourceLine)>,
}

/// The seek curve of reads, and that of writes if different.
type Curves = (SeekCurve, Option<SeekCurve>);

fn seek_curve(fields: &mut Fields, open: Resolver<'_>) -> Result<Curves, ReadError> {
    let (kind, place) = fields.word("Seek type")?;
    let mut ms = |name| fields.optional_number(name, 0.0, LONGEST_MS);
    let (single, average) = (ms("Single cylinder seek time")?, ms("Average seek time")?);
    let (full, constant) = (ms("Full strobe seek time")?, ms("Constant seek time")?);
    let hpl = fields.optional_numbers("HPL seek equation values")?;
    let first_ten = fields.optional_numbers("First ten seek times")?;
    let curve = fields.optional_file("Full seek curve", open)?;
    let seeks = Seeks { single, average, full, constant, hpl, first_ten };
    // DiskSim uses the curve's file if there is one, whatever the seek type.
    let kind = if curve.is_some() { "extracted" } else { kind.as_str() };
    for (list, name) in [(&seeks.hpl, "HPL seek equation values"), (&seeks.first_ten, "First ten seek times")]
    {
        let needed = kind == "hplplus10" || (kind == "hpl" && name.starts_with("HPL"));
        if let (Some((_, place)), false) = (list, needed) {
            let text = format!("'{name}' has no effect: the seek type is {kind}");
            fields.notes.push(Note { place: place.clone(), text });
        }
    }
    match (kind, curve) {
        (_, Some((file, text))) => {
            let seek::Curve { points, writes } = seek::curve(&file, &text)?;
            let writes = (!writes.is_empty()).then_some(SeekCurve::Measured(writes));
            Ok((SeekCurve::Measured(points), writes))
        }
        ("extracted", None) => {
            Err(ReadError::at(&place, "seek type extracted: 'Full seek curve' is missing"))
        }
        _ => Ok((seeks.choose(kind, &place)?, None)),
    }
}

impl Seeks {
    fn choose(self, kind: &str, place: &SourceLine) -> Result<SeekCurve, ReadError> {
        let missing = |name: &str| ReadError::at(place, format!("seek type {kind}: '{name}' is missing"));
        match kind {
            "constant" => {
                let ms = self.constant.ok_or_else(|| missing("Constant seek time"))?;
                Ok(SeekCurve::Constant { ms })
            }
            "linear" | "curve" => {
                let single_ms = self.single.ok_or_else(|| missing("Single cylinder seek time"))?;
                let average_ms = self.average.ok_or_else(|| missing("Average seek time"))?;
                let full_ms = self.full.ok_or_else(|| missing("Full strobe seek time"))?;
                Ok(match kind {
                    "linear" => SeekCurve::Linear { single_ms, average_ms, full_ms },
                    _ => SeekCurve::ThreePoint { single_ms, average_ms, full_ms },
                })
            }
            "hpl" => {
                Ok(SeekCurve::Hpl(hpl(&self.hpl.ok_or_else(|| missing("HPL seek equation values"))?)?))
            }
            "hplplus10" => {
                let hpl = hpl(&self.hpl.ok_or_else(|| missing("HPL seek equation values"))?)?;
                let (ten, place) = self.first_ten.ok_or_else(|| missing("First ten seek times"))?;
                let first_ten_ms = first_ten(&ten, &place)?;
                Ok(SeekCurve::HplWithFirstTen { hpl, first_ten_ms })
            }
            _ => {
                let known = "extracted, hplplus10, hpl, curve, linear or constant";
                Err(ReadError::at(place, format!("'Seek type = {kind}': must be {known}")))
            }
        }
    }
}

fn hpl((values, place): &(Vec<f64>, SourceLine)) -> Result<HplSeek, ReadError> {
    let sound = |ms: &f64| (0.0..=LONGEST_MS).contains(ms);
    match values[..] {
        [division, c1, f1, c2, f2, single]
            if [c1, f1, c2, f2].iter().all(sound)
                && (0.0..=1e9).contains(&division)
                && (single == -1.0 || sound(&single)) =>
        {
            Ok(HplSeek {
                division: division as u32,
                root_constant_ms: c1,
                root_factor_ms: f1,
                line_constant_ms: c2,
                line_factor_ms: f2,
                single_ms: (single != -1.0).then_some(single),
            })
        }
        _ => {
            let what = "'HPL seek equation values' must be six numbers: cylinders, four times in ms, and a time or -1";
            Err(ReadError::at(place, what))
        }
    }
}

fn first_ten(values: &[f64], place: &SourceLine) -> Result<[f64; 10], ReadError> {
    let sound = values.iter().all(|ms| (0.0..=LONGEST_MS).contains(ms));
    let ten: Option<[f64; 10]> = values.try_into().ok().filter(|_| sound);
    ten.ok_or_else(|| ReadError::at(place, "'First ten seek times' must be ten times in ms"))
}
