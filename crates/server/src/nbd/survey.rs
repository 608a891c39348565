//! Where an export holds data, looked up for block status. To tell, a file system may have to read its own maps from the disk: what
//! may wait for that is done by a thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::connection::Cookie;
use crate::backend::{Extent, Extents};
use crate::poller::Bell;

/// What is asked.
pub(super) struct Question {
    /// Who asks.
    pub(super) cookie: Cookie,
    /// From this byte on,
    pub(super) offset: u64,
    /// so many bytes,
    pub(super) bytes: u64,
    /// and at most so many extents.
    pub(super) most: usize,
    /// Extents end where blocks do.
    pub(super) block_bytes: u64,
}

/// What there is.
pub(super) struct Survey {
    /// Who asked.
    pub(super) cookie: Cookie,
    /// One behind the other.
    pub(super) extents: Vec<Extent>,
}

impl Question {
    /// The answer, by whoever knows what lies at a byte, looking so far.
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

/// A thread that answers one question after the other. It ends when nobody can ask it any more.
pub(super) struct Surveyor {
    /// Where to ask.
    pub(super) questions: Sender<Question>,
    /// What it found; the bell rings for each.
    pub(super) surveys: Receiver<Survey>,
}

impl Surveyor {
    /// One for these extents.
    ///
    /// # Errors
    /// There is no thread to be had.
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
