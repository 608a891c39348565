//! What a policy tells of itself, for people who look at a live device: its streams, its groups, and whatever else it keeps.
//!
//! Off the hot path: a host asks when somebody wants to know, and a policy may allocate for its answer.

use alloc::vec::Vec;

use crate::sector::Sector;
use crate::time::Span;

/// One thing that a policy keeps: a stream, a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// What it is, in the policy's own word: `stream`. Items of one kind have the same facts in the same order.
    pub kind: &'static str,
    /// Its number among those of its kind, the same as long as it lives.
    pub number: u64,
    /// What there is to say of it.
    pub facts: Vec<(&'static str, Fact)>,
}

/// A fact of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// So many.
    Count(u64),
    /// So long.
    Span(Span),
    /// There.
    Sector(Sector),
    /// Yes or no.
    Flag(bool),
    /// One word of a few.
    Word(&'static str),
    /// A share in percent.
    Percent(u64),
    /// It does not apply now.
    None,
}

impl Item {
    /// Nothing said of it yet.
    #[must_use]
    pub const fn new(kind: &'static str, number: u64) -> Self {
        Self { kind, number, facts: Vec::new() }
    }

    /// And this.
    #[must_use]
    pub fn with(mut self, name: &'static str, fact: Fact) -> Self {
        self.facts.push((name, fact));
        self
    }

    /// The fact of that name.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<Fact> {
        self.facts.iter().find(|(known, _)| *known == name).map(|(_, fact)| *fact)
    }
}
