//! The kernel, tested through system calls and the requests that reach the device.

mod bench;
mod causes;
mod durability;
mod errors;
mod memory;
mod model;
mod pages;
mod races;
mod reading;
mod split;
mod writing;
