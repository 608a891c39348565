//! Sends data to a unix socket without a copy by the server: the pages of a disk in memory are put into the socket.
//!
//! A pipe takes references to pages (`vmsplice`) and passes them to a unix socket (`splice`); only the client copies. The pages must
//! keep their contents until then. The kernel reports how many bytes of a unix socket are unread (`TIOCOUTQ`), so everything sent before
//! those bytes has been read.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, vmsplice};

use crate::buffer::{LARGEST, Lent, Shown};

/// The shortest data that is sent without a copy. For shorter data the copy costs less than the calls.
const LEAST: usize = 64 << 10;

/// The pipe to one client, and the data that the client has not read yet.
pub(super) struct ZeroCopy {
    /// Created when it is needed; `None` also where the socket or the kernel does not take pages.
    pipe: Option<Pipe>,
    possible: bool,
    /// Data in the pipe, or partly in the socket.
    current: Option<Shown>,
    /// Data that is completely in the socket, with the number of bytes sent at its end.
    unread: VecDeque<(u64, Shown)>,
}

struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
    /// Bytes in the pipe.
    filled: usize,
}

impl Pipe {
    fn new() -> Result<Self, Errno> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A larger pipe takes fewer calls. Where the kernel refuses, the default size is used.
        let _ = fcntl_setpipe_size(&to, LARGEST);
        Ok(Self { from, to, filled: 0 })
    }
}

impl ZeroCopy {
    pub(super) fn new(socket: Option<BorrowedFd<'_>>) -> Self {
        Self {
            pipe: None,
            possible: socket.is_some_and(reports_unread),
            current: None,
            unread: VecDeque::new(),
        }
    }

    /// Whether this data is sent without a copy.
    pub(super) fn takes(&self, data: &Lent) -> bool {
        self.possible && data.len() >= LEAST
    }

    /// Puts the data from byte `begin` on into the socket, or the first part of it; the number of bytes. `None` if this and all later
    /// data must be copied.
    pub(super) fn send(
        &mut self,
        data: &Lent,
        begin: usize,
        socket: impl AsFd,
    ) -> Option<Result<usize, Errno>> {
        if self.pipe.is_none() {
            self.pipe = Pipe::new().ok();
        }
        let Some(pipe) = &mut self.pipe else {
            self.possible = false;
            return None;
        };
        if pipe.filled == 0 {
            self.current.get_or_insert_with(|| data.show());
            let pages = [IoSliceRaw::from_slice(&data[begin..])];
            // SAFETY: at the pipe's writing end the memory is only read. Later reads see the same contents, as shown memory is not
            // written.
            match unsafe { vmsplice(&pipe.to, &pages, SpliceFlags::NONBLOCK) } {
                Ok(bytes) if bytes > 0 => pipe.filled = bytes,
                _ => {
                    self.possible = false;
                    return None;
                }
            }
        }
        let sent = splice(&pipe.from, None, socket, None, pipe.filled, SpliceFlags::NONBLOCK);
        if let Ok(bytes) = sent {
            pipe.filled -= bytes;
        }
        Some(sent)
    }

    /// The data that was put last is completely in the socket, into which `sent` bytes were sent in all.
    pub(super) fn is_sent(&mut self, sent: u64) {
        if let Some(shown) = self.current.take() {
            self.unread.push_back((sent, shown));
        }
    }

    /// Releases the data that the client has read of the `sent` bytes.
    pub(super) fn release_read(&mut self, sent: u64, socket: impl AsFd) {
        if self.unread.is_empty() {
            return;
        }
        let read = sent - unread(socket).min(sent);
        while self.unread.front().is_some_and(|(end, _)| *end <= read) {
            if let Some((_, shown)) = self.unread.pop_front() {
                shown.read();
            }
        }
    }
}

/// Whether the kernel reports how many bytes of this socket are unread. Of a TCP socket it reports how many bytes the peer's kernel has
/// not acknowledged.
fn reports_unread(socket: impl AsFd) -> bool {
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
}

