//! Decision tables, and random histories that stop at any moment.

mod crash;
mod medium;
mod table;
