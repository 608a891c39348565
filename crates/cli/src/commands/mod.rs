//! The commands: each file or folder has the command line of one command and what it does.

mod causes;
pub(crate) mod compare;
mod completions;
pub(crate) mod ctl;
pub(crate) mod doctor;
#[cfg(test)]
mod documentation;
mod drives;
mod duel;
mod exec;
mod help;
pub(crate) mod profile;
mod record;
mod regret;
mod replay;
mod reproduce;
mod run;
mod schedulers;
pub(crate) mod serve;
mod study;
mod top;
mod trace;

use std::process::ExitCode;

use ::schedulers::registry::Catalogue;
use clap::{Parser, Subcommand};
use schedulers::SchedulersArguments;

#[cfg(test)]
pub(crate) use help::command;
pub(crate) use help::parse;

use crate::error::Error;
use crate::interrupt;
use crate::tune;
use crate::tune::args::{AdviseArguments, PatternsArguments, TuneArguments};
use causes::CausesArguments;
use compare::args::CompareArguments;
use completions::{CompletionsArguments, ManArguments};
use ctl::CtlArguments;
use doctor::DoctorArguments;
use drives::DrivesArguments;
use duel::DuelArguments;
use exec::ExecArguments;
use profile::ProfileArguments;
use record::RecordArguments;
use regret::RegretArguments;
use replay::ReplayArguments;
use reproduce::ReproduceArguments;
use run::args::RunArguments;
use serve::ServeArguments;
use study::StudyArguments;
use top::TopArguments;
use trace::TraceArguments;

/// I/O schedulers for Linux block devices: compare them on a model, run them on a device, keep a device on the best one.
#[derive(Parser, Debug)]
#[command(name = "dwell", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run one workload under many schedulers on a modelled drive and compare the results
    Compare(CompareArguments),
    /// Run every workload of the project on many drives and print each scheduler's regret: its time relative to the best scheduler's
    Regret(RegretArguments),
    /// Run a matrix of workloads, schedulers, tunables and drives on the model; results in Parquet files
    Study(StudyArguments),
    /// Run a script of processes and system calls, or a fio job file, on a modelled machine
    Run(RunArguments),
    /// List, print and validate modelled drives
    Drives(DrivesArguments),
    /// List schedulers, or print one with its tunables
    Schedulers(SchedulersArguments),
    /// Record the requests of a live device: type, sectors, times, process and control group; no data. Needs root
    Record(RecordArguments),
    /// Show which processes or cgroups cause a device's writes; writes of the journal and of kernel workers are attributed to their causes
    Causes(CausesArguments),
    /// Replay a recording or a fio job on a real device under each of its schedulers, and print the model's prediction; reads only by default
    Replay(ReplayArguments),
    /// Measure a device: service time by distance, throughput by scheduler; reads only
    ///
    /// With four schedulers this takes about a minute. The device must not be mounted, and should be idle. Its scheduler and the settings are
    /// restored at the end, also after a kill. Needs root.
    Profile(ProfileArguments),
    /// Follow a device, unit or container down to the scheduler and report settings without effect
    ///
    /// Only reads. Without root it leaves out what it may not read.
    Doctor(DoctorArguments),
    /// Inspect or convert recordings
    Trace(TraceArguments),
    /// Run a paper's experiments and print the published value beside each result
    Reproduce(ReproduceArguments),
    /// Serve a disk, a file or an emulated drive as a block device with a scheduler in front
    Serve(ServeArguments),
    /// Inspect and control a served device
    Ctl(CtlArguments),
    /// Run a program whose write, fsync and directory system calls are admitted by a served device's split-level scheduler
    Exec(ExecArguments),
    /// Show a device live: processes, causes of writes, latencies, depth, seeks, flushes; of a served one the scheduler's decisions
    ///
    /// Shows any block device, which need not be served. Needs root. If standard output is not a terminal, it prints one snapshot, as with --once.
    Top(TopArguments),
    /// Compare the kernel's schedulers with ours using real programs on an emulated drive; needs root
    Duel(DuelArguments),
    /// A helper process of a duel
    #[command(hide = true)]
    DuelHelper {
        /// Its role, as written by the duel
        role: String,
    },
    /// Watch a device for 15 s, measure it and recommend a scheduler, with the configuration to paste; changes nothing
    ///
    /// Run it while the load of interest runs. It changes no setting and only reads the device. Without permission for BPF it creates an instance
    /// of the kernel's tracer while it runs, and prints a message. Needs root.
    Advise(AdviseArguments),
    /// Keep a device on its best scheduler; restore all settings on exit
    ///
    /// After SIGKILL a helper process restores the settings. If the helper was killed as well, they are restored by the next 'dwell tune',
    /// 'profile' or 'replay' on this device, or 'dwell tune DEVICE --restore'. Needs root.
    Tune(TuneArguments),
    /// Inspect and edit what the tuner learned
    Patterns(PatternsArguments),
    /// Print a completion script for a shell
    Completions(CompletionsArguments),
    /// Print the manual page of the program or of a command
    Man(ManArguments),
}

