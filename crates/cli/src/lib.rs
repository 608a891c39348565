//! The program `dwell`: what the other crates can do, from a command line.
//!
//! [`main`] is the whole program. Whoever writes a policy of their own builds it with [`main_with`], and finds it beside
//! the others in every command.

mod arguments;
mod compare;
mod ctl;
mod device;
mod drives;
mod error;
mod format;
mod interrupt;
mod reproduce;
mod schedulers_command;
mod serve;
mod trace;
mod workload;

use std::process::ExitCode;

use clap::Parser;

pub use error::Error;

use arguments::{Arguments, Command};

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    interrupt::listen();
    match run(&arguments) {
        Ok(()) | Err(Error::Pipe) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dwell: {error}");
            error.exit_code()
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    match &arguments.command {
        Command::Compare(compare) => compare::run(compare),
        Command::Drives(drives) => drives::run(drives),
        Command::Schedulers(schedulers) => schedulers_command::run(schedulers),
        Command::Trace(trace) => trace::run(trace),
        Command::Reproduce(reproduce) => reproduce::run(reproduce),
        Command::Serve(serve) => serve::run(serve),
        Command::Ctl(ctl) => ctl::run(ctl),
    }
}
