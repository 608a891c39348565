//! First-in-first-out lists of requests, from whose middle a request leaves at no cost.
//!
//! The links of all lists of a policy lie in one array indexed by request id: a request can be in one list per
//! [`Links`], a policy may have any number of lists (one per process, one per direction), and an empty list is
//! twelve bytes.

use elevator::RequestId;

use crate::parts::per_request::PerRequest;

/// Marks the end of a list; no slab has this many requests.
const NONE: u32 = u32::MAX;

fn named(id: u32) -> Option<RequestId> {
    (id != NONE).then_some(RequestId(id))
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

impl Default for Link {
    fn default() -> Self {
        Self { previous: NONE, next: NONE }
    }
}

/// One list: its two ends and its length. The links are in the [`Links`] that it is always used with.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    front: u32,
    back: u32,
    len: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Fifo {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { front: NONE, back: NONE, len: 0 }
    }

    /// The oldest request of the list.
    #[must_use]
    pub fn front(&self) -> Option<RequestId> {
        named(self.front)
    }

    /// The newest request of the list.
    #[must_use]
    pub fn back(&self) -> Option<RequestId> {
        named(self.back)
    }

    /// The number of requests.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The links of any number of [`Fifo`]s.
#[derive(Clone, Debug, Default)]
pub struct Links {
    links: PerRequest<Link>,
}

impl Links {
    /// Without links.
    #[must_use]
    pub const fn new() -> Self {
        Self { links: PerRequest::new() }
    }

    /// Appends a request that is in no list.
    pub fn push_back(&mut self, list: &mut Fifo, id: RequestId) {
        self.links.set(id, Link { previous: list.back, next: NONE });
        match list.back() {
            Some(last) => self.links[last].next = id.0,
            None => list.front = id.0,
        }
        list.back = id.0;
        list.len += 1;
    }

    /// Prepends a request that is in no list.
    pub fn push_front(&mut self, list: &mut Fifo, id: RequestId) {
        self.links.set(id, Link { previous: NONE, next: list.front });
        self.join(list, id.0, list.front);
        self.join(list, NONE, id.0);
        list.len += 1;
    }

    /// Removes a request, which must be in `list`.
    pub fn remove(&mut self, list: &mut Fifo, id: RequestId) {
        debug_assert!(!list.is_empty(), "{id:?} taken from an empty list");
        let Link { previous, next } = self.links[id];
        self.join(list, previous, next);
        list.len -= 1;
    }

    /// Removes the oldest request.
    pub fn pop_front(&mut self, list: &mut Fifo) -> Option<RequestId> {
        let id = list.front()?;
        self.remove(list, id);
        Some(id)
    }

    /// Replaces `old`, which must be in `list`, by `new`, which is in no list.
    pub fn replace(&mut self, list: &mut Fifo, old: RequestId, new: RequestId) {
        let link = self.links[old];
        self.links.set(new, link);
        self.join(list, link.previous, new.0);
        self.join(list, new.0, link.next);
    }

    /// The successor of `id` in its list.
    #[must_use]
    pub fn next(&self, id: RequestId) -> Option<RequestId> {
        named(self.links[id].next)
    }

    /// From the oldest to the newest.
    pub fn iter(&self, list: &Fifo) -> impl Iterator<Item = RequestId> + '_ {
        core::iter::successors(list.front(), |&id| self.next(id))
    }

    /// Links two neighbours; [`NONE`] stands for an end of the list.
    fn join(&mut self, list: &mut Fifo, before: u32, after: u32) {
        match named(before) {
            Some(id) => self.links[id].next = after,
            None => list.front = after,
        }
        match named(after) {
            Some(id) => self.links[id].previous = before,
            None => list.back = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use alloc::vec::Vec;

    /// Three lists over one array of links, compared with three plain vectors.
    #[test]
    fn lists_that_share_links_behave_like_vectors() {
        let mut random = Random::new(7);
        let mut links = Links::new();
        let mut lists = [Fifo::new(); 3];
        let mut oracle: [Vec<u32>; 3] = Default::default();
        let mut free: Vec<u32> = (0..64).collect();
        for _ in 0..20_000 {
            let which = random.below(3) as usize;
            let (list, plain) = (&mut lists[which], &mut oracle[which]);
            match random.below(5) {
                0 | 1 if !free.is_empty() => {
                    let id = free.swap_remove(random.below(free.len() as u64) as usize);
                    links.push_back(list, RequestId(id));
                    plain.push(id);
                }
                2 if !free.is_empty() => {
                    let id = free.pop().unwrap();
                    links.push_front(list, RequestId(id));
                    plain.insert(0, id);
                }
                3 if !plain.is_empty() && !free.is_empty() => {
                    let at = random.below(plain.len() as u64) as usize;
                    let new = free.pop().unwrap();
                    links.replace(list, RequestId(plain[at]), RequestId(new));
                    free.push(core::mem::replace(&mut plain[at], new));
                }
                4 if !plain.is_empty() => {
                    let id = plain.remove(random.below(plain.len() as u64) as usize);
                    links.remove(list, RequestId(id));
                    free.push(id);
                }
                _ => {}
            }
            for (list, plain) in lists.iter().zip(&oracle) {
                assert_eq!(links.iter(list).map(|id| id.0).collect::<Vec<_>>(), *plain);
                assert_eq!(list.back().map(|id| id.0), plain.last().copied());
                assert_eq!(list.len(), plain.len());
            }
        }
    }
}
