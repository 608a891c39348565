//! tpc-h: parallel queries of a decision support database (IOAnalyzer, section IV-B).
//!
//! "The second test is a TPC-H 10Gb database (over MySQL 5.1.41) running a set of queries in parallel (queries 1, 3, 5, 6, 7,
//! 11, 12 and 19)." and "TPC-H is affected by the page cache [...] pages useful for the next queries are removed sooner".
//!
//! The scanned tables and the tables of look-ups are TPC-H's; processor times and numbers of look-ups are chosen here. The
//! relevant effect is modelled: several queries scan the same table at different speeds through a cache that holds a part of
//! it. A later query finds pages in the cache unless the first is too far ahead. So queries receive other bytes than the
//! device delivers, and a scheduler that maximises device throughput may drive queries apart. [`UserBytes`] counts the bytes
//! that queries receive.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use elevator::Random;
use elevator::text::whole;
use elevator::{Sector, Sectors, Span, Time, tunables};
use machine::{Await, Io, Next, Program, Submitter};

use super::{GIB, KIB};
use crate::workload::{Processes, Workload};

tunables! {
    pub struct TpcHSettings {
        /// Bytes of all tables.
        database_bytes: Count = 10 * GIB, 64 * 1024 * KIB, 1024 * GIB;
        /// Page cache shared by all queries, in percent of the tables.
        cache: Percent = 20, 1, 100;
        /// Seed of look-ups.
        seed: Count = 1, 0, u64::MAX;
    }
}

/// The benchmark with its settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct TpcH(pub TpcHSettings);

/// A page of InnoDB, and pages read ahead at once.
const PAGE: Sectors = Sectors(32);
const AHEAD: u64 = 8;

/// A table: position and share in percent.
#[derive(Clone, Copy)]
struct Table {
    from: u64,
    share: u64,
}

const LINEITEM: Table = Table { from: 0, share: 70 };
const ORDERS: Table = Table { from: 70, share: 16 };
const PARTSUPP: Table = Table { from: 86, share: 9 };
const PART: Table = Table { from: 95, share: 2 };
const CUSTOMER: Table = Table { from: 97, share: 2 };
const SUPPLIER: Table = Table { from: 99, share: 1 };

/// A query: the scanned table, microseconds of processor time for each 128 KB, and the number of pages that it looks up in
/// other tables meanwhile.
struct Query {
    name: &'static str,
    scans: Table,
    think_us: u64,
    looks_up: &'static [(Table, u64)],
}

const QUERIES: [Query; 8] = [
    Query { name: "q1", scans: LINEITEM, think_us: 12_000, looks_up: &[] },
    Query { name: "q3", scans: CUSTOMER, think_us: 2_000, looks_up: &[(ORDERS, 3), (LINEITEM, 3)] },
    Query { name: "q5", scans: ORDERS, think_us: 3_000, looks_up: &[(CUSTOMER, 1), (LINEITEM, 1)] },
    Query { name: "q6", scans: LINEITEM, think_us: 4_000, looks_up: &[] },
    Query { name: "q7", scans: SUPPLIER, think_us: 2_000, looks_up: &[(LINEITEM, 8)] },
    Query { name: "q11", scans: PARTSUPP, think_us: 3_000, looks_up: &[(SUPPLIER, 1)] },
    Query { name: "q12", scans: ORDERS, think_us: 3_000, looks_up: &[(LINEITEM, 1)] },
    Query { name: "q19", scans: LINEITEM, think_us: 6_000, looks_up: &[(PART, 1)] },
];

/// Bytes that queries received so far, from cache or disk.
#[derive(Clone, Default, Debug)]
pub struct UserBytes(Rc<Cell<u64>>);

impl UserBytes {
    /// Bytes so far.
    pub fn get(&self) -> u64 {
        self.0.get()
    }

    fn add(&self, pages: u64) {
        self.0.set(self.0.get() + pages * PAGE.bytes());
    }
}

/// An LRU page cache.
struct Cache {
    room: usize,
    clock: u64,
    used: HashMap<u64, u64>,
    oldest: BTreeMap<u64, u64>,
}

