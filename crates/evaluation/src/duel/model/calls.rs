//! Programs with system calls on the modelled kernel: the benchmark as a script of `dwell run`.
//!
//! A testbed's file systems are small and far apart. The model has one file system: in the same partition if the testbed has one, or
//! over the whole drive with directories at the same places if it has several. The whole path latency is below the queue: programs
//! wait equally long, and read-ahead and write-back hide the programs' think time from the scheduler.
//!
//! A loop device's worker waits for each flush before it takes the next request, so a scheduler behind it sees requests after a flush
//! only when the flush is done.

use std::fmt::Write as _;

use crate::duel::{Benchmark, Content, Engine, FileSystem, tree_files};
use elevator::Span;
use machine::kernel::{Description, FlushKind, fs};
use workloads::contents::Contents;
use workloads::programs::diary::Seen;
use workloads::scenario::Scenario;

use super::{Model, Query};
use crate::duel::comparison::Predicted;
use crate::run_setup::RunSetup;

/// The machine that models the host.
const MACHINE: &str = "linux-6";

/// Requests (bytes, whether they write) whose latency is measured: pages, and windows of read-ahead or write-back.
pub(super) const REQUESTS: [(u64, bool); 2] = [(4096, false), (128 << 10, false)];

/// Whether there is a script for the benchmark.
pub(super) const fn can_predict(benchmark: &Benchmark) -> bool {
    matches!(
        benchmark,
        Benchmark::ParRead { direct: false } | Benchmark::Greps | Benchmark::PostMark | Benchmark::Commits(_)
    )
}

/// The prediction for such programs.
pub(super) fn predict(model: &Model<'_>, query: &Query<'_>) -> Result<Predicted, String> {
    let mut scenario =
        Scenario::parse(MACHINE, &script(model, query), 1.0).map_err(|error| error.to_string())?;
    add_trees(model, query.benchmark, &mut scenario.contents);
    let mut machine = Description::named(MACHINE).map_err(|error| error.to_string())?;
    machine.block.fua = false;
    // What mke2fs chooses for the small file systems of these benchmarks, and the size limit of this machine's device.
    if let fs::Options::Ext(options) = &mut machine.file_system.layout {
        options.journal_blocks = 4096;
    }
    machine.block.max_kib = 512;
    machine.block.sync_writes_are = query.sync_writes;
    if query.behind_a_loop_device {
        machine.block.flush = FlushKind::Serial;
    }
    let machine = scenario.machine(&machine);
    let setup = RunSetup { scenario, machine, device: query.device(|_| 1.0), before: Span::ZERO };
    let outcome = setup.run(&query.spec, &mut |_| None).map_err(|error| error.to_string())?.outcome;
    if let Some(failure) = outcome.failure {
        return Err(failure);
    }
    let (from, to) = outcome.window(|_| true).ok_or("no program ran")?;
    let seconds = (to - from).max(1) as f64 / 1e9;
    let bytes: u64 = outcome.seen.values().map(|seen| seen.read_bytes + seen.written_bytes).sum();
    let calls = || outcome.seen.values().map(Seen::worst_ns).max();
    let longest = outcome.transactions.values().map(|all| all.max_ns).max().or_else(calls);
    let programs = outcome.seen.len() as u64;
    let operations = match query.benchmark {
        Benchmark::Commits(_) => outcome.transactions.values().map(|all| all.count).sum(),
        _ if outcome.cut => 0,
        Benchmark::PostMark => programs * model.size.transactions,
        Benchmark::Greps => programs * model.size.tree_files,
        _ => bytes / 4096,
    };
    Ok(Predicted {
        megabytes_per_second: bytes as f64 / 1e6 / seconds,
        operations_per_second: operations as f64 / seconds,
        longest_wait_ns: longest.unwrap_or(0),
    })
}

/// Bytes of 16 block groups of ext4 (a flex group), which keep their inodes at the start of the first. A testbed's file system starts
/// with a flex group, so its trees are next to their inodes.
const FLEX_GROUP: u64 = 16 * (128 << 20);

/// The trees of a benchmark, file by file as in the testbed.
fn add_trees(model: &Model<'_>, benchmark: &Benchmark, contents: &mut Contents) {
    for (n, file_system) in benchmark.file_systems(&model.size).iter().enumerate() {
        if let Content::Tree { files, seed } = file_system.content {
            let place = file_system.start_bytes.next_multiple_of(FLEX_GROUP);
            for (name, bytes) in tree_files(files, seed) {
                // mke2fs writes files one after the other whatever their length, so each is placed on its own.
                contents.place(Some(place));
                contents.file(&format!("/tree-{n}/{name}"), bytes);
            }
        }
    }
}

