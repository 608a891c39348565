//! What `compare` and `run` print and write beside their tables.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

use super::Comparison;
use super::report::html;
use super::run::Run;
use crate::arguments::Output;
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
        let explain = self.explain.as_deref().filter(|path| *path != Path::new("-"));
        self.report.as_deref().into_iter().chain(explain).try_for_each(can_be_written)
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
        self.explain.as_deref().map_or(Ok(()), |path| explain_to(path, runs, out))
    }
}

/// Writes down what each run's decisions were.
fn explain_to(path: &Path, runs: &[Run], out: &mut dyn Write) -> Result<(), Error> {
    let mut file;
    let out: &mut dyn Write = if path == Path::new("-") {
        out
    } else {
        file = File::create(path).map_err(|e| Error::written(path.display(), &e))?;
        &mut file
    };
    for run in runs {
        if runs.len() > 1 && !run.explanation.starts_with(b"{") {
            writeln!(out, "# {}", run.scheduler)?;
        }
        out.write_all(&run.explanation)?;
    }
    Ok(())
}
