//! What describes a rotating drive: plain data, in the units of data sheets and of DiskSim's parameter files.
//!
//! Times are milliseconds in `f64` (fields end in `_ms`), as every published parameter set gives them; the drive
//! turns them into whole picoseconds once, when it is built. Amounts of data are counts of 512-byte sectors.
//! The fields keep the meaning that the DiskSim 4.0 reference manual (CMU-PDL-08-101) gives them; a drive that is not
//! described by such a file starts from [`RotatingParameters::plain`].

use serde::{Deserialize, Serialize};

/// Longer than this, in milliseconds, nothing in a drive takes: an hour. Requests of thousands of sectors, each with a few such
/// times, still fit the model's picoseconds.
pub(crate) const LONGEST_MS: f64 = 3_600_000.0;
/// What a sector may take on the bus, in milliseconds: the slowest moves 51 KB a second.
pub(crate) const SECTOR_MS_MAX: f64 = 10.0;
/// By how much overheads may be scaled.
pub(crate) const SCALE_MAX: f64 = 1000.0;

/// A rotating drive, completely.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotatingParameters {
    /// What it is called.
    pub name: String,
    /// Where its sectors are.
    pub layout: LayoutParameters,
    /// How arm, heads and platters move.
    pub mechanics: MechanicsParameters,
    /// The memory between medium and bus.
    #[serde(default)]
    pub buffer: BufferParameters,
    /// What its electronics take.
    #[serde(default)]
    pub overheads: OverheadParameters,
    /// How data crosses the bus.
    #[serde(default)]
    pub bus: BusParameters,
    /// The queue inside the drive.
    #[serde(default)]
    pub queue: QueueParameters,
    /// Whether to repeat DiskSim or the drive where the two are known to differ.
    #[serde(default)]
    pub fidelity: Fidelity,
}

/// Where a model has a choice between what DiskSim computes and what drives are measured to do.
///
/// As a drive, and not as DiskSim:
/// - A read from the buffer takes a drive that rests the mean of its two hit overheads, if that is more than the one
///   after what came before. Overheads are extracted from requests that follow each other at once, where part of the
///   work after a read hides behind that read and its reading ahead. Drives with a write cache were measured between
///   the two (the Barracuda by 250 µs of 514, the Cheetah 4LP by 185 of 241, the 9LP by up to 180 of 207, the DNES by
///   16 of 39), the C3323A, which has none, at the one after a read (175 reads).
/// - A write gathers the part of it that the write watermark says before it begins on the medium, unless the drive
///   leaves the bus twice. DiskSim, for which the watermark counts only when a segment is full, begins at once, and
///   gains up to 5 ms where the bus is slower than the medium. The drive does not: the C3323A's watermark is 1, and of
///   its 270 writes of 28 to 63 sectors that follow a read none is faster than overhead, bus and medium one after the
///   other by more than 0.85 ms.
/// - With [`FastWrite::Sequential`], a write that extends nothing is no hit: its overhead is that of a miss, where that
///   is larger.
/// - With [`KeepRequested::PushOut`], data that was sent is given up at once: of 134 reads of data that had just been
///   read, the three drives measured with that setting answered 25 from the buffer; the one that keeps it, all 41.
///   A drive that reads to the end of the track at most, and has a segment for all of it, keeps the track.
/// - A read that misses without a seek takes its command's decoding, which is a hit's overhead at least, before it begins.
/// - The segment set aside for writes is.
/// - The drive's own queue reckons from where the head is by now when it orders by positioning time, and remembers that it
///   has turned when it orders both ways by sector.
/// - Of commands that are equally near, the one that came first is next, not the one with the lowest sector.
/// - All commands that have come in have the bus before the drive. In DiskSim the drive that has asked for it goes before the second.
/// - A head that lands within the wanted sectors begins there, if the drive says it can and is off the bus.
/// - Writes that go on one behind the other are one to the arm once they are in the buffer; one comes into the buffer whole, as
///   soon as there is room, and not when its turn with the arm comes. DiskSim has each written on its own, a revolution later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Every answer as DiskSim 4.0 gives it, known errors included.
    #[serde(rename = "disksim")]
    DiskSim,
    /// As drives behave; each difference from DiskSim is stated where it is made.
    #[default]
    Drive,
}

