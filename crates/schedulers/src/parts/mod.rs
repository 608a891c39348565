//! Data structures that policies share. None of them allocates in the steady state.
//!
//! | module | content |
//! |---|---|
//! | [`sorted`] | requests by sector |
//! | [`fifo`] | linked lists with removal from the middle in constant time |
//! | [`per_request`] | an array indexed by request id |
//! | `processes` | a bounded table of process histories |
//! | `process_rounds` | one queue per process, served in rounds: the core of the first CFQ versions |
//! | `directives` | what an array's coordinator has a member do |
//! | `averages`, `jiffies`, `nearest` | the fixed-point averages, tick clock and head-distance rule of the Linux 2.6 policies |

pub(crate) mod averages;
pub(crate) mod directives;
pub mod fifo;
pub(crate) mod jiffies;
pub(crate) mod nearest;
pub mod per_request;
pub(crate) mod process_rounds;
pub(crate) mod processes;
pub mod sorted;
