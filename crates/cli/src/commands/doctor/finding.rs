//! What `doctor` reports: a problem and its remedy.

use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// A setting has no effect, or contradicts another one.
    Problem,
    /// A setting that often degrades performance, or has less effect than its name suggests.
    Warning,
    /// A fact that matters for settings.
    Note,
}

/// A finding: the problem and its remedy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The link: scheduler, ionice, weight, limit, latency, writeback, udev, unit, virtualization, accounting.
    pub(super) link: &'static str,
    pub(super) what: String,
    pub(super) fix: String,
}

pub(super) fn finding(
    level: Level,
    link: &'static str,
    what: impl Into<String>,
    fix: impl Into<String>,
) -> Finding {
    Finding { level, link, what: what.into(), fix: fix.into() }
}
