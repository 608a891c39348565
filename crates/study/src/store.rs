//! The folder of a study's results.
//!
//! | path | content |
//! |---|---|
//! | `runs/part-*.parquet` | one row for each run |
//! | `processes/part-*.parquet` | one row for each process of a run |
//! | `windows/part-*.parquet` | one row for each window of a run, if the study has windows |
//! | `pending/*.json` | the rows of runs that are in no part yet |
//! | `lock` | locked while a process writes |
//!
//! A file appears under its name when it is complete. A part of `processes` and `windows` appears before the part of `runs` of the same name, and is
//! removed at the next opening if the latter never appeared. So a process that is killed loses only the runs that it was executing.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use evaluation::Error;
use fnv::FnvHasher;

use crate::execute::Rows;
use crate::table::Cell;

const FOLDERS: [&str; 3] = ["runs", "processes", "windows"];

/// A folder of results.
pub struct Store {
    folder: PathBuf,
    _lock: File,
    /// Runs in parts.
    written: Mutex<HashSet<String>>,
    /// Runs in `pending`.
    pending: Mutex<HashSet<String>>,
}

impl Store {
    /// Opens or creates a folder, and removes what a killed process left incomplete.
    ///
    /// # Errors
    /// The folder cannot be written, another process writes it, or it has a damaged file; or this build has no Parquet.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        if !crate::HAS_PARQUET {
            return Err(Error::Usage(NOT_BUILT.to_owned()));
        }
        let failed = |error: &std::io::Error| Error::written(folder.display(), error);
        for name in FOLDERS.iter().chain(&["pending"]) {
            fs::create_dir_all(folder.join(name)).map_err(|error| failed(&error))?;
        }
        let lock = File::create(folder.join("lock")).map_err(|error| failed(&error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let problem = "another process writes this study; wait for its end or choose another --out";
                return Err(Error::Failed(format!("{}: {problem}", folder.display())));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        let store = Self {
            folder: folder.to_owned(),
            _lock: lock,
            written: Mutex::default(),
            pending: Mutex::default(),
        };
        store.clean()?;
        Ok(store)
    }

    /// Removes incomplete files and lists the complete ones.
    fn clean(&self) -> Result<(), Error> {
        let parts = self.files("runs")?;
        for folder in FOLDERS {
            for file in self.files(folder)? {
                let is_complete = file.ends_with(".parquet") && parts.contains(&file);
                if !is_complete && is_part(&file) {
                    self.remove(&self.folder.join(folder).join(file))?;
                }
            }
        }
        let mut written = HashSet::new();
        for cells in self.read_runs(&["run"])? {
            if let [Cell::Text(id)] = &cells[..] {
                written.insert(id.clone());
            }
        }
        for file in self.files("pending")? {
            let path = self.folder.join("pending").join(&file);
            match file.strip_suffix(".json") {
                Some(id) if !written.contains(id) && self.pending_rows(id).is_ok() => {
                    lock(&self.pending).insert(id.to_owned());
                }
                _ if is_pending(&file) => self.remove(&path)?,
                _ => {}
            }
        }
        *lock(&self.written) = written;
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), Error> {
        fs::remove_file(path).map_err(|error| Error::written(path.display(), &error))
    }

    /// Names of the files of a folder, sorted.
    fn files(&self, folder: &str) -> Result<Vec<String>, Error> {
        let path = self.folder.join(folder);
        let entries = fs::read_dir(&path).map_err(|error| Error::file(path.display(), &error))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| Error::file(path.display(), &error))?;
            names.extend(entry.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    /// Whether the run needs no execution.
    pub fn has(&self, id: &str) -> bool {
        self.is_written(id) || lock(&self.pending).contains(id)
    }

    /// Whether the run is in a part.
    pub fn is_written(&self, id: &str) -> bool {
        lock(&self.written).contains(id)
    }

    /// Keeps the rows of a run until [`write`](Self::write) puts them into a part. They survive the end of the process.
    pub fn keep(&self, rows: &Rows) -> Result<(), Error> {
        let id = rows.id();
        let text = serde_json::to_vec(rows).map_err(|error| Error::Failed(error.to_string()))?;
        let path = self.folder.join("pending").join(format!("{id}.json"));
        let temporary = path.with_extension("tmp");
        let written = File::create(&temporary).and_then(|mut file| file.write_all(&text));
        written
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|error| Error::written(path.display(), &error))?;
        lock(&self.pending).insert(id.to_owned());
        Ok(())
    }

    fn pending_rows(&self, id: &str) -> Result<Rows, Error> {
        let path = self.folder.join("pending").join(format!("{id}.json"));
        let text = fs::read(&path).map_err(|error| Error::file(path.display(), &error))?;
        serde_json::from_slice(&text).map_err(|error| Error::Input(format!("{}: {error}", path.display())))
    }

    /// Writes the kept rows of these runs as a part, and removes what was kept.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn write(&self, ids: &[&str]) -> Result<(), Error> {
        let rows = ids.iter().map(|id| self.pending_rows(id)).collect::<Result<Vec<_>, _>>()?;
        self.append(&rows)?;
        for id in ids {
            self.remove(&self.folder.join("pending").join(format!("{id}.json")))?;
            lock(&self.pending).remove(*id);
        }
        Ok(())
    }

    /// Writes rows as a part. Its name depends on the runs only, so that the same runs written twice are one part.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn append(&self, rows: &[Rows]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let name = part_name(rows.iter().map(Rows::id));
        self.write_part("windows", &name, rows.iter().flat_map(|rows| &rows.windows))?;
        self.write_part("processes", &name, rows.iter().flat_map(|rows| &rows.processes))?;
        self.write_part("runs", &name, rows.iter().map(|rows| &rows.run))?;
        lock(&self.written).extend(rows.iter().map(|rows| rows.id().to_owned()));
        Ok(())
    }

    #[cfg(feature = "parquet")]
    fn write_part<'a>(
        &self,
        folder: &str,
        name: &str,
        rows: impl Iterator<Item = &'a Vec<Cell>>,
    ) -> Result<(), Error> {
        let rows: Vec<&Vec<Cell>> = rows.collect();
        if rows.is_empty() {
            return Ok(());
        }
        let fields = match folder {
            "runs" => crate::table::RUNS,
            "processes" => crate::table::PROCESSES,
            _ => crate::table::WINDOWS,
        };
        let path = self.folder.join(folder).join(name);
        let temporary = path.with_extension("tmp");
        let failed = |error: &std::io::Error| Error::written(path.display(), error);
        let file = File::create(&temporary).map_err(|error| failed(&error))?;
        crate::parquet_file::write(file, &path, fields, &rows)?;
        fs::rename(&temporary, &path).map_err(|error| failed(&error))
    }

    #[cfg(not(feature = "parquet"))]
    fn write_part<'a>(
        &self,
        _folder: &str,
        _name: &str,
        _rows: impl Iterator<Item = &'a Vec<Cell>>,
    ) -> Result<(), Error> {
        Err(Error::Usage(NOT_BUILT.to_owned()))
    }

    /// These columns of all runs in parts.
    ///
    /// # Errors
    /// A file cannot be read.
    #[cfg(feature = "parquet")]
    pub fn read_runs(&self, names: &[&str]) -> Result<Vec<Vec<Cell>>, Error> {
        let mut all = Vec::new();
        for file in self.files("runs")? {
            if file.ends_with(".parquet") {
                all.extend(crate::parquet_file::read(&self.folder.join("runs").join(file), names)?);
            }
        }
        Ok(all)
    }

    /// These columns of all runs in parts: none in a build without Parquet.
    ///
    /// # Errors
    /// Never.
    #[cfg(not(feature = "parquet"))]
    pub fn read_runs(&self, _names: &[&str]) -> Result<Vec<Vec<Cell>>, Error> {
        Ok(Vec::new())
    }
}

/// What a build without Parquet prints.
pub const NOT_BUILT: &str = "this dwell was built without Parquet files; build it with 'cargo build --release --features studies', or install \
                         the package";

fn part_name<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    use std::hash::Hasher;
    let mut hasher = FnvHasher::default();
    ids.for_each(|id| hasher.write(id.as_bytes()));
    format!("part-{:016x}.parquet", hasher.finish())
}

/// Whether the file is a part, or becomes one. Other files in the folders are the user's.
fn is_part(name: &str) -> bool {
    let number = name.strip_prefix("part-").and_then(|name| name.split_once('.'));
    number.is_some_and(|(number, ending)| is_number(number, 16) && matches!(ending, "parquet" | "tmp"))
}

/// Whether the file has the rows of a run, or becomes one.
fn is_pending(name: &str) -> bool {
    let id = name.split_once('.');
    id.is_some_and(|(id, ending)| is_number(id, 32) && matches!(ending, "json" | "tmp"))
}

fn is_number(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
