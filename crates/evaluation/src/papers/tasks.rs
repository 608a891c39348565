//! Parallel runs of experiments. Each result is stored when its run ends, so that an interrupted command continues
//! from there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use schedulers::Spec;
use serde::{Deserialize, Serialize};

use super::Row;
use super::progress::Progress;
use super::store::Store;
use crate::error::Error;
use crate::interrupt;
use crate::run_setup::{Outcome, RunSetup};

/// The work of a task.
pub(super) enum Work<'a> {
    /// A script under one scheduler.
    Script { setup: &'a RunSetup, spec: Spec },
    /// An experiment that compares schedulers itself.
    Suite { run: fn(scale: f64) -> Result<Vec<Row>, Error>, scale: f64 },
}

/// A run whose result is stored.
pub(super) struct Task<'a> {
    /// Paper and experiment, and under what.
    pub(super) name: String,
    pub(super) work: Work<'a>,
    /// Everything on which the result depends, as text.
    pub(super) settings: String,
    /// Its expected processor time in seconds.
    pub(super) cost: f64,
}

/// The result of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Kept {
    Outcome(Box<Outcome>),
    Rows(Vec<Row>),
}

/// The result of a task, if it has ended.
type Slot = Mutex<Option<Result<Kept, Error>>>;

/// Runs tasks on `threads` threads, the longest first; results are in the order of the tasks. A task that had not begun, or was
/// interrupted, when the user requested to stop has no result.
pub(super) fn run(
    tasks: &[Task<'_>],
    threads: usize,
    store: Option<&Store>,
) -> Result<Vec<Option<Kept>>, Error> {
    let slots: Vec<Slot> = tasks
        .iter()
        .map(|task| Mutex::new(store.and_then(|store| store.load(&task.name, &task.settings)).map(Ok)))
        .collect();
    let mut left: Vec<usize> =
        (0..tasks.len()).filter(|&n| slots[n].lock().is_ok_and(|slot| slot.is_none())).collect();
    left.sort_by(|&a, &b| tasks[b].cost.total_cmp(&tasks[a].cost));
    let progress = Progress::new(left.iter().map(|&n| tasks[n].cost), threads);
    let next = AtomicUsize::new(0);
    // Each worker holds a sender; the channel closes when the last worker ends.
    let (working, over) = mpsc::channel::<()>();
    let work = |_working: mpsc::Sender<()>| {
        while let Some(&index) = left.get(next.fetch_add(1, Ordering::Relaxed))
            && !interrupt::requested()
        {
            let task = &tasks[index];
            progress.begun(&task.name);
            let result = one(task, store);
            progress.done(task.cost);
            if let (Some(result), Ok(mut slot)) = (result, slots[index].lock()) {
                *slot = Some(result);
            }
        }
    };
    thread::scope(|scope| {
        let progress = &progress;
        scope.spawn(move || progress.print_until(&over));
        for _ in 1..threads.min(left.len()) {
            let working = working.clone();
            scope.spawn(move || work(working));
        }
        work(working);
    });
    progress.end();
    slots.into_iter().map(|slot| slot.into_inner().ok().flatten().transpose()).collect()
}

fn one(task: &Task<'_>, store: Option<&Store>) -> Option<Result<Kept, Error>> {
    // A whole experiment starts threads of its own.
    let clock = match &task.work {
        Work::Script { .. } => ClockId::ThreadCPUTime,
        Work::Suite { .. } => ClockId::ProcessCPUTime,
    };
    let begun = processor(clock);
    let result = match &task.work {
        Work::Script { setup, spec } => {
            setup.run(spec, &mut |_| None).map(|ran| Kept::Outcome(Box::new(ran.outcome)))
        }
        Work::Suite { run, scale } => run(*scale).map(Kept::Rows),
    };
    if interrupt::requested() {
        return None;
    }
    if let (Some(store), Ok(kept)) = (store, &result)
        && let Err(error) =
            store.save(&task.name, &task.settings, kept, processor(clock).saturating_sub(begun))
    {
        return Some(Err(error));
    }
    Some(result)
}

/// What a thread, or the whole program, took of processors so far.
fn processor(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