/// Runs a command. Helper processes of a duel choose their own exit code.
pub(crate) fn run(arguments: &Arguments, catalogue: Catalogue) -> Result<ExitCode, Error> {
    if let Command::Exec(arguments) = &arguments.command {
        return exec::run(arguments);
    }
    if let Command::DuelHelper { role } = &arguments.command {
        return Ok(ExitCode::from(evaluation::duel::run_helper(role)));
    }
    interrupt::survive_file_limit();
    match &arguments.command {
        // The server installs its own handler: the second signal disconnects clients and still removes the device.
        Command::Serve(_) => {}
        Command::Record(_)
        | Command::Replay(_)
        | Command::Causes(_)
        | Command::Profile(_)
        | Command::Tune(_) => interrupt::listen(false),
        _ => interrupt::listen(true),
    }
    match &arguments.command {
        Command::Compare(arguments) => compare::run(arguments, catalogue),
        Command::Regret(arguments) => regret::run(arguments, catalogue),
        Command::Study(arguments) => study::run(arguments, catalogue),
        Command::Run(arguments) => run::run(arguments, catalogue),
        Command::Drives(arguments) => drives::run(arguments),
        Command::Schedulers(arguments) => schedulers::run(arguments, catalogue),
        Command::Record(arguments) => record::run(arguments),
        Command::Causes(arguments) => causes::run(arguments),
        Command::Replay(arguments) => replay::run(arguments, catalogue),
        Command::Profile(arguments) => profile::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Trace(arguments) => trace::run(arguments),
        Command::Reproduce(arguments) => reproduce::run(arguments),
        Command::Serve(arguments) => serve::run(arguments, catalogue),
        Command::Ctl(arguments) => ctl::run(arguments, catalogue),
        Command::Top(arguments) => top::run(arguments),
        Command::Duel(arguments) => duel::run(arguments, catalogue),
        Command::DuelHelper { .. } | Command::Exec(_) => unreachable!("handled above"),
        Command::Advise(arguments) => tune::advise(arguments, catalogue),
        Command::Tune(arguments) => tune::run(arguments, catalogue),
        Command::Patterns(arguments) => tune::patterns(arguments),
        Command::Completions(arguments) => completions::completions(arguments),
        Command::Man(arguments) => completions::man(arguments),
    }?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn with_json(command: &clap::Command, path: &str) -> Vec<String> {
        let own = command.get_arguments().any(|argument| argument.get_id() == "json");
        let below = command.get_subcommands().flat_map(|below| {
            let path = if path.is_empty() {
                below.get_name().to_owned()
            } else {
                format!("{path}-{}", below.get_name())
            };
            with_json(below, &path)
        });
        own.then(|| path.to_owned()).into_iter().chain(below).collect()
    }

    #[test]
    fn every_json_output_has_a_schema() {
        let schemas = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/schemas");
        for name in with_json(&Arguments::command(), "") {
            let schema = match &*name {
                "tune" => "tune-status",
                "drives" => "drives-list",
                name => name,
            };
            let exists = schemas.join(format!("{schema}.schema.json")).exists();
            assert!(exists, "{name}: packaging/schemas has no {schema}.schema.json");
        }
    }
}
