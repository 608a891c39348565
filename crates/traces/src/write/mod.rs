//! Recordings written: in Dwell's own format, and in three that other tools read, fio's iolog v3, blkparse's text and
//! DiskSim ASCII.
//!
//! Those three can say less than a [`Record`](crate::Record) holds. What a writer left out or rounded is counted in the
//! [`Written`] that it returns.

mod blkparse;
mod compressed;
mod disksim;
mod dwell;
mod fio;

pub use blkparse::BlkparseWriter;
pub use compressed::{Compressed, not_written};
pub use disksim::DiskSimWriter;
pub use dwell::DwellWriter;
pub use fio::FioWriter;

use serde::Serialize;

/// What became of the records that a writer was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Written {
    /// Records written.
    pub written: u64,
    /// Records left out, as the format has no word for what they do.
    pub left_out: u64,
    /// Records whose time or extent was rounded to what the format can say.
    pub rounded: u64,
}