fn script(model: &Model<'_>, query: &Query<'_>) -> String {
    let identity = query.identity.name();
    let mut script = format!(
        "about = \"{}\"\nidentity = \"{identity}\"\nat-most = \"{} us\"\n[change]\ndepth = {}\n",
        query.benchmark.name(),
        query.at_most.as_nanos() / 1000,
        query.depth
    );
    if let [FileSystem { start_bytes, bytes, .. }] = query.benchmark.file_systems(&model.size)[..] {
        let _ = writeln!(script, "partition = {{ at = {start_bytes}, bytes = {bytes} }}");
    }
    let (on_disk, programs) = programs(model, query);
    script.push_str(on_disk);
    for (n, (steps, beside)) in programs.iter().enumerate() {
        let (after, level) =
            (query.starts.get(n).map_or(0, |start| start.as_nanos() / 1000), query.priority.level);
        let _ = write!(
            script,
            "[[process]]\nname = \"{n}\"\nafter = \"{after} us\"\npriority = {level}\nbeside = {beside}\nsteps = [{steps}]\n",
        );
    }
    script
}

/// The files on disk and the programs' steps, each with whether the program is background load.
fn programs(model: &Model<'_>, query: &Query<'_>) -> (&'static str, Vec<(String, bool)>) {
    let alike = |count: u64, steps: &dyn Fn(u64) -> String| {
        (1..=if query.alone { 1 } else { count }).map(|n| (steps(n), false)).collect()
    };
    match query.benchmark {
        Benchmark::ParRead { .. } => {
            let read = |n| format!("{{ read = {{ file = \"/region-{n}\", chunk = \"4 KiB\" }} }}");
            (REGIONS, alike(4, &read))
        }
        Benchmark::Greps => {
            let grep = |n| format!("{{ read-tree = {{ tree = \"/tree-{}\", by = \"grep\" }} }}", n - 1);
            (TREES, alike(2, &grep))
        }
        Benchmark::Commits(engine) => {
            (COMMITS, vec![(commits(*engine, query.at_most), false), (COPY.to_owned(), true)])
        }
        _ => (POOLS, alike(4, &|n| postmark(n, model.size.transactions / 2, model.size.transactions))),
    }
}

/// The regions of par-read.
const REGIONS: &str = "
[[on-disk]]
file = \"/region-{n}\"
bytes = \"1 GiB\"
copies = 4
at = \"1 GiB\"
apart = \"51 GiB\"
";

/// Roots of the trees.
const TREES: &str = "
[[on-disk]]
directory = \"/tree-0\"
[[on-disk]]
directory = \"/tree-1\"
";

/// Directories of PostMark's pools.
const POOLS: &str = "
[[on-disk]]
directory = \"/mail-{n}\"
copies = 4
";

/// The file to copy, the pages of the table, and the preallocated log of the database.
const COMMITS: &str = "
[[on-disk]]
file = \"/file\"
bytes = \"64 MiB\"
[[on-disk]]
file = \"/pages\"
bytes = \"64 KiB\"
[[on-disk]]
file = \"/log\"
bytes = \"16 MiB\"
";

/// Repeated copies, as in the duel.
const COPY: &str = "{ forever = [{ forget = \"/file\" }, { copy = { from = \"/file\", to = \"/copy\", chunk = \"128 KiB\" } }, \
     { fsync = \"/copy\" }, { unlink = \"/copy\" }] }";

/// Bytes that PostgreSQL 15 logs for a row of 100 bytes and its commit, measured over 1000 rows.
const RECORDS: u64 = 200;

/// One-row commits until the programs end.
fn commits(engine: Engine, lasts: Span) -> String {
    let lasts = lasts.as_nanos() / 1000;
    match engine {
        Engine::Sqlite => format!("{{ rollback = {{ table = \"/rows\", lasts = \"{lasts} us\" }} }}"),
        Engine::Postgres => format!(
            "{{ tpc-b = {{ table = \"/pages\", log = \"/log\", lasts = \"{lasts} us\", clients = 1, records = {RECORDS}, \
             checkpoint-every = \"300 s\" }} }}"
        ),
    }
}

/// The pool is written to disk and evicted from memory before the transactions.
fn postmark(n: u64, files: u64, transactions: u64) -> String {
    format!(
        "{{ postmark = {{ directory = \"/mail-{n}\", files = {files}, transactions = {transactions}, forget = true, append = 500, \
         least = 500, most = 10000, seed = {n} }} }}, {{ sync = {{}} }}"
    )
}
