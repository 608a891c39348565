//! The journal's actions, event by event.

use elevator::Span;

use super::super::*;
use crate::kernel::Causes;
use crate::kernel::fs::Inode;

const AREA: Extent = Extent { start: Block(1000), blocks: 1025 };

struct Bench {
    journal: Journal,
    causes: Causes,
    now: Time,
}

impl Bench {
    fn new(options: Options) -> Self {
        Self { journal: Journal::new(options, AREA), causes: Causes::default(), now: Time::ZERO }
    }

    fn try_start(&mut self, process: u32) -> Started {
        let cause = self.causes.one(process);
        self.journal.start(self.now, 8, cause, &mut self.causes)
    }

    fn start(&mut self, process: u32) -> Handle {
        match self.try_start(process) {
            Started::Handle(handle) => handle,
            Started::Wait => panic!("{process} has to wait"),
        }
    }

    fn stop(&mut self, handle: Handle) -> Tid {
        self.journal.stop(self.now, handle, &mut self.causes)
    }

    /// A complete handle.
    fn change(&mut self, process: u32, blocks: &[u64], inode: Option<u64>) -> Tid {
        let handle = self.start(process);
        for &block in blocks {
            assert_eq!(self.journal.access(handle, Block(block)), Access::Granted);
        }
        inode.into_iter().for_each(|inode| self.journal.order(handle, Inode(inode)));
        self.stop(handle)
    }

    /// All pending actions, as text.
    fn pending(&mut self) -> Vec<String> {
        let mut actions = Vec::new();
        while let Some(action) = self.journal.poll(self.now) {
            actions.push(match action {
                Action::WriteData { inodes, .. } => format!("data of {}", list(inodes.iter().map(|i| i.0))),
                Action::Write(write) => {
                    let past = if write.fua { ", flush before and past the cache" } else { "" };
                    let at = write.to.start.0.saturating_sub(AREA.start.0);
                    match write.why {
                        Why::Checkpoint => format!("{} home", list(write.homes.iter().map(|b| b.0))),
                        why => format!("{why:?} {at}+{}{past}", write.to.blocks),
                    }
                }
                Action::Committed { tid, blocks, .. } => {
                    format!("{} durable, {} released", tid.0, list(blocks.iter().map(|b| b.0)))
                }
                Action::Retry => "retry".to_owned(),
            });
        }
        actions
    }

    /// Completes the `n`-th write.
    fn written(&mut self, n: u64) {
        self.journal.written(self.now, WriteId(n));
    }

    fn after(&mut self, ms: u64) {
        self.now += Span::from_millis(ms);
    }
}

