//! Common parts of saved state: lists by scheduler, and the greatest count.

/// Upper bound of valid counts of windows or clusters, above any real count. Sums of greater counts would overflow.
pub(crate) const COUNT_MAX: u64 = 1 << 48;

/// Saved values in the order of the present schedulers: `from[s]` is the index of scheduler `s` in `saved`, if it was saved.
pub(crate) fn carried_over<T: Clone + Default>(saved: &[T], from: &[Option<usize>]) -> Vec<T> {
    from.iter().map(|place| place.and_then(|place| saved.get(place).cloned()).unwrap_or_default()).collect()
}

/// The present index of the scheduler with a saved index; `None` if it no longer exists.
pub(crate) fn place_now(saved: usize, from: &[Option<usize>]) -> Option<usize> {
    from.iter().position(|place| *place == Some(saved))
}
