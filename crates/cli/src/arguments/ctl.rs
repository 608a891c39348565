//! The command line of `ctl`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// A served device.
#[derive(Args, Debug)]
pub(crate) struct CtlArguments {
    /// The control socket of 'dwell serve --control'
    pub(crate) socket: PathBuf,
    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CtlCommand {
    /// The device now: queue, latencies, scheduler, its streams or groups, and tunables
    Show {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// The device now, as Prometheus text
    Metrics,
    /// Put another scheduler in; nothing is lost
    Switch {
        /// The scheduler, with tunables in braces, or a page of TOML (scheduler = "...", tunables below)
        scheduler: String,
        /// Drain the queue first, as Linux does
        #[arg(long)]
        drain: bool,
    },
    /// Set a tunable of the scheduler
    Tune {
        /// Its name
        tunable: String,
        /// Its value with its unit
        value: String,
    },
    /// Write a decision log for a while
    Log {
        /// A file that does not exist yet
        file: PathBuf,
        /// For how long, e.g. 10s, of the device's time: under 'serve --speed 10' that is over in a second
        #[arg(long = "for", default_value = "10s")]
        during: String,
    },
    /// End the server
    Stop,
}
