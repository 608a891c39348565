//! `dwell study`: a matrix of runs on the model, on all cores, with results in Parquet files.

mod python;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use elevator::text::counted;
use evaluation::report::format::printable;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use schedulers::registry::Catalogue;
use study::{Copies, Executor, Run, Store, Study, Summary, drive, problem_lines};

use crate::error::Error;
use crate::output_file::{self, Generated, check_distinct, check_generated};
use crate::report::{Style, Table, Tone, quoted, text_style, wrapped};

/// Options of `dwell study`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell study study.toml                             results in the folder study, table of regret and Pareto front
  dwell study study.toml --dry-run                   list the runs
  dwell study study.toml --out /data/s --only 'on ssd-sata' --report s.html
  dwell study study.toml --on tcp://scheduler:8786   the runs on a Dask cluster
After Ctrl-C or a crash, the same command continues: complete runs are not repeated.")]
pub(crate) struct StudyArguments {
    /// The study file (TOML); docs/study.md describes it
    file: PathBuf,
    /// The folder of the results. Default: the study file's name without its extension
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// List the runs and what is complete; execute nothing
    #[arg(long)]
    dry_run: bool,
    /// Only runs whose line in --dry-run contains this; repeatable, all must match
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Threads. Default: one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    jobs: Option<u32>,
    /// Execute the runs on the Dask cluster with this scheduler, such as tcp://scheduler:8786; needs the Python package (docs/python.md)
    #[arg(long, value_name = "ADDRESS", conflicts_with = "jobs", value_parser = NonEmptyStringValueParser::new())]
    on: Option<String>,
    /// Write the report with the Pareto front of each cell: an HTML file that opens offline, or Markdown (.md)
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    report: Option<PathBuf>,
    /// Print the table as CSV, with all columns and digits
    #[arg(long)]
    csv: bool,
    /// Print the table as Markdown
    #[arg(long, conflicts_with = "csv")]
    markdown: bool,
    /// Print all columns, however wide the table becomes. Default: those that fit the terminal, or 80 columns. Other formats always have all columns
    #[arg(long, conflicts_with_all = ["csv", "markdown"])]
    wide: bool,
    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &StudyArguments, catalogue: Catalogue) -> Result<(), Error> {
    let study = Study::read(&arguments.file)?;
    let addresses = study.addresses();
    let copies = if addresses.is_empty() { Copies::new() } else { python::copies(&addresses)? };
    let study = study.with_copies(copies.clone());
    let mut runs = study.runs(catalogue)?;
    runs.retain(|run| arguments.only.iter().all(|only| run.line().contains(only.as_str())));
    if runs.is_empty() {
        return Err(Error::Usage("no run matches --only; --dry-run lists the runs".to_owned()));
    }
    if !arguments.quiet {
        study.depth_notes(&runs)?.iter().for_each(|note| say!("{}: {note}", arguments.file.display()));
    }
    let out = out(arguments)?;
    if arguments.dry_run {
        return list(&runs, &out);
    }
    if let Some(path) = &arguments.report {
        if path == Path::new("-") {
            let problem = "--report -: standard output has the table; name a file";
            return Err(Error::Usage(problem.to_owned()));
        }
        check_distinct(&[("--report", path)], &[&arguments.file])?;
        check_generated(path, Generated::StudyReport)?;
    }
    if !arguments.quiet {
        say!("{}: {}", arguments.file.display(), Study::describe(&runs));
    }
    let (store, problems) = match &arguments.on {
        Some(address) => {
            let on = python::On { address, file: &arguments.file, out: &out, copies: &copies };
            let problems = python::execute(&on, &arguments.only, arguments.quiet)?;
            (Store::open(&out)?, problems)
        }
        None => execute(arguments, &runs, &out, catalogue)?,
    };
    let summary = Summary::of(&runs, &store, &problems)?;
    print(arguments, &summary)?;
    summary.omissions.iter().for_each(|line| say!("{line}"));
    if let Some(path) = &arguments.report {
        write_report(path, &arguments.file, &summary)?;
    }
    match runs.iter().filter(|run| !store.has(&run.id)).count() {
        0 => Ok(()),
        failed => {
            let problem = "could not be executed; the same command tries again";
            Err(Error::Failed(format!("{} {problem}", counted(failed as u64, "run"))))
        }
    }
}

