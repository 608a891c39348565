//! A device's thread: sleeps, hears what is ready, lets the device advance, sends the answers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use elevator::Time;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::control::{Order, Orders, Snapshot};
use crate::device::{Device, FrontIndex, News};
use crate::front::{FrontEnd, Host};
use crate::lookout::Lookout;
use crate::poller::{Bell, Interest, Poller, Source};
use crate::vigil::Vigil;

/// The front end that is none: the thread's own sources.
const OWN: FrontIndex = u8::MAX;

/// Number of the bell among the thread's own sources.
const BELL: u32 = 0;

/// Number of the back end among the thread's own sources.
const BACKEND: u32 = 1;

/// How long a round goes on with what follows from its answers before it looks who else has come. A back end that is done at
/// once would be given the next step of one client's request after the other.
const ROUND: Duration = Duration::from_millis(1);

/// How a thread waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// For the back end's next event.
    pub(crate) lookout: Lookout,
    /// Whether it looks again and again after there was something to do, before it sleeps.
    pub(crate) vigil: Vigil,
}

/// Everything that a device's thread owns.
pub(crate) struct DeviceThread {
    pub(crate) clock: Clock,
    pub(crate) device: Device,
    poller: Poller,
    fronts: Vec<Box<dyn FrontEnd>>,
    bell: Arc<Bell>,
    orders: Receiver<Order>,
    handler: Orders,
    waiting: Waiting,
    /// The back end answers at times of its own, so how late it is means something.
    keeps_time: bool,
    stopping: bool,
    last_busy: Time,
    alarm: Alarm,
}

impl DeviceThread {
    pub(crate) fn new(
        clock: Clock,
        device: Device,
        fronts: Vec<Box<dyn FrontEnd>>,
        (bell, orders, handler): (Arc<Bell>, Receiver<Order>, Orders),
        waiting: Waiting,
        keeps_time: bool,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        let (stopping, last_busy, alarm) = (false, Time::ZERO, Alarm::default());
        let mut thread = Self {
            clock,
            device,
            poller,
            fronts,
            bell,
            orders,
            handler,
            waiting,
            keeps_time,
            stopping,
            last_busy,
            alarm,
        };
        thread.begin()?;
        Ok(thread)
    }

    /// Where clients may connect.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.fronts.iter().flat_map(|front| front.addresses()).collect()
    }

    fn begin(&mut self) -> io::Result<()> {
        self.poller.add(&*self.bell, Source { front: OWN, number: BELL }, Interest::READ)?;
        if let Some(fd) = self.device.backend().wake_fd().map(|fd| fd.as_raw_fd()) {
            // SAFETY: the back end keeps it open as long as the device, which this thread owns.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            self.poller.add(fd, Source { front: OWN, number: BACKEND }, Interest::READ)?;
        }
        let now = self.clock.now();
        for index in 0..self.fronts.len() {
            self.with_front(index, now, |front, host| front.start(host))?;
        }
        Ok(())
    }

    fn with_front<R>(
        &mut self,
        index: usize,
        now: Time,
        call: impl FnOnce(&mut dyn FrontEnd, &mut Host<'_>) -> R,
    ) -> R {
        let front = index as FrontIndex;
        let mut host = Host { device: &mut self.device, poller: &self.poller, front, now };
        call(&mut *self.fronts[index], &mut host)
    }

    /// Serves until it is told to stop and everything accepted is finished.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        while !self.is_done() {
            self.round()?;
        }
        Ok(())
    }

    /// What it was like at its end. The decision log, if it is on, is written to its last line.
    pub(crate) fn end(mut self) -> Snapshot {
        let snapshot = self.handler.show(self.clock.now(), &mut self.device, &[]);
        if let Some(log) = self.device.queue().observer().log.take() {
            log.close();
        }
        snapshot
    }

    fn is_done(&self) -> bool {
        self.stopping && self.device.unfinished() == 0 && self.fronts.iter().all(|front| front.is_done())
    }

    fn round(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        self.poller.wait(timeout)?;
        let now = self.clock.now();
        // What was due before this moment comes first: the arrivals are of this moment.
        self.device.advance(now);
        self.device.plug();
        let mut n = 0;
        while let Some(source) = self.poller.ready(n) {
            self.ready(source, now);
            n += 1;
        }
        for index in 0..self.fronts.len() {
            if self.fronts[index].due().is_some_and(|at| at <= Instant::now()) {
                self.with_front(index, now, |front, host| front.timer(host));
                n += 1;
            }
        }
        self.device.unplug();
        if n > 0 {
            self.waiting.vigil.found();
            self.last_busy = now;
        }
        loop {
            self.device.advance(now);
            let any = self.tell(now);
            for index in 0..self.fronts.len() {
                self.with_front(index, now, |front, host| front.flush(host));
            }
            // What was sent may have made room for requests that had been received already.
            if !any && !self.device.has_new() || self.clock.real(self.clock.now().since(now)) > ROUND {
                break;
            }
        }
        if self.device.answered(self.clock.now(), self.keeps_time) {
            self.waiting.lookout.answered();
        }
        if let Some(failure) = self.device.failure() {
            self.alarm.raise(failure, self.device.statistics().failed());
        }
        Ok(())
    }

    fn ready(&mut self, source: Source, now: Time) {
        match source {
            Source { front: OWN, number: BELL } => self.bell_rang(now),
            Source { front: OWN, .. } => {}
            Source { front, number } => {
                self.with_front(front as usize, now, |front, host| front.ready(number, host));
            }
        }
    }

    /// Tells the front ends what happened; whether anything had.
    fn tell(&mut self, now: Time) -> bool {
        let mut any = false;
        let heard = self.clock.now();
        while let Some(news) = self.device.news(heard) {
            any = true;
            match news {
                News::Answer(answer) => {
                    let front = answer.front as usize;
                    self.with_front(front, now, |front, host| front.answered(answer, host));
                }
                News::Woken(woken) => {
                    let front = woken.front as usize;
                    self.with_front(front, now, |front, host| front.woken(woken.cookie, host));
                }
            }
        }
        any
    }

    fn bell_rang(&mut self, now: Time) {
        self.bell.silence();
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Stop => {
                    self.stopping = true;
                    for index in 0..self.fronts.len() {
                        self.with_front(index, now, |front, host| front.stop(host));
                    }
                }
                order => self.handler.handle(order, now, &mut self.device, &self.fronts),
            }
        }
    }

    /// How long nothing is to be done, as far as is known.
    fn timeout(&mut self) -> Option<Duration> {
        if self.device.has_new() {
            return Some(Duration::ZERO);
        }
        let now = self.clock.now();
        let (event, held) = self.device.due();
        let in_the_room = self.clock.real(now.since(Time::ZERO));
        let event = event.map(|at| self.waiting.lookout.sleep(in_the_room, self.clock.real(at.since(now))));
        let held = held.map(|at| self.clock.real(at.since(now)));
        let fronts = self.fronts.iter().filter_map(|front| front.due()).min();
        let fronts = fronts.map(|at| at.saturating_duration_since(Instant::now()));
        // A front end that named a time has no use for what comes before it.
        if fronts.is_none() && self.waiting.vigil.looks(self.clock.real(now.since(self.last_busy))) {
            return Some(Duration::ZERO);
        }
        let log = self.device.queue().observer().log_until(now).map(|at| self.clock.real(at.since(now)));
        [event, held, log, fronts].into_iter().flatten().min()
    }
}
