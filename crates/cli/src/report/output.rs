//! The output of `compare` and `run`: tables, report and decision log.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use elevator::queue::{Identity, Options};
use evaluation::explain::{ExplainFormat, Explaining};
use evaluation::runs::Run;
use indicatif::{ProgressBar, ProgressStyle};

use super::columns::csv;
use super::comparison::Comparison;
use super::html::html;
use super::layout::{DEFAULT_WIDTH, Style, is_coloured, width};
use super::ranking::Ranking;
use super::table::results;
use crate::error::Error;
use crate::input::shared_args::{ExplainFormatName, Output};
use crate::interrupt;
use crate::output_file::{self, Generated, check_distinct, check_generated, created};

/// Limit of requests in the chart of the head.
const PICTURE: usize = 10_000;

impl Output {
    /// Requests to keep for the report's chart of the head.
    pub(crate) const fn chart_requests(&self) -> usize {
        if self.report.is_some() { PICTURE } else { 0 }
    }

    /// A progress bar for this number of runs, on a terminal.
    pub(crate) fn bar(&self, runs: usize) -> ProgressBar {
        let shown = !self.quiet && std::io::stderr().is_terminal();
        let bar = if shown { ProgressBar::new(runs as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)") {
            bar.set_style(style);
        }
        bar
    }

    /// Whether standard output is the decision log's alone, because a program may read it.
    fn explains_to_stdout(&self) -> bool {
        self.explain.as_deref() == Some(Path::new("-"))
    }

    /// Prints a table on standard output, or on standard error if standard output is the decision log's.
    pub(crate) fn print(&self, table: &str) -> Result<(), Error> {
        if !self.explains_to_stdout() {
            writeln!(std::io::stdout().lock(), "{table}")?;
        } else if !self.quiet {
            say!("{table}");
        }
        Ok(())
    }

    /// How tables are printed.
    pub(crate) fn style(&self) -> Style {
        if self.markdown {
            return Style::Markdown;
        }
        let (found, colour) = match self.explains_to_stdout() {
            true => (width(std::io::stderr()), is_coloured(&std::io::stderr())),
            false => (width(std::io::stdout()), is_coloured(&std::io::stdout())),
        };
        Style::Text { width: (!self.wide).then(|| found.unwrap_or(DEFAULT_WIDTH)), colour }
    }

    /// Prints the results: the table of schedulers, and the tables that `more` adds below it. CSV has the first only.
    pub(crate) fn results(&self, ranking: &Ranking<'_>, more: &[String]) -> Result<(), Error> {
        if self.csv {
            return self.print(&csv(ranking));
        }
        self.print(&results(ranking, self.style()))?;
        more.iter().try_for_each(|table| self.print(&format!("\n{table}")))
    }

    /// Checks that the report and the decision log can be written, and are no inputs. Names in `inputs` that are no files are ignored.
    pub(crate) fn check<'a>(&self, inputs: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        if self.json && self.explains_to_stdout() {
            let problem =
                "--json uses standard output for one object; write the log to a file with --explain FILE";
            return Err(Error::Usage(problem.to_owned()));
        }
        let explain = self.explain.as_deref().filter(|path| *path != Path::new("-"));
        let named = |option: &'static str| move |path| (option, path);
        let report = self.report.as_deref().map(named("--report"));
        let outputs: Vec<(&str, &Path)> = report.into_iter().chain(explain.map(named("--explain"))).collect();
        check_distinct(&outputs, &inputs.into_iter().map(Path::new).collect::<Vec<_>>())?;
        let kind = |option| if option == "--report" { Generated::Report } else { Generated::Log };
        outputs.iter().try_for_each(|&(option, path)| check_generated(path, kind(option)))
    }

    /// How to log decisions, if wanted.
    pub(crate) fn explaining(&self) -> Option<Explaining> {
        let path = self.explain.as_deref()?;
        // The temporary files go to the file system of the log, which should have room for them; a pipe or terminal has none.
        let is_file = !self.explains_to_stdout() && path.metadata().map_or(true, |found| found.is_file());
        let folder = path.parent().filter(|_| is_file).map_or_else(std::env::temp_dir, Path::to_owned);
        Some(Explaining { format: self.explain_format.into(), folder })
    }

    /// Prints the description before the runs.
    pub(crate) fn say(&self, comparison: &Comparison) {
        if self.quiet {
            comparison.missing.iter().for_each(|line| say!("{line}"));
            return;
        }
        say!("{}", comparison.workload);
        comparison.notes().iter().for_each(|note| say!("{note}"));
    }

    /// Prints failures, and writes the report and the decision log.
    pub(crate) fn write(
        &self,
        comparison: &Comparison,
        runs: &[Run],
        ranking: &Ranking<'_>,
    ) -> Result<(), Error> {
        for run in runs {
            if let Some(failure) = &run.failure {
                say!("{}: {failure}", run.scheduler);
            }
        }
        if let Some(path) = &self.report {
            output_file::write(path, html(comparison, ranking).as_bytes())?;
            if !self.quiet {
                say!("report: {}", path.display());
            }
        }
        let titled = runs.len() > 1 && self.explain_format == ExplainFormatName::Text;
        self.explain.as_deref().map_or(Ok(()), |path| explain_to(path, runs, titled))
    }
}

/// Writes the decision log of each run, below the scheduler's name if `titled`.
fn explain_to(path: &Path, runs: &[Run], titled: bool) -> Result<(), Error> {
    let failed = |error: &std::io::Error| match error.kind() {
        ErrorKind::BrokenPipe => Error::Pipe,
        _ => Error::written(path.display(), error),
    };
    let mut out = created(path)?;
    for run in runs {
        if titled {
            writeln!(out, "# {}", run.scheduler).map_err(|e| failed(&e))?;
        }
        run.explanation.copy_to(&mut out).map_err(|e| failed(&e))?;
    }
    out.complete().map_err(|e| failed(&e))
}

/// The error to end with after the results: an interruption, or no run succeeded.
pub(crate) fn ended(workload: &str, runs: &[Run]) -> Result<(), Error> {
    if interrupt::requested() {
        return Err(Error::Interrupted);
    }
    if runs.iter().all(|run| run.failure.is_some()) {
        return Err(Error::Failed(format!("{workload}: every run failed; see the messages above")));
    }
    Ok(())
}

/// A queue in one line.
pub(crate) fn describe(options: &Options) -> String {
    let identity = match options.identity {
        Identity::Shown => "processes shown",
        Identity::Hidden => "processes hidden",
        Identity::Same => "all requests from one process",
    };
    format!(
        "depth {}, {} requests a direction, merges up to {} KiB, {identity}",
        options.depth,
        options.limits.nr_requests,
        options.max_sectors.bytes() >> 10
    )
}

impl From<ExplainFormatName> for ExplainFormat {
    fn from(name: ExplainFormatName) -> Self {
        match name {
            ExplainFormatName::Text => Self::Text,
            ExplainFormatName::Jsonl => Self::Jsonl,
        }
    }
}
