//! The decaying averages of the anticipatory scheduler and CFQ, in their fixed point: 256 is one, a new sample weighs
//! one eighth.

/// One, in the fixed point of probabilities and sample counts.
pub(crate) const ONE: u64 = 256;

/// Moves `old` one eighth of the way to `new` times [`ONE`].
const fn decayed(old: u64, new: u64) -> u64 {
    (old.saturating_mul(7).saturating_add(new.saturating_mul(ONE))) / 8
}

/// The recent frequency of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Probability(u64);

impl Probability {
    /// The event occurred.
    pub(crate) const fn up(&mut self) {
        self.0 = decayed(self.0, 1);
    }

    /// The event did not occur.
    pub(crate) const fn down(&mut self) {
        self.0 = decayed(self.0, 0);
    }

    /// In 1/256.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// More likely than not.
    pub(crate) const fn is_likely(self) -> bool {
        self.0 > ONE / 2
    }
}

/// A mean over new processes: each contributes its first sample. The mean begins at 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NewcomersMean {
    total: u64,
}

impl NewcomersMean {
    /// Adds one process's first sample.
    pub(crate) const fn add(&mut self, sample: u64) {
        self.total = decayed(self.total, sample);
    }

    /// The mean.
    pub(crate) const fn mean(self) -> u64 {
        self.total / ONE
    }
}

/// The think time of a process between a completion and its next request, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ThinkTime {
    samples: u64,
    total: u64,
    mean: u64,
}

impl ThinkTime {
    /// Adds a think time; the caller has limited it.
    pub(crate) const fn add(&mut self, ticks: u64) {
        self.samples = decayed(self.samples, 1);
        self.total = decayed(self.total, ticks);
        self.mean = (self.total + ONE / 2) / self.samples;
    }

    /// The mean, in ticks.
    pub(crate) const fn mean(self) -> u64 {
        self.mean
    }

    /// Whether there is no sample.
    pub(crate) const fn is_empty(self) -> bool {
        self.samples == 0
    }

    /// Whether there are enough samples for CFQ to use the mean: more than 80 of 256 (three or more).
    pub(crate) const fn is_valid(self) -> bool {
        self.samples > 80
    }
}

/// Sample weight (in 1/256) up to which a seek may raise the mean by much: the second and third sample.
const EARLY: u64 = 60;
/// The amount in sectors by which an early seek may exceed four times the mean: 1 GiB.
const EARLY_ALLOWANCE: u64 = 2 * 1024 * 1024;
/// The same for a later seek: 64 MiB, so that single fragments or page faults do not distort the mean.
const ALLOWANCE: u64 = 2 * 1024 * 64;

/// The seek distance of a process from the end of a request to the start of its next, in sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SeekDistance {
    samples: u64,
    total: u64,
    mean: u64,
}

impl SeekDistance {
    /// Adds a distance, limited relative to the mean so far.
    pub(crate) const fn add(&mut self, sectors: u64) {
        let allowance = if self.samples <= EARLY { EARLY_ALLOWANCE } else { ALLOWANCE };
        let most = self.mean.saturating_mul(4).saturating_add(allowance);
        let sectors = if sectors < most { sectors } else { most };
        self.samples = decayed(self.samples, 1);
        self.total = decayed(self.total, sectors);
        self.mean = (self.total + self.samples / 2) / self.samples;
    }

    /// The mean, in sectors.
    pub(crate) const fn mean(self) -> u64 {
        self.mean
    }

    /// Whether there is no sample.
    pub(crate) const fn is_empty(self) -> bool {
        self.samples == 0
    }

    /// As [`ThinkTime::is_valid`].
    pub(crate) const fn is_valid(self) -> bool {
        self.samples > 80
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas in plain arithmetic, by hand.
    #[test]
    fn a_probability_moves_an_eighth() {
        let mut p = Probability::default();
        let mut seen = [0; 6];
        for value in &mut seen {
            p.up();
            *value = p.get();
        }
        assert_eq!(seen, [32, 60, 84, 105, 123, 139]); // (7*0+256)/8 = 32, (7*32+256)/8 = 60, …
        assert!(p.is_likely()); // after six in a row
        p.down();
        assert_eq!(p.get(), 121);
        assert!(!p.is_likely());
    }

    #[test]
    fn think_times_average_over_a_fraction_of_samples() {
        let mut t = ThinkTime::default();
        t.add(4);
        assert_eq!((t.samples, t.total, t.mean), (32, 128, 8)); // (128+128)/32: one sample counts double
        t.add(4);
        assert_eq!((t.samples, t.total, t.mean), (60, 240, 6));
        assert!(!t.is_valid());
        t.add(0);
        assert_eq!((t.samples, t.total, t.mean), (84, 210, 4));
        assert!(t.is_valid());
    }

    #[test]
    fn seeks_are_clipped_generously_at_first_and_tightly_later() {
        let mut s = SeekDistance::default();
        s.add(u64::MAX);
        assert_eq!((s.samples, s.mean), (32, EARLY_ALLOWANCE)); // 2 097 152 * 256/8 / 32
        let mut s = SeekDistance::default();
        for _ in 0..3 {
            s.add(0);
        }
        s.add(u64::MAX); // 84 samples by now: 4*0 + 131 072
        assert_eq!((s.samples, s.total), (105, 256 * 131_072 / 8));
        assert_eq!(s.mean, (256 * 131_072 / 8 + 52) / 105);
    }

    #[test]
    fn a_mean_over_newcomers_begins_at_nothing() {
        let mut mean = NewcomersMean::default();
        mean.add(80);
        assert_eq!(mean.mean(), 10);
        mean.add(0);
        assert_eq!(mean.mean(), 8);
    }
}
