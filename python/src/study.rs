//! Studies: the list of runs, their execution, and the folder of results. The Python part distributes runs to other processes.

use std::path::{Path, PathBuf};

use ::study::{Copies, Executor as RunExecutor, Run, Study, Summary, drive};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use schedulers::registry::Catalogue;

use crate::background::{in_background, in_background_until};
use crate::error::{contained, input};

/// The runs of a study, in order.
#[pyclass(frozen, module = "dwell._native")]
pub(crate) struct Runs {
    runs: Vec<Run>,
    /// The depths that are reduced to the drive's.
    notes: Vec<String>,
}

#[pymethods]
impl Runs {
    /// Runs per part of the results.
    fn part_size(&self) -> usize {
        ::study::part_size(self.runs.len())
    }

    /// Expands the text of a study file; `name` is the file's name in errors, and paths are relative to `folder`. `copies` has the local copies of
    /// what addresses name.
    #[staticmethod]
    fn parse(py: Python<'_>, name: &str, text: String, folder: &str, copies: Copies) -> PyResult<Self> {
        let (name, folder) = (name.to_owned(), PathBuf::from(folder));
        in_background(py, move || {
            let study = Study::parse(&name, text, &folder).map_err(input)?.with_copies(copies);
            let runs = study.runs(Catalogue::default()).map_err(input)?;
            let notes = study.depth_notes(&runs).map_err(input)?;
            let notes = notes.iter().map(|note| format!("{name}: {note}"));
            Ok(Self { runs, notes: notes.collect() })
        })
    }

    /// The runs whose line contains all of these texts.
    fn only(&self, texts: Vec<String>) -> Self {
        let matches = |run: &&Run| {
            let line = run.line();
            texts.iter().all(|text| line.contains(text.as_str()))
        };
        Self { runs: self.runs.iter().filter(matches).cloned().collect(), notes: self.notes.clone() }
    }

    /// The runs for other processes, which have other working directories and read addresses themselves.
    fn remote(&self) -> Self {
        Self { runs: self.runs.iter().map(Run::elsewhere).collect(), notes: self.notes.clone() }
    }

    fn __len__(&self) -> usize {
        self.runs.len()
    }

    /// The depths that are reduced to the drive's.
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// The identifiers.
    fn ids(&self) -> Vec<String> {
        self.runs.iter().map(|run| run.id.clone()).collect()
    }

    /// Of rows with the number of a run, and the names of workload, drive and machine and the failure at the time of the run: these four with the present names.
    fn renamed(
        &self,
        rows: Vec<(usize, ::study::Names, Option<String>)>,
    ) -> PyResult<Vec<(::study::Names, Option<String>)>> {
        let row = |(index, stored, failure): (usize, ::study::Names, Option<String>)| {
            let run = self.runs.get(index).ok_or_else(|| PyIndexError::new_err("no such run"))?;
            let failure = failure.map(|failure| run.renamed(&failure, &stored));
            Ok((run.names(stored), failure))
        };
        rows.into_iter().map(row).collect()
    }

    /// The descriptions of runs as JSON, from which another process executes them.
    fn json<'py>(&self, py: Python<'py>, indices: Vec<usize>) -> PyResult<Bound<'py, PyBytes>> {
        let runs = indices.iter().map(|&index| self.runs.get(index)).collect::<Option<Vec<_>>>();
        let runs = runs.ok_or_else(|| PyIndexError::new_err("no such run"))?;
        Ok(PyBytes::new(py, &serde_json::to_vec(&runs).map_err(input)?))
    }

    /// A run in one line.
    fn line(&self, index: usize) -> PyResult<String> {
        self.runs.get(index).map(Run::line).ok_or_else(|| PyIndexError::new_err("no such run"))
    }

    /// The study in one line.
    fn describe(&self) -> String {
        Study::describe(&self.runs)
    }
}

/// The rows of runs.
#[pyclass(module = "dwell._native")]
#[derive(Default)]
pub(crate) struct Rows(Vec<::study::Rows>);

#[pymethods]
impl Rows {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// As JSON.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &serde_json::to_vec(&self.0).map_err(input)?))
    }

    /// As the Parquet files of a part: runs, processes, windows.
    fn part<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyBytes>; 3]> {
        let files = in_background(py, || ::study::encode(&self.0).map_err(input))?;
        Ok(files.map(|content| PyBytes::new(py, &content)))
    }
}

/// Executes runs, and keeps the last workloads.
#[pyclass(frozen, module = "dwell._native")]
pub(crate) struct Executor(RunExecutor);

