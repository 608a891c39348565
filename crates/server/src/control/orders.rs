//! Orders from other threads to a device's thread.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use ::control::DeviceNumber;
use elevator::queue::{Fault, SwitchMode, SwitchReport};
use elevator::{Item, Scheduler, Sector, Span, Time};

use super::protocol::{AccountState, TunableState};
use crate::device::Device;
use crate::front::{Client, FrontEnd};
use crate::log::DecisionLog;
use crate::split::Joining;
use crate::statistics::Statistics;

/// Makes a scheduler from its specification.
pub type SchedulerFactory = Arc<dyn Fn(&str) -> Result<Box<dyn Scheduler>, String> + Send + Sync>;

/// Why no agent may join.
const NO_CAUSES: &str = "this server does not observe causes; start it with --causes";

/// An order to a device's thread, and where to send the result.
pub(crate) enum Order {
    Show(Sender<Box<Snapshot>>),
    Switch {
        scheduler: String,
        mode: SwitchMode,
        reply: Sender<Result<Option<SwitchReport>, String>>,
    },
    Tune {
        tunable: String,
        value: String,
        reply: Sender<Result<(), String>>,
    },
    /// The sender of the order creates the file: that may wait for the very device.
    Log {
        file: File,
        during: Span,
        reply: Sender<Result<(), String>>,
    },
    EndLog(Sender<Result<u64, String>>),
    /// An agent joins an account.
    Join(Joining, Sender<Result<DeviceNumber, String>>),
    Stop,
}

/// Why a server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// A signal or a control client requested it.
    Asked,
    /// The device's thread has ended.
    Ended,
}

/// A device's state at one moment.
pub(crate) struct Snapshot {
    pub(crate) now: Time,
    pub(crate) scheduler: String,
    pub(crate) tunables: Vec<TunableState>,
    pub(crate) items: Vec<Item>,
    pub(crate) queued: u32,
    pub(crate) in_flight: u32,
    pub(crate) depth: u32,
    pub(crate) unfinished: usize,
    pub(crate) capacity: Sector,
    pub(crate) backend: String,
    pub(crate) statistics: Statistics,
    pub(crate) clients: Vec<Client>,
    pub(crate) draining: Option<Span>,
    pub(crate) log_lost: Option<u64>,
    pub(crate) last_fault: Option<String>,
    pub(crate) accounts: Vec<AccountState>,
}

/// Obeys orders.
pub(crate) struct Orders {
    factory: SchedulerFactory,
    scheduler: String,
    /// What the latest faulty scheduler did.
    fault: Option<String>,
    /// The same, until the log has it.
    unlogged: Option<String>,
}

impl Orders {
    pub(crate) fn new(factory: SchedulerFactory, scheduler: String) -> Self {
        Self { factory, scheduler, fault: None, unlogged: None }
    }

    /// The scheduler was faulty, and the queue's own policy has replaced it.
    pub(crate) fn fell_back(&mut self, fault: Fault, queued: u32) {
        let faulty = std::mem::replace(&mut self.scheduler, "noop".to_string());
        let fault = format!("scheduler '{faulty}' {fault}; noop has taken over its {queued} queued requests");
        self.unlogged = Some(fault.clone());
        self.fault = Some(fault);
    }

    /// The latest fault of a scheduler, once.
    pub(crate) const fn fault(&mut self) -> Option<String> {
        self.unlogged.take()
    }

