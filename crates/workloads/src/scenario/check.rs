//! Checks of a script before it runs: missing files, barriers that cannot open, limits.

use std::collections::BTreeMap;

use super::script::{Process, Script};
use super::step::Step;
use crate::contents::Contents;
use crate::programs::units::Name;

/// A problem and its position in the text.
pub(super) struct Problem {
    pub(super) at: usize,
    pub(super) field: String,
    pub(super) text: String,
}

/// Names that steps use.
#[derive(Default)]
struct Names {
    needed: Vec<String>,
    made: Vec<String>,
    /// Directories below which any name may be created.
    made_below: Vec<String>,
}

impl Names {
    fn of(step: &Step, copy: u32) -> Self {
        let (mut needs, mut makes, mut makes_below): (Vec<&Name>, Vec<&Name>, Vec<&Name>) =
            Default::default();
        match step {
            Step::Read(read) => needs.push(&read.file),
            Step::Write(write) => makes.push(&write.file),
            Step::Copy(copy) => {
                needs.push(&copy.from);
                makes.push(&copy.to);
                makes_below.push(&copy.to);
            }
            Step::ReadTree(tree) => needs.push(&tree.tree),
            Step::Ffsb(ffsb) => needs.push(&ffsb.files),
            Step::Postmark(postmark) => needs.push(&postmark.directory),
            Step::Database(database) => {
                needs.push(&database.table);
                makes.push(&database.log);
            }
            Step::Rollback(rollback) => makes.push(&rollback.table),
            Step::Sqlite(sqlite) => {
                needs.push(&sqlite.table);
                makes.push(&sqlite.log);
            }
            Step::TpcB(tpc_b) => needs.extend([&tpc_b.table, &tpc_b.log]),
            Step::Query(query) => {
                needs.push(&query.scans);
                needs.extend(query.looks_up.iter().map(|other| &other.table));
            }
            Step::ColdStart(start) => needs.push(&start.files),
            Step::Forget(name)
            | Step::Fsync(name)
            | Step::Unlink(name)
            | Step::Stat(name)
            | Step::Readdir(name) => needs.push(name),
            Step::Mkdir(name) => makes.push(name),
            Step::Rename(from, to) => {
                needs.push(from);
                makes.push(to);
            }
            Step::Daemon(daemon) => {
                let numbers = 1..=daemon.programs;
                let file = |p: u32| daemon.files.numbered(copy).replace("{p}", &p.to_string());
                return Self { needed: numbers.map(file).collect(), ..Self::default() };
            }
            Step::SwapStorm(_)
            | Step::Sync(_)
            | Step::Think(_)
            | Step::Meet(_)
            | Step::Repeat(_)
            | Step::Forever(_)
            | Step::Fork(_)
            | Step::Wait(_)
            | Step::Fio(_)
            | Step::Jobs(_) => {}
        }
        let numbered = |names: Vec<&Name>| names.into_iter().map(|name| name.numbered(copy)).collect();
        Self { needed: numbered(needs), made: numbered(makes), made_below: numbered(makes_below) }
    }
}

/// Calls `each` on a step and the steps inside it.
fn walk<'a>(step: &'a Step, each: &mut dyn FnMut(&'a Step)) {
    each(step);
    for inner in step.inner() {
        walk(inner, each);
    }
}

/// Calls `each` on every step of every copy of every process, with the position of its line.
fn steps<'a>(script: &'a Script, each: &mut dyn FnMut(usize, &'a Process, u32, &'a Step)) {
    for process in &script.process {
        let process = process.get_ref();
        for copy in 1..=process.copies {
            for step in &process.steps {
                walk(step.get_ref(), &mut |inner| each(step.span().start, process, copy, inner));
            }
        }
    }
}

/// Whether a process waits at barriers.
pub(super) fn meets(process: &Process) -> bool {
    let mut meets = false;
    process.steps.iter().for_each(|step| {
        walk(step.get_ref(), &mut |inner| meets |= inner.barrier().is_some());
    });
    meets
}

/// Limit against typing errors.
const MOST_SERVERS: u32 = 64;

/// Returns the first problem.
pub(super) fn check(script: &Script, contents: &Contents) -> Result<(), Problem> {
    if script.servers.is_some_and(|servers| !(1..=MOST_SERVERS).contains(&servers)) {
        let text = format!("from 1 to {MOST_SERVERS}");
        return Err(Problem { at: 0, field: "servers".to_owned(), text });
    }
    partition(script)?;
    store(script)?;
    processes(script)?;
    names(script, contents)?;
    meetings(script)
}

fn partition(script: &Script) -> Result<(), Problem> {
    let Some(partition) = &script.change.partition else { return Ok(()) };
    let lengths = [partition.get_ref().at, partition.get_ref().bytes];
    if lengths.iter().all(|bytes| bytes.0.is_multiple_of(1 << 20)) {
        return Ok(());
    }
    let (field, text) = ("change.partition".to_owned(), "`at` and `bytes` must be whole MiB".to_owned());
    Err(Problem { at: partition.span().start, field, text })
}

