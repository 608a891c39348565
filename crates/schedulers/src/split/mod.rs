//! Split-level policies: they schedule system calls, dirty pages and block requests together.
//!
//! | module | content |
//! |---|---|
//! | [`afq`] | shares by priority: stride scheduling; reads at the block layer, writes and fsync at the system call |
//! | [`split_deadline`] | deadlines for fsync: dirty data that would delay it is written back first |
//! | [`split_token`] | rate limits by account: charged when pages become dirty, corrected at dispatch, refunded when freed |
//! | [`ledger`], [`tokens`], [`lane`] | shared parts: charges per account, prices and token buckets, queues per account |

pub mod afq;
pub mod lane;
pub mod ledger;
pub mod split_deadline;
pub mod split_token;
pub mod tokens;

#[cfg(test)]
pub(crate) mod testing;
