//! Block status: where an export holds data.
//!
//! A file system may have to read its own maps from the disk for that, so a thread does it where it may block.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::cookie::Cookie;
use super::protocol::DESCRIPTOR_BYTES;
use crate::backend::{Extent, Extents};
use crate::poller::Bell;

/// Most extents in one reply to a block status.
pub(super) const EXTENTS: usize = 512;

/// Memory for the extents of a reply, held from the request on.
pub(super) const REPLY_BYTES: usize = EXTENTS * DESCRIPTOR_BYTES;

/// A range whose extents a client requests.
pub(super) struct Query {
    pub(super) cookie: Cookie,
    /// The first byte of the range.
    pub(super) offset: u64,
    /// The length of the range.
    pub(super) bytes: u64,
    /// The largest number of extents in the reply.
    pub(super) most: usize,
    /// Extents end at multiples of this.
    pub(super) block_bytes: u64,
}

/// The reply to a [`Query`].
pub(super) struct BlockStatus {
    pub(super) cookie: Cookie,
    /// Adjacent extents from the range's first byte on.
    pub(super) extents: Vec<Extent>,
}

impl Query {
    /// Looks the extents up with a function that returns the one at an offset, of at most so many bytes.
    pub(super) fn look_up(self, mut extent: impl FnMut(u64, u64) -> Extent) -> BlockStatus {
        let Self { cookie, mut offset, bytes: mut left, most, block_bytes } = self;
        let mut extents = Vec::new();
        while left > 0 && extents.len() < most {
            let Extent { bytes, data } = extent(offset, left);
            let bytes = bytes.next_multiple_of(block_bytes).clamp(1, left);
            extents.push(Extent { bytes, data });
            (offset, left) = (offset + bytes, left - bytes);
        }
        BlockStatus { cookie, extents }
    }
}

/// A thread that looks up one query after the other. It ends when all senders of queries are dropped.
pub(super) struct Lookup {
    pub(super) queries: Sender<Query>,
    /// The bell rings for each result.
    pub(super) results: Receiver<BlockStatus>,
}

impl Lookup {
    /// Starts the thread.
    pub(super) fn new(extents: Arc<dyn Extents>, bell: Arc<Bell>) -> io::Result<Self> {
        let (queries, received) = channel::<Query>();
        let (found, results) = channel();
        thread::Builder::new().name("block-status".into()).spawn(move || {
            for query in received {
                let status = query.look_up(|offset, most| extents.extent(offset, most));
                if found.send(status).is_err() {
                    return;
                }
                bell.ring();
            }
        })?;
        Ok(Self { queries, results })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The extents of the answer, as bytes and whether they have data. `found` returns the extent at an offset.
    fn answered(bytes: u64, most: usize, found: impl FnMut(u64, u64) -> Extent) -> Vec<(u64, bool)> {
        let cookie = Cookie { connection: 1, pending: 2, part: 3 };
        let status = Query { cookie, offset: 4096, bytes, most, block_bytes: 512 }.look_up(found);
        assert_eq!(status.cookie, cookie);
        status.extents.iter().map(|extent| (extent.bytes, extent.data)).collect()
    }

    #[test]
    fn extents_are_adjacent_and_cover_the_range() {
        let mut asked = Vec::new();
        let extents = answered(8192, EXTENTS, |offset, most| {
            asked.push((offset, most));
            Extent { bytes: most.min(3072), data: offset < 7000 }
        });
        assert_eq!(extents, [(3072, true), (3072, false), (2048, false)]);
        assert_eq!(asked, [(4096, 8192), (7168, 5120), (10240, 2048)]);
    }

    #[test]
    fn an_extent_ends_at_a_block_and_within_the_range() {
        let of = |bytes| move |_, _| Extent { bytes, data: true };
        assert_eq!(answered(1024, 1, of(1)), [(512, true)], "up to the next block");
        assert_eq!(answered(1024, 1, of(1 << 40)), [(1024, true)], "not beyond the range");
        // A file that was truncated meanwhile has no extent there: the answer must end nevertheless.
        assert_eq!(answered(3, EXTENTS, of(0)), [(1, true); 3]);
    }

    #[test]
    fn the_number_of_extents_is_limited() {
        let of = |_, _| Extent { bytes: 512, data: false };
        assert_eq!(answered(4096, 2, of), [(512, false); 2]);
        assert_eq!(answered(0, 2, of), []);
    }
}
