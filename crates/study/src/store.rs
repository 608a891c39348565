//! The folder of a study's results.
//!
//! | path | content |
//! |---|---|
//! | `runs/part-*.parquet` | one row for each run |
//! | `processes/part-*.parquet` | one row for each process of a run |
//! | `windows/part-*.parquet` | one row for each window of a run, if the study has windows |
//! | `pending/*.json` | the rows of runs that are in no part yet, and in a last line their checksum; a file is named after the first of these runs |
//! | `lock` | locked while a process writes |
//!
//! A file appears under its name when it is complete. A part of `processes` and `windows` appears before the part of `runs` of the same name, and is
//! removed at the next opening if the latter never appeared. So a process that is killed loses only the runs that it was executing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use evaluation::Error;
use fnv::FnvHasher;

use crate::execute::Rows;
use crate::parquet_file::{CHECKSUM, Part, file_checksum};
use crate::table::{Cell, Field, PROCESSES, RUNS, WINDOWS};

const FOLDERS: [&str; 3] = ["runs", OTHERS[0], OTHERS[1]];
/// The folders whose parts belong to a part of `runs`.
const OTHERS: [&str; 2] = ["processes", "windows"];

/// A folder of results.
pub struct Store {
    folder: PathBuf,
    lock: File,
    /// Runs in parts.
    written: Mutex<HashSet<String>>,
    /// Runs in `pending`, and the file of each.
    pending: Mutex<HashMap<String, String>>,
}

/// The contents of a part's files: runs, processes, windows. Empty: no file.
pub type Files = [Vec<u8>; 3];

/// The files of a part with these rows.
///
/// # Errors
/// In a build without Parquet.
pub fn encode(rows: &[Rows]) -> Result<Files, Error> {
    let processes: Vec<_> = rows.iter().flat_map(|rows| &rows.processes).collect();
    let windows: Vec<_> = rows.iter().flat_map(|rows| &rows.windows).collect();
    let counts = [processes.len(), windows.len()];
    let others = [encode_table(PROCESSES, processes, &[])?, encode_table(WINDOWS, windows, &[])?];
    let mut metadata = Vec::new();
    for ((name, count), content) in OTHERS.into_iter().zip(counts).zip(&others) {
        metadata.push((count_key(name), count.to_string()));
        if count > 0 {
            metadata.push((checksum_key(name), file_checksum(content)));
        }
    }
    let runs = encode_table(RUNS, rows.iter().map(|rows| &rows.run).collect(), &metadata)?;
    let [processes, windows] = others;
    Ok([runs, processes, windows])
}

fn encode_table(
    fields: &[Field],
    rows: Vec<&Vec<Cell>>,
    metadata: &[(String, String)],
) -> Result<Vec<u8>, Error> {
    if rows.is_empty() { Ok(Vec::new()) } else { crate::parquet_file::encode(fields, &rows, metadata) }
}

/// The key in the metadata of a part of `runs` that has the number of rows of the same part of another table. By it, [`written`] notices that
/// the latter is missing.
fn count_key(table: &str) -> String {
    format!("dwell.rows_of_{table}")
}

/// The key that has the checksum of that part, by which a part of other runs is noticed.
fn checksum_key(table: &str) -> String {
    format!("dwell.checksum_of_{table}")
}

