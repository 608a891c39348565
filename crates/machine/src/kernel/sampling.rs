//! Once a second: the kernel's state for the report, and the memory of cause tags.

use elevator::Time;

use super::Kernel;
use super::state::{SAMPLE_EVERY, Sample, State};

impl State {
    /// Records a sample for each second that has passed.
    pub(super) fn observe(&mut self, now: Time) {
        loop {
            let at = Time::ZERO + SAMPLE_EVERY * (self.watch.samples.len() as u64 + 1);
            if now < at {
                break;
            }
            let sample = Sample {
                at_ns: at.as_nanos(),
                cached_pages: self.pages.len() as u64,
                dirty_pages: self.dirty as u64,
                writeback_pages: self.writing as u64,
                throttled: self.dirtiers.held,
                ..std::mem::take(&mut self.watch.now)
            };
            self.watch.pages_out += sample.pages_out;
            self.weigh_tags();
            self.watch.samples.push(sample);
        }
    }
}

impl State {
    /// Measures the memory of tags.
    pub(super) fn weigh_tags(&mut self) {
        if self.tags() {
            let bytes = (self.causes.bytes() + self.pages.causes_bytes()) as u64;
            let tagging = &mut self.tagging;
            tagging.bytes_max = tagging.bytes_max.max(bytes);
            tagging.bytes_sum += bytes;
            tagging.weighed += 1;
        }
    }
}

impl Kernel {
    /// Samples of every second of virtual time so far.
    pub fn samples(&self) -> Vec<Sample> {
        self.state.borrow().watch.samples().to_vec()
    }
}