    /// Carries out an order. Its sender may be gone.
    pub(crate) fn handle(
        &mut self,
        order: Order,
        now: Time,
        device: &mut Device,
        fronts: &[Box<dyn FrontEnd>],
    ) {
        match order {
            Order::Show(reply) => {
                let _ = reply.send(Box::new(self.show(now, device, fronts)));
            }
            Order::Switch { scheduler, mode, reply } => {
                let _ = reply.send(self.switch(scheduler, mode, now, device));
            }
            Order::Tune { tunable, value, reply } => {
                let _ = reply.send(tune(&tunable, &value, now, device));
            }
            Order::Log { file, during, reply } => {
                let _ = reply.send(log(file, now + during, device));
            }
            Order::EndLog(reply) => {
                let log = device.queue().observer().log.take();
                let _ = reply.send(
                    log.map(|log| log.lost()).ok_or_else(|| "no decision log is being written".to_string()),
                );
            }
            Order::Join(joining, reply) => {
                let host = device.split.as_mut().ok_or_else(|| NO_CAUSES.to_string());
                let _ = reply.send(host.and_then(|host| host.join(joining)));
            }
            Order::Stop => {}
        }
    }

    pub(crate) fn show(&self, now: Time, device: &mut Device, fronts: &[Box<dyn FrontEnd>]) -> Snapshot {
        let geometry = device.backend().geometry();
        let backend = device.backend().describe();
        let accounts = device.split.as_ref().map(|host| host.accounts(now)).unwrap_or_default();
        let (unfinished, draining) = (device.unfinished(), device.draining_for());
        let queue = device.queue();
        let mut items = queue.inspect(now);
        // A policy keeps the data of accounts that are gone until their numbers are used again.
        let is_present = |number| {
            accounts.is_empty() || accounts.iter().any(|account| u64::from(account.number) == number)
        };
        items.retain(|item| item.kind != "account" || is_present(item.number));
        Snapshot {
            now,
            scheduler: self.scheduler.clone(),
            tunables: queue.with_chosen(now, "tunables", tunables).unwrap_or_default(),
            items,
            queued: queue.queued(),
            in_flight: queue.in_flight(),
            depth: queue.options().depth,
            unfinished,
            capacity: geometry.capacity,
            backend,
            statistics: queue.observer().statistics.clone(),
            clients: fronts.iter().flat_map(|front| front.clients()).collect(),
            draining,
            log_lost: queue.observer().log.as_ref().map(DecisionLog::lost),
            last_fault: self.fault.clone(),
            accounts,
        }
    }

    fn switch(
        &mut self,
        name: String,
        mode: SwitchMode,
        now: Time,
        device: &mut Device,
    ) -> Result<Option<SwitchReport>, String> {
        let scheduler = (self.factory)(&name)?;
        self.scheduler = name;
        Ok(device.switch(now, scheduler, mode))
    }
}

fn tunables(scheduler: &mut dyn Scheduler) -> Vec<TunableState> {
    let state = |tunable: &elevator::Tunable| TunableState {
        name: tunable.name.to_string(),
        value: scheduler.tunable(tunable.name).unwrap_or(tunable.default).to_string(),
        default: tunable.default.to_string(),
        min: tunable.min.to_string(),
        max: tunable.max.to_string(),
        doc: tunable.doc.trim().to_string(),
    };
    scheduler.tunables().iter().map(state).collect()
}

fn tune(name: &str, value: &str, now: Time, device: &mut Device) -> Result<(), String> {
    let tune = |scheduler: &mut dyn Scheduler| {
        let known = scheduler.tunables().iter().find(|tunable| tunable.name == name);
        let tunable = known.ok_or_else(|| elevator::TuneError::unknown(name).to_string())?;
        let value = tunable.parse(value).map_err(|error| error.to_string())?;
        scheduler.tune(name, value).map_err(|error| error.to_string())
    };
    let tuned = device.queue().with_chosen(now, "tune", tune);
    tuned.unwrap_or_else(|| Err("the scheduler panicked; noop has taken over".to_string()))
}

fn log(file: File, until: Time, device: &mut Device) -> Result<(), String> {
    let watch = device.queue().observer();
    if watch.log.is_some() {
        return Err("a decision log is being written already".to_string());
    }
    watch.log = Some(DecisionLog::start(file, until).map_err(|error| error.to_string())?);
    Ok(())
}
