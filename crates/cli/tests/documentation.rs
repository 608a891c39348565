//! Commands of the documentation, run. Each must be on one of the pages, so that a page cannot drift away from what is tested.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Commands that finish within seconds and need neither root nor a device: the page, and the command as written there.
const COMMANDS: [(&str, &[&str]); 10] = [
    ("README.md", &["compare", "par-read", "--at-most", "20s", "--identity", "hidden"]),
    ("README.md", &["compare", "par-read", "--at-most", "5s", "--array", "raid0:5x64k"]),
    ("README.md", &["schedulers", "stream"]),
    ("README.md", &["drives"]),
    ("README.md", &["completions", "bash"]),
    ("README.md", &["man"]),
    (
        "docs/reproduction/README.md",
        &["reproduce", "cooperative", "--only", "chunk-read-2", "--scale", "0.02", "--results", ""],
    ),
    ("docs/reproduction/README.md", &["run", "--show", "cooperative/chunk-read-2"]),
    (
        "docs/reproduction/split-level.md",
        &["reproduce", "split", "--only", "sqlite-300", "--scale", "0.05", "--results", ""],
    ),
    (
        "docs/reproduction/cooperative.md",
        &["reproduce", "cooperative", "--only", "chunk-read-2", "--scale", "0.05", "--results", ""],
    ),
];

/// The command as a page writes it.
fn written(arguments: &[&str]) -> String {
    let quoted = |argument: &&str| match argument.is_empty() {
        true => "''".to_owned(),
        false => (*argument).to_owned(),
    };
    format!("dwell {}", arguments.iter().map(quoted).collect::<Vec<_>>().join(" "))
}

#[test]
fn commands_of_the_documentation_succeed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (page, arguments) in COMMANDS {
        let text = fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        let command = written(arguments);
        assert!(text.contains(&command), "{page} does not contain: {command}");
        let output = Command::new(env!("CARGO_BIN_EXE_dwell")).args(arguments).current_dir(&root).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{command} prints nothing");
    }
}
