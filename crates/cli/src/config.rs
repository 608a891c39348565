//! Configuration files: default values of options, below the command line and the environment.
//!
//! A file has a table for each command with its long options: `[compare]`, `drive = "ssd-sata"`. `[trace.info]` is a subcommand. The files in
//! order of precedence: the one that `DWELL_CONFIG` names, or else `$XDG_CONFIG_HOME/dwell.toml` (`~/.config/dwell.toml`) and
//! `/etc/dwell.toml`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use elevator::text::did_you_mean;
use server::supervisor::{input, read_at_most};
use toml::de::{DeTable, DeValue};

use crate::error::Error;

/// For all users.
const SYSTEM: &str = "/etc/dwell.toml";

/// Options that destroy data, or replace what the command does: each use must be on the command line. A command's name, or nothing for each command;
/// an option; the reason.
const COMMAND_LINE_ONLY: [(&str, &str, &str); 7] = [
    ("", "allow-writes", DESTROYS),
    ("", "overwrite", DESTROYS),
    ("patterns forget", "all", DESTROYS),
    ("patterns forget", "kind", DESTROYS),
    ("serve", "even-if-used", "may damage data in use"),
    ("tune", "restore", SELECTS),
    ("tune", "status", SELECTS),
];
const DESTROYS: &str = "destroys data";
const SELECTS: &str = "replaces what the command does";

/// A file is a few lines.
const BYTES_MAX: u64 = 1 << 20;

/// The values of options in configuration files, with their lines.
#[derive(Default)]
pub(crate) struct Origins(Vec<Origin>);

struct Origin {
    /// The subcommand, with its parents.
    command: Vec<String>,
    /// The option's id, and its long name.
    id: String,
    name: String,
    text: String,
    /// `file:line`.
    place: String,
}

impl Origins {
    /// Keeps the values that this command line uses.
    pub(crate) fn used(mut self, matches: &ArgMatches) -> Self {
        self.0.retain(|origin| {
            let below = |of: &ArgMatches, name: &String| {
                of.subcommand().filter(|(found, _)| found == name).map(|(_, of)| of.clone())
            };
            let matched = origin.command.iter().try_fold(matches.clone(), |of, name| below(&of, name));
            matched.is_some_and(|of| {
                let texts = of.get_raw(&origin.id).into_iter().flatten();
                of.value_source(&origin.id) == Some(ValueSource::DefaultValue)
                    && texts.into_iter().any(|text| *text == *origin.text)
            })
        });
        self
    }

    /// An error that quotes a value of a configuration file, with the file and the line.
    pub(crate) fn locate(&self, error: Error) -> Error {
        let place = |problem: &str| {
            let quoted = |origin: &&Origin| {
                let (text, option) = (&origin.text, format!("--{}", origin.name));
                let is_of_option =
                    problem.strip_prefix(&option).is_some_and(|rest| rest.starts_with([':', ' ']));
                let is_quoted =
                    ["'", "`"].iter().any(|quote| problem.contains(&format!("{quote}{text}{quote}")))
                        || problem.starts_with(&format!("{text}: "))
                        || problem.contains(&format!(": {text};"));
                // A scheduler's setting.
                let mut settings =
                    text.split_once('{').into_iter().flat_map(|(_, of)| of.split([',', '=', '}']));
                let is_setting = settings
                    .any(|word| !word.trim().is_empty() && problem.contains(&format!("'{}'", word.trim())));
                is_of_option || is_setting || (text.len() > 1 && is_quoted)
            };
            self.0.iter().find(quoted).map(|of| format!("{}: {} = {:?}", of.place, of.name, of.text))
        };
        let located = |problem: String| match place(&problem) {
            Some(place) => Ok(format!("{place}: {problem}")),
            None => Err(problem),
        };
        match error {
            // A wrong value of a file is wrong input.
            Error::Usage(problem) => located(problem).map_or_else(Error::Usage, Error::Input),
            Error::Input(problem) => Error::Input(located(problem).unwrap_or_else(|problem| problem)),
            Error::Failed(problem) => Error::Failed(located(problem).unwrap_or_else(|problem| problem)),
            other => other,
        }
    }
}

