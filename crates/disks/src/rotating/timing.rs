//! A drive's parameters in whole picoseconds and sectors.

use crate::mechanics::{Picos, picos};
use crate::parameters::{AfterReadOrWrite, RotatingParameters};

/// A duration that depends on whether the previous request was a read or a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct After {
    read: Picos,
    write: Picos,
}

impl After {
    fn new(ms: AfterReadOrWrite, scale: f64) -> Self {
        Self { read: picos(ms.after_read_ms * scale), write: picos(ms.after_write_ms * scale) }
    }

    /// The mean of the two.
    pub(super) fn mean(self) -> Picos {
        self.read.midpoint(self.write)
    }

    /// The duration after a read or after a write.
    pub(super) fn get(self, after_write: bool) -> Picos {
        if after_write { self.write } else { self.read }
    }
}

/// Durations of the electronics and the bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) request: Picos,
    pub(super) read_hit: After,
    pub(super) read_miss: After,
    pub(super) write_hit: After,
    pub(super) write_miss: After,
    pub(super) read_completion: Picos,
    pub(super) write_completion: Picos,
    pub(super) data_preparation: Picos,
    pub(super) first_reselect: Picos,
    pub(super) other_reselect: Picos,
    pub(super) read_disconnect: After,
    pub(super) write_disconnect: Picos,
    pub(super) extra: Option<Extra>,
    pub(super) minimum_seek_delay: Picos,
    /// One sector read, on the bus.
    pub(super) bus_read: Picos,
    /// One sector written, on the bus.
    pub(super) bus_write: Picos,
}

/// The second disconnection of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra {
    pub(super) command: Picos,
    pub(super) disconnect: Picos,
    pub(super) between: Picos,
    pub(super) second_disconnect: Picos,
    /// Command overhead plus seek delta.
    pub(super) seek: Picos,
}

impl Timing {
    pub(super) fn new(p: &RotatingParameters) -> Self {
        let o = &p.overheads;
        let scaled = |ms: f64| picos(ms * o.scale);
        let after = |ms| After::new(ms, o.scale);
        let sector_ms = p.bus.sector_ms;
        let extra = o.extra_disconnect.map(|e| Extra {
            command: scaled(e.command_ms),
            disconnect: scaled(e.disconnect_ms),
            between: picos(e.between_ms),
            second_disconnect: scaled(e.second_disconnect_ms),
            seek: scaled(e.command_ms + e.seek_delta_ms),
        });
        Self {
            request: scaled(o.request_ms),
            read_hit: after(o.read_hit),
            read_miss: after(o.read_miss),
            write_hit: after(o.write_hit),
            write_miss: after(o.write_miss),
            read_completion: scaled(o.read_completion_ms),
            write_completion: scaled(o.write_completion_ms),
            data_preparation: scaled(o.data_preparation_ms),
            first_reselect: scaled(o.first_reselect_ms),
            other_reselect: scaled(o.other_reselect_ms),
            read_disconnect: after(o.read_disconnect),
            write_disconnect: scaled(o.write_disconnect_ms),
            extra,
            minimum_seek_delay: picos(o.minimum_seek_delay_ms),
            bus_read: picos(sector_ms.max(p.bus.host_read_sector_ms)),
            bus_write: picos(sector_ms.max(p.bus.host_write_sector_ms)),
        }
    }
}

impl Timing {
    /// The shorter of the two completion overheads.
    pub(super) fn least_completion(&self) -> Picos {
        self.read_completion.min(self.write_completion)
    }

    /// One sector on the bus.
    pub(super) fn bus_sector(&self, write: bool) -> Picos {
        if write { self.bus_write } else { self.bus_read }
    }
}
