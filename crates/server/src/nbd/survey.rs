//! Looks up where an export holds data, for block status.
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

/// Memory for them, held from the request on.
pub(super) const SURVEY: usize = EXTENTS * DESCRIPTOR_BYTES;

/// A range whose extents a client requests.
pub(super) struct Question {
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

/// The reply to a [`Question`].
pub(super) struct Survey {
    pub(super) cookie: Cookie,
    /// Adjacent extents from the range's first byte on.
    pub(super) extents: Vec<Extent>,
}

impl Question {
    /// Answers it with a function that returns the extent at an offset, of at most so many bytes.
    pub(super) fn answer(self, mut extent: impl FnMut(u64, u64) -> Extent) -> Survey {
        let Self { cookie, mut offset, bytes: mut left, most, block_bytes } = self;
        let mut extents = Vec::new();
        while left > 0 && extents.len() < most {
            let Extent { bytes, data } = extent(offset, left);
            let bytes = bytes.next_multiple_of(block_bytes).clamp(1, left);
            extents.push(Extent { bytes, data });
            (offset, left) = (offset + bytes, left - bytes);
        }
        Survey { cookie, extents }
    }
}

/// A thread that answers questions one after the other. It ends when all senders of questions are dropped.
pub(super) struct Surveyor {
    pub(super) questions: Sender<Question>,
    /// The bell rings for each survey.
    pub(super) surveys: Receiver<Survey>,
}

impl Surveyor {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's limits.
    pub(super) fn new(extents: Arc<dyn Extents>, bell: Arc<Bell>) -> io::Result<Self> {
        let (questions, asked) = channel::<Question>();
        let (found, surveys) = channel();
        thread::Builder::new().name("surveyor".into()).spawn(move || {
            for question in asked {
                let survey = question.answer(|offset, most| extents.extent(offset, most));
                if found.send(survey).is_err() {
                    return;
                }
                bell.ring();
            }
        })?;
        Ok(Self { questions, surveys })
    }
}
