//! The description of a run, and its identifier.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use evaluation::Error;
use evaluation::input::Reading;
use evaluation::report::format::printable;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use workloads::scenario::Identity;

use crate::file::is_address;

/// Changes when equal descriptions have other results or other columns than before, within one version of the program.
const FORMAT: u32 = 2;

/// The kind of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Recording,
    /// A fio job file, at the level of requests.
    Job,
    /// A built-in workload of `dwell compare`.
    BuiltIn,
    /// A script of processes and system calls.
    Script,
}

/// A file with its content's hash, or a built-in object.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Input {
    /// As the study file names it, or the file that a glob matched.
    pub name: String,
    /// The file to open; `None` for what is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// SHA-256 of the file, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Input {
    /// Something built in.
    pub fn built_in(name: &str) -> Self {
        Self { name: name.to_owned(), path: None, sha256: None }
    }

    /// A file.
    pub fn file(name: &str, path: &Path) -> Result<Self, Error> {
        let sha256 = Some(hash_file(path)?);
        Ok(Self { name: name.to_owned(), path: Some(path.display().to_string()), sha256 })
    }

    /// What to pass to a function that opens it.
    pub fn place(&self) -> &str {
        self.path.as_deref().unwrap_or(&self.name)
    }

    /// Checks that the file can be opened. Without the check, a missing file would count as the name of something built in that does not
    /// exist, which no later start repairs.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        // Overrides in braces follow the name of a drive's file.
        let file = match (path.split_once('{'), self.name.contains('{')) {
            (Some((file, _)), true) => file,
            _ => path.as_str(),
        };
        File::open(file).map(drop).map_err(|error| Error::file(file, &error))
    }

    /// The input for another process, which may have another working directory, and reads addresses itself.
    fn elsewhere(&self) -> Self {
        let absolute = |path: &String| match std::path::absolute(path) {
            Ok(absolute) => absolute.display().to_string(),
            Err(_) => path.clone(),
        };
        let path = match &self.path {
            Some(_) if is_address(&self.name) => Some(self.name.clone()),
            path => path.as_ref().map(absolute),
        };
        Self { path, ..self.clone() }
    }

    /// What distinguishes its content: the hash, or the name if it is built in.
    fn content(&self) -> &str {
        self.sha256.as_deref().unwrap_or(&self.name)
    }
}

/// One run of a study: everything that determines its result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// 32 hexadecimal digits; see [`Run::identify`].
    pub id: String,
    pub workload: Input,
    pub kind: Kind,
    /// The scheduler with its tunables.
    pub scheduler: String,
    /// The drive; `None` is the script's own, or `wd5000aaks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Input>,
    /// An array of such drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// The machine of scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Input>,
    /// Commands in the drive at once; `None` is the drive's own depth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// What schedulers see of processes.
    pub identity: Identity,
    /// Limit of queued requests per direction; `None` for scripts, whose machine has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u32>,
    /// 1 is the workload as written; others draw the phase of the platters and the random numbers of built-in workloads and job files.
    pub seed: u64,
    /// Replay a recording by its time stamps.
    pub open: bool,
    /// How a recording is read.
    #[serde(default)]
    pub reading: Reading,
    /// Size of a script's data, operations and memory; `None` for other workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Virtual time after which the run stops, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_ns: Option<u64>,
    /// Length of a window in virtual time, in nanoseconds; `None` for no rows of windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ns: Option<u64>,
}

impl Run {
    /// Removes the settings that do not apply to the kind of workload, so that they do not change the identifier.
    #[must_use]
    pub(crate) fn applicable(mut self) -> Self {
        match self.kind {
            Kind::Script => self.nr_requests = None,
            _ => (self.scale, self.machine) = (None, None),
        }
        if self.kind != Kind::Recording {
            (self.open, self.reading) = (false, Reading::default());
        }
        self
    }

    /// Sets the identifier: the first 16 bytes of the SHA-256 of version, inputs' hashes and settings. Names of files do not count.
    #[must_use]
    pub fn identify(mut self) -> Self {
        let nameless = |input: &Input| Input::built_in(input.content());
        let content = Self {
            id: String::new(),
            workload: nameless(&self.workload),
            drive: self.drive.as_ref().map(nameless),
            machine: self.machine.as_ref().map(nameless),
            ..self.clone()
        };
        let text = serde_json::to_string(&content).unwrap_or_default();
        let mut context = Context::new(&SHA256);
        context.update(format!("{FORMAT} {} {text}", crate::VERSION).as_bytes());
        self.id = hexadecimal(&context.finish().as_ref()[..16]);
        self
    }

