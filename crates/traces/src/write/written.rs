//! The result of a writer.

use serde::Serialize;

use super::holds::Fields;

/// What a writer wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Written {
    /// Records written.
    pub written: u64,
    /// Records left out, because the format cannot express them.
    pub left_out: u64,
    /// Records whose time or extent was rounded.
    pub rounded: u64,
    /// Records whose completion was left out, because readers would assign it to an earlier record without one.
    pub uncompleted: u64,
    /// Fields that some of the records have and the format has not.
    pub lost: Fields,
}
