//! Programs that go through a page cache and a file system, on the modelled kernel: the benchmark as a script of `dwell run`.
//!
//! A testbed's file systems are small and far apart. The model has one: in its partition where reality has one, too; and over the
//! whole drive, with directories where those are, where there are several. The whole way of a request lies beneath the queue,
//! whoever schedules: what a program waits for is the same, and read-ahead and write-back hide from a scheduler what its programs
//! think.
//!
//! A loop device's worker waits for each flush before it looks at what came after it, so whoever schedules behind it does not see
//! that before.

use std::fmt::Write as _;

use ::duel::{Benchmark, Content, Engine, FileSystem, tree_files};
use elevator::Span;
use elevator::queue::Identity;
use machine::kernel::{Description, FlushKind, fs};
use workloads::contents::Contents;
use workloads::programs::diary::Seen;
use workloads::scenario::Scenario;

use super::{Asked, Model};
use crate::duel::comparison::Predicted;
use crate::scene::Scene;

/// The machine that stands for this one.
const MACHINE: &str = "linux-6";

/// Requests (bytes, whether they write) whose ways are asked for: pages, and windows of read-ahead or write-back.
pub(super) const REQUESTS: [(u64, bool); 2] = [(4096, false), (128 << 10, false)];

/// Whether there is a script for it.
pub(super) const fn can_predict(benchmark: &Benchmark) -> bool {
    matches!(
        benchmark,
        Benchmark::ParRead { direct: false } | Benchmark::Greps | Benchmark::PostMark | Benchmark::Commits(_)
    )
}

