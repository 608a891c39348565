//! A database server with clients that run TPC-B, like PostgreSQL with pgbench. Pages are cached in the server's own memory. A
//! transaction is durable when its records in the write-ahead log are durable. Periodically a checkpoint writes all changed
//! pages, spread over time, and then syncs them at once. The sync causes the fsync freeze.
//!
//! Clients are threads of the process, so its terms apply to them; the checkpoint is a process of its own without terms. A
//! client that finds the log being written waits, and its records may be written along (group commit). Pages are read through
//! the page cache at their first use.
//!
//! Not modelled: row locks, vacuum, the growth of the history table, the background writer.
//!
//! Source: PostgreSQL's documentation, chapter "Reliability and the Write-Ahead Log", and that of pgbench.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use elevator::Random;
use elevator::{Span, Time};
use machine::Barrier;
use machine::kernel::{Descriptor, Open};
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name};

/// First pages of the table, with branches and tellers: every transaction changes one of them.
const HOT_PAGES: u64 = 16;
/// Sleep of a checkpoint that is ahead of its schedule.
const NAP: Span = Span::from_millis(100);

/// Clients that run TPC-B on a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TpcB {
    /// The accounts table.
    pub table: Name,
    /// The log, a file that is overwritten cyclically.
    pub log: Name,
    /// Time in which transactions begin; reduced by the scale.
    pub lasts: Delay,
    #[serde(default = "clients")]
    pub clients: u32,
    /// Time between the starts of two checkpoints: `checkpoint_timeout`.
    pub checkpoint_every: Delay,
    /// Share of that in which a checkpoint writes, in percent: `checkpoint_completion_target`.
    #[serde(default = "completion_percent")]
    pub completion_percent: u32,
    /// Log bytes of a transaction without page images; by default of three updates, an insert and a commit.
    #[serde(default = "records")]
    pub records: Bytes,
    #[serde(default = "page")]
    pub page: Bytes,
    /// Processor time between two transactions of a client.
    #[serde(default)]
    pub think: Delay,
    #[serde(default)]
    pub seed: u64,
}

fn clients() -> u32 {
    8
}

fn completion_percent() -> u32 {
    50
}

fn records() -> Bytes {
    Bytes(600)
}

fn page() -> Bytes {
    Bytes(8 << 10)
}

/// The server's memory.
struct Server {
    /// Cached pages.
    resident: BTreeSet<u64>,
    /// Pages that are newer than the table.
    changed: BTreeSet<u64>,
    /// Pages whose image has been logged since the last checkpoint began (`full_page_writes`).
    imaged: BTreeSet<u64>,
    /// Bytes logged.
    inserted: u64,
    /// Bytes logged durably.
    durable: u64,
    /// A client is writing the log.
    writing: bool,
    /// Clients that wait for it.
    waiting: VecDeque<Barrier>,
    clients_left: u32,
}

/// A client's descriptors and barrier.
struct Client {
    table: Descriptor,
    log: Descriptor,
    log_bytes: u64,
    waits: Barrier,
}

impl TpcB {
    /// Executes the step.
    pub async fn run(&self, os: &Os) {
        let server = Rc::new(RefCell::new(Server {
            resident: BTreeSet::new(),
            changed: BTreeSet::new(),
            imaged: BTreeSet::new(),
            inserted: 0,
            durable: 0,
            writing: false,
            waiting: VecDeque::new(),
            clients_left: self.clients,
        }));
        let end = os.now() + self.lasts.at(os.scale());
        let meetings = os.session().meetings(self.clients);
        for number in 0..self.clients {
            let (own, server, name) = (self.clone(), Rc::clone(&server), format!("{}/client", os.name()));
            let waits = Barrier { name: meetings + number, members: 2 };
            os.thread(&name, |os| async move { own.client(&os, &server, waits, number, end).await }).await;
        }
        let (own, theirs, name) = (self.clone(), Rc::clone(&server), format!("{}/checkpoint", os.name()));
        os.fork(&name, |os| async move { own.checkpoints(&os, &theirs).await }).await;
        os.wait().await;
    }

    async fn client(&self, os: &Os, server: &RefCell<Server>, waits: Barrier, number: u32, end: Time) {
        let page = self.page.0.max(1);
        let mut random = Random::new((self.seed ^ 0x7bc) + u64::from(number));
        let (table, log) = (self.table.of(os), self.log.of(os));
        let (pages, log_bytes) = ((os.stat(&table).await / page).max(1), os.stat(&log).await.max(page));
        let table = os.open(&table, Open::default()).await;
        let log = os.open(&log, Open::default()).await;
        let client = Client { table, log, log_bytes, waits };
        while os.now() < end {
            let from = os.now();
            let account = random.below(pages);
            for at in [account, random.below(HOT_PAGES.min(pages))] {
                if server.borrow_mut().resident.insert(at) {
                    os.read_at(client.table, at * page, page).await;
                }
                server.borrow_mut().change(at, page);
            }
            self.commit(os, server, &client).await;
            os.committed(from);
            os.think(self.think.0).await;
        }
        os.close(client.log).await;
        os.close(client.table).await;
        server.borrow_mut().clients_left -= 1;
    }

    /// Returns when everything logged so far is durable.
    async fn commit(&self, os: &Os, server: &RefCell<Server>, client: &Client) {
        let page = self.page.0.max(1);
        let own = {
            let mut server = server.borrow_mut();
            server.inserted += self.records.0;
            server.inserted
        };
        while server.borrow().durable < own {
            if server.borrow().writing {
                server.borrow_mut().waiting.push_back(client.waits);
                os.meet(client.waits).await;
                continue;
            }
            server.borrow_mut().writing = true;
            let (from, to) = (server.borrow().durable / page * page, server.borrow().inserted);
            for at in (from..to).step_by(page as usize) {
                os.write_at(client.log, at % (client.log_bytes / page * page), page).await;
            }
            os.fdatasync(client.log).await;
            let waiting = {
                let mut server = server.borrow_mut();
                server.durable = to;
                server.writing = false;
                std::mem::take(&mut server.waiting)
            };
            for waits in waiting {
                os.meet(waits).await;
            }
        }
    }

    async fn checkpoints(&self, os: &Os, server: &RefCell<Server>) {
        let page = self.page.0.max(1);
        let table = os.open(&self.table.of(os), Open::default()).await;
        let every = self.checkpoint_every.0;
        let takes = every * u64::from(self.completion_percent) / 100;
        let mut next = os.now() + every;
        while server.borrow().clients_left > 0 {
            if os.now() < next {
                os.think(NAP.min(next.since(os.now()))).await;
                continue;
            }
            let began = next;
            next = os.now().max(began + every);
            let changed = {
                let mut server = server.borrow_mut();
                server.imaged.clear();
                std::mem::take(&mut server.changed)
            };
            let all = changed.len().max(1) as u64;
            for (at, done) in changed.into_iter().zip(0..) {
                while server.borrow().clients_left > 0 && os.now() < began + takes * done / all {
                    os.think(NAP).await;
                }
                os.write_at(table, at * page, page).await;
            }
            os.fsync(table).await;
        }
        os.close(table).await;
    }
}

impl Server {
    /// Changes a page; the first change after a checkpoint logs its image.
    fn change(&mut self, at: u64, page: u64) {
        self.changed.insert(at);
        if self.imaged.insert(at) {
            self.inserted += page;
        }
    }
}
