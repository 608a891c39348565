//! Values of files against those of the command line, and errors with their lines.

use std::iter::once;

use clap::FromArgMatches;
use clap::parser::ValueSource;

use super::*;
use crate::commands::{Arguments, Command as Parsed, command};

/// The command line with a file's values, for no arguments in particular.
fn applied(command: Command, file: &str, text: &str) -> Result<Command, Error> {
    let original = crate::commands::command();
    apply_text(command, file, text, Base { original: &original, given: None }, &mut Origins::default())
}

/// The command line with a file's values for these arguments, and their lines.
fn located(text: &str, line: &[&str]) -> (ArgMatches, Origins) {
    let given = command().ignore_errors(true).try_get_matches_from(line).unwrap();
    let mut origins = Origins::default();
    let original = command();
    let base = Base { original: &original, given: Some(&given) };
    let command = apply_text(command(), "dwell.toml", text, base, &mut origins).unwrap();
    let matches = command.try_get_matches_from(line).unwrap_or_else(|error| panic!("{error}"));
    let origins = origins.used(&matches);
    (matches, origins)
}

#[test]
fn an_option_of_the_command_line_replaces_a_conflicting_one_of_the_file() {
    let found = |text: &str, line: &[&str]| {
        let (matches, _) = located(text, line);
        let Parsed::Compare(found) = Arguments::from_arg_matches(&matches).unwrap().command else {
            panic!("another command")
        };
        (found.output.json, found.output.csv)
    };
    let json = "[compare]\njson = true\n";
    assert_eq!(found(json, &["dwell", "compare", "par-read"]), (true, false));
    assert_eq!(found(json, &["dwell", "compare", "par-read", "--csv"]), (false, true));
    let csv = "[compare]\ncsv = true\n";
    assert_eq!(found(csv, &["dwell", "compare", "par-read", "--json"]), (true, false));
}

/// Regression: the JSON output won without a message, where the command line rejects the pair.
#[test]
fn options_of_a_file_that_exclude_each_other_are_an_error_with_both_lines() {
    let error = applied(command(), "dwell.toml", "[compare]\njson = true\n\ncsv = true\n").map(|_| ());
    let error = error.expect_err("the command line rejects the pair").to_string();
    let [csv, json] = ["dwell.toml:4: '--csv'", "'--json' (dwell.toml:2)"];
    assert_eq!(error, format!("{csv} cannot be used with {json}"));
    applied(command(), "dwell.toml", "[compare]\njson = true\ncsv = false\n").expect("one of them is off");
    // With an option of the command line, the other one is ignored.
    let (matches, _) = located("[compare]\njson = true\ncsv = true\n", &["dwell", "compare", "x", "--csv"]);
    let Parsed::Compare(found) = Arguments::from_arg_matches(&matches).unwrap().command else {
        panic!("another command")
    };
    assert!(found.output.csv && !found.output.json);
}

#[test]
fn a_later_file_replaces_options_that_exclude_its_own() {
    let original = command();
    let base = Base { original: &original, given: None };
    let mut origins = Origins::default();
    let mut both = command();
    for (file, text) in [
        ("/etc/dwell.toml", "[compare]\njson = true\nnr-requests = 7\n"),
        ("dwell.toml", "[compare]\ncsv = true\n"),
    ] {
        both = apply_text(both, file, text, base, &mut origins).unwrap();
    }
    let matches = both.try_get_matches_from(["dwell", "compare", "par-read"]).unwrap();
    let Parsed::Compare(found) = Arguments::from_arg_matches(&matches).unwrap().command else {
        panic!("another command")
    };
    assert!(found.output.csv && found.nr_requests == 7 && !found.output.json);
    assert!(origins.0.iter().all(|of| of.name != "json"));
}

