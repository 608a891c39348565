//! `dwell ctl`.

use clap::{Args, Subcommand};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::path::PathBuf;

use comfy_table::{Table, presets};
use elevator::text::{counted, did_you_mean};
use schedulers::registry::Catalogue;
use serde_json::Value;
use server::control::protocol::{AccountState, ArrayState, ItemState, State};
use server::control::{Client, is_removed, problem, process_for};

use crate::error::Error;
use crate::input::account_terms::without_effect;
use crate::input::quantity::some_time;
use crate::input::scheduler_arg;
use crate::report::table::aligned;
use crate::report::{fitted, table_of_texts, text_width};
use evaluation::report::format::{bytes, object, time};

/// Options of `dwell ctl`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell ctl /run/dwell/disk.ctl show
  dwell ctl /run/dwell/disk.ctl switch 'stream(deadline)'
  dwell ctl /run/dwell/disk.ctl tune stream_time_slice 50ms")]
pub(crate) struct CtlArguments {
    /// The control socket of 'dwell serve --control'
    pub(crate) socket: PathBuf,
    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CtlCommand {
    /// Print queue, latencies, the scheduler with its streams or groups, and tunables
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/disk.ctl show --json")]
    Show {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the state in Prometheus text format
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/disk.ctl metrics")]
    Metrics,
    /// Switch to another scheduler; queued requests move to it
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/disk.ctl switch 'stream(deadline)'")]
    Switch {
        /// A scheduler with tunables in braces, or a TOML file (scheduler = "...", one tunable per line)
        scheduler: String,
        /// Drain the queue first, as Linux does
        #[arg(long)]
        drain: bool,
    },
    /// Set a tunable of the scheduler
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/disk.ctl tune stream_time_slice 50ms")]
    Tune {
        /// Name of the tunable
        tunable: String,
        /// Value with its unit
        value: String,
    },
    /// Write a decision log for a limited time
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/disk.ctl log decisions.log --for 10s")]
    Log {
        /// A new file
        file: PathBuf,
        /// Duration in the device's time, e.g. 10s; with 'serve --speed 10' that is one second of real time
        #[arg(long = "for", default_value = "10s")]
        during: String,
    },
    /// Print the members of an array ('dwell serve --member'), and what its coordinator does
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/md0.ctl array")]
    Array {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Fail or replace a member of an array
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/md0.ctl member fail 2
  dwell ctl /run/dwell/md0.ctl member replace 2 /dev/sdX")]
    Member {
        #[command(subcommand)]
        command: MemberCommand,
    },
    /// Stop the server
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/disk.ctl stop")]
    Stop,
}

#[derive(Subcommand, Debug)]
pub(crate) enum MemberCommand {
    /// Stop serving a member; its users get errors, as if the disk were removed
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/md0.ctl member fail 2")]
    Fail {
        /// The member, from 0
        member: u32,
    },
    /// Serve another disk, or the same one again, in the place of a member that is not served; prints the attached device
    #[command(after_help = "Examples:
  dwell ctl /run/dwell/md0.ctl member replace 2 /dev/sdX")]
    Replace {
        /// The member, from 0
        member: u32,
        /// The file or block device
        source: PathBuf,
    },
}

pub(crate) fn run(arguments: &CtlArguments, catalogue: Catalogue) -> Result<(), Error> {
    let socket: &Path = &arguments.socket;
    let failed = |error: std::io::Error| no_server(socket, &error);
    let mut client = Client::connect(socket).map_err(failed)?;
    let mut out = std::io::stdout().lock();
    match &arguments.command {
        CtlCommand::Show { json } => {
            let state = client.show().map_err(failed)?;
            if *json {
                writeln!(out, "{}", object(&state)?)?;
            } else {
                write!(out, "{}", in_words(&state))?;
            }
        }
        CtlCommand::Metrics => write!(out, "{}", client.metrics().map_err(failed)?)?,
        CtlCommand::Switch { scheduler, drain } => {
            let scheduler = &scheduler_arg::full_name(catalogue, scheduler)?;
            let cost = client.switch(scheduler, *drain).map_err(|error| rejected(socket, &error))?;
            // The members of an array get stream(...) with its coordinator.
            let (scheduler, coordinated) = &match client.array() {
                Ok(array) => {
                    let coordinated =
                        if array.coordinated { "; coordinated" } else { "; members schedule alone" };
                    (client.show().map_err(failed)?.scheduler, coordinated)
                }
                Err(_) => (scheduler.clone(), ""),
            };
            if cost.draining {
                writeln!(out, "{scheduler}: takes over when the queue is empty{coordinated}")?;
            } else {
                writeln!(
                    out,
                    "{scheduler}: {} moved, {} in the device meanwhile{coordinated}",
                    counted(u64::from(cost.moved), "request"),
                    cost.in_flight
                )?;
            }
            for account in client.show().map_err(failed)?.accounts {
                for note in without_effect(scheduler, account.terms) {
                    say!("account '{}': {note}", account.name);
                }
            }
        }
        CtlCommand::Tune { tunable, value } => {
            client.tune(tunable, value).map_err(|error| match rejected(socket, &error) {
                Error::Usage(words) => {
                    let hint = nearest_tunable(&mut client, tunable);
                    Error::Usage(format!("{words}{}", hint.unwrap_or_default()))
                }
                other => other,
            })?;
        }
        CtlCommand::Log { file, during } => {
            let file = std::path::absolute(file).map_err(|e| Error::file(file.display(), &e))?;
            client.log(file, some_time("--for", during)?).map_err(failed)?;
        }
        CtlCommand::Array { json } => {
            let state = client.array().map_err(|error| rejected(socket, &error))?;
            if *json {
                writeln!(out, "{}", object(&state)?)?;
            } else {
                write!(out, "{}", array_in_words(&state))?;
            }
        }
        CtlCommand::Member { command: MemberCommand::Fail { member } } => {
            client.fail_member(*member).map_err(|error| rejected(socket, &error))?;
        }
        CtlCommand::Member { command: MemberCommand::Replace { member, source } } => {
            let source = std::path::absolute(source).map_err(|e| Error::file(source.display(), &e))?;
            let state = client.replace_member(*member, source).map_err(|error| rejected(socket, &error))?;
            for reached in
                state.device.iter().map(|device| device.display().to_string()).chain(state.addresses)
            {
                writeln!(out, "{reached}")?;
            }
        }
        CtlCommand::Stop => client.stop().map_err(failed)?,
    }
    Ok(())
}

/// The error for a command that the server rejected, or for a server that does not answer.
fn rejected(socket: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::Other => Error::Usage(error.to_string()),
        _ => no_server(socket, error),
    }
}

/// The error for a control socket whose server does not answer.
pub(crate) fn no_server(socket: &Path, error: &std::io::Error) -> Error {
    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
        && let Some(pid) = restarted_by(socket)
    {
        return Error::Failed(format!(
            "{}: process {pid} is restarting its server, which does not listen yet ({error}); requests to the attached device wait; try again",
            socket.display()
        ));
    }
    if error.kind() == ErrorKind::NotFound && is_removed(socket) {
        return Error::Failed(format!(
            "{}: a server listens on this socket, but its file was removed; end the server with SIGTERM, and start it again",
            socket.display()
        ));
    }
    let socket = socket.display();
    match error.kind() {
        ErrorKind::PermissionDenied => Error::file(socket, error),
        ErrorKind::InvalidInput => Error::Usage(format!(
            "{socket}: is too long for the path of a socket; name one of at most 107 bytes"
        )),
        ErrorKind::NotFound => Error::Failed(format!(
            "{socket}: no server listens there: there is no such socket; start one with 'dwell serve --control {socket}'"
        )),
        ErrorKind::ConnectionRefused => Error::Failed(format!(
            "{socket}: no server listens there: it has ended, or this is no socket; start one with 'dwell serve --control PATH'"
        )),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
            Error::Failed(format!(
                "{socket}: connection closed ({error}): the server has ended, or the socket is not a control socket"
            ))
        }
        _ => Error::Failed(format!("{socket}: {}", problem::reading(error))),
    }
}

/// The process that restarts the server of this socket, if nothing listens there.
pub(crate) fn restarted_by(socket: &Path) -> Option<u32> {
    process_for(socket).filter(|&pid| serves(pid) && !is_removed(socket))
}

/// Whether a process is `dwell serve`: `advise` and `tune` have the option `--control` too, and so has a program such as `timeout` that starts them.
fn serves(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&byte| byte == 0).nth(1) == Some(b"serve")
}

