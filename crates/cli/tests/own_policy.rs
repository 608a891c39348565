//! The policy of `docs/own-policy.md`, from the same file that its readers run: it keeps the contract, does what it is
//! for, is found by its names, and runs under `compare`.

// The example's `main` is not called here.
#[allow(dead_code)]
#[path = "../examples/own_policy.rs"]
mod own_policy;

use std::path::Path;
use std::process::Command;

use elevator::check_policy::check_policy;
use elevator::queue::{Options, Plugging, Queue, Step, Submission, Token};
use elevator::{Direction, Op, Outcome, Scheduler, Sector, Sectors, Span, Time};
use own_policy::{LISTING, ReadsFirst};
use schedulers::registry::Catalogue;
use schedulers::{Environment, Listing, Spec};

static OWN: &[Listing] = &[LISTING];

fn reads_first() -> Box<dyn Scheduler> {
    Box::new(ReadsFirst::default())
}

#[test]
fn it_keeps_the_contract() {
    let reports = check_policy(600_000, 42, &mut reads_first).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(reports.iter().all(|report| report.finished > 10_000), "{reports:?}");
}

/// The directions in which a queue sends what was submitted at time zero, one every `gap`.
fn order(submitted: &[Op], gap: Span) -> Vec<Direction> {
    let options = Options { depth: 1, plugging: Plugging::None, ..Options::default() };
    let mut queue: Queue = Queue::new(options, reads_first());
    for (n, op) in (0..).zip(submitted) {
        let _ = queue.submit(Time::ZERO, Submission::new(Token(n), *op, Sector(n * 1000), Sectors(8)));
    }
    let mut now = Time::ZERO;
    let mut sent = Vec::new();
    while let Step::Dispatch(ticket) = queue.next(now, None) {
        sent.push(queue.request(&ticket).direction());
        now += gap;
        queue.complete(now, ticket, Outcome::Done);
    }
    sent
}

#[test]
fn reads_go_first_until_a_write_has_waited_for_its_patience() {
    use Direction::{Read, Write};
    let submitted = [Op::Write, Op::Read, Op::Read, Op::Read];
    assert_eq!(order(&submitted, Span::from_millis(10)), [Read, Read, Read, Write]);
    assert_eq!(order(&submitted, Span::from_millis(100)), [Read, Read, Write, Read], "200 ms were over");
}

#[test]
fn its_names_are_names_like_any_other() {
    let catalogue = Catalogue::with(OWN).expect("no other policy is called so");
    for name in ["own", "own{patience=50ms}", "stream(own)"] {
        let spec = Spec::parse_in(catalogue, name).unwrap_or_else(|error| panic!("{error}"));
        spec.build(&Environment::default()).unwrap_or_else(|error| panic!("{error}"));
    }
    let unknown = Spec::parse_in(catalogue, "stream(owm)").expect_err("a misspelt name");
    assert!(unknown.to_string().contains("did you mean 'own'?"), "{unknown}");
    assert!(Spec::parse("own").is_err(), "who does not add it does not have it");
}

#[test]
fn it_runs_under_compare() {
    let beside = Path::new(env!("CARGO_BIN_EXE_dwell")).parent().expect("a directory");
    let example = beside.join("examples/own_policy");
    if !example.exists() {
        // `cargo test --test own_policy` builds no examples.
        let profile = if cfg!(debug_assertions) { "test" } else { "release" };
        let arguments =
            ["build", "--quiet", "--package", "dwell-cli", "--example", "own_policy", "--profile", profile];
        let built = Command::new(env!("CARGO")).args(arguments).status().expect("cargo runs");
        assert!(built.success(), "cargo {arguments:?}");
    }
    let output = Command::new(example)
        .args([
            "compare",
            "par-read",
            "--at-most",
            "100ms",
            "--json",
            "--quiet",
            "-s",
            "own",
            "-s",
            "stream(own)",
        ])
        .output()
        .expect("the example runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let names: Vec<&str> =
        found["runs"].as_array().into_iter().flatten().filter_map(|run| run["scheduler"].as_str()).collect();
    assert_eq!(names, ["own", "stream(own)"]);
}