/// The lines of runs that could not be executed, and the reasons.
type Problems = Vec<(String, String)>;

/// Executes the missing runs on this machine and prints the reasons of those that cannot be executed.
fn execute(
    arguments: &StudyArguments,
    runs: &[Run],
    out: &Path,
    catalogue: Catalogue,
) -> Result<(Store, Problems), Error> {
    let store = Store::open(out)?;
    let missing = runs.iter().filter(|run| !store.has(&run.id)).count();
    let bar = bar(missing, arguments.quiet);
    let said = Mutex::new(Instant::now());
    let threads = arguments
        .jobs
        .map_or_else(|| thread::available_parallelism().map_or(1, usize::from), |jobs| jobs as usize);
    let ended = drive(runs, &Executor::new(catalogue), &store, threads, &|run| {
        bar.set_message(printable(&run.workload.name).into_owned());
        bar.inc(1);
        if !arguments.quiet
            && bar.is_hidden()
            && is_due(&mut said.lock().unwrap_or_else(PoisonError::into_inner))
        {
            let (done, all) = (bar.position(), missing as u64);
            // A hidden bar does not estimate.
            let left = bar.elapsed().mul_f64((all - done) as f64 / done as f64);
            say!("{done} of {} executed, about {} left", counted(all, "run"), HumanDuration(left));
        }
    });
    bar.finish_and_clear();
    let ended = ended?;
    let problems: Problems =
        ended.errors.iter().map(|(run, error)| (run.line(), error.to_string())).collect();
    problem_lines(&problems).iter().for_each(|line| say!("{line}"));
    if !arguments.quiet {
        let executed = counted(ended.executed as u64, "run");
        say!("{executed} executed, {} complete before; results in {}", ended.skipped, out.display());
    }
    if ended.interrupted {
        return Err(Error::Suspended);
    }
    Ok((store, problems))
}

fn out(arguments: &StudyArguments) -> Result<PathBuf, Error> {
    let default = arguments.file.with_extension("");
    let out = arguments.out.clone().unwrap_or(default);
    if out == arguments.file || out.is_file() {
        return Err(Error::Usage(format!("{}: is a file; name a folder with --out", out.display())));
    }
    if out.to_string_lossy().contains("://") {
        let problem = "is an address, and results are written to a folder of this machine; name a folder";
        return Err(Error::Usage(format!("--out {}: {problem}", out.display())));
    }
    Ok(out)
}

fn list(runs: &[Run], out: &Path) -> Result<(), Error> {
    let complete = study::complete(out)?;
    let is_complete = |run: &&Run| complete.contains(&run.id);
    let mut stdout = std::io::stdout().lock();
    for run in runs {
        let mark = if is_complete(&run) { "complete" } else { "missing " };
        writeln!(stdout, "{} {mark} {}", run.id, run.line())?;
    }
    writeln!(stdout, "{}, {} complete", Study::describe(runs), runs.iter().filter(is_complete).count())?;
    Ok(())
}

/// Time between lines of progress that are not shown on a terminal: those of a batch job are in a file.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Whether the next line of progress is due; then this one is the latest.
fn is_due(latest: &mut Instant) -> bool {
    let is_due = latest.elapsed() >= LINE_INTERVAL;
    if is_due {
        *latest = Instant::now();
    }
    is_due
}

fn bar(runs: usize, quiet: bool) -> ProgressBar {
    let shown = !quiet && std::io::stderr().is_terminal();
    let bar = if shown { ProgressBar::new(runs as u64) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)") {
        bar.set_style(style);
    }
    bar
}

/// Columns of the table from the second, in the order of importance.
const ORDER: [usize; 8] = [1, 3, 4, 5, 2, 6, 7, 8];

