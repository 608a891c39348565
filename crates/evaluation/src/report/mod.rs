//! Common parts of all reports: HTML pages, charts, and numbers with their units.

pub mod chart;
pub mod format;
pub mod page;
