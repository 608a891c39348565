//! Arms: the schedulers among which the tuner chooses.

mod kernel;
mod served;

use std::collections::BTreeSet;
use std::time::Duration;

pub use kernel::KernelArms;
pub use served::ServedArms;

use crate::error::Error;

/// An error if there is a single scheduler.
fn has_choice(device: &str, names: &[String]) -> Result<(), Error> {
    let [only] = names else { return Ok(()) };
    Err(Error::Usage(format!(
        "{device}: only one scheduler to choose from: {only}; name another one with --arm, or omit --arm"
    )))
}

/// Schedulers by name, one of which is in use.
pub trait Arms {
    /// The names, which do not change.
    fn names(&self) -> &[String];

    /// The scheduler in use, by the name of its arm if it is one.
    ///
    /// # Errors
    /// The device was removed or cannot be read.
    fn current(&mut self) -> Result<String, Error>;

    /// Notes the tasks that use the device, for the next switch.
    fn used_by(&mut self, _tasks: &BTreeSet<u32>) {}

    /// Switches to an arm by its index in [`names`](Self::names); returns how long that took.
    ///
    /// # Errors
    /// The device was removed or rejects the arm.
    fn switch(&mut self, arm: usize) -> Result<Duration, Error>;

    /// Whether programs that run during a switch to this arm keep the state of other settings, unless [`switch`](Self::switch) sets it: a command by hand
    /// has no effect on them then.
    fn needs_a_switch(&self, _arm: &str) -> bool {
        false
    }

    /// A shell command that sets the arm, and udev rules that keep it, one a line and for each queue. No rules if a queue's device has no property
    /// that identifies it at the next start.
    fn by_hand(&self, arm: &str) -> (String, Option<String>);
}