/// The unread bytes of a unix socket, or more: the kernel counts its buffers.
fn unread(socket: impl AsFd) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one `int`, which `bytes` is, before it returns.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { u64::try_from(bytes).unwrap_or(0) } else { u64::MAX }
}

/// Bytes sent by TCP that the peer's kernel has not acknowledged. 0 for unix sockets, and for connections that are closed or broken.
pub(super) fn unacknowledged_bytes(socket: impl AsFd) -> u64 {
    let mut found = [PollFd::new(&socket, PollFlags::empty())];
    let _ = poll(&mut found, Some(&Timespec::default()));
    let gone = found[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
    if gone || reports_unread(&socket) { 0 } else { unread(socket) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::buffer::{Chunk, Pool};

    #[test]
    fn data_is_released_when_the_client_has_read_all_of_it() {
        let (server, mut client) = UnixStream::pair().unwrap();
        let mut chunk = Chunk::new(LEAST);
        chunk.bytes_mut().fill(1);
        let mut buffer = Pool::new(0).take(LEAST);
        chunk.lend(0, &mut buffer);
        let mut zero_copy = ZeroCopy::new(Some(server.as_fd()));
        let data = buffer.lent().unwrap();
        assert!(zero_copy.takes(data));
        let mut sent = 0;
        while sent < LEAST {
            sent += zero_copy.send(data, sent, &server).expect("unix sockets take pages").unwrap();
        }
        zero_copy.is_sent(sent as u64);
        drop(buffer);
        let read = |client: &mut UnixStream, bytes| {
            let mut data = vec![0; bytes];
            client.read_exact(&mut data).unwrap();
            assert!(data.iter().all(|&byte| byte == 1));
        };
        read(&mut client, LEAST / 2);
        zero_copy.release_read(sent as u64, &server);
        assert_eq!(zero_copy.unread.len(), 1, "half of it is unread");
        chunk.bytes_mut().fill(2);
        read(&mut client, LEAST / 2);
        zero_copy.release_read(sent as u64, &server);
        assert!(zero_copy.unread.is_empty());
    }

    /// Of a TCP socket the kernel does not report what the peer has read, so that the memory could change before.
    #[test]
    fn only_long_data_to_unix_sockets_is_sent_without_a_copy() {
        let (unix, _peer) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let chunk = Chunk::new(LEAST);
        let takes = |socket, bytes| {
            let mut buffer = Pool::new(0).take(bytes);
            chunk.lend(0, &mut buffer);
            ZeroCopy::new(socket).takes(buffer.lent().unwrap())
        };
        assert!(takes(Some(unix.as_fd()), LEAST));
        assert!(!takes(Some(unix.as_fd()), LEAST - 512));
        assert!(!takes(Some(tcp.as_fd()), LEAST) && !takes(None, LEAST));
    }

    #[test]
    fn bytes_that_a_tcp_peer_has_not_taken_are_counted_until_it_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        assert_eq!(unacknowledged_bytes(&near), 0);
        while near.write(&[0; LEAST]).is_ok() {}
        assert!(unacknowledged_bytes(&near) > 0);
        // With unread bytes, the connection is reset.
        drop(far);
        let until = Instant::now() + Duration::from_secs(3);
        while unacknowledged_bytes(&near) > 0 && Instant::now() < until {}
        assert_eq!(unacknowledged_bytes(&near), 0, "of a broken connection");
    }

    #[test]
    fn a_unix_socket_has_unread_bytes_and_none_that_the_peer_has_not_taken() {
        let (mut near, _far) = UnixStream::pair().unwrap();
        assert_eq!(unread(&near), 0);
        near.write_all(&[0; 100]).unwrap();
        assert!(unread(&near) >= 100);
        assert_eq!(unacknowledged_bytes(&near), 0);
        assert!(reports_unread(&near) && !ZeroCopy::new(None).possible);
    }
}
