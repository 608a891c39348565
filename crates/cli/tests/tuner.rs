//! `advise`, `tune` and `patterns` from outside, as far as they go without a device.

use std::process::Command;

#[track_caller]
fn fails(arguments: &[&str], code: i32, said: &str) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_dwell")).args(arguments).output().expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.contains(said) && output.stdout.is_empty(), "{arguments:?}: {error}");
}

#[test]
fn what_cannot_be_tuned_is_said() {
    fails(&["tune", "/dev/nosuch", "--dry-run"], 2, "/dev/nosuch");
    fails(&["advise", "/dev/null"], 2, "is no block device");
    fails(&["tune", "/dev/null", "--command", "true", "--metric", "iops"], 2, "cannot be used with");
}

#[test]
fn a_database_that_is_not_there_or_none_is_said() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let absent = directory.join("absent.sqlite");
    let absent = absent.to_str().expect("UTF-8");
    fails(&["patterns", "--database", absent, "list"], 6, "there is none");
    fails(&["patterns", "--database", absent, "forget", "3"], 6, "there is none");
    let text = directory.join(format!("text-{}.sqlite", std::process::id()));
    std::fs::write(
        &text,
        "no database at all, but long enough to be read as a header of one: 0123456789 0123456789 0123456789",
    )
    .expect("written");
    fails(&["patterns", "--database", text.to_str().expect("UTF-8"), "list"], 6, "is damaged");
    std::fs::remove_file(text).expect("removed");
}

#[test]
fn what_is_to_be_shown_or_forgotten_is_asked_for_with_all_its_ways() {
    fails(&["patterns", "show"], 2, "<CLUSTER|--kind <N>>");
    fails(&["patterns", "forget"], 2, "<CLUSTER|--kind <N>|--all>");
    fails(&["patterns", "forget", "3", "--all"], 2, "cannot be used with");
}

#[test]
fn an_experiment_that_does_not_exist_is_said_with_those_that_do() {
    fails(&["reproduce", "ioanalyzer", "--only", "nosuch"], 2, "2 LKR + 2 HD");
}
