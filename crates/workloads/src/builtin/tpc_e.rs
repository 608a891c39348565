//! tpc-e: a broker's database with clients (IOAnalyzer, section IV-A).
//!
//! "a TPC-E database simulating an eBay/Amazon site. The parameters are the next: 4000 clients, 80 trade days, scale
//! factor 500 receiving the load from 10 clients in 1000 seconds [...]. Database is running on MySQL 5.1.41."
//!
//! The paper does not describe the requests, so this is an approximation: the disk accesses of InnoDB 5.1 below its buffer
//! pool. Clients take transactions from a common list, so that a faster disk shortens the run. They read pages of 16 KB that
//! are not in the pool, at random, mostly in the hot part; one transaction in ten reads a run of adjacent pages. 23% of the
//! transactions change data (TPC-E's share): they commit with a durable log write and leave dirty pages. When the log is nearly full, a checkpoint
//! writes all dirty pages in one asynchronous burst, as 5.1 did. So phases of reads alternate with reads beside a flood of
//! writes.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use elevator::Random;
use elevator::text::whole;
use elevator::{Flags, Op, Sector, Sectors, Span, Time, tunables};
use machine::{Await, Io, Next, Program, Submitter};

use super::{GIB, KIB};
use crate::workload::{Processes, Workload};

tunables! {
    pub struct TpcESettings {
        /// Clients, each with one transaction at a time.
        clients: Count = 10, 1, 1000;
        /// Total number of transactions: about 1000 s under a good scheduler.
        transactions: Count = 40_000, 1, 100_000_000;
        /// Bytes of the tables.
        database_bytes: Count = 24 * GIB, GIB, 1024 * GIB;
        /// Processor time for each transaction.
        think: Span = Span::from_millis(4), Span::ZERO, Span::from_secs(10);
        /// Mean number of pages that a transaction reads from the disk.
        pages: Count = 3, 1, 1000;
        /// Transactions until the log is full and a checkpoint starts.
        log_transactions: Count = 1500, 1, 1_000_000;
        /// Seed of positions.
        seed: Count = 1, 0, u64::MAX;
    }
}

/// The benchmark with its settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct TpcE(pub TpcESettings);

/// A page of InnoDB.
const PAGE: Sectors = Sectors(32);
/// Pages of a trade's history that are read sequentially.
const RUN: u64 = 24;
/// Pages that a change dirties.
const DIRTIED: u64 = 4;
/// The log before the tables: two files of 512 MB as one ring.
const LOG_SECTORS: u64 = 2 * 1024 * 1024;
/// Interval at which the checkpointer checks the log.
const LOOK: Span = Span::from_secs(1);

/// State shared by clients and checkpointer.
#[derive(Default)]
struct Database {
    begun: u64,
    log_head: u64,
    logged: u64,
    dirty: BTreeSet<u64>,
    clients: u64,
}

struct Client {
    own: TpcESettings,
    database: Rc<RefCell<Database>>,
    steps: VecDeque<Next>,
}

impl Client {
    /// Adds the steps of transaction `n`, which do not depend on the client.
    fn transaction(&mut self, n: u64) {
        let mut random = Random::new(self.own.seed ^ (n + 1).wrapping_mul(0x2545_f491_4f6c_dd1d));
        self.steps.push_back(Next::Think(
            self.own.think / 2 + Span::from_nanos(random.below(self.own.think.as_nanos() + 1)),
        ));
        if random.once_in(10) {
            let first = random.below(self.pages() - RUN);
            (0..RUN).for_each(|i| self.read(first + i));
        } else {
            for _ in 0..1 + random.below(2 * self.own.pages - 1) {
                let page = self.page(&mut random);
                self.read(page);
            }
        }
        if random.below(100) < 23 {
            self.commit(&mut random);
        }
    }

    const fn pages(&self) -> u64 {
        self.own.database_bytes / PAGE.bytes()
    }

    /// A page: four of five accesses go to the first fifth.
    fn page(&self, random: &mut Random) -> u64 {
        let within = if random.below(5) < 4 { self.pages() / 5 } else { self.pages() };
        random.below(within)
    }

    fn read(&mut self, page: u64) {
        self.steps.extend([Next::Submit(Io::read(place(page), PAGE)), Next::Await(Await::All)]);
    }

    fn commit(&mut self, random: &mut Random) {
        let mut database = self.database.borrow_mut();
        for _ in 0..DIRTIED {
            database.dirty.insert(self.page(random));
        }
        database.logged += 1;
        let start = Sector(database.log_head % LOG_SECTORS);
        database.log_head += 8;
        let flags = Flags { sync: true, fua: true, ..Flags::default() };
        let write = Io { op: Op::Write, start, sectors: Sectors(8), flags };
        drop(database);
        self.steps.extend([Next::Submit(write), Next::Await(Await::All)]);
    }
}

const fn place(page: u64) -> Sector {
    Sector(LOG_SECTORS + page * PAGE.0 as u64)
}

impl Program for Client {
    fn next(&mut self, _now: Time) -> Next {
        if self.steps.is_empty() {
            let begun = self.database.borrow().begun;
            if begun >= self.own.transactions {
                self.database.borrow_mut().clients -= 1;
                return Next::Exit;
            }
            self.database.borrow_mut().begun += 1;
            self.transaction(begun);
        }
        self.steps.pop_front().unwrap_or(Next::Exit)
    }
}

/// Writes all dirty pages when the log is nearly full.
struct Checkpointer {
    log_transactions: u64,
    database: Rc<RefCell<Database>>,
    steps: VecDeque<Next>,
}

impl Program for Checkpointer {
    fn next(&mut self, _now: Time) -> Next {
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        let mut database = self.database.borrow_mut();
        if database.clients == 0 {
            return Next::Exit;
        }
        if database.logged >= self.log_transactions {
            database.logged = 0;
            let write = |page| Io { op: Op::Write, flags: Flags::default(), ..Io::read(place(page), PAGE) };
            let dirty = std::mem::take(&mut database.dirty);
            self.steps.extend(dirty.into_iter().map(|page| Next::Submit(write(page))));
            self.steps.push_back(Next::Await(Await::All));
        } else {
            self.steps.push_back(Next::Think(LOOK));
        }
        self.steps.pop_front().unwrap_or(Next::Think(LOOK))
    }
}

impl Workload for TpcE {
    fn describe(&self) -> String {
        let TpcESettings { clients, transactions, database_bytes, .. } = self.0;
        format!("tpc-e: {transactions} transactions of {clients} clients over {}", whole(database_bytes))
    }

    fn end(&self) -> Sector {
        place(self.0.database_bytes / PAGE.bytes())
    }

    fn processes(&self) -> Processes {
        let own = self.0;
        let database = Rc::new(RefCell::new(Database { clients: own.clients, ..Database::default() }));
        let client = |n: u64| {
            let program = Client { own, database: Rc::clone(&database), steps: VecDeque::new() };
            (
                Submitter::process(n as u32 + 1, format!("client-{}", n + 1)),
                Box::new(program) as Box<dyn Program>,
            )
        };
        let mut processes: Vec<_> = (0..own.clients).map(client).collect();
        let checkpointer =
            Checkpointer { log_transactions: own.log_transactions, database, steps: VecDeque::new() };
        processes.push((Submitter::process(100_000, "checkpointer"), Box::new(checkpointer)));
        processes
    }
}

const _: () = assert!(KIB * 16 == PAGE.bytes());
