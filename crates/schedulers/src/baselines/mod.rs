//! Baselines for comparisons: token buckets at one level only, and a split policy that ignores its events.

pub mod plain_token;
pub mod split_noop;
