//! The parameters of a rotating drive, in the units of data sheets and of DiskSim's parameter files.
//!
//! Times are milliseconds in `f64` (fields end in `_ms`), as in every published parameter set; building the drive
//! converts them once to whole picoseconds. Amounts of data are counts of 512-byte sectors.
//! The fields have the meaning that the DiskSim 4.0 reference manual (CMU-PDL-08-101) gives them. To describe a drive
//! that has no such file, start from [`RotatingParameters::plain`].

use serde::{Deserialize, Serialize};

/// The largest time that a parameter may state, in milliseconds (one hour). Sums of several such times over requests
/// of thousands of sectors still fit the model's picoseconds.
pub(crate) const LONGEST_MS: f64 = 3_600_000.0;
/// The largest time that one sector may take on the bus, in milliseconds; 10 ms are 51 KB/s.
pub(crate) const SECTOR_MS_MAX: f64 = 10.0;
/// The largest factor on overheads.
pub(crate) const SCALE_MAX: f64 = 1000.0;

/// All parameters of a rotating drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotatingParameters {
    /// The name of the drive.
    pub name: String,
    /// The mapping of sectors to tracks.
    pub layout: LayoutParameters,
    /// Arm, heads and rotation.
    pub mechanics: MechanicsParameters,
    /// The buffer between medium and bus.
    #[serde(default)]
    pub buffer: BufferParameters,
    /// Overheads of the electronics.
    #[serde(default)]
    pub overheads: OverheadParameters,
    /// Data transfer over the bus.
    #[serde(default)]
    pub bus: BusParameters,
    /// The command queue inside the drive.
    #[serde(default)]
    pub queue: QueueParameters,
    /// Whether to reproduce DiskSim or measured drives where the two are known to differ.
    #[serde(default)]
    pub fidelity: Fidelity,
}

/// Whether a model reproduces DiskSim or measured drives where the two are known to differ.
///
/// [`Fidelity::Drive`] differs from DiskSim in the following:
/// - A read from the buffer of an idle drive takes the mean of the two read-hit overheads if the mean exceeds the one
///   that the previous request selects. Overheads are extracted from back-to-back requests, where part of the work
///   after a read overlaps with that read and its read-ahead. Drives with a write cache were measured between the two
///   overheads (the Barracuda by 250 µs of 514, the Cheetah 4LP by 185 of 241, the 9LP by up to 180 of 207, the DNES
///   by 16 of 39); the C3323A, which has no write cache, at the overhead after a read (175 reads).
/// - A write fills the buffer up to the write watermark before it starts on the medium, unless the drive disconnects
///   twice. In DiskSim the watermark matters only when a segment is full, so a write starts at once, which saves up to
///   5 ms where the bus is slower than the medium. Drives do not do this: the C3323A's watermark is 1, and none of its
///   270 writes of 28 to 63 sectors that follow a read is faster by more than 0.85 ms than the sum of overhead, bus
///   transfer and media transfer.
/// - With [`FastWrite::Sequential`], a write that extends no earlier write is a miss, and takes the overhead of a miss
///   where that is larger.
/// - With [`KeepRequested::PushOut`], data is discarded as soon as it was sent: of 134 reads of data that had just been
///   read, the three drives measured with that setting answered 25 from the buffer; the drive that keeps data answered
///   all of its 41. A drive that reads ahead to the end of the track at most, and whose segment holds a whole track,
///   keeps the track.
/// - A read that misses without a seek decodes its command before it starts, which takes at least a hit's overhead.
/// - The segment that is reserved for writes is used only for them.
/// - The drive's own queue computes positioning time from the current position of the head, and remembers the
///   direction of a two-way elevator.
/// - Among equally near commands the earliest is served first, not the one with the lowest sector.
/// - Commands that have arrived get the bus before the drive does. In DiskSim a drive that has asked for the bus gets
///   it before the second command.
/// - A head that settles within the requested sectors starts there, if the drive supports that and is off the bus.
/// - Adjacent writes in the buffer are written in one media access. A write enters the buffer whole as soon as there is
///   room, not when the arm gets to it. DiskSim writes each separately, one revolution later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Results as DiskSim 4.0 computes them, known errors included.
    #[serde(rename = "disksim")]
    DiskSim,
    /// Results as measured on drives; the code states every difference from DiskSim where it makes it.
    #[default]
    Drive,
}

