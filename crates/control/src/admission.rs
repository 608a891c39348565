//! Admission of system calls: the protocol between an agent and a server after [`Request::Join`](crate::protocol::Request::Join).
//!
//! From then on the connection carries [`Message`]s of [`MESSAGE_BYTES`] bytes in both directions. When it breaks,
//! held and later calls wait for the next server, for a limited time; then they continue, and the agent joins again when a server is back. A server whose scheduler
//! has no part above the block layer admits all calls.

use crate::protocol::AccountTerms;

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 32;

/// The operation of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Writes into the page cache.
    Write,
    /// Makes a file durable.
    Fsync,
    /// Creates, removes, renames or truncates a file.
    Create,
    /// Creates a directory.
    Mkdir,
}

/// A message. Calls have the agent's numbers, files the numbers of their inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// A call begins; the agent holds it until [`Admit`](Self::Admit), unless it is one of a few small writes after calls that were admitted at once.
    Enter {
        call: u32,
        operation: Operation,
        /// The calling process (thread group).
        process: u32,
        /// The file; of `Create` and `Mkdir` the directory.
        file: u64,
        /// Bytes to write.
        bytes: u64,
    },
    /// A process makes calls under this account; sent again from time to time.
    Process {
        /// The process (thread group).
        process: u32,
    },
    /// A call ended: an admitted one, a small one that continued, or one that a signal interrupted.
    Return { call: u32 },
    /// The call may continue.
    Admit { call: u32 },
    /// Write some dirty pages of a file back.
    WriteBack {
        file: u64,
        /// The most pages.
        pages: u32,
        /// Where they begin in the file, in bytes.
        offset: u64,
    },
    /// Stop a thread that stores into mapped files, whose stores no call delays, until [`Resume`](Self::Resume).
    Stop {
        /// The thread.
        thread: u32,
    },
    /// A stopped thread may continue.
    Resume {
        /// The thread.
        thread: u32,
    },
    /// Stop all threads of a process that submits more requests to the device than may wait there, until [`ResumeAll`](Self::ResumeAll).
    StopAll {
        /// The process (thread group).
        process: u32,
    },
    /// A stopped process may continue.
    ResumeAll {
        /// The process (thread group).
        process: u32,
    },
    /// The present terms of the account, with which an agent joins a restarted server.
    Terms(AccountTerms),
}

impl Message {
    /// As sent.
    pub fn to_bytes(self) -> [u8; MESSAGE_BYTES] {
        let (kind, number, operation, process, file, bytes) = match self {
            Self::Enter { call, operation, process, file, bytes } => {
                (1, call, operation as u32, process, file, bytes)
            }
            Self::Return { call } => (2, call, 0, 0, 0, 0),
            Self::Admit { call } => (3, call, 0, 0, 0, 0),
            Self::WriteBack { file, pages, offset } => (4, pages, 0, 0, file, offset),
            Self::Process { process } => (5, 0, 0, process, 0, 0),
            Self::Stop { thread } => (7, 0, 0, thread, 0, 0),
            Self::Resume { thread } => (8, 0, 0, thread, 0, 0),
            Self::StopAll { process } => (9, 0, 0, process, 0, 0),
            Self::ResumeAll { process } => (10, 0, 0, process, 0, 0),
            Self::Terms(AccountTerms { weight, rate, fsync_deadline_ns }) => {
                let given = [weight.is_some(), rate.is_some(), fsync_deadline_ns.is_some()];
                let bits = given.into_iter().rev().fold(0, |bits, given| bits << 1 | u32::from(given));
                let weight = u32::from(weight.unwrap_or(0));
                (6, bits, weight, 0, rate.unwrap_or(0), fsync_deadline_ns.unwrap_or(0))
            }
        };
        let mut message = [0; MESSAGE_BYTES];
        for (at, word) in [kind, number, operation, process].into_iter().enumerate() {
            message[at * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
        message[16..24].copy_from_slice(&file.to_le_bytes());
        message[24..].copy_from_slice(&bytes.to_le_bytes());
        message
    }

    /// As received; `None` if it is no message.
    pub fn parse(message: &[u8; MESSAGE_BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| message[at * 4 + byte]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << 32;
        let call = word(1);
        Some(match word(0) {
            1 => {
                let operation = match word(2) {
                    0 => Operation::Write,
                    1 => Operation::Fsync,
                    2 => Operation::Create,
                    3 => Operation::Mkdir,
                    _ => return None,
                };
                Self::Enter { call, operation, process: word(3), file: long(4), bytes: long(6) }
            }
            2 => Self::Return { call },
            3 => Self::Admit { call },
            4 => Self::WriteBack { file: long(4), pages: call, offset: long(6) },
            5 => Self::Process { process: word(3) },
            7 => Self::Stop { thread: word(3) },
            8 => Self::Resume { thread: word(3) },
            9 => Self::StopAll { process: word(3) },
            10 => Self::ResumeAll { process: word(3) },
            6 => {
                let given = |bit: u32| word(1) & 1 << bit != 0;
                Self::Terms(AccountTerms {
                    weight: given(0).then_some(word(2) as u8),
                    rate: given(1).then_some(long(4)),
                    fsync_deadline_ns: given(2).then_some(long(6)),
                })
            }
            _ => return None,
        })
    }
}

/// Takes the complete messages out of received bytes. `None` stands for an invalid one.
pub fn take(received: &mut Vec<u8>) -> Vec<Option<Message>> {
    let messages = received.as_chunks::<MESSAGE_BYTES>().0.iter().map(Message::parse).collect::<Vec<_>>();
    received.drain(..messages.len() * MESSAGE_BYTES);
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_received_as_it_was_sent() {
        let enter =
            |operation| Message::Enter { call: 7, operation, process: 9, file: 1 << 40, bytes: 1 << 33 };
        let all = [
            enter(Operation::Write),
            enter(Operation::Fsync),
            enter(Operation::Create),
            enter(Operation::Mkdir),
            Message::Process { process: 77 },
            Message::Stop { thread: 78 },
            Message::Resume { thread: 79 },
            Message::StopAll { process: 80 },
            Message::ResumeAll { process: 81 },
            Message::Return { call: u32::MAX },
            Message::Admit { call: 3 },
            Message::WriteBack { file: u64::MAX, pages: 5, offset: 1 << 35 },
            Message::Terms(AccountTerms::default()),
            Message::Terms(AccountTerms { weight: Some(8), ..AccountTerms::default() }),
            Message::Terms(AccountTerms { weight: None, rate: Some(0), fsync_deadline_ns: Some(1 << 40) }),
        ];
        for message in all {
            assert_eq!(Message::parse(&message.to_bytes()), Some(message));
        }
        assert_eq!(Message::parse(&[0xff; MESSAGE_BYTES]), None);
        let mut received: Vec<u8> = all.iter().flat_map(|message| message.to_bytes()).chain([1, 2]).collect();
        assert_eq!(take(&mut received), all.map(Some));
        assert_eq!(received, [1, 2]);
    }
}
