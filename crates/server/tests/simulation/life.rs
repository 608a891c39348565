//! A life of a disk: consecutive servers, their clients, and what happens to them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use elevator::check::Checker;
use elevator::queue::{Barriers, Cache, Event, Limits, Observer, Options, Plugging, Supervision};
use elevator::{Load, Random, Span, Time};
use server::simulation::{SharedMemory, Simulated};

use crate::client::{Client, Findings, Kind};
use crate::disk::{self, Disk, Faults, Mutation};
use crate::faulty;
use crate::oracle::Oracle;
use crate::policies::{SCHEDULERS, schedulers};

/// Sectors of the disk: few, so that requests overlap.
const SECTORS: u32 = 8192;

/// Memory that the server may hold for one client, in bytes: `--connections` states 40 MiB.
const BUDGET: u64 = 40 << 20;

/// Maximum duration of a request, including the longest faults of device and scheduler: a hung job takes a minute, and several may hang
/// before it.
const PATIENCE: Span = Span::from_secs(1800);

/// Counts of events in one or more lives.
#[derive(Default, Debug)]
pub struct Totals {
    pub lives: u64,
    pub sent: u64,
    pub answered: u64,
    pub failed: u64,
    pub power_losses: u64,
    pub kills: u64,
    pub stops: u64,
    pub disconnects: u64,
    pub switches: u64,
    pub scheduler_faults: u64,
    pub hoards: u64,
    /// Clients that held the memory of all for too long.
    pub hoarders_disconnected: u64,
    /// Requests and clients that were refused for lack of memory.
    pub refused: u64,
    /// Jobs that the disk never returned.
    pub lost_jobs: u64,
    /// Requests that were sent while the policy's bound on waiting was compared.
    pub bounded: u64,
    /// Most memory that the server held for one client, in bytes.
    pub most_held: u64,
    pub longest_ns: u64,
}

impl Totals {
    pub fn add(&mut self, other: &Self) {
        self.lives += other.lives;
        self.sent += other.sent;
        self.answered += other.answered;
        self.failed += other.failed;
        self.power_losses += other.power_losses;
        self.kills += other.kills;
        self.stops += other.stops;
        self.disconnects += other.disconnects;
        self.switches += other.switches;
        self.scheduler_faults += other.scheduler_faults;
        self.hoards += other.hoards;
        self.hoarders_disconnected += other.hoarders_disconnected;
        self.refused += other.refused;
        self.lost_jobs += other.lost_jobs;
        self.bounded += other.bounded;
        self.most_held = self.most_held.max(other.most_held);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

#[derive(Clone)]
struct SharedChecker(Arc<Mutex<Checker>>);

impl Observer for SharedChecker {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        self.0.lock().unwrap().event(now, event);
    }
}

/// One life of a disk: consecutive servers and their clients.
struct Life {
    random: Random,
    disk: Rc<RefCell<Disk>>,
    oracle: Oracle,
    now: Time,
    totals: Totals,
    ids: faulty::Shared,
    /// Memory is scarce: about every second request for it is refused.
    scarce: Rc<Cell<bool>>,
    /// When memory was scarce last.
    scarce_until: Option<Time>,
}

/// A server and its clients.
struct Serving {
    server: Simulated,
    clients: Vec<Client>,
    checker: Option<SharedChecker>,
    /// The scheduler may be reported as faulty: it is, or a tunable allows waits beyond the limits.
    may_be_faulty: bool,
    /// No fault occurs, so no request may wait in the scheduler for longer than the policy states.
    is_calm: bool,
    /// The policy states a bound, which is compared.
    is_bounded: bool,
    window: usize,
    /// The limit of memory for all clients together.
    memory: Option<SharedMemory>,
}

impl Serving {
    /// The violations that the queue's checker has found so far.
    fn check(&self) -> Result<(), String> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let checker = checker.0.lock().unwrap();
        if checker.count() > 0 { Err(checker.violations().join("\n  ")) } else { Ok(()) }
    }
}

