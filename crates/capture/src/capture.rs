//! [`Capture`]: a device observed with the best back end that the kernel allows.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bpf::Bpf;
use crate::error::Error;
use crate::event::Batch;
use crate::file_system::number_of;
use crate::number::Number;
use crate::source::{Backend, Counts, Options, Source};
use crate::tracefs::{self, Tracefs};

/// Observes a device until it is dropped.
pub struct Capture {
    source: Box<dyn Source + Send>,
    notes: Vec<String>,
    node: PathBuf,
    number: Number,
    /// Distinguishes the devices that have had this number.
    sequence: Option<String>,
}

impl Capture {
    /// Observes the whole disk of a device node. Requests to a partition are reported for its disk.
    ///
    /// # Errors
    /// It is no block device, CAP_BPF or CAP_PERFMON is missing, or the kernel is not able to. Without a named back end, tracefs is tried if BPF is
    /// not allowed, which the [notes](Self::notes) state.
    pub fn open(device: &Path, options: &Options) -> Result<Self, Error> {
        let number = number_of(device)?;
        if is_gone(number) {
            return Err(Error::device(device, "has no sectors: insert a medium or attach a file first"));
        }
        let sequence = sequence(number);
        tracefs::remove_those_left();
        let (source, notes): (Box<dyn Source + Send>, _) = match options.backend {
            Some(Backend::Bpf) => (Box::new(Bpf::open(number, options)?), Vec::new()),
            Some(_) => (Box::new(Tracefs::open(number, options)?), limits(options)),
            None => best(number, options)?,
        };
        Ok(Self { source, notes, node: device.to_path_buf(), number, sequence })
    }

    /// Limits of the back end that users must know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Source for Capture {
    /// A removed device reports nothing, like an idle one, so an empty wait checks for removal. Another device with the same number is a
    /// different one.
    fn take(&mut self, batch: &mut Batch, patience: Duration) -> Result<(), Error> {
        self.source.take(batch, patience)?;
        let another = || sequence(self.number).is_some_and(|now| self.sequence.as_ref() != Some(&now));
        let gone = || (batch.is_empty() && is_gone(self.number)) || another();
        if !patience.is_zero() && gone() {
            return Err(Error::Gone(self.node.clone()));
        }
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Error> {
        self.source.counts()
    }

    fn backend(&self) -> Backend {
        self.source.backend()
    }
}

/// Removed, or empty, as a loop device without a file.
fn is_gone((major, minor): Number) -> bool {
    let size = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size"));
    size.is_ok_and(|sectors| sectors.trim() == "0")
        || !Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists()
}

/// The kernel's counter of devices with this number, since Linux 5.15.
fn sequence((major, minor): Number) -> Option<String> {
    fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/diskseq")).ok()
}

type Found = (Box<dyn Source + Send>, Vec<String>);

/// BPF, or tracefs instead.
fn best(number: Number, options: &Options) -> Result<Found, Error> {
    let no_bpf = match Bpf::open(number, options) {
        Ok(bpf) => return Ok((Box::new(bpf), Vec::new())),
        Err(error) => error,
    };
    let tracefs = match Tracefs::open(number, options) {
        Ok(tracefs) => tracefs,
        Err(error) => {
            return Err(match no_bpf {
                Error::Permission { .. } => no_bpf,
                _ => Error::kernel("observing the device", format!("{no_bpf}; and with tracefs: {error}")),
            });
        }
    };
    let mut notes = vec![format!("{no_bpf}; using tracefs instead, which costs several times as much")];
    notes.extend(limits(options));
    Ok((Box::new(tracefs), notes))
}

/// The options that tracefs cannot fulfil.
fn limits(options: &Options) -> Vec<String> {
    let rate =
        options.rate_max.map(|_| "tracefs reports everything: no rate above which requests are left out");
    let exits = options.exits.then_some("tracefs does not report the end of tasks");
    rate.into_iter().chain(exits).map(str::to_owned).collect()
}
