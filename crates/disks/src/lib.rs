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
mod limit;
mod mechanics;
mod overrides;
mod own_clock;
pub mod parameters;
mod part;
mod rotating;
pub mod ssd;
pub mod validate;

pub use catalogue::{OpenError, open};
pub use description::{DescriptionError, DriveDescription, DriveParameters, Origin, explain_toml};
pub use drive::{Command, Completion, Drive, Service, Tag, Travel};
pub use fixed::Fixed;
pub use layout::LayoutError;
pub use limit::Ideal;
pub use mechanics::MechanicsError;
pub use own_clock::OwnClock;
pub use parameters::RotatingParameters;
pub use part::Part;
pub use rotating::{Rotating, RotatingError};
pub use ssd::{Ssd, SsdParameters};
