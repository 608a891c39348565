//! Keeps the attached device's FUSE descriptor in another process, so that the device outlives this one.
//!
//! The kernel keeps a FUSE connection, and every request on it, as long as one process holds the descriptor of `/dev/fuse`. Two
//! processes can hold it: systemd (its file-descriptor store, for a unit with `FileDescriptorStoreMax=`) and
//! [`supervisor`](crate::supervisor). Both take the same messages: `FDSTORE=1` with the descriptor, `FDSTOREREMOVE=1` at the end.
//! The next process inherits the descriptor from systemd, or receives it from the supervisor, and continues.
//!
//! Sources: sd_notify(3), sd_listen_fds(3); `SCM_RIGHTS` in unix(7).

use std::env;
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, recvmsg, sendmsg, sendmsg_addr,
};
use rustix::process::getppid;

/// In the environment of a supervised process: the supervisor's process id, the number of the socket between the two, and the number of
/// the memory with the supervisor's inputs, separated by colons.
pub(crate) const SUPERVISOR: &str = "DWELL_SUPERVISOR";

/// The message of a process that serves the device that it has taken over.
pub(crate) const CONTINUED: &str = "STATUS=continued";

/// The message of a process that has reserved its memory and waits for its turn.
pub(crate) const READY: &str = "STATUS=ready";

/// The message of a process that takes its device down once it is unused.
pub(crate) const ENDING: &str = "STATUS=ending";

/// A supervisor's message to the process that is to serve, after the descriptors.
const SERVE: &str = "STATUS=serve";

/// How often a process that waits for its turn checks that its supervisor lives.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// For how many seconds at most a starting process leaves the messages of its supervisor unread.
const UNREAD: u32 = 60;

/// Where systemd starts to number the descriptors that a process inherits.
const FIRST_INHERITED: RawFd = 3;

/// A descriptor that a former process stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) descriptor: OwnedFd,
}

/// A process that keeps descriptors for this one.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    /// [`supervisor`](crate::supervisor), which restarts this process.
    Supervisor { pid: u32, socket: Arc<UnixDatagram> },
    /// systemd, at the address in `NOTIFY_SOCKET`.
    ServiceManager { address: OsString, keeps_while_stopped: bool },
}

impl Store {
    /// The store of this process, if there is one, and what a former process left in it. The second call finds no descriptors:
    /// each has one owner.
    pub(crate) fn from_environment() -> (Option<Self>, Vec<Stored>) {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::Relaxed) {
            return (None, Vec::new());
        }
        Self::find()
    }

    /// The supervisor of this process as the store of several devices, and those of the stored descriptors whose names `take` selects.
    pub(crate) fn of_several(mut take: impl FnMut(&str) -> bool) -> (Option<Self>, Vec<Stored>) {
        static FOUND: LazyLock<Mutex<(Option<Store>, Vec<Stored>)>> =
            LazyLock::new(|| Mutex::new(Store::from_environment()));
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        let (store, stored) = &mut *found;
        let store = store.clone().filter(|store| matches!(store, Self::Supervisor { .. }));
        (store, stored.extract_if(.., |stored| take(&stored.name)).collect())
    }

    fn find() -> (Option<Self>, Vec<Stored>) {
        if let Some((pid, socket)) = env::var(SUPERVISOR).ok().and_then(|text| supervised(&text)) {
            let stored = wait_for_turn(pid, &socket);
            return (Some(Self::Supervisor { pid, socket: Arc::new(socket) }), stored);
        }
        let Some(address) = env::var_os("NOTIFY_SOCKET") else { return (None, Vec::new()) };
        // systemd sets FDSTORE since version 254, which also keeps descriptors while a unit is stopped for a restart.
        let keeps_while_stopped =
            env::var("FDSTORE").is_ok_and(|most| most.parse::<u32>().is_ok_and(|n| n > 0));
        (Some(Self::ServiceManager { address, keeps_while_stopped }), inherited())
    }

    /// The process that keeps the descriptors; none for systemd.
    pub(crate) const fn pid(&self) -> Option<u32> {
        match self {
            Self::Supervisor { pid, .. } => Some(*pid),
            Self::ServiceManager { .. } => None,
        }
    }

    /// Whether descriptors are kept when this process ends in order.
    pub(crate) const fn keeps_while_stopped(&self) -> bool {
        matches!(self, Self::ServiceManager { keeps_while_stopped: true, .. })
    }

    /// Stores a descriptor under `name`.
    pub(crate) fn put(&self, name: &str, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.send(&store_message(name), Some(descriptor))
    }

    /// Tells a supervisor that this process serves the device that it has taken over. systemd learns it from `READY=1`.
    pub(crate) fn has_continued(&self) {
        if let Self::Supervisor { socket, .. } = self {
            let _ = send(socket.as_fd(), None, CONTINUED, None);
        }
    }

    /// Has a supervisor end the next server as well, should this one die before its device is unused.
    pub(crate) fn is_ending(&self) {
        if let Self::Supervisor { socket, .. } = self {
            let _ = send(socket.as_fd(), None, ENDING, None);
        }
    }

    /// Has the descriptor of that name closed.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None)
    }

    fn send(&self, message: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        match self {
            Self::Supervisor { socket, .. } => send(socket.as_fd(), None, message, descriptor),
            Self::ServiceManager { address, .. } => notify(address, message, descriptor),
        }
    }
}