/// Sectors on tracks on cylinders.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutParameters {
    /// Recorded surfaces, one head each; at least 1.
    pub surfaces: u32,
    /// Cylinders; at least 1.
    pub cylinders: u32,
    /// How consecutive sectors go from track to track.
    #[serde(default)]
    pub mapping: Mapping,
    /// Where spare sectors are kept.
    #[serde(default)]
    pub sparing: Sparing,
    /// Cylinders that share spares, for [`Sparing::SectorsPerRange`]; at least 1.
    #[serde(default = "one_cylinder")]
    pub range_cylinders: u32,
    /// The zones, in order of cylinders and of sectors. Gaps between them hold no data.
    #[serde(default)]
    pub zones: Vec<ZoneParameters>,
    /// Instead of zones: an index of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexed: Option<IndexedLayout>,
}

/// A layout told as an index of runs: DiskSim's `dm_layout_g4`, for drives that go over one surface for a stretch of
/// cylinders before they turn to the next; its `dm_layout_g2` becomes one, with a run for each track. Places are counted in
/// sectors, the slipped ones included.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexedLayout {
    /// Sectors of data of the whole drive.
    pub sectors: u64,
    /// The kinds of tracks there are: how many sectors each has, 1 to 65535.
    pub patterns: Vec<u32>,
    /// Lists of runs, each of which holds the places from 0 on without a gap; the last is the drive's.
    pub indexes: Vec<Vec<Run>>,
    /// Defective places, skipped when sectors were numbered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<Slip>,
}

/// The same track, or what another index holds, again and again.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its first place in its index.
    pub first_sector: u64,
    /// The cylinder that it begins on, counted from the one that what repeats its index begins on.
    pub first_cylinder: u32,
    /// Where its first sector is, in revolutions from where the first of its index is.
    pub angle: f64,
    /// Sectors of what is repeated.
    pub sectors: u64,
    /// How many cylinders each time is beyond the one before.
    pub cylinders: u32,
    /// How much later each time begins than the one before, in revolutions.
    pub angle_step: f64,
    /// Sectors of the whole run. The last time may be cut short.
    pub run_sectors: u64,
    /// Cylinders of the whole run; negative if it goes outwards.
    pub run_cylinders: i32,
    /// What is repeated.
    pub repeats: Repeated,
}

/// What a run repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Repeated {
    /// A track.
    Track {
        /// Its kind, by number from 0.
        pattern: u32,
        /// Its head.
        head: u32,
    },
    /// All that an index before this one holds, by number from 0.
    Index(u32),
}

/// Places that were skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slip {
    /// The first.
    pub first: u64,
    /// How many.
    pub sectors: u64,
}

/// How consecutive sectors go from track to track.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Mapping {
    /// All heads of a cylinder in order, then the next cylinder from head 0 (DiskSim's 0).
    #[default]
    Cylinder,
    /// Heads down on odd cylinders counted from the zone's first, so that no cylinder switch is a head switch (1).
    SerpentineByZone,
    /// Heads down on odd cylinders of the drive (2).
    Serpentine,
}

/// Where spare sectors are kept and what a slipped sector uses up. The numbers are DiskSim's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sparing {
    /// No spares (0).
    #[default]
    None,
    /// Whole tracks at the end of a zone (1); slips and defects count tracks.
    Tracks,
    /// At the end of each cylinder (2).
    SectorsPerCylinder,
    /// At the end of each track (3).
    SectorsPerTrack,
    /// At the end of each cylinder, slips not taken from them (4).
    SectorsPerCylinderSlipToEnd,
    /// At the front of each cylinder (5).
    SectorsPerCylinderAtFront,
    /// At the front of each cylinder, slips not taken from them (6).
    SectorsPerCylinderAtFrontSlipToEnd,
    /// At the end of the drive (7).
    SectorsAtEnd,
    /// At the end of each range of cylinders (8).
    SectorsPerRange,
    /// At the end of each zone (9).
    SectorsPerZone,
    /// At the end of each zone, slips not taken from them (10).
    SectorsPerZoneSlipToEnd,
}

