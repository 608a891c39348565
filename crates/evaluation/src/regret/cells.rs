//! The cells of a run: workloads × drives × depths × process identity that schedulers receive.
//!
//! The full product would take hours. Each workload therefore runs on every drive of the list, with depth and identity drawn in turn so
//! that each pair occurs, and a paper's script on its own drive.

use std::sync::Arc;

use elevator::queue::Identity;
use schedulers::Spec;
use schedulers::registry::Catalogue;
use workloads::Workload as Requests;
use workloads::builtin::Builtin;
use workloads::scenario::{Scenario, papers};

use super::drawn;
use super::workload::{BUILT_IN, JOBS, Measure, SCRIPTS, Workload, is_comparable};
use crate::device::Device;
use crate::duel::Benchmark;
use crate::error::Error;
use crate::report::format::printable;

/// One comparison of schedulers.
#[derive(Clone)]
pub struct Cell {
    /// The workload's name.
    pub workload: String,
    /// The drive, with its overrides.
    pub drive: String,
    /// Commands in the drive at once.
    pub depth: u32,
    /// Whether schedulers see processes.
    pub identity: Identity,
    device: Arc<Device>,
    what: Workload,
}

impl Cell {
    /// The cell in one line, by which `--only` selects.
    #[must_use]
    pub fn name(&self) -> String {
        let identity = self.identity.name();
        let name = format!("{} on {} depth {} {identity}", self.workload, self.drive, self.depth);
        printable(&name).into_owned()
    }

    /// Runs the cell under a scheduler.
    ///
    /// # Errors
    /// The reason why there is no result.
    pub fn run(&self, spec: &Spec, catalogue: Catalogue) -> Result<Measure, String> {
        self.what.run((&self.device, self.depth, self.identity), spec, catalogue)
    }
}

/// Workloads and drives for tuning a policy, and those that a policy must not be tuned for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Set {
    /// Workloads and drives on which policies are developed.
    Tuning,
    /// Workloads and drives on which a finished policy is evaluated.
    HeldOut,
    /// The benchmarks of the duel, fio jobs and short scripts on drives that differ in internal queue, write cache and depth.
    Queues,
}

/// What to run.
pub struct Selection<'a> {
    /// The set.
    pub set: Set,
    /// Drives instead of the set's own, with or without overrides.
    pub drives: &'a [String],
    /// Depths instead of those of the set.
    pub depths: &'a [u32],
    /// Additional workloads: recordings and job files.
    pub files: Vec<(String, Arc<dyn Requests>)>,
    /// Only cells whose names contain all of these; `|` separates alternatives, one of which is enough.
    pub only: &'a [String],
    /// At most so many cells, drawn evenly.
    pub sample: Option<usize>,
    /// Seed of what is drawn: drives, and jobs of the held-out set.
    pub seed: u64,
}

/// Drives and depths for tuning.
const TUNING: [(&str, u32); 7] = [
    ("wd5000aaks", 31),
    ("wd5000aaks", 1),
    ("wd5000aaks", 4),
    ("wd5000aaks{write_cache=off}", 31),
    ("wd5000aaks{queue.order=fcfs}", 31),
    ("barracuda-7200.10", 1),
    ("ssd-sata", 31),
];

/// Drives and depths that are held out.
const HELD_OUT: [(&str, u32); 5] = [
    ("st31500341as", 31),
    ("st31500341as{write_cache=off}", 4),
    ("barracuda-7200.10{queue.order=look}", 31),
    ("wd5000aaks{queue.order=sstf,buffer.read_ahead=none}", 4),
    ("ssd-nvme", 31),
];

/// Settings of the set `queues`: the drive's own order (by positioning time, with ageing), and others.
const QUEUES: [&str; 4] = ["", ",queue.order=fcfs", ",queue.order=look", ",queue.order=sstf"];
const DEPTHS: [u32; 3] = [1, 4, 31];

/// The scripts of the set `queues`.
const QUEUES_SCRIPTS: [&str; 3] = ["start-up", "untar", "log-appends"];

/// Workloads that are held out.
const HELD_OUT_WORKLOADS: [&str; 5] =
    ["scrub-beside-database", "mail-server", "guest-image", "fio-randrw-8", "tpc-h"];

/// Fio jobs of the held-out set that are drawn from consecutive seeds.
const DRAWN_JOBS: u64 = 12;

/// Scale of the papers' scripts.
const SCALE: f64 = 0.05;

