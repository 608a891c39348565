//! Interned sets of processes: the causes of a dirty page, a transaction or a request.

use std::rc::Rc;

use elevator::CauseSet;
use hashbrown::HashMap;

/// Every cause set so far, once each: equal sets have equal numbers.
///
/// The causes of a transaction are the processes in it; those of a page, the processes that dirtied it. Sets grow by unions
/// only, and the same unions recur, so unions are cached.
#[derive(Debug, Default)]
pub struct Causes {
    sets: Vec<Rc<[u32]>>,
    names: HashMap<Rc<[u32]>, CauseSet>,
    unions: HashMap<(CauseSet, CauseSet), CauseSet>,
}

impl Causes {
    pub fn one(&mut self, process: u32) -> CauseSet {
        self.intern(&[process])
    }

    /// The union of two sets.
    pub fn union(&mut self, a: CauseSet, b: CauseSet) -> CauseSet {
        if a == b {
            return a;
        }
        let key = (a.min(b), a.max(b));
        if let Some(&known) = self.unions.get(&key) {
            return known;
        }
        let mut all: Vec<u32> = self.members(a).iter().chain(self.members(b)).copied().collect();
        all.sort_unstable();
        all.dedup();
        let union = self.intern(&all);
        self.unions.insert(key, union);
        union
    }

    /// The union of a set that may be absent with another.
    pub fn join(&mut self, a: Option<CauseSet>, b: CauseSet) -> CauseSet {
        a.map_or(b, |a| self.union(a, b))
    }

    /// The processes of a set, in ascending order; empty for an unknown set.
    pub fn members(&self, set: CauseSet) -> &[u32] {
        self.sets.get(set.0 as usize).map_or(&[], |members| members)
    }

    /// The members of the n-th set, from 0.
    pub fn nth(&self, n: u32) -> Option<Rc<[u32]>> {
        self.sets.get(n as usize).cloned()
    }

    /// Bytes of all sets and cached unions.
    pub fn bytes(&self) -> usize {
        let members: usize = self.sets.iter().map(|set| size_of_val(&**set)).sum();
        let name = size_of::<Rc<[u32]>>() + size_of::<CauseSet>();
        let union = size_of::<(CauseSet, CauseSet)>() + size_of::<CauseSet>();
        members
            + self.sets.capacity() * size_of::<Rc<[u32]>>()
            + self.names.capacity() * name
            + self.unions.capacity() * union
    }

    fn intern(&mut self, members: &[u32]) -> CauseSet {
        if let Some(&name) = self.names.get(members) {
            return name;
        }
        let name = CauseSet(self.sets.len() as u32);
        let members: Rc<[u32]> = members.into();
        self.sets.push(Rc::clone(&members));
        self.names.insert(members, name);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_have_one_name() {
        let mut causes = Causes::default();
        let (a, b, c) = (causes.one(7), causes.one(3), causes.one(5));
        let ab = causes.union(a, b);
        let abc = causes.union(ab, c);
        let bc = causes.union(c, b);
        assert_eq!(causes.members(abc), [3, 5, 7]);
        assert_eq!(causes.union(a, bc), abc);
        assert_eq!(causes.union(abc, b), abc);
        assert_eq!(causes.one(7), a);
        assert_eq!(causes.join(None, b), b);
        assert_eq!(causes.join(Some(b), a), ab);
    }
}
