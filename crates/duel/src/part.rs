//! The parts that other processes play: this program again, started with a word about what it shall be.
//!
//! The process that serves the drive must never wait for that drive: killed, it could not die before the drive answered, and
//! the drive would not answer any more. So whatever touches the device is another process.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::DuelError;
use crate::programs::{self, Play};
use crate::stagehand::{self, Scenery};

/// What a process of ours is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Part {
    /// Puts loop devices, elevators and mounts up, and takes them down.
    Stagehand(Box<Scenery>),
    /// Runs a program and measures it.
    Player(Box<Play>),
    /// Removes files when everybody else is gone.
    Caretaker(PathBuf),
}

/// Plays the part that `script` says, as [`Troupe`] wrote it. The exit code is the whole process's.
#[must_use]
pub fn play(script: &str) -> u8 {
    let part = match serde_json::from_str::<Part>(script) {
        Ok(part) => part,
        Err(error) => {
            eprintln!("not a part to play: {error}");
            return 2;
        }
    };
    let played = match part {
        Part::Stagehand(scenery) => stagehand::play(*scenery),
        Part::Player(play) => {
            // Nobody would read what it measured. Whoever holds things must outlive its parent; a player must not.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            programs::play(*play)
        }
        Part::Caretaker(directory) => care(&directory),
    };
    match played {
        Ok(()) => 0,
        Err(error) => {
            let _ = say(&Err::<(), _>(error.to_string()));
            1
        }
    }
}

/// How long others may take to let go of what is to be removed.
const LETTING_GO: Duration = Duration::from_secs(30);

/// The duel itself removes nothing, so this does its work however a duel ends.
fn care(directory: &Path) -> Result<(), DuelError> {
    deaf()?;
    say(&Ok(())).map_err(DuelError::io("speaking"))?;
    wait_for_end();
    let began = Instant::now();
    loop {
        unmount_below(directory);
        match std::fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound && began.elapsed() < LETTING_GO => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(DuelError::io(format!("removing {}", directory.display()))(error));
            }
            _ => return Ok(()),
        }
    }
}

/// A killed server's file is still mounted in our namespace.
fn unmount_below(directory: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
    for place in places.filter(|place| place.starts_with(directory)) {
        let _ = rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Hears no Ctrl-C: it ends when whoever started it ends.
pub(crate) fn deaf() -> Result<(), DuelError> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let ignored = std::sync::Arc::default();
        signal_hook::flag::register(signal, ignored).map_err(DuelError::io("ignoring signals"))?;
    }
    Ok(())
}

/// Waits until standard input ends, which it does with the process that holds its other end.
pub(crate) fn wait_for_end() {
    let mut input = io::stdin().lock();
    while matches!(input.read(&mut [0; 64]), Ok(1..)) {}
}

/// Waits for one line, the word to begin.
pub(crate) fn wait_for_word() -> io::Result<()> {
    io::stdin().read_exact(&mut [0])
}

/// A line for whoever started us.
pub(crate) fn say<T: Serialize>(what: &Result<T, String>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, what)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Starts processes that play parts: a program and its arguments, behind which the script goes.
#[derive(Clone, Debug)]
pub struct Troupe {
    /// The program: usually this one.
    pub program: PathBuf,
    /// What stands before the script on its command line.
    pub arguments: Vec<String>,
}

impl Troupe {
    pub(crate) fn start(&self, part: &Part) -> Result<Actor, DuelError> {
        let failed = |error: io::Error| DuelError::Io {
            doing: format!("starting {} for a part of the duel", self.program.display()),
            source: error,
        };
        let script = serde_json::to_string(part).map_err(|error| failed(error.into()))?;
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Ok(Actor { child, stdin, stdout })
    }
}

/// A process that plays a part. Dropped, it is waited for; whoever plays on is ended first.
pub(crate) struct Actor {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Actor {
    /// The word to begin.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(b"\n"))
    }

    /// The next thing that it says.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> Result<T, DuelError> {
        let mut line = String::new();
        if let Some(stdout) = &mut self.stdout {
            stdout.read_line(&mut line).map_err(DuelError::io("hearing a part of the duel"))?;
        }
        match serde_json::from_str::<Result<T, String>>(&line) {
            Ok(said) => said.map_err(DuelError::Part),
            Err(_) => Err(DuelError::Part(format!(
                "a process of the duel ended before its part was over ({})",
                if line.is_empty() { "it said nothing" } else { line.trim() }
            ))),
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Lets it know that the duel is over and waits until it has done what it does then, at most so long.
    pub(crate) fn end(&mut self, at_most: Duration) -> Result<(), DuelError> {
        const LOOK: Duration = Duration::from_millis(5);
        self.stdin = None;
        let mut waited = Duration::ZERO;
        while !self.has_ended() {
            if waited >= at_most {
                self.kill();
                return Err(DuelError::Part(format!("a process of the duel did not end within {at_most:?}")));
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
        Ok(())
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}
