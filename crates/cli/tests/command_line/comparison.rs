//! Results of several schedulers.

use std::fs;

use super::{Directory, SMALL, dwell, fails, prints, prints_json, recording, schedulers_of, words};

#[test]
fn a_comparison_is_one_json_object() {
    let arguments =
        ["compare", SMALL, "-s", "noop", "-s", "stream(deadline){stream_time_slice=50ms}", "--json"];
    let found = prints_json(&arguments);
    assert_eq!(found["schema_version"], 1);
    let runs = &found["runs"];
    assert_eq!(schedulers_of(runs), ["noop", "stream(deadline-2.6.32){stream_time_slice=50ms}"]);
    for run in runs.as_array().into_iter().flatten() {
        assert_eq!(run["bytes"], 4 * 131_072, "{run}");
        assert_eq!(run["cut"], false);
        assert!(run["failure"].is_null());
        assert!(found["limit"]["elapsed_ns"].as_u64() <= run["elapsed_ns"].as_u64(), "faster than the limit");
    }
    assert_eq!(found, prints_json(&arguments), "the same comparison, the same figures");
}

#[test]
fn a_report_has_each_process_and_the_meaning_of_columns() {
    let directory = Directory::new("processes-in-report");
    let page = directory.path("out.html");
    prints(&["compare", SMALL, "-s", "noop", "-s", "cfq", "--report", &page, "--quiet"]);
    let page = fs::read_to_string(page).expect("the report");
    for reader in 1..=4 {
        assert_eq!(
            page.matches(&format!("<td>reader-{reader}</td>")).count(),
            2,
            "once under each scheduler"
        );
    }
    assert!(page.contains("fairness: Jain's index"));
}

#[test]
fn results_name_the_hz_that_they_mimic() {
    let notes = |names: &[&str]| {
        let arguments = [&["compare", SMALL, "--json"], names].concat();
        prints_json(&arguments)["notes"].to_string()
    };
    let message =
        notes(&["-s", "anticipatory-2.6.9", "-s", "cfq{hz=100}", "-s", "anticipatory", "-s", "noop"]);
    assert!(
        message.contains(
            "100 for cfq-2.6.32{hz=100}; 250 for anticipatory-2.6.32; 1000 for anticipatory-2.6.9\""
        ),
        "{message}"
    );
    assert_eq!(notes(&["-s", "noop"]), "[]");
}

#[test]
fn without_names_current_schedulers_and_ours_run_and_with_all_every_one() {
    let listed = prints_json(&["schedulers", "--json"]);
    let listed = listed["schedulers"].as_array().expect("schedulers");
    let need = |what: &[Option<&str>]| listed.iter().filter(|s| what.contains(&s["needs"].as_str())).count();
    let runs = |arguments: &[&str]| prints_json(arguments)["runs"].as_array().expect("runs").len();
    assert_eq!(runs(&["compare", SMALL, "--json", "--quiet", "--all"]), need(&[None]));
    let array = ["compare", SMALL, "--array", "raid0:2x64k", "--json", "--quiet", "--all"];
    assert_eq!(runs(&array), need(&[None, Some("an array")]));
    let current = prints_json(&["compare", SMALL, "--json", "--quiet"]);
    let current = schedulers_of(&current["runs"]);
    let expected =
        ["noop", "mq-deadline-6.18", "cooperative", "kyber", "bfq", "stream(deadline-2.6.32)", "dwell"];
    assert_eq!(current, expected);
    assert_eq!(dwell(&["compare", SMALL, "--all", "-s", "noop"]).status.code(), Some(2));
    assert!(need(&[Some("'dwell run', or 'dwell serve --attach --causes'")]) > 0);
}

