//! The steps of a process.

use std::future::Future;
use std::pin::Pin;

use elevator::Span;
use machine::kernel::Open;
use serde::Deserialize;

use crate::programs::cold_start::ColdStart;
use crate::programs::copy::Copy;
use crate::programs::daemon::Daemon;
use crate::programs::database::Database;
use crate::programs::ffsb::Ffsb;
use crate::programs::fio::FioJob;
use crate::programs::os::Os;
use crate::programs::postmark::PostMark;
use crate::programs::query::Query;
use crate::programs::read::Read;
use crate::programs::read_tree::ReadTree;
use crate::programs::rollback::Rollback;
use crate::programs::sqlite::Sqlite;
use crate::programs::swap_storm::SwapStorm;
use crate::programs::tpc_b::TpcB;
use crate::programs::units::{Delay, Meet, Name};
use crate::programs::write::Write;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Reads a file.
    Read(Read),
    /// Writes a file.
    Write(Write),
    /// Copies a file or a tree.
    Copy(Copy),
    /// Reads all files of a tree.
    ReadTree(ReadTree),
    /// A profile of FFSB.
    Ffsb(Ffsb),
    Postmark(PostMark),
    /// Transactions against a table and a log.
    Database(Database),
    /// Transactions of an embedded database with a rollback journal.
    Rollback(Rollback),
    /// Transactions of an embedded database with a write-ahead log, and checkpoints.
    Sqlite(Sqlite),
    /// Transactions of a database server's clients, with checkpoints.
    TpcB(TpcB),
    /// A table scan with look-ups in other tables.
    Query(Query),
    /// The cold start of a program.
    ColdStart(ColdStart),
    /// A sort that needs swap.
    SwapStorm(SwapStorm),
    /// Readers behind a daemon with a thread pool.
    Daemon(Daemon),
    /// Drops a file's clean pages.
    Forget(Name),
    /// `fsync` of a file.
    Fsync(Name),
    Sync(Empty),
    /// Makes a directory.
    Mkdir(Name),
    /// Removes a file.
    Unlink(Name),
    /// Renames: `[from, to]`.
    Rename(Name, Name),
    /// `stat` of a file.
    Stat(Name),
    /// Reads a directory.
    Readdir(Name),
    /// Computes or sleeps.
    Think(Delay),
    /// Waits at a barrier.
    Meet(Meet),
    /// Repeats steps.
    Repeat(Repeat),
    /// Repeats steps until the run ends; only in background processes.
    Forever(Vec<Step>),
    /// A child process with these steps.
    Fork(Vec<Step>),
    /// Waits for all children.
    Wait(Empty),
    /// A fio job; scripts cannot contain one.
    #[serde(skip)]
    Fio(Box<FioJob>),
    /// fio jobs at the same time, one process each, until they have ended.
    #[serde(skip)]
    Jobs(Vec<FioJob>),
}

/// No parameters: `{}`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// Repeated steps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Repeat {
    /// Number of repetitions.
    pub times: u64,
    pub steps: Vec<Step>,
}

