//! Random histories with a power failure at any point, and a replay of the log.

use std::collections::{BTreeMap, BTreeSet};

use elevator::Random;
use elevator::Span;

use super::super::*;
use super::medium::{At, Content, Logged, Medium, Out, Then};
use crate::kernel::Causes;
use crate::kernel::fs::Inode;

/// Changes of a handle: `true` for a changed block, `false` for a freed one.
type Changes = Vec<(bool, Block)>;

struct Machine {
    journal: Journal,
    causes: Causes,
    random: Random,
    now: Time,
    version: u64,
    memory: BTreeMap<Block, u64>,
    /// The changes of each transaction.
    transactions: BTreeMap<Tid, Logged>,
    data: BTreeMap<Inode, u64>,
    medium: Medium,
    under_way: Vec<Out>,
    /// Open handles, with their transaction (jbd) or their pending changes (XFS-like).
    handles: Vec<(Handle, Tid, Changes)>,
    acknowledged: Option<Tid>,
    dirty: BTreeSet<Block>,
    stats: Stats,
}

#[derive(Default, Debug)]
struct Stats {
    commits: u32,
    waits: u32,
    checkpoints: u32,
    crashes: u32,
    replayed: u32,
}

const BLOCKS: u64 = 60;

impl Machine {
    fn new(options: Options, seed: u64) -> Self {
        let volatile = options.barrier;
        let area = Extent { start: Block(10_000), blocks: 141 };
        Self {
            journal: Journal::new(options, area),
            causes: Causes::default(),
            random: Random::new(seed),
            now: Time::ZERO,
            version: 0,
            memory: BTreeMap::new(),
            transactions: BTreeMap::new(),
            data: BTreeMap::new(),
            medium: Medium { volatile, ..Medium::default() },
            under_way: Vec::new(),
            handles: Vec::new(),
            acknowledged: None,
            dirty: BTreeSet::new(),
            stats: Stats::default(),
        }
    }

    fn step(&mut self) {
        self.now += Span::from_millis(self.random.below(40));
        match self.random.below(16) {
            0..=3 => self.start(),
            4..=7 => self.stop(),
            8 => self.sync(),
            9 | 10 => self.writeback(),
            _ => self.complete(),
        }
        self.pump();
    }

    fn start(&mut self) {
        if self.handles.len() > 3 {
            return;
        }
        let cause = self.causes.one(1);
        let credits = 1 + self.random.below(6) as u32;
        match self.journal.start(self.now, credits, cause, &mut self.causes) {
            Started::Wait => self.stats.waits += 1,
            Started::Handle(handle) => {
                let mut changes = Vec::new();
                for _ in 0..credits {
                    let block = Block(self.random.below(BLOCKS));
                    // A block under writeback must not change; the page cache ensures that.
                    if self.on_its_way(block) || changes.iter().any(|&(_, other)| other == block) {
                        continue;
                    }
                    if self.random.once_in(9) {
                        self.journal.forget(handle, block);
                        changes.push((false, block));
                    } else if self.journal.access(handle, block) == Access::Granted {
                        changes.push((true, block));
                    } else {
                        self.stats.waits += 1;
                    }
                }
                // A jbd handle's changes belong to a transaction at once, an XFS-like handle's when it stops.
                let tid = self.journal.running.as_ref().map_or(Tid(0), |running| running.tid);
                let jbd = self.journal.options.style == Style::Jbd;
                if jbd {
                    self.apply(tid, &changes);
                    self.order(handle, tid);
                    changes.clear();
                }
                self.handles.push((handle, tid, changes));
            }
        }
    }

    fn on_its_way(&self, block: Block) -> bool {
        self.under_way.iter().flat_map(|out| &out.contents).any(|&(at, _)| at == At::Home(block))
    }

    fn apply(&mut self, tid: Tid, changes: &[(bool, Block)]) {
        for &(changed, block) in changes {
            self.version += 1;
            let logged = self.transactions.entry(tid).or_default();
            self.dirty.remove(&block);
            if changed {
                self.memory.insert(block, self.version);
                logged.copies.insert(block, self.version);
            } else {
                self.memory.remove(&block);
                logged.copies.remove(&block);
            }
        }
    }