/// What the model says of such programs.
pub(super) fn predict(model: &Model<'_>, asked: &Asked<'_>) -> Result<Predicted, String> {
    let mut scenario =
        Scenario::parse(MACHINE, &script(model, asked), 1.0).map_err(|error| error.to_string())?;
    add_trees(model, asked.benchmark, &mut scenario.contents);
    let mut machine = Description::named(MACHINE).map_err(|error| error.to_string())?;
    machine.block.fua = false;
    // What mke2fs chooses for the small file systems of these benchmarks, and the size limit of this machine's device.
    if let fs::Options::Ext(options) = &mut machine.file_system.layout {
        options.journal_blocks = 4096;
    }
    machine.block.max_kib = 512;
    if asked.behind_a_loop_device {
        machine.block.flush = FlushKind::Serial;
    }
    let machine = scenario.machine(&machine);
    let scene = Scene { scenario, machine, device: asked.device(|_| 1.0) };
    let outcome = scene.run(&asked.spec, &mut |_| None).map_err(|error| error.to_string())?.outcome;
    if let Some(failure) = outcome.failure {
        return Err(failure);
    }
    let (from, to) = outcome.window(|_| true).ok_or("nobody ran")?;
    let seconds = (to - from).max(1) as f64 / 1e9;
    let bytes: u64 = outcome.seen.values().map(|seen| seen.read_bytes + seen.written_bytes).sum();
    let worst = |seen: &Seen| seen.worst_read_ns.max(seen.worst_write_ns).max(seen.worst_sync_ns);
    let calls = || outcome.seen.values().map(worst).max();
    let longest = outcome.transactions.values().map(|all| all.max_ns).max().or_else(calls);
    let programs = outcome.seen.len() as u64;
    let operations = match asked.benchmark {
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

/// Bytes of 16 groups of ext4, which keep their inodes together at the beginning of the first of them. A testbed's file system
/// begins with such a group, so its trees stand beside their inodes.
const FLEX_GROUP: u64 = 16 * (128 << 20);

/// The trees of a benchmark, file by file as the testbed has them.
fn add_trees(model: &Model<'_>, benchmark: &Benchmark, contents: &mut Contents) {
    for (n, file_system) in benchmark.file_systems(&model.size).iter().enumerate() {
        if let Content::Tree { files, seed } = file_system.content {
            let place = file_system.start_bytes.next_multiple_of(FLEX_GROUP);
            for (name, bytes) in tree_files(files, seed) {
                // Placed each by itself, files share no window: mke2fs lays them one behind the other, whatever their length.
                contents.place(Some(place));
                contents.file(&format!("/tree-{n}/{name}"), bytes);
            }
        }
    }
}

fn script(model: &Model<'_>, asked: &Asked<'_>) -> String {
    let identity = match asked.identity {
        Identity::Shown => "shown",
        Identity::Hidden => "hidden",
        Identity::Same => "same",
    };
    let mut script = format!(
        "about = \"{}\"\nidentity = \"{identity}\"\nat-most = \"{} us\"\n[change]\ndepth = {}\n",
        asked.benchmark.name(),
        asked.at_most.as_nanos() / 1000,
        asked.depth
    );
    if let [FileSystem { start_bytes, bytes, .. }] = asked.benchmark.file_systems(&model.size)[..] {
        let _ = writeln!(script, "partition = {{ at = {start_bytes}, bytes = {bytes} }}");
    }
    let (on_disk, programs) = programs(model, asked);
    script.push_str(on_disk);
    for (n, (steps, beside)) in programs.iter().enumerate() {
        let (after, level) =
            (asked.starts.get(n).map_or(0, |start| start.as_nanos() / 1000), asked.priority.level);
        let _ = write!(
            script,
            "[[process]]\nname = \"{n}\"\nafter = \"{after} us\"\npriority = {level}\nbeside = {beside}\nsteps = [{steps}]\n",
        );
    }
    script
}

/// What is on the disk, and the programs' steps, each with whether it only makes work for the others.
fn programs(model: &Model<'_>, asked: &Asked<'_>) -> (&'static str, Vec<(String, bool)>) {
    let alike = |count: u64, steps: &dyn Fn(u64) -> String| {
        (1..=if asked.alone { 1 } else { count }).map(|n| (steps(n), false)).collect()
    };
    match asked.benchmark {
        Benchmark::ParRead { .. } => {
            let read = |n| format!("{{ read = {{ file = \"/region-{n}\", chunk = \"4 KiB\" }} }}");
            (REGIONS, alike(4, &read))
        }
        Benchmark::Greps => {
            let grep = |n| format!("{{ read-tree = {{ tree = \"/tree-{}\", by = \"grep\" }} }}", n - 1);
            (TREES, alike(2, &grep))
        }
        Benchmark::Commits(engine) => {
            (COMMITS, vec![(commits(*engine, asked.at_most), false), (COPY.to_owned(), true)])
        }
        _ => (POOLS, alike(4, &|n| postmark(n, model.size.transactions / 2, model.size.transactions))),
    }
}

/// par-read's regions.
const REGIONS: &str = "
[[on-disk]]
file = \"/region-{n}\"
bytes = \"1 GiB\"
copies = 4
at = \"1 GiB\"
apart = \"51 GiB\"
";

/// The roots of the trees.
const TREES: &str = "
[[on-disk]]
directory = \"/tree-0\"
[[on-disk]]
directory = \"/tree-1\"
";

/// Where PostMark's pools are made.
const POOLS: &str = "
[[on-disk]]
directory = \"/mail-{n}\"
copies = 4
";

/// What is copied, the pages that rows go to, and a log as a data base makes it beforehand.
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

/// The copy, again and again, as the duel makes it.
const COPY: &str = "{ forever = [{ forget = \"/file\" }, { copy = { from = \"/file\", to = \"/copy\", chunk = \"128 KiB\" } }, \
     { fsync = \"/copy\" }, { unlink = \"/copy\" }] }";

/// Bytes that PostgreSQL 15 logs of a row of 100 bytes and its commit, measured over 1000 of them.
const RECORDS: u64 = 200;

/// Rows, one at a time, for as long as the programs run.
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

/// The pool is made and written out; then transactions find it on the disk and not in memory.
fn postmark(n: u64, files: u64, transactions: u64) -> String {
    format!(
        "{{ postmark = {{ directory = \"/mail-{n}\", files = {files}, transactions = {transactions}, forget = true, append = 500, \
         least = 500, most = 10000, seed = {n} }} }}, {{ sync = {{}} }}"
    )
}
