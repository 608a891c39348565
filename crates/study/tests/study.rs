//! Studies from the file to the folder of results.

mod folder;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use folder::Folder;
use schedulers::registry::Catalogue;
use study::{
    Cell, Executor, Field, Rows, Run, Store, Study, Summary, complete, drive, encode, part_size,
    problem_lines,
};

const STUDY: &str = r#"
workloads = ["*.ascii", "par-read{processes=2}"]
schedulers = ["deadline", "noop"]
depths = [1, 4]
seeds = "1..2"
at_most = "100ms"
window = "20ms"

[tunables.deadline]
fifo_batch = "1..16*4"
"#;

/// 12 requests with time stamps, twice.
fn study(folder: &Folder, text: &str) -> Result<Vec<Run>, String> {
    for (name, stride) in [("a.ascii", 8), ("b.ascii", 80_000)] {
        let line = |n: u32| format!("{}.0 0 {} 8 {}\n", n, u64::from(n * 7 % 12) * stride, n % 2);
        fs::write(folder.0.join(name), (0..12).map(line).collect::<String>()).unwrap();
    }
    let study = Study::parse("s.toml", text.to_owned(), &folder.0).map_err(|error| error.to_string())?;
    study.runs(Catalogue::default()).map_err(|error| error.to_string())
}

#[test]
fn a_scheduler_may_be_a_file() {
    let folder = Folder::new();
    fs::write(folder.0.join("slow.toml"), "scheduler = \"deadline\"\nfifo_batch = 3\n").unwrap();
    let text = "workloads = [\"a.ascii\"]\nschedulers = [\"slow.toml\", \"noop\"]\n";
    let runs = study(&folder, text).unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run.scheduler.as_str()).collect();
    assert_eq!(names, ["deadline-2.6.32{fifo_batch=3}", "noop"]);
    let swept = format!("{text}[tunables.\"slow.toml\"]\nfifo_batch = [1, 2]\n");
    assert_eq!(study(&folder, &swept).unwrap().len(), 3);
    fs::write(folder.0.join("slow.toml"), "scheduler = \"deadline\"\nfifo_bach = 3\n").unwrap();
    let error = study(&folder, text).unwrap_err();
    assert!(error.contains("slow.toml:2: 'deadline-2.6.32' has no tunable 'fifo_bach'"), "{error}");
    let error = study(&folder, &text.replace("slow.toml", "missing.toml")).unwrap_err();
    assert!(error.contains("missing.toml"), "{error}");
}

#[test]
fn values_of_one_scheduler_replace_those_of_all() {
    let folder = Folder::new();
    fs::write(folder.0.join("slow.toml"), "scheduler = \"deadline\"\nfifo_batch = 3\n").unwrap();
    let of = |schedulers: &str, tunables: &str| -> Vec<String> {
        let text = format!("workloads = [\"a.ascii\"]\nschedulers = [{schedulers}]\n{tunables}");
        let runs = study(&folder, &text).unwrap();
        runs.into_iter().map(|run| run.scheduler.replace("deadline-2.6.32", "deadline")).collect()
    };
    let all = "[tunables]\nfifo_batch = [1, 2]\nwrites_starved = 7\n";
    let every = ["deadline{fifo_batch=1, writes_starved=7}", "deadline{fifo_batch=2, writes_starved=7}"];
    assert_eq!(of("\"deadline\"", all), every);
    let own = "[tunables.deadline]\nfifo_batch = 4\n";
    let both = "\"deadline\", \"mq-deadline\"";
    for text in [format!("{all}{own}"), format!("{own}{all}")] {
        let found = of(both, &text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "deadline{fifo_batch=4, writes_starved=7}");
    }
    let first = |schedulers: &str, tunables: &str| of(schedulers, tunables).swap_remove(0);
    let with_another = |name: &str| format!("\"{name}\", \"mq-deadline\"");
    for name in ["deadline{fifo_batch=3}", "slow.toml"] {
        assert_eq!(first(&with_another(name), all), "deadline{fifo_batch=3, writes_starved=7}");
    }
    let own = "[tunables.\"slow.toml\"]\nfifo_batch = 5\n";
    let replaced = first(&with_another("slow.toml"), &format!("{all}{own}"));
    assert_eq!(replaced, "deadline{fifo_batch=5, writes_starved=7}");
    // Values that no scheduler takes.
    let of_one = "[tunables.deadline]\nfifo_batch = 4\n";
    for (schedulers, tunables) in [
        ("\"deadline{fifo_batch=3}\", \"noop\"", ""),
        ("\"slow.toml\"", ""),
        ("\"slow.toml\"", own),
        ("\"deadline\", \"slow.toml\"", of_one),
    ] {
        let text = format!("workloads = [\"a.ascii\"]\nschedulers = [{schedulers}]\n{all}{tunables}");
        let error = study(&folder, &text).unwrap_err();
        assert!(error.contains(":4: tunables.fifo_batch: every scheduler that has it sets it in"), "{error}");
    }
    let text = "workloads = [\"a.ascii\"]\nschedulers = [\"deadline\"]\n[tunables.deadline]\n";
    let error = study(&folder, text).unwrap_err();
    assert!(error.contains(":3: tunables.deadline: there is no tunable; remove the table"), "{error}");
}

