//! The clients that are still negotiating: a bounded number, from which new ones displace those that make no progress.
//!
//! A client in its handshake is not authenticated and costs nothing to its owner. Its thread, socket and buffers (at most 200 KiB) are all
//! that it gets. When the table is full, a new client is always accepted and displaces another one. Candidates are the clients of the address
//! with the most handshakes, or of several such addresses; of these, the quarter whose last step was longest ago; of that quarter, the client
//! with the least progress. A client that proceeds at once is therefore displaced neither by silent peers nor by peers that begin TLS and stop there,
//! unless these make dozens of steps between two of its own.

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
    /// The table's step at which it connected or last proceeded.
    stepped: u64,
    is_displaced: bool,
    socket: Arc<ClientSocket>,
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    next: u64,
    /// Connections and steps of clients so far.
    steps: u64,
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
        table.steps += 1;
        let (progress, stepped) = (Progress::Silent, table.steps);
        let entry = Entry { number, origin, progress, stepped, is_displaced: false, socket: socket.clone() };
        table.entries.push(entry);
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
        let remaining = self.entries.iter().filter(|entry| !entry.is_displaced);
        let mut remaining: Vec<_> = remaining.map(|entry| (handshakes(entry.origin), entry)).collect();
        let Some(most) = remaining.iter().map(|&(count, _)| count).max() else { return };
        remaining.retain(|&(count, _)| count == most);
        remaining.sort_unstable_by_key(|(_, entry)| entry.stepped);
        remaining.truncate(remaining.len().div_ceil(4));
        let chosen = remaining.iter().min_by_key(|(_, entry)| (entry.progress, entry.stepped));
        let Some(number) = chosen.map(|(_, entry)| entry.number) else { return };
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
        let mut table = self.all.lock();
        table.steps += 1;
        let steps = table.steps;
        if let Some(entry) = table.find(self.number).filter(|entry| entry.progress < progress) {
            (entry.progress, entry.stepped) = (progress, steps);
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
            stepped: number as u64,
            is_displaced: false,
            socket: socket.clone(),
        };
        let next = origins.len() as u64;
        Table { entries: origins.iter().enumerate().map(entry).collect(), next, steps: next }
    }

    fn displaced(table: &mut Table) -> u64 {
        table.displace();
        let displaced = table.entries.iter().position(|entry| entry.is_displaced).unwrap();
        table.entries.remove(displaced).number
    }

    #[test]
    fn the_greediest_address_then_the_longest_without_a_step_is_displaced() {
        use Progress::{Encrypting, Greeted, Silent};
        let mut table =
            table(&[(1, Silent), (2, Encrypting), (2, Silent), (3, Greeted), (2, Silent), (2, Greeted)]);
        let order: Vec<u64> = (0..6).map(|_| displaced(&mut table)).collect();
        // Four of address 2 shrink to one; then the oldest first.
        assert_eq!(order, [1, 2, 4, 0, 3, 5]);
    }

    #[test]
    fn of_the_oldest_quarter_the_least_progress_is_displaced() {
        use Progress::{Encrypting, Silent};
        let origins: Vec<_> = (0..12).map(|n| (n, if n == 1 { Silent } else { Encrypting })).collect();
        assert_eq!(displaced(&mut table(&origins)), 1);
    }

    /// A regression: peers of many addresses that began TLS and stopped displaced each client that had just connected.
    #[test]
    fn a_new_client_is_not_displaced_by_peers_that_stopped_later() {
        let mut table = table(&(0..64).map(|n| (n, Progress::Encrypting)).collect::<Vec<_>>());
        let client = Entry {
            number: 1000,
            origin: Origin::V4([198, 51, 100, 1]),
            progress: Progress::Silent,
            stepped: 64,
            is_displaced: false,
            socket: table.entries[0].socket.clone(),
        };
        table.entries.push(client);
        for _ in 0..32 {
            assert_ne!(displaced(&mut table), 1000);
        }
    }

    #[test]
    fn a_client_that_proceeds_is_displaced_after_one_that_does_not() {
        let handshakes = Handshakes::new(3);
        let begin = || handshakes.begin(ClientSocket::Unix(UnixStream::pair().unwrap().0)).unwrap();
        let (proceeds, stopped) = (begin(), begin());
        proceeds.reached(Progress::Greeted);
        handshakes.displace();
        assert!(stopped.is_displaced() && !proceeds.is_displaced());
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
