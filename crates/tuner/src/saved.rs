//! What is common to all that is saved: lists by scheduler, and the greatest count.

/// No count of windows or clusters is greater: a thousand million years of them. Greater ones would overflow when they are added up.
pub(crate) const COUNT_MAX: u64 = 1 << 48;

/// What was saved of schedulers, for those there are now: `from[s]` is where scheduler `s` stands in `saved`, if it does.
pub(crate) fn carried_over<T: Clone + Default>(saved: &[T], from: &[Option<usize>]) -> Vec<T> {
    from.iter().map(|place| place.and_then(|place| saved.get(place).cloned()).unwrap_or_default()).collect()
}

/// Where the scheduler stands now that stood there in what was saved, if it is still known.
pub(crate) fn place_now(saved: usize, from: &[Option<usize>]) -> Option<usize> {
    from.iter().position(|place| *place == Some(saved))
}
