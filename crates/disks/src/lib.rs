//! How long a device takes: drives in virtual time.
//!
//! A [`Drive`] takes commands and says when each is done. It has no clock: the host, virtual or real, passes the time
//! in and asks when to come back.

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
mod mechanics;
mod overrides;
pub mod parameters;
mod rotating;
mod skewed_clock;
pub mod ssd;
mod truncated;
pub mod validate;

pub use catalogue::{OpenError, open};
pub use description::{DescriptionError, DriveDescription, DriveParameters, Origin, explain_toml};
pub use drive::{Command, Completion, Drive, Ideal, Service, Tag, Travel};
pub use fixed::Fixed;
pub use layout::LayoutError;
pub use mechanics::MechanicsError;
pub use parameters::RotatingParameters;
pub use rotating::{Rotating, RotatingError};
pub use skewed_clock::SkewedClock;
pub use ssd::{Ssd, SsdParameters};
pub use truncated::Truncated;
