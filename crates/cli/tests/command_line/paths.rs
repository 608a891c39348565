//! Paths that cannot be used: each gives one line that says what is wrong, where, and what to do.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use super::*;

/// Stands for the path in a command line.
const PATH: &str = "@";

/// Commands that read the path as a file.
const READERS: [&[&str]; 14] = [
    &["compare", PATH, "-q"],
    &["compare", SMALL, "-q", "-s", "noop", "--drive", PATH],
    &["compare", SMALL, "-q", "-s", "noop", "--profile", PATH],
    &["run", PATH, "-q"],
    &["run", "split/sqlite-300", "-q", "-s", "noop", "--drive", PATH],
    &["run", "split/sqlite-300", "-q", "-s", "noop", "--machine", PATH],
    &["trace", "info", PATH],
    &["trace", "patterns", PATH],
    &["trace", "convert", PATH, "/dev/null", "--to-format", "dwell"],
    &["patterns", "merge", "/dev/null", PATH],
    &["patterns", "list", "--database", PATH],
    &["patterns", "forget", "--all", "--database", PATH],
    &["ctl", PATH, "show"],
    &["top", PATH, "--once", "--every", "100ms"],
];

/// Commands that take the path for a device, a directory or a file on one.
const DEVICES: [&[&str]; 8] = [
    &["advise", PATH, "--windows", "1", "--window", "100ms"],
    &["tune", PATH, "--for", "100ms"],
    &["tune", PATH, "--status"],
    &["profile", PATH, "-o", "/dev/null", "--each", "1ms"],
    &["doctor", PATH],
    &["causes", PATH, "--for", "100ms"],
    &["record", PATH, "-o", "/dev/null", "--for", "100ms"],
    &["replay", SMALL, PATH, "--at-most", "100ms"],
];

/// Commands that write the path.
const WRITERS: [&[&str]; 7] = [
    &["compare", SMALL, "-q", "-s", "noop", "--report", PATH],
    &["compare", SMALL, "-q", "-s", "noop", "--explain", PATH],
    &["run", "split/sqlite-300", "--scale", "0.01", "-q", "-s", "noop", "--report", PATH],
    &["run", "split/sqlite-300", "--scale", "0.01", "-q", "-s", "noop", "--explain", PATH],
    &["trace", "convert", "RECORDING", PATH, "--to-format", "dwell"],
    &["doctor", "--bundle", PATH],
    &["patterns", "merge", PATH, "SHARED"],
];

/// Paths that no command can use.
struct Bad {
    directory: Directory,
    socket: PathBuf,
    _listener: UnixListener,
}

impl Drop for Bad {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

/// An export of patterns.
fn shared() -> String {
    let shape = format!("[1.0{}]", ", 0.0".repeat(47));
    let row = serde_json::json!({
        "host": "h", "device": "d", "metric": "bandwidth", "kind_windows": 3, "shape": shape,
        "scheduler": "none", "rating": 0.0, "pairs": 2, "windows": 3,
    });
    format!("{row}\n")
}

impl Bad {
    fn new(test: &str) -> Self {
        let directory = Directory::new(test);
        // The path of a socket has at most 108 bytes.
        let socket = std::env::temp_dir().join(format!("dwell-{test}-{}", std::process::id()));
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).expect("a socket");
        directory.file("empty", "");
        directory.file("shared", &shared());
        fs::write(directory.path("junk"), (0..8192_u32).map(|n| (n * 7919 + 13) as u8).collect::<Vec<_>>())
            .expect("written");
        fs::create_dir_all(directory.path("folder")).expect("made");
        fs::write(directory.path("secret"), "x").expect("written");
        fs::set_permissions(directory.path("secret"), PermissionsExt::from_mode(0o000)).expect("set");
        std::os::unix::fs::symlink("circle", directory.path("circle")).expect("made");
        Self { directory, socket, _listener: listener }
    }

    fn of_all_kinds(&self) -> Vec<String> {
        let own = ["folder", "empty/below", "circle", "none/such"].map(|name| self.directory.path(name));
        let others = ["/proc/x".to_owned(), "/sys/block".to_owned(), format!("/tmp/{}", "a".repeat(300))];
        own.into_iter().chain(others).chain([self.socket.to_str().expect("UTF-8").to_owned()]).collect()
    }