/// Applies the configuration files to a command line. Values that conflict with an option in `line`, the process's arguments, are ignored.
///
/// # Errors
/// The file that `DWELL_CONFIG` names cannot be read. A file is not valid, names a command or an option that does not exist, or sets two options that
/// exclude each other.
pub(crate) fn apply(mut command: Command, line: &[OsString]) -> Result<(Command, Origins), Error> {
    let mut origins = Origins::default();
    let original = command.clone();
    // A value that is required may be in a file; `--help` has no matches.
    let given = command.clone().ignore_errors(true).try_get_matches_from(line).ok();
    // Values of a later file replace those of an earlier one.
    for path in files() {
        // A server that is restarted may not read the file again: it may be on the device that waits for this server.
        let text = match input(&path, || read(&path)) {
            Err(error) if is_optional(&path) && error.kind() != io::ErrorKind::InvalidData => {
                let is_missing =
                    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
                if !is_missing {
                    let path = path.display();
                    say!(
                        "{path}: {error}; continuing without it (DWELL_CONFIG=FILE names another file, DWELL_CONFIG= none)"
                    );
                }
                continue;
            }
            read => read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| wrong("is not text (UTF-8)"))),
        };
        let by = if is_optional(&path) { "" } else { " (named by DWELL_CONFIG)" };
        let text = text.map_err(|error| match by {
            "" => Error::file(path.display(), &error),
            by => {
                let what = format!("{error}; name a file of options, or none with DWELL_CONFIG=");
                Error::file(format!("{}{by}", path.display()), &io::Error::new(error.kind(), what))
            }
        })?;
        let base = Base { original: &original, given: given.as_ref() };
        command = apply_text(command, &path.display().to_string(), &text, base, &mut origins)?;
    }
    Ok((command, origins))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = read_at_most(path, BYTES_MAX + 1)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong("too large for a configuration"));
    }
    Ok(bytes)
}

fn wrong(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// The files that may exist, the lowest precedence first.
fn files() -> Vec<PathBuf> {
    if let Some(named) = named() {
        return if named.as_os_str().is_empty() { Vec::new() } else { vec![named] };
    }
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
    let of_user = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let of_user = of_user.or_else(home).map(|folder| folder.join("dwell.toml"));
    std::iter::once(PathBuf::from(SYSTEM)).chain(of_user).collect()
}

/// `DWELL_CONFIG`; empty for no file.
fn named() -> Option<PathBuf> {
    std::env::var_os("DWELL_CONFIG").map(PathBuf::from)
}

fn is_optional(path: &Path) -> bool {
    named().is_none_or(|named| named != path)
}

fn apply_text(
    mut command: Command,
    file: &str,
    text: &str,
    base: Base<'_>,
    origins: &mut Origins,
) -> Result<Command, Error> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
    let place = |at: usize| format!("{file}:{}", line(at));
    let wrong = |at: usize, problem: &str| Error::Input(format!("{}: {problem}", place(at)));
    let table = DeTable::parse(text)
        .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message()))?;
    for (name, value) in table.get_ref() {
        let at = name.span().start;
        let DeValue::Table(options) = value.get_ref() else {
            return Err(wrong(at, &format!("'{}' must be a table of a command: [compare]", name.get_ref())));
        };
        let mut reading = Reading { wrong: &wrong, place: &place, path: Vec::new(), origins };
        command = with_options(command, name.get_ref(), (options, at), base, &mut reading)?;
    }
    Ok(command)
}

/// What a file's options are compared with.
#[derive(Clone, Copy)]
struct Base<'a> {
    /// The command without the values of any file.
    original: &'a Command,
    /// The options of the command line.
    given: Option<&'a ArgMatches>,
}

impl<'a> Base<'a> {
    /// The same for a subcommand.
    fn below(self, name: &str) -> Self {
        Self {
            original: self.original.find_subcommand(name).unwrap_or(self.original),
            given: self.given.and_then(|given| given.subcommand_matches(name)),
        }
    }

