//! [`Decision`]: a scheduler and the reason for it.

use elevator::text::counted;
use ioanalyzer::chain::Expected;
use ioanalyzer::{ClusterId, Match};
use observation::SchedulerId;

use crate::kinds::KindDecision;

/// The decision for the next window.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The scheduler to use; `None`: keep the present one.
    pub scheduler: Option<SchedulerId>,
    /// Whether it differs from the scheduler of the window.
    pub change: bool,
    /// The window's cluster, found or new; `None` if it was not compared with clusters.
    pub cluster: Option<ClusterId>,
    /// The reason.
    pub why: Why,
    /// Why the [tuner](crate::Tuner) does not follow the decider: its opening, its significance test, standby, or a metric that failed.
    pub restraint: Option<String>,
    /// 0 to 1. With kinds: n/(n+1) for the n windows of the kind that the scheduler served. A hit: similarity, times the weight of the expected
    /// clusters in which the scheduler is the best, times n/(n+1) for the n values behind that. A draw: its probability. A trial: 0.
    pub confidence: f64,
    /// The expected gain over the window's scheduler, as a part of its value (0.1: a tenth better); `None` if one of them is unknown.
    pub expected_gain: Option<f64>,
}

/// Why a scheduler was chosen.
#[derive(Clone, PartialEq, Debug)]
pub enum Why {
    /// At most one request a second: not analysed.
    TooLittle {
        /// Requests in the window.
        requests: u64,
    },
    /// A hit, and the best scheduler for the expected clusters.
    Best {
        /// The cluster that was hit.
        found: Match,
        /// The expected clusters, the most probable next one first.
        expected: Vec<Expected>,
    },
    /// A hit, and a scheduler that is untested for the next cluster.
    Untested {
        /// The cluster that was hit.
        found: Match,
        /// The most probable next cluster.
        next: Expected,
    },
    /// A hit, but the metric could not be measured in this window, or never in the expected clusters.
    NotMeasured {
        /// The cluster that was hit.
        found: Match,
    },
    /// By the kind of load.
    Kind(KindDecision),
    /// The metric could not be measured in this window.
    Unmeasured,
    /// A miss: drawn by the armed bandit.
    Bandit {
        /// The nearest cluster, which was not similar enough, if any could be compared.
        nearest: Option<Match>,
        probability: f64,
    },
    /// No history: chosen by the device's table.
    APriori {
        /// Mean request size in bytes.
        size: f64,
        /// The expected bytes per second.
        throughput: f64,
    },
}

impl Decision {
    /// Keeps the present scheduler.
    pub(crate) const fn keep(why: Why) -> Self {
        Self {
            scheduler: None,
            change: false,
            cluster: None,
            why,
            restraint: None,
            confidence: 0.0,
            expected_gain: None,
        }
    }

    /// Whether the window had enough requests to be analysed.
    pub const fn is_analysed(&self) -> bool {
        !matches!(self.why, Why::TooLittle { .. })
    }

    /// Whether the window's kind or cluster was known before.
    pub const fn is_recognised(&self) -> bool {
        match self.why {
            Why::Best { .. } | Why::Untested { .. } | Why::NotMeasured { .. } => true,
            Why::Kind(served) => served.windows > 1,
            _ => false,
        }
    }

    /// A line for the log. `names` are the schedulers' names, in the analyser's order.
    pub fn line(&self, names: &[String]) -> String {
        if let Some(why) = &self.restraint {
            return why.clone();
        }
        let name = |id: SchedulerId| names.get(id.0).map_or("?", String::as_str);
        let verb = if self.change { "switch to" } else { "stay with" };
        let mut line = match self.scheduler {
            Some(scheduler) => format!("{verb} {}: {}", name(scheduler), self.why.in_words()),
            None => format!("leave it: {}", self.why.in_words()),
        };
        if self.confidence > 0.0 {
            line += &format!("; confidence {:.2}", self.confidence);
        }
        if let Some(gain) = self.expected_gain.filter(|_| self.change) {
            line += &format!("; expected {:+.1}%", gain * 100.0);
        }
        line
    }
}

impl Why {
    fn in_words(&self) -> String {
        match self {
            Self::TooLittle { requests } => format!("only {}", counted(*requests, "request")),
            Self::Best { found, expected } => {
                format!("{}, best for what comes next ({})", hit(found), list(expected))
            }
            Self::Untested { found, next } => {
                format!(
                    "{}, untested for cluster {} expected next (p {:.2})",
                    hit(found),
                    next.cluster.0,
                    next.next
                )
            }
            Self::Unmeasured => "the metric was not measured".to_owned(),
            Self::NotMeasured { found } => format!("{}, but the metric was not measured", hit(found)),
            Self::Kind(served) => {
                let why = match served.trial {
                    0 => "the best",
                    _ if served.again => "tried again",
                    _ => "tried",
                };
                format!("{why} for loads of kind {} (window {})", served.kind, served.windows)
            }
            Self::Bandit { nearest, probability } => {
                let nearest = nearest.map_or("nothing to compare with".to_string(), |nearest| {
                    format!("nearest is cluster {} at {:.2}", nearest.cluster.0, nearest.similarity)
                });
                format!("unknown pattern ({nearest}), drawn with p {probability:.2}")
            }
            Self::APriori { size, throughput } => {
                format!(
                    "nothing learned yet, the device's table has {:.1} MB/s at {:.0} KiB",
                    throughput / 1e6,
                    size / 1024.0
                )
            }
        }
    }
}

fn hit(found: &Match) -> String {
    format!("cluster {} again (similarity {:.2})", found.cluster.0, found.similarity)
}

fn list(expected: &[Expected]) -> String {
    let some = expected.iter().take(3).map(|e| format!("cluster {} p {:.2}", e.cluster.0, e.next));
    some.collect::<Vec<_>>().join(", ")
}
