//! What is seldom, said to the compiler.

/// Stands on a way that is seldom gone, or on which so much is done that a jump does not count, so that the usual way goes straight
/// on: where code is long and little of it goes round, a processor is held up most by the jumps that it takes.
///
/// `core::hint::cold_path` says the same, and takes its place once nothing older than Rust 1.95 is asked for.
#[cold]
#[inline]
pub const fn rarely() {}
