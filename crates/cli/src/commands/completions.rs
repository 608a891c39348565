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
    let pages = pages(&shown);
    let shown = shown.mut_subcommand("man", |man| {
        let about = man.get_about().cloned().unwrap_or_default();
        clap::Command::new("man").about(about).disable_help_subcommand(true).subcommands(pages)
    });
    let mut shown = with_known_names(shown, "");
    clap_complete::generate(shell, &mut shown, "dwell", &mut script);
    if shell == Shell::Fish {
        script.extend(values_in_fish(&shown, "").into_bytes());
    }
    let text = String::from_utf8_lossy(&script).into_owned();
    let text = if shell == Shell::Fish { with_own_name(&text) } else { text };
    with_files(shell, text).into_bytes()
}

/// The commands that have a manual page, without their arguments.
fn pages(of: &clap::Command) -> Vec<clap::Command> {
    let shown = of.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    let page = |sub: &clap::Command| {
        // clap's names live as long as the program.
        let name: &str = sub.get_name().to_owned().leak();
        let page = clap::Command::new(name).about(sub.get_about().cloned().unwrap_or_default());
        page.disable_help_flag(true).disable_help_subcommand(true).subcommands(pages(sub))
    };
    shown.map(page).collect()
}

/// fish's script with commands below one of the same name, `help` of `dwell help` and `man` of `dwell man`: `clap_complete` offers the commands below one
/// only while none of them is on the line, and that name always is.
fn with_own_name(script: &str) -> String {
    let corrected = |line: &str| {
        let (before, rest) = line.split_once("__fish_dwell_using_subcommand ")?;
        let (name, rest) = rest.split_once("; and not __fish_seen_subcommand_from ")?;
        let (names, rest) = rest.split_once('"')?;
        let others: Vec<&str> = names.split(' ').filter(|other| *other != name).collect();
        let others = others.join(" ");
        Some(format!(
            "{before}__fish_dwell_using_subcommand {name}; and not __fish_seen_subcommand_from {others}\"{rest}"
        ))
    };
    script.lines().map(|line| corrected(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// The names that an argument of a command accepts beside files and settings in braces; none if they are unknown.
fn known_names(command: &str, argument: &str) -> Vec<String> {
    let drives = || disks::catalogue::built_in().map(|drive| drive.name().to_owned()).collect();
    match (command, argument) {
        ("replay", "schedulers") | ("tune" | "advise", "arms") => {
            ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).to_vec()
        }
        (_, "schedulers") | ("serve", "scheduler") | ("schedulers", "name") | ("switch", "scheduler") => {
            let mut names: Vec<String> = schedulers::registry::all().map(|of| of.name.to_owned()).collect();
            names.extend(schedulers::registry::all().map(schedulers::Listing::full_name));
            names.sort();
            names.dedup();
            names
        }
        ("compare" | "run" | "serve" | "duel" | "replay" | "show" | "validate", "drive") | (_, "drives") => {
            drives()
        }
        ("compare" | "replay", "workload") => {
            workloads::builtin::Builtin::ALL.iter().map(|builtin| builtin.name.to_owned()).collect()
        }
        ("run", "script") => evaluation::input::script_names().map(str::to_owned).collect(),
        ("run", "machine") => machine::kernel::Description::names().map(str::to_owned).collect(),
        ("recipe", "name") => super::trace::recipe::NAMES.map(str::to_owned).to_vec(),
        _ => Vec::new(),
    }
}

/// The command with the known names as values that the scripts offer. The program itself accepts other values, too.
fn with_known_names(command: clap::Command, name: &str) -> clap::Command {
    let arguments: Vec<String> = command.get_arguments().map(|arg| arg.get_id().to_string()).collect();
    let mut command = command;
    for id in arguments {
        // clap's values live as long as the program.
        let names: Vec<&str> = known_names(name, &id).into_iter().map(|name| &*name.leak()).collect();
        if !names.is_empty() {
            command = command.mut_arg(id, |arg| arg.default_values([""; 0]).value_parser(names));
        }
    }
    command.mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        with_known_names(sub, &name)
    })
}

