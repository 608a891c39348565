//! The bytes between a client and its connection.
//!
//! A connection reads and writes a [`Stream`]: a file descriptor in the server, memory in the simulation.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::front::Host;
use crate::poller::Interest;

/// How long a client may take to read its last replies after the server has closed the connection.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// A stream of bytes in both directions, which never blocks.
pub(in crate::nbd) trait Stream {
    /// Reads into `to`, in order. 0 bytes mean that the client has closed its end.
    ///
    /// # Errors
    /// `EAGAIN` if no byte has arrived. Errors other than that and `EINTR` end the connection.
    fn receive(&self, to: &mut [IoSliceMut<'_>]) -> Result<usize, Errno>;

    /// Writes from `from`, in order, as many bytes as the stream takes.
    ///
    /// # Errors
    /// `EAGAIN` if it takes none now. Errors other than that and `EINTR` end the connection.
    fn send(&self, from: &[IoSlice<'_>]) -> Result<usize, Errno>;

    /// Changes the events that the front end waits for from `was` to `wanted`; `None` is no event.
    fn watch(
        &self,
        was: Option<Interest>,
        wanted: Option<Interest>,
        number: u32,
        host: &Host<'_>,
    ) -> io::Result<()>;

    /// The socket, if there is one. Only a socket can take pages instead of copies, and only its unread bytes can be counted.
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
