//! The machine description in the units of the code: pages, spans, flags.

use elevator::Span;

use crate::kernel::description::Description;
use crate::kernel::fs::BLOCK_BYTES;

/// Sizes and rules of this machine.
#[derive(Clone, Debug)]
pub(in crate::kernel) struct Rules {
    pub(in crate::kernel) description: Description,
    /// Pages that the cache may hold.
    pub(in crate::kernel) capacity: usize,
    pub(in crate::kernel) read_ahead_max: u64,
    pub(in crate::kernel) request_pages: usize,
    /// A submission of a read ends at a multiple of this many pages of the device.
    pub(in crate::kernel) read_boundary: Option<u64>,
    /// Above this many dirty pages the flusher writes.
    pub(in crate::kernel) background: usize,
    /// Above this many dirty pages writers are throttled.
    pub(in crate::kernel) limit: usize,
    /// The queue counts as congested from this many requests on.
    pub(in crate::kernel) congestion_on: u32,
    /// The queue stops being congested below this many requests.
    pub(in crate::kernel) congestion_off: u32,
    pub(in crate::kernel) call: Span,
    pub(in crate::kernel) page: Span,
    pub(in crate::kernel) name: Span,
    /// Blocks are allocated at writeback, not when a page is dirtied.
    pub(in crate::kernel) delayed: bool,
    /// Overwritten data is written before the commit as well (ext3's ordered mode; ext4 orders new data only).
    pub(in crate::kernel) orders_overwrites: bool,
    /// Unit of time stamps.
    pub(in crate::kernel) stamp: Span,
    /// Reads change time stamps.
    pub(in crate::kernel) access_times: bool,
    /// Writes that a task waits for are marked synchronous.
    pub(in crate::kernel) sync_writes: bool,
}

impl Rules {
    pub(in crate::kernel) fn new(description: &Description) -> Self {
        let Description { memory, processor, read_ahead, dirty, file_system, block, .. } = description;
        let pages = |mib: u32| mib as usize * (1 << 20) / BLOCK_BYTES as usize;
        let capacity = pages(memory.mib - memory.taken_mib);
        let nr_requests = block.nr_requests;
        Self {
            capacity,
            read_ahead_max: u64::from(read_ahead.max_kib) * 1024 / BLOCK_BYTES,
            request_pages: (u64::from(block.max_kib) * 1024 / BLOCK_BYTES) as usize,
            read_boundary: None,
            background: capacity * dirty.background_percent as usize / 100,
            limit: capacity * dirty.percent as usize / 100,
            // `queue_congestion_on_threshold` and `queue_congestion_off_threshold` of `block/blk.h`.
            congestion_on: (nr_requests - nr_requests / 8 + 1).min(nr_requests),
            congestion_off: nr_requests - nr_requests / 8 - nr_requests / 16 - 1,
            call: Span::from_nanos(processor.call_ns),
            page: Span::from_nanos(processor.page_ns),
            name: Span::from_nanos(processor.name_ns),
            delayed: file_system.delayed_allocation,
            orders_overwrites: file_system.orders_overwrites,
            stamp: Span::from_millis(file_system.stamp_ms),
            access_times: file_system.access_times,
            sync_writes: block.sync_writes,
            description: description.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `blk_queue_congestion_threshold`: a queue of any length can become congested.
    #[test]
    fn congestion_thresholds_of_short_queues() {
        let mut description = Description::named("pc-2004").expect("built in");
        let mut thresholds = |nr_requests| {
            description.block.nr_requests = nr_requests;
            let rules = Rules::new(&description);
            (rules.congestion_on, rules.congestion_off)
        };
        assert_eq!([4, 7, 8, 128].map(&mut thresholds), [(4, 3), (7, 6), (8, 6), (113, 103)]);
    }
}
