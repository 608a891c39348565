//! Digests of every decision of every scheduler over a real recording and a built-in workload, in a golden file. An optimisation of a
//! policy, the queue or a drive changes neither a decision nor its time.
//!
//! A digest covers the output of `--explain`, including reasons. `DWELL_BLESS=1 cargo test -p dwell-cli --lib compare::golden` writes the
//! file anew; the commit must explain each changed line. Split-level policies are not included, because `compare` does not run them.

use std::fmt::Write as _;
use std::hash::Hasher;
use std::path::Path;

use elevator::Span;
use elevator::queue::Options;
use fnv::FnvHasher;
use schedulers::{Spec, registry};

use evaluation::device::Device;
use evaluation::explain::{ExplainFormat, Explaining};
use evaluation::input::{self as workload, Reading, Replaying};
use evaluation::runs::{Plan, Run, run as run_plan};

const DRIVE: &str = "wd5000aaks";
/// For policies that coordinate the members of an array.
const ARRAY: &str = "raid0:2x64k";
const DEPTHS: [u32; 2] = [1, 31];
/// A recording of real programs (two readers of trees, and a copy with its writes and flushes), and a built-in workload of short processes.
const WORKLOADS: [(&str, &str); 2] = [
    ("greps", concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings/two-greps-and-a-copy.ftrace.gz")),
    ("chunks", "chunk-reads{files=200}"),
];
/// Limit of each run, in virtual time.
const AT_MOST: Span = Span::from_secs(4);

/// Every policy by its full name, and every wrapper around every policy that it can wrap.
fn policies(on_array: bool) -> Vec<Spec> {
    let fits = registry::all().filter(|listing| listing.needs_array() == on_array);
    let names = fits.flat_map(|listing| {
        let name = listing.full_name();
        if !listing.is_wrapper() {
            return vec![name];
        }
        let inside = registry::all().filter(|inside| inside.is_work_conserving());
        inside.map(|inside| format!("{name}({})", inside.full_name())).collect()
    });
    names.map(|name| Spec::parse(&name).unwrap()).filter(|spec| !spec.is_split()).collect()
}

fn runs(device: &Device, specs: &[Spec], workload: &str, depth: u32) -> Vec<Run> {
    let opened =
        workload::open(workload, &Reading::default(), Replaying::default(), device.capacity()).unwrap();
    let plan = Plan {
        workload: &*opened.workload,
        device,
        schedulers: specs,
        options: Options { depth, ..Options::default() },
        before: Span::ZERO,
        at_most: Some(AT_MOST),
        chart_requests: 0,
        explain: Some(Explaining { format: ExplainFormat::Text, folder: std::env::temp_dir() }),
    };
    run_plan(&plan, &|_| {}).unwrap()
}

/// The line of a run: its name, the number of decisions and other events, and the digest of all.
fn line(run: &Run, workload: &str, depth: u32) -> String {
    assert_eq!(run.failure, None, "{} over {workload} at depth {depth}", run.scheduler);
    let mut explanation = Vec::new();
    run.explanation.copy_to(&mut explanation).unwrap();
    let mut digest = FnvHasher::default();
    digest.write(&explanation);
    let events = explanation.iter().filter(|&&byte| byte == b'\n').count();
    format!("{:<36} {workload:<6} {depth:>2} {events:>6} {:016x}\n", run.scheduler, digest.finish())
}

fn all() -> String {
    let disk = Device::open(DRIVE).unwrap();
    let array = disk.clone().in_array(ARRAY).unwrap();
    let mut text = String::new();
    for (device, specs) in [(disk, policies(false)), (array, policies(true))] {
        for (name, workload) in WORKLOADS {
            for depth in DEPTHS {
                let runs = runs(&device, &specs, workload, depth);
                let _ = write!(text, "{}", runs.iter().map(|run| line(run, name, depth)).collect::<String>());
            }
        }
    }
    text
}

#[test]
fn decisions_equal_the_golden_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/compare/golden.txt");
    let text = all();
    if std::env::var_os("DWELL_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let is = |line: &&str| !golden.lines().any(|was| was == *line);
    let changed: Vec<&str> = text.lines().filter(is).collect();
    let gone = golden.lines().count() + changed.len() - text.lines().count();
    assert!(
        changed.is_empty() && gone == 0,
        "{} of {} runs are new or differ from src/commands/compare/golden.txt, and {gone} of its lines are gone:\n{}\n\
         If the change is intended (of a rule, a drive or the replay of recordings, not an optimisation), write the file \
         anew with DWELL_BLESS=1 cargo test -p dwell-cli --lib compare::golden, and explain the changed lines in the commit.",
        changed.len(),
        text.lines().count(),
        changed.join("\n")
    );
}
