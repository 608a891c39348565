//! Replies that are to be sent: gathered during a round, then sent with as few calls as the socket permits.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::protocol::Header;
use super::stream::Stream;
use super::zero_copy::ZeroCopy;
use crate::buffer::{Buffer, Lent, Pool};

/// Slices in one call: a header and its data for each reply of a round at depth 32.
const SLICES: usize = 64;

/// A header and the data after it.
struct Reply {
    header: Header,
    data: Option<Buffer>,
}

impl Reply {
    fn len(&self) -> usize {
        self.header.as_slice().len() + self.data.as_ref().map_or(0, |data| data.len())
    }

    /// The data, if it is sent without a copy.
    fn uncopied(&self, zero_copy: &ZeroCopy) -> Option<&Lent> {
        self.data.as_ref()?.lent().filter(|data| zero_copy.takes(data))
    }
}

/// Replies of one client that are not sent yet.
pub(super) struct Outbox {
    waiting: VecDeque<Reply>,
    /// Bytes of the first reply that are sent.
    sent: usize,
    /// Bytes sent since the connection began.
    total: u64,
    zero_copy: ZeroCopy,
}

impl Outbox {
    pub(super) fn new(socket: Option<BorrowedFd<'_>>) -> Self {
        Self { waiting: VecDeque::new(), sent: 0, total: 0, zero_copy: ZeroCopy::new(socket) }
    }

    pub(super) fn push(&mut self, header: Header, data: Option<Buffer>) {
        self.waiting.push_back(Reply { header, data });
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes sent since the connection began.
    pub(super) const fn sent_bytes(&self) -> u64 {
        self.total
    }

    /// Sends as much as the socket takes; the bytes of memory that became free.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) fn send(&mut self, stream: &impl Stream, pool: &mut Pool) -> Result<usize, Errno> {
        if let Some(socket) = stream.socket() {
            self.zero_copy.release_read(self.total, socket);
        }
        let mut freed = 0;
        while !self.waiting.is_empty() {
            let sent = self.send_uncopied(stream).unwrap_or_else(|| self.send_copied(stream));
            match sent {
                Ok(bytes) => freed += self.drop_sent(bytes, pool),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(freed)
    }

    /// Sends the data that is next without a copy, if it is suited.
    fn send_uncopied(&mut self, stream: &impl Stream) -> Option<Result<usize, Errno>> {
        let first = self.waiting.front()?;
        let begin = self.sent.checked_sub(first.header.as_slice().len())?;
        let data = first.uncopied(&self.zero_copy)?;
        self.zero_copy.send(data, begin, stream.socket()?)
    }

    /// Sends everything before the next data that is sent without a copy, in one call.
    fn send_copied(&self, stream: &impl Stream) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut count, mut skip) = (0, self.sent);
        'gather: for reply in &self.waiting {
            let is_uncopied = reply.uncopied(&self.zero_copy).is_some();
            let data = reply.data.as_deref().filter(|_| !is_uncopied).unwrap_or(&[]);
            for part in [reply.header.as_slice(), data] {
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
            if is_uncopied {
                break;
            }
        }
        stream.send(&slices[..count])
    }

    fn drop_sent(&mut self, bytes: usize, pool: &mut Pool) -> usize {
        self.sent += bytes;
        self.total += bytes as u64;
        let mut freed = 0;
        while let Some(first) = self.waiting.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            self.zero_copy.is_sent(self.total - self.sent as u64);
            if let Some(data) = self.waiting.pop_front().and_then(|reply| reply.data) {
                freed += data.footprint();
                pool.put(data);
            }
        }
        freed
    }

    /// Discards all replies; the bytes of memory that became free.
    pub(super) fn clear(&mut self, pool: &mut Pool) -> usize {
        self.sent = 0;
        let mut freed = 0;
        for data in self.waiting.drain(..).filter_map(|reply| reply.data) {
            freed += data.footprint();
            pool.put(data);
        }
        freed
    }
}
