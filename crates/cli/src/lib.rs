//! The program `dwell`: the command line of the other crates.
//!
//! [`main`] is the whole program. To add a policy of your own, build the program with [`main_with`]: the policy then has a name in every
//! command.
//!
//! | modules | contents |
//! |---|---|
//! | `commands` | one file or folder for each command: its options and what it does |
//! | `tune` | `advise`, `tune` and `patterns` |
//! | `config` | default values of options from configuration files |
//! | `input` | workloads, schedulers and quantities on the command line |
//! | `report` | tables and HTML reports of `compare` and `run` |
//! | `device_capture`, `identity` | live devices |

#![warn(clippy::print_stderr)]

#[macro_use(say)]
extern crate server;

mod commands;
mod config;
mod device_capture;
mod error;
mod identities;
mod identity;
mod input;
mod interrupt;
mod output_file;
mod report;
mod service_manager;
mod tune;

use std::process::ExitCode;

use evaluation::report::format::printable;
use schedulers::Listing;
use schedulers::registry::Catalogue;

pub use error::Error;
pub use evaluation::scheduler_page::scheduler_page;

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    main_with(&[])
}

/// Runs the program with the process's arguments and additional policies. The policies are available in `compare`, `schedulers` and
/// `serve` like the built-in ones. Their names must differ from those of built-in policies.
#[must_use]
pub fn main_with(own: &'static [Listing]) -> ExitCode {
    let (arguments, origins) = match commands::parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            print(&error);
            return error.exit_code();
        }
    };
    let catalogue = Catalogue::with(own).map_err(|taken| Error::Failed(taken.to_string()));
    match catalogue.and_then(|catalogue| commands::run(&arguments, catalogue)) {
        Ok(code) => code,
        Err(Error::Pipe) => ExitCode::SUCCESS,
        Err(error) => {
            let error = origins.locate(error);
            print(&error);
            error.exit_code()
        }
    }
}

/// Messages of parsers quote with backticks, ours with single quotes. A message is one line, whatever names it has.
fn print(error: &Error) {
    say!("dwell: {}", printable(&error.to_string().replace('`', "'")));
}
