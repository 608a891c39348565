//! What `compare` and `run` print and write beside their tables.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

use super::report::html;
use super::run::Run;
use super::{Comparison, Explaining};
use crate::arguments::{ExplainFormat, Output};
use crate::error::{Error, can_be_written};

/// Requests that a picture holds.
const PICTURE: usize = 20_000;

impl Output {
    /// Points of the picture that the report wants.
    pub(crate) const fn picture(&self) -> usize {
        if self.report.is_some() { PICTURE } else { 0 }
    }

    /// How far so many runs are, for somebody who watches.
    pub(crate) fn bar(&self, runs: usize) -> ProgressBar {
        let shown = !self.quiet && std::io::stderr().is_terminal();
        let bar = if shown { ProgressBar::new(runs as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)") {
            bar.set_style(style);
        }
        bar
    }

    /// Says beforehand that what is asked for beside the table could not be written.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.json && self.explain.as_deref() == Some(Path::new("-")) {
            let problem = "--json prints one object and nothing else: name a file for --explain";
            return Err(Error::Usage(problem.to_owned()));
        }
        let explain = self.explain.as_deref().filter(|path| *path != Path::new("-"));
        self.report.as_deref().into_iter().chain(explain).try_for_each(can_be_written)
    }

    /// Whether and how decisions are to be written down.
    pub(crate) fn explaining(&self) -> Option<Explaining> {
        let path = self.explain.as_deref()?;
        // Where they are to be in the end there should be room for them; behind a pipe or a terminal there is none.
        let is_file = path != Path::new("-") && path.metadata().map_or(true, |found| found.is_file());
        let folder = path.parent().filter(|_| is_file).map_or_else(std::env::temp_dir, Path::to_owned);
        Some(Explaining { format: self.explain_format, folder })
    }

    /// What was understood, before anything runs.
    pub(crate) fn say(&self, comparison: &Comparison) {
        if self.quiet {
            return;
        }
        eprintln!("{}", comparison.workload);
        comparison.notes().iter().for_each(|note| eprintln!("{note}"));
    }

    /// Says which runs failed, and writes what was asked for beside the table; explanations to `out`, where the table went, if
    /// their file is `-`.
    pub(crate) fn write(
        &self,
        comparison: &Comparison,
        runs: &[Run],
        ranked: &[&Run],
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        for run in runs {
            if let Some(failure) = &run.failure {
                eprintln!("{}: {failure}", run.scheduler);
            }
        }
        if let Some(path) = &self.report {
            std::fs::write(path, html(comparison, ranked)).map_err(|e| Error::written(path.display(), &e))?;
            if !self.quiet {
                eprintln!("report: {}", path.display());
            }
        }
        let titled = runs.len() > 1 && self.explain_format == ExplainFormat::Text;
        self.explain.as_deref().map_or(Ok(()), |path| explain_to(path, runs, titled, out))
    }
}

/// Writes down what each run's decisions were, with its name above them if they are `titled`.
fn explain_to(path: &Path, runs: &[Run], titled: bool, out: &mut dyn Write) -> Result<(), Error> {
    let failed = |error: &std::io::Error| match error.kind() {
        ErrorKind::BrokenPipe => Error::Pipe,
        _ => Error::written(path.display(), error),
    };
    let mut file;
    let out: &mut dyn Write = if path == Path::new("-") {
        out
    } else {
        file = File::create(path).map_err(|e| failed(&e))?;
        &mut file
    };
    for run in runs {
        if titled {
            writeln!(out, "# {}", run.scheduler).map_err(|e| failed(&e))?;
        }
        run.explanation.copy_to(out).map_err(|e| failed(&e))?;
    }
    Ok(())
}
