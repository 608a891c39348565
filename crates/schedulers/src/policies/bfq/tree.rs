//! Entities in order of their finish times. Each node also stores the least start time of its subtree (an augmented
//! tree, as in EEVDF), so that one descent finds the eligible entity (start not after the virtual time) with the least finish
//! time.
//!
//! A treap whose nodes are in one array, indexed by queue. An entity is in at most one tree, so that all trees share the array, and
//! a move between trees does not allocate. The priority of a node is a hash of its id, so that the shape depends only
//! on the sequence of operations.

use alloc::vec::Vec;

use super::queue::QueueId;

const NONE: u32 = u32::MAX;

/// Whether one virtual time is later than another. Virtual time wraps around, as in the source: after four months at 2 GB/s for
/// one queue of the least weight. Compared times are close to each other.
pub(super) const fn is_later(time: u64, than: u64) -> bool {
    time.wrapping_sub(than).cast_signed() > 0
}

#[derive(Clone, Copy)]
struct Node {
    finish: u64,
    start: u64,
    /// Least start time in the subtree below and including this node.
    least_start: u64,
    parent: u32,
    left: u32,
    right: u32,
}

/// The root of one tree. The nodes are in the [`Nodes`] with which it is always used.
#[derive(Clone, Copy)]
pub(super) struct Tree {
    root: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Self { root: NONE }
    }
}

impl Tree {
    pub(super) const fn is_empty(&self) -> bool {
        self.root == NONE
    }
}

/// The nodes of any number of trees.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
}

