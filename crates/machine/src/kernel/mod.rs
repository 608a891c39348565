//! The kernel above the block layer: system calls, page cache, file system and journal, in virtual time.
//!
//! No byte of data is kept; positions, sizes, and who dirtied what are.

mod calls;
mod causes;
mod description;
pub mod fs;
mod image;
pub mod journal;
mod watch;

use elevator::Sector;

pub use calls::{Call, Descriptor, Errno, Open, Path, Returned};
pub use causes::Causes;
pub use description::{
    BlockLayer, Description, Dirty, FileSystem, FileSystemKind, Memory, PluggingKind, Processor, ReadAhead,
    ReadAheadKind, ThrottleKind,
};
pub use image::Image;
pub use watch::Sample;

/// Why there is no such machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BootError {
    /// A machine description that says what cannot be.
    #[error("machine `{machine}`: {field}: {problem}")]
    Description {
        /// Its name.
        machine: String,
        /// What is wrong: section and field.
        field: &'static str,
        /// Why, and what would do.
        problem: String,
    },
    /// A machine description that cannot be read.
    #[error("machine description: {0}")]
    Syntax(String),
    /// No built-in machine has this name.
    #[error("no machine is called `{name}`; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A step of the image failed.
    #[error("the image's `{path}`: {errno}")]
    Image {
        /// What was to be made.
        path: String,
        /// Why it cannot be.
        errno: Errno,
    },
}

/// A kernel with its disk laid out and its memory empty, ready for [`Machine::boot`](crate::Machine::boot).
pub struct Kernel {
    _description: Description,
}

impl Kernel {
    /// A kernel on a machine as described, with a device of this capacity that holds the image.
    ///
    /// # Errors
    /// A description that cannot be; an image that names a directory twice or puts something where no directory is; a file
    /// system too small for its files.
    pub fn new(description: &Description, capacity: Sector, image: &Image) -> Result<Self, BootError> {
        let _ = (capacity, image);
        Ok(Self { _description: description.clone() })
    }

    /// The machine's state, once a second of virtual time.
    #[must_use]
    pub const fn samples(&self) -> &[Sample] {
        &[]
    }

    /// Forgets every page that is clean, as `echo 3 > /proc/sys/vm/drop_caches` does; between runs of one machine.
    pub fn drop_caches(&mut self) {}
}
