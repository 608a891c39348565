//! `dwell exec`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use admission::Joined;
use clap::Args;
use server::control::Client;
use server::control::protocol::AccountTerms;
use server::split::NOT_ATTACHED;

use super::ctl::no_server;
use crate::error::Error;
use crate::input::quantity::{size, some_time};

/// Options of `dwell exec`.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  dwell exec --control /run/dwell/disk.ctl --account backup --rate 5M -- rsync -a /home /mnt/backup")]
pub(crate) struct ExecArguments {
    /// The control socket of 'dwell serve --causes --control'
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: PathBuf,
    /// The account; programs with the same name share one account
    #[arg(long, value_name = "NAME")]
    pub(crate) account: String,
    /// The account's weight under afq, 1 to 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) weight: Option<u8>,
    /// The target latency of the account's fsync calls under split-deadline
    #[arg(long, value_name = "TIME")]
    pub(crate) fsync_deadline: Option<String>,
    /// The account's limit under split-token, as bytes of sequential I/O per second: 5M is 5 * 10^6
    #[arg(long, value_name = "SIZE")]
    pub(crate) rate: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Limit of the time for which a server may attach its device.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the program; returns its exit code. Called before this process has a second thread.
pub(crate) fn run(arguments: &ExecArguments) -> Result<ExitCode, Error> {
    let rate = arguments.rate.as_deref().map(size).transpose()?;
    if rate == Some(0) {
        return Err(Error::Usage("--rate: must be greater than 0".to_owned()));
    }
    let deadline =
        arguments.fsync_deadline.as_deref().map(|text| some_time("--fsync-deadline", text)).transpose()?;
    let terms = AccountTerms {
        weight: arguments.weight,
        rate,
        fsync_deadline_ns: deadline.map(|deadline| deadline.as_nanos() as u64),
    };
    let failed = |error: std::io::Error| no_server(&arguments.control, &error);
    let join = || Client::connect(&arguments.control)?.join(&arguments.account, terms);
    let begun = Instant::now();
    let (server, device) = loop {
        match join() {
            // The server was just started or restarted and has not attached its device yet.
            Err(error) if error.to_string().contains(NOT_ATTACHED) && begun.elapsed() < ATTACH_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(50));
            }
            joined => break joined.map_err(failed)?,
        }
    };
    let code = admission::run(&arguments.command, Joined { server, device });
    code.map(ExitCode::from).map_err(|error| match error {
        admission::Error::Program { .. } => Error::Usage(error.to_string()),
        admission::Error::System { .. } => Error::Kernel(error.to_string()),
    })
}