/// The cells of a selection.
///
/// # Errors
/// An unknown drive.
pub fn cells(selection: &Selection<'_>) -> Result<Vec<Cell>, Error> {
    let mut cells = Vec::new();
    let workloads = workloads(selection)?;
    for (n, (drive, depth)) in drives(selection).into_iter().enumerate() {
        let device = Arc::new(Device::open(&drive)?);
        for (m, (name, what)) in workloads.iter().enumerate() {
            if !what.fits(&device) {
                continue;
            }
            let both = matches!(what, Workload::Duel(_));
            for hidden in [false, true] {
                if both || hidden == (n + m).is_multiple_of(2) {
                    let identity = if hidden { Identity::Hidden } else { Identity::Shown };
                    let depth = depth.min(device.depth());
                    let (workload, drive) = (name.clone(), drive.clone());
                    cells.push(Cell {
                        workload,
                        drive,
                        depth,
                        identity,
                        device: Arc::clone(&device),
                        what: what.clone(),
                    });
                }
            }
        }
    }
    if selection.drives.is_empty() {
        cells.extend(papers(selection.set)?);
    }
    cells.retain(|cell| {
        let name = cell.name();
        selection.only.iter().all(|only| only.split('|').any(|text| name.contains(text)))
    });
    if let Some(sample) = selection.sample.filter(|&sample| sample < cells.len()) {
        let all = cells.len();
        let mut n = 0;
        cells.retain(|_| {
            n += 1;
            n * sample / all > (n - 1) * sample / all
        });
    }
    Ok(cells)
}

/// The drives that a set has from a seed: a specification and a depth each. The held-out set has others than the set for tuning.
#[must_use]
pub fn drawn_drives(set: Set, seed: u64) -> Vec<(String, u32)> {
    let seeds = match set {
        Set::Tuning => seed..seed + 1,
        Set::HeldOut => seed + 1000..seed + 1003,
        Set::Queues => return queues(&[&drawn::queue(seed)]),
    };
    seeds.map(drawn::drive).collect()
}

/// A drive with each of these internal queues, with and without a cache for writes, at each depth.
fn queues(settings: &[&str]) -> Vec<(String, u32)> {
    let mut drives = Vec::new();
    for setting in settings {
        for cache in ["on", "off"] {
            let drive = format!("wd5000aaks{{write_cache={cache}{setting}}}");
            drives.extend(DEPTHS.map(|depth| (drive.clone(), depth)));
        }
    }
    drives
}

fn drives(selection: &Selection<'_>) -> Vec<(String, u32)> {
    let named = |all: &[(&str, u32)]| all.iter().map(|&(drive, depth)| (drive.to_owned(), depth)).collect();
    let mut drives: Vec<(String, u32)> = match selection.set {
        _ if !selection.drives.is_empty() => {
            selection.drives.iter().map(|drive| (drive.clone(), 31)).collect()
        }
        Set::Tuning => named(&TUNING),
        Set::HeldOut => named(&HELD_OUT),
        Set::Queues => queues(&QUEUES),
    };
    if selection.drives.is_empty() {
        drives.extend(drawn_drives(selection.set, selection.seed));
    }
    if selection.depths.is_empty() {
        return drives;
    }
    let each = |(drive, _): (String, u32)| {
        selection.depths.iter().map(move |&depth| (drive.clone(), depth)).collect::<Vec<_>>()
    };
    drives.into_iter().flat_map(each).collect()
}

fn workloads(selection: &Selection<'_>) -> Result<Vec<(String, Workload)>, Error> {
    let mut all: Vec<(String, Workload)> = Vec::new();
    for (name, requests) in &selection.files {
        all.push((name.clone(), Workload::Requests(Arc::clone(requests))));
    }
    for benchmark in Benchmark::ALL {
        all.push((benchmark.name(), Workload::Duel(benchmark)));
    }
    for (name, text) in SCRIPTS {
        all.push((name.to_owned(), Workload::Script { text, scale: 1.0 }));
    }
    for (name, text) in JOBS {
        all.push((name.to_owned(), Workload::job(name, text)?));
    }
    for (name, settings) in BUILT_IN {
        let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let Some(builtin) = Builtin::named(name) else { continue };
        let requests = builtin.build(&settings).map_err(|e| Error::Failed(e.to_string()))?;
        all.push((name.to_owned(), Workload::Requests(Arc::from(requests))));
    }
    match selection.set {
        Set::Queues => all.retain(|(name, what)| match what {
            Workload::Script { .. } => QUEUES_SCRIPTS.contains(&name.as_str()),
            _ => BUILT_IN.iter().all(|(builtin, _)| name != builtin),
        }),
        Set::Tuning => all.retain(|(name, _)| !HELD_OUT_WORKLOADS.contains(&name.as_str())),
        Set::HeldOut => {
            for seed in selection.seed..selection.seed + DRAWN_JOBS {
                let name = format!("fio-drawn-{seed}");
                let job = Workload::job(&name, &drawn::job(seed))?;
                all.push((name, job));
            }
        }
    }
    Ok(all)
}

