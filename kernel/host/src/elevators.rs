//! The elevators that the module registers (`module/elevators.c`; a test compares).

/// An elevator of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elevator {
    /// Its name in `queue/scheduler`.
    pub name: &'static str,
    /// The longer name that `queue/scheduler` accepts. The kernel compares the first 15 characters.
    pub long_name: Option<&'static str>,
    /// The policy; for `dwell-custom` the default of the module's parameter `custom`.
    pub spec: &'static str,
    /// The kernel's scheduler with the same rules.
    pub counterpart: Option<&'static str>,
}

const fn elevator(name: &'static str, spec: &'static str) -> Elevator {
    Elevator { name, long_name: None, spec, counterpart: None }
}

impl Elevator {
    const fn also(self, long_name: &'static str) -> Self {
        Self { long_name: Some(long_name), ..self }
    }

    const fn like(self, counterpart: &'static str) -> Self {
        Self { counterpart: Some(counterpart), ..self }
    }

    /// Whether its policy is a parameter of the module.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.name == "dwell-custom"
    }

    /// The elevator of that name, short or long.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ELEVATORS.iter().find(|elevator| elevator.name == name || elevator.long_name == Some(name))
    }
}

/// All elevators of the module.
pub const ELEVATORS: [Elevator; 8] = [
    elevator("dwell-noop", "noop").like("none"),
    elevator("dwell-deadline", "deadline").like("mq-deadline"),
    elevator("dwell-stream", "stream(deadline)"),
    elevator("dwell-as", "anticipatory").also("dwell-anticipatory"),
    elevator("dwell-coop", "cooperative").also("dwell-cooperative"),
    elevator("dwell-cfq", "cfq-2.6.32"),
    elevator("dwell-bfq", "bfq").like("bfq"),
    elevator("dwell-custom", "stream(deadline)"),
];
