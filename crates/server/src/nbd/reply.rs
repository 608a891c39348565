//! Replies on their way out: gathered during a round, sent with as few calls as the socket takes.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::protocol::Header;
use crate::buffer::{Buffer, Pool};

/// Slices in one call: enough for a round at depth 32, a header and its data each.
const SLICES: usize = 64;

/// A header and the data behind it.
struct Out {
    header: Header,
    data: Option<Buffer>,
}

impl Out {
    fn len(&self) -> usize {
        self.header.as_slice().len() + self.data.as_ref().map_or(0, |data| data.len())
    }
}

/// Replies not yet sent.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Out>,
    /// Bytes of the first one that are sent.
    sent: usize,
}

impl Outbox {
    pub(super) fn push(&mut self, header: Header, data: Option<Buffer>) {
        self.waiting.push_back(Out { header, data });
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends what the socket takes. How many bytes of memory came free; `Err` if the client is gone.
    pub(super) fn send(&mut self, socket: impl AsFd, pool: &mut Pool) -> Result<usize, Errno> {
        let mut freed = 0;
        while !self.waiting.is_empty() {
            match self.send_once(&socket) {
                Ok(bytes) => freed += self.drop_sent(bytes, pool),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(freed)
    }

    fn send_once(&self, socket: impl AsFd) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut count, mut skip) = (0, self.sent);
        'gather: for out in &self.waiting {
            for part in [out.header.as_slice(), out.data.as_deref().unwrap_or(&[])] {
                if skip >= part.len() {
                    skip -= part.len();
                    continue;
                }
                slices[count] = IoSlice::new(&part[skip..]);
                (count, skip) = (count + 1, 0);
                if count == SLICES {
                    break 'gather;
                }
            }
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags)
    }

    fn drop_sent(&mut self, bytes: usize, pool: &mut Pool) -> usize {
        self.sent += bytes;
        let mut freed = 0;
        while let Some(first) = self.waiting.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            if let Some(data) = self.waiting.pop_front().and_then(|out| out.data) {
                freed += data.footprint();
                pool.put(data);
            }
        }
        freed
    }

    /// Forgets everything; how many bytes of memory came free.
    pub(super) fn clear(&mut self, pool: &mut Pool) -> usize {
        self.sent = 0;
        let mut freed = 0;
        for data in self.waiting.drain(..).filter_map(|out| out.data) {
            freed += data.footprint();
            pool.put(data);
        }
        freed
    }
}
