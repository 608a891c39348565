//! A replicated append-only store, like HDFS: writers append blocks, each of which goes through a pipeline of datanodes
//! that write it and pass it on.
//!
//! Every datanode is a machine of its own. They share nothing but messages, and a message takes at least
//! [`Store::latency`]; so each may run for so long without hearing of the others ([`Store::run`]).
//!
//! Modelled simply: a message takes the latency, and a packet its bytes over the bandwidth beside that, whatever else is on
//! the way; names and places are known without asking; blocks lie on nodes drawn at random; nobody fails. A datanode writes a packet into a file
//! of its own through its page cache, on the account of the tenant who sent it, passes it on before it writes it, and
//! acknowledges it when it has written it. A block is not made durable when it is full.
//!
//! # Sources
//! Yang et al., *Split-Level I/O Scheduling*, SOSP 2015: HDFS, slides 36 and 49. The window, packets and pipeline are HDFS's,
//! with packets of 1 MiB instead of 64 KB and as many of them as are 5 MB.

mod pipeline;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use elevator::Random;
use elevator::split::Terms;
use elevator::{Priority, Span, Time};
use machine::kernel::Open;
use machine::{Failure, Machine, Stop, Submitter};
use serde::Deserialize;

use self::pipeline::{Network, Pipeline};
use crate::contents::Contents;
use crate::programs::diary::Seen;
use crate::programs::os::{Os, Part, Session, Start, program};
use crate::programs::units::{Bytes, Delay};

/// The store of a script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Store {
    /// Datanodes.
    pub nodes: u32,
    /// How many of them hold a block.
    pub replicas: u32,
    /// Bytes of a block.
    pub block: Bytes,
    /// Bytes of a packet.
    pub packet: Bytes,
    /// Packets that a writer sends before the first of them is acknowledged.
    pub window: u32,
    /// What a message takes, at least 100 microseconds.
    pub latency: Delay,
    /// Bytes a second between two nodes.
    pub bandwidth: Bytes,
    /// Of the places that are drawn.
    #[serde(default)]
    pub seed: u64,
    /// Who writes.
    pub tenant: Vec<Tenant>,
}

/// Writers on one account.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// How many.
    pub writers: u32,
    /// The most I/O that all of them may cause on a datanode, in bytes a second.
    pub rate: Option<Bytes>,
}

/// A shorter latency would make machines stop for each other all the time.
const LEAST_LATENCY: Span = Span::from_micros(100);
/// How often a datanode looks whether a writer has come to it.
const REST: Span = Span::from_millis(10);