/// Writes a file, which appears under its name when it is complete. What a failure leaves under the temporary name is removed at the next opening.
fn publish(path: &Path, content: &[u8], settle: impl Fn(&File) -> std::io::Result<()>) -> Result<(), Error> {
    let temporary = path.with_extension("tmp");
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(content)?;
        settle(&file)
    });
    written
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|error| Error::written(path.display(), &error))
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
        let store =
            Self { folder: folder.to_owned(), lock, written: Mutex::default(), pending: Mutex::default() };
        store.clean()?;
        Ok(store)
    }

    /// Lets another store open the folder while this one still exists. Nothing may be written afterwards.
    pub fn unlock(&self) {
        // The system also unlocks the file when it is closed.
        let _ = self.lock.unlock();
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
        let written = written(&self.folder)?;
        for file in self.files("pending")? {
            let path = self.folder.join("pending").join(&file);
            let rows = pending_rows(&path).unwrap_or_default();
            let missing = rows.iter().map(Rows::id).filter(|id| !written.contains(*id));
            let known: Vec<_> = missing.map(|id| (id.to_owned(), file.clone())).collect();
            if !known.is_empty() {
                lock(&self.pending).extend(known);
            } else if is_pending(&file) {
                self.remove(&path)?;
            }
        }
        *lock(&self.written) = written;
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), Error> {
        fs::remove_file(path).map_err(|error| Error::written(path.display(), &error))
    }

    fn files(&self, folder: &str) -> Result<Vec<String>, Error> {
        files(&self.folder.join(folder))
    }

    /// Whether the run needs no execution.
    pub fn has(&self, id: &str) -> bool {
        self.is_written(id) || lock(&self.pending).contains_key(id)
    }

    /// Whether the run is in a part.
    pub fn is_written(&self, id: &str) -> bool {
        lock(&self.written).contains(id)
    }

    /// Keeps the rows of a run until [`write`](Self::write) puts them into a part. They survive the end of the process.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, rows: &Rows) -> Result<(), Error> {
        let text = serde_json::to_vec(&[rows]).map_err(|error| Error::Failed(error.to_string()))?;
        self.keep_json(&[rows.id()], &text)
    }

    /// The same for the rows of these runs, a list in JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_json(&self, ids: &[&str], rows: &[u8]) -> Result<(), Error> {
        let Some(first) = ids.first() else { return Ok(()) };
        let name = format!("{first}.json");
        let content = [rows, b"\n", checksum(rows).as_bytes()].concat();
        publish(&self.folder.join("pending").join(&name), &content, |_| Ok(()))?;
        lock(&self.pending).extend(ids.iter().map(|id| ((*id).to_owned(), name.clone())));
        Ok(())
    }

    /// Writes the kept rows of these runs as a part, and removes what was kept.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn write(&self, ids: &[&str]) -> Result<(), Error> {
        let file_of = |id: &&str| lock(&self.pending).get(*id).cloned();
        let files: BTreeSet<String> = ids.iter().filter_map(file_of).collect();
        let mut kept = HashMap::new();
        for file in &files {
            let path = self.folder.join("pending").join(file);
            kept.extend(pending_rows(&path)?.into_iter().map(|rows| (rows.id().to_owned(), rows)));
        }
        let not_kept = |id: &str| Error::Failed(format!("{}: no rows of run {id}", self.folder.display()));
        let rows = ids.iter().map(|id| kept.remove(*id).ok_or_else(|| not_kept(id)));
        self.append(&rows.collect::<Result<Vec<_>, _>>()?)?;
        let mut pending = lock(&self.pending);
        ids.iter().for_each(|id| drop(pending.remove(*id)));
        // The study may have been divided into other parts before: a file with runs of another part stays.
        let used: HashSet<&String> = pending.values().filter(|file| files.contains(*file)).collect();
        let unused = files.iter().filter(|file| !used.contains(file));
        unused.map(|file| self.folder.join("pending").join(file)).try_for_each(|path| self.remove(&path))
    }

    /// Writes rows as a part.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn append(&self, rows: &[Rows]) -> Result<(), Error> {
        let ids: Vec<&str> = rows.iter().map(Rows::id).collect();
        let [runs, processes, windows] = &encode(rows)?;
        self.put(&ids, [runs, processes, windows])
    }

    /// Writes a part with the rows of these runs. Its name depends on the runs only, so that the same runs written twice are one part.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn put(&self, ids: &[&str], files: [&[u8]; 3]) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        let name = part_name(ids.iter().copied());
        // The file of runs last: with it the part is complete.
        for (folder, content) in FOLDERS.iter().zip(files).rev().filter(|(_, content)| !content.is_empty()) {
            publish(&self.folder.join(folder).join(&name), content, File::sync_all)?;
        }
        lock(&self.written).extend(ids.iter().map(|id| (*id).to_owned()));
        Ok(())
    }

    /// These columns of all runs in parts.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read_runs(&self, names: &[&str]) -> Result<Vec<Vec<Cell>>, Error> {
        read_runs(&self.folder, names)
    }
}