    /// Content that no command understands.
    fn read_only(&self) -> [String; 3] {
        [self.directory.path("junk"), "/dev/null".to_owned(), "/dev/zero".to_owned()]
    }
}

/// The exit code and the lines of standard error; as another user than root if `is_other`. A command that does not end is killed.
fn ends(command: &[&str], path: &str, is_other: bool) -> Option<(i32, Vec<String>)> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    program.env_remove("DWELL_DRIVE").env("DWELL_CONFIG", "").current_dir("/");
    program.args(command.iter().map(|&word| if word == PATH { path } else { word }));
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if is_other {
        program.uid(65_534).gid(65_534);
    }
    let mut child = match program.spawn() {
        Err(error) if is_other && error.kind() == std::io::ErrorKind::PermissionDenied => return None,
        spawned => spawned.expect("the program runs"),
    };
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begin.elapsed() > Duration::from_secs(60) {
            child.kill().expect("a child");
            panic!("{command:?} {path}: does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("it ended");
    let lines = words(&output.stderr).lines().map(str::to_owned).collect();
    Some((output.status.code().unwrap_or(-1), lines))
}

/// What is wrong with the message of a command, if anything is.
fn wrong(command: &[&str], path: &str, (code, lines): &(i32, Vec<String>)) -> Option<String> {
    let errors: Vec<&String> = lines.iter().filter(|line| line.starts_with("dwell: ")).collect();
    let problem = match &*errors {
        _ if ![1, 2, 4, 5, 6].contains(code) => "no error",
        [error] if error.contains("os error") => "a bare system error",
        [error] if !error.contains(path) => "it does not name the path",
        [error] if !["; ", "kind is missing: "].iter().any(|part| error.contains(part)) => "no remedy",
        [_] => return None,
        _ => "not one line",
    };
    Some(format!("{problem}: {command:?} {path}: exit code {code}: {lines:?}"))
}

#[test]
fn each_unusable_path_gives_one_line_with_a_remedy() {
    let bad = Bad::new("paths");
    let recording = recording("pgbench");
    let shared = bad.directory.path("shared");
    let writers = WRITERS.map(|command| {
        let of = |word: &&'static str| match *word {
            "RECORDING" => recording.clone(),
            "SHARED" => shared.clone(),
            word => word.to_owned(),
        };
        command.iter().map(of).collect::<Vec<String>>()
    });
    let mut cases: Vec<(Vec<&str>, String)> = Vec::new();
    for command in DEVICES {
        // A folder stands for the device of its file system, if that has one.
        let paths = bad.of_all_kinds().into_iter().filter(|path| !path.ends_with("folder"));
        cases.extend(paths.map(|path| (command.to_vec(), path)));
    }
    for command in READERS {
        cases.extend(bad.of_all_kinds().into_iter().map(|path| (command.to_vec(), path)));
        cases.extend(bad.read_only().map(|path| (command.to_vec(), path)));
    }
    for command in &writers {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        // A new file may replace a link that leads nowhere, and a merge of nothing writes nothing.
        let paths = bad.of_all_kinds().into_iter().filter(|path| !path.ends_with("circle"));
        cases.extend(paths.map(|path| (command.clone(), path)));
        if command[0] != "patterns" {
            cases.push((command, "/dev/full".to_owned()));
        }
    }
    let problems: Vec<String> = cases
        .iter()
        .filter_map(|(command, path)| wrong(command, path, &ends(command, path, false).expect("it runs")))
        .collect();
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), cases.len(), problems.join("\n"));
}

#[test]
fn a_path_that_the_user_may_not_use_gives_one_line_with_a_remedy() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can run the program as another user");
    }
    let bad = Bad::new("no-permission");
    let (secret, recording) = (bad.directory.path("secret"), recording("pgbench"));
    let mut problems = Vec::new();
    for command in READERS {
        let Some(ended) = ends(command, &secret, true) else {
            return eprintln!("SKIPPED: other users cannot run the program");
        };
        problems.extend(wrong(command, &secret, &ended));
    }
    for command in WRITERS.into_iter().take(6) {
        let command: Vec<&str> =
            command.iter().map(|&word| if word == "RECORDING" { &*recording } else { word }).collect();
        let path = bad.directory.path("new");
        problems.extend(wrong(&command, &path, &ends(&command, &path, true).expect("it runs")));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
