//! How long a device takes: drives in virtual time.
//!
//! A [`Drive`] takes commands and says when each is done. It has no clock: the host, virtual or real, passes the time
//! in and asks when to come back.

mod drive;
pub mod parameters;

pub use drive::{Command, Completion, Drive, Service, Tag};
pub use parameters::RotatingParameters;
