//! Decision tables.

mod table;
