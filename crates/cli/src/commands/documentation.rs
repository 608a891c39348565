//! Every `dwell` command in the documentation must be a valid command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::help::command;

/// The Markdown files of the repository's root and of `docs`.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = Vec::new();
    let mut folders = vec![root.join("docs"), root.join("recordings")];
    let files = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    pages.extend(files(&root).into_iter().filter(|path| path.is_file()));
    while let Some(folder) = folders.pop() {
        for path in files(&folder) {
            if path.is_dir() { folders.push(path) } else { pages.push(path) }
        }
    }
    // The links of the book's summary are relative to the book (docs/site/build); mdbook checks them.
    pages.retain(|path| {
        path.extension().is_some_and(|extension| extension == "md") && !path.ends_with("SUMMARY.md")
    });
    pages.sort();
    pages
}

/// Results of the scheduler `dwell` also start with its name: columns are two or more spaces apart.
fn is_table_row(code: &str) -> bool {
    code.split('#').next().is_some_and(|code| code.trim_end().contains("  "))
}

/// The commands of a page: lines of code blocks that start with `dwell`, with their continuation lines.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let (mut fenced, mut lines) = (false, page.lines());
    while let Some(line) = lines.next() {
        fenced ^= line.starts_with("```");
        let code = if fenced { Some(line) } else { line.strip_prefix("    ") };
        let Some(code) =
            code.map(|code| code.trim_start().trim_start_matches("$ ").trim_start_matches("sudo "))
        else {
            continue;
        };
        if !code.starts_with("dwell ") || is_table_row(code) {
            continue;
        }
        let mut code = code.to_owned();
        while let Some(joined) = code.strip_suffix('\\') {
            code = format!("{joined} {}", lines.next().unwrap_or_default().trim());
        }
        commands.push(code);
    }
    commands
}

/// The words of a command as a shell splits them, up to a comment, pipe, redirection or further command.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | '>' | '<' | ';' | '&') => break,
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn commands_in_the_documentation_are_valid() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in pages() {
        for text in commands(&fs::read_to_string(&page).unwrap()) {
            checked += 1;
            match command().try_get_matches_from(words(&text)) {
                Err(error) if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
                    let first = error.to_string().lines().next().unwrap_or_default().to_owned();
                    wrong.push(format!("{}: {text}\n    {first}", page.display()));
                }
                _ => {}
            }
        }
    }
    assert!(checked > 30, "only {checked} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_has_valid_examples() {
    fn check(of: &clap::Command, path: &str, problems: &mut Vec<String>) {
        let help = of.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples: Vec<&str> =
            help.lines().map(str::trim_start).filter(|line| line.starts_with("dwell ")).collect();
        let has_own_page = of.get_subcommands().next().is_none() || !path.is_empty();
        if examples.is_empty() && has_own_page {
            problems.push(format!("{path}: no example"));
        }
        for text in examples {
            // A description follows some, behind two spaces or more.
            let line = text.split("  ").next().unwrap_or_default();
            if let Err(error) = command().try_get_matches_from(words(line)) {
                problems.push(format!("{text}: {error}"));
            }
        }
        for sub in of.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            check(sub, format!("{path} {}", sub.get_name()).trim_start(), problems);
        }
    }
    let mut problems = Vec::new();
    check(&command(), "", &mut problems);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn links_between_pages_lead_to_a_file() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            let outside = path.is_empty() || link.contains("://") || link.contains(char::is_whitespace);
            if !outside && !page.parent().unwrap().join(path).exists() {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_is_split_as_by_a_shell() {
    let text = "dwell compare 'par-read{think=200us}' -s \"a b\" --json # comment";
    assert_eq!(words(text), ["dwell", "compare", "par-read{think=200us}", "-s", "a b", "--json"]);
    assert_eq!(words("dwell man | man -l -"), ["dwell", "man"]);
    assert_eq!(commands("text\n\n    dwell a \\\n        b\n\n    other\n"), ["dwell a  b"]);
}