/// A band of cylinders with equally many sectors on every track.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneParameters {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Last cylinder, included.
    pub last_cylinder: u32,
    /// Physical sectors on a track; at least 1.
    pub sectors_per_track: u32,
    /// Angle of the zone's first sector, in revolutions, 0 to 1.
    #[serde(default)]
    pub offset: Angle,
    /// How much later each next track of a cylinder begins.
    #[serde(default)]
    pub track_skew: Angle,
    /// How much later the next cylinder begins.
    #[serde(default)]
    pub cylinder_skew: Angle,
    /// Sectors at the zone's front which the drive keeps for itself.
    #[serde(default)]
    pub reserved_sectors: u32,
    /// Spares per track, cylinder, range or zone, as the sparing scheme says; tracks for [`Sparing::Tracks`].
    #[serde(default)]
    pub spares: u32,
    /// Defective places skipped when sectors were numbered, counted in sectors (or tracks) from the zone's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u32>,
    /// Defective places found later, and where their data went, counted likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<Remap>,
}

/// An angle on the platter.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Angle {
    /// Whole sectors of the zone.
    Sectors(u32),
    /// A fraction of a revolution, 0 to 1.
    Revolutions(f64),
}

impl Default for Angle {
    fn default() -> Self {
        Self::Sectors(0)
    }
}

/// A defect and its replacement, counted in sectors (or tracks) from the zone's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remap {
    /// The defective place.
    pub from: u32,
    /// Where its data is.
    pub to: u32,
}

/// How arm, heads and platters move.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MechanicsParameters {
    /// What is modelled of an access.
    #[serde(default)]
    pub access: AccessTime,
    /// Time to move the arm, by distance.
    pub seek: SeekCurve,
    /// The same for a write, if that is not only longer by the settling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_seek: Option<SeekCurve>,
    /// Added to a write's seek or head switch, to settle precisely; some published drives have it negative.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// Time to activate another head; runs beside a seek.
    pub head_switch_ms: f64,
    /// Revolutions per minute, 60 to 1,000,000.
    pub revolutions_per_minute: f64,
}

/// What is modelled of an access.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AccessTime {
    /// Seek and rotation.
    #[default]
    SeekAndRotation,
    /// Seek, and half a revolution for each access.
    AverageRotation,
    /// A constant for each access, in milliseconds.
    #[serde(rename = "constant_ms")]
    Constant(f64),
}

/// Time to move the arm, by distance in cylinders. Distance 0 takes none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SeekCurve {
    /// The same for any distance.
    Constant {
        /// That time.
        ms: f64,
    },
    /// Straight lines through single-cylinder, average (a third of the cylinders) and full-stroke time.
    Linear {
        /// One cylinder.
        single_ms: f64,
        /// A third of the cylinders.
        average_ms: f64,
        /// All cylinders.
        full_ms: f64,
    },
    /// Lee and Katz's curve `a*sqrt(d-1) + b*(d-1) + c` through the same three points.
    ThreePoint {
        /// One cylinder.
        single_ms: f64,
        /// Averaged over random seeks.
        average_ms: f64,
        /// All cylinders.
        full_ms: f64,
    },
    /// Ruemmler and Wilkes: a square root below `division` cylinders, a line from there.
    Hpl(HplSeek),
    /// The same with measured times for the first ten distances.
    HplWithFirstTen {
        /// Beyond ten cylinders.
        hpl: HplSeek,
        /// For 1 to 10 cylinders.
        first_ten_ms: [f64; 10],
    },
    /// Measured points, distances rising; straight lines between and beyond.
    Measured(Vec<SeekPoint>),
}

