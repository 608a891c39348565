//! What the command line names: workloads, schedulers, quantities.

pub(crate) mod account_terms;
pub(crate) mod quantity;
pub(crate) mod scheduler_arg;
pub(crate) mod shared_args;
