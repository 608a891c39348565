//! Scripts in TOML: processes, their steps, and the initial content of the disk.
//!
//! [`papers`] contains the papers' experiments as scripts.

mod check;
mod jobs;
pub mod papers;
mod place;
mod script;
mod step;

use std::collections::BTreeMap;
use std::rc::Rc;

use elevator::split::Terms;
use elevator::text::did_you_mean_of;
use elevator::{Priority, Process as Identified, Span};
use machine::kernel::{self, Description};
use machine::{Machine, Submitter};

pub use script::{Amount, Change, Figure, Identity, Paper, Percentile, Script};
pub use step::Step;

use crate::contents::{Contents, Set};
use crate::programs::diary::Seen;
use crate::programs::fio::FioJob;
use crate::programs::os::{Part, Session, Start, program};
use crate::programs::units::numbered;
use place::Source;
use script::{OnDisk, Partition};

/// A script.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The parsed text.
    pub script: Script,
    /// Initial content of the disk.
    pub contents: Contents,
    /// The scale; 1 is full size.
    pub scale: f64,
    source: Source,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {field}: {problem}")]
pub struct ScriptError {
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The section or process.
    pub field: String,
    /// The problem and its remedy.
    pub problem: String,
}

impl Scenario {
    /// Parses a script. `file` is the name in errors. `scale`, above 0 and at most 1, reduces file sizes, transferred data,
    /// numbers of operations, and memory.
    ///
    /// # Errors
    /// With file, line and field.
    pub fn parse(file: &str, text: &str, scale: f64) -> Result<Self, ScriptError> {
        let source = Source { file: file.to_owned(), text: text.to_owned() };
        let error = |at, field: &str, problem: String| ScriptError {
            file: file.to_owned(),
            line: source.line(at),
            field: field.to_owned(),
            problem,
        };
        let mut script: Script = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            let message = e.message().trim_end().replace('\n', "; ");
            let hint = did_you_mean_of(&message);
            error(at, "script", message + &hint)
        })?;
        if script.about.is_empty() {
            file.clone_into(&mut script.about);
        }
        let mut contents = Contents::default();
        for item in &script.on_disk {
            lay_out(item.get_ref(), scale, &mut contents)
                .map_err(|problem| error(item.span().start, "on-disk", problem.to_owned()))?;
        }
        check::check(&script, &contents).map_err(|found| error(found.at, &found.field, found.text))?;
        Ok(Self { script, contents, scale, source })
    }

    /// Draws other random numbers in programs and stores. Files on the disk at the start remain as they are.
    pub fn reseed(&mut self, by: u64) {
        // Neighbouring seeds belong to copies of a process.
        let by = by.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for process in &mut self.script.process {
            process.get_mut().steps.iter_mut().for_each(|step| step.get_mut().reseed(by));
        }
        if let Some(store) = &mut self.script.store {
            let store = store.get_mut();
            store.seed = store.seed.wrapping_add(by);
        }
    }

    /// The machine of the script: `base` with the script's changes and scaled memory.
    pub fn machine(&self, base: &Description) -> Description {
        let mut machine = base.clone();
        let change = &self.script.change;
        if let Some(memory) = &change.memory {
            machine.memory.mib = (memory.get_ref().0 >> 20) as u32;
        }
        if let Some(read_ahead) = change.read_ahead {
            machine.read_ahead.max_kib = (read_ahead.0 >> 10) as u32;
        }
        if let Some(layout) = &change.layout {
            machine.file_system.layout = layout.get_ref().clone();
        }
        if let Some(partition) = &change.partition {
            let Partition { at, bytes } = *partition.get_ref();
            machine.file_system.partition =
                Some(kernel::Partition { at_mib: at.0 >> 20, mib: bytes.0 >> 20 });
        }
        if self.scale < 1.0 {
            let scaled = |mib: u32| (f64::from(mib) * self.scale).ceil() as u32;
            machine.memory.taken_mib = scaled(machine.memory.taken_mib);
            machine.memory.mib = scaled(machine.memory.mib).max(machine.memory.taken_mib + LEAST_CACHE_MIB);
        }
        machine
    }

    /// Names of the background processes; names of their children follow after a slash.
    pub fn beside(&self) -> Vec<String> {
        let processes =
            self.script.process.iter().map(|process| process.get_ref()).filter(|process| process.beside);
        processes.flat_map(|process| (1..=process.copies).map(|copy| numbered(&process.name, copy))).collect()
    }

    /// Whether a measured process works for a given time in every run, and not for a given amount of work.
    pub fn lasts_fixed_time(&self) -> bool {
        self.any_lasts(&|fio| fio.job.time_based)
    }

    /// Whether a measured process worked for a given time in a run: also a job that ended at its runtime, and not with its work before. `seen` has the
    /// measurements of the run by name.
    pub fn lasted_fixed_time(&self, seen: &BTreeMap<String, Seen>) -> bool {
        self.any_lasts(&|fio| {
            // A start delay counts from the start of the first jobs.
            let is_first = fio.stage == 0 && fio.job.waits_for.is_none();
            let delay = if is_first { fio.job.start_delay } else { Span::ZERO };
            let passed = seen.get(&fio.job.name).map(|seen| seen.to_ns.saturating_sub(seen.from_ns));
            fio.job.runtime.zip(passed).is_some_and(|(runtime, ns)| ns >= (runtime + delay).as_nanos())
        })
    }

    fn any_lasts(&self, of_job: &dyn Fn(&FioJob) -> bool) -> bool {
        let processes = self.script.process.iter().map(|process| process.get_ref());
        let mut steps = processes.filter(|process| !process.beside).flat_map(|process| &process.steps);
        steps.any(|step| step.get_ref().lasts_fixed_time(of_job))
    }

    /// Number of machines.
    pub fn servers(&self) -> u32 {
        self.script.servers.unwrap_or(1)
    }

    /// Starts the processes on each of these machines. The returned session collects their measurements.
    pub fn start_on(&self, machines: &mut [Machine]) -> Rc<Session> {
        let servers = machines.len() as u32;
        let session = Session::over(self.scale, self.contents.clone(), servers);
        for (machine, server) in machines.iter_mut().zip(1u32..) {
            let name = |name: String| if servers > 1 { format!("{name}-{server}") } else { name };
            self.start_processes(machine, &session, name);
        }
        session
    }

    fn start_processes(
        &self,
        machine: &mut Machine,
        session: &Rc<Session>,
        called: impl Fn(String) -> String,
    ) {
        let mut guests: Vec<(&str, Identified)> = Vec::new();
        for process in &self.script.process {
            let process = process.get_ref();
            for copy in 1..=process.copies {
                let own = session.process();
                let identity = process.guest.as_deref().map(|guest| {
                    match guests.iter().find(|(name, _)| *name == guest) {
                        Some((_, identity)) => *identity,
                        None => {
                            guests.push((guest, own));
                            own
                        }
                    }
                });
                let mut priority = Priority { class: process.class, ..Priority::default() };
                priority.level = process.priority.unwrap_or(priority.level);
                let identity = identity.unwrap_or(own);
                if process.rate.is_some() || process.fsync_deadline.is_some() {
                    let (rate, deadline) = (process.rate, process.fsync_deadline);
                    let terms = Terms {
                        priority,
                        rate: rate.map(|rate| rate.0),
                        fsync_deadline: deadline.map(|d| d.0),
                        has_ended: false,
                    };
                    machine.agree(identity.group, terms);
                }
                let name = called(numbered(&process.name, copy));
                let who = Submitter { process: Some(identity), priority, name };
                let meets = check::meets(process);
                let part = if process.beside { Part::Beside { meets } } else { Part::Measured };
                let start = Start { part, copy, after: process.after.0 };
                let steps: Rc<[_]> = process.steps.iter().cloned().collect();
                let body = program(session, &who, start, |os| async move {
                    for step in &*steps {
                        os.session().comes_to(os.name(), step.span().start);
                        step.get_ref().run(&os).await;
                    }
                });
                machine.start(who, body);
            }
        }
    }
}

