//! Programs at the level of system calls, one file per idea: what a script's steps can do.
//!
//! Each is a struct whose fields are what a script says, and an `async fn run(&self, os)` that reads as the program would
//! be written. [`os`] makes a [`machine::Program`] of it.

pub mod cold_start;
pub mod copy;
pub mod daemon;
pub mod database;
pub mod diary;
pub mod ffsb;
pub mod fio;
pub mod os;
pub mod postmark;
pub mod query;
pub mod read;
pub mod read_tree;
pub mod rollback;
pub mod sqlite;
pub mod swap_storm;
pub mod tpc_b;
pub mod units;
mod walk;
pub mod write;
