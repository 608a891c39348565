//! A replicated append-only store like HDFS: writers append blocks, each through a pipeline of datanodes that write it and
//! forward it.
//!
//! Every datanode is a machine of its own. Machines exchange only messages, which take at least [`Store::latency`], so each
//! can run that long independently ([`Store::run`]).
//!
//! Simplifications: a message takes the latency, a packet additionally its transfer time, without contention; names and
//! locations cost nothing; blocks lie on random nodes; no node fails. A datanode forwards a packet, writes it to a file
//! through its page cache on the sender's account, and acknowledges it. Full blocks are not synced.
//!
//! # Sources
//! Yang et al., *Split-Level I/O Scheduling*, SOSP 2015: HDFS, slides 36 and 49. Window, packets and pipeline are those of
//! HDFS, with packets of 1 MiB instead of 64 KB and a window of 5 MB.

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
    /// Number of replicas of a block.
    pub replicas: u32,
    pub block: Bytes,
    pub packet: Bytes,
    /// Packets in flight of a writer.
    pub window: u32,
    /// Latency of a message, at least 100 us.
    pub latency: Delay,
    /// Bandwidth between two nodes in bytes a second.
    pub bandwidth: Bytes,
    /// Seed of block locations.
    #[serde(default)]
    pub seed: u64,
    /// The writers.
    pub tenant: Vec<Tenant>,
}

/// Writers of one account.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tenant {
    pub name: String,
    /// Number of writers.
    pub writers: u32,
    /// I/O limit of all of them on a datanode, in bytes a second.
    pub rate: Option<Bytes>,
}

/// Shorter latencies would synchronise the machines too often.
const LEAST_LATENCY: Span = Span::from_micros(100);
/// Interval at which a datanode checks for a new writer.
const REST: Span = Span::from_millis(10);

impl Store {
    /// The first problem in the settings.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.replicas == 0 || self.replicas > self.nodes || self.nodes > 1_000 {
            return Some("needs 1 to 1000 nodes, and from one replica to as many as nodes");
        }
        if self.packet.0 == 0 || self.block.0 < self.packet.0 || self.window == 0 || self.bandwidth.0 == 0 {
            return Some("needs a packet, a block of at least one packet, a window and a bandwidth");
        }
        if self.latency.0 < LEAST_LATENCY {
            return Some("needs a latency of at least 100 us");
        }
        if self.tenant.iter().map(|tenant| u64::from(tenant.writers)).sum::<u64>() > 1_000 {
            return Some("at most 1000 writers");
        }
        None
    }

    /// Runs the store on these machines, one for each datanode, until a time. Returns the acknowledged data of each tenant.
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

    /// The writers with their first blocks.
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

    /// Starts a datanode's processes, one for each writer.
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

/// The process of a datanode for a writer.
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