/// A hint if the scheduler has no tunable of that name: the nearest name, or all names.
fn nearest_tunable(client: &mut Client, name: &str) -> Option<String> {
    let state = client.show().ok()?;
    let names: Vec<&str> = state.tunables.iter().map(|tunable| tunable.name.as_str()).collect();
    if names.contains(&name) {
        return None;
    }
    Some(match did_you_mean(name, names.iter().copied()) {
        _ if names.is_empty() => "; the scheduler has no tunables".to_owned(),
        none if none.is_empty() => format!("; the scheduler has {}", names.join(", ")),
        hint => hint,
    })
}

fn in_words(state: &State) -> String {
    let mut text = format!(
        "{}, depth {}\nscheduler: {}\n{} queued, {} in the device, {} unfinished; {} dispatched, {} deliberate waits, head at sector {}\n",
        device(state),
        state.depth,
        scheduler(state),
        state.queued,
        state.in_flight,
        state.unfinished,
        state.dispatched,
        state.holds,
        state.head_sector,
    );
    if let Some(fault) = &state.last_scheduler_fault {
        text += &format!("scheduler faults: {}; last: {fault}\n", state.scheduler_faults);
    }
    text = fitted(&text, Some(text_width())) + "\n";
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "operation",
        "done",
        "failed",
        "mean",
        "p50",
        "p99",
        "longest",
    ]);
    for (name, operation) in &state.operations {
        let latency = &operation.latency;
        table.add_row([
            name.clone(),
            operation.done.to_string(),
            operation.failed.to_string(),
            time(latency.mean_ns),
            time(latency.p50_ns),
            time(latency.p99_ns),
            time(latency.max_ns),
        ]);
    }
    text += &format!("{table}\n");
    if !state.accounts.is_empty() {
        text += &format!("{}\n", accounts(&state.accounts));
    }
    for kind in kinds(&state.items) {
        text += &format!("{}\n", table_of(&kind, &state.accounts));
    }
    for tunable in &state.tunables {
        text += &format!("  {} = {}\n", tunable.name, tunable.value);
    }
    text
}

