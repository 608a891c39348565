//! The memory of all clients of a front end together.
//!
//! Each client may hold a share of its own at any time, and more as long as the clients together hold at most a common part beyond their shares.
//! A client without room is not read from. Of the clients that wait for the common part, only the first one may take from it, so that a large
//! request does not wait behind the small ones of others. A client that holds some of it and moves no data is disconnected
//! (`Connections::reclaim`).
//!
//! The device's thread alone uses a budget; its fields are atomic because it is created by another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::protocol::LONGEST_PAYLOAD;
use crate::buffer;

/// The most data of one client, and the share of its own without a limit of memory. One request of the greatest length always fits.
const CLIENT: usize = LONGEST_PAYLOAD as usize + (8 << 20);

/// Memory of a client without any data: what is received and not parsed yet, a thread for TLS.
const FIXED: usize = 512 << 10;

/// Bytes of replies that the kernel keeps for one client, if memory is not limited: several replies of 128 KiB, so that the device's thread
/// and the client work at the same time. The kernel counts twice as much.
const SEND_BUFFER: usize = 4 << 20;
const SEND_BUFFER_LEAST: usize = 64 << 10;

/// No client.
const NONE: u16 = u16::MAX;

/// How the memory of all clients is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Division {
    /// What each client may hold at any time.
    pub(super) own: usize,
    /// What all clients may hold beyond that.
    pub(super) common: usize,
    /// The send buffer of each client.
    pub(super) send_buffer: usize,
}

impl Division {
    /// Divides `memory` bytes for up to `clients`: the half in equal parts, of which each client has half for data, a quarter for its send buffer,
    /// and a quarter for what it needs without data.
    pub(super) fn new(memory: u64, clients: usize) -> Self {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        if memory / clients.max(1) >= CLIENT + FIXED + 2 * SEND_BUFFER {
            return Self::default();
        }
        let part = memory / 2 / clients.max(1);
        Self {
            own: (part / 2).max(buffer::footprint(1)),
            common: (memory / 2).max(2 * buffer::LARGEST),
            send_buffer: (part / 8).clamp(SEND_BUFFER_LEAST, SEND_BUFFER),
        }
    }

    /// The longest data of one request: it fits the common part.
    pub(super) fn longest(&self) -> u32 {
        let most = self.common.min(LONGEST_PAYLOAD as usize);
        1 << most.ilog2()
    }
}

impl Default for Division {
    fn default() -> Self {
        Self { own: CLIENT, common: CLIENT, send_buffer: SEND_BUFFER }
    }
}

/// What the clients hold.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) division: Division,
    /// Bytes of the common part that clients hold.
    taken: AtomicUsize,
    /// The client that gets of the common part next.
    turn: AtomicU16,
    /// Changes by which a client that waits may have room.
    changes: AtomicU64,
}

impl Budget {
    pub(super) fn new(division: Division) -> Arc<Self> {
        Arc::new(Self {
            division,
            taken: AtomicUsize::new(0),
            turn: AtomicU16::new(NONE),
            changes: AtomicU64::new(0),
        })
    }

    /// A number that differs after any change by which a client that waits may have room.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Whether no client has the turn.
    pub(super) fn is_free(&self) -> bool {
        self.turn.load(Relaxed) == NONE
    }

    /// This client gets of the common part next.
    pub(super) fn set_turn(&self, client: u16) {
        self.turn.store(client, Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }
}

/// What one client holds; nothing when this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    budget: Arc<Budget>,
    client: u16,
    bytes: usize,
}

impl Held {
    pub(super) const fn new(budget: Arc<Budget>, client: u16) -> Self {
        Self { budget, client, bytes: 0 }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the common part.
    pub(super) fn excess(&self) -> usize {
        self.bytes.saturating_sub(self.budget.division.own)
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.change(self.bytes + bytes);
    }

    pub(super) fn sub(&mut self, bytes: usize) {
        if bytes > 0 {
            self.change(self.bytes - bytes);
            self.budget.changes.fetch_add(1, Relaxed);
        }
    }

    fn change(&mut self, bytes: usize) {
        let before = self.excess();
        self.bytes = bytes;
        let taken = self.budget.taken.load(Relaxed);
        self.budget.taken.store(taken - before + self.excess(), Relaxed);
    }

    /// Whether this client has reached its own limit.
    pub(super) const fn is_full(&self) -> bool {
        self.bytes >= CLIENT
    }

    /// Whether this client's own limit permits so much more. A request of the greatest length is permitted to a client that holds nothing.
    pub(super) const fn permits(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= CLIENT
    }

    /// Whether there is room for so much more: in the client's own share, or in the common part, if it is the client's turn.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let Division { own, common, .. } = self.budget.division;
        let excess = (self.bytes + bytes).saturating_sub(own);
        let turn = self.budget.turn.load(Relaxed);
        let others = self.budget.taken.load(Relaxed) - self.excess();
        excess == 0 || ((turn == NONE || turn == self.client) && others + excess <= common)
    }

