//! The native part of the Python package `dwell`.
//!
//! | modules | contents |
//! |---|---|
//! | `compare` | one workload under many schedulers; the results as JSON for the Python part |
//! | `trace`, `column`, `arrow` | recordings from files, and from columns in memory that are read in place |
//! | `policy`, `waits`, `check` | policies that are Python objects, their verification, and the checker |
//! | `study` | studies: runs as JSON for other processes, and the folder of results |
//! | `background` | work without the GIL that Ctrl-C ends |
//! | `exit` | the end of the interpreter during calls of daemon threads |
//! | `error` | exceptions; a panic becomes one of them |

#![warn(clippy::print_stderr)]

mod arrow;
mod background;
mod chart;
mod check;
mod column;
mod compare;
mod error;
mod exit;
mod objects;
mod policy;
mod study;
mod trace;
mod waits;

use pyo3::prelude::*;

/// The native part of the package `dwell`; use the package instead.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::chart::{bars, lines};
    #[pymodule_export]
    use super::check::check_policy;
    #[pymodule_export]
    use super::compare::compare;
    #[pymodule_export]
    use super::objects::{Dispatch, Growth, Hold, Request, View, drive, drives, scheduler, schedulers};
    #[pymodule_export]
    use super::study::{Executor, Rows, Runs, Store, addresses, execute, sha256, summary};
    #[pymodule_export]
    use super::trace::Trace;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::exit::register(module)?;
        // With a hash of the sources that determine results.
        module.add("simulator", ::study::VERSION)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
