//! The tunables that every anticipatory policy has, declared once.

use elevator::{TuneError, Value};

use crate::parts::jiffies::Jiffies;

/// The tunables in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timing {
    pub(crate) read_expire: Jiffies,
    pub(crate) write_expire: Jiffies,
    pub(crate) read_batch_expire: Jiffies,
    pub(crate) write_batch_expire: Jiffies,
    pub(crate) antic_expire: Jiffies,
}

/// A version's tunables, as the common part uses them.
pub(crate) trait Settings: Default + Send {
    /// The table of tunables.
    const TABLE: &'static [elevator::Tunable];

    /// The value of a tunable.
    fn get(&self, name: &str) -> Option<Value>;

    /// Sets a tunable.
    fn set(&mut self, name: &str, value: Value) -> Result<(), TuneError>;

    /// Ticks per second.
    fn hz(&self) -> u64;

    /// The times in ticks.
    fn timing(&self) -> Timing;
}

/// Declares a version's tunables: the common ones with the version's default HZ, then its own in the form of
/// [`tunables!`](elevator::tunables). Implements [`Settings`].
macro_rules! anticipatory_tunables {
    ($(#[$meta:meta])* pub struct $name:ident { hz = $hz:literal; $($own:tt)* }) => {
        elevator::tunables! {
            $(#[$meta])*
            pub struct $name {
                /// How long a read may wait before it is dispatched out of order; checked once per this time. Shorter:
                /// fairer, more seeks.
                read_expire: Span =
                    elevator::Span::from_millis(125), elevator::Span::ZERO, elevator::Span::from_secs(3_600);
                /// The same for writes.
                write_expire: Span =
                    elevator::Span::from_millis(250), elevator::Span::ZERO, elevator::Span::from_secs(3_600);
                /// How long a batch of reads lasts while writes wait. Longer: better for readers, worse for writers.
                read_batch_expire: Span =
                    elevator::Span::from_millis(500), elevator::Span::ZERO, elevator::Span::from_secs(3_600);
                /// How long a batch of writes should last; the policy adapts the number of writes in it.
                write_batch_expire: Span = elevator::Span::from_millis(125), elevator::Span::from_millis(1),
                    elevator::Span::from_secs(3_600);
                /// The longest wait for the next read. 0: no anticipation, nearly deadline. Linux: HZ/150.
                antic_expire: Span =
                    elevator::Span::from_millis(6), elevator::Span::ZERO, elevator::Span::from_secs(1);
                /// Ticks per second of the modelled kernel. Time windows are counted in ticks.
                hz: Count = $hz, 10, 10_000;
                $($own)*
            }
        }

        impl $crate::policies::anticipatory::settings::Settings for $name {
            const TABLE: &'static [elevator::Tunable] = <$name>::TABLE;

            fn get(&self, name: &str) -> Option<elevator::Value> {
                self.get(name)
            }

            fn set(&mut self, name: &str, value: elevator::Value) -> Result<(), elevator::TuneError> {
                self.set(name, value)
            }

            fn hz(&self) -> u64 {
                self.hz
            }

            fn timing(&self) -> $crate::policies::anticipatory::settings::Timing {
                let ticks = $crate::parts::jiffies::Ticks::of_hz(self.hz);
                $crate::policies::anticipatory::settings::Timing {
                    read_expire: ticks.of(self.read_expire),
                    write_expire: ticks.of(self.write_expire),
                    read_batch_expire: ticks.of(self.read_batch_expire),
                    write_batch_expire: ticks.of(self.write_batch_expire),
                    antic_expire: ticks.of(self.antic_expire),
                }
            }
        }
    };
}

pub(crate) use anticipatory_tunables;