fn print(arguments: &StudyArguments, summary: &Summary) -> Result<(), Error> {
    let style = match text_style() {
        _ if arguments.markdown => Style::Markdown,
        Style::Text { colour, .. } if arguments.wide => Style::Text { width: None, colour },
        style => style,
    };
    let text = if arguments.csv { csv(summary) } else { in_words(summary, style) };
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// The table, the meaning of its columns, and what it lacks.
fn in_words(summary: &Summary, style: Style) -> String {
    let (heads, rows) = summary.table();
    let gaps = |width| -> String {
        summary.gaps.iter().map(|line| format!("\n\n{}", wrapped(line, width).join("\n"))).collect()
    };
    if rows.is_empty() {
        return format!("no run has a result{}", gaps(None));
    }
    let mut table = Table::new(heads.iter().map(|head| head.replacen(' ', "\n", 1)));
    rows.into_iter().for_each(|row| table.row(Tone::Plain, row));
    let width = if let Style::Text { width, .. } = style { width } else { None };
    let more = match table.fit(width, &ORDER) {
        0 => String::new(),
        removed => format!(" {}: --wide.", counted(removed as u64, "more column")),
    };
    let legend = format!("{}{more}", Summary::legend());
    format!("{}\n\n{}{}", table.print(style), wrapped(&legend, width).join("\n"), gaps(width))
}

/// The table with all digits: shares of 1, and latency over the least one. The first line names the columns.
fn csv(summary: &Summary) -> String {
    let mut text = "scheduler,mean_regret,cells_within_3_percent,cells,worst_regret,throughput,p99,cells_on_front,is_on_front,failures,worst_cell".to_owned();
    let share = |share: f64, cells: usize| {
        if cells > 0 && share.is_finite() { share.to_string() } else { String::new() }
    };
    for one in &summary.schedulers {
        let cells = [
            one.name.clone(),
            share(one.mean_regret, one.cells),
            one.within_3_percent.to_string(),
            one.cells.to_string(),
            share(one.worst_regret, one.cells),
            share(one.throughput, 1),
            share(one.p99, 1),
            one.fronts.to_string(),
            one.on_front.to_string(),
            one.failures.to_string(),
            one.worst_cell.clone(),
        ];
        text += "\n";
        text += &cells.map(quoted).join(",");
    }
    text
}

fn write_report(path: &Path, file: &Path, summary: &Summary) -> Result<(), Error> {
    let title = format!("Study {}", file.display());
    // Also a file that is called '.md', which has no extension.
    let is_markdown = path.to_string_lossy().to_ascii_lowercase().ends_with(".md");
    let text = if is_markdown { summary.markdown(&title) } else { summary.html(&title) };
    output_file::write(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let one = |name: &str, worst: f64| study::Scheduler {
            name: name.to_owned(),
            cells: 12,
            mean_regret: worst / 2.0,
            within_3_percent: 3,
            worst_regret: worst,
            worst_cell: "a-long-recording.ftrace.gz on wd5000aaks{seek_full=20ms}, depth 31, identity hidden"
                .to_owned(),
            throughput: 0.5,
            p99: 3.25,
            on_front: true,
            fronts: 4,
            failures: 0,
        };
        Summary {
            schedulers: vec![one("noop", 0.25), one("stream(deadline-2.6.32{fifo_batch=8})", 1.5)],
            gaps: vec![format!("2 cells without regret: {}", "a reason ".repeat(20))],
            ..Summary::default()
        }
    }

    /// Regression: the table was 137 columns wide, with lines of 380 characters below, whatever the width of the terminal.
    #[test]
    fn the_table_fits_the_terminal() {
        let printed = |width| in_words(&summary(), Style::Text { width, colour: false });
        for width in [60, 80, 100] {
            let text = printed(Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(text.contains("regret") && text.contains(" more column"), "{text}");
        }
        let wide = printed(None);
        assert!(wide.contains("identity hidden") && !wide.contains("--wide"), "{wide}");
    }

    #[test]
    fn csv_has_all_columns_and_digits() {
        let text = csv(&summary());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("scheduler,mean_regret,"), "{text}");
        let start = "noop,0.125,3,12,0.25,0.5,3.25,4,true,0,\"a-long-recording.ftrace.gz on ";
        assert!(lines.len() == 3 && lines[1].starts_with(start), "{text}");
    }
}