fn array_in_words(state: &ArrayState) -> String {
    let layout = state.layout.as_deref().unwrap_or("layout not known yet");
    let coordinated = if state.coordinated { "coordinated" } else { "members schedule alone" };
    let mut text = format!(
        "{layout}; {coordinated}\n{} of the coordinator; {} recognised as the array's own, {} of them waited; members lost {}, returned {}\n",
        counted(state.directives, "directive"),
        counted(state.background, "request"),
        state.background_held,
        counted(state.lost, "time"),
        counted(state.returned, "time"),
    );
    for (index, member) in state.members.iter().enumerate() {
        let device = member.device.iter().map(|device| device.display().to_string());
        let reached = device.chain(member.addresses.iter().cloned()).collect::<Vec<_>>();
        let condition = match (member.served, member.present) {
            (true, true) => "present",
            (true, false) => "served, without requests",
            (false, _) => "not served",
        };
        let scheduler = member.scheduler.iter().map(|name| format!(", scheduler {name}"));
        text += &format!("member {index}: {condition}{}\n", scheduler.collect::<String>());
        text += &format!("  source: {}\n", member.source);
        if !reached.is_empty() {
            text += &format!("  attached: {}\n", reached.join(", "));
        }
    }
    fitted(&text, Some(text_width())) + "\n"
}

