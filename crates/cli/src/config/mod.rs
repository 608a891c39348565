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
use clap::{Arg, ArgAction, ArgMatches, Command};
use elevator::text::did_you_mean;
use server::control::problem;
use server::supervisor::{input, read_at_most};
use toml::de::{DeTable, DeValue};

use crate::error::Error;

mod merge;
mod origins;

use origins::Origin;
pub(crate) use origins::Origins;

/// For all users.
const SYSTEM: &str = "/etc/dwell.toml";

/// Options that destroy data, or replace what the command does: each use must be on the command line. A command's name, or nothing for each command;
/// an option; the reason.
const COMMAND_LINE_ONLY: [(&str, &str, &str); 8] = [
    ("", "allow-writes", DESTROYS),
    ("", "overwrite", DESTROYS),
    ("patterns forget", "all", DESTROYS),
    ("patterns forget", "kind", DESTROYS),
    ("serve", "even-if-used", "may damage data in use"),
    ("tune", "restore", SELECTS),
    ("tune", "switch-to", SELECTS),
    ("tune", "status", SELECTS),
];
const DESTROYS: &str = "destroys data";
const SELECTS: &str = "replaces what the command does";

/// A file is a few lines.
const BYTES_MAX: u64 = 1 << 20;

/// Applies the configuration files to a command line. Values that conflict with an option in `line`, the process's arguments, are ignored. Returns
/// the command with the values as defaults, and the line with [those that take part in checks](merge).
///
/// # Errors
/// The file that `DWELL_CONFIG` names cannot be read. A file is not valid, names a command or an option that does not exist, or sets two options that
/// exclude each other.
pub(crate) fn apply(
    mut command: Command,
    line: &[OsString],
) -> Result<(Command, Vec<OsString>, Origins), Error> {
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
                    let (path, why) = (path.display(), problem::reading(&error));
                    say!(
                        "{path}: {why}; continuing without it (DWELL_CONFIG=FILE names another file, DWELL_CONFIG= none)"
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
                let why = problem::reading(&error);
                let what = format!("{why}; DWELL_CONFIG= names no file of options");
                Error::file(format!("{}{by}", path.display()), &io::Error::new(error.kind(), what))
            }
        })?;
        let base = Base { original: &original, given: given.as_ref() };
        command = apply_text(command, &path.display().to_string(), &text, base, &mut origins)?;
    }
    let merged = merge::merged(&original, &command, line, &mut origins);
    Ok((command, merged, origins))
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

/// Whether an option conflicts with one of the command line or the environment.
fn is_overruled(command: &Command, id: &str, given: Option<&ArgMatches>) -> bool {
    let Some(given) = given else { return false };
    let ids = command.get_arguments().map(|arg| arg.get_id().as_str());
    let mut on_line = ids.filter(|id| merge::is_given(given, id));
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
    let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let Some(sub) = command.find_subcommand(name) else {
        let hint = did_you_mean(name, known.iter().copied());
        return Err((reading.wrong)(at, &format!("there is no command '{name}'{hint}")));
    };
    let base = base.below(name);
    reading.path.push(name.to_owned());
    let mut values: BTreeMap<String, Value> = BTreeMap::new();
    let mut nested = Vec::new();
    for (key, value) in options {
        let (key, at) = (key.get_ref().as_ref(), key.span().start);
        match value.get_ref() {
            DeValue::Table(table) => nested.push((key, table, at)),
            value => {
                let value = option_value((sub, &command), (key, value, at), base.given, &values, reading);
                values.extend(value.map_err(|(at, problem)| (reading.wrong)(at, &problem))?);
            }
        }
    }
    // The value of a later file replaces also those of earlier files that exclude it.
    let is_replaced = |of: &&Origin| {
        let mut on = values.iter().filter(|(id, value)| value.is_on(sub, id));
        of.command == reading.path && on.any(|(id, _)| exclude(sub, id, &of.id))
    };
    let replaced: Vec<_> = reading.origins.0.iter().filter(is_replaced).map(|of| of.id.clone()).collect();
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
            with_options(sub, key, (table, at), base, reading).unwrap_or_else(|error| {
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

/// The id of a key's option and its value, checked alone and beside the values so far. `None` if the command line overrules it. `above` is the command
/// that contains `sub`. An error has its position in the file.
fn option_value(
    (sub, above): (&Command, &Command),
    (key, value, at): (&str, &DeValue<'_>, usize),
    given: Option<&ArgMatches>,
    values: &BTreeMap<String, Value>,
    reading: &mut Reading<'_>,
) -> Result<Option<(String, Value)>, (usize, String)> {
    let wrong = |problem: String| (at, problem);
    let texts = texts(value).ok_or_else(|| {
        wrong(format!("'{key}': expected a string, a number, true, false, or a list of strings"))
    })?;
    let id = option(sub, &reading.path, above, key).map_err(wrong)?;
    let Some(first) = texts.first() else {
        return Err(wrong(format!("'{key}' is an empty list; remove the line for the default")));
    };
    if is_path(sub, &id) && !is_text(value) {
        return Err(wrong(format!("'{key}' is a path: write it in quotes, \"{first}\"")));
    }
    let spots = spots(value, at);
    check_values(sub, &id, key, &texts).map_err(|problem| {
        let is_wrong = |text: &String| check_values(sub, &id, key, std::slice::from_ref(text)).is_err();
        let element = texts.iter().position(is_wrong).and_then(|index| spots.get(index));
        (*element.unwrap_or(&at), problem)
    })?;
    if is_overruled(sub, &id, given) {
        return Ok(None);
    }
    let place = (reading.place)(at);
    reading.origins.0.extend(texts.iter().zip(&spots).map(|(text, &at)| Origin {
        command: reading.path.clone(),
        id: id.clone(),
        name: key.to_owned(),
        text: text.clone(),
        place: (reading.place)(at),
        is_merged: false,
    }));
    let value = Value { texts, name: key.to_owned(), place };
    let excluded = values.iter().find(|(other_id, other)| {
        value.is_on(sub, &id) && other.is_on(sub, other_id) && exclude(sub, &id, other_id)
    });
    match excluded {
        Some((_, Value { name, place, .. })) => {
            Err(wrong(format!("'--{key}' cannot be used with '--{name}' ({place})")))
        }
        None => Ok(Some((id, value))),
    }
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
fn check_values(command: &Command, id: &str, name: &str, texts: &[String]) -> Result<(), String> {
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
mod tests;
