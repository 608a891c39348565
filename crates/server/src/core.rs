//! A device and its front ends without sleep, thread or clock: what happens between two waits.
//!
//! The device's thread (`thread`) drives a core in real time; the simulation drives the same core in virtual time.

use std::io;

use elevator::Time;

use crate::control::{Order, Orders, Snapshot};
use crate::device::Device;
use crate::front::{FrontEnd, Host};
use crate::operation::{FrontEndEvent, FrontIndex};
use crate::poller::Poller;

/// A device, its front ends and the handler of its orders.
///
/// A round is [`begin_round`](Self::begin_round), then the events that arrived ([`ready`](Self::ready),
/// [`order`](Self::order)), then [`end_round`](Self::end_round).
pub(crate) struct Core {
    pub(crate) device: Device,
    pub(crate) fronts: Vec<Box<dyn FrontEnd>>,
    pub(crate) poller: Poller,
    handler: Orders,
    stopping: bool,
}

impl Core {
    /// A core whose front ends are not started yet.
    pub(crate) fn new(device: Device, fronts: Vec<Box<dyn FrontEnd>>, handler: Orders) -> io::Result<Self> {
        Ok(Self { device, fronts, poller: Poller::new()?, handler, stopping: false })
    }

    /// Starts every front end.
    pub(crate) fn start(&mut self, now: Time) -> io::Result<()> {
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

    /// Completes what was due before `now`: the arrivals that follow are of this moment.
    pub(crate) fn begin_round(&mut self, now: Time) {
        self.device.advance(now);
        self.notice_fault();
        self.device.plug();
    }

    /// The descriptor that a front end watches under `number` is ready.
    pub(crate) fn ready(&mut self, front: FrontIndex, number: u32, now: Time) {
        self.with_front(front as usize, now, |front, host| front.ready(number, host));
    }

    /// Obeys an order from the control socket.
    pub(crate) fn order(&mut self, order: Order, now: Time) {
        match order {
            Order::Stop => {
                self.stopping = true;
                for index in 0..self.fronts.len() {
                    self.with_front(index, now, |front, host| front.stop(host));
                }
            }
            order => {
                self.notice_fault();
                self.handler.handle(order, now, &mut self.device, &self.fronts);
                self.notice_fault();
            }
        }
    }

    /// Records a fault of the scheduler, before another scheduler takes over.
    fn notice_fault(&mut self) {
        if let Some((fault, queued)) = self.device.fault() {
            self.handler.fell_back(fault, queued);
        }
    }

    /// The fault of the scheduler and the queue's reaction, once for each fault.
    pub(crate) const fn fault(&mut self) -> Option<String> {
        self.handler.fault()
    }

    /// Passes results to the front ends and their new operations to the device, until there are none or `goes_on` returns
    /// false. `clock` returns the time at which a result is passed on.
    pub(crate) fn end_round(
        &mut self,
        now: Time,
        mut clock: impl FnMut() -> Time,
        mut goes_on: impl FnMut() -> bool,
    ) {
        self.device.unplug();
        loop {
            self.device.advance(now);
            let any = self.pass_on(now, clock());
            for index in 0..self.fronts.len() {
                self.with_front(index, now, |front, host| front.flush(host));
            }
            // Sent replies may have made room for requests that were received before.
            if !any && !self.device.has_new() || !goes_on() {
                break;
            }
        }
        self.notice_fault();
    }

    /// Passes the device's events to the front ends; returns whether there were any.
    fn pass_on(&mut self, now: Time, answered: Time) -> bool {
        let mut any = false;
        while let Some(event) = self.device.next_event(answered) {
            any = true;
            match event {
                FrontEndEvent::Answer(answer) => {
                    let front = answer.front as usize;
                    self.with_front(front, now, |front, host| front.answered(answer, host));
                }
                FrontEndEvent::Woken(woken) => {
                    let front = woken.front as usize;
                    self.with_front(front, now, |front, host| front.woken(woken.cookie, host));
                }
            }
        }
        any
    }

    /// Whether everything accepted before an order to stop is finished.
    pub(crate) fn is_done(&self) -> bool {
        self.stopping && self.device.unfinished() == 0 && self.fronts.iter().all(|front| front.is_done())
    }

    /// The device's last state. The decision log, if it is on, is written to its last line.
    pub(crate) fn end(mut self, now: Time) -> Snapshot {
        let snapshot = self.handler.show(now, &mut self.device, &[]);
        if let Some(log) = self.device.queue().observer().log.take() {
            log.close();
        }
        if self.device.unreturned() > 0 {
            // Dropping the back end would wait for jobs that may never return, and their memory must stay valid.
            std::mem::forget(self.device);
        }
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use disks::Fixed;
    use elevator::queue::{Cache, Options, Plugging, Queue};
    use elevator::{Flags, Op, Sector, Sectors, Span};
    use schedulers::{Environment, Spec};

    use super::*;
    use crate::backend::{Backend, Done, Emulated, Geometry, Job, Memory, Nature, Nothing, Payload};
    use crate::operation::NewOperation;
    use crate::statistics::Watch;

    /// A back end that returns no job, and records that it was dropped.
    struct Silent(Arc<AtomicBool>, Vec<Job>);

    impl Drop for Silent {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }

    impl Backend for Silent {
        fn geometry(&self) -> Geometry {
            Memory::new(1 << 20, 1).geometry()
        }

        fn start(&mut self, _now: Time, job: Job) {
            self.1.push(job);
        }

        fn poll(&mut self, _now: Time) -> Option<Done> {
            None
        }

        fn describe(&self) -> String {
            "silent".to_string()
        }
    }

    #[test]
    fn the_end_waits_for_the_back_end_unless_it_has_a_lost_job() {
        let make = |name: &str| Ok(Spec::parse(name).unwrap().build(&Environment::default()).unwrap() as _);
        for has_timed_out_job in [false, true] {
            let dropped = Arc::new(AtomicBool::new(false));
            let options = Options { depth: 1, ..Options::default() };
            let queue = Queue::observed(options, make("noop").unwrap(), Watch::new(None));
            let mut device = Device::new(queue, Box::new(Silent(dropped.clone(), Vec::new())));
            let now = Time::ZERO + Span::from_secs(10);
            if has_timed_out_job {
                let (op, start, sectors) = (Op::Write, Sector(0), Sectors(8));
                let (flags, payload) = (Flags::default(), Payload::Zeroes);
                let operation = NewOperation { cookie: 0, op, start, sectors, flags, process: None, payload };
                let _ = device.submit(Time::ZERO, 0, operation);
                device.advance(Time::ZERO);
                assert_eq!(device.expire(now, Span::from_secs(5)).map(|overdue| overdue.count), Some(1));
            }
            let orders = Orders::new(Arc::new(make), "noop".to_string());
            Core::new(device, Vec::new(), orders).unwrap().end(now);
            assert_eq!(dropped.load(Relaxed), !has_timed_out_job);
        }
    }

    #[test]
    fn a_request_that_was_due_before_a_round_is_dispatched_before_the_round_s_arrivals() {
        let make = |name: &str| Ok(Spec::parse(name).unwrap().build(&Environment::default()).unwrap() as _);
        let drive = Fixed::new(1 << 30, 1, Span::from_millis(1));
        let nature = Nature { cache: Cache::WriteThrough, ..Nature::default() };
        let backend = Emulated::new(Box::new(drive), Box::new(Nothing::new(1 << 30, 1)), nature).unwrap();
        let options = Options { depth: 1, plugging: Plugging::Task { most: 32 }, ..Options::default() };
        let queue = Queue::observed(options, make("sstf").unwrap(), Watch::new(None));
        let device = Device::new(queue, Box::new(backend));
        let mut core =
            Core::new(device, Vec::new(), Orders::new(Arc::new(make), "sstf".to_string())).unwrap();
        let read = |core: &mut Core, now, start| {
            let (op, sectors, flags, process) = (Op::Read, Sectors(8), Flags::default(), None);
            let start = Sector(start);
            let payload = Payload::Data(core.device.pool.take(4096));
            let operation = NewOperation { cookie: start.0, op, start, sectors, flags, process, payload };
            let _ = core.device.submit(now, 0, operation);
        };
        let at = |micros| Time::ZERO + Span::from_micros(micros);
        core.begin_round(at(0));
        [0, 1 << 20].into_iter().for_each(|start| read(&mut core, at(0), start));
        core.device.unplug();
        core.device.advance(at(0));
        // The first read completes after 1 ms, when only the far one is queued.
        core.begin_round(at(1500));
        read(&mut core, at(1500), 16);
        core.device.unplug();
        core.device.advance(at(2000));
        let order: Vec<u64> = iter::from_fn(|| core.device.next_event(at(2000)))
            .filter_map(
                |event| if let FrontEndEvent::Answer(answer) = event { Some(answer.cookie) } else { None },
            )
            .collect();
        assert_eq!(order, [0, 1 << 20]);
    }
}