/// Ruemmler and Wilkes's seek equation.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HplSeek {
    /// Distance from which the line holds.
    #[serde(rename = "division_cylinders")]
    pub division: u32,
    /// Constant of the square root part.
    pub root_constant_ms: f64,
    /// Factor of the square root.
    pub root_factor_ms: f64,
    /// Constant of the line.
    pub line_constant_ms: f64,
    /// Factor of the line.
    pub line_factor_ms: f64,
    /// One cylinder, if it is not on the curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_ms: Option<f64>,
}

/// A measured seek.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekPoint {
    /// Cylinders moved.
    #[serde(rename = "cylinders")]
    pub distance: u32,
    /// Time taken.
    pub ms: f64,
}

/// The memory between medium and bus.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BufferParameters {
    /// Segments, each holding one run of sectors.
    pub segments: u32,
    /// How many of them may hold written data at a time; 1 to `segments`.
    pub write_segments: u32,
    /// Sectors in a segment, at most.
    pub segment_sectors: u32,
    /// Sectors in all segments together, which share them: each takes what it holds, and writes leave the length of one
    /// segment to reads. 0: every segment has its own.
    pub memory_sectors: u32,
    /// One segment is set aside for writes, and only it.
    pub separate_write_segment: bool,
    /// What survives a request in the buffer.
    pub caching: Caching,
    /// How far the drive reads on after a read.
    pub read_ahead: ReadAhead,
    /// Sectors read ahead before any other request is looked at.
    pub read_ahead_min: u32,
    /// Sectors read ahead at most.
    pub read_ahead_max: u32,
    /// Whether read-ahead may push out what it follows.
    pub keep_requested: KeepRequested,
    /// A read wholly from the buffer makes an idle drive read ahead.
    pub read_ahead_on_hit: bool,
    /// A read wholly from the buffer takes the arm from what is being read ahead elsewhere, as DiskSim has it.
    pub hit_stops_read_ahead: bool,
    /// Reading begins with whichever wanted sector comes first.
    pub immediate_read: bool,
    /// Writing begins with whichever sector comes first.
    pub immediate_write: bool,
    /// Which writes complete when they are in the buffer.
    pub fast_write: FastWrite,
    /// Sequential writes may share a segment.
    pub combine_writes: bool,
    /// Reads may be answered from written data.
    pub read_hits_on_writes: bool,
    /// A read whose first sector is being read ahead counts as a partial hit.
    pub almost_read_hits: bool,
    /// A read whose data is all in the buffer sends it while the arm works for another.
    pub sneaky_full_read_hits: bool,
    /// A read whose first sectors are in the buffer sends those while the arm works for another.
    pub sneaky_partial_read_hits: bool,
    /// The same, full or partial, of a read that waits, when its data has come into the buffer since.
    pub sneaky_intermediate_read_hits: bool,
    /// A write sends its data into the buffer, if it has room, while the arm works for another. DiskSim's `Allow write
    /// prebuffering`.
    pub prebuffer_writes: bool,
    /// Reading ahead stops within a sector when something else waits, not at the sector's end.
    pub stop_in_sector: bool,
    /// A write into the buffer ends reading ahead.
    pub write_hit_stops_read_ahead: bool,
    /// A partial hit's sectors go over the bus at once, whatever the watermark.
    pub transfer_partial_hit: bool,
    /// A write waits for the bus again when no more than this part (0 to 1) of the room is still to be written.
    pub write_watermark: f64,
    /// A read waits for the bus until this part (0 to 1) of it is in the buffer.
    pub read_watermark: f64,
    /// The watermarks are parts of the request, not of the segment.
    pub watermark_of_request: bool,
}

/// What survives a request in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Caching {
    /// Nothing: it only matches speeds (DiskSim's 0).
    None,
    /// Whatever was last in each segment (1; DiskSim treats 2 the same).
    #[default]
    All,
}

/// How far the drive reads on after a read. DiskSim's `Buffer continuous read`, 0 to 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReadAhead {
    /// Not at all (0).
    None,
    /// To the end of the track (1).
    Track,
    /// To the end of the cylinder (2).
    Cylinder,
    /// Until the segment is full (3).
    #[default]
    Segment,
    /// To the end of the next track, once a read of the track before was seen (4).
    TrackAhead,
}

