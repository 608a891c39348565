//! What a policy offers besides scheduling: tunables, inspection, hooks above the block layer, the member side of an array, a short path.
//!
//! A host asks for the capabilities that it uses. Only [`short_path`](Capabilities::short_path) is on the hot path.

use alloc::vec::Vec;

use crate::member::ArrayMember;
use crate::sector::Sector;
use crate::short_path::ShortPath;
use crate::split::Split;
use crate::time::{Span, Time};
use crate::tunable::{Tunable, TuneError, Tuning, Value};

/// The optional capabilities of a policy. Each accessor returns `None` unless the policy overrides it.
///
/// A policy whose tunables are declared with [`tunables!`](crate::tunables) needs one line:
///
/// ```
/// # use dwell_elevator::{Capabilities, tunables, tuned_by};
/// # tunables! {
/// #     /// Tunables.
/// #     pub struct Tunables {
/// #         /// Requests in a batch.
/// #         fifo_batch: Count = 16, 1, 1024;
/// #     }
/// # }
/// # #[derive(Default)]
/// # struct MyPolicy { tunables: Tunables }
/// impl Capabilities for MyPolicy {
///     tuned_by!(tunables);
/// }
/// # assert_eq!(MyPolicy::default().tunables().len(), 1);
/// ```
pub trait Capabilities {
    /// The policy's tunables, to read.
    fn tuning(&self) -> Option<&dyn Tuning> {
        None
    }

    /// The policy's tunables, to set.
    fn tuning_mut(&mut self) -> Option<&mut dyn Tuning> {
        None
    }

    /// The policy's state for display: streams, groups.
    fn inspection(&self) -> Option<&dyn Inspection> {
        None
    }

    /// The policy's part above the block layer. A host without these hooks must reject a policy that returns one.
    fn split(&mut self) -> Option<&mut dyn Split> {
        None
    }

    /// The policy's messages to and from an array's coordinator.
    fn array_member(&mut self) -> Option<&mut dyn ArrayMember> {
        None
    }

    /// The short path for a request that is alone in the queue. A policy has it from its start or never.
    fn short_path(&mut self) -> Option<&mut dyn ShortPath> {
        None
    }

    /// The table of tunables; empty if the policy has none. Do not override.
    fn tunables(&self) -> &[Tunable] {
        self.tuning().map_or(&[], Tuning::table)
    }

    /// The present value of a tunable. Do not override.
    fn tunable(&self, name: &str) -> Option<Value> {
        self.tuning()?.value(name)
    }

    /// Sets a tunable, effective from the next event on. Do not override.
    ///
    /// # Errors
    /// If there is no such tunable, or the value is of another kind or out of range.
    fn tune(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        match self.tuning_mut() {
            Some(tuning) => tuning.set_value(name, value),
            None => Err(TuneError::unknown(name)),
        }
    }
}

/// Implements [`Capabilities::tuning`] and [`Capabilities::tuning_mut`] by a field that implements [`Tuning`].
#[macro_export]
macro_rules! tuned_by {
    ($field:ident) => {
        fn tuning(&self) -> Option<&dyn $crate::Tuning> {
            Some(&self.$field)
        }

        fn tuning_mut(&mut self) -> Option<&mut dyn $crate::Tuning> {
            Some(&mut self.$field)
        }
    };
}

/// Implements [`Capabilities::tuning`] and [`Capabilities::tuning_mut`] by the policy itself, for a policy that reacts to a
/// changed tunable.
#[macro_export]
macro_rules! tuned_by_itself {
    () => {
        fn tuning(&self) -> Option<&dyn $crate::Tuning> {
            Some(self)
        }

        fn tuning_mut(&mut self) -> Option<&mut dyn $crate::Tuning> {
            Some(self)
        }
    };
}

/// A policy's state for display on a live device.
pub trait Inspection {
    /// The items that the policy keeps at `now`. May allocate.
    fn inspect(&self, now: Time) -> Vec<Item>;
}

/// One thing that a policy keeps: a stream, a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The kind of item in the policy's own term, such as `stream`. Items of one kind have the same facts in the same order.
    pub kind: &'static str,
    /// The number among the items of its kind, constant for the item's lifetime.
    pub number: u64,
    /// Named facts, in display order.
    pub facts: Vec<(&'static str, Fact)>,
}

/// A fact about an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// A count.
    Count(u64),
    /// A length of time.
    Span(Span),
    /// A position on the device.
    Sector(Sector),
    /// Yes or no.
    Flag(bool),
    /// One word of a fixed set.
    Word(&'static str),
    /// A share in percent.
    Percent(u64),
    /// The fact does not apply at present.
    None,
}

impl Item {
    /// An item without facts.
    #[must_use]
    pub const fn new(kind: &'static str, number: u64) -> Self {
        Self { kind, number, facts: Vec::new() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, name: &'static str, fact: Fact) -> Self {
        self.facts.push((name, fact));
        self
    }

    /// The fact with that name.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<Fact> {
        self.facts.iter().find(|(known, _)| *known == name).map(|(_, fact)| *fact)
    }
}
