//! Runs commands of the documentation. Each must be on its page, so that page and test stay equal.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Commands that finish within seconds and need neither root nor a device: the page, and the command as written there.
const COMMANDS: [(&str, &[&str]); 10] = [
    ("README.md", &["compare", "par-read", "--at-most", "20s", "--identity", "shown", "-s", "noop"]),
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

/// Blocks of `$ dwell ...` followed by the output, which virtual time repeats to the digit.
#[test]
fn the_output_on_a_page_equals_the_output_of_the_command() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/compare.md");
    let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let mut fresh = String::new();
    let mut lines = text.lines().peekable();
    let mut commands = 0;
    while let Some(line) = lines.next() {
        fresh += &format!("{line}\n");
        let Some(command) = line.strip_prefix("    $ dwell ") else { continue };
        commands += 1;
        // The old output: up to the next line that is not part of the block.
        let mut blank = 0;
        while let Some(next) = lines.next_if(|next| next.is_empty() || next.starts_with("    ")) {
            blank = if next.is_empty() { blank + 1 } else { 0 };
        }
        let output = Command::new(env!("CARGO_BIN_EXE_dwell"))
            .args(command.split_whitespace())
            .env_remove("DWELL_DRIVE")
            .current_dir(&root)
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let indented = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
        fresh += &String::from_utf8_lossy(&output.stdout).lines().map(indented).collect::<String>();
        fresh += &"\n".repeat(blank.max(1));
    }
    assert!(commands > 2, "the page has {commands} commands");
    if std::env::var_os("DWELL_BLESS").is_some() {
        fs::write(&page, &fresh).expect("the page is written");
    }
    let differs = text.lines().zip(fresh.lines()).find(|(old, new)| old != new);
    assert!(
        std::env::var_os("DWELL_BLESS").is_some() || text == fresh,
        "{}: {differs:?}; write the page anew with DWELL_BLESS=1 cargo test -p dwell-cli --test documentation",
        page.display()
    );
}

/// Regression: the table of a degraded array was that of an earlier version. The page has the table without the notes below it.
#[test]
fn the_table_of_a_page_is_part_of_the_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/needs.md")).expect("the page");
    let lines = text.lines().skip_while(|line| !line.starts_with("    dwell compare 'ahead-read{"));
    let block: Vec<&str> =
        lines.take_while(|line| line.is_empty() || line.starts_with("    ")).map(str::trim_end).collect();
    let command = block[0].trim().replacen("dwell", env!("CARGO_BIN_EXE_dwell"), 1);
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]).env("COLUMNS", "80").env_remove("DWELL_DRIVE").current_dir(&root);
    let output = shell.output().expect("a shell");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<&str> = block[1..].iter().filter(|line| !line.is_empty()).map(|line| &line[4..]).collect();
    assert!(rows.len() > 8, "{rows:?}");
    for row in rows {
        assert!(output.lines().any(|line| line.trim_end() == row), "not in the output: {row}\n{output}");
    }
}
