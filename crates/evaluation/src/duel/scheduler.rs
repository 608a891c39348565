//! A scheduler in a duel: one of the kernel's or one of Dwell's.

use std::fmt;
use std::str::FromStr;

use crate::duel::DuelError;

/// A scheduler in a duel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// One of the kernel's schedulers: `kernel:bfq{low_latency=0}`.
    Kernel {
        /// Its name in `/sys/block/*/queue/scheduler`.
        elevator: String,
        /// Files in `queue/iosched` with the values to write.
        tunables: Vec<(String, String)>,
    },
    /// One of Dwell's schedulers: `stream(deadline)`.
    Dwell {
        /// Its name, with tunables in braces.
        scheduler: String,
    },
}

impl Scheduler {
    /// The default schedulers: those of a stock kernel, and Dwell's.
    pub fn usual() -> Vec<Self> {
        let kernel = ["none", "mq-deadline", "kyber", "bfq", "bfq{low_latency=0}"];
        let kernel = kernel.iter().map(|name| format!("kernel:{name}"));
        let dwell = ["noop", "deadline", "stream(noop)", "stream(deadline)"].map(str::to_owned);
        kernel.chain(dwell).map(|name| name.parse().expect("built-in names are valid")).collect()
    }

    /// Whether it is a scheduler of the kernel.
    pub const fn is_kernel(&self) -> bool {
        matches!(self, Self::Kernel { .. })
    }

    /// Whether it keeps no requests, so that a program without a free tag sleeps and races others for the next one.
    pub fn keeps_nothing(&self) -> bool {
        matches!(self, Self::Kernel { elevator, .. } if elevator == "none")
    }

    /// Whether it is a scheduler of the kernel that distinguishes processes and idles for each.
    pub fn tells_processes_apart(&self) -> bool {
        matches!(self, Self::Kernel { elevator, .. } if elevator == "bfq")
    }

    /// The name of the corresponding policy in the model.
    pub fn in_the_model(&self) -> String {
        match self {
            Self::Dwell { scheduler } => scheduler.clone(),
            Self::Kernel { .. } if self.keeps_nothing() => "noop".to_owned(),
            Self::Kernel { .. } => self.to_string().trim_start_matches(KERNEL).to_owned(),
        }
    }
}

/// Prefix of the kernel's schedulers.
const KERNEL: &str = "kernel:";

impl FromStr for Scheduler {
    type Err = DuelError;

    fn from_str(text: &str) -> Result<Self, DuelError> {
        let Some(name) = text.strip_prefix(KERNEL) else {
            return Ok(Self::Dwell { scheduler: text.to_owned() });
        };
        let wrong =
            |what: &str| DuelError::Usage(format!("'{text}': {what}; write kernel:bfq{{low_latency=0}}"));
        let (elevator, rest) = name.split_once('{').unwrap_or((name, "}"));
        let body = rest.strip_suffix('}').ok_or_else(|| wrong("tunables end with '}'"))?;
        // The name becomes a path in sysfs, so only letters, digits, '-' and '_' are permitted.
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        let tunable = |part: &str| match part.split_once('=') {
            Some((name, value)) if is_name(name.trim()) => {
                Ok((name.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(wrong("a tunable is written name=value")),
        };
        let parts = body.split(',').filter(|part| !part.trim().is_empty());
        let tunables = parts.map(tunable).collect::<Result<_, _>>()?;
        if is_name(elevator) {
            Ok(Self::Kernel { elevator: elevator.to_owned(), tunables })
        } else {
            Err(wrong("no name of an elevator"))
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dwell { scheduler } => f.write_str(scheduler),
            Self::Kernel { elevator, tunables } => {
                write!(f, "{KERNEL}{elevator}")?;
                let parts: Vec<String> =
                    tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
                if parts.is_empty() { Ok(()) } else { write!(f, "{{{}}}", parts.join(",")) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_as_they_are_printed() {
        for name in ["kernel:bfq{low_latency=0}", "kernel:none", "stream(deadline){stream_time_slice=50ms}"] {
            assert_eq!(name.parse::<Scheduler>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn the_model_has_every_kernel_elevator_under_its_own_name() {
        let model = |name: &str| name.parse::<Scheduler>().unwrap().in_the_model();
        assert_eq!(model("kernel:none"), "noop");
        assert_eq!(model("kernel:bfq{low_latency=0}"), "bfq{low_latency=0}");
        assert_eq!(model("stream(noop)"), "stream(noop)");
    }

    #[test]
    fn what_would_leave_sysfs_is_refused() {
        for name in ["kernel:../../x", "kernel:bfq{../../x=1}", "kernel:bfq{low_latency", "kernel:"] {
            assert!(name.parse::<Scheduler>().is_err(), "{name}");
        }
    }
}
