//! Decision tables, and random histories with power failures.

mod crash;
mod medium;
mod table;