fn list(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

/// `fsync` waits for the ordered data of all files of the transaction; data first, then log, then record.
#[test]
fn fsync_waits_for_all_ordered_data() {
    let mut it = Bench::new(Options::default());
    let mine = it.change(1, &[5, 6], Some(70));
    it.change(2, &[6, 7], Some(80));
    it.change(3, &[9], Some(70));
    assert!(it.pending().is_empty());
    assert!(it.journal.commit(it.now, mine));
    assert_eq!(it.pending(), ["data of 70 80"]);
    it.journal.data_written(it.now, mine);
    // A descriptor and four blocks after the superblock.
    assert_eq!(it.pending(), ["Log 1+5"]);
    it.written(0);
    assert_eq!(it.pending(), ["Commit 6+1"]);
    it.written(1);
    assert_eq!(it.pending(), ["1 durable, 5 6 7 9 released"]);
    assert!(!it.journal.commit(it.now, mine));
    assert_eq!(it.journal.force(it.now), None);
}

/// While the copies are written and the data is not, two tasks that wait for a handle do not wake each other.
#[test]
fn written_copies_wake_waiting_tasks_once() {
    let mut it = Bench::new(Options { log_after_data: false, ..Options::default() });
    let mine = it.change(1, &[5], Some(70));
    assert!(it.journal.commit(it.now, mine));
    assert_eq!(it.pending(), ["data of 70", "Log 1+2"]);
    // The next transaction is full.
    while let Started::Handle(_) = it.try_start(2) {}
    it.written(0);
    assert_eq!(it.pending(), ["retry"]);
    for process in [3, 4, 3, 4] {
        assert_eq!(it.try_start(process), Started::Wait);
        assert!(it.pending().is_empty(), "{process} wakes the other task");
    }
}

#[test]
fn the_causes_of_a_transaction_are_all_its_handles() {
    let mut it = Bench::new(Options::default());
    it.change(1, &[5], None);
    let tid = it.change(3, &[6], None);
    it.journal.commit(it.now, tid);
    // A handle that starts after the close belongs to the next transaction.
    it.change(4, &[7], None);
    let Some(Action::Write(write)) = it.journal.poll(it.now) else { panic!("nothing to write") };
    assert_eq!(it.causes.members(write.causes.unwrap()), [1, 3]);
}

/// jbd2: log and data in parallel, then the record with a flush and FUA.
#[test]
fn jbd2_writes_data_and_log_in_parallel() {
    let mut it = Bench::new(Options::jbd2());
    let tid = it.change(1, &[5], Some(70));
    it.journal.commit(it.now, tid);
    assert_eq!(it.pending(), ["data of 70", "Log 1+2"]);
    it.written(0);
    assert!(it.pending().is_empty());
    it.journal.data_written(it.now, tid);
    assert_eq!(it.pending(), ["Commit 3+1, flush before and past the cache"]);
}

/// Data that reaches the device's cache after the record was submitted is not covered by its flush.
#[test]
fn a_commit_covers_data_until_its_record_is_submitted() {
    let mut it = Bench::new(Options::jbd2());
    let tid = it.change(1, &[5], None);
    assert!(it.journal.flush_to_come(tid));
    it.journal.commit(it.now, tid);
    assert_eq!(it.pending(), ["Log 1+2"]);
    let next = it.change(2, &[6], None);
    assert!(it.journal.flush_to_come(tid) && it.journal.flush_to_come(next));
    it.written(0);
    assert_eq!(it.pending(), ["Commit 3+1, flush before and past the cache"]);
    assert!(!it.journal.flush_to_come(tid) && it.journal.flush_to_come(next));
    it.written(1);
    assert_eq!(it.pending(), ["1 durable, 5 released"]);
    assert!(!it.journal.flush_to_come(tid) && it.journal.flush_to_come(next));
}

#[test]
fn writeback_mode_orders_no_data() {
    let mut it = Bench::new(Options { data: Data::Writeback, ..Options::default() });
    let tid = it.change(1, &[5], Some(70));
    it.journal.commit(it.now, tid);
    assert_eq!(it.pending(), ["Log 1+2"]);
}

#[test]
fn a_transaction_commits_after_five_seconds() {
    let mut it = Bench::new(Options::default());
    assert_eq!(it.journal.deadline(), None);
    it.after(100);
    it.change(1, &[5], None);
    it.after(4999);
    it.change(1, &[6], None);
    assert_eq!(it.journal.deadline(), Some(Time::ZERO + Span::from_millis(5100)));
    assert!(it.pending().is_empty());
    it.after(1);
    assert_eq!(it.pending(), ["Log 1+3"]);
    // The next transaction waits for this one at any age and has no deadline.
    it.change(1, &[7], None);
    it.after(9000);
    assert!(it.pending().is_empty());
    assert_eq!(it.journal.deadline(), None);
    it.written(0);
    it.written(1);
    assert_eq!(it.pending(), ["Commit 4+1", "1 durable, 5 6 released", "Log 5+2"]);
}

/// A closing transaction waits for its handles and admits no others.
#[test]
fn handles_wait_while_a_transaction_is_locked() {
    let mut it = Bench::new(Options::default());
    let open = it.start(1);
    let tid = it.change(2, &[5], None);
    it.journal.commit(it.now, tid);
    assert!(it.pending().is_empty());
    assert_eq!(it.try_start(3), Started::Wait);
    assert_eq!(it.journal.access(open, Block(6)), Access::Granted);
    assert_eq!(it.stop(open), tid);
    assert_eq!(it.pending(), ["retry", "Log 1+3"]);
    assert!(it.change(3, &[8], None) > tid);
}

/// A block waits while its copy is written; a block that changed before is copied at once.
#[test]
fn a_block_waits_while_it_is_copied_to_the_log() {
    let mut it = Bench::new(Options::default());
    let tid = it.change(1, &[5, 6], Some(70));
    it.journal.commit(it.now, tid);
    assert_eq!(it.pending(), ["data of 70"]);
    let handle = it.start(2);
    assert_eq!(it.journal.access(handle, Block(5)), Access::Granted);
    it.journal.data_written(it.now, tid);
    assert_eq!(it.pending(), ["Log 1+3"]);
    assert_eq!(it.journal.access(handle, Block(5)), Access::Granted);
    assert_eq!(it.journal.access(handle, Block(6)), Access::Wait);
    it.written(0);
    assert_eq!(it.pending(), ["retry", "Commit 4+1"]);
    assert_eq!(it.journal.access(handle, Block(6)), Access::Granted);
    it.written(1);
    // Both are in the running transaction, so neither may be written home.
    assert_eq!(it.pending(), ["1 durable,  released"]);
    assert_eq!(it.journal.home_begins(Block(6)), None);
    assert!(it.journal.holds(Block(6)));
}

/// Freed blocks leave the transaction, and revocations prevent the replay of older copies.
#[test]
fn freed_blocks_are_revoked() {
    let mut it = Bench::new(Options::default());
    let first = it.change(1, &[5, 6], None);
    it.journal.commit(it.now, first);
    it.pending();
    it.written(0);
    it.written(1);
    it.pending();
    let handle = it.start(1);
    assert_eq!(it.journal.access(handle, Block(9)), Access::Granted);
    it.journal.forget(handle, Block(9));
    it.journal.forget(handle, Block(5));
    assert_eq!(it.journal.access(handle, Block(7)), Access::Granted);
    let second = it.stop(handle);
    it.journal.commit(it.now, second);
    let mut writes = Vec::new();
    while let Some(Action::Write(write)) = it.journal.poll(it.now) {
        writes.push((write.to.start.0 - AREA.start.0, write.to.blocks, write.homes, write.revokes));
    }
    let expected = [(5, 1, vec![], vec![Block(9), Block(5)]), (6, 2, vec![Block(7)], vec![])];
    assert_eq!(writes, expected);
}

/// A small log: the largest transaction must always fit, so the oldest blocks are written home first.
#[test]
fn a_full_log_starts_a_checkpoint() {
    let mut it = Bench::new(Options::default());
    // Sixteen transactions of 50 blocks take 832 of 1024 blocks: less than a quarter plus descriptors remains.
    let mut n = 0;
    let mut waited = None;
    for round in 0..16_u64 {
        let cause = it.causes.one(1);
        let started = it.journal.start(it.now, 50, cause, &mut it.causes);
        let Started::Handle(handle) = started else {
            waited = Some(round);
            break;
        };
        for i in 0..50 {
            assert_eq!(it.journal.access(handle, Block(round * 1000 + i)), Access::Granted);
        }
        let tid = it.stop(handle);
        it.journal.commit(it.now, tid);
        it.pending();
        it.written(n);
        it.pending();
        it.written(n + 1);
        assert_eq!(it.pending().len(), 1);
        n += 2;
    }
    // 256 + 1 descriptor + 1 record must stay free: 1024 - 258 = 766 holds fourteen of 52 and part of another.
    assert_eq!(waited, Some(15));
    let first = list(0..50);
    assert_eq!(it.pending(), [format!("{first} home")]);
    // Writeback wrote the second transaction home meanwhile.
    for i in 0..50 {
        let tid = it.journal.home_begins(Block(1000 + i)).unwrap();
        it.journal.home_written(it.now, Block(1000 + i), tid);
    }
    it.written(n);
    assert_eq!(it.pending(), ["Superblock 0+1"]);
    assert_eq!(it.try_start(1), Started::Wait);
    it.written(n + 1);
    assert_eq!(it.pending(), ["retry"]);
    it.start(1);
    assert_eq!(it.journal.filled(), (13 * 52, 1024));
}

#[test]
fn a_transaction_is_at_most_a_quarter_of_the_log() {
    let mut it = Bench::new(Options::default());
    let mut tid = None;
    for i in 0..32 {
        let blocks: Vec<u64> = (i * 8..i * 8 + 8).collect();
        tid = Some(it.change(1, &blocks, None));
    }
    assert_eq!(tid, Some(Tid(1)));
    assert_eq!(it.change(1, &[9999], None), Tid(2));
    assert_eq!(it.pending(), ["Log 1+257"]);
}

/// XFS-like: no waiting, no ordered data, small log writes.
#[test]
fn xfs_like_logs_parts_of_blocks() {
    let mut it = Bench::new(Options::xfs_like());
    let open = it.start(1);
    assert_eq!(it.journal.access(open, Block(5)), Access::Granted);
    let mine = it.change(2, &[5, 6], Some(70));
    let again = it.change(2, &[5, 6], Some(80));
    assert_eq!(mine, again);
    it.journal.commit(it.now, mine);
    // Two items of 256 bytes in one block.
    assert_eq!(it.pending(), ["Commit 1+1, flush before and past the cache"]);
    let other = it.start(3);
    assert_eq!(it.journal.access(other, Block(6)), Access::Granted);
    let late = it.stop(open);
    assert!(late > mine);
    it.written(0);
    assert_eq!(it.pending(), ["1 durable, 6 released"]);
    let tid = it.stop(other);
    assert_eq!(tid, late);
    it.journal.commit(it.now, tid);
    let Some(Action::Write(write)) = it.journal.poll(it.now) else { panic!("nothing to write") };
    assert_eq!(it.causes.members(write.causes.unwrap()), [1, 3]);
}
