//! The command line of `trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::shared::Reading;

/// Recordings.
#[derive(Args, Debug)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TraceCommand {
    /// What a recording holds
    Info {
        /// The recording ('-' for standard input)
        file: PathBuf,
        #[command(flatten)]
        reading: Reading,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// What the tuner recognises in a recording: kinds of load, and clusters of windows
    Patterns {
        /// The recording ('-' for standard input)
        file: PathBuf,
        /// How long a window is
        #[arg(long, value_name = "TIME", default_value = "5s")]
        window: String,
        #[command(flatten)]
        reading: Reading,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write a recording in another format
    Convert {
        /// The recording ('-' for standard input)
        from: PathBuf,
        /// The file to write ('-' for standard output); .gz and .zst are compressed
        to: PathBuf,
        /// dwell, fio, blkparse or disksim
        #[arg(long, value_name = "FORMAT")]
        to_format: String,
        #[command(flatten)]
        reading: Reading,
    },
}