/// Smallest page cache at any scale.
const LEAST_CACHE_MIB: u32 = 16;

/// Limit against typing errors that would exhaust memory.
const MOST_COPIES: u32 = 100_000;
/// The same for the files of a set.
const MOST_FILES: u64 = 10_000_000;

fn lay_out(item: &OnDisk, scale: f64, contents: &mut Contents) -> Result<(), &'static str> {
    if item.copies > MOST_COPIES || item.count.is_some_and(|count| count.0 > MOST_FILES) {
        return Err("at most 100,000 copies of at most ten million files each are supported");
    }
    for copy in 1..=item.copies {
        contents
            .place(item.at.map(|at| at.0.saturating_add(u64::from(copy - 1).saturating_mul(item.apart.0))));
        let seed = item.seed.wrapping_add(u64::from(copy));
        match (&item.file, &item.directory, &item.tree, &item.files) {
            (Some(name), None, None, None) => {
                let bytes = item.bytes.ok_or("a file needs a length, such as bytes = \"100 MiB\"")?;
                contents.file(&name.numbered(copy), bytes.at(scale));
            }
            (None, Some(name), None, None) => contents.directories(&name.numbered(copy)),
            (None, None, Some(name), None) => {
                let like = item.like.ok_or("a tree needs a model, such as like = \"linux-2.4.19\"")?;
                let files = ((like.files() as f64 * scale.min(1.0)) as u64).max(1);
                place_root(contents, &name.numbered(copy));
                contents.tree(&name.numbered(copy), files, seed);
            }
            (None, None, None, Some(name)) => {
                let count = item.count.ok_or("a set of files needs `count`")?.at(scale);
                let (least, most) = (item.least.0, item.most.0.max(item.least.0));
                let directories = item.directories.clamp(1, count);
                place_root(contents, &name.numbered(copy));
                contents.set(&name.numbered(copy), Set { count, least, most, directories, seed });
            }
            _ => return Err("exactly one of `file`, `directory`, `tree` and `files` is needed"),
        }
    }
    Ok(())
}

/// Places the root directory of a tree; the allocator places its contents.
fn place_root(contents: &mut Contents, root: &str) {
    contents.directories(root);
    contents.place(None);
}
