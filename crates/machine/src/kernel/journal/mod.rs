//! The journal of the modelled machine: which metadata becomes durable together, and what must be written before that.
//!
//! A state machine: events come in with `now`, what it wants comes out of `poll`, which is asked until it says `None`
//! after every event and at `deadline`.
//!
//! | `Journal` | |
//! |---|---|
//! | `new(Options, area: Extent) -> Self` | |
//! | `start(now, credits, cause, &mut Causes) -> Started` | begins a handle; `credits`: the most blocks it will change |
//! | `access(handle, block) -> Access` | a block is about to change: it joins the transaction |
//! | `order(handle, inode)` | the file's data must be written before the transaction commits (ordered mode) |
//! | `forget(handle, block)` | a metadata block was freed |
//! | `stop(now, handle) -> Tid` | ends the handle |
//! | `commit(now, tid) -> bool` | fsync: wants it durable; whether there is anything to wait for |
//! | `force(now) -> Option<Tid>` | sync: wants everything durable; whom to wait for |
//! | `poll(now) -> Option<Action>`, `deadline() -> Option<Time>` | |
//! | `data_written(now, tid)`, `written(now, WriteId)` | what it wanted is done |
//! | `holds(block) -> bool` | in a transaction that has not committed: writeback must leave it alone |
//! | `home_begins(block) -> Option<Tid>`, `home_written(now, block, tid)` | writeback takes a committed block home |

mod words;

pub use words::{Access, Action, Handle, Started, Tid, Why, Write, WriteId};
