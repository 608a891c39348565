//! [`Capture`]: a device observed with the best back end that the kernel allows.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::DeviceNumber;

use crate::bpf::Bpf;
use crate::error::Error;
use crate::event::Batch;
use crate::file_system::number_of;
use crate::source::{Backend, Counts, Options, Source};
use crate::tracefs::{self, Tracefs};

/// Observes a device until it is dropped.
pub struct Capture {
    source: Box<dyn Source + Send>,
    notes: Vec<String>,
    node: PathBuf,
    number: DeviceNumber,
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

    /// Observes several devices as one: each follows the sectors of those before it.
    ///
    /// # Errors
    /// As [`open`](Self::open), for any of them; or there is none.
    pub fn open_several(devices: &[PathBuf], options: &Options) -> Result<Self, Error> {
        let mut opened =
            devices.iter().map(|device| Self::open(device, options)).collect::<Result<Vec<_>, _>>()?;
        let first = opened.first_mut().ok_or_else(|| Error::device("", "no device to observe"))?;
        let (notes, node) = (std::mem::take(&mut first.notes), first.node.clone());
        let (number, sequence) = (first.number, first.sequence.clone());
        let mut sources = Vec::new();
        let mut start = 0;
        for one in opened {
            let sectors = sectors(one.number);
            sources.push((Box::new(one) as Box<dyn Source + Send>, start));
            start += sectors;
        }
        Ok(Self { source: Box::new(Together(sources)), notes, node, number, sequence })
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

/// Several devices, with the sector at which each begins.
struct Together(Vec<(Box<dyn Source + Send>, u64)>);

impl Source for Together {
    fn take(&mut self, batch: &mut Batch, mut patience: Duration) -> Result<(), Error> {
        for (source, start) in &mut self.0 {
            let (arrivals, completed) = (batch.arrivals.len(), batch.completed.len());
            source.take(batch, patience)?;
            for arrival in &mut batch.arrivals[arrivals..] {
                arrival.start.0 += *start;
            }
            for completed in &mut batch.completed[completed..] {
                completed.arrival.start.0 += *start;
            }
            // One wait is enough. Not zero, so that each notices that its device was removed.
            patience = patience.min(Duration::from_millis(1));
        }
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Error> {
        let mut all = Counts::default();
        for (source, _) in &self.0 {
            let counts = source.counts()?;
            all.arrived += counts.arrived;
            all.skipped += counts.skipped;
            all.lost += counts.lost;
            all.ends_lost += counts.ends_lost;
        }
        Ok(all)
    }

    fn backend(&self) -> Backend {
        self.0[0].0.backend()
    }
}

fn sectors((major, minor): DeviceNumber) -> u64 {
    let size = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size"));
    size.ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

/// Removed, or empty, as a loop device without a file.
fn is_gone((major, minor): DeviceNumber) -> bool {
    let size = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size"));
    size.is_ok_and(|sectors| sectors.trim() == "0")
        || !Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists()
}

/// The kernel's counter of devices with this number, since Linux 5.15.
fn sequence((major, minor): DeviceNumber) -> Option<String> {
    fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/diskseq")).ok()
}

type Found = (Box<dyn Source + Send>, Vec<String>);

/// BPF, or tracefs instead.
fn best(number: DeviceNumber, options: &Options) -> Result<Found, Error> {
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

#[cfg(test)]
mod tests {
    use elevator::{Flags, Op, Sector, Sectors, Time};

    use super::*;
    use crate::event::{Arrival, Name};
    use crate::fake::Fake;

    #[test]
    fn several_devices_are_one_behind_the_other() {
        let arrival = |start| Arrival {
            at: Time::ZERO,
            op: Op::Read,
            start: Sector(start),
            sectors: Sectors(8),
            flags: Flags::default(),
            priority: None,
            process: None,
            name: Name::default(),
        };
        let of = |start| {
            let batch = Batch { arrivals: vec![arrival(start)], ..Batch::default() };
            Box::new(Fake::new([batch]).missing(1, 2)) as Box<dyn Source + Send>
        };
        let mut both = Together(vec![(of(16), 0), (of(24), 1000)]);
        let mut batch = Batch::default();
        both.take(&mut batch, Duration::ZERO).unwrap();
        let starts: Vec<u64> = batch.arrivals.iter().map(|arrival| arrival.start.0).collect();
        assert_eq!(starts, [16, 1024]);
        let counts = both.counts().unwrap();
        assert_eq!((counts.skipped, counts.lost), (2, 4));
    }
}
