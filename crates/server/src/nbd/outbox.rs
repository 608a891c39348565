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
            // Data that was sent without a copy ends here: it is sent by a call of its own.
            self.zero_copy.is_sent(self.total);
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::io::{self, Read};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use rustix::io::IoSliceMut;

    use super::*;
    use crate::buffer::Chunk;
    use crate::front::Host;
    use crate::poller::Interest;

    /// A client that takes at most `most` bytes in one call, and `room` bytes in all.
    struct Client {
        most: usize,
        room: Cell<usize>,
        received: RefCell<Vec<u8>>,
        error: Option<Errno>,
    }

    impl Client {
        fn new(most: usize, room: usize) -> Self {
            Self { most, room: Cell::new(room), received: RefCell::default(), error: None }
        }
    }

    impl Stream for Client {
        fn receive(&self, _to: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
            Err(Errno::AGAIN)
        }

        fn send(&self, from: &[IoSlice<'_>]) -> Result<usize, Errno> {
            if let Some(error) = self.error {
                return Err(error);
            }
            let all: Vec<u8> = from.iter().flat_map(|slice| slice.to_vec()).collect();
            let sent = all.len().min(self.most).min(self.room.get());
            self.room.set(self.room.get() - sent);
            self.received.borrow_mut().extend(&all[..sent]);
            if sent == 0 { Err(Errno::AGAIN) } else { Ok(sent) }
        }

        fn watch(&self, _: Option<Interest>, _: Option<Interest>, _: u32, _: &Host<'_>) -> io::Result<()> {
            Ok(())
        }

        fn socket(&self) -> Option<BorrowedFd<'_>> {
            None
        }
    }

    /// An outbox with `count` replies of 16 bytes and a buffer of 5,000 bytes each, and what they look like on the wire.
    fn filled(count: u64, pool: &mut Pool) -> (Outbox, Vec<u8>) {
        let (mut outbox, mut wire) = (Outbox::new(None), Vec::new());
        for n in 0..count {
            let mut data = pool.take(5000);
            data.fill(n as u8 + 1);
            let header = Header::simple(n, 0);
            wire.extend(header.as_slice());
            wire.extend(&*data);
            outbox.push(header, Some(data));
        }
        (outbox, wire)
    }

    #[test]
    fn replies_arrive_complete_and_in_order_in_pieces_of_any_size() {
        let mut pool = Pool::new(0);
        // The last one: more slices than one call takes.
        for (most, count) in
            [(1, 1), (7, 3), (16, 3), (5016, 3), (5017, 3), (usize::MAX, 3), (usize::MAX, 100)]
        {
            let (mut outbox, wire) = filled(count, &mut pool);
            let client = Client::new(most, usize::MAX);
            // A buffer of 5,000 bytes has two pages.
            assert_eq!(outbox.send(&client, &mut pool), Ok(8192 * count as usize), "{most}");
            assert!(*client.received.borrow() == wire, "{most}");
            assert!(outbox.is_empty() && outbox.sent_bytes() == wire.len() as u64);
        }
    }

    #[test]
    fn long_data_of_a_disk_in_memory_is_sent_without_a_copy() {
        const BYTES: usize = 64 << 10;
        let (server, mut client) = UnixStream::pair().unwrap();
        let (server, mut pool) = (OwnedFd::from(server), Pool::new(0));
        let mut outbox = Outbox::new(Some(server.as_fd()));
        let mut chunk = Chunk::new(BYTES);
        for content in 1..=3 {
            chunk.bytes_mut().fill(content);
            let mut data = pool.take(BYTES);
            chunk.lend(0, &mut data);
            outbox.push(Header::simple(1, 0), Some(data));
            outbox.send(&server, &mut pool).unwrap();
            assert!(outbox.is_empty());
            let address = chunk.bytes().as_ptr();
            chunk.bytes_mut().fill(0);
            assert_ne!(chunk.bytes().as_ptr(), address, "the client has not read the data");
            let mut received = vec![0; 16 + BYTES];
            client.read_exact(&mut received).unwrap();
            assert!(received[16..].iter().all(|&byte| byte == content));
        }
    }

    #[test]
    fn a_client_without_room_gets_the_rest_later() {
        let mut pool = Pool::new(0);
        let (mut outbox, wire) = filled(3, &mut pool);
        let client = Client::new(usize::MAX, 5016 + 20);
        assert_eq!(outbox.send(&client, &mut pool), Ok(8192), "one reply and a part of the second one");
        assert_eq!((outbox.len(), outbox.sent_bytes()), (2, 5036));
        assert_eq!(outbox.send(&client, &mut pool), Ok(0));
        client.room.set(usize::MAX);
        assert_eq!(outbox.send(&client, &mut pool), Ok(2 * 8192));
        assert!(*client.received.borrow() == wire);
    }

    #[test]
    fn a_reply_without_data_frees_nothing() {
        let mut pool = Pool::new(0);
        let mut outbox = Outbox::new(None);
        outbox.push(Header::simple(1, 0), None);
        assert_eq!((outbox.len(), outbox.is_empty()), (1, false));
        let client = Client::new(usize::MAX, usize::MAX);
        assert_eq!(outbox.send(&client, &mut pool), Ok(0));
        assert_eq!(outbox.sent_bytes(), 16);
    }

    #[test]
    fn replies_to_a_client_that_is_gone_are_discarded_and_their_memory_counted() {
        let mut pool = Pool::new(0);
        let (mut outbox, _) = filled(3, &mut pool);
        let mut client = Client::new(usize::MAX, 100);
        assert_eq!(outbox.send(&client, &mut pool), Ok(0));
        client.error = Some(Errno::PIPE);
        assert_eq!(outbox.send(&client, &mut pool), Err(Errno::PIPE));
        assert_eq!(outbox.clear(&mut pool), 3 * 8192);
        assert!(outbox.is_empty());
        // Nothing of the discarded replies counts as sent of the next one.
        client.error = None;
        client.room.set(usize::MAX);
        client.received.borrow_mut().clear();
        outbox.push(Header::simple(9, 0), None);
        assert_eq!(outbox.send(&client, &mut pool), Ok(0));
        assert_eq!(*client.received.borrow(), Header::simple(9, 0).as_slice());
    }
}