/// Whether read-ahead may push out the sectors that were asked for. DiskSim's `Read-ahead over requested`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeepRequested {
    /// It may once they were sent (1).
    #[default]
    PushOut,
    /// They stay (0).
    Keep,
    /// The whole segment stays (-1).
    KeepAll,
}

/// Which writes complete when they are in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FastWrite {
    /// None; each waits for the medium (0).
    None,
    /// Those that extend the last one (1).
    Sequential,
    /// All that find room (2).
    #[default]
    All,
}

/// What the electronics take, in milliseconds, after a read and after a write where those differ.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverheadParameters {
    /// Before everything else, each request.
    pub request_ms: f64,
    /// Factor on all of the following.
    pub scale: f64,
    /// A read from the buffer.
    pub read_hit: AfterReadOrWrite,
    /// A read from the medium.
    pub read_miss: AfterReadOrWrite,
    /// A write that completes in the buffer.
    pub write_hit: AfterReadOrWrite,
    /// A write that completes on the medium.
    pub write_miss: AfterReadOrWrite,
    /// Completing a read.
    pub read_completion_ms: f64,
    /// Completing a write.
    pub write_completion_ms: f64,
    /// Preparing to move data over the bus.
    pub data_preparation_ms: f64,
    /// First reselection of the host.
    pub first_reselect_ms: f64,
    /// Further ones.
    pub other_reselect_ms: f64,
    /// Leaving the bus, for a read.
    pub read_disconnect: AfterReadOrWrite,
    /// Leaving the bus, for a write.
    pub write_disconnect_ms: f64,
    /// A write leaves the bus a second time before its data moves, and what that takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_disconnect: Option<ExtraDisconnect>,
    /// The least that the arm's move takes before a write that does not go on where the one before ended.
    pub minimum_seek_delay_ms: f64,
}

/// A time that depends on what the request before was.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AfterReadOrWrite {
    /// After a read.
    pub after_read_ms: f64,
    /// After a write.
    pub after_write_ms: f64,
}

/// DiskSim's "Extra write disconnect": HP drives of the 1990s left the bus twice in a write.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraDisconnect {
    /// Command overhead instead of the usual one.
    pub command_ms: f64,
    /// The first disconnection.
    pub disconnect_ms: f64,
    /// Between the two.
    pub between_ms: f64,
    /// The second disconnection.
    pub second_disconnect_ms: f64,
    /// How much later the seek begins.
    pub seek_delta_ms: f64,
}

/// How data crosses the bus.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BusParameters {
    /// One sector, as fast as the drive's side can.
    pub sector_ms: f64,
    /// One sector read, as fast as the host's side can; the slower of the two counts.
    pub host_read_sector_ms: f64,
    /// One sector written, likewise.
    pub host_write_sector_ms: f64,
    /// The bus is kept from a read's first sector to its last.
    pub hold_for_read: bool,
    /// The bus is kept from a write's first sector to its last.
    pub hold_for_write: bool,
    /// The bus is kept from command to completion.
    pub never_disconnect: bool,
    /// When the arm may move towards the next request.
    pub preseek: Preseek,
}

/// When the arm may move towards the next request. DiskSim's `Preseeking level`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Preseek {
    /// Once the host has the completion (0).
    #[default]
    None,
    /// Once the completion is on its way (1).
    AtCompletion,
    /// Once the medium is done with (2).
    AfterMedium,
}

/// The queue inside the drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueParameters {
    /// Commands it takes at once, 1 to 32.
    pub depth: u32,
    /// How it chooses among them.
    pub order: QueueOrder,
    /// A flush may be one of several commands (SCSI). If not (ATA), a host sends it when the drive has nothing else, and
    /// nothing beside it.
    pub queued_flush: bool,
}

