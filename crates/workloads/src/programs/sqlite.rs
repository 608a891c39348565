//! An embedded database with a write-ahead log, SQLite's WAL mode: each transaction appends the pages that it changed to the
//! log and syncs it; after a number of changed pages a checkpoint writes them to the table and syncs the table.
//!
//! The checkpoint is a process of its own, so that transactions continue and the terms of the transactions' process do not
//! apply to it. As in SQLite, the log restarts at the first transaction after a complete checkpoint; while transactions never
//! pause, it grows.
//!
//! Source: SQLite's documents "Write-Ahead Logging" and "WAL-mode File Format".

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use elevator::Random;
use machine::Barrier;
use machine::kernel::Open;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name};

/// Bytes of the log's header.
const HEADER: u64 = 32;
/// Bytes before each page of the log.
const FRAME_HEADER: u64 = 24;

/// Transactions of an embedded database.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sqlite {
    pub table: Name,
    /// The log; created if absent.
    pub log: Name,
    /// Time in which transactions begin; reduced by the scale.
    pub lasts: Delay,
    /// Random pages that a transaction changes.
    #[serde(default = "changes")]
    pub changes: u32,
    #[serde(default = "page")]
    pub page: Bytes,
    /// Changed pages at which a checkpoint starts: `wal_autocheckpoint`.
    #[serde(default = "checkpoint")]
    pub checkpoint: u32,
    /// Processor time between two transactions.
    #[serde(default)]
    pub think: Delay,
    /// Seed; each copy of the process adds its number.
    #[serde(default)]
    pub seed: u64,
}

fn changes() -> u32 {
    1
}

fn page() -> Bytes {
    Bytes(4 << 10)
}

fn checkpoint() -> u32 {
    1000
}

/// State shared by transactions and checkpoints.
struct Shared {
    /// Pages that are newer in the log than in the table.
    changed: RefCell<BTreeSet<u64>>,
    /// A checkpoint is running.
    checkpointing: Cell<bool>,
    over: Cell<bool>,
    /// The barrier at which the checkpoint process waits.
    turn: Barrier,
}

impl Sqlite {
    /// Executes the step.
    pub async fn run(&self, os: &Os) {
        let shared = Rc::new(Shared {
            changed: RefCell::default(),
            checkpointing: Cell::new(false),
            over: Cell::new(false),
            turn: Barrier { name: os.session().meetings(1), members: 2 },
        });
        let (own, theirs, name) = (self.clone(), Rc::clone(&shared), format!("{}/checkpoint", os.name()));
        os.fork(&name, |os| async move { own.checkpoints(&os, &theirs).await }).await;
        self.transactions(os, &shared).await;
        shared.over.set(true);
        if !shared.checkpointing.get() {
            os.meet(shared.turn).await;
        }
        os.wait().await;
    }

    async fn transactions(&self, os: &Os, shared: &Shared) {
        let mut random = Random::new((self.seed ^ 0x59) + u64::from(os.copy()));
        let page = self.page.0.max(1);
        let table = self.table.of(os);
        let pages = (os.stat(&table).await / page).max(1);
        let table = os.open(&table, Open::default()).await;
        let log = os.open(&self.log.of(os), Open { create: true, ..Open::default() }).await;
        let end = os.now() + self.lasts.at(os.scale());
        let mut at = HEADER;
        while os.now() < end {
            let from = os.now();
            if shared.changed.borrow().is_empty() && !shared.checkpointing.get() {
                at = HEADER;
            }
            for _ in 0..self.changes {
                let changed = random.below(pages);
                os.read_at(table, changed * page, page).await;
                os.write_at(log, at, FRAME_HEADER + page).await;
                at += FRAME_HEADER + page;
                shared.changed.borrow_mut().insert(changed);
            }
            os.fdatasync(log).await;
            os.committed(from);
            let many = shared.changed.borrow().len() >= self.checkpoint as usize;
            if many && !shared.checkpointing.replace(true) {
                os.meet(shared.turn).await;
            }
            os.think(self.think.0).await;
        }
        os.close(log).await;
        os.close(table).await;
    }

    async fn checkpoints(&self, os: &Os, shared: &Shared) {
        let page = self.page.0.max(1);
        let table = os.open(&self.table.of(os), Open::default()).await;
        while !shared.over.get() {
            os.meet(shared.turn).await;
            // In table order.
            let changed = shared.changed.take();
            for changed in &changed {
                os.write_at(table, changed * page, page).await;
            }
            os.fdatasync(table).await;
            shared.checkpointing.set(false);
        }
        os.close(table).await;
    }
}
