//! Identification of the processes behind requests of the kernel's workers.

use std::path::Path;
use std::sync::mpsc::Receiver;

use elevator::{Flags, Op, Process, Sector, Sectors};

use crate::ServeError;

/// Identifies the processes whose requests the kernel's workers pass on. The device's thread calls it, so it must not block.
pub trait Identify: Send {
    /// The issuer and the flags of a request that has just arrived; `None` if uncertain.
    fn issuer(&mut self, op: Op, start: Sector, sectors: Sectors) -> Option<(Process, Flags)>;

    /// A process that had issued requests and has ended.
    fn exited(&mut self) -> Option<Process>;
}

/// Creates it when the device is attached.
pub type IdentifyFactory = Box<dyn FnOnce(&Path) -> Result<Box<dyn Identify>, ServeError> + Send>;

/// The state of identification. It becomes available when the device is attached, for which the front end must already serve.
#[derive(Default)]
pub(crate) enum Identity {
    /// Not configured.
    #[default]
    Unknown,
    /// Not available yet.
    Awaited(Receiver<Box<dyn Identify>>),
    /// Available.
    Known(Box<dyn Identify>),
}

impl Identity {
    pub(crate) fn issuer(&mut self, op: Op, start: Sector, sectors: Sectors) -> (Option<Process>, Flags) {
        if let Self::Awaited(receiver) = self
            && let Ok(identify) = receiver.try_recv()
        {
            *self = Self::Known(identify);
        }
        let issuer = match self {
            Self::Known(identify) if op != Op::Flush => identify.issuer(op, start, sectors),
            _ => None,
        };
        issuer.map_or((None, Flags::default()), |(process, flags)| (Some(process), flags))
    }

    pub(crate) fn exited(&mut self) -> Option<Process> {
        match self {
            Self::Known(identify) => identify.exited(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    struct Odd(Vec<Process>);

    impl Identify for Odd {
        fn issuer(&mut self, _op: Op, start: Sector, _sectors: Sectors) -> Option<(Process, Flags)> {
            let flags = Flags { sync: true, ..Flags::default() };
            (start.0 % 2 == 1).then_some((Process::single(7), flags))
        }

        fn exited(&mut self) -> Option<Process> {
            self.0.pop()
        }
    }

    #[test]
    fn issuers_are_unknown_until_identification_is_available_and_if_uncertain() {
        let (sender, receiver) = channel::<Box<dyn Identify>>();
        let mut identity = Identity::Awaited(receiver);
        let mut ask = |start| identity.issuer(Op::Read, Sector(start), Sectors(8)).0;
        assert_eq!(ask(1), None);
        sender.send(Box::new(Odd(vec![Process::single(9)]))).unwrap();
        assert_eq!((ask(1), ask(2)), (Some(Process::single(7)), None));
        assert!(identity.issuer(Op::Write, Sector(1), Sectors(8)).1.sync);
        assert_eq!(identity.issuer(Op::Flush, Sector(1), Sectors(0)).0, None);
        assert_eq!((identity.exited(), identity.exited()), (Some(Process::single(9)), None));
        assert_eq!(Identity::Unknown.exited(), None);
    }
}