/// The mapping of sectors to tracks and cylinders.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutParameters {
    /// Recorded surfaces, each with one head; at least 1.
    pub surfaces: u32,
    /// Cylinders; at least 1.
    pub cylinders: u32,
    /// The order of tracks that consecutive sectors follow.
    #[serde(default)]
    pub mapping: Mapping,
    /// The location of spare sectors.
    #[serde(default)]
    pub sparing: Sparing,
    /// Cylinders that share spares under [`Sparing::SectorsPerRange`]; at least 1.
    #[serde(default = "one_cylinder")]
    pub range_cylinders: u32,
    /// The zones in ascending order of cylinders and of sectors. Cylinders between zones hold no data.
    #[serde(default)]
    pub zones: Vec<ZoneParameters>,
    /// An index of runs, which replaces `zones`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexed: Option<IndexedLayout>,
}

/// A layout given as an index of runs: DiskSim's `dm_layout_g4`, for drives that fill a range of cylinders on one
/// surface before they continue on the next. DiskSim's `dm_layout_g2` is converted to this form with one run for each
/// track. Positions are counted in sectors, slipped ones included.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexedLayout {
    /// Data sectors of the whole drive.
    pub sectors: u64,
    /// The track patterns: sectors per track, each 1 to 65535.
    pub patterns: Vec<u32>,
    /// Lists of runs. The runs of each list cover positions from 0 without gaps. The last list describes the drive.
    pub indexes: Vec<Vec<Run>>,
    /// Defective positions, skipped when sectors were numbered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<Slip>,
}

/// Repetitions of one track or of the content of another index.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its first position in its index.
    pub first_sector: u64,
    /// Its first cylinder, relative to the first cylinder of its index.
    pub first_cylinder: u32,
    /// The angle of its first sector, in revolutions, relative to the first sector of its index.
    pub angle: f64,
    /// Sectors of one repetition.
    pub sectors: u64,
    /// Cylinders from one repetition to the next.
    pub cylinders: u32,
    /// Angle from one repetition to the next, in revolutions.
    pub angle_step: f64,
    /// Sectors of the whole run. The last repetition may be incomplete.
    pub run_sectors: u64,
    /// Cylinders of the whole run; negative if it goes outwards.
    pub run_cylinders: i32,
    /// What it repeats.
    pub repeats: Repeated,
}

/// What a run repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Repeated {
    /// One track.
    Track {
        /// Index into [`IndexedLayout::patterns`], from 0.
        pattern: u32,
        /// Its head, from 0.
        head: u32,
    },
    /// The whole content of an earlier index: its number, from 0.
    Index(u32),
}

/// A range of skipped positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slip {
    /// The first position.
    pub first: u64,
    /// Number of positions.
    pub sectors: u64,
}

/// The order of tracks that consecutive sectors follow. Numbers in parentheses are DiskSim's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Mapping {
    /// All heads of a cylinder in ascending order, then head 0 of the next cylinder (0).
    #[default]
    Cylinder,
    /// Heads in descending order on odd cylinders, counted from the zone's first cylinder; a cylinder switch then needs no
    /// head switch (1).
    SerpentineByZone,
    /// Heads in descending order on odd cylinders of the drive (2).
    Serpentine,
}

/// The location of spare sectors, and what a slipped sector consumes. Numbers in parentheses are DiskSim's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sparing {
    /// No spares (0).
    #[default]
    None,
    /// Whole tracks at the end of a zone (1); slips and defects are counted in tracks.
    Tracks,
    /// At the end of each cylinder (2).
    SectorsPerCylinder,
    /// At the end of each track (3).
    SectorsPerTrack,
    /// At the end of each cylinder; slips do not consume spares (4).
    SectorsPerCylinderSlipToEnd,
    /// At the front of each cylinder (5).
    SectorsPerCylinderAtFront,
    /// At the front of each cylinder; slips do not consume spares (6).
    SectorsPerCylinderAtFrontSlipToEnd,
    /// At the end of the drive (7).
    SectorsAtEnd,
    /// At the end of each range of cylinders (8).
    SectorsPerRange,
    /// At the end of each zone (9).
    SectorsPerZone,
    /// At the end of each zone; slips do not consume spares (10).
    SectorsPerZoneSlipToEnd,
}

