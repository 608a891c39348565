//! Programs at the level of system calls: the steps of scripts.
//!
//! Each is a struct of the script's fields with an `async fn run(&self, os)` that reads like the program. [`os`] turns it
//! into a [`machine::Program`].

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
