//! Observes a device of the running kernel.
//!
//! [`Capture::open`] reports each submission to a device above merging and above every scheduler, also under `none`: its time, sector,
//! operation and process and, if requested, its completion. Nothing stays attached after the process ends, even if it is killed.
//!
//! ```no_run
//! use std::time::Duration;
//! use capture::{Batch, Capture, Options, Source};
//!
//! let mut capture = Capture::open("/dev/sda".as_ref(), &Options { completions: true, ..Options::default() })?;
//! capture.notes().iter().for_each(|note| eprintln!("{note}"));
//! let mut batch = Batch::default();
//! loop {
//!     capture.take(&mut batch, Duration::from_secs(1))?;
//!     for arrival in &batch.arrivals {
//!         println!("{} {} {}+{} by {}", arrival.at, arrival.op, arrival.start, arrival.sectors, arrival.name);
//!     }
//!     batch.clear();
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), capture::Error>(())
//! ```
//!
//! | module | what |
//! |---|---|
//! | `event` | events |
//! | `source` | the trait of sources, which tests implement too ([`Fake`]) |
//! | `topology` | which queue schedules a device's requests |
//! | `file_system` | the device below a file, a directory or a mount point |
//! | `module` | how to get a scheduler that a queue does not offer |
//! | `issuers` | the process behind a kernel worker's request |
//! | `process`, `clock` | identity and priority of a process; the clock of arrivals |
//! | `profile` | measurements of a device |
//! | `recorder` | recordings |
//! | `causes` | who dirtied the data that is written |
//! | `bpf` | the back end with a BPF program (`bpf/`, GPL-2.0-only) |
//! | `tracefs` | the back end with the kernel's tracer, for kernels that refuse BPF; the decisions of Dwell's kernel module |

mod bpf;
mod capture;
pub mod causes;
mod clock;
mod error;
mod event;
mod fake;
mod file_system;
mod issuers;
mod module;
mod process;
pub mod profile;
mod recorder;
mod source;
pub mod topology;
mod tracefs;

pub use capture::Capture;
pub use clock::now;
pub use control::device_number::{DeviceNumber as Number, parse as number};
pub use error::Error;
pub use event::{Arrival, Batch, Completed, Name};
pub use fake::Fake;
pub use file_system::{device_below, devices_below};
pub use issuers::{Issuer, Issuers};
pub use module::how_to_get;
pub use process::{is_kernel_thread, is_process, lower_priority, this_process};
pub use recorder::Recorder;
pub use source::{Backend, Counts, Options, Source};
pub use tracefs::{Decision, Decisions, Verdict};
