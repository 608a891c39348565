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
  dwell man compare >dwell-compare.1
  dwell man trace info | man -l -")]
pub(crate) struct ManArguments {
    /// A command, and its subcommand; default: the program
    command: Vec<String>,
}

/// Prints a completion script.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<(), Error> {
    Ok(std::io::stdout().lock().write_all(&script(arguments.shell))?)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let shown = shown();
    // clap's values live as long as the program.
    let names: Vec<&str> = shown.get_subcommands().map(|sub| &*sub.get_name().to_owned().leak()).collect();
    let mut shown = shown.mut_subcommand("man", |man| man.mut_arg("command", |arg| arg.value_parser(names)));
    clap_complete::generate(shell, &mut shown, "dwell", &mut script);
    if shell == Shell::Fish {
        script.extend(values_in_fish(&shown).into_bytes());
    }
    script
}

/// The program without its hidden commands, which `clap_complete` would offer. A `clap::Command` cannot lose one of its commands.
fn shown() -> clap::Command {
    let all = help::command();
    let visible: Vec<clap::Command> =
        all.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned().collect();
    let arguments = all.get_arguments().cloned();
    clap::Command::new("dwell").version(env!("CARGO_PKG_VERSION")).args(arguments).subcommands(visible)
}

/// Lines for the values of arguments without a name, which `clap_complete` leaves out of fish's script.
fn values_in_fish(command: &clap::Command) -> String {
    let mut lines = String::new();
    for sub in command.get_subcommands() {
        for argument in sub.get_positionals() {
            let values = argument.get_possible_values();
            let names: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
            if !names.is_empty() {
                let (name, names) = (sub.get_name(), names.join(" "));
                lines += &format!(
                    "complete -c dwell -n \"__fish_dwell_using_subcommand {name}\" -f -a \"{names}\"\n"
                );
            }
        }
    }
    lines
}

/// Prints a manual page.
pub(crate) fn man(arguments: &ManArguments) -> Result<(), Error> {
    Ok(std::io::stdout().lock().write_all(page(arguments)?.as_bytes())?)
}

fn page(arguments: &ManArguments) -> Result<String, Error> {
    let mut page = without_help(help::command());
    page.build();
    let mut name = "dwell".to_owned();
    // The page's own name, as in `man dwell-patterns-list`, stands for its words.
    let words = arguments.command.iter().flat_map(|word| match help::command().find_subcommand(word) {
        Some(_) => vec![word.as_str()],
        None => word.trim_start_matches("dwell-").split('-').collect(),
    });
    for word in words {
        let known = page.get_subcommands().filter(|sub| !sub.is_hide_set()).map(clap::Command::get_name);
        let known: Vec<&str> = known.collect();
        let found = page.find_subcommand(word).filter(|_| known.contains(&word));
        let hint = elevator::text::did_you_mean(word, known.iter().copied());
        let above = name.replace('-', " ");
        let found =
            found.ok_or_else(|| Error::Usage(format!("'{word}' is not a command of '{above}'{hint}")))?;
        // The page's name is that of the file: dwell-trace-info(1).
        name = format!("{name}-{word}");
        // Arguments of the command above precede the name, as in `dwell ctl SOCKET show`.
        let above = page.get_bin_name().unwrap_or("dwell");
        let arguments = page.get_positionals().filter(|arg| arg.is_required_set());
        let arguments: String =
            arguments.map(|arg| format!(" {}", arg.get_id().as_str().to_uppercase())).collect();
        let line = format!("{above}{arguments} {word}");
        page = found.clone().display_name(name.clone()).bin_name(line);
    }
    let title = page.get_display_name().unwrap_or("dwell").to_uppercase();
    let source = format!("dwell {}", env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    clap_mangen::Man::new(page).title(title).source(source).manual("User Commands").render(&mut text)?;
    Ok(tidied(&String::from_utf8_lossy(&text)))
}

/// Without the command `help`, which has no page.
fn without_help(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// The page without spaces at the ends of lines and without line breaks beside vertical space, of which mandoc warns, and with an empty date, in
/// whose place the source would stand.
fn tidied(page: &str) -> String {
    let page = page.replacen(" 1  \"", " 1 \"\" \"", 1);
    let lines: Vec<&str> = page.lines().map(str::trim_end).collect();
    let is_space = |line: Option<&&str>| line.is_some_and(|line| line.is_empty() || line.starts_with(".sp"));
    let kept = lines.iter().enumerate().filter(|&(at, line)| {
        let before = at.checked_sub(1).and_then(|at| lines.get(at));
        *line != ".br" || !(is_space(before) || is_space(lines.get(at + 1)))
    });
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fish_has_the_values_of_arguments_without_a_name() {
        let expected =
            "\"__fish_dwell_using_subcommand completions\" -f -a \"bash elvish fish powershell zsh\"";
        let script = String::from_utf8(script(Shell::Fish)).unwrap();
        assert!(script.contains(expected), "{script}");
    }

    #[test]
    fn hidden_commands_are_not_completed() {
        let all = help::command();
        let hidden = all.get_subcommands().filter(|sub| sub.is_hide_set());
        let hidden: Vec<&str> = hidden.map(clap::Command::get_name).collect();
        assert!(!hidden.is_empty());
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            assert!(hidden.iter().all(|name| !script.contains(name)), "{shell}");
            // fish writes an option without its dashes.
            assert!(script.contains("compare") && script.contains("version"), "{shell}");
        }
    }

    #[test]
    fn line_breaks_beside_space_are_left_out() {
        let page = ".TH X 1  \"x\" \nfirst\n.br\n\n.br\nsecond\n.br\nthird\n.br\n.sp 1\nlast\n";
        assert_eq!(tidied(page), ".TH X 1 \"\" \"x\"\nfirst\n\nsecond\n.br\nthird\n.sp 1\nlast\n");
    }
}
