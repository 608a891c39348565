//! Hit ratio of clusters over a long recording: full windows against reduced ones (the paper's section III-E).
//!
//! The paper's recording is a week of cello99, which may not be redistributed. Here it is two hours of one production virtual machine
//! (CloudPhysics). The project does not ship this one either; it is read from `$DWELL_SHARED/traces` or `../shared/traces`.

use std::fs::File;
use std::path::PathBuf;

use tuner::{Parameters, Window};

use crate::error::Error;
use crate::papers::{Row, verdict};
use crate::windows::{Clusters, Cutter};

const NAME: &str = "clusters of a recording";
const FILE: &str = "traces/cloudphysics-vm.vscsi.csv.gz";

pub(super) fn hit_ratio(_scale: f64) -> Result<Vec<Row>, Error> {
    let shared = std::env::var_os("DWELL_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let path = shared.join(FILE);
    let Ok(file) = File::open(&path) else {
        say!("SKIPPED: {NAME}: there is no {} (set DWELL_SHARED)", path.display());
        return Ok(Vec::new());
    };
    let paper = Parameters::default();
    let [full, reduced] = of(&path.to_string_lossy(), file, [Parameters { x: 0, ..paper }, paper])?;
    let note = format!(
        "{NAME}: {} windows above one request a second in two hours, {} clusters of full windows and {} of reduced ones; a week of cello99 gives windows more time to recur",
        full.windows(),
        full.count(),
        reduced.count()
    );
    let [full, reduced] = [full, reduced].map(|clusters| clusters.hit_ratio());
    let row = |figure: &str, published, ours| {
        Row::reported(NAME, figure.to_owned(), published, ours * 100.0, "%").noting(note.clone())
    };
    Ok(vec![
        row("hits, every jump", "97%", full)
            .counting_as("ioanalyzer/hits, full", verdict::magnitude(3.0, 100.0 * (1.0 - full))),
        row("hits, 1000 buckets", "96%", reduced)
            .counting_as("ioanalyzer/hits, reduced", verdict::magnitude(4.0, 100.0 * (1.0 - reduced))),
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

/// The clusters of a recording under each of these parameters.
fn of(name: &str, file: File, parameters: [Parameters; 2]) -> Result<[Clusters; 2], Error> {
    let wrong = |error: traces::Error| Error::Input(error.to_string());
    let recording = traces::open(name, Box::new(file), &traces::Options::default()).map_err(wrong)?;
    let (mut cutter, mut clusters) = (Cutter::of(Parameters::default().t), parameters.map(Clusters::new));
    let mut window = |window: Option<Window>| {
        window.iter().for_each(|window| clusters.iter_mut().for_each(|of| of.window(window)));
    };
    for record in recording {
        window(cutter.push(&record.map_err(wrong)?));
    }
    window(cutter.finish());
    Ok(clusters)
}
