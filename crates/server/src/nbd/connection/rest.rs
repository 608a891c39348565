//! When a client is not listened to: while it has answers to read.
//!
//! A client that has not read its last answers does not wait for the next ones. To hear each of its requests as soon as it
//! comes costs a round for each, in which the calls are dearer than the request; left alone for a moment, the client has
//! read some answers and asked for as many things, which one round takes together. Nobody waits for that. A rest is
//! taken only if older answers were unread when those of this round were about to go out; it becomes shorter when the
//! client had read everything before it was over; and other clients, the back end and the control socket are heard all
//! the time. A client that asks for one thing at a time never has an older answer to read, so it is always heard at once. Whether
//! rests pay on this machine is tried (`trial`).

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::trial::{Moment, Trial};
use crate::nbd::shown::{tells_unread, unread};

/// The shortest rest. Sleep and wake-up cost about as much as three rounds; what is shorter saves nothing.
const SHORTEST: Duration = Duration::from_micros(20);

/// The longest rest: what a request may wait because the client was thought to be reading.
const LONGEST: Duration = Duration::from_micros(150);

/// Answers in a round that make the rest before it long enough: half of what a client at depth 32 has under way, so that it
/// has the other half to read.
const ENOUGH: usize = 16;

/// Most rounds in which a client that had nothing to read is not looked at.
const IGNORED: u32 = 1024;

/// A client's rests.
pub(super) struct Rest {
    /// Whether the system tells what a client has not read: of unix sockets it does.
    possible: bool,
    length: Duration,
    until: Option<Instant>,
    /// One has ended since the last answers went out.
    ended: bool,
    /// Rounds until the client is looked at again, and how many they shall be if it has nothing to read then.
    ignored: u32,
    ignore: u32,
    trial: Trial,
}

impl Rest {
    /// Rests from the client of this socket, unless a modelled drive's time depends on when requests arrive.
    pub(super) fn new(socket: Option<BorrowedFd<'_>>, keeps_time: bool) -> Self {
        let possible = !keeps_time && socket.is_some_and(tells_unread);
        Self {
            possible,
            length: SHORTEST,
            until: None,
            ended: false,
            ignored: 0,
            ignore: 1,
            trial: Trial::new(),
        }
    }

    /// When the present one is over.
    pub(super) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Begins one.
    pub(super) fn begin(&mut self) {
        self.until = Some(Instant::now() + self.length);
    }

    /// The present one is over.
    pub(super) const fn end(&mut self) {
        self.until = None;
        self.ended = true;
    }

    /// Whether the client, to which so many `answers` are about to be sent, has older ones to read.
    pub(super) fn is_due(&mut self, socket: Option<BorrowedFd<'_>>, answers: usize) -> bool {
        if !self.possible || !self.trial.rests(answers, Moment::now) {
            return false;
        }
        if self.ignored > 0 {
            self.ignored -= 1;
            return false;
        }
        let ended = std::mem::take(&mut self.ended);
        let due = socket.is_some_and(|socket| unread(socket) > 0);
        if due {
            self.ignore = 1;
            if ended && answers < ENOUGH {
                self.length = (self.length * 3 / 2).min(LONGEST);
            }
        } else if ended && self.length > SHORTEST {
            self.length = (self.length / 2).max(SHORTEST);
        } else {
            self.ignored = self.ignore;
            self.ignore = (self.ignore * 2).min(IGNORED);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn rests_are_taken_behind_unread_answers_only_and_fit_the_client() {
        let (mut server, mut client) = UnixStream::pair().unwrap();
        let mut rest = Rest::new(Some(server.as_fd()), false);
        assert!(!rest.is_due(Some(server.as_fd()), 1), "the first answer: nothing older");
        assert!(!rest.is_due(Some(server.as_fd()), 1), "not looked at for one round");
        server.write_all(b"answer").unwrap();
        assert!(rest.is_due(Some(server.as_fd()), 1));
        for _ in 0..20 {
            rest.begin();
            rest.end();
            assert!(rest.is_due(Some(server.as_fd()), 1));
        }
        assert_eq!(rest.length, LONGEST, "too few requests gathered, so it grew");
        client.read_exact(&mut [0; 6]).unwrap();
        rest.begin();
        rest.end();
        assert!(!rest.is_due(Some(server.as_fd()), 1), "the client has read everything");
        assert_eq!(rest.length, LONGEST / 2, "so it was too long");
    }

    #[test]
    fn a_client_with_nothing_to_read_is_looked_at_less_and_less() {
        let (server, _client) = UnixStream::pair().unwrap();
        let mut rest = Rest::new(Some(server.as_fd()), false);
        let mut looks = 0;
        for _ in 0..10_000 {
            looks += u32::from(rest.ignored == 0);
            assert!(!rest.is_due(Some(server.as_fd()), 1));
        }
        assert!(looks < 25, "{looks}");
    }

    #[test]
    fn tcp_does_not_tell_what_is_unread() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        server.write_all(b"answer").unwrap();
        assert!(!Rest::new(Some(server.as_fd()), false).is_due(Some(server.as_fd()), 1));
    }
}