/// The accounts of a split-level scheduler.
fn accounts(accounts: &[AccountState]) -> String {
    let row = |account: &AccountState| {
        let terms = &account.terms;
        let deadline = terms.fsync_deadline_ns.map(|ns| format!("fsync {}", time(ns)));
        let terms = [
            terms.weight.map(|weight| format!("weight {weight}")),
            terms.rate.map(|rate| format!("{}/s", bytes(rate))),
            deadline,
        ];
        vec![
            account.name.clone(),
            terms.into_iter().flatten().collect::<Vec<_>>().join(", "),
            account.agents.to_string(),
            account.calls.to_string(),
            account.held.to_string(),
            time(account.held_ns),
        ]
    };
    let data = |account: &AccountState| {
        let amounts = [account.dirty, account.caused, account.read, account.data, account.metadata];
        std::iter::once(account.name.clone()).chain(amounts.map(bytes)).collect()
    };
    // Two tables, because one would be wider than a terminal.
    let calls = aligned(
        &["account", "terms", "agents", "calls", "held", "held for"],
        accounts.iter().map(row).collect(),
    );
    let data = aligned(
        &["account", "dirty", "caused", "read", "data", "metadata"],
        accounts.iter().map(data).collect(),
    );
    let waits = accounts.iter().map(|account| (&account.name, waits_in(account)));
    let waits = waits.filter(|(_, waits)| !waits.is_empty());
    let waits = waits.map(|(name, waits)| format!("\n{name} waits in: {waits}"));
    format!("{calls}\n\n{data}{}", waits.collect::<String>())
}

/// The calls in which an account waits, with their number.
pub(crate) fn waits_in(account: &AccountState) -> String {
    let waits = account.waits.iter().filter(|(_, wait)| wait.held > 0);
    waits.map(|(call, wait)| format!("{call} {}", wait.held)).collect::<Vec<_>>().join(", ")
}

/// What an item is called: an account by its name, another one by its number.
pub(crate) fn name_of(item: &ItemState, accounts: &[AccountState]) -> String {
    let is_it = |account: &&AccountState| u64::from(account.number) == item.number;
    let account = accounts.iter().find(is_it).filter(|_| item.kind == "account");
    account.map_or_else(|| item.number.to_string(), |account| account.name.clone())
}

/// The back end, its size, and the speed of its clock if that is not real time. All reported times are by this clock.
pub(crate) fn device(state: &State) -> String {
    let size = bytes(state.capacity_sectors * 512);
    let speed = (state.speed > 1).then(|| format!(", {} times real time", state.speed));
    format!("{}, {size}{}", state.backend, speed.unwrap_or_default())
}

/// The scheduler; while a switch drains the queue, also the time since the switch began.
pub(crate) fn scheduler(state: &State) -> String {
    let draining = |ns| format!(" takes over when the queue is empty; draining for {}", time(ns));
    format!("{}{}", state.scheduler, state.draining_ns.map(draining).unwrap_or_default())
}

/// The scheduler's items (streams, groups), by kind.
fn kinds(items: &[ItemState]) -> Vec<Vec<&ItemState>> {
    let mut kinds: Vec<Vec<&ItemState>> = Vec::new();
    for item in items {
        match kinds.iter_mut().find(|kind| kind[0].kind == item.kind) {
            Some(kind) => kind.push(item),
            None => kinds.push(vec![item]),
        }
    }
    kinds
}

