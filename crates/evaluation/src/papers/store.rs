//! A directory of results, one file for each.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fnv::FnvHasher;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A directory of results.
pub(super) struct Store {
    directory: PathBuf,
    program: String,
}

#[derive(Serialize, Deserialize)]
struct File<K> {
    /// Its processor time in seconds.
    took: f64,
    kept: K,
}

impl Store {
    /// Opens a directory, and creates it if it is missing.
    pub(super) fn open(directory: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(directory).map_err(|e| Error::written(directory.display(), &e))?;
        Ok(Self { directory: directory.to_owned(), program: program() })
    }

    fn file(&self, name: &str, settings: &str) -> PathBuf {
        // The same on every machine and in every release of the compiler.
        let mut hasher = FnvHasher::default();
        (&self.program, settings).hash(&mut hasher);
        let plain: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+') { c } else { '_' })
            .collect();
        self.directory.join(format!("{plain}-{:016x}.json", hasher.finish()))
    }

    /// The result of an earlier run of the same program with this name and these settings.
    pub(super) fn load<K: DeserializeOwned>(&self, name: &str, settings: &str) -> Option<K> {
        let file: File<K> = serde_json::from_slice(&std::fs::read(self.file(name, settings)).ok()?).ok()?;
        Some(file.kept)
    }

    /// Stores a result; a partly written file never has its final name.
    pub(super) fn save(
        &self,
        name: &str,
        settings: &str,
        kept: &impl Serialize,
        took: Duration,
    ) -> Result<(), Error> {
        let file = self.file(name, settings);
        let part = file.with_extension("part");
        let failed = |e: std::io::Error| Error::written(file.display(), &e);
        let text = serde_json::to_vec(&File { took: took.as_secs_f64(), kept })
            .map_err(|e| Error::Failed(e.to_string()))?;
        std::fs::write(&part, text).map_err(failed)?;
        std::fs::rename(&part, &file).map_err(failed)
    }
}

/// Identifies the build of the program: its version, and the size and modification time of its file.
fn program() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata);
    let built = file.ok().map(|file| (file.len(), file.modified().ok()));
    format!("{} {built:?}", env!("CARGO_PKG_VERSION"))
}
