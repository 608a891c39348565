//! Runs of experiments, in parallel, each of which is written down when it is done: whoever stops and starts again goes on
//! from there.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use schedulers::Spec;

use crate::error::Error;
use crate::interrupt;
use crate::scene::{Outcome, Scene};

/// One experiment under one scheduler.
pub(super) struct Task<'a> {
    pub(super) scene: &'a Scene,
    /// Paper and experiment.
    pub(super) name: &'a str,
    pub(super) spec: Spec,
    /// Everything that the result depends on, in words.
    pub(super) settings: String,
}

/// Where results are kept.
pub(super) struct Store {
    directory: PathBuf,
    program: String,
}

impl Store {
    /// A directory, made if it is not there.
    pub(super) fn open(directory: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(directory).map_err(|e| Error::file(directory.display(), &e))?;
        Ok(Self { directory: directory.to_owned(), program: program() })
    }

    fn file(&self, task: &Task<'_>) -> PathBuf {
        let mut hasher = Fnv::default();
        (&self.program, &task.settings).hash(&mut hasher);
        let plain: String = format!("{}-{}", task.name, task.spec)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+') { c } else { '_' })
            .collect();
        self.directory.join(format!("{plain}-{:016x}.json", hasher.finish()))
    }

    fn load(&self, task: &Task<'_>) -> Option<Outcome> {
        serde_json::from_slice(&std::fs::read(self.file(task)).ok()?).ok()
    }

    /// Writes a result down; a half-written one is never seen under its name.
    fn save(&self, task: &Task<'_>, outcome: &Outcome) -> Result<(), Error> {
        let file = self.file(task);
        let part = file.with_extension("part");
        let failed = |e: std::io::Error| Error::file(file.display(), &e);
        let text = serde_json::to_vec(outcome).map_err(|e| Error::Failed(e.to_string()))?;
        std::fs::write(&part, text).map_err(failed)?;
        std::fs::rename(&part, &file).map_err(failed)
    }
}

/// What tells one build of the program from another: its version, and size and age of its file.
fn program() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata);
    let built = file.ok().map(|file| (file.len(), file.modified().ok()));
    format!("{} {built:?}", env!("CARGO_PKG_VERSION"))
}

/// FNV-1a: the same on every machine and in every release of the compiler.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Runs tasks on so many threads, and calls `done` when each has ended; results stand in the order of the tasks. A task that
/// was not begun, or cut short, when somebody asked to stop has none.
pub(super) fn run(
    tasks: &[Task<'_>],
    threads: usize,
    store: Option<&Store>,
    done: &(dyn Fn(&Task<'_>) + Sync),
) -> Result<Vec<Option<Outcome>>, Error> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Outcome, Error>>>> =
        tasks.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(index).filter(|_| !interrupt::requested()) else { break };
            let result = one(task, store);
            done(task);
            if let (Some(result), Ok(mut slot)) = (result, results[index].lock()) {
                *slot = Some(result);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(tasks.len()) {
            scope.spawn(work);
        }
        work();
    });
    results.into_iter().map(|slot| slot.into_inner().ok().flatten().transpose()).collect()
}

fn one(task: &Task<'_>, store: Option<&Store>) -> Option<Result<Outcome, Error>> {
    if let Some(outcome) = store.and_then(|store| store.load(task)) {
        return Some(Ok(outcome));
    }
    let result = task.scene.run(&task.spec, None).map(|ran| ran.outcome);
    if interrupt::requested() {
        return None;
    }
    if let (Some(store), Ok(outcome)) = (store, &result)
        && let Err(error) = store.save(task, outcome)
    {
        return Some(Err(error));
    }
    Some(result)
}