fn store(script: &Script) -> Result<(), Problem> {
    let Some(store) = &script.store else { return Ok(()) };
    let alone = script.process.is_empty() && script.on_disk.is_empty();
    let mixed = "replaces processes and initial content; remove [[process]] and [[on-disk]]";
    match store.get_ref().problem().or((!alone).then_some(mixed)) {
        None => Ok(()),
        Some(text) => {
            Err(Problem { at: store.span().start, field: "store".to_owned(), text: text.to_owned() })
        }
    }
}

/// Number of processes or threads that a step starts.
fn started(step: &Step) -> u32 {
    match step {
        Step::Daemon(daemon) => daemon.threads.max(daemon.programs),
        Step::Ffsb(ffsb) => ffsb.threads,
        Step::TpcB(tpc_b) => tpc_b.clients,
        _ => 1,
    }
}

fn processes(script: &Script) -> Result<(), Problem> {
    for spanned in &script.process {
        let process = spanned.get_ref();
        let problem = |text: String| Problem {
            at: spanned.span().start,
            field: format!("process '{}'", process.name),
            text,
        };
        if process.copies > super::MOST_COPIES {
            return Err(problem(format!("has more than {} copies", super::MOST_COPIES)));
        }
        if process.copies > 1 && !process.name.contains("{n}") {
            return Err(problem("has copies, so its name needs {n}, the copy's number".to_owned()));
        }
        let mut most = 0;
        for step in &process.steps {
            walk(step.get_ref(), &mut |step| most = started(step).max(most));
        }
        if most > super::MOST_COPIES {
            let text = format!(
                "a step of it starts {most} processes or threads; at most {} are supported",
                super::MOST_COPIES
            );
            return Err(problem(text));
        }
        if process.priority.is_some_and(|priority| priority > 7) {
            return Err(problem("priority must be 0 (highest) to 7".to_owned()));
        }
        let mut forever = false;
        for step in &process.steps {
            walk(step.get_ref(), &mut |step| forever |= matches!(step, Step::Forever(_)));
        }
        if forever && !process.beside {
            return Err(problem(
                "has a step without end, so the run would not end; set beside = true".to_owned(),
            ));
        }
    }
    if script.store.is_none() && script.process.iter().all(|process| process.get_ref().beside) {
        let at = script.process.first().map_or(0, |process| process.span().start);
        let text = match script.process[..] {
            [] => "the script has no process; add one: [[process]] with name and steps",
            _ => "every process has beside = true, so nothing is measured; remove it from one",
        };
        return Err(Problem { at, field: "process".to_owned(), text: text.to_owned() });
    }
    Ok(())
}

fn names(script: &Script, contents: &Contents) -> Result<(), Problem> {
    let mut all = Names::default();
    steps(script, &mut |_, _, copy, step| {
        let names = Names::of(step, copy);
        all.made.extend(names.made);
        all.made_below.extend(names.made_below);
    });
    let mut problem = None;
    steps(script, &mut |at, process, copy, step| {
        for name in Names::of(step, copy).needed {
            let below =
                |root: &String| name.strip_prefix(root.as_str()).is_some_and(|rest| rest.starts_with('/'));
            let known = contents.has(&name) || all.made.contains(&name) || all.made_below.iter().any(below);
            if !known && problem.is_none() {
                let text =
                    format!("'{name}' is not on the disk, and no process creates it; add it as [[on-disk]]");
                problem = Some(Problem { at, field: format!("process '{}'", process.name), text });
            }
        }
    });
    problem.map_or(Ok(()), Err)
}

/// Checks that each barrier has as many processes as members.
fn meetings(script: &Script) -> Result<(), Problem> {
    struct Barrier<'a> {
        at: usize,
        process: &'a str,
        members: u32,
        visitors: Vec<(&'a str, u32)>,
    }
    let mut barriers: BTreeMap<u16, Barrier<'_>> = BTreeMap::new();
    let mut problem = None;
    steps(script, &mut |at, process, copy, step| {
        let Some(meet) = step.barrier() else { return };
        let barrier = barriers.entry(meet.at).or_insert_with(|| Barrier {
            at,
            process: &process.name,
            members: meet.members,
            visitors: Vec::new(),
        });
        if barrier.members != meet.members && problem.is_none() {
            let text = format!(
                "barrier {} has {} members here and {} elsewhere (process '{}')",
                meet.at, meet.members, barrier.members, barrier.process
            );
            problem = Some(Problem { at, field: format!("process '{}'", process.name), text });
        }
        if !barrier.visitors.contains(&(&process.name, copy)) {
            barrier.visitors.push((&process.name, copy));
        }
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    for (number, barrier) in barriers {
        let visitors = barrier.visitors.len();
        if barrier.members as usize > visitors {
            return Err(Problem {
                at: barrier.at,
                field: format!("process '{}'", barrier.process),
                text: format!(
                    "barrier {number} has {} members but only {visitors} processes reach it, so they would wait for ever",
                    barrier.members
                ),
            });
        }
    }
    Ok(())
}
