//! `dwell completions` and `dwell man`, for packages and shells.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use super::help;
use crate::error::Error;

/// Options of `dwell completions`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell completions bash >/etc/bash_completion.d/dwell
  dwell completions zsh >/usr/local/share/zsh/site-functions/_dwell
  dwell completions fish >~/.config/fish/completions/dwell.fish")]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Options of `dwell man`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell man | man -l -
  dwell man compare >dwell-compare.1")]
pub(crate) struct ManArguments {
    /// A command; default: the program
    command: Option<String>,
}

/// Prints a completion script.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut help::command(), "dwell", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}

/// Prints a manual page.
pub(crate) fn man(arguments: &ManArguments) -> Result<(), Error> {
    let mut command = help::command();
    command.build();
    let page = match &arguments.command {
        None => command,
        Some(name) => {
            let known =
                command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(clap::Command::get_name);
            let known: Vec<&str> = known.collect();
            let found = command.find_subcommand(name).filter(|_| known.contains(&name.as_str()));
            let hint = elevator::text::did_you_mean(name, known.iter().copied());
            let found = found.ok_or_else(|| Error::Usage(format!("'{name}' is not a command{hint}")))?;
            // The page's name is that of the file: dwell-compare(1).
            found.clone().display_name(format!("dwell-{name}"))
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    Ok(std::io::stdout().lock().write_all(&text)?)
}
