//! Policies that exist to be compared with: token buckets at one level only, and a split policy that only listens.

pub mod plain_token;
pub mod split_noop;
