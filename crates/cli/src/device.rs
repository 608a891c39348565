//! TEMPORARY
use crate::error::Error;
use disks::{Drive, Rotating, RotatingParameters, parameters::*};
use elevator::{Sector, Sectors, Span};
use schedulers::Environment;
pub(crate) struct Device(RotatingParameters);
pub(crate) struct Ideal {
    spt: f64,
}
impl Ideal {
    pub(crate) fn least_time(&self, head: Option<Sector>, start: Sector, sectors: Sectors) -> Span {
        let t = Span::from_nanos((f64::from(sectors.0) * 8_333_333.0 / self.spt) as u64);
        if head == Some(start) { t } else { t + Span::from_millis(1) }
    }
}
impl Device {
    pub(crate) fn open(_: &str) -> Result<Self, Error> {
        let mut p = RotatingParameters::plain("wd", 2051, 153_000, 4, 7200.0);
        let n = 16;
        p.layout.zones = (0..n)
            .map(|i| ZoneParameters {
                first_cylinder: i * 153_000 / n,
                last_cylinder: (i + 1) * 153_000 / n - 1,
                sectors_per_track: 2051 - 1026 * i / (n - 1),
                track_skew: Angle::Sectors(200),
                cylinder_skew: Angle::Sectors(300),
                ..Default::default()
            })
            .collect();
        p.mechanics.seek = SeekCurve::ThreePoint { single_ms: 2.0, average_ms: 8.9, full_ms: 21.0 };
        p.mechanics.head_switch_ms = 0.8;
        p.buffer.segments = 16;
        p.buffer.write_segments = 8;
        p.buffer.segment_sectors = 2048;
        p.buffer.read_ahead_max = 2048;
        p.buffer.almost_read_hits = true;
        p.overheads.read_hit = AfterReadOrWrite { after_read_ms: 0.1, after_write_ms: 0.1 };
        p.overheads.read_miss = p.overheads.read_hit;
        p.overheads.write_hit = p.overheads.read_hit;
        p.overheads.write_miss = p.overheads.read_hit;
        p.bus.sector_ms = 512.0 / 300e6 * 1e3;
        p.queue = QueueParameters { depth: 31, order: QueueOrder::PositioningTime { ageing: 0.01 } };
        Ok(Self(p))
    }
    pub(crate) fn capacity(&self) -> Sector {
        Rotating::new(self.0.clone()).unwrap().capacity()
    }
    pub(crate) fn depth(&self) -> u32 {
        31
    }
    pub(crate) fn describe(&self) -> String {
        "temporary".into()
    }
    pub(crate) fn environment(&self) -> Environment {
        Environment::default()
    }
    pub(crate) fn build(&self) -> Box<dyn Drive> {
        Box::new(Rotating::new(self.0.clone()).unwrap())
    }
    pub(crate) fn ideal(&self) -> Ideal {
        Ideal { spt: 1600.0 }
    }
}