/// Items of one kind, one per row. A fact that an item does not have is an empty cell.
fn table_of(items: &[&ItemState], accounts: &[AccountState]) -> Table {
    let mut names: Vec<&String> = Vec::new();
    for name in items.iter().flat_map(|item| item.facts.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let heads = names.iter().map(|name| without_unit(name).replace('_', " "));
    let mut table = table_of_texts(&[]);
    table.set_header(items.first().map(|item| item.kind.clone()).into_iter().chain(heads));
    for item in items {
        let cells = names.iter().map(|name| item.facts.get(*name).map(|fact| fact_in_words(name, fact)));
        let name = std::iter::once(name_of(item, accounts));
        table.add_row(name.chain(cells.map(Option::unwrap_or_default)));
    }
    table
}

pub(crate) fn without_unit(name: &str) -> &str {
    ["_ns", "_sector", "_percent"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
}

/// A fact with its unit.
pub(crate) fn fact_in_words(name: &str, fact: &Value) -> String {
    match fact {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(word) => word.clone(),
        Value::Number(number) if name.ends_with("_ns") => time(number.as_u64().unwrap_or(0)),
        Value::Number(number) if name.ends_with("_percent") => format!("{number}%"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use server::control::protocol::{AccountTerms, MemberState, OperationState, WaitState};

    fn item(number: u64, facts: &Value) -> ItemState {
        ItemState { kind: "stream".to_owned(), number, facts: facts.as_object().unwrap().clone() }
    }

    /// The server may end while `top` runs; an NBD socket closes the connection as well.
    #[test]
    fn a_closed_connection_is_explained() {
        for kind in [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof] {
            let message = no_server(Path::new("/run/dwell/sdb.sock"), &kind.into()).to_string();
            assert!(message.contains("has ended, or the socket is not a control socket"), "{message}");
        }
    }

    #[test]
    fn failed_operations_have_a_column() {
        let latency = server::TimesSummary { count: 24, ..Default::default() };
        let write = OperationState { done: 3, failed: 21, latency, ..Default::default() };
        let operations = [("write".to_owned(), write)].into();
        let text = in_words(&State { operations, ..State::default() });
        let heads = text.lines().find(|line| line.contains("operation")).expect("a head");
        assert!(heads.contains("done") && heads.contains("failed"), "{text}");
        let line = text.lines().find(|line| line.contains("write")).expect("a line for it");
        let cells: Vec<&str> = line.split(['│', '┆']).map(str::trim).collect();
        assert_eq!(&cells[1..4], ["write", "3", "21"], "{text}");
    }

    #[test]
    fn accounts_have_their_terms() {
        let terms = AccountTerms { rate: Some(5_000_000), weight: Some(2), ..AccountTerms::default() };
        let wait = |held| WaitState { held, ..WaitState::default() };
        let waits = [("fsync", wait(1)), ("mkdir", wait(0)), ("write", wait(2))];
        let waits = waits.map(|(call, wait)| (call.to_owned(), wait)).into();
        let account = AccountState {
            name: "backup".to_owned(),
            number: 5,
            terms,
            held: 3,
            waits,
            ..AccountState::default()
        };
        let facts = json!({"credit": 5}).as_object().unwrap().clone();
        let tokens = ItemState { kind: "account".to_owned(), number: 5, facts };
        let text = in_words(&State { accounts: vec![account], items: vec![tokens], ..State::default() });
        for part in ["weight 2, 5.00 MB/s", "backup waits in: fsync 1, write 2", "│ backup"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn an_array_fits_a_terminal() {
        let member = MemberState {
            source: format!("/dev/disk/by-id/{}", "x".repeat(50)),
            scheduler: Some("cooperative{stream_time_slice=50ms}".to_owned()),
            device: Some("/dev/loop7".into()),
            addresses: vec!["unix:/run/dwell/a-long-name-of-a-socket.sock".to_owned()],
            served: true,
            present: true,
            ..MemberState::default()
        };
        let text = array_in_words(&ArrayState { members: vec![member; 2], ..ArrayState::default() });
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.contains("\nmember 1: present, scheduler cooperative{stream_time_slice=50ms}\n"),
            "{text}"
        );
        assert!(text.contains("\n  attached: /dev/loop7, unix:/run/"), "{text}");
    }

    #[test]
    fn items_of_one_kind_are_one_table_with_units_and_empty_cells() {
        let served = item(0, &json!({"role": "served", "position_sector": 77, "slice_left_ns": 1_500_000}));
        let other = item(1, &json!({"role": "parent-to-be", "position_sector": 88}));
        let kinds = kinds(&[served.clone(), other.clone()]).len();
        let text = table_of(&[&served, &other], &[]).to_string();
        assert_eq!(kinds, 1);
        for part in ["stream", "slice left", "1.50 ms", "parent-to-be", "88"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
