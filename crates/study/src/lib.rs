//! Studies: workloads × schedulers × tunables × drives × arrays × depths × identities × seeds on the model.
//!
//! [`Study::read`] reads a file such as
//!
//! ```toml
//! workloads = ["recordings/*.ftrace.gz", "par-read{processes=4}"]
//! schedulers = ["deadline", "bfq"]
//! depths = "1..32*2"
//!
//! [tunables]
//! fifo_batch = [1, 4, 16]
//! ```
//!
//! and [`Study::runs`] expands it to an ordered list of [`Run`]s. Each is a self-contained description that can be serialised and
//! executed by another process: [`Executor::execute`] is a function from the description to [`Rows`]. The identifier of a run is a hash of the
//! [`VERSION`], the inputs' contents and the settings, so results of equal identifiers are equal.
//!
//! [`Store`] keeps the rows in a folder of Parquet files, which an interrupted study continues; [`drive`] executes the missing runs on
//! all cores; [`Summary`] has regret and Pareto fronts.
//!
//! Without the feature `parquet`, everything but [`Store`] works.

#![forbid(unsafe_code)]
#![warn(clippy::print_stderr)]

#[cfg(feature = "parquet")]
mod behind;
mod description;
mod driver;
mod execute;
mod expand;
mod file;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(not(feature = "parquet"))]
#[path = "without_parquet.rs"]
mod parquet_file;
#[cfg(feature = "parquet")]
pub mod recordings;
#[cfg(not(feature = "parquet"))]
#[path = "without_recordings.rs"]
pub mod recordings;
mod store;
mod summary;
mod table;
pub mod unfinished;
mod windows;

pub use description::{Input, Kind, Run};
pub use driver::{Ended, drive, part_size};
pub use evaluation::Error;
pub use execute::{Executor, Rows};
pub use file::{Copies, Study};
pub use parquet_file::{read_table, write_table};
pub use store::{Files, NOT_BUILT, Store, complete, encode};
pub use summary::{Front, Names, Scheduler, Summary, dominates, problem_lines};
pub use table::{Cell, Field, PROCESSES, RUNS, Type, WINDOWS};

/// The version, and a hash of the sources that determine results.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("DWELL_SOURCES"));

/// Whether this build reads and writes Parquet.
pub const HAS_PARQUET: bool = cfg!(feature = "parquet");