#[test]
fn an_error_of_a_value_has_its_line() {
    let text = "[compare]\nwide = true\ndrive = \"bogus\"\n";
    let (_, origins) = located(text, &["dwell", "compare", "par-read"]);
    let error = origins.locate(Error::Usage("there is no drive 'bogus'".to_owned())).to_string();
    assert_eq!(error, "dwell.toml:3: drive = \"bogus\": there is no drive 'bogus'");
    let other = origins.locate(Error::Usage("there is no drive 'other'".to_owned())).to_string();
    assert_eq!(other, "there is no drive 'other'");
    let (_, origins) = located("[run]\nmachine = \"pc-1\"\n", &["dwell", "run", "x"]);
    let error = origins.locate(Error::Usage("unknown machine 'pc-1'; built-in: x".to_owned()));
    assert!(error.to_string().starts_with("dwell.toml:2: machine = \"pc-1\": unknown"), "{error}");
    let text = "[compare]\nscheduler = [\"noop\",\n  \"bfk\"]\n";
    let (_, origins) = located(text, &["dwell", "compare", "x"]);
    let error = origins.locate(Error::Usage("no scheduler is called 'bfk'".to_owned()));
    assert!(error.to_string().starts_with("dwell.toml:3: scheduler = \"bfk\": no"), "{error}");
    // Regression: only errors of usage and of input had a line.
    let (_, origins) =
        located("[tune]\narm = [\"none\", \"bfq{ a=1}\"]\ncontrol = \"/no\"\n", &["dwell", "tune", "x"]);
    let error = origins.locate(Error::Usage("sda: bfq has no setting 'a'; it has b".to_owned()));
    assert!(error.to_string().starts_with("dwell.toml:2: arm = \"bfq{ a=1}\": sda: "), "{error}");
    let error = origins.locate(Error::Failed("/no: no server listens there".to_owned()));
    assert!(
        matches!(error, Error::Failed(_)),
        "the exit code is the one of the same option on the command line"
    );
    assert!(error.to_string().starts_with("dwell.toml:3: control = \"/no\": /no: no server"), "{error}");
    let (_, origins) = located(text, &["dwell", "compare", "par-read", "--drive", "bogus"]);
    let error = origins.locate(Error::Usage("there is no drive 'bogus'".to_owned())).to_string();
    assert_eq!(error, "there is no drive 'bogus'", "it is from the command line");
    let (_, origins) = located("[top]\nevery = \"0s\"\n", &["dwell", "top", "/dev/sda"]);
    let error = origins.locate(Error::Usage("--every: must be greater than 0".to_owned())).to_string();
    assert_eq!(error, "dwell.toml:2: every = \"0s\": --every: must be greater than 0");
    // Regression: the hint's value was taken for the wrong one, and a value of one letter had no line.
    let (_, origins) = located("[compare]\nscheduler = [\"noop\",\n\"nooop\"]\n", &["dwell", "compare", "x"]);
    let error = "no scheduler is called 'nooop'; known are x; did you mean 'noop'? (character 1 of 'nooop')";
    let error = origins.locate(Error::Usage(error.to_owned())).to_string();
    assert!(error.starts_with("dwell.toml:3: scheduler = \"nooop\": no"), "{error}");
    let (_, origins) = located("[compare]\nscheduler = [\"noop\", 3]\n", &["dwell", "compare", "x"]);
    let error = origins.locate(Error::Usage("no scheduler is called '3'; known are x".to_owned()));
    assert!(error.to_string().starts_with("dwell.toml:2: scheduler = \"3\": no"), "{error}");
    // Regression: values of two letters had no line.
    let (_, origins) = located("[regret]\ndrive = [\"zz\"]\n", &["dwell", "regret"]);
    let error = origins.locate(Error::Usage("no drive is called 'zz'; drives are x".to_owned()));
    assert!(error.to_string().starts_with("dwell.toml:2: drive = \"zz\": no drive"), "{error}");
}

#[test]
fn a_required_option_may_be_in_the_file() {
    let found = parsed("[record]\noutput = \"io.trace\"\n", &["dwell", "record", "/dev/sda"]);
    let Parsed::Record(found) = found else { panic!("{found:?}") };
    assert_eq!(found.output, Path::new("io.trace"));
}

/// Regression: clap counts no default as the option that another one requires.
#[test]
fn the_size_of_a_device_in_memory_may_be_in_the_file() {
    let found = parsed("[serve]\nsize = \"1M\"\n", &["dwell", "serve", "--memory"]);
    let Parsed::Serve(found) = found else { panic!("{found:?}") };
    assert_eq!((found.memory, found.size.as_deref()), (true, Some("1M")));
}

