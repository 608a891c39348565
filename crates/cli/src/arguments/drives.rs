//! The command line of `drives`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Modelled drives.
#[derive(Args, Debug)]
pub(crate) struct DrivesArguments {
    #[command(subcommand)]
    pub(crate) command: Option<DrivesCommand>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum DrivesCommand {
    /// List the built-in drives
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show a drive: what it is and where each number is from
    Show {
        /// Built in, or a file (.toml, .diskspecs, .parv)
        drive: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run a physical drive's measured trace and print the demerit
    Validate {
        /// The drive's description
        drive: String,
        /// The trace: R|W class block blocks service_us gap_us
        trace: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}