/// The script with files beside the known names: zsh and fish otherwise offer the names alone. bash offers files where no name fits.
fn with_files(shell: Shell, mut text: String) -> String {
    let mut lists: Vec<Vec<String>> = Vec::new();
    for (command, argument) in [
        ("compare", "drive"),
        ("compare", "workload"),
        ("compare", "schedulers"),
        ("run", "script"),
        ("run", "machine"),
    ] {
        lists.push(known_names(command, argument));
    }
    for names in lists {
        match shell {
            Shell::Zsh => {
                let plain = format!(":({})'", names.join(" "));
                let both = format!(
                    r#":{{_alternative "names\:name\:({})" "files\:file\:_files"}}'"#,
                    names.join(" ")
                );
                text = text.replace(&plain, &both);
            }
            Shell::Fish => {
                let list = names.iter().map(|name| format!("{name}\\t''")).collect::<Vec<_>>().join("\n");
                text = text.replace(&format!(" -r -f -a \"{list}"), &format!(" -r -F -a \"{list}"));
            }
            _ => {}
        }
    }
    text
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
fn values_in_fish(command: &clap::Command, above: &str) -> String {
    let mut lines = String::new();
    for sub in command.get_subcommands() {
        lines += &values_in_fish(sub, sub.get_name());
        for argument in sub.get_positionals() {
            let values = argument.get_possible_values();
            let names: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
            if !names.is_empty() {
                let (name, known) = (sub.get_name(), names.join(" "));
                let condition = match above {
                    "" => format!("__fish_dwell_using_subcommand {name}"),
                    above => format!(
                        "__fish_dwell_using_subcommand {above}; and __fish_seen_subcommand_from {name}"
                    ),
                };
                let files =
                    if ["workload", "script"].contains(&argument.get_id().as_str()) { "-F" } else { "-f" };
                lines += &format!("complete -c dwell -n \"{condition}\" {files} -a \"{known}\"\n");
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

    /// Regression: fish offered files after `dwell help`, and all shells the commands of the program after `dwell man trace`.
    #[test]
    fn commands_are_offered_after_help_and_man() {
        let of = |shell| String::from_utf8(script(shell)).unwrap();
        let fish = of(Shell::Fish);
        for name in ["help", "man"] {
            let start = format!("complete -c dwell -n \"__fish_dwell_using_subcommand {name}; and not ");
            let line = fish.lines().find(|line| line.starts_with(&start) && line.contains("-a \"compare\""));
            let seen =
                line.and_then(|line| line.split("__fish_seen_subcommand_from ").nth(1)).unwrap_or_default();
            let seen: Vec<&str> = seen.split('"').next().unwrap_or_default().split(' ').collect();
            assert!(seen.contains(&"trace") && !seen.contains(&name), "{line:?}");
            let below =
                format!("using_subcommand {name}; and __fish_seen_subcommand_from trace\" -f -a \"info\"");
            assert!(fish.contains(&below), "{below}");
        }
        let bash = of(Shell::Bash);
        let words = bash.split("\n        dwell__subcmd__man__subcmd__trace)\n").nth(1);
        let words = words.and_then(|of| of.split("opts=\"").nth(1)).and_then(|opts| opts.split('"').next());
        assert_eq!(words.map(str::trim), Some("info patterns recipe split convert"));
        assert!(of(Shell::Zsh).contains("_dwell__subcmd__man__subcmd__trace_commands"));
    }

    #[test]
    fn schedulers_drives_workloads_and_recipes_are_offered_beside_files() {
        let of = |shell| String::from_utf8(script(shell)).unwrap();
        let all = help::command();
        for (command, argument, name) in [
            ("compare", "schedulers", "mq-deadline"),
            ("compare", "drive", "ssd-sata"),
            ("compare", "workload", "par-read"),
            ("recipe", "name", "blktrace"),
            ("run", "machine", "linux-6"),
            ("run", "script", "cooperative/chunk-read-2"),
        ] {
            assert!(known_names(command, argument).contains(&name.to_owned()), "{argument}: {name}");
            let parent = if command == "recipe" { all.find_subcommand("trace").unwrap() } else { &all };
            let sub = parent.find_subcommand(command).unwrap();
            assert!(sub.get_arguments().any(|arg| arg.get_id() == argument), "{command} {argument}");
        }
        let drives = known_names("compare", "drive").join(" ");
        let bash = of(Shell::Bash);
        let option = bash.split("--drive)").nth(1).unwrap_or_default();
        assert!(option.trim_start().starts_with(&format!("COMPREPLY=($(compgen -W \"{drives}\"")));
        // The experiments are among the words that follow the command.
        let run = bash.split("\n        dwell__subcmd__run)\n").nth(1);
        let words = run.and_then(|run| run.split("opts=\"").nth(1)).and_then(|opts| opts.split('"').next());
        assert!(words.is_some_and(|words| words.contains(" cooperative/chunk-read-2 ")), "{words:?}");
        assert!(bash.contains("--machine)\n") && bash.contains(r#"compgen -W "pc-2003 pc-2004 "#));
        let zsh = of(Shell::Zsh);
        let both = format!(r#":DRIVE:{{_alternative "names\:name\:({drives})" "files\:file\:_files"}}'"#);
        assert!(zsh.contains(&both) && zsh.contains("(ftrace blktrace bpftrace)'"), "{zsh}");
        let fish = of(Shell::Fish);
        let is_drive = |line: &&str| line.contains("subcommand compare\" -l drive ");
        let line = fish.lines().find(is_drive).unwrap_or_default();
        assert!(line.contains("-r -F -a \"wd5000aaks"), "{line}");
        assert!(
            fish.contains(
                "trace; and __fish_seen_subcommand_from recipe\" -f -a \"ftrace blktrace bpftrace\""
            )
        );
    }

    #[test]
    fn the_synopsis_has_the_arguments_of_the_commands_above() {
        let synopsis = |words: &[&str]| {
            let command = words.iter().map(|word| (*word).to_owned()).collect();
            let page = page(&ManArguments { command }).unwrap();
            page.split(".SH SYNOPSIS\n").nth(1).and_then(|rest| rest.lines().next()).unwrap().to_owned()
        };
        for words in [&["ctl-show"][..], &["dwell-ctl-show"], &["ctl", "show"]] {
            assert!(synopsis(words).starts_with("\\fBdwell ctl SOCKET show\\fR "), "{}", synopsis(words));
        }
        let nested = synopsis(&["ctl", "member", "fail"]);
        assert!(nested.starts_with("\\fBdwell ctl SOCKET member fail\\fR "), "{nested}");
        assert!(nested.ends_with("<\\fImember\\fR>") || nested.contains("MEMBER"), "{nested}");
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
