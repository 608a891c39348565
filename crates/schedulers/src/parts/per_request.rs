//! A policy's data about each request, in an array indexed by the request's id.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use elevator::RequestId;

/// One value per request. Ids are dense and reused, so the array stays as long as the highest number of simultaneous
/// requests.
#[derive(Clone, Debug, Default)]
pub struct PerRequest<T> {
    values: Vec<T>,
}

impl<T: Clone + Default> PerRequest<T> {
    /// Without values.
    #[must_use]
    pub const fn new() -> Self {
        Self { values: Vec::new() }
    }

    /// Stores a value for a request, over that of an earlier request with the same id.
    pub fn set(&mut self, id: RequestId, value: T) {
        if id.index() >= self.values.len() {
            self.values.resize((id.index() + 1).next_power_of_two(), T::default());
        }
        self.values[id.index()] = value;
    }

    /// All stored values, including those of requests that have ended.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut()
    }

    /// The value stored for an id; `None` if the id is beyond all ids ever set, as that of a submission without a request.
    #[must_use]
    pub fn get(&self, id: RequestId) -> Option<&T> {
        self.values.get(id.index())
    }
}

/// # Panics
/// If neither this id nor a greater one was ever set.
impl<T> Index<RequestId> for PerRequest<T> {
    type Output = T;

    fn index(&self, id: RequestId) -> &T {
        &self.values[id.index()]
    }
}

/// # Panics
/// If neither this id nor a greater one was ever set.
impl<T> IndexMut<RequestId> for PerRequest<T> {
    fn index_mut(&mut self, id: RequestId) -> &mut T {
        &mut self.values[id.index()]
    }
}
