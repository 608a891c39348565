//! A device's thread: waits for events and drives the core.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use elevator::Time;

use crate::busy_poll::BusyPoll;
use crate::clock::Clock;
use crate::control::{Order, Snapshot};
use crate::core::Core;
use crate::device::{Failure, Overdue};
use crate::front::Guard;
use crate::operation::FrontIndex;
use crate::poller::{Bell, Interest, Source};
use crate::progress::Progress;
use crate::rate_limit::RateLimit;
use crate::spin_sleep::SpinSleep;

/// Stands for the thread's own sources instead of a front end.
const OWN: FrontIndex = u8::MAX;

/// Number of the bell among the thread's own sources.
const BELL: u32 = 0;

/// Number of the back end among the thread's own sources.
const BACKEND: u32 = 1;

/// How long a round continues with what follows from its replies before it checks for other events. Otherwise a back end that
/// completes at once would keep the thread with one client's request.
const ROUND: Duration = Duration::from_millis(1);

/// How a thread waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// For the back end's next event.
    pub(crate) spin_sleep: SpinSleep,
    /// Polls after an event before it sleeps.
    pub(crate) busy_poll: BusyPoll,
    /// How long the back end may take for a request; `None`: no limit.
    pub(crate) request_timeout: Option<Duration>,
}

/// What a device's thread owns.
pub(crate) struct DeviceThread {
    clock: Clock,
    core: Core,
    bell: Arc<Bell>,
    orders: Receiver<Order>,
    waiting: Waiting,
    /// The back end completes at given times, so replies can be late.
    keeps_time: bool,
    last_busy: Time,
    /// Messages about failed operations: a broken disk has thousands in a second.
    failures: RateLimit,
    overdue: RateLimit,
    /// The next check for requests that exceed the time limit in the back end.
    next_check: Time,
    progress: Arc<Progress>,
}

impl DeviceThread {
    pub(crate) fn new(
        clock: Clock,
        core: Core,
        bell: Arc<Bell>,
        orders: Receiver<Order>,
        waiting: Waiting,
        keeps_time: bool,
        progress: Arc<Progress>,
    ) -> io::Result<Self> {
        let (last_busy, failures) = (Time::ZERO, RateLimit::default());
        let mut thread = Self {
            clock,
            core,
            bell,
            orders,
            waiting,
            keeps_time,
            last_busy,
            failures,
            progress,
            overdue: RateLimit::new(),
            next_check: Time::ZERO,
        };
        thread.begin()?;
        Ok(thread)
    }

    /// Addresses for clients.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.core.fronts.iter().flat_map(|front| front.addresses()).collect()
    }

    /// What the front ends have created in the file system.
    pub(crate) fn guards(&self) -> Vec<Guard> {
        self.core.fronts.iter().flat_map(|front| front.guards()).collect()
    }

    fn begin(&mut self) -> io::Result<()> {
        let Core { device, poller, .. } = &mut self.core;
        poller.add(&*self.bell, Source { front: OWN, number: BELL }, Interest::READ)?;
        if let Some(fd) = device.backend().wake_fd().map(|fd| fd.as_raw_fd()) {
            // SAFETY: the back end keeps it open as long as the device, which this thread owns.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            poller.add(fd, Source { front: OWN, number: BACKEND }, Interest::READ)?;
        }
        self.core.start(self.clock.now())
    }

    /// Serves until an order to stop has arrived and every accepted request is complete.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        self.progress.begin();
        while !self.core.is_done() {
            self.round()?;
        }
        Ok(())
    }

    /// The final state.
    pub(crate) fn end(self) -> Snapshot {
        self.core.end(self.clock.now())
    }

    fn round(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        self.core.poller.wait(timeout)?;
        let now = self.clock.now();
        self.check_overdue(now);
        self.core.begin_round(now);
        let mut n = 0;
        while let Some(source) = self.core.poller.ready(n) {
            self.ready(source, now);
            n += 1;
        }
        if n > 0 {
            self.waiting.busy_poll.found();
            self.last_busy = now;
        }
        let clock = &self.clock;
        self.core.end_round(now, || clock.now(), || clock.real(clock.now().since(now)) <= ROUND);
        if let Some(fault) = self.core.fault() {
            // Each fault is logged: there is one for each switch to a faulty scheduler at most. Standard error may be a file on the
            // device that this thread serves, so another thread writes.
            let _ = thread::Builder::new().name("log".into()).spawn(move || say!("{fault}"));
        }
        let device = &mut self.core.device;
        let has_completed = device.answered(self.clock.now(), self.keeps_time);
        if has_completed {
            self.waiting.spin_sleep.answered();
        }
        self.progress.round(has_completed, device.unfinished());
        if let Some(failure) = device.failure() {
            let count = device.statistics().failed();
            let message = format_args!("{failure}; failed operations so far: {count}");
            self.failures.log_in_background((), message);
        }
        Ok(())
    }

    /// Fails requests that exceed the time limit in the back end; called four times per limit.
    fn check_overdue(&mut self, now: Time) {
        let Some(limit) = self.waiting.request_timeout.filter(|_| now >= self.next_check) else { return };
        self.next_check = now + self.clock.span(limit / 4);
        if let Some(Overdue { first, count }) = self.core.device.expire(now, self.clock.span(limit)) {
            let Failure { op, start, sectors, .. } = first;
            let total = self.core.device.statistics().timed_out;
            let message = format_args!(
                "{op} of {} bytes at sector {start}: no answer from the disk for {} s; failed {count} such requests with an I/O error, \
                 {total} so far",
                sectors.bytes(),
                limit.as_secs_f64()
            );
            self.overdue.log_in_background((), message);
        }
    }

    fn ready(&mut self, source: Source, now: Time) {
        match source {
            Source { front: OWN, number: BELL } => {
                self.bell.silence();
                while let Ok(order) = self.orders.try_recv() {
                    self.core.order(order, now);
                }
            }
            Source { front: OWN, .. } => {}
            Source { front, number } => self.core.ready(front, number, now),
        }
    }

    /// How long to sleep.
    fn timeout(&mut self) -> Option<Duration> {
        if self.core.device.has_new() {
            return Some(Duration::ZERO);
        }
        let now = self.clock.now();
        let (event, held) = self.core.device.due();
        let in_the_room = self.clock.real(now.since(Time::ZERO));
        let event =
            event.map(|at| self.waiting.spin_sleep.sleep(in_the_room, self.clock.real(at.since(now))));
        let held = held.map(|at| self.clock.real(at.since(now)));
        let fronts = self.core.fronts.iter().filter_map(|front| front.due()).min();
        let fronts = fronts.map(|at| at.saturating_duration_since(Instant::now()));
        // Polling does not help a front end that waits for a point in time.
        if fronts.is_none() && self.waiting.busy_poll.polls(self.clock.real(now.since(self.last_busy))) {
            return Some(Duration::ZERO);
        }
        let log = self.core.device.queue().observer().log_until(now).map(|at| self.clock.real(at.since(now)));
        let is_waiting = self.waiting.request_timeout.is_some() && self.core.device.queue().in_flight() > 0;
        let check = is_waiting.then(|| self.clock.real(self.next_check.since(now)));
        [event, held, log, fronts, check].into_iter().flatten().min()
    }
}
