//! Split-level policies: at the system call, in memory and at the block layer at once; and the token buckets that they are
//! compared with, which know one level only.
//!
//! | file | what |
//! |---|---|
//! | `afq` | shares by priority: stride scheduling, reads at the block, writes and fsync at the call |
//! | `split_deadline` | deadlines for fsync: what would be in its way is bled out first |
//! | `split_token` | limits by account: charged when dirtied, corrected when sent, refunded when freed |
//! | `plain_token` | the same limits at the block layer alone, and at the system call alone |
//! | `noop` | hears everything and does nothing: what the hooks cost |
//! | `ledger`, `cost`, `bucket`, `lane` | what they share: who is charged what, what a request costs, debts, what is queued |

pub mod afq;
pub mod bucket;
pub mod cost;
pub mod lane;
pub mod ledger;
pub mod noop;
pub mod plain_token;
pub mod split_deadline;
pub mod split_token;

#[cfg(test)]
mod testing;
