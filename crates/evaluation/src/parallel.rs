//! Independent pieces of work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::interrupt;

/// Calls `work` with each number below `count`, on as many threads as there are cores. The results are in the order of the numbers.
pub(crate) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    on_threads(thread::available_parallelism().map_or(1, usize::from), count, work)
}

/// The same on this many threads.
pub fn on_threads<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = slots.get(index) else { break };
            let done = work(index);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        }
    };
    let flag = interrupt::own();
    let helper = || match &flag {
        Some(flag) => interrupt::with(Arc::clone(flag), work),
        None => work(),
    };
    let threads = threads.min(count);
    thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(helper)));
        work();
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}
