//! Recorded I/O, read and written, in the formats people already have.
//!
//! [`open`] takes a stream, takes off gzip, bzip2, zstd and tar, tells the format and the unit of time, and gives a
//! [`Recording`]: an iterator of [`Record`]s in order of time. What was decided is in its [`Interpretation`], to be said
//! aloud; what was left out or mended, in its [`Skips`].
//!
//! ```
//! let text = "0.5 0 1000 8 1\n2.25 0 1008 8 1\n";
//! let mut recording = dwell_traces::open("two.ascii", Box::new(text.as_bytes()), &dwell_traces::Options::default())?;
//! let records = recording.by_ref().collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(records[1].start().0, 1008);
//! assert_eq!(recording.interpretation().to_string(), "DiskSim ASCII, read as milliseconds: 1.8 ms, 1142.9 IOPS");
//! # Ok::<(), dwell_traces::Error>(())
//! ```
//!
//! [`Format`] lists the formats; each has a module under [`format`](mod@format) with its columns, units and traps.
//! [`Info`] sums a recording up; [`mod@write`] writes one.

#![forbid(unsafe_code)]

mod binary;
mod compression;
mod context;
mod detect;
mod devices;
mod error;
mod events;
pub mod format;
mod info;
mod input;
mod interpretation;
mod lines;
mod names;
mod options;
mod pairing;
mod record;
mod recording;
mod rwbs;
mod scan;
mod skips;
mod spread;
mod tar;
mod unit;
pub mod write;

pub use compression::{Wrapping, unwrap};
pub use devices::DeviceEntry;
pub use error::{Error, ErrorKind, Position};
pub use format::Format;
pub use info::{Amount, Gatherer, Info, Latency, ProcessRow, SizeRow};
pub use interpretation::Interpretation;
pub use options::{DeviceChoice, Options, StartEvent, TimeUnit};
pub use record::{DeviceId, Pid, Record};
pub use recording::{Recording, open};
pub use rwbs::Rwbs;
pub use skips::{Oddity, Skips, Tally};
pub use unit::UnitSource;
