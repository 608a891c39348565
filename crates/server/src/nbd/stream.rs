//! The bytes between a client and its connection.
//!
//! A connection reads and writes a [`Stream`] and knows no socket: the server uses a file descriptor, the simulation memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::front::Host;
use crate::poller::Interest;

/// A stream of bytes in both directions, which never waits.
pub(in crate::nbd) trait Stream {
    /// Reads into `to`, in order; 0 bytes are the client's end.
    ///
    /// # Errors
    /// `EAGAIN` if nothing has come; anything but that and `EINTR` ends the connection.
    fn receive(&self, to: &mut [IoSliceMut<'_>]) -> Result<usize, Errno>;

    /// Writes from `from`, in order, as much as the stream takes.
    ///
    /// # Errors
    /// `EAGAIN` if it takes nothing now; anything but that and `EINTR` ends the connection.
    fn send(&self, from: &[IoSlice<'_>]) -> Result<usize, Errno>;

    /// Changes what the front end waits for from `was` to `wanted`; `None` waits for nothing.
    ///
    /// # Errors
    /// The system's limits.
    fn watch(
        &self,
        was: Option<Interest>,
        wanted: Option<Interest>,
        number: u32,
        host: &Host<'_>,
    ) -> io::Result<()>;

    /// The socket, if there is one: what is sent may be shared instead of copied, and the system counts unread bytes.
    fn socket(&self) -> Option<BorrowedFd<'_>>;
}

impl Stream for OwnedFd {
    fn receive(&self, to: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        rustix::io::readv(self, to)
    }

    fn send(&self, from: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(self, from, &mut SendAncillaryBuffer::default(), flags)
    }

    fn watch(
        &self,
        was: Option<Interest>,
        wanted: Option<Interest>,
        number: u32,
        host: &Host<'_>,
    ) -> io::Result<()> {
        match (was, wanted) {
            (None, Some(interest)) => host.watch(self, number, interest),
            (Some(_), Some(interest)) => host.rewatch(self, number, interest),
            (_, None) => host.unwatch(self),
        }
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}
