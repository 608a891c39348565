//! A program's I/O priority.

use std::io;

use serde::{Deserialize, Serialize};

/// An I/O priority, as `ioprio_set(2)` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Priority {
    class: u8,
    level: u8,
}

impl Priority {
    /// Served only when no other process uses the device.
    pub(crate) const IDLE: Self = Self { class: 3, level: 0 };

    /// The default class, with a level from 0 (highest) to 7.
    pub(crate) const fn best_effort(level: u8) -> Self {
        Self { class: 2, level }
    }
}

/// Sets the I/O priority of the calling thread.
pub(crate) fn set_priority(priority: Priority) -> io::Result<()> {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_SHIFT: u32 = 13;
    let value = i32::from(priority.class) << CLASS_SHIFT | i32::from(priority.level);
    // SAFETY: three numbers, no memory; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
