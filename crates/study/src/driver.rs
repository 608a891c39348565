//! Execution of a study on all cores of this machine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use evaluation::parallel::on_threads;
use evaluation::{Error, interrupt};

use crate::description::Run;
use crate::execute::Executor;
use crate::store::Store;

/// Runs of each part of a study with `runs` runs. A part is complete when all its runs are, so parts do not depend on the number of threads. Those of a
/// large study are larger, because a client writes one for each task of short runs.
pub fn part_size(runs: usize) -> usize {
    (runs / 1024).next_power_of_two().clamp(64, 256)
}

/// How a study ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Runs that had been complete before.
    pub skipped: usize,
    /// Runs that were executed.
    pub executed: usize,
    /// Runs that could not be executed, with the reason. The next start tries them again.
    pub errors: Vec<(Run, Error)>,
    /// Ctrl-C stopped the study.
    pub interrupted: bool,
}

/// Executes the runs that the store does not have, on `threads` threads, and calls `done` after each.
///
/// # Errors
/// The store cannot be written.
pub fn drive(
    runs: &[Run],
    executor: &Executor,
    store: &Store,
    threads: usize,
    done: &(dyn Fn(&Run) + Sync),
) -> Result<Ended, Error> {
    let unwritten: Vec<&Run> = runs.iter().filter(|run| !store.is_written(&run.id)).collect();
    let size = part_size(runs.len());
    let parts: Vec<&[&Run]> = unwritten.chunks(size).collect();
    let left: Vec<AtomicUsize> = parts.iter().map(|part| AtomicUsize::new(part.len())).collect();
    let executed = AtomicUsize::new(0);
    let errors: Mutex<Vec<(Run, Error)>> = Mutex::default();
    let failure: Mutex<Option<Error>> = Mutex::default();
    let stop = || interrupt::requested() || failure.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    let fail = |error| *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    let one = |index: usize| {
        let run = unwritten[index];
        if !store.has(&run.id) {
            if stop() {
                return;
            }
            match executor.execute(run) {
                Ok(rows) => match store.keep(&rows) {
                    Ok(()) => executed.fetch_add(1, Ordering::Relaxed),
                    Err(error) => return fail(error),
                },
                Err(Error::Interrupted) => return,
                Err(error) => {
                    errors.lock().unwrap_or_else(PoisonError::into_inner).push((run.clone(), error));
                    done(run);
                    return;
                }
            };
            done(run);
        }
        // The thread that completes a part writes it.
        let part = index / size;
        if left[part].fetch_sub(1, Ordering::AcqRel) == 1
            && let Err(error) = write(store, parts[part])
        {
            fail(error);
        }
    };
    on_threads(threads.max(1), unwritten.len(), one);
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let interrupted = interrupt::requested();
    if !interrupted {
        for part in parts {
            write(store, part)?;
        }
    }
    let executed = executed.into_inner();
    let mut errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    errors.sort_by_key(|(run, _)| runs.iter().position(|other| other.id == run.id));
    let skipped = runs.iter().filter(|run| store.has(&run.id)).count() - executed;
    Ok(Ended { skipped, executed, errors, interrupted })
}

/// Writes what a part has.
fn write(store: &Store, part: &[&Run]) -> Result<(), Error> {
    let ids = part.iter().map(|run| run.id.as_str());
    let kept: Vec<&str> = ids.filter(|id| store.has(id) && !store.is_written(id)).collect();
    store.write(&kept)
}