impl Life {
    fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut random = Random::new(seed);
        let mut disk = Disk::new(u64::from(SECTORS), Random::new(random.next()));
        disk.mutation = mutation;
        Self {
            random,
            disk: Rc::new(RefCell::new(disk)),
            oracle: Oracle::new(u64::from(SECTORS)),
            now: Time::ZERO,
            totals: Totals { lives: 1, ..Totals::default() },
            ids: faulty::Shared::default(),
            scarce: Rc::default(),
            scarce_until: None,
        }
    }

    /// Whether the server is refused memory, from now on.
    fn refusing(&mut self) -> impl FnMut(usize) -> bool + use<> {
        let (scarce, mut random) = (self.scarce.clone(), Random::new(self.random.next()));
        move |_| scarce.get() && random.once_in(2)
    }

    fn mutation(&self) -> Option<Mutation> {
        self.disk.borrow().mutation
    }

    fn scheduler(&mut self) -> (String, bool) {
        if self.random.once_in(6) {
            return (format!("faulty-{}", self.random.below(100)), true);
        }
        (SCHEDULERS[self.random.below(SCHEDULERS.len() as u64) as usize].to_string(), false)
    }

    /// Starts another server over the same disk with random options.
    fn serve(&mut self) -> Serving {
        self.scarce.set(false);
        let refusing = self.refusing();
        let random = &mut self.random;
        let mut disk = self.disk.borrow_mut();
        disk.geometry.depth = [1, 2, 4, 8, 31, 31][random.below(6) as usize];
        disk.set_cache(match random.below(4) {
            0 => Cache::WriteThrough,
            1 => Cache::WriteBack { fua: false },
            _ => Cache::WriteBack { fua: true },
        });
        disk.geometry.barriers = match random.below(6) {
            0 => Barriers::Alone,
            1 => Barriers::Serial,
            2 => Barriers::Drain,
            _ => Barriers::Completed,
        };
        disk.service = Span::from_micros([20, 100, 1_000, 10_000][random.below(4) as usize]);
        disk.no_punch = random.once_in(4);
        disk.faults = match random.below(4) {
            0 => Faults::default(),
            1 => Faults { short: 8, interrupted: 16, late: 2_000, ..Faults::default() },
            2 => Faults { error: 300, short: 20, interrupted: 50, late: 5_000, hung: 0, lost: 2_000 },
            _ => Faults { error: 30, short: 8, interrupted: 20, late: 5_000, hung: 5_000, lost: 5_000 },
        };
        // In a calm epoch the device serves one request at a time without errors, so that the policy's bound on waiting applies. Late jobs
        // and short calls are permitted: the bound is stated for the longest service.
        let is_calm = random.once_in(5);
        let is_late = is_calm && random.once_in(2);
        if is_calm {
            let (late, short) = if is_late { (500, 8) } else { (0, 0) };
            disk.faults = Faults { late, short, interrupted: short, ..Faults::default() };
            disk.geometry.barriers = Barriers::Completed;
            disk.geometry.depth = 1;
            disk.set_cache(Cache::WriteThrough);
        }
        let (service, mutation) = (disk.service * if is_late { 2_000 } else { 2 }, disk.mutation);
        drop(disk);
        let limits = match random.below(3) {
            0 => Limits { nr_requests: 4, batch_requests: 2, ..Limits::default() },
            1 => Limits { nr_requests: 32, ..Limits::default() },
            _ => Limits::default(),
        };
        let plugging = match random.below(4) {
            0 => Plugging::None,
            // The plug's delay is not part of a policy's bound.
            1 if !is_calm => Plugging::Queue { threshold: 4, delay: Span::from_millis(3) },
            _ => Plugging::Task { most: 32 },
        };
        let (window, checks, clients) =
            ([1, 4, 16, 64][random.below(4) as usize], is_calm || random.once_in(8), 1 + random.below(4));
        // With a timeout, requests of jobs that never complete fail.
        let never = [Mutation::NeverAnswers, Mutation::LosesAtSwitch];
        let times_out = random.once_in(2) && !mutation.is_some_and(|mutation| never.contains(&mutation));
        // Shorter than a late job takes, and longer than any other.
        let is_short = times_out && random.once_in(2) && !is_calm;
        let (name, is_faulty) = self.scheduler();
        let is_calm = is_calm && !is_faulty;
        let name =
            if is_calm && mutation == Some(Mutation::BreaksBound) { "delays".to_string() } else { name };
        let supervision = if is_faulty {
            let limit = Some(Span::from_secs(1));
            Supervision { longest_hold: limit, oldest: limit, overtaken: 200 }
        } else {
            Supervision::default()
        };
        // Half of the servers have little memory for all clients together.
        let memory = (self.random.once_in(2) && !is_calm).then(|| SharedMemory {
            own: [4 << 10, 64 << 10, 1 << 20][self.random.below(3) as usize],
            common: [4 << 20, 6 << 20][self.random.below(2) as usize],
            idle: Span::from_millis([300, 10_000][self.random.below(2) as usize]),
        });
        let disk = disk::Shared(self.disk.clone());
        let geometry = self.disk.borrow().geometry;
        let (depth, cache, barriers) = (geometry.depth, geometry.cache, geometry.barriers);
        let options = Options { limits, plugging, supervision, depth, cache, barriers, ..Options::default() };
        let mut is_bounded = false;
        let checker = checks.then(|| {
            let mut checker = Checker::new(&options);
            checker.tolerate_faults();
            if is_calm {
                let made = schedulers(self.ids.clone())(&name).expect("a scheduler of that name");
                let load = Load { requests: window as u32 * clients as u32, depth, service };
                let bound = made.longest_wait(load);
                is_bounded = bound.is_some();
                checker.set_bound(bound);
            }
            SharedChecker(Arc::new(Mutex::new(checker)))
        });
        let observer = checker.clone().map(|checker| Box::new(checker) as Box<dyn Observer + Send>);
        let mut server =
            Simulated::new(options, &name, schedulers(self.ids.clone()), Box::new(disk), observer, memory);
        server.refuse_memory(refusing);
        if mutation == Some(Mutation::ForgetsOverdue) {
            server.forget_overdue();
        }
        let mut disk = self.disk.borrow_mut();
        let timeout = times_out.then(|| if is_short { disk.service * 100 } else { Span::from_secs(20) });
        if is_short {
            disk.faults.late = 500;
        }
        if let Some(timeout) = timeout {
            server.set_timeout(timeout);
        }
        disk.timeout = timeout;
        drop(disk);
        let mut serving = Serving {
            server,
            clients: Vec::new(),
            checker,
            may_be_faulty: is_faulty,
            is_calm,
            is_bounded,
            window,
            memory,
        };
        for _ in 0..clients {
            self.connect(&mut serving);
        }
        serving
    }

    fn connect(&mut self, serving: &mut Serving) {
        let structured = self.random.once_in(2);
        let channel = serving.server.connect(structured);
        if self.random.once_in(3) {
            channel.borrow_mut().most = [100, 4096, 65_536][self.random.below(3) as usize];
        }
        let (met_scarcity, was_slow) = (self.scarce.get(), channel.borrow().most < usize::MAX);
        let mut client = Client::new(channel, structured, met_scarcity);
        client.was_slow = was_slow;
        serving.clients.push(client);
    }

    /// One server, from its start until it is stopped, killed, or loses power.
    fn epoch(&mut self, requests: u64) -> Result<(), String> {
        let mut serving = self.serve();
        let until = self.totals.sent + requests;
        while self.totals.sent < until {
            self.clients_act(&mut serving);
            self.disturb(&mut serving)?;
            self.round(&mut serving)?;
        }
        if serving.is_bounded {
            self.totals.bounded += requests;
        }
        serving.check()?;
        match self.random.below(3) {
            0 => self.lose_power(serving),
            1 => {
                self.totals.kills += 1;
                drop(serving);
                self.disk.borrow_mut().lose_server();
                self.oracle.crashed(false);
                Ok(())
            }
            _ => self.stop(serving),
        }
    }

    fn clients_act(&mut self, serving: &mut Serving) {
        for client in serving.clients.iter_mut().filter(|client| !client.gone && !client.leaving) {
            if client.pending.len() >= serving.window || self.random.once_in(4) {
                continue;
            }
            let most = (serving.window - client.pending.len()) as u64;
            for _ in 0..1 + self.random.below(most.min(12)) {
                client.send_any(self.now, SECTORS, &mut self.random, &mut self.oracle);
                self.totals.sent += 1;
            }
        }
    }

    /// Rare events: control orders, a full disk, clients that leave or stop reading.
    fn disturb(&mut self, serving: &mut Serving) -> Result<(), String> {
        if serving.is_calm {
            return Ok(());
        }
        // With little memory for all clients, a few requests hold all of it.
        if self.random.once_in(if serving.memory.is_some() { 20_000 } else { 500_000 }) {
            self.hoard(serving);
        }
        match self.random.below(2_000) {
            0..4 => {
                let (name, is_faulty) = self.scheduler();
                // The limits of a server are fixed at its start; with long limits a faulty policy is detected later.
                serving.may_be_faulty |= is_faulty;
                serving.server.switch(self.now, &name, self.random.once_in(2))?;
                self.disk.borrow_mut().switched();
                self.totals.switches += 1;
            }
            4..7 => self.tune(serving),
            7..10 => {
                let full = self.random.once_in(2);
                self.disk.borrow_mut().full = full;
            }
            10 => {
                let is_scarce = self.random.once_in(2);
                self.scarce.set(is_scarce);
                serving.clients.iter_mut().for_each(|client| client.met_scarcity |= is_scarce);
            }
            11..14 => {
                let at = self.random.below(serving.clients.len() as u64) as usize;
                let is_mutated = self.mutation() == Some(Mutation::RunsCutOff);
                let client = &mut serving.clients[at];
                if !client.gone && !client.leaving {
                    self.totals.disconnects += 1;
                    if self.random.once_in(3) {
                        client.send_disconnect()
                    } else {
                        client.leave(&mut self.random, is_mutated)
                    }
                }
                self.connect(serving);
            }
            14..30 => {
                let at = self.random.below(serving.clients.len() as u64) as usize;
                let client = &mut serving.clients[at];
                client.deaf_until = self.now + Span::from_millis(self.random.below(50));
                client.was_slow = true;
                client.channel.borrow_mut().capacity = self.random.below(1 << 14) as usize;
            }
            _ => {}
        }
        Ok(())
    }

    /// A client requests more data than the server may hold for a client, and does not read for a while.
    fn hoard(&mut self, serving: &mut Serving) {
        self.connect(serving);
        let (deaf, requests) = match serving.memory {
            Some(memory) => (memory.idle * (1 + self.random.below(3)), 8),
            None => (Span::from_millis(500), 60),
        };
        let Some(client) = serving.clients.last_mut() else { return };
        client.deaf_until = self.now + deaf;
        (client.hoards_since, client.was_slow) = (Some(self.now), true);
        client.channel.borrow_mut().capacity = 1 << 10;
        for _ in 0..requests {
            client.send(self.now, Kind::Read, false, 0, 2_049, &mut self.random, &mut self.oracle);
            self.totals.sent += 1;
        }
        self.totals.hoards += 1;
    }

    fn tune(&mut self, serving: &mut Serving) {
        let tunables = serving.server.tunables(self.now);
        if tunables.is_empty() {
            return;
        }
        let [name, min, max] = &tunables[self.random.below(tunables.len() as u64) as usize];
        let value = if self.random.once_in(2) { min } else { max };
        // Some values are only allowed together with others.
        let _ = serving.server.tune(self.now, name, value);
        serving.may_be_faulty = true;
    }

    /// Advances the time to the next event of the server or a client, and runs one round of the server.
    fn round(&mut self, serving: &mut Serving) -> Result<(), String> {
        let scale = self.disk.borrow().service.as_nanos();
        let soon = self.now + Span::from_nanos(1 + self.random.below(scale));
        let waits = self.random.once_in(2);
        self.now = match serving.server.due() {
            Some(due) if due <= soon || waits => due.max(self.now).min(self.now + Span::from_secs(60)),
            _ => soon,
        };
        serving.server.round(self.now);
        if self.random.once_in(256) {
            let held = serving.server.most_held();
            self.totals.most_held = self.totals.most_held.max(held);
            if held > BUDGET {
                return Err(format!("the server holds {held} bytes for one client"));
            }
            let (all, clients) = serving.server.held();
            let most = serving
                .memory
                .map_or(u64::MAX, |memory| (memory.common as u64) + clients * memory.own as u64);
            if all > most {
                return Err(format!("the server holds {all} bytes for {clients} clients, more than {most}"));
            }
        }
        self.read_replies(serving, None)
    }

    /// Clients read their replies; everything is checked.
    fn read_replies(
        &mut self,
        serving: &mut Serving,
        mut found: Option<&mut Vec<(u32, u64)>>,
    ) -> Result<(), String> {
        let mut violation = None;
        let mut flush = None;
        if self.scarce.get() {
            self.scarce_until = Some(self.now);
        }
        let disk = self.disk.borrow();
        for client in &mut serving.clients {
            let ended = client.channel.borrow().ended;
            if (client.deaf_until <= self.now || ended) && client.deaf_until != Time::ZERO {
                client.deaf_until = Time::ZERO;
                client.channel.borrow_mut().capacity = usize::MAX;
            }
            let mut findings = Findings {
                oracle: &mut self.oracle,
                disk: &disk,
                scarce: self.scarce_until,
                now: self.now,
                answered: 0,
                failed: 0,
                longest: 0,
                violation: None,
                acknowledged_flush: None,
                refused: 0,
                is_mutated: disk.mutation == Some(Mutation::AcknowledgesRefused),
                found: found.as_deref_mut(),
            };
            client.read_replies(&mut findings);
            self.totals.answered += findings.answered;
            self.totals.failed += findings.failed;
            self.totals.refused += findings.refused;
            self.totals.longest_ns = self.totals.longest_ns.max(findings.longest);
            flush = flush.max(findings.acknowledged_flush);
            violation = violation.or(findings.violation);
            let oldest = client.pending.iter().map(|pending| pending.at).min();
            let deaf = client.deaf_until != Time::ZERO;
            if oldest.is_some_and(|at| self.now.since(at) > PATIENCE) && !client.gone && !deaf {
                violation.get_or_insert_with(|| format!("no answer within {PATIENCE}: {:?}", client.pending));
            }
        }
        drop(disk);
        if let Some(sent) = flush {
            self.check_flush(sent)?;
        }
        self.remove_ended(serving)?;
        if let Some(fault) = serving.server.fault() {
            self.totals.scheduler_faults += 1;
            if !serving.may_be_faulty {
                return Err(fault);
            }
        }
        if let Some(found) = self.disk.borrow().violation.clone().or(violation) {
            return Err(found);
        }
        Ok(())
    }

    /// Every write that was acknowledged before the flush was sent is durable.
    fn check_flush(&self, sent: u64) -> Result<(), String> {
        let disk = self.disk.borrow();
        let mut lost =
            disk.volatile_stamps().filter(|&(_, stamp)| self.oracle.is_acknowledged_before(stamp, sent));
        match lost.next() {
            None => Ok(()),
            Some((sector, stamp)) => Err(format!(
                "the flush sent at {sent} was acknowledged; write {stamp} to sector {sector} is not durable"
            )),
        }
    }

    /// Removes clients whose connections the server has closed.
    fn remove_ended(&mut self, serving: &mut Serving) -> Result<(), String> {
        let mut horizon = u64::MAX;
        let mut at = 0;
        while at < serving.clients.len() {
            let client = &mut serving.clients[at];
            let ended = client.channel.borrow().ended;
            if ended {
                // There was no memory for the connection.
                let is_refused = client.is_new && client.met_scarcity;
                if is_refused {
                    self.totals.refused += 1;
                } else if let Some(memory) = serving.memory
                    && client.was_slow
                    && client.hoards_since.is_none_or(|since| self.now.since(since) >= memory.idle)
                {
                    // It may have held memory for which another client waited. A client that reads at once is never disconnected.
                    self.totals.hoarders_disconnected += 1;
                } else if !client.gone && !client.leaving {
                    return Err("the server has disconnected a client that obeys the protocol".to_string());
                }
                if client.leaving && !is_refused && !client.was_slow && !client.pending.is_empty() {
                    return Err(format!(
                        "a client that sent a disconnect request got no reply to {:?}",
                        client.pending
                    ));
                }
                client.forget(&mut self.oracle);
                serving.clients.swap_remove(at);
                continue;
            }
            horizon = client
                .pending
                .iter()
                .map(|pending| pending.sent)
                .min()
                .map_or(horizon, |sent| horizon.min(sent));
            at += 1;
        }
        self.oracle.set_horizon(horizon);
        if serving.clients.is_empty() {
            self.connect(serving);
        }
        Ok(())
    }

    /// Orders the server to stop: it must reply to all accepted requests in a bounded time.
    fn stop(&mut self, mut serving: Serving) -> Result<(), String> {
        self.totals.stops += 1;
        self.drain(&mut serving)?;
        serving.server.stop(self.now);
        let begun = self.now;
        while !serving.server.is_done() {
            serving.server.round(self.now);
            for client in &mut serving.clients {
                client.channel.borrow_mut().capacity = usize::MAX;
            }
            self.now = serving.server.due().unwrap_or(self.now).max(self.now + Span::from_micros(100));
            if self.now.since(begun) > PATIENCE {
                return Err(format!("the server has not stopped within {PATIENCE}"));
            }
        }
        if let Some(checker) = &serving.checker {
            checker.0.lock().unwrap().finish();
        }
        serving.check()?;
        drop(serving);
        self.disk.borrow_mut().lose_server();
        self.oracle.crashed(false);
        Ok(())
    }

    /// Clients send no requests until all replies have arrived.
    fn drain(&mut self, serving: &mut Serving) -> Result<(), String> {
        let begun = self.now;
        loop {
            let unanswered: usize = serving.clients.iter().map(|client| client.pending.len()).sum();
            if unanswered == 0 {
                return Ok(());
            }
            if self.now.since(begun) > PATIENCE {
                return Err(format!("{unanswered} requests were never answered"));
            }
            self.round(serving)?;
        }
    }

    /// A power loss, after which every sector is read.
    fn lose_power(&mut self, serving: Serving) -> Result<(), String> {
        self.totals.power_losses += 1;
        drop(serving);
        self.disk.borrow_mut().lose_power();
        self.oracle.crashed(true);
        let mut serving = self.serve();
        self.disk.borrow_mut().faults = Faults::default();
        let (stride, mut found) = (128, Vec::new());
        for first in (0..SECTORS).step_by(stride as usize) {
            let client = &mut serving.clients[0];
            client.send(self.now, Kind::Read, false, first, stride, &mut self.random, &mut self.oracle);
            self.totals.sent += 1;
            while !serving.clients[0].pending.is_empty() {
                let begun = self.now;
                serving.server.round(self.now);
                self.read_replies(&mut serving, Some(&mut found))?;
                let due = serving.server.due();
                self.now = due.unwrap_or(self.now).max(self.now + Span::from_micros(1));
                if self.now.since(begun) > PATIENCE {
                    return Err("a read after the power loss is not answered".to_string());
                }
            }
        }
        if found.len() != SECTORS as usize {
            return Err(format!("{} of {SECTORS} sectors were read after the power loss", found.len()));
        }
        for (sector, stamp) in found {
            self.oracle.found(sector, stamp);
        }
        Ok(())
    }
}

/// Runs one life; returns its counts, or the violation.
pub fn live(seed: u64, requests: u64, mutation: Option<Mutation>) -> Result<Totals, String> {
    let mut life = Life::new(seed, mutation);
    while life.totals.sent < requests {
        let epoch = 500 + life.random.below(12_000);
        let name = (life.totals.sent, epoch);
        life.epoch(epoch).map_err(|violation| {
            format!(
                "DWELL_SEED={seed} repeats this: after {} of {name:?} requests: {violation}",
                life.totals.sent
            )
        })?;
    }
    life.totals.lost_jobs = life.disk.borrow().lost;
    Ok(life.totals)
}
