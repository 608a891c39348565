//! Results of `compare` and `run`: tables, the HTML report, decision logs.

mod columns;
mod html;
mod machine;
mod output;
pub(crate) mod table;
mod why;

pub(crate) use machine::processes as machine_processes;
pub(crate) use output::{Comparison, describe, ended};
pub(crate) use table::{members, processes, results};
