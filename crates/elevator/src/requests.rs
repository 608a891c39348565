//! The slab that owns every request from its insertion to its end.

use alloc::vec::Vec;
use core::ops::Index;

use crate::request::{Request, RequestId};

/// Every live request, queued or dispatched, by id.
#[derive(Default)]
pub struct Requests {
    slots: Vec<Option<Request>>,
    free: Vec<RequestId>,
    serials: u64,
}

impl Requests {
    /// The request with that id, if it is live.
    #[must_use]
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        self.slots.get(id.index())?.as_ref()
    }

    /// The number of live requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no request is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All live requests, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.slots.iter().flatten()
    }

    /// Adds a request; assigns its id and serial number.
    #[inline(always)]
    pub fn add(&mut self, request: Request) -> RequestId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            RequestId(self.slots.len() as u32 - 1)
        });
        self.slots[id.index()] = Some(Request { id, serial: self.serials, ..request });
        self.serials += 1;
        id
    }

    /// The live request with that id.
    ///
    /// # Panics
    /// If it is not live.
    #[inline]
    pub fn get_mut(&mut self, id: RequestId) -> &mut Request {
        self.slots[id.index()].as_mut().expect("a live request")
    }

    /// Ends a request; its id may be reused.
    ///
    /// # Panics
    /// If it is not live.
    #[inline]
    pub fn remove(&mut self, id: RequestId) -> Request {
        let request = self.slots[id.index()].take().expect("a live request");
        self.free.push(id);
        request
    }
}

impl Index<RequestId> for Requests {
    type Output = Request;

    #[inline]
    fn index(&self, id: RequestId) -> &Request {
        self.slots[id.index()].as_ref().expect("a live request")
    }
}
