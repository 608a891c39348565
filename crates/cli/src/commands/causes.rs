//! `dwell causes`.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use capture::causes::{Caused, Causes, CausesOptions, CausesReport, Grouping};
use clap::Args;
use elevator::text::counted;
use evaluation::report::format::{bytes, object, percent};

use crate::error::Error;
use crate::input::quantity::some_time;
use crate::interrupt;
use crate::report::table::aligned;

/// Options of `dwell causes`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell causes /dev/sda --for 30s
  dwell causes /dev/sda --cgroups --for 30s --json")]
pub(crate) struct CausesArguments {
    /// Any block device, served or not. For a partition, its disk is observed
    pub(crate) device: PathBuf,
    /// Duration; without it, observe until Ctrl-C
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) during: Option<String>,
    /// Account by cgroup (version 2) instead of by process
    #[arg(long)]
    pub(crate) cgroups: bool,
    /// Dirty folios to remember; 80 bytes each
    #[arg(long, value_name = "N", default_value_t = CausesOptions::default().pages, value_parser = clap::value_parser!(u32).range(1024..=1 << 24))]
    pub(crate) pages: u32,
    /// Accounts to print; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "json")]
    pub(crate) most: usize,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Time between two reads of names and shares; also the longest reaction time to Ctrl-C.
const ROUND: Duration = Duration::from_millis(250);

pub(crate) fn run(arguments: &CausesArguments) -> Result<(), Error> {
    let until = arguments.during.as_deref().map(|text| some_time("--for", text)).transpose()?;
    let grouping = if arguments.cgroups { Grouping::Cgroups } else { Grouping::Processes };
    let mut causes = Causes::open(&arguments.device, &CausesOptions { grouping, pages: arguments.pages })?;
    causes.notes().iter().for_each(|note| say!("{}: {note}", arguments.device.display()));
    capture::lower_priority();
    let begun = Instant::now();
    if until.is_none() {
        say!("observing {}; Ctrl-C ends it", arguments.device.display());
    }
    let left = || until.map_or(ROUND, |until| until.saturating_sub(begun.elapsed()).min(ROUND));
    while !interrupt::requested() && !left().is_zero() {
        std::thread::sleep(left());
        causes.poll()?;
    }
    let report = causes.report()?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        return Ok(writeln!(out, "{}", object(&report)?)?);
    }
    Ok(write!(out, "{}", text(&report, arguments.most))?)
}

/// The report: a table of accounts, then the writes that one process submitted for others.
fn text(report: &CausesReport, most: usize) -> String {
    let heads = ["account", "id", "dirtied", "data", "metadata", "journal", "writes", "share", "read"];
    let most = if most == 0 { usize::MAX } else { most };
    let all = || report.accounts.iter().chain(&report.kernel_threads);
    let rows: Vec<Vec<String>> = all().take(most).map(|caused| row(caused, report.written)).collect();
    let mut lines = vec![aligned(&heads, rows)];
    if all().count() > most {
        lines.push(format!("(and {} more)", all().count() - most));
    }
    for delegated in &report.delegated {
        let part = |(name, bytes): &(String, u64)| format!("{name} {}", share(*bytes, delegated.bytes));
        let mut parts: Vec<String> = delegated.causes.iter().take(5).map(part).collect();
        if delegated.causes.len() > 5 {
            parts.push(format!("and {} more", delegated.causes.len() - 5));
        }
        lines.push(format!(
            "{} wrote {} for others: {}",
            delegated.submitter,
            bytes(delegated.bytes),
            parts.join(", ")
        ));
    }
    lines.push(format!(
        "{} written, {} unattributed ({})",
        bytes(report.written),
        bytes(report.unattributed),
        share(report.unattributed, report.written)
    ));
    if report.lost > 0 {
        lines.push(format!(
            "{} of I/O are in none of these sums, as the kernel's table of 32,768 totals was full; observe for a shorter time (--for), or by --cgroups",
            counted(report.lost, "amount")
        ));
    }
    lines.join("\n") + "\n"
}

fn row(caused: &Caused, written: u64) -> Vec<String> {
    let id = caused.id.map_or_else(|| "kernel".to_owned(), |id| id.to_string());
    let amounts = [caused.dirtied, caused.data.bytes, caused.metadata.bytes, caused.journal.bytes];
    let mut cells = vec![caused.name.clone(), id];
    cells.extend(amounts.map(bytes));
    cells.extend([caused.writes().to_string(), share(caused.written(), written), bytes(caused.read.bytes)]);
    cells
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { percent(part as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use capture::causes::{Amount, Delegated};

    use super::*;

    #[test]
    fn the_table_has_accounts_delegation_and_the_unattributed_share() {
        let amount = |bytes| Amount { bytes, requests: 1 };
        let writer = Caused { data: amount(9000), journal: amount(900), dirtied: 9000, ..Caused::default() };
        let writer = Caused { name: "writer".to_owned(), id: Some(42), ..writer };
        let worker = Caused { name: "kworker".to_owned(), metadata: amount(100), ..Caused::default() };
        let causes = vec![("writer".to_owned(), 900)];
        let journal = Delegated { submitter: "jbd2/loop0-8".to_owned(), bytes: 900, causes };
        let report = CausesReport {
            written: 10_000,
            unattributed: 100,
            accounts: vec![writer],
            kernel_threads: vec![worker],
            delegated: vec![journal],
            lost: 2,
        };
        let text = text(&report, 1);
        assert!(text.contains("\n2 amounts of I/O are in none of these sums"), "{text}");
        assert!(text.contains("writer") && text.contains("99%") && !text.contains("kworker"), "{text}");
        assert!(text.contains("jbd2/loop0-8 wrote 900 B for others: writer 100%"), "{text}");
        assert!(text.contains("(and 1 more)") && text.contains("100 B unattributed (1.0%)"), "{text}");
    }
}
