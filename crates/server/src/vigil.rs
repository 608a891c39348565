//! How long a thread looks before it sleeps.
//!
//! To be woken takes an idle processor tens of microseconds, which a client that asks for one thing at a time pays for each.
//! So a thread that has just answered looks for more for a moment. It goes on doing so as long as that finds something;
//! once it found nothing, it sleeps at once for one turn, then two, then four, and so on. Whoever asks seldom, or
//! shares a processor with this thread and can ask only while it sleeps, is thus hardly looked for.

use std::time::Duration;

/// Most turns in which it sleeps at once.
const LONGEST_SLUMBER: u32 = 512;

/// A thread's habit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vigil {
    length: Duration,
    /// Turns until it is tried again, and how many they shall be if that fails.
    slumber: u32,
    next_slumber: u32,
    looking: bool,
}

impl Vigil {
    /// Looks for so long at most; zero never looks.
    pub(crate) const fn new(length: Duration) -> Self {
        Self { length, slumber: 0, next_slumber: 1, looking: false }
    }

    /// Whether to look rather than sleep, `idle` after there was something to do.
    pub(crate) fn looks(&mut self, idle: Duration) -> bool {
        if self.length.is_zero() || self.slumber > 0 {
            return false;
        }
        if idle >= self.length && self.looking {
            self.looking = false;
            self.slumber = self.next_slumber;
            self.next_slumber = (self.next_slumber * 2).min(LONGEST_SLUMBER);
            return false;
        }
        self.looking = idle < self.length;
        self.looking
    }

    /// There was something to do.
    pub(crate) fn found(&mut self) {
        if std::mem::take(&mut self.looking) {
            self.next_slumber = 1;
        } else {
            self.slumber = self.slumber.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_micros(50);
    const LATER: Duration = Duration::from_micros(51);

    #[test]
    fn it_looks_as_long_as_that_finds_something() {
        let mut vigil = Vigil::new(LENGTH);
        for _ in 0..100 {
            assert!(vigil.looks(Duration::ZERO) && vigil.looks(Duration::from_micros(49)));
            vigil.found();
        }
        assert!(!Vigil::new(Duration::ZERO).looks(Duration::ZERO));
    }

    #[test]
    fn what_finds_nothing_is_seldom_tried() {
        let mut vigil = Vigil::new(LENGTH);
        let mut tries = 0;
        for _ in 0..10_000 {
            if vigil.looks(Duration::ZERO) {
                tries += 1;
                assert!(!vigil.looks(LATER), "too long already");
            }
            assert!(!vigil.looks(LATER), "asleep until there is something");
            vigil.found();
        }
        assert!(tries < 30, "{tries}");
        while !vigil.looks(Duration::ZERO) {
            vigil.found();
        }
        vigil.found();
        assert!(vigil.looks(Duration::ZERO), "it paid, so it is tried again");
    }
}
