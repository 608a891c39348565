//! The decisions of Dwell's elevators in the kernel, from the module's tracepoint.

use control::DeviceNumber;

use super::instance::Instance;
use super::pipe::Pipe;
use crate::error::Error;

/// The module's event, below a tracer's directory.
const EVENT: &str = "events/dwell/dwell_decision";

/// What a policy decided.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// A request was dispatched.
    Dispatch,
    /// The policy holds its requests until a time, or until a completion.
    Hold,
}

/// A decision with its reason.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Decision {
    /// What.
    pub verdict: Verdict,
    /// Why, as `dwell compare --explain` prints it.
    pub reason: String,
}

/// The decisions for one device, as long as this exists. Other tracing is not disturbed: the instance is its own.
pub struct Decisions {
    /// Closed before the instance is removed.
    pipe: Pipe,
    lost: u64,
    _instance: Instance,
}

impl Decisions {
    /// Observes the disk with that number.
    ///
    /// # Errors
    /// The module is not loaded, or the tracer is not accessible.
    pub fn open(disk: DeviceNumber) -> Result<Self, Error> {
        super::remove_those_left();
        let instance = Instance::new()?;
        let (major, minor) = disk;
        instance.set(&format!("{EVENT}/filter"), &format!("dev == {}", major << 20 | minor))?;
        instance.set(&format!("{EVENT}/enable"), "1")?;
        let pipe = instance.pipe()?;
        Ok(Self { pipe, lost: 0, _instance: instance })
    }

    /// Passes on what was decided since the last call; does not wait.
    ///
    /// # Errors
    /// The tracer cannot be read.
    pub fn take(&mut self, mut decided: impl FnMut(Decision)) -> Result<(), Error> {
        for line in String::from_utf8_lossy(&self.pipe.lines()?).lines() {
            self.lost += lost(line);
            decision(line).into_iter().for_each(&mut decided);
        }
        Ok(())
    }

    /// Decisions that the kernel overwrote before they were read.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

/// `CPU:1 [LOST 90 EVENTS]`; the kernel does not always report how many.
fn lost(line: &str) -> u64 {
    let rest = line.strip_prefix("CPU:").and_then(|rest| rest.split_once("[LOST "));
    rest.map_or(0, |(_, rest)| rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(1))
}

/// `dd-1 [000] ..... 1.5: dwell_decision: 8,0 dispatch 128 + 8 until=0 reason="child of the served stream"`.
fn decision(line: &str) -> Option<Decision> {
    let (_, payload) = line.split_once(": dwell_decision: ")?;
    let verdict = match payload.split(' ').nth(1)? {
        "dispatch" => Verdict::Dispatch,
        "hold" | "hold-for-completion" => Verdict::Hold,
        _ => return None,
    };
    let reason = payload.split_once("reason=\"")?.1.trim_end().strip_suffix('"')?;
    Some(Decision { verdict, reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tracepoint_are_decisions() {
        let line = |text: &str| format!("dd-812 [001] d..2. 52.123456: dwell_decision: 8,0 {text}");
        let is = |text: &str, verdict, reason: &str| {
            assert_eq!(
                decision(&line(text)),
                Some(Decision { verdict, reason: reason.to_owned() }),
                "{text}"
            );
        };
        is("dispatch 128 + 8 until=0 reason=\"first come\"", Verdict::Dispatch, "first come");
        is("hold 0 + 0 until=52130000000 reason=\"awaits a child\"", Verdict::Hold, "awaits a child");
        is("hold-for-completion 0 + 0 until=0 reason=\"depth\"", Verdict::Hold, "depth");
        assert_eq!(decision(&line("fallback 0 + 0 until=0 reason=\"\"")), None);
        assert_eq!(decision("dd-812 [001] d..2. 52.1: block_rq_issue: 8,0 R 4096 () 0 + 8 [dd]"), None);
        assert_eq!(
            [lost("CPU:1 [LOST 90 EVENTS]"), lost("CPU:1 [LOST EVENTS]"), lost(&line("x"))],
            [90, 1, 0]
        );
    }
}
