//! The kernel from outside: programs call, and what the device is asked for is looked at.

mod bench;
mod causes;
mod durability;
mod errors;
mod memory;
mod model;
mod races;
mod reading;
mod split;
mod writing;
