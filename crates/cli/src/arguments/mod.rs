//! The command line: one file for each command, which says what may be asked of it and knows nothing of what it does.

mod capture;
mod compare;
mod ctl;
mod drives;
mod duel;
mod reproduce;
mod run;
mod schedulers;
mod serve;
mod shared;
mod top;
mod trace;
mod tune;

use clap::{Parser, Subcommand};

pub(crate) use capture::{ProfileArguments, RecordArguments, WayName};
pub(crate) use compare::{CompareArguments, Identity};
pub(crate) use ctl::{CtlArguments, CtlCommand};
pub(crate) use drives::{DrivesArguments, DrivesCommand};
pub(crate) use duel::{DuelArguments, Sight};
pub(crate) use reproduce::{Paper, ReproduceArguments};
pub(crate) use run::RunArguments;
pub(crate) use schedulers::SchedulersArguments;
pub(crate) use serve::{IdentifyBy, ServeArguments};
pub(crate) use shared::{ExplainFormat, Output, Reading};
pub(crate) use top::TopArguments;
pub(crate) use trace::{TraceArguments, TraceCommand};
pub(crate) use tune::{
    AdviseArguments, DeciderArgument, MetricName, PatternsArguments, PatternsCommand, RestraintName,
    TuneArguments, Watching,
};

/// I/O scheduling for Linux block devices: try a choice before it is made.
#[derive(Parser, Debug)]
#[command(name = "dwell", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:
  dwell compare recordings/two-greps-and-a-copy.ftrace.gz --report out.html
  dwell compare par-read --drive wd5000aaks --scheduler noop --scheduler 'stream(deadline)'

Exit codes: 0 ok, 1 failed, 2 usage, 4 kernel feature missing, 5 permission, 6 bad input, 7 overruled, 130 interrupted")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run one workload under many schedulers, on a modelled drive, and say what each made of it
    Compare(CompareArguments),
    /// Run a script of processes and system calls, or a fio job file, on a modelled machine
    Run(RunArguments),
    /// List, show and validate modelled drives
    Drives(DrivesArguments),
    /// List schedulers, or show one with its tunables
    Schedulers(SchedulersArguments),
    /// Record what a live device is asked: what, when and by whom, no data
    Record(RecordArguments),
    /// Measure a device: service time by distance, throughput by scheduler; reads only
    Profile(ProfileArguments),
    /// Look into recordings, or convert them
    Trace(TraceArguments),
    /// Run a paper's experiments again: published value beside ours
    Reproduce(ReproduceArguments),
    /// Put a scheduler in front of a real disk, a file, or an emulated drive, as a block device
    Serve(ServeArguments),
    /// Look at and change a device that is being served
    Ctl(CtlArguments),
    /// A device that is being served, live: head, rates, waits, latencies, streams
    Top(TopArguments),
    /// The kernel's own schedulers against ours: real programs on an emulated drive; needs root
    Duel(DuelArguments),
    /// A helper process of a duel
    #[command(hide = true)]
    DuelHelper {
        /// Its role, as the duel wrote it
        role: String,
    },
    /// Watch a device and say which scheduler would serve it better; changes nothing
    Advise(AdviseArguments),
    /// Keep a device on the scheduler that serves it best; puts everything back on exit
    Tune(TuneArguments),
    /// Look into what the tuner learned, and mend it
    Patterns(PatternsArguments),
}
