//! Writers: Dwell's own format, Parquet (with the feature `parquet`), and three formats of other tools: fio's iolog version 3, blkparse's text and DiskSim ASCII.
//!
//! The latter cannot express all fields of a [`Record`](crate::Record). Writers return what they left out or rounded as [`Written`].

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

#[cfg(feature = "parquet")]
pub use crate::parquet::{encode::Encoders, writer::ParquetWriter};

use serde::Serialize;

/// What a writer wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Written {
    /// Records written.
    pub written: u64,
    /// Records left out, because the format cannot express their operation.
    pub left_out: u64,
    /// Records whose time or extent was rounded.
    pub rounded: u64,
}
