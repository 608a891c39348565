//! Execution of a run: a function from its description to rows.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use elevator::queue::{Limits, Observer, Options};
use elevator::{Random, Sector, Span};
use evaluation::device::Device;
use evaluation::input::{self, Opened, Reading, Replaying, Runtimes};
use evaluation::machine_setup::{Listeners, Observed};
use evaluation::run_setup::{Overrides, RunSetup};
use evaluation::runs::{self, Plan};
use evaluation::{Error, interrupt};
use schedulers::Spec;
use schedulers::registry::Catalogue;
use serde::{Deserialize, Serialize};
use workloads::Workload;
use workloads::programs::units::Delay;
use workloads::scenario::Identity;

use crate::description::{Input, Kind, Run};
use crate::table::{Cell, Made, Omitted, process_row, run_row, window_row};
use crate::windows::{Watcher, Windows};

/// Opened workloads that are kept for the next runs. A recording of a million requests takes 12 MB.
const KEPT: usize = 4;

/// The rows of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rows {
    /// The columns of [`RUNS`](crate::RUNS).
    pub run: Vec<Cell>,
    /// The columns of [`PROCESSES`](crate::PROCESSES), for each process.
    pub processes: Vec<Vec<Cell>>,
    /// The columns of [`WINDOWS`](crate::WINDOWS), for each window.
    pub windows: Vec<Vec<Cell>>,
}

impl Rows {
    /// The identifier of the run.
    pub fn id(&self) -> &str {
        match self.run.first() {
            Some(Cell::Text(id)) => id,
            _ => "",
        }
    }
}

/// A workload that several runs share.
struct Loaded {
    workload: Box<dyn Workload>,
    by_time: bool,
    runtimes: Runtimes,
    omitted: Option<Omitted>,
}

/// What a loaded workload depends on.
#[derive(Clone, PartialEq)]
struct Key {
    place: String,
    sha256: Option<String>,
    reading: Reading,
    open: bool,
    seed: u64,
    capacity: Sector,
}

/// An opened workload; the text is the reason of a run without a result.
type Shared = Arc<OnceLock<Result<Arc<Loaded>, Unusable>>>;

/// Why there is no workload.
#[derive(Clone)]
enum Unusable {
    /// It does not fit the run, whatever happens: the run's row states the reason.
    Unfit(String),
    /// It cannot be read now.
    Unreadable(String),
}

/// Executes runs. Keeps the last workloads, because consecutive runs have the same.
pub struct Executor {
    catalogue: Catalogue,
    loaded: Mutex<Vec<(Key, Shared)>>,
}

impl Executor {
    /// An executor of runs with these schedulers.
    pub const fn new(catalogue: Catalogue) -> Self {
        Self { catalogue, loaded: Mutex::new(Vec::new()) }
    }

    /// Executes a run. The rows depend on the description only. A run that is impossible, such as a workload that is larger than the
    /// drive, has a row with the reason.
    ///
    /// # Errors
    /// An input cannot be read, or an interruption: the run is not complete.
    pub fn execute(&self, run: &Run) -> Result<Rows, Error> {
        let inputs = [Some(&run.workload), run.drive.as_ref(), run.machine.as_ref()];
        let made = inputs.into_iter().flatten().try_for_each(Input::check).and_then(|()| match run.kind {
            Kind::Script => self.script(run),
            _ => self.requests(run),
        });
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        // The paths depend on the machine, and on whether another process executes the run.
        match made {
            Err(Error::Usage(problem) | Error::Failed(problem)) => Ok(Self::unfit(run, &run.named(&problem))),
            Err(Error::Input(problem)) => Err(Error::Input(run.named(&problem))),
            Err(Error::Permission(problem)) => Err(Error::Permission(run.named(&problem))),
            made => made,
        }
    }

    fn unfit(run: &Run, problem: &str) -> Rows {
        let drive = run.drive.as_ref().map_or("", |drive| &drive.name);
        let (depth, failure, by_time) = (run.depth, Some(problem), false);
        let made = Made { run, drive, depth, result: None, failure, by_time, omitted: None };
        Rows { run: run_row(&made), processes: Vec::new(), windows: Vec::new() }
    }

    fn spec(&self, run: &Run) -> Result<Spec, Error> {
        Spec::parse_in(self.catalogue, &run.scheduler).map_err(|error| Error::Usage(error.to_string()))
    }

