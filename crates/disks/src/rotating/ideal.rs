//! What the drive could do at best.

use elevator::{Sector, Sectors, Span};

use super::Rotating;
use crate::layout::Spot;
use crate::limit::Ideal;
use crate::mechanics::Picos;

impl Ideal for Rotating {
    fn least_seek(&self, from: Sector, to: Sector) -> Span {
        let last = self.layout.capacity() - 1;
        let before = self.layout.stretch(from.0.saturating_sub(1).min(last));
        let after = self.layout.stretch(to.0.min(last)).spot;
        let picos = match from == to {
            true if to.0 < before.end => 0,
            true => self.switch(&before.spot, &after),
            false => self.arm(&before.spot, &after),
        };
        Span::from_nanos(picos / 1000)
    }

    fn sequential_transfer(&self, start: Sector, sectors: Sectors) -> Span {
        let end = (start + sectors).0.min(self.layout.capacity());
        let (mut at, mut picos) = (start.0, 0);
        while at < end {
            let stretch = self.layout.stretch(at);
            let stop = end.min(stretch.end);
            picos += (stop - at) * self.sector_time(&stretch.spot);
            if stop < end {
                let last = self.layout.stretch(stop - 1).spot;
                picos += self.switch(&last, &self.layout.stretch(stop).spot);
            }
            at = stop;
        }
        Span::from_nanos(picos / 1000)
    }
}

impl Rotating {
    fn sector_time(&self, spot: &Spot) -> Picos {
        self.mechanics.time_of(self.layout.width(spot.zone))
    }

    fn arm(&self, from: &Spot, to: &Spot) -> Picos {
        self.mechanics.seek(from.cylinder.abs_diff(to.cylinder), from.head != to.head, false)
    }

    /// From the end of a sector to the start of the next one elsewhere: the switch, and what the skew leaves to wait.
    fn switch(&self, before: &Spot, after: &Spot) -> Picos {
        let end = before.angle.wrapping_add(self.layout.width(before.zone));
        let switch = self.arm(before, after);
        switch + self.mechanics.latency(end.wrapping_add(self.mechanics.turned(switch)), after.angle)
    }
}
