/// Marks a cold path: the compiler lays out the other branch as the fall-through.
///
/// Long straight-line code spends much of its time on taken jumps, so the common path must not jump.
/// `core::hint::cold_path` replaces this function once the minimum Rust version is 1.95.
#[cold]
#[inline]
pub const fn cold_path() {}
