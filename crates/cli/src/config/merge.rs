//! Adds the values of configuration files to the command line.
//!
//! # Idea
//! clap does not count a default as a given value, so that the default of an option does not satisfy another one that requires it. Values of files
//! are therefore also written into the command line, behind the name of their command, before clap checks how options relate.
//!
//! # Not for
//! A value whose own requirements are not met, such as `connections` of a server without an NBD address: it remains a default without effect, because
//! a file holds for each use of a command.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::Origins;

/// The line with the values of files that take part in the checks. `original` is the command without them, `command` has them as defaults.
pub(super) fn merged(
    original: &Command,
    command: &Command,
    line: &[OsString],
    origins: &mut Origins,
) -> Vec<OsString> {
    let mut merged = line.to_vec();
    let Some(path) = subcommands(original, line) else { return merged };
    // The innermost command first: the places of the outer ones stay.
    for depth in (1..=path.len()).rev() {
        let words = words(original, command, (line, &path[..depth], depth < path.len()), origins);
        let is_name = |&at: &usize| {
            subcommands(original, &line[..=at]).is_some_and(|found| found.starts_with(&path[..depth]))
        };
        if let Some(at) = (1..line.len()).find(is_name).filter(|_| !words.is_empty()) {
            merged.splice(at + 1..=at, words);
        }
    }
    merged
}

/// The names of the command and its subcommands on a line.
fn subcommands(command: &Command, line: &[OsString]) -> Option<Vec<String>> {
    let matches = command.clone().ignore_errors(true).try_get_matches_from(line).ok()?;
    let (mut path, mut of) = (Vec::new(), &matches);
    while let Some((name, below)) = of.subcommand() {
        path.push(name.to_owned());
        of = below;
    }
    Some(path)
}

/// The values of files for the command at `path`, as options.
fn words(
    original: &Command,
    command: &Command,
    (line, path, is_above): (&[OsString], &[String], bool),
    origins: &mut Origins,
) -> Vec<OsString> {
    let below = |of: &Command| path.iter().try_fold(of.clone(), |of, name| of.find_subcommand(name).cloned());
    let (Some(original_sub), Some(sub)) = (below(original), below(command)) else { return Vec::new() };
    let matches = original.clone().ignore_errors(true).try_get_matches_from(line).ok();
    let given = path.iter().try_fold(matches, |of, name| Some(of?.subcommand_matches(name).cloned()));
    let Some(given) = given.flatten().filter(|_| !(is_above && sub.is_args_conflicts_with_subcommands_set()))
    else {
        return Vec::new();
    };
    let is_given = |id: &str| is_given(&given, id);
    let of_files = origins.0.iter().filter(|of| of.command == path).map(|of| of.id.clone());
    let ids: BTreeSet<String> = of_files.filter(|id| !is_given(id)).collect();
    let as_words = |id: String| {
        let arg = sub.get_arguments().find(|arg| arg.get_id() == &*id)?;
        let words = options(arg);
        (!words.is_empty()).then_some((id, words))
    };
    let mut values: BTreeMap<String, Vec<OsString>> = ids.into_iter().filter_map(as_words).collect();
    let without = missing(&original_sub, &[]);
    let needs = |words: &[OsString]| missing(&original_sub, words).difference(&without).cloned().collect();
    let needs: BTreeMap<String, BTreeSet<String>> =
        values.iter().map(|(id, words)| (id.clone(), needs(words))).collect();
    // A value without what it requires may be what another one requires.
    loop {
        let has = |id: &String| is_given(id) || values.contains_key(id);
        let unmet = values.keys().find(|id| !needs[*id].iter().all(has)).cloned();
        let Some(id) = unmet else { break };
        values.remove(&id);
    }
    let merged = origins.0.iter_mut().filter(|of| of.command == path && values.contains_key(&of.id));
    merged.for_each(|of| of.is_merged = true);
    values.into_values().flatten().collect()
}

