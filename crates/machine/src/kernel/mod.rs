//! The kernel above the block layer: system calls, page cache, file system and journal, in virtual time.
//!
//! No byte of data is kept; positions, sizes, and who dirtied what are.

mod calls;

pub use calls::{Call, Descriptor, Errno, Open, Path, Returned};
