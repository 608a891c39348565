//! The queue that hosts a scheduler.

mod requests;

pub use requests::Requests;