    /// The handle's transaction allocates new data.
    fn order(&mut self, handle: Handle, tid: Tid) {
        if self.journal.options.data != Data::Ordered || self.random.once_in(3) {
            return;
        }
        let inode = Inode(self.random.below(5));
        self.journal.order(handle, inode);
        self.version += 1;
        self.data.insert(inode, self.version);
        self.transactions.entry(tid).or_default().ordered.insert(inode, self.version);
    }

    fn stop(&mut self) {
        if self.handles.is_empty() {
            return;
        }
        let i = self.random.below(self.handles.len() as u64) as usize;
        let (handle, joined, changes) = self.handles.swap_remove(i);
        let running = self.journal.running.as_ref().map(|running| running.tid);
        let tid = self.journal.stop(self.now, handle, &mut self.causes);
        match self.journal.options.style {
            Style::Jbd => assert_eq!(tid, joined),
            Style::XfsLike => {
                assert!(running.is_none_or(|running| running == tid));
                self.apply(tid, &changes);
            }
        }
        if self.random.once_in(4) {
            self.journal.commit(self.now, tid);
        }
    }

    fn sync(&mut self) {
        self.journal.force(self.now);
    }

    /// Writes a committed block home.
    fn writeback(&mut self) {
        let free =
            self.dirty.iter().copied().filter(|&block| !self.journal.holds(block) && !self.on_its_way(block));
        let free: Vec<Block> = free.collect();
        if free.is_empty() {
            return;
        }
        let block = free[self.random.below(free.len() as u64) as usize];
        self.dirty.remove(&block);
        let contents = vec![(At::Home(block), self.memory[&block])];
        if let Some(tid) = self.journal.home_begins(block) {
            self.under_way.push(Out { contents, preflush: false, fua: false, then: Then::Home(block, tid) });
        }
    }

    fn complete(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let i = self.random.below(self.under_way.len() as u64) as usize;
        let out = self.under_way.swap_remove(i);
        match self.medium.complete(out) {
            Then::Written(id) => self.journal.written(self.now, id),
            Then::Data(tid) => self.journal.data_written(self.now, tid),
            Then::Home(block, tid) => self.journal.home_written(self.now, block, tid),
        }
    }

    fn pump(&mut self) {
        while let Some(action) = self.journal.poll(self.now) {
            match action {
                Action::WriteData { tid, inodes, .. } => {
                    let contents = inodes.iter().map(|&inode| (At::Data(inode), self.data[&inode])).collect();
                    self.under_way.push(Out { contents, preflush: false, fua: false, then: Then::Data(tid) });
                }
                Action::Write(write) => self.issue(write),
                Action::Committed { tid, blocks, .. } => {
                    assert!(self.acknowledged < Some(tid));
                    self.acknowledged = Some(tid);
                    self.stats.commits += 1;
                    assert!(blocks.iter().all(|&block| !self.journal.holds(block)));
                    self.dirty.extend(blocks.iter().filter(|block| self.memory.contains_key(block)));
                }
                Action::Retry => {}
            }
        }
    }

    fn issue(&mut self, write: Write) {
        let places = || (0..u64::from(write.to.blocks)).map(|i| write.to.start.plus(i));
        let contents = match write.why {
            Why::Log | Why::Commit => {
                let logged = self.transactions.entry(write.tid).or_default();
                let list = if write.why == Why::Log { &mut logged.places } else { &mut logged.record };
                list.extend(places());
                logged.tid = write.tid.0;
                logged.from = self.journal.old.front().map_or(write.tid, |old| old.tid).0;
                logged.revokes.extend(&write.revokes);
                places().map(|place| (At::Log(place), write.tid.0)).collect()
            }
            Why::Superblock => vec![(At::Superblock, write.tid.0)],
            Why::Checkpoint => {
                self.stats.checkpoints += 1;
                let home = |block: &Block| {
                    assert!(!self.journal.holds(*block), "{block:?} goes home before it is committed");
                    self.dirty.remove(block);
                    (At::Home(*block), self.memory[block])
                };
                write.homes.iter().map(home).collect()
            }
        };
        let then = Then::Written(write.id);
        self.under_way.push(Out { contents, preflush: write.preflush, fua: write.fua, then });
    }

    /// Stops all handles and commits everything.
    fn finish(&mut self) {
        while !self.handles.is_empty() {
            self.stop();
            self.pump();
        }
        let newest = self.journal.force(self.now);
        self.pump();
        while !self.under_way.is_empty() {
            self.complete();
            self.pump();
        }
        assert!(newest.is_none() || self.acknowledged >= newest, "{newest:?} after {:?}", self.acknowledged);
        assert_eq!(self.journal.force(self.now), None);
        self.crash();
    }

