//! The connections of agents.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use control::admission::{MESSAGE_BYTES, Message, take};
use elevator::split::Account;

/// A connected agent.
pub(super) struct Agent {
    pub(super) stream: UnixStream,
    pub(super) account: Account,
    /// Processes that made calls through it.
    pub(super) processes: HashSet<u32>,
    /// It has sent something: it has received the reply to its request to join.
    pub(super) is_ready: bool,
    buffer: Vec<u8>,
}

impl Agent {
    /// With a stream that does not block.
    pub(super) fn new(stream: UnixStream, account: Account, process: u32) -> Self {
        Self { stream, account, processes: HashSet::from([process]), is_ready: false, buffer: Vec::new() }
    }

    /// Sends a message; `false` if the agent does not read, or has ended.
    pub(super) fn send(&self, message: Message) -> bool {
        (&self.stream).write_all(&message.to_bytes()).is_ok()
    }

    /// The messages that arrived; `None` if the agent has ended or has sent an invalid message.
    pub(super) fn receive(&mut self) -> Option<Vec<Message>> {
        let mut received = [0; 128 * MESSAGE_BYTES];
        match (&self.stream).read(&mut received) {
            Ok(0) => return None,
            Ok(length) => self.buffer.extend(&received[..length]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return None,
        }
        self.is_ready = true;
        take(&mut self.buffer).into_iter().collect()
    }
}