/// The papers' experiments on their own drives; every third is held out.
fn papers(set: Set) -> Result<Vec<Cell>, Error> {
    let mut cells = Vec::new();
    if set == Set::Queues {
        return Ok(cells);
    }
    for (n, &(name, text)) in papers::SCRIPTS.iter().enumerate() {
        if n.is_multiple_of(3) != (set == Set::HeldOut) {
            continue;
        }
        let scenario = Scenario::parse(name, text, SCALE).map_err(|e| Error::Failed(e.to_string()))?;
        if !is_comparable(&scenario) {
            continue;
        }
        let drive = scenario.script.drive.clone().unwrap_or_else(|| "wd5000aaks".to_owned());
        let device = Arc::new(Device::open(&drive)?);
        let depth = scenario.script.change.depth.unwrap_or(31).min(device.depth());
        let identity = if n.is_multiple_of(2) { Identity::Shown } else { Identity::Hidden };
        let what = Workload::Script { text, scale: SCALE };
        if what.fits(&device) {
            cells.push(Cell { workload: name.to_owned(), drive, depth, identity, device, what });
        }
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Selection<'_> = Selection {
        set: Set::Tuning,
        drives: &[],
        depths: &[],
        files: Vec::new(),
        only: &[],
        sample: None,
        seed: 1,
    };

    fn names(selection: &Selection<'_>) -> Vec<String> {
        cells(selection).unwrap().iter().map(Cell::name).collect()
    }

    #[test]
    fn the_name_of_a_cell_is_one_line() {
        let cell = cells(&ALL).unwrap().swap_remove(0);
        let cell = Cell { workload: "r/new\nline.gz".to_owned(), ..cell };
        assert!(cell.name().starts_with("r/new\\nline.gz on "), "{}", cell.name());
    }

    #[test]
    fn tuning_does_not_use_what_is_held_out() {
        let (tuning, held_out) = (names(&ALL), names(&Selection { set: Set::HeldOut, ..ALL }));
        assert!(HELD_OUT_WORKLOADS.iter().all(|name| tuning.iter().all(|cell| !cell.starts_with(name))));
        assert!(HELD_OUT_WORKLOADS.iter().all(|name| held_out.iter().any(|cell| cell.starts_with(name))));
        assert!(tuning.iter().all(|cell| !held_out.contains(cell)));
    }

    #[test]
    fn the_drawn_drives_are_those_that_run() {
        for set in [Set::Tuning, Set::HeldOut, Set::Queues] {
            let names = names(&Selection { set, ..ALL });
            for (drive, depth) in drawn_drives(set, ALL.seed) {
                let what = format!(" on {drive} depth {depth} ");
                assert!(names.iter().any(|name| name.contains(&what)), "{what}");
            }
        }
    }

    #[test]
    fn the_set_of_queues_has_each_order_cache_and_depth() {
        let names = names(&Selection { set: Set::Queues, ..ALL });
        let drives = QUEUES.map(str::to_owned).into_iter().chain([drawn::queue(ALL.seed)]);
        for setting in drives {
            for (cache, depth) in
                ["on", "off"].into_iter().flat_map(|cache| DEPTHS.map(|depth| (cache, depth)))
            {
                let what = format!("sqlite on wd5000aaks{{write_cache={cache}{setting}}} depth {depth} ");
                assert_eq!(names.iter().filter(|name| name.starts_with(&what)).count(), 2, "{what}");
            }
        }
    }

    #[test]
    fn only_has_alternatives() {
        let only = ["sqlite|postgresql".to_owned(), "depth 4 hidden".to_owned()];
        let found = names(&Selection { only: &only, ..ALL });
        assert!(found.iter().any(|name| name.starts_with("sqlite")), "{found:?}");
        assert!(found.iter().any(|name| name.starts_with("postgresql")), "{found:?}");
        assert!(found.iter().all(|name| name.ends_with("depth 4 hidden")), "{found:?}");
        assert!(found.iter().all(|name| !name.starts_with("par-read")), "{found:?}");
    }

    #[test]
    fn a_sample_has_the_requested_number_of_cells() {
        let some = names(&Selection { sample: Some(20), ..ALL });
        let all = names(&ALL);
        assert_eq!(some.len(), 20);
        assert!(some.iter().all(|cell| all.contains(cell)));
    }
}
