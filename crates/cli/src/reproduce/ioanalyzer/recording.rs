//! Hit ratio of clusters over a long recording: full windows against reduced ones (the paper's section III-E).
//!
//! The paper has a week of cello99, which may not be passed on. Here it is two hours of one production virtual machine
//! (CloudPhysics), which the project does not ship either: it is looked for in `$DWELL_SHARED/traces`, else in
//! `../shared/traces`.

use std::fs::File;
use std::path::PathBuf;

use tuner::{Access, CInfo, Parameters, Random, Store, Window, Windows};

use crate::error::Error;
use crate::reproduce::Row;

const NAME: &str = "clusters of a recording";
const FILE: &str = "traces/cloudphysics-vm.vscsi.csv.gz";

pub(super) fn hit_ratio(_scale: f64) -> Result<Vec<Row>, Error> {
    let shared = std::env::var_os("DWELL_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let path = shared.join(FILE);
    let Ok(file) = File::open(&path) else {
        eprintln!("SKIPPED: {NAME}: there is no {} (set DWELL_SHARED)", path.display());
        return Ok(Vec::new());
    };
    let windows = windows(&path.to_string_lossy(), file)?;
    let paper = Parameters::by_clusters();
    let (full, whole) = run(&windows, Parameters { x: 0, ..paper });
    let (reduced, clusters) = run(&windows, paper);
    let note = format!(
        "{NAME}: {} windows above one request a second in two hours, {whole} clusters of full windows and {clusters} of reduced ones; a week of cello99 gives windows more time to recur",
        windows.len()
    );
    let row = |figure: &str, published, ours| {
        Row::reported(NAME, figure.to_owned(), published, ours * 100.0, "%").noting(note.clone())
    };
    Ok(vec![
        row("hits, every jump", "97%", full),
        row("hits, 1000 buckets", "96%", reduced),
        Row::within(
            NAME,
            "hits that reduction loses".to_owned(),
            "1 point",
            (full - reduced) * 100.0,
            "points",
            f64::NEG_INFINITY..=2.0,
        ),
    ])
}

fn windows(name: &str, file: File) -> Result<Vec<Window>, Error> {
    let wrong = |error: traces::Error| Error::Input(error.to_string());
    let mut recording = traces::open(name, Box::new(file), &traces::Options::default()).map_err(wrong)?;
    let mut windows = Windows::of(Parameters::default().t);
    let mut cut = Vec::new();
    for record in recording.by_ref() {
        let record = record.map_err(wrong)?;
        let access =
            Access { time: record.at, position: record.start(), op: record.op, size: record.sectors() };
        cut.extend(windows.push(access));
    }
    cut.extend(windows.finish());
    cut.retain(Window::counts);
    Ok(cut)
}

/// The part of the windows that hit a cluster, and how many clusters there are in the end.
fn run(windows: &[Window], parameters: Parameters) -> (f64, usize) {
    let (mut random, mut store, mut hits) = (Random::seeded(1), Store::new(parameters, 1), 0u32);
    for window in windows {
        let cinfo = CInfo::of(window, &parameters, &mut random);
        match store.nearest(&cinfo).filter(|nearest| store.is_hit(nearest)) {
            Some(found) => {
                store.hit(found.cluster);
                hits += 1;
            }
            None => {
                store.add(cinfo);
            }
        }
    }
    (f64::from(hits) / windows.len().max(1) as f64, store.clusters().len())
}