#[test]
fn below_the_table_is_why_each_scheduler_has_its_result() {
    let arguments = ["compare", "par-read{think=100us}", "--at-most", "1s", "--quiet", "--wide", "-s"];
    let words = |names: &[&str]| prints(&[&arguments[..], names].concat());
    let both = words(&["noop", "-s", "stream(noop)"]);
    let last: Vec<&str> = both.lines().rev().take(3).collect();
    assert_eq!(last[2], "Why:", "{both}");
    assert!(last[1].starts_with("  stream(noop): ") && last[0].starts_with("  noop: "), "{both}");
    assert!(last[1].contains(": anticipates the stream's next request"), "{both}");
    assert!(last[0].ends_with(" requests; no deliberate wait"), "{both}");
    // The same scheduler alone has the same explanation.
    assert_eq!(words(&["noop"]).lines().last(), Some(last[0]));
}

#[test]
fn an_array_is_compared_as_a_whole_and_by_member() {
    let array = "raid5:4x64k{failed=1, slow=2, slowness=150, link=400}";
    let workload = "ahead-read{file_bytes=4194304, processes=2}";
    let arguments =
        ["compare", workload, "--array", array, "-s", "noop", "-s", "array-stream", "--json", "--quiet"];
    let report = prints_json(&arguments);
    assert!(report["drive"].as_str().expect("a drive").starts_with(array));
    for run in report["runs"].as_array().expect("runs") {
        assert_eq!(run["bytes"], 8 << 20);
        let members = run["members"].as_array().expect("members");
        assert_eq!(members.len(), 4);
        assert_eq!(members[1]["dispatched"], 0, "the failed member is not asked");
    }
    let explained = prints(&[
        "compare",
        workload,
        "--array",
        "raid0:2x64k",
        "-s",
        "array-stream",
        "-q",
        "--explain",
        "-",
    ]);
    assert!(explained.contains("member 0 ") && explained.contains("member 1 "));
}

#[test]
fn arrays_that_cannot_be_are_refused_with_a_word() {
    fails(&["compare", "par-read", "--array", "raid7:5x64k"], 2, &["raid7", "raid0:5x64k"]);
    fails(&["compare", "par-read", "--array", "raid0:5x64k{failed=1}"], 2, &["does not survive"]);
    fails(&["compare", "par-read", "-s", "array-stream(deadline)"], 2, &["--array"]);
}

#[test]
fn split_policies_are_refused_where_there_is_nothing_above_the_queue_or_more_than_one_queue() {
    let array = ["run", "split/isolation-append", "--array", "raid0:2x64k", "-s"];
    for policy in ["afq", "stream(afq)"] {
        fails(&[&array[..], &[policy]].concat(), 2, &[policy, "a queue for each member", "omit --array"]);
    }
    fails(
        &["compare", "par-read", "-s", "afq"],
        2,
        &["'afq'", "'dwell run' and 'dwell serve --attach --causes' have them"],
    );
    let nowhere = "unix:/nonexistent/refused.sock";
    let serve = ["serve", "--memory", "--size", "64MiB", "-s", "split-deadline", "--nbd", nowhere];
    fails(&serve, 2, &["--scheduler split-deadline", "add --causes"]);
}

#[test]
fn a_run_that_is_cut_says_so() {
    let table =
        prints(&["compare", "par-read", "-s", "noop", "--at-most", "100ms", "--quiet", "--processes"]);
    assert!(
        table.contains("noop (cut)") && table.contains("No physical limit: runs were stopped"),
        "{table}"
    );
}

/// Of 300 years.
const ENDLESS: &str =
    "# dwell recording 1\n0 10 8,0 R 0 4096 - 1 a\n9467280000000000000 10 8,0 R 4096 4096 - 1 a\n";

