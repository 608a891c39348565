//! A descriptor that is passed through a socket, and memory that two processes share.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Sends a descriptor with one byte. Does not allocate.
pub(crate) fn send_fd(socket: impl AsFd, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a descriptor. `None`: the other end is closed.
pub(crate) fn receive_fd(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut slices = [IoSliceMut::new(&mut byte)];
    loop {
        match recvmsg(&socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(received) if received.bytes == 0 => return Ok(None),
            Ok(_) => break,
        }
    }
    let rights = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(rights)
}

/// A descriptor that a system call has made.
fn made(fd: libc::c_long) -> io::Result<OwnedFd> {
    match fd {
        // SAFETY: the kernel has just made it.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A process as a descriptor.
pub(crate) fn pidfd(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    made(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })
}

/// The same open file as a descriptor of another process.
pub(crate) fn take_fd(process: u32, descriptor: u32) -> io::Result<OwnedFd> {
    let pidfd = pidfd(process)?;
    // SAFETY: takes numbers only.
    made(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), descriptor, 0) })
}

/// The numbers of received calls. They are sequential, so the keeper can answer those that the agent has not answered.
pub(crate) struct Received(*mut [AtomicU64; 2]);

// SAFETY: the memory is only accessed through atomics, and is never unmapped.
unsafe impl Send for Received {}
// SAFETY: as above.
unsafe impl Sync for Received {}

impl Received {
    /// Memory that a child of `fork` shares.
    pub(crate) fn new() -> io::Result<Self> {
        let (size, access) = (4096, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
        };
        if memory == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(memory.cast())) }
    }

    fn numbers(&self) -> &[AtomicU64; 2] {
        // SAFETY: mapped in `new`, zeroed, aligned to a page, and never unmapped.
        unsafe { &*self.0 }
    }

    /// A call was received, of which `oldest` is the oldest that is not answered yet.
    pub(crate) fn note(&self, oldest: u64, id: u64) {
        let [first, last] = self.numbers();
        first.store(oldest, Ordering::Release);
        last.store(id, Ordering::Release);
    }

    /// The calls that may be unanswered. `margin`: the agent may have received so many more before it ended.
    pub(crate) fn unanswered(&self, margin: u64) -> impl Iterator<Item = u64> + use<> {
        let [first, last] = self.numbers().each_ref().map(|number| number.load(Ordering::Acquire));
        let count = if last == 0 { 0 } else { last.wrapping_sub(first).wrapping_add(1 + margin) };
        (0..count).map(move |at| first.wrapping_add(at))
    }
}
