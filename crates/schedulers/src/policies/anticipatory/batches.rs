//! Batches: reads and writes in turns, each for a limited time, and never mixed in the device.

use super::Timing;
use super::lists::Kind;
use crate::parts::jiffies::{Conversion, Jiffies};

/// The running batch, and the number of writes that a batch may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batches {
    kind: Kind,
    /// The old kind's requests are still in the device.
    changed: bool,
    /// Its first read has not completed; its clock starts then.
    new: bool,
    /// The end of the batch.
    expires: Jiffies,
    /// Writes in a batch, adapted so that they take about `write_batch_expire`.
    write_batch_count: u64,
    /// Writes left in this one.
    current_write_count: u64,
    /// The write batch ran out of writes, or reads ran out: its duration is not measured.
    write_batch_idled: bool,
}

impl Batches {
    /// A read batch. The initial number of writes assumes ten ticks each.
    pub(crate) fn new(timing: &Timing) -> Self {
        Self {
            kind: Kind::Sync,
            changed: false,
            new: false,
            expires: timing.read_batch_expire,
            write_batch_count: (timing.write_batch_expire / 10).max(2),
            current_write_count: 0,
            write_batch_idled: false,
        }
    }

    /// The tick length changed.
    pub(crate) const fn convert_ticks(&mut self, anew: Conversion) {
        anew.apply(&mut self.expires);
    }

    /// The kind of the batch.
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the device must be drained first.
    pub(crate) const fn is_changing(&self) -> bool {
        self.changed
    }

    /// Whether the batch is over, if the other kind has requests. Reads are limited by time, writes by time or number.
    pub(crate) const fn is_expired(&self, now: Jiffies) -> bool {
        let out_of_writes = matches!(self.kind, Kind::Async) && self.current_write_count == 0;
        !self.changed && !self.new && (now > self.expires || out_of_writes)
    }

    /// Called before each decision: a write batch without competing reads is not timed.
    pub(crate) const fn note_idleness(&mut self, reads: bool, writes: bool) {
        if matches!(self.kind, Kind::Async) && !reads && (self.current_write_count == 0 || !writes) {
            self.write_batch_idled = true;
        }
    }

    /// A read is dispatched and no write waits: the batch's time starts again.
    pub(crate) const fn uncontended_read(&mut self, now: Jiffies, timing: &Timing) {
        self.expires = now + timing.read_batch_expire;
    }

    /// Changes to reads.
    pub(crate) const fn switch_to_reads(&mut self) {
        self.changed |= matches!(self.kind, Kind::Async);
        self.kind = Kind::Sync;
    }

    /// Changes to writes.
    pub(crate) const fn switch_to_writes(&mut self) {
        if matches!(self.kind, Kind::Sync) {
            self.changed = true;
            // The queue may have run out of reads before the batch's first one completed.
            self.new = false;
        }
        self.kind = Kind::Async;
        self.current_write_count = self.write_batch_count;
        self.write_batch_idled = false;
    }

    /// The device has no request of the old kind any more. A write batch's clock starts now. A read batch's starts with the
    /// first completed read, because the device may still be busy with cached writes.
    pub(crate) const fn drained(&mut self, now: Jiffies, timing: &Timing) {
        if self.changed {
            self.changed = false;
            match self.kind {
                Kind::Async => self.expires = now + timing.write_batch_expire,
                Kind::Sync => self.new = true,
            }
        }
    }

    /// A write is dispatched.
    pub(crate) const fn sent_write(&mut self) {
        self.current_write_count = self.current_write_count.saturating_sub(1);
    }

    /// A request of that kind completed.
    pub(crate) const fn completed(&mut self, kind: Kind, now: Jiffies, timing: &Timing) {
        if self.new && self.kind as usize == kind as usize {
            self.tune(now, timing);
            self.expires = now + timing.read_batch_expire;
            self.new = false;
        }
    }

    /// Adapts the number of writes in a batch to the duration of the last one.
    const fn tune(&mut self, now: Jiffies, timing: &Timing) {
        let batch = timing.write_batch_expire;
        let write_time = (now + batch).saturating_sub(self.expires);
        let count = self.write_batch_count;
        self.write_batch_count = if write_time > batch && !self.write_batch_idled {
            if write_time > batch * 3 { count / 2 } else { count - 1 }
        } else if write_time < batch && self.current_write_count == 0 {
            if batch > write_time * 3 { count.saturating_mul(2) } else { count + 1 }
        } else {
            count
        };
        if self.write_batch_count < 1 {
            self.write_batch_count = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing {
        read_expire: 125,
        write_expire: 250,
        read_batch_expire: 500,
        write_batch_expire: 125,
        antic_expire: 6,
    };

    /// The number of writes for the next batch, after a batch of `sent` writes that took `ticks` until the first read
    /// completed.
    fn after(count: u64, sent: u64, ticks: u64, idled: bool) -> u64 {
        let mut b = Batches { write_batch_count: count, ..Batches::new(&TIMING) };
        b.switch_to_writes();
        b.drained(1_000, &TIMING);
        (0..sent).for_each(|_| b.sent_write());
        if idled {
            b.note_idleness(false, false);
        }
        b.switch_to_reads();
        b.drained(1_000 + ticks, &TIMING);
        b.completed(Kind::Sync, 1_000 + ticks, &TIMING);
        b.write_batch_count
    }

    #[test]
    fn the_number_of_writes_follows_the_time_they_took() {
        assert_eq!(Batches::new(&TIMING).write_batch_count, 12);
        assert_eq!(after(12, 12, 376, false), 6, "more than three times too long: half");
        assert_eq!(after(12, 12, 375, false), 11, "too long: one less");
        assert_eq!(after(12, 12, 375, true), 12, "uncontended: no information");
        assert_eq!(after(12, 12, 125, false), 12, "as wanted");
        assert_eq!(after(12, 12, 124, false), 13, "too short: one more");
        assert_eq!(after(12, 12, 41, false), 24, "less than a third: twice as many");
        assert_eq!(after(12, 11, 41, false), 12, "but only if all were used");
        assert_eq!(after(1, 1, 1_000, false), 1, "at least one");
    }

    #[test]
    fn the_clock_of_a_read_batch_starts_when_its_first_read_completes() {
        let mut b = Batches::new(&TIMING);
        b.switch_to_writes();
        assert!(b.is_changing() && !b.is_expired(10_000));
        b.drained(600, &TIMING);
        assert!(!b.is_expired(725));
        assert!(b.is_expired(726));
        b.switch_to_reads();
        b.drained(726, &TIMING);
        assert!(!b.is_expired(10_000), "nothing has completed");
        b.completed(Kind::Async, 800, &TIMING);
        assert!(!b.is_expired(10_000));
        b.completed(Kind::Sync, 1_000, &TIMING);
        assert!(!b.is_expired(1_500));
        assert!(b.is_expired(1_501));
    }

    #[test]
    fn a_write_batch_also_ends_by_number() {
        let mut b = Batches { write_batch_count: 2, ..Batches::new(&TIMING) };
        b.switch_to_writes();
        b.drained(0, &TIMING);
        b.sent_write();
        assert!(!b.is_expired(1));
        b.sent_write();
        assert!(b.is_expired(1));
    }
}