/// Regression: the wait for a place in a full queue did not count, so that schedulers that admit few requests had the lowest latencies.
#[test]
fn latency_in_a_replay_by_time_stamps_counts_from_the_time_stamp() {
    let directory = Directory::new("stamps");
    let line = |n: u64| {
        let (time, offset) = (128_166_372_000_000_000 + n * 10_000, n * 7919 % 1000 * 40_960);
        format!("{time},src1,0,Read,{offset},4096,100\n")
    };
    let recording = directory.file("many.csv", &(0..100).map(line).collect::<String>());
    let latencies = |places: &str| -> Vec<f64> {
        let open = ["compare", &recording, "-s", "noop", "--drive", "ide-2003", "--open", "-q", "--csv"];
        let table = prints(&[&open[..], &["--nr-requests", places]].concat());
        let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let heads = lines.next().unwrap();
        let row = lines.find(|row| row[0] == "noop").unwrap();
        let of =
            |name| heads.iter().position(|head| *head == name).map(|at| row[at].parse().unwrap()).unwrap();
        vec![of("elapsed_ns"), of("mean_ns"), of("read_max_ns")]
    };
    let all = latencies("128");
    assert!(all[2] > all[0] * 0.8, "the last of them waits for nearly all others: {all:?}");
    assert_eq!(latencies("1"), all);
}

#[test]
fn schedulers_that_did_other_work_have_no_limit() {
    let directory = Directory::new("other-work");
    let job = "[a]\nrw=randread\nsize=1g\nruntime=1\ntime_based=1\n[b]\nrw=read\noffset=100g\nsize=1g\nruntime=1\ntime_based=1\n";
    let job = directory.file("timed.fio", job);
    let cut = ["par-read", "--at-most", "500ms"];
    for what in [&cut[..], &[&*job]] {
        let arguments = [&["compare"], what, &["-s", "noop", "-s", "stream(deadline)", "-q"]].concat();
        let found = prints_json(&[&arguments[..], &["--json"]].concat());
        assert!(found["limit"].is_null() && found["runs"][0]["limit"].is_null(), "{found}");
        let table = prints(&arguments);
        assert!(table.contains("No physical limit: ") && !table.contains("physical limit  "), "{table}");
        let of_limit = prints(&[&arguments[..], &["--csv"]].concat());
        assert!(!of_limit.contains("physical limit"), "{of_limit}");
    }
    let timed = ["compare", &*job, "-s", "deadline", "-q"];
    for option in ["--sort", "--optimise"] {
        fails(&[&timed[..], &[option, "time"]].concat(), 2, &[option, "jobs end at their runtime"]);
    }
    // One job ends at its runtime, the other one with its work: before its own runtime, or without one. Without time_based, too.
    for (a, b) in [
        ("runtime=1\ntime_based=1", "io_size=40k"),
        ("runtime=1\ntime_based=1", "io_size=40k\nruntime=60"),
        ("runtime=1", "io_size=40k"),
        ("runtime=1\nstartdelay=1", "io_size=40k"),
    ] {
        let part = format!("[global]\nrw=randread\nsize=1g\n[a]\n{a}\n[b]\noffset=100g\n{b}\n");
        let part = directory.file("part.fio", &part);
        for option in ["--sort", "--optimise"] {
            let arguments = ["compare", &part, "-s", "deadline", "-q", option, "time"];
            fails(&arguments, 2, &[option, "end at their runtime"]);
        }
    }
    // Both end with their work, though each has a runtime.
    let work = "[global]\nrw=randread\nsize=1g\nruntime=60\nio_size=40k\n[a]\n[b]\nstartdelay=100ms\n";
    let work = directory.file("work.fio", work);
    let table = prints(&["compare", &work, "-s", "deadline", "-q", "--sort", "time"]);
    assert!(table.contains("Ranked by time."), "{table}");
    // Discards move no data: the default was the time.
    let discards = directory.file("discards.fio", "[a]\nrw=trim\nsize=1g\nruntime=1\ntime_based=1\n");
    let table = prints(&["compare", &discards, "-s", "noop", "--drive", "ssd-sata", "-q"]);
    assert!(table.contains("Ranked by mean latency."), "{table}");
}

