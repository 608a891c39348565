//! The commands of docs/run.md, up to the point before the run.

use clap::Parser;

use workloads::scenario::Scenario;

use super::*;
use crate::commands::{Arguments, Command};

const PAGE: &str = include_str!("../../../../../docs/run.md");

/// The page's script.
fn script() -> String {
    let begun = PAGE.lines().skip_while(|line| !line.starts_with("    about"));
    let lines = begun.take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The page's `dwell run` commands, except those of job files, which the page does not contain.
fn commands() -> Vec<RunArguments> {
    let lines = PAGE.lines().filter(|line| line.starts_with("    dwell run ") && !line.contains(".fio"));
    let parsed = lines.map(|line| {
        let words = line.split('#').next().unwrap_or_default().split_whitespace();
        match Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).command {
            Command::Run(arguments) => arguments,
            other => panic!("{line}: {other:?}"),
        }
    });
    parsed.collect()
}

/// Every script of the page fits the drive of its command.
#[test]
fn the_pages_commands_can_be_run() {
    let commands = commands();
    assert!(commands.iter().any(|arguments| arguments.script == "script.toml" && arguments.drive.is_some()));
    for arguments in commands {
        let text = match arguments.script.as_str() {
            "script.toml" => script(),
            name if name.starts_with("scripts/") => {
                let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
                script_text(&path).unwrap_or_else(|error| panic!("{error}"))
            }
            name => script_text(name).unwrap_or_else(|error| panic!("{error}")),
        };
        let name = &arguments.script;
        let scenario = Scenario::parse(name, &text, 1.0).unwrap_or_else(|error| panic!("{error}"));
        let setup = RunSetup::open(scenario, chosen(&arguments)).unwrap_or_else(|error| panic!("{error}"));
        let schedulers = Catalogue::with(&[]).map(|all| schedulers(&arguments, &setup, all));
        assert!(matches!(schedulers, Ok(Ok(_))), "{name}");
    }
}
