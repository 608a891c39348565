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
//! | [`drawn`] | drives and fio jobs drawn from a seed |
//! | [`table`] | regrets, and tables of them |

pub mod cells;
pub mod drawn;
pub mod table;
pub mod workload;

use schedulers::Spec;
use schedulers::registry::Catalogue;

use self::cells::Cell;
use self::workload::Measure;
use crate::interrupt;
use crate::parallel::in_parallel;

/// A cell with the result of each scheduler, in their order.
pub struct Row<'a> {
    /// What was run.
    pub cell: &'a Cell,
    /// One for each scheduler; the text is the reason why there is no result.
    pub results: Vec<Result<Measure, String>>,
}

/// Runs every cell under every scheduler, on one thread per core. The results do not depend on the number of threads. `done` is called
/// after each run. Rows that an interruption left incomplete are missing.
pub fn run<'a>(
    cells: &'a [Cell],
    schedulers: &[Spec],
    catalogue: Catalogue,
    done: &(dyn Fn(&Cell, &Spec) + Sync),
) -> Vec<Row<'a>> {
    let count = cells.len() * schedulers.len();
    let mut results = in_parallel(count, |index| {
        if interrupt::requested() {
            return None;
        }
        let (cell, spec) = (&cells[index / schedulers.len()], &schedulers[index % schedulers.len()]);
        let result = cell.run(spec, catalogue);
        done(cell, spec);
        (!interrupt::requested()).then_some(result)
    })
    .into_iter();
    let row = |cell| {
        // Collected first: a missing result must not shift those of the next cell.
        let own: Vec<_> = results.by_ref().take(schedulers.len()).collect();
        Some(Row { cell, results: own.into_iter().collect::<Option<_>>()? })
    };
    cells.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::cells::{Selection, Set, cells};
    use super::table::summaries;
    use super::*;

    /// Workloads of which a comparison takes less than a second: trees, mail, commits and reads beside writes, threads, and fio jobs.
    const QUICK: [&str; 12] = [
        "greps",
        "postmark",
        "write-beside-reads",
        "sqlite",
        "multi-threads",
        "chunk-reads",
        "fio-randread-1",
        "fio-randread-32",
        "fio-randrw-1",
        "fio-randrw-32",
        "fio-randwrite-16",
        "fio-stream-and-random",
    ];

    /// The limits are the goal of 10% for the worst cell, and less than the goal of 3% on average. Virtual time repeats to the digit,
    /// so only a change of a policy or of the model changes the values.
    #[test]
    fn dwell_is_near_the_best_scheduler_on_average() {
        let selection = Selection {
            set: Set::Tuning,
            drives: &["wd5000aaks".to_owned()],
            depths: &[4],
            files: Vec::new(),
            only: &["hidden".to_owned()],
            sample: None,
            seed: 1,
        };
        let mut cells = cells(&selection).unwrap();
        cells.retain(|cell| QUICK.contains(&cell.workload.as_str()));
        assert!(cells.len() >= 8, "{} cells", cells.len());
        let names = ["dwell", "stream(deadline)", "bfq", "mq-deadline"].map(str::to_owned);
        let specs = names.each_ref().map(|name| Spec::parse(name).unwrap());
        let all = summaries(&names, &run(&cells, &specs, Catalogue::default(), &|_, _| ()));
        let dwell = all.iter().find(|summary| summary.scheduler == "dwell").unwrap();
        assert!(dwell.failures.is_empty(), "{:?}", dwell.failures);
        assert!(dwell.mean < 0.02 && dwell.regrets[0].regret < 0.1, "{:.4} {:#?}", dwell.mean, dwell.regrets);
    }
}