/// A boxed future, because steps contain steps.
type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl Step {
    /// Adds `by` to the seeds of programs.
    pub(super) fn reseed(&mut self, by: u64) {
        let seed = match self {
            Self::Ffsb(ffsb) => &mut ffsb.seed,
            Self::Postmark(postmark) => &mut postmark.seed,
            Self::Database(database) => &mut database.seed,
            Self::Sqlite(sqlite) => &mut sqlite.seed,
            Self::TpcB(tpc_b) => &mut tpc_b.seed,
            Self::Query(query) => &mut query.seed,
            Self::ColdStart(start) => &mut start.seed,
            Self::Daemon(daemon) => &mut daemon.seed,
            Self::Fio(fio) => &mut fio.job.seed,
            Self::Jobs(jobs) => {
                return jobs.iter_mut().for_each(|fio| fio.job.seed = fio.job.seed.wrapping_add(by));
            }
            Self::Repeat(Repeat { steps, .. }) | Self::Forever(steps) | Self::Fork(steps) => {
                return steps.iter_mut().for_each(|step| step.reseed(by));
            }
            _ => return,
        };
        *seed = seed.wrapping_add(by);
    }

    /// Executes the step.
    pub fn run<'a>(&'a self, os: &'a Os) -> Running<'a> {
        Box::pin(async move {
            match self {
                Self::Read(read) => read.run(os).await,
                Self::Write(write) => write.run(os).await,
                Self::Copy(copy) => copy.run(os).await,
                Self::ReadTree(tree) => tree.run(os).await,
                Self::Ffsb(ffsb) => ffsb.run(os).await,
                Self::Postmark(postmark) => postmark.run(os).await,
                Self::Database(database) => database.run(os).await,
                Self::Rollback(rollback) => rollback.run(os).await,
                Self::Sqlite(sqlite) => sqlite.run(os).await,
                Self::TpcB(tpc_b) => tpc_b.run(os).await,
                Self::Query(query) => query.run(os).await,
                Self::ColdStart(start) => start.run(os).await,
                Self::SwapStorm(storm) => storm.run(os).await,
                Self::Daemon(daemon) => daemon.run(os).await,
                Self::Forget(name) => os.forget(&name.of(os)).await,
                Self::Fsync(name) => {
                    let file = os.open(&name.of(os), Open::default()).await;
                    os.fsync(file).await;
                    os.close(file).await;
                }
                Self::Sync(_) => os.sync().await,
                Self::Mkdir(name) => os.mkdir(&name.of(os)).await,
                Self::Unlink(name) => os.unlink(&name.of(os)).await,
                Self::Rename(from, to) => os.rename(&from.of(os), &to.of(os)).await,
                Self::Stat(name) => _ = os.stat(&name.of(os)).await,
                Self::Readdir(name) => _ = os.readdir(&name.of(os)).await,
                Self::Think(delay) => os.think(delay.0).await,
                Self::Meet(meet) => os.meet(meet.meeting()).await,
                Self::Repeat(repeat) => {
                    for _ in 0..repeat.times {
                        all(&repeat.steps, os).await;
                    }
                }
                Self::Forever(steps) => loop {
                    all(steps, os).await;
                },
                Self::Fork(steps) => {
                    let steps = steps.clone();
                    os.fork(&format!("{}/child", os.name()), |os| async move { all(&steps, &os).await })
                        .await;
                }
                Self::Wait(_) => os.wait().await,
                Self::Fio(job) => job.run(os).await,
                Self::Jobs(jobs) => {
                    for job in jobs.iter().cloned() {
                        let (name, priority) = (job.job.name.clone(), job.job.priority);
                        let begins = |os: Os| async move { job.run(&os).await };
                        os.fork_with(&name, priority, begins).await;
                    }
                    os.wait().await;
                }
            }
        })
    }

    /// The barrier at which the step waits.
    pub const fn barrier(&self) -> Option<Meet> {
        match self {
            Self::Meet(meet) => Some(*meet),
            Self::Read(read) => read.meet,
            _ => None,
        }
    }

    /// Whether the step's duration is given, so that a faster device gets more work and not less time; `of_job` decides for jobs.
    pub fn lasts_fixed_time(&self, of_job: &dyn Fn(&FioJob) -> bool) -> bool {
        match self {
            Self::Rollback(rollback) => rollback.lasts.0 > Span::ZERO,
            Self::Sqlite(sqlite) => sqlite.lasts.0 > Span::ZERO,
            Self::TpcB(tpc_b) => tpc_b.lasts.0 > Span::ZERO,
            Self::Fio(job) => of_job(job),
            Self::Jobs(jobs) => jobs.iter().any(of_job),
            _ => self.inner().iter().any(|step| step.lasts_fixed_time(of_job)),
        }
    }

    /// The steps inside the step.
    pub fn inner(&self) -> &[Self] {
        match self {
            Self::Repeat(repeat) => &repeat.steps,
            Self::Forever(steps) | Self::Fork(steps) => steps,
            _ => &[],
        }
    }
}

/// Executes steps in order.
async fn all(steps: &[Step], os: &Os) {
    for step in steps {
        step.run(os).await;
    }
}
