//! Drives drawn at random.

use dwell_disks::RotatingParameters;
use dwell_disks::parameters::{
    AccessTime, AfterReadOrWrite, Angle, BufferParameters, BusParameters, Caching, ExtraDisconnect,
    FastWrite, Fidelity, KeepRequested, LayoutParameters, Mapping, MechanicsParameters, OverheadParameters,
    Preseek, QueueParameters, ReadAhead, Remap, SeekCurve, Sparing, ZoneParameters,
};
use elevator::Random;

pub struct Dice(Random);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.0.next() >> 8) % n
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn up_to_ms(&mut self, ms: f64) -> f64 {
        if self.percent(40) { 0.0 } else { self.below(1000) as f64 / 1000.0 * ms }
    }

    fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.below(N as u64) as usize]
    }

    fn after(&mut self, ms: f64) -> AfterReadOrWrite {
        AfterReadOrWrite { after_read_ms: self.up_to_ms(ms), after_write_ms: self.up_to_ms(ms) }
    }
}

/// A drive that accepts one command at a time: with several, the model does not complete every such combination of parameters.
pub fn random_drive(dice: &mut Dice) -> RotatingParameters {
    RotatingParameters {
        name: "drawn".to_owned(),
        layout: layout(dice),
        mechanics: mechanics(dice),
        buffer: buffer(dice),
        overheads: overheads(dice),
        bus: bus(dice),
        queue: QueueParameters::default(),
        fidelity: dice.pick([Fidelity::Drive, Fidelity::Drive, Fidelity::DiskSim]),
    }
}

fn layout(dice: &mut Dice) -> LayoutParameters {
    let surfaces = 1 + dice.below(6) as u32;
    let sparing = dice.pick([
        Sparing::None,
        Sparing::Tracks,
        Sparing::SectorsPerCylinder,
        Sparing::SectorsPerTrack,
        Sparing::SectorsPerCylinderSlipToEnd,
        Sparing::SectorsPerCylinderAtFront,
        Sparing::SectorsPerRange,
        Sparing::SectorsPerZone,
        Sparing::SectorsPerZoneSlipToEnd,
    ]);
    let (mut zones, mut cylinder) = (Vec::new(), 0);
    for _ in 0..1 + dice.below(4) {
        let last = cylinder + 60 + dice.below(300) as u32;
        zones.push(zone(dice, cylinder, last, sparing));
        cylinder = last + 1 + dice.below(3) as u32;
    }
    LayoutParameters {
        indexed: None,
        surfaces,
        cylinders: cylinder,
        mapping: dice.pick([Mapping::Cylinder, Mapping::SerpentineByZone, Mapping::Serpentine]),
        sparing,
        range_cylinders: 1 + dice.below(4) as u32,
        zones,
    }
}

fn zone(dice: &mut Dice, first: u32, last: u32, sparing: Sparing) -> ZoneParameters {
    let sectors_per_track = 40 + dice.below(300) as u32;
    let spared = sparing != Sparing::None;
    let slips = if spared { 3 } else { 0 };
    ZoneParameters {
        first_cylinder: first,
        last_cylinder: last,
        sectors_per_track,
        offset: Angle::Revolutions(dice.below(1000) as f64 / 1000.0),
        track_skew: Angle::Sectors(dice.below(30) as u32),
        cylinder_skew: Angle::Revolutions(dice.below(300) as f64 / 1000.0),
        spares: if spared { 5 } else { 0 },
        slips: (0..slips).map(|_| dice.below(2000) as u32).collect(),
        remaps: match sparing {
            Sparing::SectorsPerZone => vec![Remap { from: dice.below(2000) as u32, to: 2000 }],
            _ => Vec::new(),
        },
        ..Default::default()
    }
}

fn mechanics(dice: &mut Dice) -> MechanicsParameters {
    let access = if dice.percent(90) { AccessTime::SeekAndRotation } else { AccessTime::AverageRotation };
    MechanicsParameters {
        access,
        seek: SeekCurve::ThreePoint { single_ms: 1.0, average_ms: 8.0, full_ms: 16.0 },
        write_seek: None,
        write_settle_ms: dice.up_to_ms(1.0) - if dice.percent(20) { 0.2 } else { 0.0 },
        head_switch_ms: dice.up_to_ms(1.5),
        revolutions_per_minute: dice.pick([5400.0, 7200.0, 10033.0]),
    }
}