impl Cache {
    fn of(pages: u64) -> Self {
        Self { room: pages.max(1) as usize, clock: 0, used: HashMap::new(), oldest: BTreeMap::new() }
    }

    fn holds(&self, mut pages: std::ops::Range<u64>) -> bool {
        pages.all(|page| self.used.contains_key(&page))
    }

    fn touch(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            self.clock += 1;
            if let Some(before) = self.used.insert(page, self.clock) {
                self.oldest.remove(&before);
            }
            self.oldest.insert(self.clock, page);
            if self.used.len() > self.room
                && let Some((_, gone)) = self.oldest.pop_first()
            {
                self.used.remove(&gone);
            }
        }
    }
}

/// A step of a query.
enum Step {
    Need(std::ops::Range<u64>),
    Have(std::ops::Range<u64>),
    Then(Next),
}

struct Running {
    query: &'static Query,
    pages: u64,
    chunk: u64,
    random: Random,
    cache: Rc<RefCell<Cache>>,
    user: UserBytes,
    steps: VecDeque<Step>,
}

impl Running {
    /// The pages of a table.
    const fn table(&self, table: Table) -> std::ops::Range<u64> {
        self.pages * table.from / 100..self.pages * (table.from + table.share) / 100
    }

    /// Plans the next 128 KB of the scan and their look-ups; returns false at the end.
    fn plan(&mut self) -> bool {
        let table = self.table(self.query.scans);
        let first = table.start + self.chunk * AHEAD;
        if first >= table.end {
            return false;
        }
        self.chunk += 1;
        self.steps.push_back(Step::Need(first..(first + AHEAD).min(table.end)));
        self.steps.push_back(Step::Then(Next::Think(Span::from_micros(self.query.think_us))));
        for &(table, count) in self.query.looks_up {
            let table = self.table(table);
            for _ in 0..count {
                let page = table.start + self.random.below(table.end - table.start);
                self.steps.push_back(Step::Need(page..page + 1));
            }
        }
        true
    }
}

impl Program for Running {
    fn next(&mut self, _now: Time) -> Next {
        loop {
            match self.steps.pop_front() {
                None if !self.plan() => return Next::Exit,
                None => {}
                Some(Step::Then(next)) => return next,
                Some(Step::Have(pages)) => {
                    self.user.add(pages.end - pages.start);
                    self.cache.borrow_mut().touch(pages);
                }
                Some(Step::Need(pages)) if self.cache.borrow().holds(pages.clone()) => {
                    self.steps.push_front(Step::Have(pages));
                }
                Some(Step::Need(pages)) => {
                    let sectors = Sectors((pages.end - pages.start) as u32 * PAGE.0);
                    let io = Io::read(Sector(pages.start * u64::from(PAGE.0)), sectors);
                    self.steps.push_front(Step::Have(pages));
                    self.steps.push_front(Step::Then(Next::Await(Await::All)));
                    return Next::Submit(io);
                }
            }
        }
    }
}

impl TpcH {
    /// The processes, and the counter of the bytes that they receive.
    pub fn counted(&self) -> (Processes, UserBytes) {
        let TpcHSettings { database_bytes, cache, seed } = self.0;
        let pages = database_bytes / PAGE.bytes();
        let user = UserBytes::default();
        let cache = Rc::new(RefCell::new(Cache::of(pages * cache / 100)));
        let query = |(n, query): (usize, &'static Query)| {
            let running = Running {
                query,
                pages,
                chunk: 0,
                random: Random::new(seed ^ (n as u64 + 1).wrapping_mul(0x9e37_79b9)),
                cache: Rc::clone(&cache),
                user: user.clone(),
                steps: VecDeque::new(),
            };
            (Submitter::process(n as u32 + 1, query.name), Box::new(running) as Box<dyn Program>)
        };
        (QUERIES.iter().enumerate().map(query).collect(), user)
    }
}

impl Workload for TpcH {
    fn describe(&self) -> String {
        let TpcHSettings { database_bytes, cache, .. } = self.0;
        format!("tpc-h: eight queries over {}, {cache}% of them cached", whole(database_bytes))
    }

    fn end(&self) -> Sector {
        Sector(self.0.database_bytes.div_ceil(512))
    }

    fn processes(&self) -> Processes {
        self.counted().0
    }
}