/// A recording in which one process reads in order and thinks: the drive reads ahead meanwhile.
#[test]
fn read_ahead_does_not_exceed_the_limit() {
    let directory = Directory::new("read-ahead");
    let lines = (0..2000).map(|n: u64| format!("{} 400000 8,0 R {} 65536 - 1 dd\n", n * 600_000, n * 65536));
    let recording = format!("# dwell recording 1\n{}", lines.collect::<String>());
    let file = directory.file("dd.dwell", &recording);
    let found = prints_json(&["compare", &file, "-s", "noop", "-s", "bfq", "--json", "-q"]);
    let least = found["limit"]["elapsed_ns"].as_u64().expect("a limit");
    for run in found["runs"].as_array().expect("runs") {
        let took = run["elapsed_ns"].as_u64().expect("a time");
        assert!(least <= took && least > took / 2, "{least}, {took}");
    }
}

/// A job that only starts others is no process with results, and a paced job does not exceed its limit.
#[test]
fn no_process_exceeds_its_limit() {
    let directory = Directory::new("paced");
    let paced = "[global]\nsize=256k\nrw=randread\n[a]\nrate=512k\n[b]\nthinktime=2ms\nthinktime_spin=1ms\n[c]\nstonewall\nrate_iops=200\n";
    let job = directory.file("paced.fio", paced);
    let arguments = ["compare", &job, "-s", "noop", "-s", "cooperative", "-q"];
    let found = prints_json(&[&arguments[..], &["--json"]].concat());
    assert!(found["limit"].is_object() && found["runs"][0]["limit"] == found["runs"][1]["limit"], "{found}");
    for run in found["runs"].as_array().expect("runs") {
        assert!(found["limit"]["elapsed_ns"].as_u64() <= run["elapsed_ns"].as_u64(), "{run}");
        let least = run["limit"]["processes_ns"].as_array().expect("limits").iter();
        for (process, least) in run["processes"].as_array().expect("processes").iter().zip(least) {
            assert!(least.as_u64() <= process["elapsed_ns"].as_u64(), "{process}: {least}");
        }
    }
    let table = prints(&[&arguments[..], &["--processes", "--wide"]].concat());
    assert!(!table.lines().any(|line| line.starts_with("fio ")), "{table}");
}

#[test]
fn runs_that_all_failed_are_a_failure() {
    let directory = Directory::new("failed");
    let recording = directory.file("endless.dwell", ENDLESS);
    let output = dwell(&["compare", &recording, "-s", "noop", "-s", "look", "--quiet"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output.stderr));
    assert!(words(&output.stderr).contains("every run failed"), "{}", words(&output.stderr));
    assert!(words(&output.stdout).contains("noop (failed)"), "what there is, is printed");
}

/// Many requests of one process in flight at once may be served in any order, by a scheduler or by the drive.
#[test]
fn no_scheduler_exceeds_the_physical_limit_with_many_requests_in_flight() {
    let directory = Directory::new("in-flight");
    let job = "[reader]\nioengine=libaio\niodepth=64\nrw=randread\nsize=400g\nio_size=2m\n";
    let job = directory.file("job.fio", job);
    let found = prints_json(&["compare", &job, "-s", "noop", "-s", "c-scan", "-s", "sptf", "--json", "-q"]);
    for run in found["runs"].as_array().expect("runs") {
        assert!(found["limit"]["elapsed_ns"].as_u64() <= run["elapsed_ns"].as_u64(), "{run}");
    }
}