    /// The client has got what it waited for, or does not wait any more.
    pub(super) fn end_turn(&self) {
        if self.budget.turn.load(Relaxed) == self.client {
            self.budget.set_turn(NONE);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.sub(self.bytes);
        self.end_turn();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_is_divided_and_never_exceeded() {
        assert_eq!(Division::new(1 << 40, 32), Division::default());
        for (mib, clients) in [(1, 32), (8, 16), (64, 16), (64, 2048), (400, 16), (1000, 32)] {
            let division = Division::new(mib << 20, clients);
            let Division { own, common, send_buffer } = division;
            assert!(division.longest().is_power_of_two() && division.longest() as usize <= common);
            assert!(division.longest() as usize >= 2 * MIB);
            // Below 2 MiB in all, or 512 KiB for a client, the least sizes exceed it.
            if mib as usize * MIB / clients >= 4 * SEND_BUFFER_LEAST * 4 {
                assert!(common + clients * (own + 2 * send_buffer) <= mib as usize * MIB, "{division:?}");
            }
        }
    }

    #[test]
    fn a_client_uses_its_own_share_while_another_one_holds_the_common_part() {
        let budget = Budget::new(Division { own: MIB, common: 4 * MIB, send_buffer: 0 });
        let [mut greedy, mut other] = [0, 1].map(|client| Held::new(budget.clone(), client));
        assert!(greedy.has_room(5 * MIB) && !greedy.has_room(5 * MIB + 1));
        greedy.add(5 * MIB);
        assert!(other.has_room(MIB) && !other.has_room(MIB + 1));
        other.add(MIB);
        greedy.sub(2 * MIB);
        assert!(other.has_room(2 * MIB) && !other.has_room(2 * MIB + 1));
        // The other one's turn: what it waits for is not taken by the first one.
        budget.set_turn(1);
        assert!(!greedy.has_room(1) && other.has_room(2 * MIB));
        let before = budget.changes();
        drop(other);
        assert!(budget.is_free() && budget.changes() != before);
        assert!(greedy.has_room(2 * MIB));
        drop(greedy);
        assert_eq!(budget.taken.load(Relaxed), 0);
    }

    #[test]
    fn without_a_limit_each_client_holds_the_longest_request() {
        let all = Division::default();
        assert_eq!((all.own, all.common, all.send_buffer), (40 * MIB, 40 * MIB, 4 * MIB));
        assert_eq!(all.longest(), LONGEST_PAYLOAD);
        // The least memory for two clients that is not divided: 40 MiB, 512 KiB, and twice 4 MiB each.
        let least = 2 * (48 * MIB + 512 * 1024) as u64;
        assert_eq!(Division::new(least, 2), all);
        assert_ne!(Division::new(least - 2, 2), all);
        // No client counts as one.
        assert_eq!(Division::new(least, 0), all);
    }

    #[test]
    fn divided_memory_has_its_parts() {
        // 64 MiB for 16 clients: parts of 2 MiB.
        let expected = Division { own: MIB, common: 32 * MIB, send_buffer: 256 * 1024 };
        assert_eq!(Division::new(64 << 20, 16), expected);
        assert_eq!(expected.longest(), 32 << 20);
        // Too little memory: the least that works.
        let least = Division { own: 4096, common: 2 * MIB, send_buffer: 64 * 1024 };
        assert_eq!(Division::new(1, 32), least);
        let longest = |common| Division { common, ..least }.longest();
        assert_eq!([longest(3 * MIB), longest(4 * MIB - 1), longest(4 * MIB)], [2 << 20, 2 << 20, 4 << 20]);
    }

    #[test]
    fn one_client_holds_at_most_one_longest_request_and_a_little_more() {
        let budget = Budget::new(Division::default());
        let mut client = Held::new(budget, 0);
        assert!(client.permits(100 * MIB), "a client that holds nothing");
        client.add(1);
        assert!(client.permits(40 * MIB - 1) && !client.permits(40 * MIB) && !client.is_full());
        client.add(40 * MIB - 2);
        assert!(!client.is_full() && client.permits(1));
        client.add(1);
        assert!(client.is_full() && !client.permits(1));
        assert_eq!((client.bytes(), client.excess()), (40 * MIB, 0));
        client.add(1);
        assert_eq!((client.bytes(), client.excess()), (40 * MIB + 1, 1));
        client.sub(2);
        assert_eq!((client.bytes(), client.excess()), (40 * MIB - 1, 0));
    }

    #[test]
    fn only_a_change_that_can_make_room_counts_as_one() {
        let budget = Budget::new(Division { own: MIB, common: MIB, send_buffer: 0 });
        let mut client = Held::new(budget.clone(), 3);
        let before = budget.changes();
        client.add(10);
        client.sub(0);
        client.end_turn();
        assert_eq!(budget.changes(), before);
        client.sub(4);
        assert_ne!(budget.changes(), before);
        // Only the client that has the turn ends it.
        budget.set_turn(5);
        client.end_turn();
        assert!(!budget.is_free());
        drop(client);
        assert!(!budget.is_free());
        Held::new(budget.clone(), 5).end_turn();
        assert!(budget.is_free());
    }
}