/// A range of cylinders with the same number of sectors on every track.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneParameters {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Last cylinder, inclusive.
    pub last_cylinder: u32,
    /// Physical sectors on a track; at least 1.
    pub sectors_per_track: u32,
    /// Angle of the zone's first sector, in revolutions, 0 to 1.
    #[serde(default)]
    pub offset: Angle,
    /// Angle from the start of one track to the start of the next track of the cylinder.
    #[serde(default)]
    pub track_skew: Angle,
    /// Angle from the last track of a cylinder to the first of the next.
    #[serde(default)]
    pub cylinder_skew: Angle,
    /// Sectors at the start of the zone that the drive reserves.
    #[serde(default)]
    pub reserved_sectors: u32,
    /// Spares per track, cylinder, range or zone, depending on the sparing scheme; tracks under [`Sparing::Tracks`].
    #[serde(default)]
    pub spares: u32,
    /// Defects that were skipped when sectors were numbered, in sectors (or tracks) from the start of the zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u32>,
    /// Defects that were found later and the locations of their data, in the same unit.
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

/// A defect and its replacement, in sectors (or tracks) from the start of the zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remap {
    /// The defective sector or track.
    pub from: u32,
    /// The location of its data.
    pub to: u32,
}

/// Arm, heads and rotation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MechanicsParameters {
    /// The parts of an access that are modelled.
    #[serde(default)]
    pub access: AccessTime,
    /// Seek time by distance.
    pub seek: SeekCurve,
    /// Seek time of writes, if it is not the read seek time plus the write settling time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_seek: Option<SeekCurve>,
    /// Settling time that a write adds to its seek or head switch; negative in some published parameter sets.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// Time to activate another head; overlaps with a seek.
    pub head_switch_ms: f64,
    /// Revolutions per minute, 60 to 1,000,000.
    pub revolutions_per_minute: f64,
}

/// The parts of an access that are modelled.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AccessTime {
    /// Seek and rotation.
    #[default]
    SeekAndRotation,
    /// Seek, plus half a revolution for each access.
    AverageRotation,
    /// A constant time for each access, in milliseconds.
    #[serde(rename = "constant_ms")]
    Constant(f64),
}

/// Seek time by distance in cylinders. Distance 0 takes no time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SeekCurve {
    /// The same time for every distance.
    Constant {
        /// The seek time.
        ms: f64,
    },
    /// Straight lines through the seek times of one cylinder, a third of the cylinders, and all cylinders.
    Linear {
        /// Seek time of one cylinder.
        single_ms: f64,
        /// Seek time of a third of the cylinders.
        average_ms: f64,
        /// Seek time of all cylinders.
        full_ms: f64,
    },
    /// Lee and Katz's curve `a*sqrt(d-1) + b*(d-1) + c`, fitted to three seek times.
    ThreePoint {
        /// Seek time of one cylinder.
        single_ms: f64,
        /// Mean over random seeks.
        average_ms: f64,
        /// Seek time of all cylinders.
        full_ms: f64,
    },
    /// Ruemmler and Wilkes's curve: a square root below `division` cylinders, a straight line from there.
    Hpl(HplSeek),
    /// The same curve with measured times for the ten shortest distances.
    HplWithFirstTen {
        /// The curve beyond ten cylinders.
        hpl: HplSeek,
        /// Seek times of 1 to 10 cylinders.
        first_ten_ms: [f64; 10],
    },
    /// Measured points in ascending order of distance; straight lines between and beyond them.
    Measured(Vec<SeekPoint>),
}

/// Ruemmler and Wilkes's seek curve.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HplSeek {
    /// The distance from which the straight line applies, in cylinders.
    #[serde(rename = "division_cylinders")]
    pub division: u32,
    /// Constant term of the square-root part.
    pub root_constant_ms: f64,
    /// Factor of the square root.
    pub root_factor_ms: f64,
    /// Constant term of the straight line.
    pub line_constant_ms: f64,
    /// Slope of the straight line, per cylinder.
    pub line_factor_ms: f64,
    /// Seek time of one cylinder, if it is not on the curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_ms: Option<f64>,
}

