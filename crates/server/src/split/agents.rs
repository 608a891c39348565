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
    /// What its socket had no room for, which is a few hundred messages. It holds one admission for each call that waits, so the program's threads
    /// limit it.
    unsent: Vec<u8>,
    /// Messages are kept until several can be sent at once.
    pub(super) collects: bool,
    /// The front end watches the socket for room.
    pub(super) awaits_room: bool,
}

impl Agent {
    /// With a stream that does not block.
    pub(super) fn new(stream: UnixStream, account: Account, process: u32) -> Self {
        Self {
            stream,
            account,
            processes: HashSet::from([process]),
            is_ready: false,
            buffer: Vec::new(),
            unsent: Vec::new(),
            collects: false,
            awaits_room: false,
        }
    }

    /// Sends a message, or keeps it until there is room; `false` if the agent has ended.
    pub(super) fn send(&mut self, message: Message) -> bool {
        let is_kept = self.has_unsent() || self.collects;
        self.unsent.extend(message.to_bytes());
        is_kept || self.send_kept()
    }

    /// Sends what was kept, as far as there is room; `false` if the agent has ended.
    pub(super) fn send_kept(&mut self) -> bool {
        while self.has_unsent() {
            match (&self.stream).write(&self.unsent) {
                Ok(length) => drop(self.unsent.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Whether messages wait for room.
    pub(super) const fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The messages that arrived; `None` if the agent has ended or has sent an invalid message.
    pub(super) fn receive(&mut self) -> Option<Vec<Message>> {
        let mut received = [0; 128 * MESSAGE_BYTES];
        match (&self.stream).read(&mut received) {
            Ok(0) => return None,
            Ok(length) => {
                self.buffer.extend(&received[..length]);
                self.is_ready = true;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return None,
        }
        take(&mut self.buffer).into_iter().collect()
    }
}
