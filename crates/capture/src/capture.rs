//! A live device, looked at in the best way that the kernel allows.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bpf::Bpf;
use crate::error::Error;
use crate::event::Batch;
use crate::number::{Number, number_of};
use crate::source::{Counts, Options, Source, Way};
use crate::tracefs::{self, Tracefs};

/// Looks at a device as long as it lives.
pub struct Capture {
    source: Box<dyn Source + Send>,
    notes: Vec<String>,
    node: PathBuf,
    number: Number,
    /// Which of the devices that have had that number it is.
    sequence: Option<String>,
}

impl Capture {
    /// Looks at the device of that node: a whole disk. What a partition is asked is reported of the disk that it is on.
    ///
    /// # Errors
    /// It is no block device, there is no leave (CAP_BPF and CAP_PERFMON), or the kernel cannot. Unless a way was named,
    /// tracefs is tried where BPF is not allowed, and the [notes](Self::notes) say so.
    pub fn open(device: &Path, options: &Options) -> Result<Self, Error> {
        let number = number_of(device)?;
        let sequence = sequence(number);
        tracefs::remove_those_left();
        let (source, notes): (Box<dyn Source + Send>, _) = match options.way {
            Some(Way::Bpf) => (Box::new(Bpf::open(number, options)?), Vec::new()),
            Some(_) => (Box::new(Tracefs::open(number, options)?), limits(options)),
            None => best(number, options)?,
        };
        Ok(Self { source, notes, node: device.to_path_buf(), number, sequence })
    }

    /// What must be said aloud of how it looks.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Source for Capture {
    /// A device that is gone asks for nothing, like one that is idle: so whoever waited in vain is told which. One that has its
    /// number now is somebody else.
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

    fn way(&self) -> Way {
        self.source.way()
    }
}

/// Taken away, or empty as a loop device is whose file was taken off.
fn is_gone((major, minor): Number) -> bool {
    let size = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size"));
    size.is_ok_and(|sectors| sectors.trim() == "0")
        || !Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists()
}

/// What the kernel counts up with each device that comes to have this number, since 5.15.
fn sequence((major, minor): Number) -> Option<String> {
    fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/diskseq")).ok()
}

type Found = (Box<dyn Source + Send>, Vec<String>);

/// BPF, or what there is instead.
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
                _ => Error::kernel("looking at the device", format!("{no_bpf}; and by tracefs: {error}")),
            });
        }
    };
    let mut notes = vec![format!("{no_bpf}; so looking through tracefs, which costs several times as much")];
    notes.extend(limits(options));
    Ok((Box::new(tracefs), notes))
}

/// What tracefs cannot do of what was asked.
fn limits(options: &Options) -> Vec<String> {
    let rate =
        options.rate_max.map(|_| "tracefs reports everything: no rate above which requests are left out");
    let exits = options.exits.then_some("tracefs does not tell when tasks end");
    rate.into_iter().chain(exits).map(str::to_owned).collect()
}
