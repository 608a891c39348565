//! The help of the program: commands grouped by purpose. `dwell` without arguments prints a short form with two examples.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use super::Arguments;
use crate::config::{self, Origins};
use crate::error::Error;

/// Commands by purpose. Commands that are in no group come last in `--help`.
const GROUPS: [(&str, &[&str]); 3] = [
    (
        "Operate a device",
        &[
            "advise", "tune", "patterns", "serve", "exec", "ctl", "top", "doctor", "causes", "record",
            "replay", "profile",
        ],
    ),
    ("Study a workload", &["compare", "regret", "study", "run", "trace", "schedulers", "drives"]),
    ("Reproduce and compare", &["reproduce", "duel"]),
];

const EXAMPLES: &str = "Examples:
  dwell compare par-read --at-most 20s     compare schedulers on a modelled disk
  dwell advise /dev/sda                    watch a device and recommend a scheduler";

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 failed, 2 usage, 4 kernel feature missing, 5 permission, 6 bad input, \
    7 device changed or used by another program, 130 interrupted";

/// Parses the process's arguments, with the values from configuration files. Prints help or an error and exits if there is nothing to run.
///
/// # Errors
/// A configuration file is wrong, and the command uses it.
pub(crate) fn parse() -> Result<(Arguments, Origins), Error> {
    if std::env::args_os().len() <= 1 {
        say!("{}", short());
        std::process::exit(2);
    }
    let line: Vec<OsString> = std::env::args_os().collect();
    let (command, line, origins) = match config::apply(command(), &line) {
        Err(_) if is_about_the_program(&line) => (command(), line, Origins::default()),
        applied => applied?,
    };
    let matches = match command.try_get_matches_from(&line) {
        Ok(matches) => matches,
        Err(error) => return Err(negative(&error, &line).unwrap_or_else(|| error.exit())),
    };
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    Ok((arguments, origins.used(&matches)))
}

/// Whether a line is for help, the version, a completion script or a manual page, which must work also with a wrong configuration file.
fn is_about_the_program(line: &[OsString]) -> bool {
    match command().try_get_matches_from(line) {
        Ok(matches) => matches!(matches.subcommand_name(), Some("completions" | "man")),
        Err(error) => matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion),
    }
}

/// The error for a negative value of an option, which clap takes for an option.
fn negative(error: &clap::Error, line: &[OsString]) -> Option<Error> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    let digit = unknown.strip_prefix('-')?.chars().next()?;
    if error.kind() != ErrorKind::UnknownArgument || !digit.is_ascii_digit() {
        return None;
    }
    let place = line.iter().position(|word| word.to_string_lossy().starts_with(unknown))?;
    let (option, value) = (line.get(place.checked_sub(1)?)?.to_str()?, line[place].to_string_lossy());
    let problem = format!("{option}: '{value}' is negative; write a value without '-'");
    (option.starts_with('-') && !option.contains('=')).then_some(Error::Usage(problem))
}

/// The command line with its grouped help.
pub(crate) fn command() -> clap::Command {
    let command = Arguments::command();
    let groups = groups(&command);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}\n\n{EXAMPLES}\n\n{EXIT_CODES}\n"
    );
    command.help_template(template)
}

/// Each group's commands with their one-line descriptions.
fn groups(command: &clap::Command) -> String {
    let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let others = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(clap::Command::get_name);
    let others: Vec<&str> = others.filter(|name| !grouped.contains(name)).collect();
    let mut text = String::new();
    for (title, names) in GROUPS.iter().copied().chain([("Other", others.as_slice())]) {
        let _ = writeln!(text, "{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let _ = writeln!(text, "  {name:<12} {}", about.map(ToString::to_string).unwrap_or_default());
        }
        text.push('\n');
    }
    let _ = writeln!(text, "  'dwell help COMMAND' or 'dwell COMMAND --help' describes a command.");
    text
}

/// The help of `dwell` without arguments.
fn short() -> String {
    let mut text = format!("dwell {}: I/O schedulers for Linux block devices\n\n", env!("CARGO_PKG_VERSION"));
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{:<24}{}", format!("{title}:"), names.join(", "));
    }
    let _ = write!(
        text,
        "\n{EXAMPLES}\n\n'dwell --help' lists the commands; 'dwell COMMAND --help' describes one."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: clap's tip was to write `-- -1s`, which is another argument.
    #[test]
    fn a_negative_value_is_named_with_its_option() {
        let of = |line: &[&str]| {
            let line: Vec<OsString> = line.iter().map(OsString::from).collect();
            let error = command().try_get_matches_from(&line).expect_err("clap takes it for an option");
            negative(&error, &line).map(|error| error.to_string())
        };
        assert_eq!(
            of(&["dwell", "compare", "par-read", "--at-most", "-1s"]).unwrap(),
            "--at-most: '-1s' is negative; write a value without '-'"
        );
        assert_eq!(of(&["dwell", "compare", "par-read", "--nosuch"]), None);
        assert_eq!(of(&["dwell", "compare", "-1s"]), None, "there is no option before it");
    }

    #[test]
    fn every_command_is_in_the_help_once() {
        let command = command();
        let help = groups(&command);
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let lines = help.lines().filter(|line| line.split_whitespace().next() == Some(sub.get_name()));
            assert_eq!(lines.count(), 1, "{}", sub.get_name());
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