    /// Without the value of an earlier file.
    fn reset(self, command: Command, id: &str) -> Command {
        let Some(original) = self.original.get_arguments().find(|arg| arg.get_id() == id).cloned() else {
            return command;
        };
        command.mut_arg(id, |arg| {
            let values = original.get_default_values().to_vec();
            arg.default_values(values).required(original.is_required_set())
        })
    }
}

/// The value of an option in a file.
struct Value {
    texts: Vec<String>,
    name: String,
    place: String,
}

impl Value {
    /// Whether the option has an effect: a switch that is off has none.
    fn is_on(&self, command: &Command, id: &str) -> bool {
        let takes_values =
            command.get_arguments().find(|arg| arg.get_id() == id).map(|arg| arg.get_action().takes_values());
        takes_values != Some(false) || self.texts.iter().any(|text| text == "true")
    }
}

/// A file that is read.
struct Reading<'a> {
    /// Makes an error with the line of a position.
    wrong: &'a dyn Fn(usize, &str) -> Error,
    /// The file and the line of a position.
    place: &'a dyn Fn(usize) -> String,
    /// The names of the subcommands above.
    path: Vec<String>,
    origins: &'a mut Origins,
}

/// Whether two options of a command exclude each other; only one of them may state that.
fn exclude(command: &Command, one: &str, other: &str) -> bool {
    let states = |one: &str, other: &str| {
        let arg = command.get_arguments().find(|arg| arg.get_id() == one);
        arg.is_some_and(|arg| command.get_arg_conflicts_with(arg).iter().any(|of| of.get_id() == other))
    };
    states(one, other) || states(other, one)
}

/// Whether an option conflicts with one of the command line.
fn is_overruled(command: &Command, id: &str, given: Option<&ArgMatches>) -> bool {
    let Some(given) = given else { return false };
    let ids = command.get_arguments().map(|arg| arg.get_id().as_str());
    let mut on_line = ids.filter(|id| given.value_source(id) == Some(ValueSource::CommandLine));
    on_line.any(|other| exclude(command, id, other))
}

