//! `dwell serve --identify` and `--causes`: the processes behind requests that a loop device's workers submit.

use std::path::Path;

use capture::causes::CauseEvents;
use capture::{Backend, Capture, Issuers, Options};
use elevator::{Flags, Op, Process, Sector, Sectors};
use server::split::{CauseEvent, CausesFactory, ObserveCauses};
use server::{Identify, IdentifyFactory, ServeError};

/// Observes causes with a BPF program on the attached device and its file systems.
pub(crate) fn causes_of_device() -> CausesFactory {
    Box::new(|device: &Path| {
        let (events, notes) = CauseEvents::open(device)
            .map_err(|error| ServeError::Configuration(format!("--causes: {error}")))?;
        notes.iter().for_each(|note| say!("--causes: {note}"));
        Ok(Box::new(Observer(Some(events))))
    })
}

/// `None` after a failure, which is reported once; from then on causes are unknown.
struct Observer(Option<CauseEvents>);

impl ObserveCauses for Observer {
    fn take(&mut self, events: &mut Vec<CauseEvent>) -> bool {
        let Some(source) = &mut self.0 else { return true };
        source.take(events).unwrap_or_else(|error| {
            say!("--causes: {error}; from now on causes are unknown");
            self.0 = None;
            false
        })
    }
}

/// Identifies processes with a BPF program on the attached device.
pub(crate) fn by_bpf() -> IdentifyFactory {
    Box::new(|device: &Path| {
        let options = Options {
            completions: true,
            exits: true,
            rate_max: None,
            backend: Some(Backend::Bpf),
            ..Options::default()
        };
        let capture = Capture::open(device, &options)
            .map_err(|error| ServeError::Configuration(format!("--identify bpf: {error}")))?;
        Ok(Box::new(Identifier(Some(Issuers::new(capture)))))
    })
}

/// `None` after a failure, which is reported once; from then on processes are unknown.
struct Identifier(Option<Issuers<Capture>>);

impl Identify for Identifier {
    fn issuer(&mut self, op: Op, start: Sector, sectors: Sectors) -> Option<(Process, Flags)> {
        let issuers = self.0.as_mut()?;
        if let Err(error) = issuers.update() {
            say!("--identify bpf: {error}; from now on processes are unknown");
            self.0 = None;
            return None;
        }
        issuers.issuer(op, start, sectors).map(|issuer| (issuer.process, issuer.flags))
    }

    fn exited(&mut self) -> Option<Process> {
        self.0.as_mut()?.exited()
    }
}