/// Whether the command line or the environment has an option.
pub(super) fn is_given(given: &ArgMatches, id: &str) -> bool {
    let source = given.try_contains_id(id).ok().and_then(|_| given.value_source(id));
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// The default values of an option as a command line has them; none for a switch that is off.
fn options(arg: &Arg) -> Vec<OsString> {
    let Some(name) = arg.get_long() else { return Vec::new() };
    let takes_values = arg.get_action().takes_values();
    let word = |value: &clap::builder::OsStr| {
        let mut word = OsString::from(format!("--{name}"));
        if takes_values {
            word.push("=");
            word.push(value);
        }
        word
    };
    let values = arg.get_default_values().iter().filter(|value| takes_values || **value == *"true");
    values.map(word).collect()
}

/// The ids of the arguments that a command lacks with these options.
fn missing(command: &Command, words: &[OsString]) -> BTreeSet<String> {
    let line = std::iter::once(OsString::from(command.get_name())).chain(words.iter().cloned());
    let mut command = command.clone();
    let Err(error) = command.try_get_matches_from_mut(line) else { return BTreeSet::new() };
    let names = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) if error.kind() == ErrorKind::MissingRequiredArgument => names,
        _ => return BTreeSet::new(),
    };
    // clap names arguments as its usage does: "--drive <DRIVE>", "<PATH>".
    let plain = |text: &str| text.replace(['<', '>', '[', ']'], "");
    let is_named = |arg: &&Arg| names.iter().any(|name| plain(name) == plain(&arg.to_string()));
    command.get_arguments().filter(is_named).map(|arg| arg.get_id().as_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::super::tests::all_commands;
    use super::super::{Base, apply_text, settable};
    use super::*;
    use crate::commands::{Arguments, Command as Parsed, command};

    /// The line with the values of a file, and clap's result.
    fn with_file(text: &str, line: &[&str]) -> (Result<ArgMatches, clap::Error>, Origins) {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        let (original, mut origins) = (command(), Origins::default());
        let given = original.clone().ignore_errors(true).try_get_matches_from(&line).unwrap();
        let base = Base { original: &original, given: Some(&given) };
        let of = apply_text(command(), "dwell.toml", text, base, &mut origins).unwrap();
        let line = merged(&original, &of, &line, &mut origins);
        (of.try_get_matches_from(line), origins)
    }

    fn serve(text: &str, line: &[&str]) -> crate::commands::serve::ServeArguments {
        let line = [&["dwell", "serve"], line].concat();
        let matches = with_file(text, &line).0.unwrap_or_else(|error| panic!("{error}"));
        let Parsed::Serve(found) = Arguments::from_arg_matches(&matches).unwrap().command else {
            panic!("another command")
        };
        found
    }

    /// Regression: each of these was an error that the required option is missing.
    #[test]
    fn an_option_of_a_file_is_what_another_one_requires() {
        let of = serve("[serve]\ndrive = \"wd5000aaks\"\n", &["--speed", "2", "--discard-data"]);
        assert_eq!((of.drive.as_deref(), of.speed, of.discard_data), (Some("wd5000aaks"), 2, true));
        let of = serve("[serve]\nattach = true\n", &["--causes", "image"]);
        assert!(of.attach && of.causes);
        let of = serve(
            "[serve]\nnbd = [\"tcp:127.0.0.1:1\", \"unix:/x\"]\ntls = \"keys\"\n",
            &["image", "--tls-verify-peer"],
        );
        assert_eq!((of.nbd.len(), of.tls.is_some()), (2, true));
        let array = serve("[serve]\nmember = [\"a\", \"b\"]\narray = \"raid1\"\n", &[]);
        assert_eq!(array.scheduler, "stream(deadline)", "the default with an array");
    }

    #[test]
    fn a_value_without_what_it_requires_has_no_effect() {
        let text = "[serve]\ncauses = true\nconnections = 3\ntls = \"keys\"\n";
        let of = serve(text, &["--memory", "--size", "1M"]);
        assert!(of.causes && of.connections == 3 && of.nbd.is_empty());
        let (matches, _) = with_file("[serve]\ndiscard-data = true\n", &["dwell", "serve", "image"]);
        matches.unwrap();
    }

    #[test]
    fn values_of_the_command_line_replace_those_of_files() {
        let text = "[serve]\ndrive = \"ide-2003\"\nnbd = [\"unix:/x\"]\n";
        let of = serve(text, &["--drive", "wd5000aaks", "--nbd", "unix:/y"]);
        assert_eq!((of.drive.as_deref(), of.nbd), (Some("wd5000aaks"), vec!["unix:/y".to_owned()]));
        assert!(serve(text, &["--memory", "--size", "1M"]).drive.is_none_or(|drive| drive == "ide-2003"));
    }

    #[test]
    fn values_follow_the_name_of_their_command() {
        let text = "[patterns]\ndatabase = \"list\"\n[patterns.list]\njson = true\n";
        let (original, mut origins) = (command(), Origins::default());
        let base = Base { original: &original, given: None };
        let of = apply_text(command(), "dwell.toml", text, base, &mut origins).unwrap();
        let line = ["dwell", "patterns", "--drive", "list", "list"].map(OsString::from);
        let found = merged(&original, &of, &line, &mut origins);
        assert_eq!(
            found,
            ["dwell", "patterns", "--database=list", "--drive", "list", "list", "--json"].map(OsString::from)
        );
        // The program that 'exec' runs has options of its own.
        let text = "[exec]\nlisten = \"a\"\n";
        let of = apply_text(command(), "dwell.toml", text, base, &mut origins).unwrap();
        let line = ["dwell", "exec", "--control", "s", "cp", "-a", "x"].map(OsString::from);
        let found = merged(&original, &of, &line, &mut origins);
        assert_eq!(found[2], *"--listen=a");
    }

    #[test]
    fn an_error_of_a_merged_value_has_its_line() {
        let (matches, origins) =
            with_file("[serve]\ndrive = \"bogus\"\n", &["dwell", "serve", "--speed", "2"]);
        let error = crate::Error::Usage("no drive is called 'bogus'".to_owned());
        let error = origins.used(&matches.unwrap()).locate(error).to_string();
        assert_eq!(error, "dwell.toml:2: drive = \"bogus\": no drive is called 'bogus'");
    }

    /// The value of an option for a test.
    fn value(arg: &Arg) -> Vec<String> {
        let possible = arg.get_possible_values().first().map(|value| value.get_name().to_owned());
        match arg.get_action().takes_values() {
            false => vec!["true".to_owned()],
            true => possible.into_iter().chain(["1", "x", "1s"].map(str::to_owned)).collect(),
        }
    }

    #[test]
    fn each_required_option_of_each_command_may_be_in_a_file() {
        let mut tested = 0;
        all_commands(&command(), &[], &mut |of, path| {
            let without = missing(of, &[]);
            for arg in settable(of).filter(|arg| arg.get_long().is_some()) {
                let word = |value: &String| match arg.get_action().takes_values() {
                    true => format!("--{}={value}", arg.get_long().unwrap()),
                    false => format!("--{}", arg.get_long().unwrap()),
                };
                let with: Vec<_> = value(arg).iter().map(word).collect();
                let needs = |word: &String| {
                    missing(of, &[OsString::from(word)]).difference(&without).cloned().collect::<Vec<_>>()
                };
                let Some((word, needs)) =
                    with.iter().map(|word| (word, needs(word))).find(|(_, of)| !of.is_empty())
                else {
                    continue;
                };
                // The other required arguments are positional.
                let required =
                    needs.iter().filter_map(|id| of.get_arguments().find(|arg| arg.get_id() == &**id));
                let required: Vec<&Arg> = required.filter(|arg| arg.get_long().is_some()).collect();
                let text = |arg: &&Arg| {
                    let values = value(arg).into_iter().map(|value| match value.as_str() {
                        "true" => format!("{} = true\n", arg.get_long().unwrap()),
                        value => format!("{} = \"{value}\"\n", arg.get_long().unwrap()),
                    });
                    let texts = values.map(|line| (format!("[{}]\n{line}", path.join(".")), line));
                    let original = command();
                    let base = Base { original: &original, given: None };
                    let is_valid =
                        |text: &str| apply_text(command(), "t", text, base, &mut Origins::default()).is_ok();
                    texts.into_iter().find(|(text, _)| is_valid(text)).map(|(_, line)| line)
                };
                // Others are accepted on the command line only.
                let required: Vec<(&Arg, String)> =
                    required.into_iter().filter_map(|arg| Some((arg, text(&arg)?))).collect();
                let text = required.iter().map(|(_, line)| &**line).collect::<String>();
                let text = format!("[{}]\n{text}", path.join("."));
                let names = path.iter().map(String::as_str);
                let line: Vec<&str> = std::iter::once("dwell").chain(names).chain([&**word]).collect();
                let problem =
                    with_file(&text, &line).0.err().map(|error| error.to_string()).unwrap_or_default();
                for (arg, _) in required {
                    let is_missing = problem.contains("required arguments")
                        && problem.contains(&format!("  --{}", arg.get_long().unwrap()));
                    assert!(!is_missing, "{line:?} {text}: {problem}");
                    tested += 1;
                }
            }
        });
        assert!(tested >= 15, "{tested}");
    }
}
