//! The program `dwell`: what the other crates can do, from a command line.
//!
//! [`main`] is the whole program. Whoever writes a policy of their own builds it with [`main_with`], and finds it beside
//! the others in every command.

#![warn(clippy::print_stderr)]

#[macro_use(say)]
extern crate server;

mod arguments;
mod compare;
mod ctl;
mod device;
mod drives;
mod duel;
mod error;
mod format;
mod identity;
mod interrupt;
mod live;
mod modelled;
mod named;
mod page;
mod profile;
mod quantity;
mod record;
mod reproduce;
mod run;
mod scene;
mod schedulers_command;
mod serve;
mod systemd;
mod terminal;
mod text_file;
mod top;
mod trace;
mod tune;
mod workload;

use std::process::ExitCode;

use clap::Parser;
use schedulers::Listing;
use schedulers::registry::Catalogue;

pub use error::Error;
pub use named::scheduler_page;

use arguments::{Arguments, Command};

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    main_with(&[])
}

/// Runs the program with the process's arguments, and with policies of one's own beside the built-in ones: in `compare`,
/// `schedulers` and `serve` their names are names like any other. None may be a built-in one's.
#[must_use]
pub fn main_with(own: &'static [Listing]) -> ExitCode {
    let arguments = Arguments::parse();
    if let Command::DuelHelper { role } = &arguments.command {
        return ExitCode::from(::duel::run_helper(role));
    }
    match &arguments.command {
        // The server hears signals itself: the second one gives up on whoever uses the device, and still takes it down.
        Command::Serve(_) => {}
        Command::Record(_) | Command::Profile(_) | Command::Tune(_) => interrupt::listen(false),
        _ => interrupt::listen(true),
    }
    let catalogue = Catalogue::with(own).map_err(|taken| Error::Failed(taken.to_string()));
    match catalogue.and_then(|catalogue| run(&arguments, catalogue)) {
        Ok(()) | Err(Error::Pipe) => ExitCode::SUCCESS,
        Err(error) => {
            say!("dwell: {error}");
            error.exit_code()
        }
    }
}

fn run(arguments: &Arguments, catalogue: Catalogue) -> Result<(), Error> {
    match &arguments.command {
        Command::Compare(compare) => compare::run(compare, catalogue),
        Command::Run(arguments) => run::run(arguments, catalogue),
        Command::Drives(drives) => drives::run(drives),
        Command::Schedulers(schedulers) => schedulers_command::run(schedulers, catalogue),
        Command::Record(record) => record::run(record),
        Command::Profile(profile) => profile::run(profile),
        Command::Trace(trace) => trace::run(trace),
        Command::Reproduce(reproduce) => reproduce::run(reproduce),
        Command::Serve(serve) => serve::run(serve, catalogue),
        Command::Ctl(ctl) => ctl::run(ctl, catalogue),
        Command::Top(top) => top::run(top),
        Command::Duel(arguments) => duel::run(arguments, catalogue),
        Command::DuelHelper { .. } => unreachable!("run before anything else"),
        Command::Advise(arguments) => tune::advise(arguments, catalogue),
        Command::Tune(arguments) => tune::run(arguments, catalogue),
        Command::Patterns(arguments) => tune::patterns(arguments),
    }
}