/// The name of a scheduler is part of the identifier of a run, so another text would execute the runs of existing studies again.
#[test]
fn switches_are_on_and_off_in_the_names_of_schedulers() {
    let folder = Folder::new();
    let text = "workloads = [\"a.ascii\"]\nschedulers = [\"stream(deadline)\"]\n[tunables]\nwait_after_writes = [false, true]\n";
    let runs = study(&folder, text).unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run.scheduler.as_str()).collect();
    assert_eq!(
        names,
        ["off", "on"].map(|value| format!("stream(deadline-2.6.32){{wait_after_writes={value}}}"))
    );
}

/// Names and contents of all files of results.
fn files(of: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in ["runs", "processes", "windows", "pending"] {
        for entry in fs::read_dir(of.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{folder}/{}", path.file_name().unwrap().to_string_lossy());
            files.insert(name, fs::read(path).unwrap());
        }
    }
    files
}

fn execute(runs: &[Run], out: &Path, threads: usize) -> usize {
    let store = Store::open(out).unwrap();
    let ended = drive(runs, &Executor::new(Catalogue::default()), &store, threads, &|_| ()).unwrap();
    assert!(ended.errors.is_empty(), "{:?}", ended.errors);
    assert_eq!(ended.executed + ended.skipped, runs.len());
    ended.executed
}

#[test]
fn results_do_not_depend_on_threads_or_interruptions() {
    let folder = Folder::new();
    let runs = study(&folder, STUDY).unwrap();
    // Three workloads, two depths, two seeds, three settings of deadline and noop.
    assert_eq!(runs.len(), 3 * 2 * 2 * 4);
    let (one, two, resumed) = (folder.0.join("1"), folder.0.join("2"), folder.0.join("3"));
    assert_eq!(execute(&runs, &one, 1), runs.len());
    assert_eq!(execute(&runs, &two, 2), runs.len());
    let expected = files(&one);
    assert!(expected.keys().all(|name| !name.starts_with("pending")), "{:?}", expected.keys());
    assert_eq!(expected.keys().filter(|name| name.starts_with("windows/")).count(), 1);
    assert!(expected == files(&two), "two threads");

    // As a killed process leaves it: some runs are pending, one of them is half written, and a part has no runs.
    {
        let store = Store::open(&resumed).unwrap();
        let executor = Executor::new(Catalogue::default());
        for run in runs.iter().step_by(3) {
            store.keep(&executor.execute(run).unwrap()).unwrap();
        }
    }
    let pending = resumed.join("pending");
    let whole = fs::read(pending.join(format!("{}.json", runs[0].id))).unwrap();
    fs::write(pending.join(format!("{}.json", runs[0].id)), &whole[..whole.len() / 2]).unwrap();
    fs::write(pending.join(format!("{}.tmp", runs[1].id)), &whole[..whole.len() / 2]).unwrap();
    // A number has changed, and the file is JSON still.
    let path = pending.join(format!("{}.json", runs[3].id));
    let text = fs::read_to_string(&path).unwrap();
    let digit =
        text[text.len() / 3..].find(|letter: char| ('1'..='8').contains(&letter)).unwrap() + text.len() / 3;
    let next = char::from(text.as_bytes()[digit] + 1);
    fs::write(&path, format!("{}{next}{}", &text[..digit], &text[digit + 1..])).unwrap();
    fs::write(resumed.join("windows/part-0000000000000000.parquet"), b"PAR1").unwrap();
    fs::write(resumed.join("runs/part-0000000000000000.tmp"), b"PAR1").unwrap();
    assert_eq!(execute(&runs, &resumed, 2), runs.len() - runs.len().div_ceil(3) + 2);
    assert!(expected == files(&resumed), "resumed");
    assert_eq!(execute(&runs, &resumed, 2), 0, "complete runs are not repeated");
}

#[test]
fn rows_that_were_kept_together_are_in_the_parts_of_their_runs() {
    let folder = Folder::new();
    let runs = study(&folder, STUDY).unwrap();
    let (expected, out) = (folder.0.join("expected"), folder.0.join("out"));
    let executor = Executor::new(Catalogue::default());
    let rows: Vec<Rows> = runs[..6].iter().map(|run| executor.execute(run).unwrap()).collect();
    let ids: Vec<&str> = rows.iter().map(Rows::id).collect();
    let store = Store::open(&expected).unwrap();
    store.append(&rows[..2]).unwrap();
    store.append(&rows[2..]).unwrap();
    {
        let store = Store::open(&out).unwrap();
        store.keep_json(&ids[..4], &serde_json::to_vec(&rows[..4]).unwrap()).unwrap();
        store.keep(&rows[4]).unwrap();
        store.keep(&rows[5]).unwrap();
        store.write(&ids[..2]).unwrap();
        assert!(!store.is_written(ids[2]) && store.has(ids[2]), "the file has runs of two parts");
        let unknown = store.write(&["no such run"]).unwrap_err().to_string();
        assert!(unknown.contains("no rows of run"), "{unknown}");
    }
    // After a kill.
    let store = Store::open(&out).unwrap();
    assert!(store.is_written(ids[1]) && ids[2..].iter().all(|id| store.has(id) && !store.is_written(id)));
    let [runs, processes, windows] = encode(&rows[2..]).unwrap();
    store.write(&ids[2..]).unwrap();
    assert!(files(&expected) == files(&out), "{:?}", files(&out).keys());
    let other = folder.0.join("other");
    let store = Store::open(&other).unwrap();
    store.append(&rows[..2]).unwrap();
    store.put(&ids[2..], [&runs, &processes, &windows]).unwrap();
    assert!(files(&expected) == files(&other), "from encoded files");
}