#[pymethods]
impl Executor {
    #[new]
    fn new() -> Self {
        Self(RunExecutor::new(Catalogue::default()))
    }

    /// Executes a run and appends its rows, which depend on the description only. A true result of `stopped`, which is called several times a
    /// second, ends the run with an error.
    #[pyo3(signature = (run, rows, stopped = None))]
    fn execute(
        &self,
        py: Python<'_>,
        run: &str,
        rows: &Bound<'_, Rows>,
        stopped: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let run: Run = serde_json::from_str(run).map_err(input)?;
        let done = in_background_until(py, stopped.as_ref(), || {
            self.0.execute(&run).map_err(|error| input(format!("{}: {error}", run.line())))
        })?;
        rows.borrow_mut().0.push(done);
        Ok(())
    }
}

/// A folder of results.
#[pyclass(frozen, module = "dwell._native")]
pub(crate) struct Store(::study::Store);

#[pymethods]
impl Store {
    #[new]
    fn open(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        in_background(py, || ::study::Store::open(&folder).map(Self).map_err(input))
    }

    /// Lets other processes and calls write the folder. This object may live longer: an exception that a notebook keeps has the frames that refer to it.
    fn close(&self) {
        self.0.unlock();
    }

    /// Whether the run needs no execution.
    fn has(&self, id: &str) -> bool {
        self.0.has(id)
    }

    /// Whether the run is in a part.
    fn is_written(&self, id: &str) -> bool {
        self.0.is_written(id)
    }

    /// Keeps the rows (JSON) of these runs until they are written.
    fn keep(&self, ids: Vec<String>, rows: &[u8]) -> PyResult<()> {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        contained(|| self.0.keep_json(&ids, rows).map_err(input))
    }

    /// Writes a part with the rows of these runs, from the contents of its files.
    fn put(
        &self,
        py: Python<'_>,
        ids: Vec<String>,
        runs: &[u8],
        processes: &[u8],
        windows: &[u8],
    ) -> PyResult<()> {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        in_background(py, || self.0.put(&ids, [runs, processes, windows]).map_err(input))
    }

    /// Writes the kept rows of these runs as a part.
    fn write(&self, py: Python<'_>, ids: Vec<String>) -> PyResult<()> {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        in_background(py, || self.0.write(&ids).map_err(input))
    }
}

/// Executes the missing runs on this machine. Returns the number of runs executed and complete before, and the lines and errors of others.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn execute(
    py: Python<'_>,
    runs: &Bound<'_, Runs>,
    store: &Bound<'_, Store>,
    threads: usize,
) -> PyResult<(usize, usize, Vec<(String, String)>)> {
    let (runs, store) = (&runs.get().runs, &store.get().0);
    in_background(py, || {
        let executor = RunExecutor::new(Catalogue::default());
        let ended = drive(runs, &executor, store, threads, &|_| ()).map_err(input)?;
        let errors = ended.errors.iter().map(|(run, error)| (run.line(), error.to_string()));
        Ok((ended.executed, ended.skipped, errors.collect()))
    })
}

/// The addresses, and patterns of addresses, in the text of a study file.
#[pyfunction]
pub(crate) fn addresses(name: &str, text: String) -> PyResult<Vec<String>> {
    contained(|| Ok(Study::parse(name, text, Path::new(".")).map_err(input)?.addresses()))
}

/// The summary of the runs that a folder has: heads and rows of the table, a legend, an HTML page with the title, why runs were not executed or failed,
/// why cells have no regret, and what recordings lack. `problems` has the lines and errors of runs that were not executed.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn summary(
    py: Python<'_>,
    runs: &Bound<'_, Runs>,
    store: &Bound<'_, Store>,
    title: &str,
    problems: Vec<(String, String)>,
) -> PyResult<(Vec<String>, Vec<Vec<String>>, String, String, Vec<String>)> {
    let (runs, store) = (&runs.get().runs, &store.get().0);
    in_background(py, || {
        let summary = Summary::of(runs, store, &problems).map_err(input)?;
        let (heads, rows) = summary.table();
        let heads = heads.into_iter().map(str::to_owned).collect();
        let page = summary.html(title);
        let notes = summary.gaps.into_iter().chain(summary.omissions).collect();
        Ok((heads, rows, Summary::legend().to_owned(), page, notes))
    })
}

/// The SHA-256 of a file, as study results have it.
#[pyfunction]
pub(crate) fn sha256(path: &str) -> PyResult<String> {
    let input_file = ::study::Input::file(path, Path::new(path)).map_err(input)?;
    Ok(input_file.sha256.unwrap_or_default())
}