/// Sends a message to systemd.
fn notify(address: &OsString, message: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = address.as_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddrUnix::new_abstract_name(name)?,
        None => SocketAddrUnix::new(Path::new(address))?,
    };
    send(UnixDatagram::unbound()?.as_fd(), Some(&address), message, descriptor)
}

/// Sends a message to the service manager that started this process, if one did: see sd_notify(3).
pub(crate) fn notify_service_manager(message: &str) {
    if let Some(address) = env::var_os("NOTIFY_SOCKET") {
        let _ = notify(&address, message, None);
    }
}

fn send(
    socket: BorrowedFd<'_>,
    to: Option<&SocketAddrUnix>,
    message: &str,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let data = [IoSlice::new(message.as_bytes())];
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    match to {
        Some(to) => sendmsg_addr(socket, to, &data, &mut control, SendFlags::NOSIGNAL)?,
        None => sendmsg(socket, &data, &mut control, SendFlags::NOSIGNAL)?,
    };
    Ok(())
}

/// Takes a descriptor that this process has inherited.
fn take(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: the caller's environment names the descriptor, it is open (checked), and that part of the environment is read once, so
    // it has no other owner.
    let open = unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
    let descriptor = open.then(|| unsafe { OwnedFd::from_raw_fd(number) })?;
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC).ok()?;
    Some(descriptor)
}

/// The supervisor's process id and the numbers of the socket and of the inputs in the variable.
fn fields(text: &str) -> Option<(u32, RawFd, RawFd)> {
    let mut fields = text.splitn(3, ':');
    let (pid, socket, inputs) = (fields.next()?, fields.next()?, fields.next()?);
    Some((pid.parse().ok()?, socket.parse().ok()?, inputs.parse().ok()?))
}

/// Takes the memory with the supervisor's inputs. To be called once.
pub(crate) fn take_inputs(text: &str) -> Option<OwnedFd> {
    take(fields(text)?.2)
}

/// Whether the variable names this process's parent.
pub(crate) fn is_supervised_by(text: &str) -> bool {
    fields(text).is_some_and(|(pid, ..)| parent() == Some(pid))
}

fn parent() -> Option<u32> {
    getppid().map(|parent| parent.as_raw_pid() as u32)
}

/// The supervisor of this process and the socket to it; none if the variable is another process's.
fn supervised(text: &str) -> Option<(u32, UnixDatagram)> {
    let (pid, socket, _) = fields(text).filter(|&(pid, ..)| parent() == Some(pid))?;
    Some((pid, UnixDatagram::from(take(socket)?)))
}

