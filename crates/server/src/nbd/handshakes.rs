//! The clients that are still negotiating: a bounded number, from which new ones displace those that make no progress.
//!
//! A client in its handshake is not authenticated and costs nothing to its owner. Its thread, socket and buffers (at most 200 KiB) are all
//! that it gets. When the table is full, a new client is always accepted and displaces another one: of the address with the most
//! handshakes, the one with the least progress, and of several such the oldest. So silent peers displace each other, and a client that
//! proceeds at once is not displaced by them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::client_socket::ClientSocket;
use super::places::Origin;

/// How long a new client waits until the thread of the displaced one has ended.
const DISPLACING: Duration = Duration::from_millis(200);

/// How far a handshake has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Progress {
    /// The client has sent nothing.
    Silent,
    /// The client has answered the greeting.
    Greeted,
    /// The client has begun TLS.
    Encrypting,
    /// The client may have a place, as soon as there is one.
    Authenticated,
}

struct Entry {
    number: u64,
    origin: Origin,
    progress: Progress,
    is_displaced: bool,
    socket: Arc<ClientSocket>,
}

#[derive(Default)]
struct Table {
    /// The oldest first.
    entries: Vec<Entry>,
    next: u64,
}

/// The handshakes of one kind of listener.
pub(super) struct Handshakes {
    most: usize,
    table: Mutex<Table>,
    ended: Condvar,
}

/// A client that is negotiating. It leaves the table when this is dropped.
pub(super) struct Handshake {
    all: Arc<Handshakes>,
    number: u64,
    origin: Origin,
    socket: Arc<ClientSocket>,
}

impl Handshakes {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, table: Mutex::default(), ended: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client, in place of another one if the table is full. `None` if the other one's thread does not end in time.
    pub(super) fn begin(self: &Arc<Self>, socket: ClientSocket) -> Option<Handshake> {
        let (origin, socket) = (socket.origin(), Arc::new(socket));
        let until = Instant::now() + DISPLACING;
        let mut table = self.lock();
        if table.entries.len() >= self.most {
            table.displace();
        }
        while table.entries.len() >= self.most {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            table = self.ended.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let number = table.next;
        table.next += 1;
        let progress = Progress::Silent;
        table.entries.push(Entry { number, origin, progress, is_displaced: false, socket: socket.clone() });
        Some(Handshake { all: self.clone(), number, origin, socket })
    }

    /// Displaces a client, whose descriptor is then free for another one.
    pub(super) fn displace(&self) {
        self.lock().displace();
    }
}

impl Table {
    fn displace(&mut self) {
        let handshakes = |origin| self.entries.iter().filter(|other| other.origin == origin).count();
        let rank = |entry: &&Entry| {
            let most_first = usize::MAX - handshakes(entry.origin);
            (most_first, entry.progress, entry.number)
        };
        let chosen = self.entries.iter().filter(|entry| !entry.is_displaced).min_by_key(rank);
        let Some(number) = chosen.map(|entry| entry.number) else { return };
        if let Some(entry) = self.find(number) {
            entry.is_displaced = true;
            entry.socket.shut_down();
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }
}

impl Handshake {
    pub(super) fn socket(&self) -> &ClientSocket {
        &self.socket
    }

    pub(super) const fn origin(&self) -> Origin {
        self.origin
    }

    pub(super) fn reached(&self, progress: Progress) {
        if let Some(entry) = self.all.lock().find(self.number) {
            entry.progress = progress;
        }
    }

    /// Whether the client is to be disconnected in favour of another one.
    pub(super) fn is_displaced(&self) -> bool {
        self.all.lock().find(self.number).is_none_or(|entry| entry.is_displaced)
    }

    /// The socket after the negotiation; `None` if the client was displaced in the meantime.
    pub(super) fn finish(self) -> Option<ClientSocket> {
        let is_displaced = self.is_displaced();
        let socket = self.socket.clone();
        // Removes the table's reference, which is the only other one.
        drop(self);
        Arc::into_inner(socket).filter(|_| !is_displaced)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.lock().entries.retain(|entry| entry.number != self.number);
        self.all.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn table(origins: &[(u8, Progress)]) -> Table {
        let socket = Arc::new(ClientSocket::Unix(UnixStream::pair().unwrap().0));
        let entry = |(number, &(last, progress)): (usize, &(u8, Progress))| Entry {
            number: number as u64,
            origin: Origin::V4([192, 0, 2, last]),
            progress,
            is_displaced: false,
            socket: socket.clone(),
        };
        Table { entries: origins.iter().enumerate().map(entry).collect(), next: origins.len() as u64 }
    }

    #[test]
    fn the_greediest_address_then_the_least_progress_then_the_oldest_is_displaced() {
        use Progress::{Encrypting, Greeted, Silent};
        let mut table =
            table(&[(1, Silent), (2, Encrypting), (2, Silent), (3, Greeted), (2, Silent), (2, Greeted)]);
        let mut order = Vec::new();
        while order.len() < 6 {
            table.displace();
            let displaced = table.entries.iter().position(|entry| entry.is_displaced).unwrap();
            order.push(table.entries.remove(displaced).number);
        }
        // Four of address 2 shrink to one; then the rest by progress.
        assert_eq!(order, [2, 4, 5, 0, 3, 1]);
    }

    #[test]
    fn a_displaced_client_makes_room_when_its_thread_ends() {
        let handshakes = Handshakes::new(1);
        let socket = || {
            let (server, client) = UnixStream::pair().unwrap();
            (ClientSocket::Unix(server), client)
        };
        let (first, _client) = socket();
        let first = handshakes.begin(first).unwrap();
        let (second, _client) = socket();
        assert!(handshakes.begin(second).is_none(), "the first one's thread does not end");
        assert!(first.is_displaced());
        assert!(first.finish().is_none(), "it must not get a place");
        let (third, _client) = socket();
        let third = handshakes.begin(third).unwrap();
        assert!(third.finish().is_some());
    }
}
