//! The state of the device's thread, for other threads that must not wait for it.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::descriptor_store::notify_service_manager;
use crate::poller::Bell;

/// Period of checks while waiting for progress.
const LOOK: Duration = Duration::from_millis(20);

/// Counters that the device's thread advances, and its id.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    thread: AtomicU32,
    rounds: AtomicU64,
    completed: AtomicU64,
    unfinished: AtomicU64,
    ended: AtomicBool,
}

impl Progress {
    /// The calling thread is the device's.
    pub(crate) fn begin(&self) {
        self.thread.store(rustix::thread::gettid().as_raw_pid() as u32, Ordering::Relaxed);
    }

    /// A round of the thread has ended: whether requests were completed in it, and how many operations are unfinished.
    pub(crate) fn round(&self, has_completed: bool, unfinished: usize) {
        // One thread writes: no other addition is lost.
        let add =
            |counter: &AtomicU64, n| counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.rounds, 1);
        add(&self.completed, u64::from(has_completed));
        self.unfinished.store(unfinished as u64, Ordering::Relaxed);
    }

    /// The thread has ended.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(crate) fn unfinished(&self) -> u64 {
        self.unfinished.load(Ordering::Relaxed)
    }

    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// The state of the thread, and in which function of the kernel it sleeps, as `/proc` shows them.
    pub(crate) fn thread_state(&self) -> String {
        let thread = self.thread.load(Ordering::Relaxed);
        let read = |name| fs::read_to_string(format!("/proc/self/task/{thread}/{name}")).unwrap_or_default();
        let status = read("status");
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("unknown").trim();
        match read("wchan").trim() {
            "" | "0" => format!("state {state}"),
            function => format!("state {state}, in the kernel's {function}"),
        }
    }

    /// Wakes the thread and waits for a round of it, at most so long; whether there was one, or the thread has ended.
    pub(crate) fn has_round(&self, bell: &Bell, at_most: Duration) -> bool {
        let (before, began) = (self.rounds(), Instant::now());
        bell.ring();
        loop {
            if self.has_ended() || self.rounds() != before {
                return true;
            }
            if began.elapsed() >= at_most {
                return false;
            }
            std::thread::sleep(LOOK.min(at_most));
        }
    }
}

/// Detects that a device with work makes no progress.
pub(crate) struct Stall<'a> {
    progress: &'a Progress,
    limit: Duration,
    completed: u64,
    since: Instant,
}

impl<'a> Stall<'a> {
    /// Reports a stall after `limit` without a completed request.
    pub(crate) fn new(progress: &'a Progress, limit: Duration) -> Self {
        Self { progress, limit, completed: progress.completed.load(Ordering::Relaxed), since: Instant::now() }
    }

    /// Whether no request has been completed for that long although `has_work`, or operations are unfinished.
    pub(crate) fn is_stalled(&mut self, has_work: bool) -> bool {
        let completed = self.progress.completed.load(Ordering::Relaxed);
        if completed != self.completed || !has_work && self.progress.unfinished() == 0 {
            (self.completed, self.since) = (completed, Instant::now());
        }
        self.since.elapsed() >= self.limit
    }
}

/// The interval in which a service manager expects a sign of life from this process, if it does: see sd_watchdog_enabled(3).
pub(crate) fn watchdog_interval() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process::id()));
    number("WATCHDOG_USEC").filter(|_| is_ours).map(Duration::from_micros)
}

/// Sends signs of life to the service manager while the device's thread makes rounds, until it has ended and beyond.
pub(crate) fn watch(progress: &Progress, bell: &Bell, interval: Duration) -> ! {
    // Three signs in an interval: one that is late is not missed.
    let period = interval / 3;
    let mut is_logged = false;
    loop {
        let began = Instant::now();
        if progress.has_round(bell, period) {
            notify_service_manager("WATCHDOG=1");
            is_logged = false;
        } else if !is_logged {
            is_logged = true;
            say!(
                "the device's thread made no progress for {} ms ({}, {} operations unfinished): the service manager is about to restart \
                 this service",
                period.as_millis(),
                progress.thread_state(),
                progress.unfinished()
            );
        }
        std::thread::sleep(period.saturating_sub(began.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_work_without_completions_for_the_limit() {
        let (progress, limit) = (Progress::default(), Duration::from_millis(30));
        let mut stall = Stall::new(&progress, limit);
        std::thread::sleep(limit);
        assert!(!stall.is_stalled(false), "an idle device is not stalled");
        progress.round(true, 3);
        assert!(!stall.is_stalled(false));
        std::thread::sleep(limit);
        progress.round(false, 3);
        assert!(stall.is_stalled(false));
        progress.round(true, 3);
        assert!(!stall.is_stalled(true));
    }

    #[test]
    fn a_thread_that_makes_no_round_within_the_time_is_noticed() {
        let (progress, bell) = (Progress::default(), Bell::new().unwrap());
        progress.begin();
        assert!(!progress.has_round(&bell, Duration::from_millis(5)));
        assert!(progress.thread_state().starts_with("state R"), "{}", progress.thread_state());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                progress.round(false, 0);
            });
            assert!(progress.has_round(&bell, Duration::from_secs(10)));
        });
        progress.end();
        assert!(progress.has_round(&bell, Duration::ZERO));
    }
}