/// A measured seek.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekPoint {
    /// Distance in cylinders.
    #[serde(rename = "cylinders")]
    pub distance: u32,
    /// Seek time.
    pub ms: f64,
}

/// The buffer between medium and bus.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BufferParameters {
    /// Number of segments; each holds one range of consecutive sectors.
    pub segments: u32,
    /// Segments that may hold written data at the same time; 1 to `segments`.
    pub write_segments: u32,
    /// Capacity of a segment in sectors.
    pub segment_sectors: u32,
    /// Capacity of all segments together in sectors, if they share their memory: each segment takes the space of its
    /// content, and writes leave the capacity of one segment to reads. 0 if every segment has its own memory.
    pub memory_sectors: u32,
    /// Whether one segment is reserved for writes and writes use no other.
    pub separate_write_segment: bool,
    /// What stays in the buffer after a request.
    pub caching: Caching,
    /// The extent of read-ahead.
    pub read_ahead: ReadAhead,
    /// Sectors that are read ahead before any other request is considered.
    pub read_ahead_min: u32,
    /// Maximum number of sectors to read ahead.
    pub read_ahead_max: u32,
    /// Whether read-ahead may overwrite the requested sectors.
    pub keep_requested: KeepRequested,
    /// Whether a read served wholly from the buffer starts read-ahead on an idle drive.
    pub read_ahead_on_hit: bool,
    /// Whether a read served wholly from the buffer stops read-ahead elsewhere, as in DiskSim.
    pub hit_stops_read_ahead: bool,
    /// Whether reading starts with whichever requested sector passes the head first.
    pub immediate_read: bool,
    /// Whether writing starts with whichever sector passes the head first.
    pub immediate_write: bool,
    /// Which writes complete once they are in the buffer.
    pub fast_write: FastWrite,
    /// Whether sequential writes may share a segment.
    pub combine_writes: bool,
    /// Whether reads may be served from written data.
    pub read_hits_on_writes: bool,
    /// Whether a read whose first sector is being read ahead counts as a partial hit.
    pub almost_read_hits: bool,
    /// Whether a read whose data is all in the buffer is sent while the arm serves another request.
    pub sneaky_full_read_hits: bool,
    /// Whether a read whose first sectors are in the buffer sends those while the arm serves another request.
    pub sneaky_partial_read_hits: bool,
    /// The same for a waiting read whose data has entered the buffer since it arrived, wholly or in part.
    pub sneaky_intermediate_read_hits: bool,
    /// Whether a write transfers its data into the buffer, if there is room, while the arm serves another request.
    /// DiskSim's `Allow write prebuffering`.
    pub prebuffer_writes: bool,
    /// Whether read-ahead stops within a sector when another request waits, instead of at the end of the sector.
    pub stop_in_sector: bool,
    /// Whether a write into the buffer stops read-ahead.
    pub write_hit_stops_read_ahead: bool,
    /// Whether the sectors of a partial hit are transferred at once, regardless of the watermark.
    pub transfer_partial_hit: bool,
    /// A write asks for the bus again when at most this fraction (0 to 1) of the space is still to be written.
    pub write_watermark: f64,
    /// A read asks for the bus when this fraction (0 to 1) of it is in the buffer.
    pub read_watermark: f64,
    /// Whether the watermarks are fractions of the request instead of the segment.
    pub watermark_of_request: bool,
}

/// What stays in the buffer after a request. Numbers in parentheses are DiskSim's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Caching {
    /// Nothing; the buffer only matches speeds (0).
    None,
    /// The last content of each segment (1; DiskSim treats 2 the same).
    #[default]
    All,
}

/// The extent of read-ahead. DiskSim's `Buffer continuous read`, 0 to 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReadAhead {
    /// No read-ahead (0).
    None,
    /// To the end of the track (1).
    Track,
    /// To the end of the cylinder (2).
    Cylinder,
    /// Until the segment is full (3).
    #[default]
    Segment,
    /// To the end of the next track, after a read of the previous track was seen (4).
    TrackAhead,
}

/// Whether read-ahead may overwrite the requested sectors. DiskSim's `Read-ahead over requested`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeepRequested {
    /// It may, once they were sent (1).
    #[default]
    PushOut,
    /// They stay (0).
    Keep,
    /// The whole segment stays (-1).
    KeepAll,
}