    /// After a failure now and a replay, the medium has the state at the end of some transaction, not older than the newest
    /// acknowledged one, with its ordered data.
    fn crash(&mut self) {
        self.stats.crashes += 1;
        let mut left = self.medium.after_failure(&self.under_way, &mut self.random);
        let from = match self.journal.options.style {
            Style::Jbd => left.get(&At::Superblock).copied().unwrap_or(1),
            // The newest record contains the tail.
            Style::XfsLike => {
                let whole = |logged: &&Logged| logged.is_whole(&left);
                self.transactions.values().rev().find(whole).map_or(1, |logged| logged.from)
            }
        };
        let last = self.replay(from, &mut left);
        assert!(last >= self.acknowledged.map_or(0, |tid| tid.0), "{last} after {:?}", self.acknowledged);
        let mut expected: BTreeMap<Block, u64> = BTreeMap::new();
        let mut gone = BTreeSet::new();
        for (tid, logged) in self.transactions.range(..=Tid(last)) {
            for block in &logged.revokes {
                expected.remove(block);
                gone.insert(*block);
            }
            expected.extend(&logged.copies);
            for (inode, version) in &logged.ordered {
                let there = left.get(&At::Data(*inode)).copied().unwrap_or(0);
                assert!(there >= *version, "data of {inode:?} in {tid:?}: {there} for {version}");
            }
        }
        for block in (0..BLOCKS).map(Block) {
            let there = left.get(&At::Home(block));
            match expected.get(&block) {
                Some(version) => assert_eq!(there, Some(version), "{block:?} after {last}"),
                // A freed block may have any old content.
                None => assert!(there.is_none() || gone.contains(&block), "{block:?} after {last}"),
            }
        }
    }

    /// Replays the log from the first to the last complete transaction.
    fn replay(&mut self, from: u64, left: &mut BTreeMap<At, Content>) -> u64 {
        let mut whole = Vec::new();
        let mut tid = from;
        let nothing = Logged::default();
        loop {
            let logged = self.transactions.get(&Tid(tid)).unwrap_or(&nothing);
            // An empty transaction leaves nothing in the log; it counts when it was acknowledged.
            let empty = logged.places.is_empty() && logged.record.is_empty();
            let done = empty && Some(Tid(tid)) <= self.acknowledged;
            if !(done || logged.is_whole(left)) {
                break;
            }
            whole.push(tid);
            tid += 1;
        }
        let last = whole.last().copied().unwrap_or(from - 1);
        self.stats.replayed += whole.len() as u32;
        for &tid in &whole {
            let revoked = |block: &Block| {
                self.transactions.range(Tid(tid)..=Tid(last)).any(|(_, later)| later.revokes.contains(block))
            };
            for (&block, &version) in
                self.transactions.get(&Tid(tid)).map_or(&nothing.copies, |it| &it.copies)
            {
                if !revoked(&block) {
                    left.insert(At::Home(block), version);
                }
            }
        }
        last
    }
}

fn run(options: &Options) -> Stats {
    let mut all = Stats::default();
    for seed in 0..12 {
        let mut machine = Machine::new(options.clone(), seed);
        for i in 0..4000 {
            machine.step();
            if i % 7 == 0 {
                machine.crash();
            }
        }
        machine.finish();
        all.commits += machine.stats.commits;
        all.waits += machine.stats.waits;
        all.checkpoints += machine.stats.checkpoints;
        all.crashes += machine.stats.crashes;
        all.replayed += machine.stats.replayed;
    }
    all
}

#[test]
fn acknowledged_transactions_survive_failures() {
    let jbd2_small = Options { tag_bytes: 512, ..Options::jbd2() };
    for options in [Options::default(), Options::jbd2(), jbd2_small, Options::xfs_like()] {
        let stats = run(&options);
        // The histories cover the intended cases.
        assert!(stats.commits > 900, "{stats:?}");
        assert!(stats.replayed > stats.crashes, "{stats:?}");
        if options.style == Style::Jbd {
            assert!(stats.waits > 1000 && stats.checkpoints > 300, "{stats:?}");
        }
    }
}
