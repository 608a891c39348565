//! What messages to people share, whoever writes them: which known name was meant, how many there are of something, and
//! how large it is.
//!
//! It stands below everything else and knows nothing of disks.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod counted;
mod nearest;
mod whole;

pub use counted::counted;
pub use nearest::{did_you_mean, did_you_mean_of};
pub use whole::whole;
