#![doc = include_str!("../README.md")]
//!
//! # Modules and types
//!
//! Reads and writes recorded block I/O in fifteen formats.
//!
//! [`open`] removes gzip, bzip2, zstd and tar from a stream, detects the format and the unit of time, and returns a [`Recording`]:
//! an iterator of [`Record`]s in time order. Its [`Interpretation`] states what was detected, its [`Skips`] what was left out or
//! corrected. A program should print both.
//!
//! ```
//! use dwell_traces::Options;
//!
//! let text = "0.5 0 1000 8 1\n2.25 0 1008 8 1\n";
//! let mut recording = dwell_traces::open("two.ascii", Box::new(text.as_bytes()), &Options::default())?;
//! let records = recording.by_ref().collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(records[1].start().0, 1008);
//! assert_eq!(recording.interpretation().to_string(), "DiskSim ASCII, read as milliseconds: 1.8 ms, 1142.9 IOPS");
//! # Ok::<(), dwell_traces::Error>(())
//! ```
//!
//! [`Format`] lists the formats; each has a module in [`format`](mod@format) that documents its columns, units and pitfalls.
//! [`Info`] summarizes a recording; [`mod@write`] writes one.
//!
//! With the feature `parquet`, recordings can be Parquet files; [`open_file`] reads them in place.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod binary;
mod blocks;
mod compression;
mod context;
mod detect;
mod devices;
mod error;
mod events;
pub mod format;
mod helper_thread;
mod info;
mod input;
mod interpretation;
mod line_format;
mod lines;
mod names;
mod options;
mod pairing;
#[cfg(feature = "parquet")]
mod parquet;
mod record;
mod recording;
mod rwbs;
mod scan;
mod skips;
mod spread;
mod tar;
mod unit;
pub mod write;

pub use elevator::{Flags, Op, Priority, PriorityClass, Sector, Sectors, Span, Time};

pub use compression::{Wrapping, decompress};
pub use devices::DeviceEntry;
pub use error::{Error, ErrorKind, Position};
pub use format::Format;
pub use info::{Amount, Gatherer, Info, Latency, ProcessRow, SizeRow};
pub use interpretation::Interpretation;
pub use options::{DeviceChoice, Options, StartEvent, TimeUnit};
#[cfg(feature = "parquet")]
pub use parquet::column_reader;
pub use record::{DeviceId, Pid, Record};
pub use recording::{Recording, open, open_file};
pub use rwbs::Rwbs;
pub use skips::{Oddity, Skips, Tally};
pub use unit::UnitSource;

/// Whether this build reads and writes Parquet.
pub const HAS_PARQUET: bool = cfg!(feature = "parquet");