/// One window of the whole run has the requests of the run, not their parts on the members of an array.
#[test]
fn windows_have_whole_requests() {
    let folder = Folder::new();
    let text = r#"
        workloads = ["par-read{processes=2}", "*.ascii"]
        schedulers = ["noop"]
        arrays = ["none", "raid0:2x4k", "raid5:3x4k"]
        at_most = "200ms"
        window = "1h"
    "#;
    for run in study(&folder, text).unwrap() {
        let rows = Executor::new(Catalogue::default()).execute(&run).unwrap();
        let value = |row: &[Cell], fields: &[Field], name: &str| {
            row[fields.iter().position(|field| field.name == name).unwrap()].clone()
        };
        assert_eq!(rows.windows.len(), 1, "{}", run.cell());
        for name in ["read_mean_ns", "read_max_ns", "write_mean_ns", "write_max_ns"] {
            let of_window = value(&rows.windows[0], study::WINDOWS, name);
            assert_eq!(of_window, value(&rows.run, study::RUNS, name), "{name} of {}", run.cell());
        }
    }
}

#[test]
fn parts_grow_with_the_study() {
    assert_eq!(
        [0, 1, 2_000, 65_536, 70_000, 200_000, 9_000_000].map(part_size),
        [64, 64, 64, 64, 128, 256, 256]
    );
}

