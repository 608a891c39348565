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
use crate::terminal::width;

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

    /// Whether standard output is the explanations', and nobody else's: a program may read them there.
    fn explains_to_stdout(&self) -> bool {
        self.explain.as_deref() == Some(Path::new("-"))
    }

    /// Prints a table for people: beside the notes, where standard output is the explanations'.
    pub(crate) fn print(&self, table: &str) -> Result<(), Error> {
        if !self.explains_to_stdout() {
            writeln!(std::io::stdout().lock(), "{table}")?;
        } else if !self.quiet {
            say!("{table}");
        }
        Ok(())
    }

    /// How wide a table may be where it is printed, if there is a bound.
    pub(crate) fn width(&self) -> Option<usize> {
        if self.explains_to_stdout() { width(std::io::stderr()) } else { width(std::io::stdout()) }
    }

    /// Says beforehand that what is asked for beside the table could not be written.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.json && self.explains_to_stdout() {
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
        let is_file = !self.explains_to_stdout() && path.metadata().map_or(true, |found| found.is_file());
        let folder = path.parent().filter(|_| is_file).map_or_else(std::env::temp_dir, Path::to_owned);
        Some(Explaining { format: self.explain_format, folder })
    }

    /// What was understood, before anything runs.
    pub(crate) fn say(&self, comparison: &Comparison) {
        if self.quiet {
            comparison.missing.iter().for_each(|line| say!("{line}"));
            return;
        }
        say!("{}", comparison.workload);
        comparison.notes().iter().for_each(|note| say!("{note}"));
    }

    /// Says which runs failed, and writes what was asked for beside the table.
    pub(crate) fn write(&self, comparison: &Comparison, runs: &[Run], ranked: &[&Run]) -> Result<(), Error> {
        for run in runs {
            if let Some(failure) = &run.failure {
                say!("{}: {failure}", run.scheduler);
            }
        }
        if let Some(path) = &self.report {
            std::fs::write(path, html(comparison, ranked)).map_err(|e| Error::written(path.display(), &e))?;
            if !self.quiet {
                say!("report: {}", path.display());
            }
        }
        let titled = runs.len() > 1 && self.explain_format == ExplainFormat::Text;
        self.explain.as_deref().map_or(Ok(()), |path| explain_to(path, runs, titled))
    }
}

/// Writes down what each run's decisions were, with its name above them if they are `titled`.
fn explain_to(path: &Path, runs: &[Run], titled: bool) -> Result<(), Error> {
    let failed = |error: &std::io::Error| match error.kind() {
        ErrorKind::BrokenPipe => Error::Pipe,
        _ => Error::written(path.display(), error),
    };
    let mut out: Box<dyn Write> = if path == Path::new("-") {
        Box::new(std::io::stdout().lock())
    } else {
        Box::new(File::create(path).map_err(|e| failed(&e))?)
    };
    for run in runs {
        if titled {
            writeln!(out, "# {}", run.scheduler).map_err(|e| failed(&e))?;
        }
        run.explanation.copy_to(&mut *out).map_err(|e| failed(&e))?;
    }
    Ok(())
}
