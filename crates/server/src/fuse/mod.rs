//! The FUSE front end: a file system of exactly one file, which is the device.
//!
//! The mount's root is that file itself, so there are no directories, names or lookups. A loop device is then
//! attached to it ([`attach`](crate::attach)).
//!
//! Source: `include/uapi/linux/fuse.h` and `Documentation/filesystems/fuse*.rst` of Linux.

mod front;
mod mount;
mod protocol;

pub(crate) use front::{Fuse, FuseOptions, Shared};
pub(crate) use mount::{Mount, abort, connection_number, is_connected, unmount};