    fn requests(&self, run: &Run) -> Result<Rows, Error> {
        let name = run.drive.as_ref().map_or(DEFAULT_DRIVE, |drive| drive.place());
        let mut device = Device::open(name)?;
        if let Some(array) = &run.array {
            device = device.in_array(array)?;
        }
        let spec = self.spec(run)?.at_the_block().map_err(|error| Error::Usage(error.to_string()))?;
        if spec.listing().needs_array() && run.array.is_none() {
            return Err(Error::Usage(format!("{spec} coordinates the members of an array")));
        }
        let loaded = self.load(run, device.capacity())?;
        let depth = run.depth.unwrap_or_else(|| device.depth()).min(device.depth());
        let limits = Limits::default();
        let limits = Limits { nr_requests: run.nr_requests.unwrap_or(limits.nr_requests), ..limits };
        let plan = Plan {
            workload: &*loaded.workload,
            device: &device,
            schedulers: &[],
            options: Options { depth, identity: run.identity.of_queue(), limits, ..Options::default() },
            before: phase(run.seed),
            at_most: run.at_most_ns.map(Span::from_nanos),
            chart_requests: 0,
            explain: None,
        };
        let (windows, result) = observed(run, |observer| runs::one(&plan, &spec, observer));
        let mut result = result.map_err(Error::Usage)?;
        // Of jobs that end at their runtime, the work counts, as of a script's programs.
        let is_timed = loaded.runtimes.bound(&result);
        if is_timed {
            result.work_bytes = Some(result.measured.bytes);
        }
        let drive = run.drive.as_ref().map_or(DEFAULT_DRIVE, |drive| &drive.name);
        let how = (loaded.by_time || is_timed, loaded.omitted.as_ref());
        Ok(rows(run, drive, depth, how, &result, windows))
    }

    fn script(&self, run: &Run) -> Result<Rows, Error> {
        let (mut scenario, _) = input::open_script(run.workload.place(), run.scale.unwrap_or(1.0))?;
        scenario.reseed(run.seed.saturating_sub(1));
        if let Some(ns) = run.at_most_ns {
            // The set-up multiplies it by the scale.
            let whole = ns as f64 / scenario.scale.min(1.0);
            scenario.script.at_most = Some(Delay(Span::from_nanos(whole as u64)));
        }
        scenario.script.change.depth = run.depth.or(scenario.script.change.depth);
        if run.identity != Identity::Shown {
            scenario.script.identity = run.identity;
        }
        let drive = run.drive.as_ref();
        let name = drive.map(|drive| drive.name.clone()).or_else(|| scenario.script.drive.clone());
        let name = name.unwrap_or_else(|| DEFAULT_DRIVE.to_owned());
        let overrides = Overrides {
            machine: run.machine.as_ref().map(|machine| machine.place()),
            drive: drive.map(|drive| drive.place()),
            array: run.array.as_deref(),
        };
        let mut setup = RunSetup::open(scenario, overrides)?;
        setup.before = phase(run.seed);
        let spec = self.spec(run)?;
        let (windows, result) = observed(run, |observer| runs::script(&setup, &spec, 0, None, observer));
        let result = result?;
        let seen = result.outcome.as_ref().map(|outcome| &outcome.seen);
        let by_time = seen.is_some_and(|seen| setup.scenario.lasted_fixed_time(seen));
        Ok(rows(run, &name, setup.options().depth, (by_time, None), &result, windows))
    }

    /// The workload of a run, opened at most once for consecutive runs.
    fn load(&self, run: &Run, capacity: Sector) -> Result<Arc<Loaded>, Error> {
        let seed = if matches!(run.kind, Kind::Recording) { 1 } else { run.seed };
        let key = Key {
            place: run.workload.place().to_owned(),
            sha256: run.workload.sha256.clone(),
            reading: run.reading.clone(),
            open: run.open,
            seed,
            capacity,
        };
        let shared = {
            let mut kept = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            let found = kept.iter().position(|(known, _)| *known == key).map(|index| kept.remove(index));
            let entry = found.unwrap_or_else(|| (key.clone(), Shared::default()));
            let shared = Arc::clone(&entry.1);
            kept.push(entry);
            if kept.len() > KEPT {
                kept.remove(0);
            }
            shared
        };
        let loaded = shared.get_or_init(|| {
            let reading = if run.kind == Kind::Recording { run.reading.clone() } else { Reading::default() };
            let how = Replaying {
                open: (run.open && run.kind == Kind::Recording).then_some("open"),
                seed,
                ..Replaying::default()
            };
            match input::open(&key.place, &reading, how, capacity) {
                Ok(opened) => {
                    let Opened { workload, by_time, skips, runtimes, .. } = opened;
                    let omitted = (run.kind == Kind::Recording).then(|| Omitted::of(&skips));
                    Ok(Arc::new(Loaded { workload, by_time, runtimes, omitted }))
                }
                Err(Error::Usage(problem)) => Err(Unusable::Unfit(problem)),
                Err(error) => Err(Unusable::Unreadable(error.to_string())),
            }
        });
        match loaded {
            Ok(loaded) => Ok(Arc::clone(loaded)),
            Err(error) => {
                // The next run tries again.
                let mut kept = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
                kept.retain(|(known, _)| *known != key);
                Err(match error {
                    Unusable::Unfit(problem) => Error::Usage(problem.clone()),
                    Unusable::Unreadable(problem) => Error::Input(problem.clone()),
                })
            }
        }
    }
}