#[test]
fn a_value_that_the_command_line_would_reject_has_its_line() {
    let rejected = |text: &str| match applied(command(), "dwell.toml", text) {
        Err(Error::Input(problem)) => problem,
        other => panic!("{text}: {:?}", other.map(|_| ())),
    };
    for (text, problem) in [
        ("[replay]\n\nrounds = 0\n", "dwell.toml:3: 'rounds' cannot be '0': 0 is not in 1..=100"),
        (
            "[profile]\nrounds = \"many\"\n",
            "dwell.toml:2: 'rounds' cannot be 'many': it must be a whole number",
        ),
        (
            "[replay]\nallow-writes = true\n",
            "dwell.toml:2: 'allow-writes' destroys data and is accepted on the command line only",
        ),
        (
            "[record]\noverwrite = true\n",
            "dwell.toml:2: 'overwrite' destroys data and is accepted on the command line only",
        ),
        (
            "[tune]\nrestore = true\n",
            "dwell.toml:2: 'restore' replaces what the command does and is accepted on the command line only",
        ),
        (
            "[patterns.forget]\n\nall = true\n",
            "dwell.toml:3: 'all' destroys data and is accepted on the command line only",
        ),
        (
            "[patterns.list]\nmetric = \"iops\"\n",
            "dwell.toml:2: 'patterns list' has no option 'metric'; all subcommands share it: write it below [patterns]",
        ),
        (
            "[patterns]\nkind = 1\n",
            "dwell.toml:2: 'patterns' has no option 'kind'; write it below [patterns.show] or [patterns.forget]",
        ),
        // Regression: a number was the name of a file, and an empty list had no effect.
        ("[patterns]\ndatabase = 5\n", "dwell.toml:2: 'database' is a path: write it in quotes, \"5\""),
        (
            "[compare]\nscheduler = []\n",
            "dwell.toml:2: 'scheduler' is an empty list; remove the line for the default",
        ),
        ("[top]\nonce = \"maybe\"\n", "dwell.toml:2: 'once' is true or false, not 'maybe'"),
        ("[top]\nevery = [\"1s\", \"2s\"]\n", "dwell.toml:2: 'every' takes one value, not a list of 2"),
    ] {
        assert_eq!(rejected(text), problem);
    }
    let metric = rejected("[tune]\nmetric = \"bandwith\"\n");
    assert!(
        metric.starts_with("dwell.toml:2: 'metric' has no value 'bandwith'; possible: bandwidth, iops, ")
            && metric.ends_with("did you mean 'bandwidth'?"),
        "{metric}"
    );
    applied(command(), "dwell.toml", "[tune]\narm = [\"none\", \"bfq\"]\nseed = 2\ndry-run = true\n")
        .unwrap();
}

/// Each command with the names above it.
pub(super) fn all_commands(command: &Command, path: &[String], each: &mut dyn FnMut(&Command, &[String])) {
    for sub in command.get_subcommands() {
        let path = [path, &[sub.get_name().to_owned()]].concat();
        each(sub, &path);
        all_commands(sub, &path, each);
    }
}

/// Whether the command has the file's value without any argument.
fn has_effect(of: Command, path: &[String], id: &str, value: &str) -> bool {
    let line = once("dwell").chain(path.iter().map(String::as_str));
    let matches = of.ignore_errors(true).try_get_matches_from(line).unwrap();
    let below = |of: Option<ArgMatches>, name: &String| of?.subcommand_matches(name).cloned();
    let matches = path.iter().fold(Some(matches), below).unwrap();
    let raw = matches.get_raw(id).into_iter().flatten().any(|raw| raw == value);
    raw && matches.value_source(id) == Some(ValueSource::DefaultValue)
}

#[test]
fn each_option_of_each_command_is_settable_or_named_as_not_settable() {
    let (mut settable_ones, mut rejected) = (0, Vec::new());
    all_commands(&command(), &[], &mut |of, path| {
        for arg in settable(of).filter(|arg| arg.get_long().is_some()) {
            let name = arg.get_long().unwrap();
            let possible = arg.get_possible_values().first().map(|value| value.get_name().to_owned());
            let values = possible.into_iter().chain(
                ["true", "1", "10", "64", "4096", "65536", "5s", "4k", "127.0.0.1:1", "x=1", "x"]
                    .map(str::to_owned),
            );
            let is_text = |value: &str| value != "true" && value.parse::<u64>().is_err();
            let outcomes: Vec<(String, Result<Command, Error>)> = values
                .map(|value| {
                    let quoted = if is_text(&value) { format!("\"{value}\"") } else { value.clone() };
                    let text = format!("# a comment\n[{}]\n\n{name} = {quoted}\n", path.join("."));
                    (value, applied(command(), "dwell.toml", &text))
                })
                .collect();
            for (_, outcome) in &outcomes {
                let problem = outcome.as_ref().err().map(ToString::to_string);
                assert!(
                    problem.iter().all(|problem| problem.starts_with("dwell.toml:4: ")
                        && problem.contains(&format!("'{name}'"))),
                    "{path:?}: {problem:?}"
                );
            }
            let accepted = outcomes.iter().find_map(|(value, of)| Some((value, of.as_ref().ok()?)));
            if let Some((value, command)) = accepted {
                settable_ones += 1;
                let id = arg.get_id().as_str();
                assert!(has_effect(command.clone(), path, id, value), "{path:?} {name} = {value}");
            } else {
                let problem = outcomes[0].1.as_ref().unwrap_err().to_string();
                assert!(problem.contains("on the command line only"), "{path:?}: {problem}");
                rejected.push((path.join(" "), name.to_owned()));
            }
        }
    });
    assert!(settable_ones > 200, "{settable_ones}");
    for (of, name) in &rejected {
        let is_listed = |(command, option, _): &(&str, &str, &str)| {
            option == name && (command.is_empty() || command == of)
        };
        assert!(COMMAND_LINE_ONLY.iter().any(is_listed), "{of} --{name}");
    }
    for (of, option, _) in COMMAND_LINE_ONLY {
        let found = rejected.iter().any(|(path, name)| name == option && (of.is_empty() || of == path));
        assert!(found, "no command {of} has --{option}");
    }
}