/// Murmur3's finaliser, so that neighbouring ids have unrelated priorities.
const fn priority(id: u32) -> u32 {
    let mut x = id ^ 0x9e37_79b9;
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

impl Nodes {
    /// Adds an entity that is in no tree, behind those with the same finish time.
    pub(super) fn insert(&mut self, tree: &mut Tree, id: QueueId, finish: u64, start: u64) {
        let (parent, goes_left) = self.place_of(tree, finish);
        let node = Node { finish, start, least_start: start, parent, left: NONE, right: NONE };
        if id.index() >= self.nodes.len() {
            self.nodes.resize((id.index() + 1).next_power_of_two(), node);
        }
        self.nodes[id.index()] = node;
        match parent {
            NONE => tree.root = id.0,
            _ if goes_left => self.nodes[parent as usize].left = id.0,
            _ => self.nodes[parent as usize].right = id.0,
        }
        self.refresh_upwards(parent);
        while self.get(id.0).parent != NONE && priority(id.0) > priority(self.get(id.0).parent) {
            self.rotate_up(tree, id.0);
        }
    }

    /// Removes an entity that is in `tree`.
    pub(super) fn remove(&mut self, tree: &mut Tree, id: QueueId) {
        loop {
            let Node { left, right, .. } = *self.get(id.0);
            if left == NONE || right == NONE {
                break;
            }
            let up = if priority(left) > priority(right) { left } else { right };
            self.rotate_up(tree, up);
        }
        let Node { left, right, parent, .. } = *self.get(id.0);
        let child = if left == NONE { right } else { left };
        self.replace_child(tree, parent, id.0, child);
        self.refresh_upwards(parent);
    }

    /// The entity with the least finish time.
    pub(super) fn first(&self, tree: &Tree) -> Option<QueueId> {
        self.end_of(tree, |node| node.left)
    }

    /// The entity with the greatest finish time.
    pub(super) fn last(&self, tree: &Tree) -> Option<QueueId> {
        self.end_of(tree, |node| node.right)
    }

    /// The least start time of all.
    pub(super) fn least_start(&self, tree: &Tree) -> Option<u64> {
        (!tree.is_empty()).then(|| self.get(tree.root).least_start)
    }

    /// Of the entities that start at `time` or before, the one with the least finish time.
    pub(super) fn first_eligible(&self, tree: &Tree, time: u64) -> Option<QueueId> {
        let mut at = tree.root;
        if at == NONE || is_later(self.get(at).least_start, time) {
            return None;
        }
        loop {
            let node = self.get(at);
            if node.left != NONE && !is_later(self.get(node.left).least_start, time) {
                at = node.left;
            } else if !is_later(node.start, time) {
                return Some(QueueId(at));
            } else {
                at = node.right;
            }
        }
    }

    fn get(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    fn end_of(&self, tree: &Tree, side: fn(&Node) -> u32) -> Option<QueueId> {
        let mut at = tree.root;
        if at == NONE {
            return None;
        }
        while side(self.get(at)) != NONE {
            at = side(self.get(at));
        }
        Some(QueueId(at))
    }

    /// The parent, and the side, for a new node with this finish time.
    fn place_of(&self, tree: &Tree, finish: u64) -> (u32, bool) {
        let (mut parent, mut at, mut left) = (NONE, tree.root, false);
        while at != NONE {
            parent = at;
            left = is_later(self.get(at).finish, finish);
            at = if left { self.get(at).left } else { self.get(at).right };
        }
        (parent, left)
    }

    fn replace_child(&mut self, tree: &mut Tree, parent: u32, old: u32, new: u32) {
        match parent {
            NONE => tree.root = new,
            _ if self.get(parent).left == old => self.nodes[parent as usize].left = new,
            _ => self.nodes[parent as usize].right = new,
        }
        if new != NONE {
            self.nodes[new as usize].parent = parent;
        }
    }

    /// Exchanges a node with its parent and keeps the order.
    fn rotate_up(&mut self, tree: &mut Tree, id: u32) {
        let parent = self.get(id).parent;
        let grandparent = self.get(parent).parent;
        let inner = if self.get(parent).left == id {
            let inner = core::mem::replace(&mut self.nodes[id as usize].right, parent);
            self.nodes[parent as usize].left = inner;
            inner
        } else {
            let inner = core::mem::replace(&mut self.nodes[id as usize].left, parent);
            self.nodes[parent as usize].right = inner;
            inner
        };
        if inner != NONE {
            self.nodes[inner as usize].parent = parent;
        }
        self.replace_child(tree, grandparent, parent, id);
        self.nodes[parent as usize].parent = id;
        self.refresh(parent);
        self.refresh(id);
    }

    fn refresh(&mut self, id: u32) {
        let Node { start, left, right, .. } = *self.get(id);
        let children = [left, right].into_iter().filter(|&child| child != NONE);
        let earlier = |least, child| {
            let other = self.get(child).least_start;
            if is_later(least, other) { other } else { least }
        };
        self.nodes[id as usize].least_start = children.fold(start, earlier);
    }

    fn refresh_upwards(&mut self, mut id: u32) {
        while id != NONE {
            self.refresh(id);
            id = self.get(id).parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevator::Random;

    #[test]
    fn two_trees_over_one_array_behave_like_sorted_vectors() {
        compare_with_vectors(0);
    }

    #[test]
    fn trees_are_correct_when_virtual_time_wraps_around() {
        compare_with_vectors(u64::MAX - 40);
    }

    /// Compares with a vector: insertion behind equals, eligibility, both ends. Times are relative to `zero`.
    fn compare_with_vectors(zero: u64) {
        let time_of = |time: u64| zero.wrapping_add(time);
        let mut random = Random::new(3);
        let mut nodes = Nodes::default();
        let mut trees = [Tree::default(); 2];
        let mut oracle: [Vec<(u64, u64, u32)>; 2] = Default::default();
        let mut free: Vec<u32> = (0..200).collect();
        for _ in 0..40_000 {
            let which = random.below(2) as usize;
            let (tree, plain) = (&mut trees[which], &mut oracle[which]);
            if random.once_in(2) && !free.is_empty() {
                let id = free.swap_remove(random.below(free.len() as u64) as usize);
                let start = random.below(50);
                let finish = start + random.below(50);
                nodes.insert(tree, QueueId(id), time_of(finish), time_of(start));
                let at = plain.partition_point(|e| e.0 <= finish);
                plain.insert(at, (finish, start, id));
            } else if !plain.is_empty() {
                let (_, _, id) = plain.remove(random.below(plain.len() as u64) as usize);
                nodes.remove(tree, QueueId(id));
                free.push(id);
            }
            let time = random.below(60);
            let eligible = plain.iter().find(|e| e.1 <= time).map(|e| QueueId(e.2));
            assert_eq!(nodes.first_eligible(tree, time_of(time)), eligible);
            assert_eq!(nodes.first(tree), plain.first().map(|e| QueueId(e.2)));
            assert_eq!(nodes.last(tree), plain.last().map(|e| QueueId(e.2)));
            assert_eq!(
                nodes.least_start(tree),
                plain.iter().map(|e| time_of(e.1)).min_by_key(|t| t.wrapping_sub(zero))
            );
        }
    }
}