/// Which writes complete once they are in the buffer. Numbers in parentheses are DiskSim's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FastWrite {
    /// None; every write waits for the medium (0).
    None,
    /// Those that extend the previous write (1).
    Sequential,
    /// All that fit (2).
    #[default]
    All,
}

/// Overheads of the electronics, in milliseconds; after a read and after a write where those differ.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverheadParameters {
    /// Each request, before everything else.
    pub request_ms: f64,
    /// Factor on all following overheads.
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
    /// Preparing a data transfer over the bus.
    pub data_preparation_ms: f64,
    /// First reselection of the host by a request.
    pub first_reselect_ms: f64,
    /// Further reselections.
    pub other_reselect_ms: f64,
    /// Disconnecting from the bus in a read.
    pub read_disconnect: AfterReadOrWrite,
    /// Disconnecting from the bus in a write.
    pub write_disconnect_ms: f64,
    /// A second disconnection of a write before its data moves, if the drive does that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_disconnect: Option<ExtraDisconnect>,
    /// Minimum seek time of a write that does not continue the previous request.
    pub minimum_seek_delay_ms: f64,
}

/// A time that depends on the previous request.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AfterReadOrWrite {
    /// If it was a read.
    pub after_read_ms: f64,
    /// If it was a write.
    pub after_write_ms: f64,
}

/// DiskSim's "Extra write disconnect": HP drives of the 1990s disconnected twice in a write.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraDisconnect {
    /// Command overhead that replaces the usual one.
    pub command_ms: f64,
    /// The first disconnection.
    pub disconnect_ms: f64,
    /// Time between the two disconnections.
    pub between_ms: f64,
    /// The second disconnection.
    pub second_disconnect_ms: f64,
    /// Delay of the seek.
    pub seek_delta_ms: f64,
}

/// Data transfer over the bus.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BusParameters {
    /// Time of one sector at the speed of the drive.
    pub sector_ms: f64,
    /// Time of one sector read at the speed of the host; the slower of the two applies.
    pub host_read_sector_ms: f64,
    /// Time of one sector written at the speed of the host.
    pub host_write_sector_ms: f64,
    /// Whether the bus is held from the first to the last sector of a read.
    pub hold_for_read: bool,
    /// Whether the bus is held from the first to the last sector of a write.
    pub hold_for_write: bool,
    /// Whether the bus is held from command to completion.
    pub never_disconnect: bool,
    /// When the arm may start to move for the next request.
    pub preseek: Preseek,
}

/// When the arm may start to move for the next request. DiskSim's `Preseeking level`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Preseek {
    /// When the host has received the completion (0).
    #[default]
    None,
    /// When the completion is being sent (1).
    AtCompletion,
    /// When the media transfer has ended (2).
    AfterMedium,
}

/// The command queue inside the drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueParameters {
    /// Maximum number of commands, 1 to 32.
    pub depth: u32,
    /// The order in which it serves them.
    pub order: QueueOrder,
    /// Whether a flush may be queued with other commands (SCSI). If not (ATA), a host sends a flush only when the drive has
    /// no other command, and sends nothing until it completes.
    pub queued_flush: bool,
}

/// The order in which a drive serves its commands.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueOrder {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Elevator in both directions, by sector.
    Look,
    /// Elevator in ascending direction only, by sector.
    CLook,
    /// Nearest sector first.
    Sstf,
    /// Shortest positioning time first, reduced by `ageing` times the waiting time.
    PositioningTime {
        /// 0 is pure SPTF; 0.005 to 0.02 bounds waiting at low cost (Jacobson and Wilkes, 1991).
        ageing: f64,
    },
    /// The same, with a positioning time of 0 for requests that the buffer serves: DiskSim's SPCTF.
    PositioningTimeOrBuffer {
        /// As for [`QueueOrder::PositioningTime`].
        ageing: f64,
    },
}

fn one_cylinder() -> u32 {
    1
}

impl RotatingParameters {
    /// A drive with one head and one zone and no special features, from which to derive a description.
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

/// One segment, read-ahead until it is full, and all writes complete in the buffer.
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

/// No overheads, and factor 1.
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

/// One command at a time, first come, first served.
impl Default for QueueParameters {
    fn default() -> Self {
        Self { depth: 1, order: QueueOrder::Fcfs, queued_flush: true }
    }
}