fn parsed(text: &str, line: &[&str]) -> Parsed {
    let command = applied(command(), "dwell.toml", text).unwrap();
    let matches = command.try_get_matches_from(line).unwrap_or_else(|error| panic!("{error}"));
    Arguments::from_arg_matches(&matches).unwrap().command
}

fn compare(text: &str, line: &[&str]) -> crate::commands::compare::args::CompareArguments {
    match parsed(text, line) {
        Parsed::Compare(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

const TEXT: &str = "# mine\n[compare]\ndrive = \"ssd-sata\"\nscheduler = [\"noop\", \"bfq\"]\nwide = true\nnr-requests = 64\n";

#[test]
fn options_have_the_values_of_the_file() {
    let found = compare(TEXT, &["dwell", "compare", "par-read"]);
    assert_eq!(found.drive, "ssd-sata");
    assert_eq!(found.schedulers, ["noop", "bfq"]);
    assert!(found.output.wide && found.nr_requests == 64);
}

#[test]
fn the_command_line_has_precedence() {
    let line = ["dwell", "compare", "par-read", "--drive", "ide-2003", "-s", "noop", "--nr-requests", "7"];
    let found = compare(TEXT, &line);
    assert_eq!((found.drive.as_str(), found.nr_requests), ("ide-2003", 7));
    assert_eq!(found.schedulers, ["noop"]);
    // A default of the file does not conflict with an option of the command line.
    assert!(compare(TEXT, &["dwell", "compare", "par-read", "--all"]).output.all);
}

#[test]
fn later_files_replace_values_of_earlier_ones() {
    let command = applied(command(), "/etc/dwell.toml", TEXT).unwrap();
    let command = applied(command, "dwell.toml", "[compare]\ndrive = \"ide-2003\"\n").unwrap();
    let matches = command.try_get_matches_from(["dwell", "compare", "par-read"]).unwrap();
    let Parsed::Compare(found) = Arguments::from_arg_matches(&matches).unwrap().command else {
        panic!("another command")
    };
    assert_eq!((found.drive.as_str(), found.nr_requests), ("ide-2003", 64));
}

#[test]
fn subcommands_have_tables_of_their_own() {
    let text = "[trace.info]\nstrict = true\n";
    let found = parsed(text, &["dwell", "trace", "info", "file"]);
    assert!(format!("{found:?}").contains("strict: true"), "{found:?}");
}

#[test]
fn errors_have_the_line() {
    let error = |text: &str| applied(command(), "dwell.toml", text).unwrap_err().to_string();
    assert!(
        error("[compare]\ndrve = \"x\"\n")
            .contains("dwell.toml:2: 'compare' has no option 'drve'; did you mean 'drive'?")
    );
    assert!(error("\n[compar]\n").contains("dwell.toml:2: there is no command 'compar'"));
    assert!(error("drive = \"x\"\n").contains("dwell.toml:1: 'drive' must be a table"));
    assert!(error("[compare]\ndrive = 1979-05-27\n").contains("dwell.toml:2: 'drive': expected"));
    assert!(error("[compare\n").starts_with("dwell.toml:1: "));
    assert!(error("[trace.info]\nstrickt = true\n").contains("did you mean 'strict'?"));
}
