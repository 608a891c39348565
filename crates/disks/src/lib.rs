#![doc = include_str!("../README.md")]
//!
//! # Modules and types
//!
//! Models of disk drives, solid-state drives and arrays in virtual time.
//!
//! A [`Drive`] accepts commands and returns their completions. It has no clock: the host, virtual or real, passes the time and
//! polls the drive at the time that it returns. [`open`] makes a drive from a built-in name, a file, or either with overrides:
//!
//! ```
//! use dwell_disks::{Command, Op, Sector, Sectors, Tag, Time};
//!
//! let mut no_files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
//! let (mut drive, _) = dwell_disks::open("wd5000aaks{buffer=off}", &mut no_files)?;
//! let (start, sectors) = (Sector(500_000_000), Sectors(8));
//! drive.submit(Time::ZERO, Command { tag: Tag(0), op: Op::Read, start, sectors, fua: false });
//! let done = loop {
//!     let at = drive.next_event().expect("a command is in the drive");
//!     if let Some(completion) = drive.poll(at) {
//!         break completion;
//!     }
//! };
//! assert!(done.at.since(Time::ZERO).as_millis_f64() < 30.0);
//! # Ok::<(), dwell_disks::OpenError>(())
//! ```

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod array;
pub mod catalogue;
pub mod curve;
pub mod demerit;
mod description;
pub mod disksim;
mod divisor;
mod drive;
mod fixed;
mod layout;
mod measured;
mod mechanics;
mod overrides;
pub mod parameters;
mod rotating;
mod skewed_clock;
pub mod ssd;
mod truncated;
pub mod validate;

pub use catalogue::{OpenError, OverrideError, open};
pub use description::{
    DescriptionError, DriveDescription, DriveParameters, Origin, explain_toml, toml_in_words,
};
pub use elevator::{Op, Outcome, Sector, Sectors, Span, Time};

pub use drive::{Command, Completion, Drive, Gap, Ideal, Service, Tag, Travel};
pub use fixed::Fixed;
pub use layout::TrackLayoutError;
pub use measured::MeasuredDrive;
pub use mechanics::MechanicsError;
pub use parameters::RotatingParameters;
pub use rotating::{Rotating, RotatingError};
pub use skewed_clock::SkewedClock;
pub use ssd::{Ssd, SsdParameters};
pub use truncated::Truncated;
