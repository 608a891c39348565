//! Regret: how much longer a workload takes under a scheduler than under the best scheduler for that workload, over all workloads of
//! the project and many drives, in virtual time.
//!
//! The time of a cell is the workload's own measure: the time until all foreground programs have ended, or the time per byte,
//! transaction or commit of programs that do not end by themselves. A regret of 3% means: 3% longer than under the best of the compared
//! schedulers in the same cell.
//!
//! | module | contents |
//! |---|---|
//! | [`workload`] | workloads and their measure |
//! | [`cells`] | workloads × drives × depths × identity: what is run |
//! | [`table`] | regrets, and tables of them |

pub mod cells;
pub mod table;
pub mod workload;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use schedulers::Spec;
use schedulers::registry::Catalogue;

use self::cells::Cell;
use self::workload::Measure;
use crate::interrupt;

/// A cell with the result of each scheduler, in their order.
pub struct Row<'a> {
    /// What was run.
    pub cell: &'a Cell,
    /// One for each scheduler; the text is the reason why there is no result.
    pub results: Vec<Result<Measure, String>>,
}

/// The result of one run.
type Slot = Mutex<Option<Result<Measure, String>>>;

/// Runs every cell under every scheduler, on one thread per core. The results do not depend on the number of threads. `done` is called
/// after each run. Rows that an interruption left incomplete are missing.
pub fn run<'a>(
    cells: &'a [Cell],
    schedulers: &[Spec],
    catalogue: Catalogue,
    done: &(dyn Fn(&Cell, &Spec) + Sync),
) -> Vec<Row<'a>> {
    let slots: Vec<Slot> = (0..cells.len() * schedulers.len()).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while !interrupt::requested() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = slots.get(index) else { break };
            let (cell, spec) = (&cells[index / schedulers.len()], &schedulers[index % schedulers.len()]);
            let result = cell.run(spec, catalogue);
            done(cell, spec);
            if !interrupt::requested()
                && let Ok(mut slot) = slot.lock()
            {
                *slot = Some(result);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from).min(slots.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut results = slots.into_iter().map(|slot| slot.into_inner().ok().flatten());
    let rows = cells.iter().map(|cell| {
        let results = results.by_ref().take(schedulers.len()).collect::<Vec<_>>();
        results.into_iter().collect::<Option<_>>().map(|results| Row { cell, results })
    });
    rows.collect::<Vec<_>>().into_iter().flatten().collect()
}
