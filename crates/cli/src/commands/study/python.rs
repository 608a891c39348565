//! The Python package as a helper of a study: it opens addresses, and executes runs on a Dask cluster.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use study::Copies;

use super::Problems;
use crate::error::Error;
use crate::interrupt;

const ADVICE: &str =
    "install the package (pip install './python[dask]'), or name its interpreter in DWELL_PYTHON";

/// Runs a module as `python -m` does, but without the present folder in the search path: `-P`, which does that, is unknown to Python 3.10. A folder
/// `dwell` or a file `json.py` there, such as those of a clone, would be imported instead.
const RUN: &str = "import sys, runpy, importlib.util; sys.path[:] = [path for path in sys.path if path]; \
     importlib.util.find_spec('dwell') or sys.exit(f'{sys.executable}: the package dwell is not installed'); \
     sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__')";

/// How long the package may take to end after a signal. Then it is killed; complete runs are in the folder of results.
const PATIENCE: Duration = Duration::from_secs(20);

/// The interpreter that has the package: that of DWELL_PYTHON, that of the wheel of this program, or `python3`.
fn interpreter() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("python3"));
    let python = std::env::var_os("DWELL_PYTHON").map(PathBuf::from);
    python.or(beside.filter(|python| python.exists())).unwrap_or_else(|| "python3".into())
}

/// Copies what addresses, and patterns of addresses, name.
pub(super) fn copies(addresses: &[String]) -> Result<Copies, Error> {
    let python = interpreter();
    let mut command = Command::new(&python);
    command.args(["-c", RUN, "dwell.addresses", "--"]).args(addresses).stdout(Stdio::piped());
    let what = format!("{}: an address is opened by the Python package", addresses[0]);
    let failed = |problem: &str| Error::Failed(format!("{what}; {}: {problem}; {ADVICE}", python.display()));
    let child = command.spawn().map_err(|error| failed(&error.to_string()))?;
    let output = Guard(child).output().map_err(|error| failed(&error.to_string()))?;
    match output {
        (status, text) if status.success() => {
            serde_json::from_slice(&text).map_err(|error| failed(&error.to_string()))
        }
        (status, _) if interrupt::requested() || status.code() == Some(130) => Err(Error::Suspended),
        // The package has printed which address, and why.
        (status, _) if status.code() == Some(2) => {
            Err(Error::Input("an address of the study cannot be opened, see above".to_owned()))
        }
        (status, _) => Err(Error::Failed(format!("{what}; {}", ended("dwell.addresses", &python, status)))),
    }
}

/// A study on a cluster.
pub(super) struct On<'a> {
    /// The address of Dask's scheduler.
    pub(super) address: &'a str,
    /// The study file.
    pub(super) file: &'a Path,
    /// The folder of results.
    pub(super) out: &'a Path,
    /// The copies of what addresses name.
    pub(super) copies: &'a Copies,
}

/// Executes the missing runs on a Dask cluster: the package distributes them, writes the same files and prints the reasons of runs that cannot be
/// executed, which this function returns with the lines of these runs. A signal ends the package as well, which cancels its tasks; the next start continues. Runs of another version would be missing here and be
/// executed again, so the package verifies the version.
pub(super) fn execute(on: &On<'_>, only: &[String], quiet: bool) -> Result<Problems, Error> {
    let python = interpreter();
    let mut command = Command::new(&python);
    command.args([
        "-c",
        RUN,
        "dwell.distributed",
        "--on",
        on.address,
        "--no-table",
        "--child",
        "--copies",
        "-",
        "--simulator",
        ::study::VERSION,
        "--out",
    ]);
    command.arg(on.out).stdin(Stdio::piped()).stdout(Stdio::piped());
    only.iter().for_each(|only| {
        command.args(["--only", only]);
    });
    if quiet {
        command.arg("--quiet");
    }
    let name = python.display();
    let failed = |error: &std::io::Error| Error::Failed(format!("{name}: {error}; {ADVICE}"));
    let child = command.arg(on.file).spawn().map_err(|error| failed(&error))?;
    let mut guard = Guard(child);
    let text = serde_json::to_vec(on.copies).map_err(|error| Error::Failed(error.to_string()))?;
    if let Some(mut stdin) = guard.0.stdin.take() {
        // If the package has ended already, its status has the reason.
        let _ = stdin.write_all(&text);
    }
    let (status, text) = guard.output().map_err(|error| failed(&error))?;
    match status.code() {
        Some(0) => Ok(Problems::new()),
        // Some runs have no rows.
        Some(4) => serde_json::from_slice(&text)
            .map_err(|error| Error::Failed(format!("{name}: the reasons of runs without results: {error}"))),
        _ if interrupt::requested() => Err(Error::Suspended),
        Some(130) => Err(Error::Suspended),
        // The reason.
        Some(3) => Err(Error::Failed(String::from_utf8_lossy(&text).trim_end().to_owned())),
        Some(5) => Err(Error::Usage(String::from_utf8_lossy(&text).trim_end().to_owned())),
        _ => Err(Error::Failed(format!("{}: {}", on.address, ended("dwell.distributed", &python, status)))),
    }
}

/// How a module ended, and what to do.
fn ended(module: &str, python: &Path, status: ExitStatus) -> String {
    let program = format!("{} -m {module}", python.display());
    match status.signal() {
        Some(signal) => {
            format!("signal {signal} ended {program}; the same command continues, and complete runs are kept")
        }
        None => format!("{program} failed, see above; {ADVICE}"),
    }
}

/// A child that gets the signals of this process, and does not outlive it.
struct Guard(Child);

impl Guard {
    /// Waits for the end. After a signal to this process the child gets SIGTERM, in case that the signal was for this process alone.
    fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let mut asked: Option<Instant> = None;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            match asked {
                None if interrupt::requested() => {
                    asked = Some(Instant::now());
                    // SIGTERM lets Python cancel the tasks.
                    let process = rustix::process::Pid::from_child(&self.0);
                    let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
                }
                Some(at) if at.elapsed() > PATIENCE => self.0.kill()?,
                _ => {}
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end, and reads standard output.
    fn output(mut self) -> std::io::Result<(ExitStatus, Vec<u8>)> {
        let mut text = Vec::new();
        let stdout = self.0.stdout.take();
        let reader = std::thread::spawn(move || {
            let read = stdout.map(|mut stdout| std::io::Read::read_to_end(&mut stdout, &mut text));
            read.transpose().map(|_| text)
        });
        let status = self.wait()?;
        let text = reader.join().map_err(|_| std::io::Error::other("a thread failed"))??;
        Ok((status, text))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
