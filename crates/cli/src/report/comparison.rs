//! [`Comparison`]: the lines above the results.

/// The description of a comparison, without its results.
pub(crate) struct Comparison {
    /// The workload in one line.
    pub(crate) workload: String,
    /// The device in one line.
    pub(crate) drive: String,
    /// The queue in one line.
    pub(crate) queue: String,
    /// Assumptions and interpretations.
    pub(crate) notices: Vec<String>,
    /// Parts of the workload that are not in the results; printed even with --quiet.
    pub(crate) missing: Vec<String>,
}

impl Comparison {
    /// Remarks and missing parts.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = &String> {
        self.notices.iter().chain(&self.missing)
    }

    /// All lines above the results.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!("drive: {}", self.drive), format!("queue: {}", self.queue)];
        notes.extend(self.remarks().cloned());
        notes
    }
}