/// How the drive chooses among its commands.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueOrder {
    /// As they came.
    #[default]
    Fcfs,
    /// Elevator, both ways, by sector.
    Look,
    /// Elevator, upwards only, by sector.
    CLook,
    /// Nearest sector first.
    Sstf,
    /// Shortest positioning time first, less `ageing` times the time waited.
    PositioningTime {
        /// 0 is pure SPTF; 0.005 to 0.02 bounds waiting at little cost (Jacobson and Wilkes, 1991).
        ageing: f64,
    },
    /// The same, but what the buffer answers takes no time: DiskSim's SPCTF.
    PositioningTimeOrBuffer {
        /// As above.
        ageing: f64,
    },
}

fn one_cylinder() -> u32 {
    1
}

impl RotatingParameters {
    /// A drive of one head and one zone with nothing special: a start for a description of one's own.
    #[must_use]
    pub fn plain(name: &str, sectors_per_track: u32, cylinders: u32, surfaces: u32, rpm: f64) -> Self {
        Self {
            name: name.to_owned(),
            layout: LayoutParameters::plain(sectors_per_track, cylinders, surfaces),
            mechanics: MechanicsParameters {
                access: AccessTime::SeekAndRotation,
                seek: SeekCurve::Constant { ms: 0.0 },
                write_seek: None,
                write_settle_ms: 0.0,
                head_switch_ms: 0.0,
                revolutions_per_minute: rpm,
            },
            buffer: BufferParameters::default(),
            overheads: OverheadParameters::default(),
            bus: BusParameters::default(),
            queue: QueueParameters::default(),
            fidelity: Fidelity::Drive,
        }
    }
}

impl LayoutParameters {
    fn plain(sectors_per_track: u32, cylinders: u32, surfaces: u32) -> Self {
        let zone = ZoneParameters {
            last_cylinder: cylinders.saturating_sub(1),
            sectors_per_track,
            ..Default::default()
        };
        Self {
            surfaces,
            cylinders,
            mapping: Mapping::default(),
            sparing: Sparing::default(),
            range_cylinders: 1,
            zones: vec![zone],
            indexed: None,
        }
    }
}

/// One segment for everything, read-ahead until it is full, all writes fast.
impl Default for BufferParameters {
    fn default() -> Self {
        Self {
            segments: 1,
            write_segments: 1,
            segment_sectors: 512,
            memory_sectors: 0,
            separate_write_segment: false,
            caching: Caching::All,
            read_ahead: ReadAhead::Segment,
            read_ahead_min: 0,
            read_ahead_max: 512,
            keep_requested: KeepRequested::PushOut,
            read_ahead_on_hit: true,
            hit_stops_read_ahead: true,
            immediate_read: false,
            immediate_write: false,
            fast_write: FastWrite::All,
            combine_writes: true,
            read_hits_on_writes: true,
            almost_read_hits: false,
            sneaky_full_read_hits: false,
            sneaky_partial_read_hits: false,
            sneaky_intermediate_read_hits: false,
            prebuffer_writes: false,
            stop_in_sector: false,
            write_hit_stops_read_ahead: true,
            transfer_partial_hit: true,
            write_watermark: 0.0,
            read_watermark: 0.0,
            watermark_of_request: true,
        }
    }
}

/// None of them, unscaled.
impl Default for OverheadParameters {
    fn default() -> Self {
        let none = AfterReadOrWrite::default();
        Self {
            request_ms: 0.0,
            scale: 1.0,
            read_hit: none,
            read_miss: none,
            write_hit: none,
            write_miss: none,
            read_completion_ms: 0.0,
            write_completion_ms: 0.0,
            data_preparation_ms: 0.0,
            first_reselect_ms: 0.0,
            other_reselect_ms: 0.0,
            read_disconnect: none,
            write_disconnect_ms: 0.0,
            extra_disconnect: None,
            minimum_seek_delay_ms: 0.0,
        }
    }
}

/// One command at a time.
impl Default for QueueParameters {
    fn default() -> Self {
        Self { depth: 1, order: QueueOrder::Fcfs, queued_flush: true }
    }
}
