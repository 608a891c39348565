//! Replies on their way out: gathered during a round, sent with as few calls as the socket takes.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::protocol::Header;
use super::shown::Showing;
use super::stream::Stream;
use crate::buffer::{Buffer, Lent, Pool};

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

    /// Its data, if that is to be shown rather than copied.
    fn to_show(&self, showing: &Showing) -> Option<&Lent> {
        self.data.as_ref()?.lent().filter(|data| showing.takes(data))
    }
}

/// Replies not yet sent.
pub(super) struct Outbox {
    waiting: VecDeque<Out>,
    /// Bytes of the first one that are sent.
    sent: usize,
    /// Bytes sent in all.
    total: u64,
    showing: Showing,
}

impl Outbox {
    pub(super) fn new(socket: Option<BorrowedFd<'_>>) -> Self {
        Self { waiting: VecDeque::new(), sent: 0, total: 0, showing: Showing::new(socket) }
    }

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
    pub(super) fn send(&mut self, stream: &impl Stream, pool: &mut Pool) -> Result<usize, Errno> {
        if let Some(socket) = stream.socket() {
            self.showing.let_go(self.total, socket);
        }
        let mut freed = 0;
        while !self.waiting.is_empty() {
            let sent = self.show_once(stream).unwrap_or_else(|| self.send_once(stream));
            match sent {
                Ok(bytes) => freed += self.drop_sent(bytes, pool),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(freed)
    }

    /// Shows the client the data that is next, if it is to be shown.
    fn show_once(&mut self, stream: &impl Stream) -> Option<Result<usize, Errno>> {
        let first = self.waiting.front()?;
        let begin = self.sent.checked_sub(first.header.as_slice().len())?;
        let data = first.to_show(&self.showing)?;
        self.showing.send(data, begin, stream.socket()?)
    }

    /// Copies what comes before the next data to be shown, in one call.
    fn send_once(&self, stream: &impl Stream) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut count, mut skip) = (0, self.sent);
        'gather: for out in &self.waiting {
            let shown = out.to_show(&self.showing).is_some();
            let data = out.data.as_deref().filter(|_| !shown).unwrap_or(&[]);
            for part in [out.header.as_slice(), data] {
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
            if shown {
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
            self.showing.ends(self.total - self.sent as u64);
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