#[test]
fn an_error_of_a_tunable_has_its_line_and_key() {
    let folder = Folder::new();
    let text = "workloads = [\"par-read\"]\nschedulers = [\"deadline\"]\n\n[tunables.deadline]\nwrites_starved = 2\nfifo_batch = 0\n";
    let error = study(&folder, text).unwrap_err();
    assert!(error.contains(":6: tunables.deadline: tunable 'fifo_batch' must be from 1 to"), "{error}");
    for (list, expected) in
        [("seeds = []", ":3: seeds: there is no value"), ("depths = []", ":3: depths: there is no value")]
    {
        let error = study(&folder, &text.replace("= 0", "= 4").replacen("\n\n", &format!("\n{list}\n"), 1))
            .unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let error = study(&folder, &text.replace("= 0", "= []")).unwrap_err();
    assert!(error.contains(":6: tunables.deadline: fifo_batch: there is no value"), "{error}");
}

#[test]
fn a_larger_study_executes_only_the_new_runs() {
    let folder = Folder::new();
    let out = folder.0.join("out");
    let few = study(&folder, &STUDY.replace("[1, 4]", "[4]")).unwrap();
    let all = study(&folder, STUDY).unwrap();
    assert_eq!(execute(&few, &out, 2), few.len());
    assert_eq!(execute(&all, &out, 2), all.len() - few.len());
    let summary = Summary::of(&all, &Store::open(&out).unwrap(), &[]).unwrap();
    assert_eq!(summary.schedulers.len(), 4);
    // Replays by time stamps that `at_most` stopped are in no cell of the summary.
    let cells = summary.fronts.len();
    let stopped = format!("{} cell", all.len() / 4 - cells);
    assert!(cells == all.len() / 4 || summary.gaps.iter().any(|line| line.starts_with(&stopped)));
    assert!(summary.schedulers.iter().all(|one| one.failures == 0 && one.cells == cells));
    let best = summary.schedulers.first().unwrap();
    assert!(best.mean_regret <= summary.schedulers.last().unwrap().mean_regret);
}

/// Every scheduler takes the same time for jobs that end at their runtime.
#[test]
fn jobs_with_a_runtime_are_compared_by_their_work() {
    let folder = Folder::new();
    let job = |n: u32| format!("[{n}]\nrw=read\nsize=1g\noffset={n}00g\nruntime=1\ntime_based=1\n");
    fs::write(folder.0.join("timed.fio"), (0..2).map(job).collect::<String>()).unwrap();
    let text = "workloads = [\"timed.fio\"]\nschedulers = [\"noop\", \"stream(deadline)\"]\n";
    let runs = study(&folder, text).unwrap();
    let out = folder.0.join("timed");
    execute(&runs, &out, 1);
    let summary = Summary::of(&runs, &Store::open(&out).unwrap(), &[]).unwrap();
    let worse = &summary.schedulers[1];
    assert_eq!(worse.name, "noop");
    let by_rate = 1.0 / worse.throughput - 1.0;
    assert!(by_rate > 0.5 && (worse.mean_regret - by_rate).abs() < 1e-3, "{worse:?}");
}

#[test]
fn every_key_is_checked_with_its_line() {
    let folder = Folder::new();
    let start = "workloads = [\"a.ascii\"]\nschedulers = [\"noop\"]\n";
    for (line, expected) in [
        ("machine = \"linux-6\"", "s.toml:3: machine: applies to scripts, and no workload is one; remove it"),
        ("machine = \"linux-66\"", "s.toml:3: machine: "),
        ("machine = \"none.toml\"", "s.toml:3: machine: 'none.toml' is no file in "),
        ("scale = 0.5", "s.toml:3: scale: applies to scripts"),
        ("drives = []", "s.toml:3: drives: there is no value"),
        ("drives = [\"none.toml\"]", "s.toml:3: drives: 'none.toml' is no file in "),
        ("arrays = []", "s.toml:3: arrays: there is no value"),
        ("identities = []", "s.toml:3: identities: there is no value"),
        ("identities = [\"show\"]", "s.toml:3: identities: unknown value `show`"),
        (
            "arrays = \"raid0:2x64k\"",
            "s.toml:3: arrays: invalid type: text \"raid0:2x64k\", expected a list in brackets",
        ),
        ("nr_requests = \"many\"", "s.toml:3: nr_requests: invalid type: text \"many\""),
        ("reading = { strict = 3 }", "s.toml:3: reading.strict: invalid type: number `3`"),
        ("reading = { unit = \"h\" }", "s.toml:3: reading: 'h' is not a unit of time"),
        ("reading = { formt = \"msr\" }", "s.toml:3: reading: unknown key `formt`"),
        ("depth = 3", "s.toml:3: unknown key `depth`"),
        ("tunables = 3", "s.toml:3: tunables: invalid type: number `3`, expected a table"),
    ] {
        let error = study(&folder, &format!("{start}{line}\n")).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
    let built_in = "workloads = [\"par-read\"]\nschedulers = [\"noop\"]\n";
    for (line, expected) in [
        ("open = true", "s.toml:3: open: applies to recordings, and no workload is one; remove it"),
        ("reading = { unit = \"s\" }", "s.toml:3: reading: applies to recordings"),
    ] {
        let error = study(&folder, &format!("{built_in}{line}\n")).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn settings_that_do_not_apply_do_not_change_the_identifier() {
    let folder = Folder::new();
    let both = "workloads = [\"a.ascii\", \"par-read\"]\nschedulers = [\"noop\"]\n";
    let ids =
        |text: &str| -> Vec<String> { study(&folder, text).unwrap().into_iter().map(|run| run.id).collect() };
    let (plain, open) = (ids(both), ids(&format!("{both}open = true\n")));
    assert_ne!(plain[0], open[0]);
    assert_eq!(plain[1], open[1], "only recordings are replayed by time stamps");
    // The drive has a depth of 31.
    let deep = format!("{both}depths = [1, 31, 64]\n");
    assert_eq!(ids(&deep).len(), 4);
    let notes = |text: &str| {
        let runs = study(&folder, text).unwrap();
        // Recordings may be large: they are not read again.
        fs::remove_file(folder.0.join("a.ascii")).unwrap();
        Study::parse("s.toml", text.to_owned(), &folder.0).unwrap().depth_notes(&runs).unwrap()
    };
    let found = notes(&deep);
    assert!(found.len() == 1 && found[0].starts_with("depth 64: "), "{found:?}");
    assert!(notes(both).is_empty());
}

#[test]
fn an_address_needs_a_copy() {
    let folder = Folder::new();
    let text = "workloads = [\"s3://bucket/*.ascii\"]\nschedulers = [\"noop\"]\n";
    let error = study(&folder, text).unwrap_err();
    assert!(error.contains("s.toml:1: workloads: 's3://bucket/*.ascii' is an address"), "{error}");
    let of = Study::parse("s.toml", text.to_owned(), &folder.0).unwrap();
    assert_eq!(of.addresses(), ["s3://bucket/*.ascii"]);
    let copy = ("s3://bucket/x.ascii".to_owned(), folder.0.join("a.ascii"));
    let of = of.with_copies([("s3://bucket/*.ascii".to_owned(), vec![copy])].into());
    let runs = of.runs(Catalogue::default()).unwrap();
    assert_eq!(runs[0].workload.name, "s3://bucket/x.ascii");
    let named = study(&folder, "workloads = [\"a.ascii\"]\nschedulers = [\"noop\"]\n").unwrap();
    assert_eq!(runs[0].id, named[0].id);
}

#[test]
fn a_scheduler_file_may_be_an_address() {
    let folder = Folder::new();
    let path = folder.0.join("copy");
    fs::write(&path, "scheduler = \"deadline\"\nfifo_batch = 3\n").unwrap();
    let address = "https://host/slow.toml";
    let text = format!("workloads = [\"par-read\"]\nschedulers = [\"{address}\"]\n");
    let of = |text: &str, copies: usize| {
        let study = Study::parse("s.toml", text.to_owned(), &folder.0).unwrap();
        assert_eq!(study.addresses(), [address]);
        let copies = vec![(address.to_owned(), path.clone()); copies];
        let runs = study.with_copies([(address.to_owned(), copies)].into()).runs(Catalogue::default());
        runs.map_err(|error| error.to_string())
    };
    assert_eq!(of(&text, 1).unwrap()[0].scheduler, "deadline-2.6.32{fifo_batch=3}");
    let swept = format!("{text}[tunables.\"{address}\"]\nfifo_batch = [1, 2]\n");
    assert_eq!(of(&swept, 1).unwrap().len(), 2);
    let error = of(&text, 2).unwrap_err();
    assert!(error.contains("s.toml:2: schedulers: ") && error.contains("matches 2 files"), "{error}");
    let error = of(&text.replace(".toml", ".toml{fifo_batch=1}"), 1).unwrap_err();
    assert!(error.contains("has no settings in braces"), "{error}");
    fs::write(&path, "scheduler = \"dedline\"\n").unwrap();
    let error = of(&text, 1).unwrap_err();
    assert!(error.contains("https://host/slow.toml:1: no scheduler is called 'dedline'"), "{error}");
}

#[test]
fn omissions_of_recordings_are_reported() {
    let folder = Folder::new();
    fs::write(folder.0.join("c.ascii"), "0.5 0 8 8 1\nnonsense\n1.5 0 99999999999 8 1\n2.5 0 80 8 1\n")
        .unwrap();
    let runs =
        study(&folder, "workloads = [\"c.ascii\", \"a.ascii\"]\nschedulers = [\"noop\", \"deadline\"]\n");
    let (runs, out) = (runs.unwrap(), folder.0.join("out"));
    execute(&runs, &out, 1);
    let store = Store::open(&out).unwrap();
    let rows = store.read_runs(&["left_out", "omissions"]).unwrap();
    assert_eq!(rows[0][0], Cell::Whole(2));
    assert_eq!(rows[2], [Cell::Whole(0), Cell::Nothing]);
    let summary = Summary::of(&runs, &store, &[]).unwrap();
    let [line] = &summary.omissions[..] else { panic!("{:?}", summary.omissions) };
    assert!(
        line.starts_with("c.ascii: 2 requests left out: 1 malformed, left out (first: line 2)"),
        "{line}"
    );
    let (markdown, html) = (summary.markdown("t"), summary.html("t"));
    assert!(markdown.contains(line) && html.contains("Pareto front: c.ascii"));
    // A later report replaces only files with this mark.
    let mark = evaluation::report::page::GENERATOR;
    assert!([markdown, html].iter().all(|report| report.find(mark).is_some_and(|at| at < 200)));
}

#[test]
fn runs_that_are_not_executed_are_reported() {
    let folder = Folder::new();
    fs::write(folder.0.join("far.ascii"), "0.5 0 99999999999 8 1\n").unwrap();
    fs::write(folder.0.join("junk.ascii"), "<b> | 0\n").unwrap();
    let text =
        "workloads = [\"far.ascii\", \"junk.ascii\"]\nschedulers = [\"noop\", \"deadline\", \"cfq\"]\n";
    let (runs, out) = (study(&folder, text).unwrap(), folder.0.join("out"));
    let store = Store::open(&out).unwrap();
    let ended = drive(&runs, &Executor::new(Catalogue::default()), &store, 1, &|_| ()).unwrap();
    let problems: Vec<_> = ended.errors.iter().map(|(run, error)| (run.line(), error.to_string())).collect();
    assert_eq!(problems.len(), 6);
    let summary = Summary::of(&runs, &store, &problems).unwrap();
    let [far, junk] = &summary.gaps[..] else { panic!("{:?}", summary.gaps) };
    let start = "not executed: far.ascii on its drive shown seed 1: noop, and 2 further runs: far.ascii: ";
    assert!(far.starts_with(start) && far.contains("no request that can be replayed"), "{far}");
    assert!(
        junk.starts_with("not executed: junk.ascii on its drive shown seed 1: noop, and 2 fur"),
        "{junk}"
    );
    assert_eq!(problem_lines(&problems).len(), 2);
    let (markdown, html) = (summary.markdown("t"), summary.html("t"));
    assert!(markdown.contains(far) && markdown.contains(junk), "{markdown}");
    assert!(html.contains(far), "{html}");
    // With results of other runs beside.
    let all = study(&folder, &text.replace("\"far", "\"a.ascii\", \"far")).unwrap();
    drive(&all, &Executor::new(Catalogue::default()), &store, 1, &|_| ()).unwrap();
    let summary = Summary::of(&all, &store, &problems).unwrap();
    assert_eq!((summary.schedulers.len(), &summary.gaps[0]), (3, far));
    // At most ten reasons.
    let many: Vec<_> = (0..13).map(|n| (format!("run {n}"), format!("reason {n}"))).collect();
    let gaps = Summary::of(&all, &store, &many).unwrap().gaps;
    assert_eq!(gaps[9], "not executed: run 9: reason 9");
    assert_eq!(gaps[10..], ["not executed: and 3 further reasons; the command prints all on standard error"]);
}

/// The library that lists the files of a pattern leaves them out.
#[test]
fn a_pattern_that_matches_a_name_outside_utf8_is_an_error() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::new();
    let of = |pattern: &str| {
        study(&folder, &format!("workloads = [\"{pattern}\"]\nschedulers = [\"noop\"]\n"))
            .map(|runs| runs.into_iter().map(|run| run.workload.name).collect::<Vec<_>>())
    };
    let within = folder.0.join("g/deep");
    fs::create_dir_all(&within).unwrap();
    let odd = |name: &[u8]| within.join(OsStr::from_bytes(name));
    for path in [within.join("a.csv"), odd(b"b\xff.csv"), odd(b"c\xff.txt")] {
        fs::write(path, "0.5 0 8 8 1\n").unwrap();
    }
    for pattern in ["g/deep/*.csv", "g/*/?*.csv", "**/*.csv", "./g/../g/deep/b*"] {
        let error = of(pattern).unwrap_err();
        let expected = format!("s.toml:1: workloads: '{pattern}' matches '");
        assert!(error.contains(&expected) && error.contains("deep/b\u{fffd}.csv', whose name"), "{error}");
    }
    assert_eq!(of("g/deep/a*").unwrap(), ["g/deep/a.csv"]);
    // A folder counts if a file in it matches.
    fs::rename(odd(b"b\xff.csv"), odd(b"b.csv")).unwrap();
    fs::rename(&within, folder.0.join(OsStr::from_bytes(b"g/\xff"))).unwrap();
    assert!(of("g/*/b.csv").unwrap_err().contains("'g/\u{fffd}/b.csv', whose name is not UTF-8"));
    assert!(of("g/*/d.csv").unwrap_err().contains("no file matches"));
}

#[test]
fn a_changed_input_is_another_run() {
    let folder = Folder::new();
    let before = study(&folder, STUDY).unwrap();
    let text = "0.0 0 8 8 1\n1.0 0 80 8 1\n";
    fs::write(folder.0.join("a.ascii"), text).unwrap();
    let study = Study::parse("s.toml", STUDY.to_owned(), &folder.0).unwrap();
    let after = study.runs(Catalogue::default()).unwrap();
    let changed = before.iter().zip(&after).filter(|(before, after)| before.id != after.id);
    assert_eq!(changed.map(|(_, after)| after.workload.name.as_str()).collect::<Vec<_>>(), ["a.ascii"; 16]);
}

#[test]
fn a_folder_has_one_writer() {
    let folder = Folder::new();
    let store = Store::open(&folder.0).unwrap();
    let error = Store::open(&folder.0).err().unwrap().to_string();
    assert!(error.contains("another process writes this study"), "{error}");
    drop(store);
    assert!(Store::open(&folder.0).is_ok());
}

#[test]
fn complete_runs_are_listed_while_another_process_writes() {
    let folder = Folder::new();
    let runs = study(&folder, STUDY).unwrap();
    let out = folder.0.join("out");
    assert!(complete(&out).unwrap().is_empty() && !out.exists());
    let store = Store::open(&out).unwrap();
    let executor = Executor::new(Catalogue::default());
    for run in &runs[..3] {
        store.keep(&executor.execute(run).unwrap()).unwrap();
    }
    store.write(&[&runs[0].id, &runs[1].id]).unwrap();
    fs::write(out.join("runs/part-0000000000000000.tmp"), b"PAR1").unwrap();
    let before = files(&out);
    let found = complete(&out).unwrap();
    assert_eq!(found, runs[..3].iter().map(|run| run.id.clone()).collect());
    assert!(before == files(&out), "nothing changes");
}

#[test]
fn bytes_of_a_stopped_script_are_those_of_its_windows() {
    let text = "workloads = [\"split/sqlite-300\"]\nschedulers = [\"noop\", \"deadline\"]\nat_most = \"150ms\"\nwindow = \"1ms\"\nscale = 0.05\n";
    let folder = Folder::new();
    for run in study(&folder, text).unwrap() {
        let rows = Executor::new(Catalogue::default()).execute(&run).unwrap();
        let value = |row: &[Cell], fields: &[Field], name: &str| match row
            [fields.iter().position(|field| field.name == name).unwrap()]
        {
            Cell::Whole(number) => number,
            _ => panic!("{name}"),
        };
        let (elapsed, bytes) =
            (value(&rows.run, study::RUNS, "elapsed_ns"), value(&rows.run, study::RUNS, "bytes"));
        let until = |end: i64| -> i64 {
            let windows = rows.windows.iter().filter(|row| value(row, study::WINDOWS, "start_ns") < end);
            windows.map(|row| value(row, study::WINDOWS, "bytes")).sum()
        };
        assert!(bytes > 0 && bytes % 512 == 0, "{bytes}");
        assert!((until(elapsed - 1_000_000)..=until(elapsed)).contains(&bytes), "{bytes} in {elapsed} ns");
    }
}

#[test]
fn a_damaged_part_is_reported_with_its_name() {
    let folder = Folder::new();
    drop(Store::open(&folder.0).unwrap());
    fs::write(folder.0.join("runs/part-1.parquet"), b"PAR1 no PAR1").unwrap();
    let error = Store::open(&folder.0).err().unwrap().to_string();
    assert!(error.contains("part-1.parquet: no valid Parquet file of a study"), "{error}");
}

#[test]
fn a_part_that_belongs_to_runs_must_be_there() {
    let folder = Folder::new();
    let runs = study(&folder, STUDY).unwrap();
    let out = folder.0.join("out");
    execute(&runs[..3], &out, 1);
    let part = fs::read_dir(out.join("processes")).unwrap().next().unwrap().unwrap().path();
    let error = || [Store::open(&out).err(), complete(&out).err()].map(|error| error.unwrap().to_string());
    let content = fs::read(&part).unwrap();
    fs::remove_file(&part).unwrap();
    for error in error() {
        assert!(error.contains(".parquet: has 0 of the ") && error.contains("; remove "), "{error}");
    }
    fs::write(&part, &content[..content.len() / 2]).unwrap();
    for error in error() {
        assert!(error.contains("processes/part-") && error.contains("; remove runs/part-"), "{error}");
    }
    // A bit of a number.
    let mut changed = content.clone();
    changed[content.len() / 4] ^= 1;
    fs::write(&part, changed).unwrap();
    for error in error() {
        let expected = ["processes/part-", "its checksum is wrong", "; remove runs/part-"];
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    }
    fs::write(&part, content).unwrap();
    assert!(Store::open(&out).is_ok());
    let name = part.file_name().unwrap();
    fs::remove_file(out.join("runs").join(name)).unwrap();
    assert_eq!(execute(&runs[..3], &out, 1), 3);
    assert!(part.exists());
}

#[test]
fn a_file_may_have_the_name_of_a_pattern() {
    let folder = Folder::new();
    study(&folder, STUDY).unwrap();
    let recording = fs::read(folder.0.join("a.ascii")).unwrap();
    for name in ["x [b].ascii", "a*b?.ascii"] {
        fs::write(folder.0.join(name), &recording).unwrap();
        let text = format!("workloads = [\"{name}\"]\nschedulers = [\"noop\"]\n");
        assert_eq!(study(&folder, &text).unwrap()[0].workload.name, name);
    }
}

#[test]
fn errors_have_file_line_and_key() {
    let folder = Folder::new();
    for (from, to, expected) in [
        ("depths = [1, 4]", "dephts = [1, 4]", "s.toml:4: unknown key `dephts`"),
        ("depths = [1, 4]", "depths = [0]", "s.toml:4: depths: 0 is not between 1 and 65536"),
        ("depths = [1, 4]", "depths = \"4..1\"", "s.toml:4: depths: '4..1': the range ends before its start"),
        (
            "depths = [1, 4]",
            "depths = {}",
            "s.toml:4: depths: invalid type: table, expected a value, a list, or a range",
        ),
        (
            "depths = [1, 4]",
            "depths = [1, [2]]",
            "s.toml:4: depths: invalid type: list, expected a value, or a range",
        ),
        ("depths = [1, 4]", "depths = 2026-01-01", "s.toml:4: depths: a date has no meaning here"),
        ("\"deadline\", \"noop\"", "2026-01-01", "s.toml:3: schedulers: a date has no meaning here"),
        ("\"1..16*4\"", "[1, 12:00:00]", "s.toml:10: tunables.deadline.fifo_batch: a date has no meaning"),
        ("depths = [1, 4]", "depths = 1\ndepths = 2", "s.toml:5: depths: this key is there twice"),
        (
            "depths = [1, 4]",
            "nr_requests = \"x\"",
            "s.toml:4: nr_requests: invalid type: text \"x\", expected a whole number from 1",
        ),
        ("depths = [1, 4]", "nr_requests = -1", "-1`, expected a whole number from 1 to 4294967295"),
        ("depths = [1, 4]", "reading = \"msr\"", "expected a table such as { format = \"msr\" }"),
        ("depths = [1, 4]", "scale = \"x\"", "expected a number"),
        ("depths = [1, 4]", "open = 1", "s.toml:4: open: invalid type: number `1`, expected true or false"),
        (
            "\"1..16*4\"",
            "{ a = 1 }",
            "s.toml:10: tunables.deadline.fifo_batch: invalid type: table, expected a value, a list",
        ),
        ("\"1..16*4\"", "1\nfifo_batch = 2", "s.toml:11: fifo_batch: this key is there twice; remove one"),
        ("depths = [1, 4]", "scale = 2.0", "s.toml:4: scale: a scale is above 0 and at most 1"),
        ("depths = [1, 4]", "nr_requests = 0", "s.toml:4: nr_requests: the limit is at least 1"),
        ("depths = [1, 4]", "drives = [\"wd5000ak\"]", "s.toml:4: drives: "),
        ("depths = [1, 4]", "arrays = [\"raid7:2\"]", "s.toml:4: arrays: "),
        ("depths = [1, 4]", "identities = [\"shwon\"]", "s.toml:4: identities: unknown value `shwon`"),
        (
            "depths = [1, 4]",
            "reading = { format = \"x\" }",
            "s.toml:4: reading: 'x' is not a recording format",
        ),
        ("\"1..2\"", "0", "s.toml:5: seeds: 0 is not between 1 and"),
        ("\"100ms\"", "\"0s\"", "s.toml:6: at_most: expected a length of time above 0"),
        ("\"100ms\"", "\"soon\"", "s.toml:6: at_most: "),
        ("\"*.ascii\"", "\"*.csv\"", "s.toml:2: workloads: no file matches '*.csv'"),
        ("\"*.ascii\"", "\"par-raed\"", "did you mean 'par-read'?"),
        (
            "\"*.ascii\"",
            "\"par-read{thnk=3}\"",
            "s.toml:2: workloads: workload par-read: unknown setting 'thnk'",
        ),
        ("\"*.ascii\", \"par-read{processes=2}\"", "", "s.toml:2: workloads: there is none"),
        ("\"deadline\", \"noop\"", "\"dedline\"", "s.toml:3: schedulers: no scheduler is called 'dedline'"),
        ("\"deadline\", \"noop\"", "", "s.toml:3: schedulers: there is none"),
        (
            "tunables.deadline",
            "tunables.dedline",
            "tunables.dedline: 'dedline' is not in schedulers; did you mean",
        ),
        ("fifo_batch", "fifo_bach", "has the tunable 'fifo_bach'; did you mean 'fifo_batch'?"),
        (
            "\"1..16*4\"",
            "\"x\"",
            "s.toml:10: tunables.deadline: fifo_batch: expected a whole number, found 'x'",
        ),
        (
            "\"1..16*4\"",
            "true",
            "s.toml:10: tunables.deadline: fifo_batch: expected a whole number, found 'true'",
        ),
        ("depths = [1, 4]", "depths = false", "s.toml:4: depths: expected a whole number, found 'false'"),
        ("schedulers = ", "schedulers ", "s.toml:3: "),
    ] {
        assert!(STUDY.contains(from), "{from}");
        let error = study(&folder, &STUDY.replacen(from, to, 1)).err();
        let error = error.unwrap_or_else(|| panic!("{to} is accepted"));
        assert!(error.contains(expected) && !error.contains('\n'), "{to}: {error}");
    }
}

#[test]
fn damaged_study_files_are_errors() {
    let folder = Folder::new();
    let mut random = elevator::Random::new(7);
    for _ in 0..2_000 {
        let mut text = STUDY.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            if text.is_empty() {
                break;
            }
            let at = random.below(text.len() as u64) as usize;
            match random.below(3) {
                0 => drop(text.remove(at)),
                1 => text[at] = random.below(128) as u8,
                _ => text.truncate(at + 1),
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Ok(study) = Study::parse("s.toml", text, &folder.0) {
            let _ = study.runs(Catalogue::default());
        }
    }
}

#[test]
fn the_page_has_every_column() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study.md");
    let text = fs::read_to_string(&page).unwrap();
    let (begin, end) = ("--test study -->\n", "<!-- end of columns -->");
    let from = text.find(begin).unwrap() + begin.len();
    let to = text.find(end).unwrap();
    let mut tables = String::new();
    for (name, fields) in
        [("runs", study::RUNS), ("processes", study::PROCESSES), ("windows", study::WINDOWS)]
    {
        tables += &format!("\n### {name}\n\n| column | type | content |\n|---|---|---|\n");
        for field in fields {
            let kind = format!("{:?}", field.kind).to_lowercase();
            tables += &format!("| `{}` | {kind} | {} |\n", field.name, field.about);
        }
    }
    tables += "\n";
    if std::env::var_os("DWELL_BLESS").is_some() {
        fs::write(&page, format!("{}{tables}{}", &text[..from], &text[to..])).unwrap();
    } else {
        assert_eq!(&text[from..to], tables, "DWELL_BLESS=1 writes the tables");
    }
}

/// Such a file is not damaged.
#[test]
fn a_table_in_a_compression_that_is_not_read_is_named_so() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/tests/parquet/other-columns.parquet");
    let error = study::read_table(Path::new(file), &["far"]).unwrap_err().to_string();
    let expected = "write it with Snappy or Zstandard, or without";
    assert!(error.contains(expected) && !error.contains("no valid"), "{error}");
}

/// Numbers of 32 bits, which other programs choose, have the values of those of 64 bits.
#[test]
fn narrow_columns_of_other_programs_are_read() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/tests/parquet/other-columns.parquet");
    let rows = study::read_table(Path::new(file), &["op", "large", "short", "at_ns"]).unwrap();
    assert_eq!(rows[3], [Cell::Whole(1), Cell::Whole(4_000_000_003), Cell::Number(0.75), Cell::Whole(3_009)]);
    let inner = study::read_table(Path::new(file), &["a", "one.at_ns.list.element"]).unwrap_err().to_string();
    assert!(inner.contains("column 'one.at_ns.list.element' has lists"), "{inner}");
}