    /// The run for another process: its files have absolute paths, or are addresses. The identifier stays.
    #[must_use]
    pub fn elsewhere(&self) -> Self {
        Self {
            workload: self.workload.elsewhere(),
            drive: self.drive.as_ref().map(Input::elsewhere),
            machine: self.machine.as_ref().map(Input::elsewhere),
            ..self.clone()
        }
    }

    /// `problem` with the names of files in place of their paths, which differ between the processes that execute runs.
    pub(crate) fn named(&self, problem: &str) -> String {
        let inputs = [Some(&self.workload), self.drive.as_ref(), self.machine.as_ref()];
        inputs.into_iter().flatten().fold(problem.to_owned(), |problem, input| match &input.path {
            Some(path) => problem.replace(path.as_str(), &input.name),
            None => problem,
        })
    }

    /// What differs between the runs that are compared with each other: everything but the scheduler.
    pub fn cell(&self) -> String {
        let mut cell = self.workload.name.clone();
        let _ = write!(cell, " on {}", self.drive.as_ref().map_or("its drive", |drive| &drive.name));
        if let Some(array) = &self.array {
            let _ = write!(cell, " {array}");
        }
        if let Some(depth) = self.depth {
            let _ = write!(cell, " depth {depth}");
        }
        let _ = write!(cell, " {} seed {}", self.identity.name(), self.seed);
        cell
    }

    /// The run in one line, by which `--only` selects.
    pub fn line(&self) -> String {
        printable(&format!("{}: {}", self.cell(), self.scheduler)).into_owned()
    }
}

/// The SHA-256 of a file.
fn hash_file(path: &Path) -> Result<String, Error> {
    let name = path.display();
    let mut file = File::open(path).map_err(|error| Error::file(&name, &error))?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer).map_err(|error| Error::file(&name, &error))? {
            0 => return Ok(hexadecimal(context.finish().as_ref())),
            read => context.update(&buffer[..read]),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run() -> Run {
        Run {
            id: String::new(),
            workload: Input::built_in("par-read"),
            kind: Kind::BuiltIn,
            scheduler: "noop".to_owned(),
            drive: Some(Input::built_in("wd5000aaks")),
            array: None,
            machine: None,
            depth: None,
            identity: Identity::Shown,
            nr_requests: Some(128),
            seed: 1,
            open: false,
            reading: Reading::default(),
            scale: None,
            at_most_ns: Some(200_000_000),
            window_ns: None,
        }
        .identify()
    }

    #[test]
    fn the_identifier_depends_on_content_and_settings_only() {
        let of = |name: &str, sha256: &str| Run {
            workload: Input {
                name: name.to_owned(),
                path: Some(format!("/x/{name}")),
                sha256: Some(sha256.to_owned()),
            },
            ..run()
        };
        let id = |run: Run| run.identify().id;
        assert_eq!(id(of("a", "00")), id(of("b", "00")));
        assert_ne!(id(of("a", "00")), id(of("a", "01")));
        assert_ne!(id(run()), id(Run { seed: 2, ..run() }));
        assert_ne!(id(run()), id(Run { scheduler: "deadline".to_owned(), ..run() }));
        assert!(crate::VERSION.starts_with(concat!(env!("CARGO_PKG_VERSION"), "+")));
        assert_eq!(run().id.len(), 32);
        assert_eq!(run().id, id(run()));
    }

    #[test]
    fn other_processes_get_absolute_paths_and_addresses() {
        let file = |name: &str, path: &str| Input {
            name: name.to_owned(),
            path: Some(path.to_owned()),
            sha256: Some("00".to_owned()),
        };
        let here = std::env::current_dir().unwrap();
        let run = Run {
            workload: file("../rec/a.gz", "study/../rec/a.gz"),
            drive: Some(file("s3://x/d.toml", "/tmp/copy.toml")),
            machine: Some(Input::built_in("small")),
            ..run()
        };
        let moved = run.elsewhere();
        let path = |input: &Input| input.path.clone().unwrap_or_default();
        assert_eq!(path(&moved.workload), here.join("study/../rec/a.gz").display().to_string());
        assert_eq!(moved.drive.as_ref().map(path).unwrap(), "s3://x/d.toml");
        assert_eq!(moved.machine, run.machine);
        assert_eq!(moved.clone().identify().id, run.clone().identify().id);
        let text = |run: &Run| run.named(&format!("{}: too large", run.workload.place()));
        assert_eq!([text(&run), text(&moved)], ["../rec/a.gz: too large"; 2]);
    }

    #[test]
    fn a_description_survives_serialisation() {
        let run = Run { depth: Some(4), array: Some("raid0:2x64k".to_owned()), ..run() }.identify();
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
    }
}