/// The runs that need no execution. Changes nothing, and another process may write the folder meanwhile.
///
/// # Errors
/// A file cannot be read.
pub fn complete(folder: &Path) -> Result<HashSet<String>, Error> {
    if !folder.join("runs").is_dir() {
        return Ok(HashSet::new());
    }
    let mut complete = HashSet::new();
    // Before the parts, because a file disappears only when its runs are in one.
    for file in files(&folder.join("pending"))? {
        let rows = pending_rows(&folder.join("pending").join(file)).unwrap_or_default();
        complete.extend(rows.iter().map(|rows| rows.id().to_owned()));
    }
    complete.extend(written(folder)?);
    Ok(complete)
}

/// Names of the files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = |error: &std::io::Error| Error::file(folder.display(), error);
    let entries = fs::read_dir(folder).map_err(|error| failed(&error))?;
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(|error| failed(&error))?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

fn pending_rows(path: &Path) -> Result<Vec<Rows>, Error> {
    let text = fs::read(path).map_err(|error| Error::file(path.display(), &error))?;
    let damaged = |problem: &str| Error::Input(format!("{}: {problem}", path.display()));
    let end = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    let (rows, sum) = text.split_at(end);
    if sum.strip_prefix(b"\n") != Some(checksum(rows).as_bytes()) {
        return Err(damaged("is damaged: its checksum is wrong; remove it to repeat its runs"));
    }
    serde_json::from_slice(rows).map_err(|error| damaged(&error.to_string()))
}

/// The checksum of pending rows.
fn checksum(rows: &[u8]) -> String {
    use std::hash::Hasher;
    let mut hasher = FnvHasher::default();
    hasher.write(rows);
    format!("{:016x}", hasher.finish())
}

/// The runs in parts.
///
/// # Errors
/// A part of `runs` cannot be read, or a part of another table that belongs to it.
fn written(folder: &Path) -> Result<HashSet<String>, Error> {
    let mut all = HashSet::new();
    for name in parts(folder)? {
        let path = folder.join("runs").join(&name);
        let part = Part::open(&path)?;
        for table in OTHERS {
            let expected = part.metadata(&count_key(table)).and_then(|rows| rows.parse().ok());
            let Some(expected) = expected.filter(|rows: &i64| *rows > 0) else { continue };
            let of_runs = folder.join(table).join(&name);
            let other = of_runs.exists().then(|| Part::open(&of_runs)).transpose()?;
            let found = other.as_ref().map_or(0, Part::rows);
            if let (Some(other), Some(own)) = (&other, part.metadata(&checksum_key(table)))
                && other.metadata(CHECKSUM).is_none_or(|of| of != own)
            {
                return Err(Error::Input(format!(
                    "{}: has the rows of other runs; remove {} to repeat its runs",
                    of_runs.display(),
                    path.display()
                )));
            }
            if found != expected {
                return Err(Error::Input(format!(
                    "{}: has {found} of the {expected} rows of its runs; remove {} to repeat these runs",
                    of_runs.display(),
                    path.display()
                )));
            }
        }
        let first = part.cells(&["run"])?.into_iter().filter_map(|cells| cells.into_iter().next());
        all.extend(first.filter_map(|cell| if let Cell::Text(id) = cell { Some(id) } else { None }));
    }
    Ok(all)
}

/// These columns of all runs in parts; none in a build without Parquet.
fn read_runs(folder: &Path, names: &[&str]) -> Result<Vec<Vec<Cell>>, Error> {
    let mut all = Vec::new();
    for part in parts(folder)? {
        all.extend(Part::open(&folder.join("runs").join(part))?.cells(names)?);
    }
    Ok(all)
}

/// The files of runs.
fn parts(folder: &Path) -> Result<impl Iterator<Item = String>, Error> {
    Ok(files(&folder.join("runs"))?.into_iter().filter(|file| file.ends_with(".parquet")))
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
