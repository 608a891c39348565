//! What happens on a live device, seen from outside.
//!
//! [`Capture::open`] looks at a device of the running kernel and reports what it is asked, above merging and above every
//! scheduler, under `none` too: each submission with its time, place, kind and process, and if asked for, when it came
//! back. It is attached only as long as it lives, and leaves nothing behind when it is killed.
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
//! | file | what |
//! |---|---|
//! | `event` | what is reported |
//! | `source` | the trait of what reports, so that a test can be one ([`Fake`]) |
//! | `number` | what the kernel calls a device |
//! | `topology` | which queue schedules what a device is asked |
//! | `issuers` | whose a kernel worker's request is |
//! | `process` | which process a note means |
//! | `profile` | a device measured |
//! | `recorder` | recordings |
//! | `bpf` | by a BPF program (`bpf/`, GPL-2.0-only), without copying through files |
//! | `tracefs` | by the kernel's tracer, where BPF is not allowed |

mod bpf;
mod capture;
mod error;
mod event;
mod fake;
mod issuers;
mod manners;
mod number;
mod process;
pub mod profile;
mod recorder;
mod source;
pub mod topology;
mod tracefs;

pub use capture::Capture;
pub use error::Error;
pub use event::{Arrival, Batch, Completed, Name};
pub use fake::Fake;
pub use issuers::{Issuer, Issuers};
pub use manners::{now, step_back};
pub use number::Number;
pub use process::{is_process, this_process};
pub use recorder::Recorder;
pub use source::{Counts, Options, Source, Way};