/// Reads for which the process waits, and writes for which it does not, at the same time.
#[test]
fn concurrent_requests_of_a_process_are_not_added_up() {
    let directory = Directory::new("beside");
    let mut text = "# dwell recording 1\n".to_owned();
    for second in 0..10_u64 {
        let at = second * 1_000_000_000;
        text += &format!("{at} 5000000 8,0 RS {} 4096 - 1 both\n", second * 4096);
        text += &format!("{} 5000000 8,0 RS {} 4096 - 2 one\n", at + 100_000_000, (1 << 30) + second * 4096);
        text += &format!("{} 5000000 8,0 W {} 4096 - 1 both\n", at + 200_000_000, (2 << 30) + second * 4096);
    }
    let file = directory.file("beside.dwell", &text);
    let found = prints_json(&["compare", &file, "-s", "noop", "--json", "-q"]);
    let run = &found["runs"][0];
    for (process, alone) in run["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .zip(run["limit"]["processes_ns"].as_array().expect("limits"))
    {
        assert!(alone.as_u64() <= process["elapsed_ns"].as_u64(), "{process}: {alone}");
    }
    assert!(run["fairness"].as_f64() > Some(0.99), "{}", run["fairness"]);
}

#[test]
fn latencies_of_reads_writes_and_processes_have_a_median() {
    let directory = Directory::new("medians");
    let job = directory.file("writer.fio", "[w]\nrw=write\nsize=64k\ndirect=1\n");
    let table = prints(&["compare", &job, "-s", "noop", "--processes", "-q"]);
    // Reads have no columns, because there are none.
    assert!(!table.contains("read"), "{table}");
    let wide = prints(&["compare", &job, "-s", "noop", "--processes", "-q", "--wide"]);
    assert_eq!(wide.matches("p50").count(), 2, "{wide}");
    let found = prints_json(&["compare", &job, "-s", "noop", "--json", "-q"]);
    let latency = &found["runs"][0]["writes"];
    assert!(latency["p50_ns"].as_u64() <= latency["p99_ns"].as_u64(), "{latency}");
}

#[test]
fn a_drive_without_a_head_has_no_head_travel() {
    let directory = Directory::new("headless");
    let file = directory.path("report.html");
    let on = |drive: &str| {
        let compare = ["compare", SMALL, "-s", "noop", "--drive", drive, "--quiet", "--report", &file];
        let table = prints(&[&compare[..], &["--markdown"]].concat());
        let cells = |start: &str| -> Vec<String> {
            let row = table.lines().find(|line| line.starts_with(start)).expect("the row");
            row.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let column = cells("| scheduler").iter().position(|head| head == "head travel").expect("a column");
        (cells("| noop")[column].clone(), fs::read_to_string(&file).expect("the report"))
    };
    let (travel, report) = on("ssd-sata");
    assert!(travel == "-" && !report.contains("of disk."), "{travel}");
    let (travel, report) = on("wd5000aaks");
    assert!(travel.ends_with('B') && report.contains("of disk."), "{travel}");
}

#[test]
fn a_jobs_priority_class_has_an_effect_on_the_modelled_machine() {
    let directory = Directory::new("class");
    let text = "[global]\nrw=randread\nsize=64m\nio_size=400k\ndirect=1\n[idle]\nprioclass=3\n[first]\nprioclass=1\n";
    let job = directory.file("job.fio", text);
    for command in ["compare", "run"] {
        let found = prints_json(&[command, &job, "-s", "cfq", "--json", "--quiet"]);
        let processes = found["runs"][0]["processes"].as_array().expect("processes");
        let time = |name: &str| {
            let process = processes.iter().find(|process| process["name"] == name).expect("the job");
            process["elapsed_ns"].as_u64().expect("a time")
        };
        assert!(time("idle") > time("first") * 3 / 2, "{command}: {} {}", time("idle"), time("first"));
    }
}

#[test]
fn a_queue_of_nothing_is_refused_with_the_range() {
    for (option, message) in
        [("--depth", "'--depth <N>': 0 is not in 1..=65536"), ("--nr-requests", "0 is not in 1..")]
    {
        let output = dwell(&["compare", SMALL, option, "0"]);
        let error = words(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(message), "{option}: {error}");
        assert!(output.stdout.is_empty());
    }
    prints(&["compare", SMALL, "--depth", "1", "--nr-requests", "1", "-s", "noop", "--quiet"]);
}

#[test]
fn tables_fit_eighty_columns_and_wide_ones_have_all() {
    let compare = ["compare", "par-read{think=100us}", "--at-most", "1s", "-q", "--processes"];
    let narrow = prints(&compare);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(
        narrow.replace('\n', " ").contains("more columns: --wide.") && !narrow.contains('\x1b'),
        "{narrow}"
    );
    let wide = prints(&[&compare[..], &["--wide"]].concat());
    assert!(wide.contains("waited") && !wide.contains("--wide"), "{wide}");
}

#[test]
fn csv_and_markdown_have_a_line_for_each_scheduler() {
    let compare = ["compare", SMALL, "-s", "noop", "-s", "stream(noop)", "-q"];
    let csv = prints(&[&compare[..], &["--csv"]].concat());
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() == 4 && lines[0].starts_with("scheduler,rank,mb_per_s,elapsed_ns,"), "{csv}");
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns), "{csv}");
    let markdown = prints(&[&compare[..], &["--markdown"]].concat());
    assert!(markdown.starts_with("| scheduler | rank | MB/s |"), "{markdown}");
    for two in [["--csv", "--json"], ["--csv", "--wide"], ["--csv", "--processes"], ["--json", "--processes"]]
    {
        assert_eq!(dwell(&[&compare[..], &two].concat()).status.code(), Some(2), "{two:?}");
    }
    fails(&[&compare[..], &["--depth", "32"]].concat(), 2, &["--depth 32: wd5000aaks queues at most 31"]);
}

