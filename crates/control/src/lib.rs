//! The control protocol of a served device, and a client: what `dwell ctl`, `dwell top` and the tuner need of a server;
//! what several crates read in `/proc`, and the words for
//! system errors of files.
//!
//! A client sends one line of JSON and receives one line of JSON over a unix socket. [`protocol`] has the lines, [`Client`] the
//! connection. The server's end is in the crate `server`.

pub mod admission;
pub mod causes;
mod client;
pub mod mounts;
pub mod problem;
pub mod process;
pub mod protocol;
mod supervised;

pub use client::Client;
pub use supervised::{array_of, is_removed, process_for};