/// The drive of workloads that name none.
pub(crate) const DEFAULT_DRIVE: &str = "wd5000aaks";

/// How long before the start the drives were switched on, which sets the phase of the platters: up to a second, and 0 with seed 1.
fn phase(seed: u64) -> Span {
    match seed {
        0 | 1 => Span::ZERO,
        _ => Span::from_nanos(Random::new(seed).below(1_000_000_000)),
    }
}

/// Calls `work` with the observers of the run's windows.
fn observed<T>(run: &Run, work: impl FnOnce(&mut Listeners<'_>) -> T) -> (Vec<crate::windows::Window>, T) {
    let windows = run.window_ns.map(Windows::new);
    let mut observer = |place: Observed| {
        // Members have parts of requests.
        let windows = windows.clone().filter(|_| !matches!(place, Observed::Member(_)))?;
        Some(Box::new(Watcher(windows)) as Box<dyn Observer>)
    };
    let result = work(&mut observer);
    (windows.map(|windows| windows.borrow_mut().finish()).unwrap_or_default(), result)
}

fn rows(
    run: &Run,
    drive: &str,
    depth: u32,
    (by_time, omitted): (bool, Option<&Omitted>),
    result: &runs::Run,
    windows: Vec<crate::windows::Window>,
) -> Rows {
    let (depth, failure) = (Some(depth), result.failure.as_deref());
    let made = Made { run, drive, depth, result: Some(result), failure, by_time, omitted };
    Rows {
        run: run_row(&made),
        processes: result.measured.processes.iter().map(|process| process_row(run, process)).collect(),
        windows: windows.iter().map(|window| window_row(run, window)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::tests::run;
    use crate::table::{PROCESSES, RUNS, WINDOWS};

    fn value<'a>(rows: &'a Rows, name: &str) -> &'a Cell {
        let index = RUNS.iter().position(|field| field.name == name).unwrap();
        &rows.run[index]
    }

    #[test]
    fn the_rows_depend_on_the_description_only() {
        let executor = Executor::new(Catalogue::default());
        let of = Run { window_ns: Some(50_000_000), ..run() }.identify();
        let (once, again) = (executor.execute(&of).unwrap(), executor.execute(&of).unwrap());
        assert_eq!(once, again);
        assert_eq!(once, Executor::new(Catalogue::default()).execute(&of).unwrap());
        assert_eq!(once.id(), of.id);
        assert_eq!(once.run.len(), RUNS.len());
        assert!(!once.processes.is_empty() && once.processes.iter().all(|row| row.len() == PROCESSES.len()));
        assert!(once.windows.len() >= 2 && once.windows.iter().all(|row| row.len() == WINDOWS.len()));
        let bytes = |rows: &[Vec<Cell>], at: usize| -> i64 {
            rows.iter().map(|row| if let Cell::Whole(n) = row[at] { n } else { 0 }).sum()
        };
        let at = WINDOWS.iter().position(|field| field.name == "bytes").unwrap();
        assert_eq!(*value(&once, "bytes"), Cell::Whole(bytes(&once.windows, at)));
    }

    #[test]
    fn another_seed_is_another_draw() {
        let executor = Executor::new(Catalogue::default());
        let elapsed = |seed| value(&executor.execute(&Run { seed, ..run() }).unwrap(), "requests").clone();
        assert_ne!(elapsed(1), elapsed(2));
    }

    #[test]
    fn an_impossible_run_has_a_row_with_the_reason() {
        let executor = Executor::new(Catalogue::default());
        let large =
            Run { workload: Input::built_in("par-read{processes=2, apart_bytes=900000000000}"), ..run() };
        for impossible in [Run { scheduler: "array-stream(deadline)".to_owned(), ..run() }, large] {
            let rows = executor.execute(&impossible).unwrap();
            assert_eq!(rows.run.len(), RUNS.len());
            assert!(matches!(value(&rows, "failure"), Cell::Text(_)), "{:?}", impossible.scheduler);
        }
    }

    /// The path differs between processes, and is that of a copy if the name is an address.
    #[test]
    fn an_unreadable_recording_is_an_error_with_its_name() {
        for (path, expected) in
            [("/nonexistent/a", "b.csv: "), ("/dev/null", "b.csv: is empty; name a recording")]
        {
            let input = Input { name: "b.csv".to_owned(), path: Some(path.to_owned()), sha256: None };
            let unreadable = Run { workload: input, kind: Kind::Recording, ..run() };
            let error = Executor::new(Catalogue::default()).execute(&unreadable).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