/// Waits until the supervisor lets this process serve; the descriptors that it kept. Ends the process if the supervisor has ended: then
/// no device is left to it.
fn wait_for_turn(supervisor: u32, socket: &UnixDatagram) -> Vec<Stored> {
    let _ = send(socket.as_fd(), None, READY, None);
    let mut stored = Vec::new();
    loop {
        let ready = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&LOOK));
        if parent() != Some(supervisor) {
            process::exit(1);
        }
        if ready != Ok(1) {
            continue;
        }
        let Some((text, descriptor)) = receive(socket) else { continue };
        match (message(&text), descriptor) {
            (Some(Message::Store(name)), Some(descriptor)) => {
                stored.push(Stored { name: name.to_owned(), descriptor });
            }
            _ if text == SERVE => return stored,
            _ => {}
        }
    }
}

/// Lets the process at the other end of the socket serve, with these descriptors.
pub(crate) fn give<'a>(
    socket: &UnixDatagram,
    descriptors: impl Iterator<Item = (&'a str, BorrowedFd<'a>)>,
) -> io::Result<()> {
    for (name, descriptor) in descriptors {
        send_when_free(socket, &store_message(name), Some(descriptor))?;
    }
    send_when_free(socket, SERVE, None)
}

/// Sends a message, and waits while the receiver has as many unread ones as the kernel permits (`net.unix.max_dgram_qlen`, 10 or more).
fn send_when_free(
    socket: &UnixDatagram,
    message: &str,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut seconds = 0;
    loop {
        match send(socket.as_fd(), None, message, descriptor) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && seconds < UNREAD => {
                let _ = poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&LOOK));
                seconds += 1;
            }
            sent => return sent,
        }
    }
}

fn store_message(name: &str) -> String {
    format!("FDSTORE=1\nFDNAME={name}")
}

/// The next message at a supervisor's or a supervised process's end of the socket.
pub(crate) fn receive(socket: &UnixDatagram) -> Option<(String, Option<OwnedFd>)> {
    let mut bytes = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let slices = &mut [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, slices, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let text = String::from_utf8_lossy(&bytes[..received.bytes]).into_owned();
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.last().or(descriptor);
        }
    }
    Some((text, descriptor))
}

/// What systemd gave to this process.
fn inherited() -> Vec<Stored> {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(process::id()) {
        return Vec::new();
    }
    let (count, names) = (number("LISTEN_FDS").unwrap_or(0), env::var("LISTEN_FDNAMES").unwrap_or_default());
    let names = names.split(':').map(str::to_owned);
    (FIRST_INHERITED..)
        .zip(names)
        .take(count as usize)
        .filter_map(|(number, name)| Some(Stored { name, descriptor: take(number)? }))
        .collect()
}

/// A message from a supervised process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Store(&'a str),
    Remove(&'a str),
}

/// Parses a message; other states of sd_notify(3) give none.
pub(crate) fn message(text: &str) -> Option<Message<'_>> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let name = value("FDNAME=")?;
    match (value("FDSTORE="), value("FDSTOREREMOVE=")) {
        (Some("1"), None) => Some(Message::Store(name)),
        (None, Some("1")) => Some(Message::Remove(name)),
        _ => None,
    }
}

/// How a supervisor names itself, and its socket and inputs to the process that it starts.
pub(crate) fn environment(socket: &impl AsRawFd, inputs: &impl AsRawFd) -> String {
    format!("{}:{}:{}", process::id(), socket.as_raw_fd(), inputs.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_store_and_remove_by_name() {
        assert_eq!(message("FDSTORE=1\nFDNAME=7-0"), Some(Message::Store("7-0")));
        assert_eq!(message("FDSTOREREMOVE=1\nFDNAME=7-0\n"), Some(Message::Remove("7-0")));
        for text in ["", "READY=1", "FDSTORE=1", "FDNAME=x", "FDSTORE=0\nFDNAME=x"] {
            assert_eq!(message(text), None, "{text}");
        }
    }

    #[test]
    fn the_variable_of_another_process_is_ignored() {
        let parent = getppid().unwrap().as_raw_pid();
        for text in
            ["", "x", "1", "1:2", &format!("{}:9999:9998", parent + 1), &format!("{parent}:9999:9998")]
        {
            assert!(supervised(text).is_none(), "{text}");
        }
    }
}
