//! What programs share that talk to a served device:
//! - the control protocol and its client ([`protocol`], [`Client`], [`admission`], [`causes`]), for `dwell ctl`, `dwell top` and the tuner;
//! - readers of `/proc` ([`mounts`], [`process`]);
//! - messages about system errors of files ([`problem`]).
//!
//! A client sends one line of JSON and receives one line of JSON over a unix socket. [`protocol`] has the lines, [`Client`] the
//! connection. The server's end is in the crate `server`.

pub mod admission;
pub mod causes;
mod client;
pub mod device_number;
pub mod mounts;
pub mod problem;
pub mod process;
pub mod protocol;
mod supervised;

pub use client::Client;
pub use device_number::DeviceNumber;
pub use supervised::{array_of, is_removed, process_for};