/// A replay by time stamps has the throughput of its recording.
#[test]
fn replays_by_time_stamps_are_ranked_by_latency() {
    let directory = Directory::new("ranked");
    let mut text = "# dwell recording 1\n".to_owned();
    for n in 0..400_u64 {
        let position = (n * 7919 % 400) * (1 << 30) / 4;
        text += &format!("{} 5000000 8,0 R {position} 4096 - {} p\n", n * 9_000_000, n % 4);
    }
    let file = directory.file("open.dwell", &text);
    let compare = ["compare", &*file, "--open", "-q", "-s", "noop", "-s", "sstf"];
    let table = prints(&compare);
    assert!(table.contains("Ranked by mean latency."), "{table}");
    let csv = prints(&[&compare[..], &["--csv"]].concat());
    let heads: Vec<&str> = csv.lines().next().unwrap_or_default().split(',').collect();
    let column = heads.iter().position(|head| *head == "mean_ns").expect("the column");
    let means: Vec<u64> =
        csv.lines().skip(1).filter_map(|line| line.split(',').nth(column)?.parse().ok()).collect();
    assert!(means.len() == 2 && means[0] <= means[1], "{csv}");
    let by_rate = prints(&[&compare[..], &["--sort", "MB/s"]].concat());
    assert!(by_rate.contains("Ranked by throughput."), "{by_rate}");
    for option in ["--sort", "--optimise"] {
        fails(&[&compare[..], &[option, "time"]].concat(), 2, &[option, "requests arrive at given times"]);
    }
}

#[test]
fn keys_that_no_run_has_are_rejected() {
    for key in ["fsync", "work"] {
        fails(&["compare", SMALL, "-s", "noop", "-q", "--sort", key], 2, &["--sort", key, "dwell run"]);
    }
    fails(&["compare", SMALL, "-s", "noop", "-q", "--sort", "p99-write"], 2, &["no run has a result"]);
    fails(&["compare", SMALL, "-s", "noop", "-q", "--at-most", "0s"], 2, &["--at-most", "greater than 0"]);
}

#[test]
fn stopped_replays_by_time_stamps_have_no_rank() {
    let recording = recording("two-greps-and-a-copy");
    let compare = ["compare", &recording, "--open", "-q", "-s", "noop", "-s", "deadline"];
    let table = prints(&[&compare[..], &["--at-most", "100ms"]].concat());
    assert!(table.contains("--at-most stopped have no rank"), "{table}");
    assert!(table.contains("noop (cut)") && !table.contains("physical limit"), "{table}");
}

#[test]
fn a_search_without_a_tunable_is_rejected() {
    let search = ["compare", SMALL, "-s", "noop", "-q", "--optimise", "time"];
    fails(&search, 2, &["--optimise: none of the schedulers has a tunable to try"]);
    prints(&[&search[..], &["-s", "deadline", "--trials", "1"]].concat());
}