/// A command line in which the options of a subcommand have other defaults.
fn with_options(
    mut command: Command,
    name: &str,
    (options, at): (&DeTable<'_>, usize),
    base: Base<'_>,
    reading: &mut Reading<'_>,
) -> Result<Command, Error> {
    let (wrong, place) = (reading.wrong, reading.place);
    let known: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    if !known.iter().any(|known| known == name) {
        let hint = did_you_mean(name, known.iter().map(String::as_str));
        return Err(wrong(at, &format!("there is no command '{name}'{hint}")));
    }
    let base = base.below(name);
    reading.path.push(name.to_owned());
    let mut values: BTreeMap<String, Value> = BTreeMap::new();
    let mut nested = Vec::new();
    for (key, value) in options {
        let (key, at) = (key.get_ref().as_ref(), key.span().start);
        match value.get_ref() {
            DeValue::Table(table) => nested.push((key.to_owned(), table, at)),
            value => {
                let texts = texts(value).ok_or_else(|| {
                    wrong(
                        at,
                        &format!("'{key}': expected a string, a number, true, false, or a list of strings"),
                    )
                })?;
                let Some(sub) = command.find_subcommand(name) else { continue };
                let id = option(sub, &reading.path, &command, key).map_err(|problem| wrong(at, &problem))?;
                if texts.is_empty() {
                    return Err(wrong(
                        at,
                        &format!("'{key}' is an empty list; remove the line for the default"),
                    ));
                }
                if is_path(sub, &id) && !is_text(value) {
                    let first = texts.first().map_or("", String::as_str);
                    return Err(wrong(at, &format!("'{key}' is a path: write it in quotes, \"{first}\"")));
                }
                let spots = spots(value, at);
                is_valid(sub, &id, key, &texts).map_err(|problem| {
                    let is_wrong =
                        |text: &String| is_valid(sub, &id, key, std::slice::from_ref(text)).is_err();
                    let element = texts.iter().position(is_wrong).and_then(|index| spots.get(index));
                    wrong(*element.unwrap_or(&at), &problem)
                })?;
                if is_overruled(sub, &id, base.given) {
                    continue;
                }
                reading.origins.0.extend(texts.iter().zip(&spots).map(|(text, &at)| Origin {
                    command: reading.path.clone(),
                    id: id.clone(),
                    name: key.to_owned(),
                    text: text.clone(),
                    place: place(at),
                }));
                let value = Value { texts, name: key.to_owned(), place: place(at) };
                let of_value = |(other_id, other): (&String, &Value)| {
                    (value.is_on(sub, &id) && other.is_on(sub, other_id) && exclude(sub, &id, other_id)).then(
                        || format!("'--{key}' cannot be used with '--{}' ({})", other.name, other.place),
                    )
                };
                if let Some(problem) = values.iter().find_map(of_value) {
                    return Err(wrong(at, &problem));
                }
                values.insert(id, value);
            }
        }
    }
    // The value of a later file replaces also those of earlier files that exclude it.
    let replaced = command.find_subcommand(name).map(|sub| {
        let is_replaced = |of: &&Origin| {
            let mut on = values.iter().filter(|(id, value)| value.is_on(sub, id));
            of.command == reading.path && on.any(|(id, _)| exclude(sub, id, &of.id))
        };
        reading.origins.0.iter().filter(is_replaced).map(|of| of.id.clone()).collect::<Vec<_>>()
    });
    let replaced = replaced.unwrap_or_default();
    reading.origins.0.retain(|of| of.command != reading.path || !replaced.contains(&of.id));
    command = command.mut_subcommand(name, |mut sub| {
        for id in &replaced {
            sub = base.reset(sub, id);
        }
        for (id, Value { texts, .. }) in values {
            // clap's defaults live as long as the program; the files are read once.
            let texts = texts.into_iter().map(|text| &*text.leak());
            // clap does not count a default as a given value.
            sub = sub.mut_arg(id, |arg| arg.default_values(texts).required(false));
        }
        sub
    });
    for (key, table, at) in nested {
        let mut failed = None;
        command = command.mut_subcommand(name, |sub| {
            let unchanged = sub.clone();
            with_options(sub, &key, (table, at), base, reading).unwrap_or_else(|error| {
                failed = Some(error);
                unchanged
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    reading.path.pop();
    Ok(command)
}

/// The id of the option with that long name. `path` has the names of the command, and `above` is the command that contains it.
fn option(command: &Command, path: &[String], above: &Command, name: &str) -> Result<String, String> {
    let of = path.join(" ");
    let only = COMMAND_LINE_ONLY
        .iter()
        .find(|(command, option, _)| *option == name && (command.is_empty() || *command == of));
    let found = settable(command).find(|arg| arg.get_long() == Some(name));
    match (found, only) {
        (Some(_), Some((.., why))) => Err(format!("'{name}' {why} and is accepted on the command line only")),
        (Some(arg), None) => Ok(arg.get_id().as_str().to_owned()),
        (None, _) => {
            let known: Vec<&str> = settable(command).filter_map(Arg::get_long).collect();
            let hint = elsewhere(command, path, above, name)
                .unwrap_or_else(|| did_you_mean(name, known.iter().copied()));
            Err(format!("'{of}' has no option '{name}'{hint}"))
        }
    }
}

/// The options of a command that have an effect on it.
fn settable(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        !matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort | ArgAction::Version
        )
    })
}

/// The table that has an option with that name: of the command above, whose subcommands share it, or of a subcommand.
fn elsewhere(command: &Command, path: &[String], above: &Command, name: &str) -> Option<String> {
    let has = |command: &Command| settable(command).any(|arg| arg.get_long() == Some(name));
    let (_, parents) = path.split_last()?;
    if !parents.is_empty() && has(above) {
        return Some(format!("; all subcommands share it: write it below [{}]", parents.join(".")));
    }
    let below = command.get_subcommands().filter(|sub| has(sub));
    let tables: Vec<String> = below.map(|sub| format!("[{}.{}]", path.join("."), sub.get_name())).collect();
    (!tables.is_empty()).then(|| format!("; write it below {}", tables.join(" or ")))
}

/// Checks the values of an option as the command line would: clap checks defaults late, and its errors have no line of the file.
fn is_valid(command: &Command, id: &str, name: &str, texts: &[String]) -> Result<(), String> {
    let Some(arg) = command.get_arguments().find(|arg| arg.get_id() == id) else { return Ok(()) };
    let takes_values = arg.get_action().takes_values();
    let is_list = matches!(arg.get_action(), ArgAction::Append) || arg.get_value_delimiter().is_some();
    if texts.len() != 1 && !(takes_values && is_list) {
        return Err(format!("'{name}' takes one value, not a list of {}", texts.len()));
    }
    if !takes_values {
        let is_switch = texts.iter().all(|text| matches!(&**text, "true" | "false"));
        return if is_switch {
            Ok(())
        } else {
            Err(format!("'{name}' is true or false, not '{}'", texts[0]))
        };
    }
    texts.iter().try_for_each(|text| {
        let line = [command.get_name().to_owned(), format!("--{name}={text}")];
        let problem = match command.clone().try_get_matches_from(line) {
            Err(error) if matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) => {
                error
            }
            // Without the other arguments the line is incomplete.
            _ => return Ok(()),
        };
        let of = |kind| problem.get(kind);
        match (of(ContextKind::ValidValue), std::error::Error::source(&problem)) {
            (Some(ContextValue::Strings(known)), _) if !known.is_empty() => {
                let hint = did_you_mean(text, known.iter().map(String::as_str));
                Err(format!("'{name}' has no value '{text}'; possible: {}{hint}", known.join(", ")))
            }
            (_, Some(why)) if why.is::<std::num::ParseIntError>() => {
                Err(format!("'{name}' cannot be '{text}': it must be a whole number"))
            }
            (_, Some(why)) => Err(format!("'{name}' cannot be '{text}': {why}")),
            _ => Err(format!("'{name}' cannot be '{text}'")),
        }
    })
}

/// Whether the value of an option is a path.
fn is_path(command: &Command, id: &str) -> bool {
    let found = command.get_arguments().find(|arg| arg.get_id() == id);
    found.is_some_and(|arg| arg.get_value_parser().type_id() == ValueParser::path_buf().type_id())
}

/// Whether a value has strings only.
fn is_text(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(_) => true,
        DeValue::Array(values) => values.iter().all(|value| is_text(value.get_ref())),
        _ => false,
    }
}

/// The values of an option as the command line has them.
fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    Some(match value {
        DeValue::String(text) => vec![text.to_string()],
        DeValue::Integer(number) => vec![number.as_str().to_owned()],
        DeValue::Float(number) => vec![number.as_str().to_owned()],
        DeValue::Boolean(value) => vec![value.to_string()],
        DeValue::Array(values) => {
            let each = values.iter().map(|value| texts(value.get_ref()).filter(|texts| texts.len() == 1));
            each.collect::<Option<Vec<_>>>()?.concat()
        }
        _ => return None,
    })
}

/// The position of each of the same values. `at` is that of the key.
fn spots(value: &DeValue<'_>, at: usize) -> Vec<usize> {
    match value {
        DeValue::Array(values) => values.iter().map(|value| value.span().start).collect(),
        _ => vec![at],
    }
}

#[cfg(test)]
mod tests {
    use std::iter::once;

    use clap::FromArgMatches;

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
        applied(command(), "dwell.toml", "[compare]\njson = true\ncsv = false\n")
            .expect("one of them is off");
        // With an option of the command line, the other one is ignored.
        let (matches, _) =
            located("[compare]\njson = true\ncsv = true\n", &["dwell", "compare", "x", "--csv"]);
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
    fn all_commands(command: &Command, path: &[String], each: &mut dyn FnMut(&Command, &[String])) {
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
        let line =
            ["dwell", "compare", "par-read", "--drive", "ide-2003", "-s", "noop", "--nr-requests", "7"];
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
}
