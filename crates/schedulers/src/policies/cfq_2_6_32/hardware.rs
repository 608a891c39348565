//! Detects whether the device queues several requests.

/// The number of requests in the device from which it counts as queueing (`CFQ_HW_QUEUE_MIN`).
const DEEP: u32 = 5;

/// Completions under load between two evaluations.
const SAMPLES: u32 = 50;

/// The result, and the samples for the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hardware {
    /// The device queues (`hw_tag`). Assumed until shown otherwise.
    pub(super) queues: bool,
    samples: u32,
    /// The highest recent number of requests in the device (`rq_in_driver_peak`).
    peak: u32,
}

impl Hardware {
    pub(super) const fn new() -> Self {
        Self { queues: true, samples: 0, peak: 0 }
    }

    /// Adds a sample at a completion: the requests queued and in the device.
    pub(super) fn sample(&mut self, queued: u32, in_driver: u32) {
        self.peak = self.peak.max(in_driver);
        if queued <= DEEP && in_driver <= DEEP {
            return; // too little load for a judgement
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            return;
        }
        *self = Self { queues: self.peak >= DEEP, samples: 0, peak: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_takes_one_at_a_time_is_found_out_under_load() {
        let mut hardware = Hardware::new();
        (0..1_000).for_each(|_| hardware.sample(5, 1));
        assert!(hardware.queues, "too little load for a judgement");
        (0..50).for_each(|_| hardware.sample(6, 1));
        assert!(hardware.queues);
        hardware.sample(6, 1);
        assert!(!hardware.queues);
        (0..51).for_each(|_| hardware.sample(6, 5));
        assert!(hardware.queues);
    }
}
