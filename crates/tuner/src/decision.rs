//! What the analyser answers: a scheduler, and why in words.

use elevator::text::counted;
use ioanalyzer::chain::Expected;
use ioanalyzer::{ClusterId, Match, SchedulerId};

use crate::kinds::KindDecision;

/// The choice for the windows to come.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The scheduler to use; `None`: leave what there is.
    pub scheduler: Option<SchedulerId>,
    /// Whether that differs from the one that the window ran under.
    pub change: bool,
    /// The cluster that the window belongs to, found or new; `None` if it was not compared with clusters.
    pub cluster: Option<ClusterId>,
    /// Why.
    pub why: Why,
    /// Why the choice was not followed, if it was not.
    pub restraint: Option<Restraint>,
    /// How sure it is, 0 to 1. The best of a kind: n/(n+1) for the n windows of it that the scheduler served. A hit: similarity, times the
    /// weight of the expected clusters in which the scheduler is the best, times n/(n+1) for the n values behind that. A draw: its
    /// probability. Otherwise, as for a trial, 0.
    pub confidence: f64,
    /// How much better the metric is expected to be than under the scheduler that the window ran under, as a part of it
    /// (0.1: a tenth better, -0.1: a tenth worse); `None` if nothing is known of one of them.
    pub expected_gain: Option<f64>,
}

/// Why a scheduler was chosen.
#[derive(Clone, PartialEq, Debug)]
pub enum Why {
    /// No more than one request a second: not analysed.
    TooLittle {
        /// Requests in the window.
        requests: u64,
    },
    /// A hit, and the best scheduler for what is expected next.
    Best {
        /// What was hit.
        found: Match,
        /// What is expected, the most probable next one first.
        expected: Vec<Expected>,
    },
    /// A hit, and a scheduler that the expected cluster was not tried under.
    Untested {
        /// What was hit.
        found: Match,
        /// The most probable next one.
        next: Expected,
    },
    /// A hit, but the metric could not be measured in this window, or never in what is expected.
    NotMeasured {
        /// What was hit.
        found: Match,
    },
    /// What is known of the kind of load.
    Kind(KindDecision),
    /// The metric could not be measured in this window, which then says nothing of its kind.
    Unmeasured,
    /// A miss: drawn by the armed bandit.
    Bandit {
        /// The nearest cluster, which was not similar enough, if any could be compared.
        nearest: Option<Match>,
        /// The probability with which it was drawn.
        probability: f64,
    },
    /// A miss while nothing is known: what the device's table says.
    APriori {
        /// Mean bytes of a request.
        size: f64,
        /// Bytes a second expected.
        throughput: f64,
    },
}

/// Why the choice was not followed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Restraint {
    /// Trying it could cost more than the bound on regret leaves.
    RegretBound {
        /// What the analysis wanted.
        wanted: SchedulerId,
        /// The present regret, as a part of the best fixed scheduler's sum.
        regret: f64,
    },
    /// The last switch hurt.
    Rollback {
        /// What was switched to and is left again.
        wanted: SchedulerId,
        /// How much worse it was, as a part of what the one before gives.
        loss: f64,
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
    #[must_use]
    pub const fn is_analysed(&self) -> bool {
        !matches!(self.why, Why::TooLittle { .. })
    }

    /// Whether the window was one of a kind or a cluster that was known before.
    #[must_use]
    pub const fn is_recognised(&self) -> bool {
        match self.why {
            Why::Best { .. } | Why::Untested { .. } | Why::NotMeasured { .. } => true,
            Why::Kind(served) => served.windows > 1,
            _ => false,
        }
    }

    /// A line for a journal. `names` are the schedulers', in the analyser's order.
    #[must_use]
    pub fn line(&self, names: &[String]) -> String {
        let name = |id: SchedulerId| names.get(id.0).map_or("?", String::as_str);
        let verb = if self.change { "switch to" } else { "stay with" };
        let mut line = match self.scheduler {
            Some(scheduler) => format!("{verb} {}: {}", name(scheduler), self.why.in_words()),
            None => format!("leave it: {}", self.why.in_words()),
        };
        if let Some(restraint) = &self.restraint {
            line += &format!("; {}", restraint.in_words(name));
        }
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

impl Restraint {
    fn in_words<'a>(&self, name: impl Fn(SchedulerId) -> &'a str) -> String {
        match *self {
            Self::RegretBound { wanted, regret } => {
                format!(
                    "not {}: regret is at {:.1}% and must stay in its bound",
                    name(wanted),
                    regret * 100.0
                )
            }
            Self::Rollback { wanted, loss } => format!("{} made it {:.1}% worse", name(wanted), loss * 100.0),
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