fn buffer(dice: &mut Dice) -> BufferParameters {
    let segments = 1 + dice.below(6) as u32;
    let segment_sectors = dice.pick([8, 64, 171, 512, 1024]);
    BufferParameters {
        segments,
        write_segments: 1 + dice.below(u64::from(segments)) as u32,
        segment_sectors,
        memory_sectors: 0,
        separate_write_segment: dice.percent(20),
        caching: dice.pick([Caching::All, Caching::All, Caching::None]),
        read_ahead: dice.pick([
            ReadAhead::None,
            ReadAhead::Track,
            ReadAhead::Cylinder,
            ReadAhead::Segment,
            ReadAhead::TrackAhead,
        ]),
        read_ahead_min: dice.pick([0, 0, 8, 40]),
        read_ahead_max: dice.pick([0, 64, segment_sectors]),
        keep_requested: dice.pick([KeepRequested::PushOut, KeepRequested::Keep, KeepRequested::KeepAll]),
        read_ahead_on_hit: dice.percent(50),
        hit_stops_read_ahead: true,
        immediate_read: dice.percent(50),
        immediate_write: dice.percent(50),
        fast_write: dice.pick([FastWrite::None, FastWrite::Sequential, FastWrite::All]),
        combine_writes: dice.percent(70),
        read_hits_on_writes: dice.percent(70),
        almost_read_hits: dice.percent(50),
        // They have an effect only with several commands; `sneak.rs` covers them.
        sneaky_full_read_hits: false,
        sneaky_partial_read_hits: false,
        sneaky_intermediate_read_hits: false,
        prebuffer_writes: false,
        stop_in_sector: dice.percent(50),
        write_hit_stops_read_ahead: dice.percent(50),
        transfer_partial_hit: dice.percent(50),
        write_watermark: dice.pick([0.0, 0.3, 1.0]),
        read_watermark: dice.pick([0.0, 0.5, 1.0]),
        watermark_of_request: dice.percent(50),
    }
}

fn overheads(dice: &mut Dice) -> OverheadParameters {
    let extra = ExtraDisconnect {
        command_ms: dice.up_to_ms(0.5),
        disconnect_ms: dice.up_to_ms(0.2),
        between_ms: dice.up_to_ms(0.4),
        second_disconnect_ms: dice.up_to_ms(0.2),
        seek_delta_ms: dice.up_to_ms(0.3),
    };
    OverheadParameters {
        request_ms: dice.up_to_ms(0.3),
        scale: 1.0,
        read_hit: dice.after(1.0),
        read_miss: dice.after(1.0),
        write_hit: dice.after(1.0),
        write_miss: dice.after(1.0),
        read_completion_ms: dice.up_to_ms(0.3),
        write_completion_ms: dice.up_to_ms(0.3),
        data_preparation_ms: dice.up_to_ms(0.3),
        first_reselect_ms: dice.up_to_ms(0.3),
        other_reselect_ms: dice.up_to_ms(0.3),
        read_disconnect: dice.after(0.3),
        write_disconnect_ms: dice.up_to_ms(0.3),
        extra_disconnect: dice.percent(15).then_some(extra),
        minimum_seek_delay_ms: dice.up_to_ms(1.0),
    }
}

fn bus(dice: &mut Dice) -> BusParameters {
    let sector_ms = dice.pick([0.0, 0.01, 0.05, 0.2]);
    BusParameters {
        sector_ms,
        host_read_sector_ms: dice.pick([0.0, 0.03]),
        host_write_sector_ms: dice.pick([0.0, 0.04]),
        hold_for_read: dice.percent(30),
        hold_for_write: dice.percent(30),
        never_disconnect: dice.percent(15),
        preseek: dice.pick([Preseek::None, Preseek::AtCompletion, Preseek::AfterMedium]),
    }
}
