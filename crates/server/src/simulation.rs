//! The core of the server in virtual time: queue, scheduler, device, NBD connections and control orders, without thread, clock or
//! socket. The caller provides the back end, the clients and the time; equal calls give equal results.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::channel;

use elevator::queue::{Observer, Options, Queue, SwitchMode};
use elevator::{Span, Time};

use crate::backend::Backend;
pub use crate::backend::{Calls, carry_out};
use crate::control::{Order, Orders, SchedulerFactory};
use crate::core::Core;
use crate::device::Device;
use crate::nbd::memory::{ARRIVALS, Arrivals, MemoryNbd};
pub use crate::nbd::memory::{Bytes, Channel, SharedMemory};
use crate::nbd::negotiation::Agreed;
use crate::statistics::Watch;

/// The index of the only front end.
const FRONT: u8 = 0;

/// A server's core and its clients.
pub struct Simulated {
    core: Core,
    arrivals: Arrivals,
    channels: Vec<Rc<RefCell<Channel>>>,
    /// How long the back end may take for a request, and when this is compared next.
    timeout: Option<(Span, Time)>,
}

impl Simulated {
    /// A server that serves `backend` under the scheduler of that name.
    ///
    /// # Panics
    /// There is no such scheduler, or no descriptor for a poller, which is not used.
    pub fn new(
        options: Options,
        scheduler: &str,
        schedulers: SchedulerFactory,
        backend: Box<dyn Backend>,
        observer: Option<Box<dyn Observer + Send>>,
        memory: Option<SharedMemory>,
    ) -> Self {
        let geometry = backend.geometry();
        let options = Options {
            depth: options.depth.min(geometry.depth),
            cache: geometry.cache,
            barriers: geometry.barriers,
            ..options
        };
        let made = schedulers(scheduler).expect("a scheduler of that name");
        let device = Device::new(Queue::observed(options, made, Watch::new(observer)), backend);
        let arrivals = Arrivals::new();
        let front = Box::new(MemoryNbd::new(arrivals.clone(), memory));
        let handler = Orders::new(schedulers, scheduler.to_string());
        let core = Core::new(device, vec![front], handler).expect("a descriptor");
        Self { core, arrivals, channels: Vec::new(), timeout: None }
    }

    /// Fails requests that the back end has for longer than this, as `--request-timeout` does.
    pub const fn set_timeout(&mut self, timeout: Span) {
        self.timeout = Some((timeout, Time::ZERO));
    }

    /// A deliberate fault, to test the tests: writes to the sectors of a request that failed in this manner are started before the back
    /// end has returned that request.
    pub const fn forget_overdue(&mut self) {
        self.core.device.forgets_timed_out = true;
    }

    /// Refuses clients memory whenever `refuses` returns true for the number of bytes.
    pub fn refuse_memory(&mut self, refuses: impl FnMut(usize) -> bool + 'static) {
        self.core.device.pool.refuse(refuses);
    }

    /// A client connects, with structured replies or without.
    pub fn connect(&mut self, structured: bool) -> Rc<RefCell<Channel>> {
        let channel = self.arrivals.connect(Agreed { structured, base_allocation: structured });
        self.channels.push(channel.clone());
        channel
    }

    /// One round of the device's thread at `now`.
    pub fn round(&mut self, now: Time) {
        if let Some((limit, at)) = &mut self.timeout
            && *at <= now
        {
            *at = now + Span::from_nanos(limit.as_nanos() / 8);
            let _ = self.core.device.expire(now, *limit);
        }
        self.core.begin_round(now);
        if !self.arrivals.is_empty() {
            self.core.ready(FRONT, ARRIVALS, now);
        }
        for index in 0..self.channels.len() {
            let ready = self.channels[index].borrow().ready();
            if let Some(number) = ready {
                self.core.ready(FRONT, number, now);
            }
        }
        self.core.end_round(now, || now, || true);
        if self.channels.iter().any(|channel| channel.borrow().ended) {
            self.channels.retain(|channel| !channel.borrow().ended);
        }
    }

    /// When a round is due at the latest, if no client does anything.
    pub fn due(&self) -> Option<Time> {
        let (event, held) = self.core.device.due();
        let expires = self.timeout.filter(|_| self.core.device.unfinished() > 0).map(|(_, at)| at);
        [event, held, expires].into_iter().flatten().min()
    }

    /// Switches the scheduler, as `ctl switch` does.
    pub fn switch(&mut self, now: Time, scheduler: &str, drain: bool) -> Result<(), String> {
        let (reply, answer) = channel();
        let mode = if drain { SwitchMode::Drain } else { SwitchMode::Transfer };
        self.core.order(Order::Switch { scheduler: scheduler.to_string(), mode, reply }, now);
        answer.recv().map_err(|error| error.to_string())?.map(drop)
    }

    /// Sets a tunable, as `ctl tune` does.
    ///
    /// # Errors
    /// There is no such tunable, or not with that value.
    pub fn tune(&mut self, now: Time, tunable: &str, value: &str) -> Result<(), String> {
        let (reply, answer) = channel();
        self.core.order(Order::Tune { tunable: tunable.to_string(), value: value.to_string(), reply }, now);
        answer.recv().map_err(|error| error.to_string())?
    }

    /// The tunables of the scheduler: name, least and greatest value, as `ctl show` has them.
    #[must_use]
    pub fn tunables(&mut self, now: Time) -> Vec<[String; 3]> {
        let (reply, answer) = channel();
        self.core.order(Order::Show(reply), now);
        let snapshot = answer.recv().expect("an answer");
        let tunables = snapshot.tunables.into_iter();
        tunables.map(|tunable| [tunable.name, tunable.min, tunable.max]).collect()
    }

    /// The most memory held for one client, in bytes.
    pub fn most_held(&self) -> u64 {
        let clients = self.core.fronts.iter().flat_map(|front| front.clients());
        clients.map(|client| client.bytes).max().unwrap_or(0)
    }

    /// The memory held for all clients, in bytes, and their number.
    pub fn held(&self) -> (u64, u64) {
        let clients = self.core.fronts.iter().flat_map(|front| front.clients());
        clients.fold((0, 0), |(bytes, count), client| (bytes + client.bytes, count + 1))
    }

    /// Orders the server to stop.
    pub fn stop(&mut self, now: Time) {
        self.core.order(Order::Stop, now);
    }

    /// Whether everything accepted before the order to stop is finished and answered.
    pub fn is_done(&self) -> bool {
        self.core.is_done()
    }

    /// The fault of a scheduler, once for each fault.
    pub fn fault(&mut self) -> Option<String> {
        self.core.fault()
    }
}
