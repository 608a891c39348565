//! Data that a client copies from where it lies: the disk's own pages are put into its socket, not copies of them.
//!
//! A pipe takes references to pages (`vmsplice`) and hands them to a unix socket (`splice`); the one copy left is the
//! client's own. The memory must stay as it was until then: the system tells how many bytes of a unix socket have not been
//! read, so what went in before those has been.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, vmsplice};

use crate::buffer::{LARGEST, Lent, Shown};

/// Data from this length on is shown; to copy what is shorter costs less than the calls.
const SHOWN: usize = 64 << 10;

/// How data is shown to one client, and what it has not read yet.
pub(super) struct Showing {
    /// Made when it is needed; `None` as well where the socket or the system does not take pages.
    pipe: Option<Pipe>,
    possible: bool,
    /// What is in the pipe, or partly in the socket.
    current: Option<Shown>,
    /// What is all in the socket, and after how many bytes sent it ends.
    unread: VecDeque<(u64, Shown)>,
}

struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
    /// Bytes in it.
    filled: usize,
}

impl Pipe {
    fn new() -> Result<Self, Errno> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A larger one takes fewer calls; the usual size does where the system allows no more.
        let _ = fcntl_setpipe_size(&to, LARGEST);
        Ok(Self { from, to, filled: 0 })
    }
}

impl Showing {
    pub(super) fn new(socket: Option<BorrowedFd<'_>>) -> Self {
        Self {
            pipe: None,
            possible: socket.is_some_and(tells_unread),
            current: None,
            unread: VecDeque::new(),
        }
    }

    /// Whether this data is to be shown.
    pub(super) fn takes(&self, data: &Lent) -> bool {
        self.possible && data.len() >= SHOWN
    }

    /// Puts what of the data is behind its first `begin` bytes into the socket, or some of it: how many bytes. `None` if it
    /// must be copied, now and from now on.
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
            // SAFETY: it is the pipe's writing end, so the memory is only read. What reads it later sees it as it is now: it
            // is not written while it is kept as shown.
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

    /// All of the data shown last is in the socket, and `sent` bytes in all.
    pub(super) fn ends(&mut self, sent: u64) {
        if let Some(shown) = self.current.take() {
            self.unread.push_back((sent, shown));
        }
    }

    /// Lets go of what the client has read of the `sent` bytes.
    pub(super) fn let_go(&mut self, sent: u64, socket: impl AsFd) {
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

/// Whether the system tells what of this socket has not been read: of unix sockets it does. Of TCP it tells what the other side's
/// system has not taken yet.
pub(super) fn tells_unread(socket: impl AsFd) -> bool {
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
}

/// How many bytes in a unix socket have not been read, or more, as the system counts what it keeps them in.
pub(super) fn unread(socket: impl AsFd) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one `int`, which `bytes` is, before it returns.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { u64::try_from(bytes).unwrap_or(0) } else { u64::MAX }
}

/// How many bytes sent by TCP the other side's system has still to take. A unix socket's has taken all, and one that is gone takes nothing.
pub(super) fn untaken(socket: impl AsFd) -> u64 {
    let mut found = [PollFd::new(&socket, PollFlags::empty())];
    let _ = poll(&mut found, Some(&Timespec::default()));
    let gone = found[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
    if gone || tells_unread(&socket) { 0 } else { unread(socket) }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::buffer::{Chunk, Pool};

    #[test]
    fn data_is_let_go_of_when_it_has_been_read_and_not_before() {
        let (server, mut client) = UnixStream::pair().unwrap();
        let mut chunk = Chunk::new(SHOWN);
        chunk.bytes_mut().fill(1);
        let mut buffer = Pool::new(0).take(SHOWN);
        chunk.lend(0, &mut buffer);
        let mut showing = Showing::new(Some(server.as_fd()));
        let data = buffer.lent().unwrap();
        assert!(showing.takes(data));
        let mut sent = 0;
        while sent < SHOWN {
            sent += showing.send(data, sent, &server).expect("unix sockets take pages").unwrap();
        }
        showing.ends(sent as u64);
        drop(buffer);
        let read = |client: &mut UnixStream, bytes| {
            let mut data = vec![0; bytes];
            client.read_exact(&mut data).unwrap();
            assert!(data.iter().all(|&byte| byte == 1));
        };
        read(&mut client, SHOWN / 2);
        showing.let_go(sent as u64, &server);
        assert_eq!(showing.unread.len(), 1, "half of it is unread");
        chunk.bytes_mut().fill(2);
        read(&mut client, SHOWN / 2);
        showing.let_go(sent as u64, &server);
        assert!(showing.unread.is_empty());
    }
}