impl Store {
    /// What cannot work, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.replicas == 0 || self.replicas > self.nodes || self.nodes > 1_000 {
            return Some("needs 1 to 1000 nodes, and at least one replica and no more than nodes");
        }
        if self.packet.0 == 0 || self.block.0 < self.packet.0 || self.window == 0 || self.bandwidth.0 == 0 {
            return Some("needs a packet, a block of at least one packet, a window and a bandwidth");
        }
        if self.latency.0 < LEAST_LATENCY {
            return Some("needs a latency of at least 100 us: machines stop for each other that often");
        }
        if self.tenant.iter().map(|tenant| u64::from(tenant.writers)).sum::<u64>() > 1_000 {
            return Some("at most 1000 writers");
        }
        None
    }

    /// Runs it on these machines, one for each datanode, until this time; what the tenants' writers had acknowledged.
    ///
    /// # Errors
    /// A machine's failure.
    pub fn run(
        &self,
        machines: &mut [Machine],
        until: Time,
        asked: fn() -> bool,
    ) -> Result<BTreeMap<String, Seen>, Failure> {
        let writers = Rc::new(RefCell::new(self.writers()));
        for (node, machine) in (0..).zip(&mut *machines) {
            self.populate(machine, node, &writers);
        }
        let mut now = Time::ZERO;
        while now < until && !asked() {
            now = (now + self.latency.0).min(until);
            for machine in &mut *machines {
                machine.run(Stop { at: now, asked })?;
            }
        }
        Ok(self.seen(&writers.borrow(), now))
    }

    /// The writers, each with its first block on its way.
    fn writers(&self) -> Vec<Pipeline> {
        let mut random = Random::new(self.seed ^ 0x4d5);
        let network = Network {
            latency: self.latency.0,
            packet: Span::from_nanos(
                (u128::from(self.packet.0) * 1_000_000_000 / u128::from(self.bandwidth.0)) as u64,
            ),
        };
        let of = |tenant: usize| (0..self.tenant[tenant].writers).map(move |_| tenant);
        (0..self.tenant.len())
            .flat_map(of)
            .map(|tenant| {
                let packets = self.block.0 / self.packet.0;
                let nodes = (self.nodes, self.replicas as usize);
                let seed = Random::new(random.below(u64::MAX));
                Pipeline::new(tenant, nodes, packets, self.window.into(), network, seed)
            })
            .collect()
    }

    /// A datanode: for every writer somebody who takes what it sends here.
    fn populate(&self, machine: &mut Machine, node: u32, writers: &Rc<RefCell<Vec<Pipeline>>>) {
        let session = Session::new(1.0, Contents::default());
        let accounts: Vec<_> = self.tenant.iter().map(|_| session.process()).collect();
        for (tenant, account) in self.tenant.iter().zip(&accounts) {
            let rate = tenant.rate.map(|rate| rate.0);
            machine.agree(account.group, Terms { rate, ..Terms::default() });
        }
        let tenants: Vec<usize> = writers.borrow().iter().map(Pipeline::tenant).collect();
        for (writer, tenant) in tenants.into_iter().enumerate() {
            let name = self.tenant[tenant].name.clone();
            let who = Submitter { process: Some(accounts[tenant]), priority: Priority::default(), name };
            let start = Start { part: Part::Measured, copy: writer as u32 + 1, after: Span::ZERO };
            let taker = Taker { writers: Rc::clone(writers), writer, node, store: self.clone() };
            machine
                .start(who.clone(), program(&session, &who, start, |os| async move { taker.run(&os).await }));
        }
    }

    fn seen(&self, writers: &[Pipeline], now: Time) -> BTreeMap<String, Seen> {
        let tenant = |(index, tenant): (usize, &Tenant)| {
            let own = writers.iter().filter(|writer| writer.tenant() == index);
            let written_bytes = own.map(Pipeline::acknowledged).sum::<u64>() * self.packet.0;
            (tenant.name.clone(), Seen { to_ns: now.as_nanos(), written_bytes, ..Seen::default() })
        };
        self.tenant.iter().enumerate().map(tenant).collect()
    }
}

/// What a datanode runs for one writer.
struct Taker {
    writers: Rc<RefCell<Vec<Pipeline>>>,
    writer: usize,
    node: u32,
    store: Store,
}

impl Taker {
    async fn run(&self, os: &Os) {
        let mut open = None;
        loop {
            let stage = self.writers.borrow()[self.writer].stage(self.node);
            let Some((block, stage)) = stage else {
                if let Some((_, file)) = open.take() {
                    os.close(file).await;
                }
                os.think(REST).await;
                continue;
            };
            if !self.writers.borrow_mut()[self.writer].take(stage, os.now()) {
                os.think(self.store.latency.0).await;
                continue;
            }
            let file = match open {
                Some((of, file)) if of == block => file,
                before => {
                    if let Some((_, file)) = before {
                        os.close(file).await;
                    }
                    let path = format!("/{}-{block}", self.writer).into();
                    let file = os.open(&path, Open { create: true, ..Open::default() }).await;
                    open = Some((block, file));
                    file
                }
            };
            os.write(file, self.store.packet.0).await;
            self.writers.borrow_mut()[self.writer].wrote(stage, os.now());
        }
    }
}
