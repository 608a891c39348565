//! To be.
pub mod dtw;
mod random;
pub use random::Random;
