//! A block device in front of a real or an emulated disk, with a scheduler in between.
//!
//! ```text
//! NBD clients ─┐                                                  ┌─ a file or block device (io_uring)
//!              ├─ front ends ─ device (queue, scheduler) ─ back end ┼─ memory
//! FUSE + loop ─┘                                                  └─ an emulated drive in front of either
//! ```
//!
//! One thread owns everything between the sockets and the disk and waits for all events in one place. There is no lock,
//! queue or other thread between a request and the scheduler. [`start`] returns a [`Server`]; [`run`] also waits for
//! SIGINT, SIGTERM or an order from the control socket, and takes everything down.
//!
//! | file | content |
//! |---|---|
//! | `array` | several devices under one coordinator |
//! | `device`, `operation` | the queue, the back end, and unfinished operations; what front ends submit and receive |
//! | `core` | a device and its front ends, without sleep or clock |
//! | `thread` | the loop around the core |
//! | `simulation` | the core in virtual time, for tests (feature `simulation`) |
//! | `front`, `nbd`, `fuse`, `attach` | front ends |
//! | `chosen`, `descriptor_store`, `supervisor` | the attached device outlives its server |
//! | `identity` | the processes behind requests of the kernel's workers |
//! | `backend` | storage of the data |
//! | `control` | live control; the protocol and its client are the crate `control` |
//! | `split` | the host of split-level policies |
//! | `statistics`, `log`, `rate_limit` | measurements and messages |
//! | `clock`, `realtime`, `poller`, `spin_sleep`, `busy_poll`, `buffer`, `resident`, `memory_limit` | time, sleep and memory |
//! | `progress` | the state of the device's thread, for other threads |
//! | `guard`, `names`, `locks`, `private_directory`, `privileges` | protection of devices and their data |

#![warn(clippy::print_stderr)]

/// Prints a line on standard error and ignores failures.
///
/// `eprintln!` panics when standard error is closed. In a server, the panic would leave the attached device without its thread, and
/// would leave the loop device and the mount on the machine.
#[macro_export]
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let mut line = format!($($what)*);
        line.push('\n');
        let _ = std::io::stderr().write_all(line.as_bytes());
    }};
}

pub mod array;
mod attach;
pub mod backend;
mod buffer;
mod busy_poll;
mod chosen;
mod clock;
pub mod control;
mod core;
mod descriptor_store;
mod device;
mod ending;
mod error;
pub mod front;
mod fuse;
mod guard;
mod identity;
mod locks;
mod log;
mod loop_device;
mod memory_limit;
mod names;
pub mod nbd;
mod operation;
mod poller;
mod private_directory;
mod privileges;
mod progress;
mod rate_limit;
mod realtime;
mod resident;
mod server;
#[cfg(feature = "simulation")]
pub mod simulation;
mod spin_sleep;
pub mod split;
mod statistics;
pub mod supervisor;
mod thread;

pub use ::control::protocol::{ProcessAccount, TimesSummary};
pub use attach::AttachOptions;
pub use buffer::{Buffer, Pool};
pub use clock::Clock;
pub use device::{Device, Failure};
pub use error::ServeError;
pub use identity::{Identify, IdentifyFactory};
pub use loop_device::{Lifetime, LoopDevice, QueueSettings};
pub use nbd::{Nbd, NbdOptions};
pub use operation::{Answer, FrontEndEvent, NewOperation, Woken};
pub use poller::Interest;
pub use realtime::Punctuality;
pub use server::{BackendFactory, Configuration, ObserverFactory, Report, Server, run, start};
pub use statistics::{Statistics, Times, Watch};
