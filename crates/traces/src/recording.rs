//! Opening and iterating a recording.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use elevator::{Op, SECTOR_BYTES, Span, Time, cold_path};

use crate::binary::PARQUET_MAGIC;
use crate::compression::{self, Wrapping};
use crate::context::{Context, Source};
use crate::detect::detect;
use crate::devices::DeviceEntry;
use crate::error::{Error, ErrorKind, Position};
use crate::format::{Format, parquet};
use crate::input::{BUFFER_BYTES, Input};
use crate::interpretation::Interpretation;
use crate::names::NAMES_MAX;
use crate::options::{DeviceChoice, Options, TimeUnit};
use crate::record::{DeviceId, Pid, Record};
use crate::skips::{Oddity, Skips};
use crate::unit::UnitSource;

/// The greatest step backwards in time that per-CPU buffers explain. A greater step means that the clock was set, or a damaged stamp.
const BACKWARDS_MAX: Span = Span::from_secs(1);
/// Upper bound for consecutive requests that are far back in time; beyond it the earlier time stamps are wrong.
const JUMPED_RUN_MAX: u32 = 1_000;
/// Nanoseconds by which the times of a device may precede the first request of a recording that is ordered by device: half of those that a
/// signed number holds, 146 years.
const PRECEDING: u64 = 1 << 62;
/// Upper bound for requests that are read to list the devices of a recording.
const LISTED_REQUESTS_MAX: u64 = 50_000_000;

/// Opens a recording: unpacks it, detects its format, and prepares its reader.
///
/// `name` appears in errors, and selects the format if the content is ambiguous.
///
/// # Errors
/// If the format is not detected, or the file does not begin in the specified format.
pub fn open(name: &str, source: Box<dyn Read + Send>, options: &Options) -> Result<Recording, Error> {
    let (source, wrappings) = compression::decompress(source);
    let mut input = Input::new(source);
    let mut context = Context::new(name, options);
    let format = match options.format {
        Some(format) => format,
        None => tell_format(&mut input, &mut context)?,
    };
    let source = format.reader(input, &mut context)?;
    Ok(Recording::new(source, context, format, wrappings))
}

/// Opens a recording's file as [`open`] does, but reads a Parquet file in place instead of from its start to its end.
///
/// # Errors
/// As [`open`].
pub fn open_file(name: &str, mut file: File, options: &Options) -> Result<Recording, Error> {
    let mut head = [0; PARQUET_MAGIC.len()];
    // A pipe cannot go back; it is read as a stream.
    let is_seekable = file.metadata().is_ok_and(|found| found.is_file());
    let is_parquet = is_seekable && file.read_exact(&mut head).is_ok() && head == PARQUET_MAGIC;
    if is_seekable {
        let mut context = Context::new(name, options);
        if let Err(error) = file.seek(SeekFrom::Start(0)) {
            return Err(context.error(ErrorKind::Io, error.to_string()).caused_by(error));
        }
        if is_parquet && options.format.is_none_or(|format| format == Format::Parquet) {
            let source = parquet::from_file(file, &mut context)?;
            return Ok(Recording::new(source, context, Format::Parquet, Vec::new()));
        }
    }
    open(name, Box::new(file), options)
}

fn tell_format(input: &mut Input, context: &mut Context) -> Result<Format, Error> {
    let head = input.peek(BUFFER_BYTES);
    if head.is_empty() {
        input.failure().map_err(|stop| context.stopped(stop))?;
        let problem = match input.odd_end() {
            Some(Oddity::CutShort) => "the compressed file is truncated before the first record",
            _ => "is empty; name a recording",
        };
        return Err(context.error(ErrorKind::Format, problem));
    }
    match detect(&context.file, head) {
        Some(detected) => {
            context.taken_for = Some(detected.format);
            context.notes.extend(detected.doubt.map(|doubt| format!("{doubt}; name the format if not")));
            Ok(detected.format)
        }
        None => {
            let (problem, advice) = match compression::not_read(head) {
                Some((what, program)) => {
                    (format!("it is {what}, which is not read"), format!("give what '{program}' makes of it"))
                }
                None => {
                    let known: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
                    let advice = format!("name it if it is one of {}", known.join(", "));
                    ("in none of the formats that are known".to_owned(), advice)
                }
            };
            Err(context.error(ErrorKind::Format, problem).advice(advice))
        }
    }
}

/// An open recording: an iterator of records, and afterwards the source of its interpretation and anomalies.
///
/// Records come in the order of `at`. Each is on a chosen device, within the capacity if one was specified, and of non-zero length
/// unless it is a flush. The iterator ends after an error. Memory use is bounded, whatever the file contains.
pub struct Recording {
    source: Box<dyn Source>,
    context: Context,
    format: Format,
    wrappings: Vec<Wrapping>,
    /// The recording's time that is [`Time::ZERO`], in nanoseconds, once known.
    origin: Option<u64>,
    /// The earliest and the latest time so far.
    first: Option<Time>,
    latest: Time,
    /// The latest time of each device, if the order of time is that of each device.
    of_devices: Option<Vec<Time>>,
    jumped_run: u32,
    requests: u64,
    pids: HashSet<Pid>,
    last_pid: Option<Pid>,
    over: bool,
}

impl Recording {
    fn new(source: Box<dyn Source>, context: Context, format: Format, wrappings: Vec<Wrapping>) -> Self {
        Self {
            source,
            context,
            format,
            wrappings,
            origin: None,
            first: None,
            latest: Time::ZERO,
            of_devices: None,
            jumped_run: 0,
            requests: 0,
            pids: HashSet::new(),
            last_pid: None,
            over: false,
        }
    }

    /// Checks the order of time of each device by itself, for a recording that may be sorted by device. Records are then not in the order of `at`,
    /// and the first one is not at [`Time::ZERO`].
    #[must_use]
    pub fn ordered_by_device(mut self) -> Self {
        self.of_devices = Some(Vec::new());
        self
    }

    /// How the recording is read; complete at the end of the recording.
    #[must_use]
    pub fn interpretation(&self) -> Interpretation {
        let (unit, unit_source) = self.context.unit.unwrap_or((TimeUnit::Nanoseconds, UnitSource::Published));
        let mut notes = self.context.notes.clone();
        if self.context.grown > 0 {
            notes.push(format!(
                "{} grew by merging after their start: their length is the one they were issued with",
                self.context.grown
            ));
        }
        Interpretation {
            format: self.format,
            format_forced: self.context.options.format.is_some(),
            wrappings: self.wrappings.clone(),
            event: self.context.event,
            unit,
            unit_source,
            requests: self.requests,
            span: self.latest.since(self.first.unwrap_or(self.latest)),
            processes: self.pids.len(),
            notes,
        }
    }

    /// Anomalies so far.
    #[must_use]
    pub fn skips(&self) -> &Skips {
        &self.context.skips
    }

    /// The devices so far, by [`DeviceId`](crate::DeviceId), with their number of requests.
    #[must_use]
    pub fn devices(&self) -> &[DeviceEntry] {
        self.context.devices.entries()
    }

    /// The latest name of a process.
    #[must_use]
    pub fn process_name(&self, pid: Pid) -> Option<String> {
        self.context.names.get(pid).map(std::borrow::Cow::into_owned)
    }

    /// The time on the recording's own clock, in nanoseconds, that is [`Time::ZERO`] for records.
    #[must_use]
    pub fn origin(&self) -> u64 {
        self.origin.unwrap_or(0)
    }

    /// The position of the latest request in the file.
    #[must_use]
    pub fn place(&self) -> Position {
        self.context.place
    }

    /// Reads the next records into `to`, whose content is replaced, which costs less than to read one by one; false at the end.
    ///
    /// [`devices`](Self::devices) and [`process_name`](Self::process_name) are those of these records.
    ///
    /// # Errors
    /// As [`next`](Self::next), without the records before; after an error, at the end.
    pub fn read_batch(&mut self, to: &mut Vec<Record>) -> Result<bool, Error> {
        to.clear();
        if self.over {
            return Ok(false);
        }
        let read = self.next_batch(to);
        self.over = !matches!(read, Ok(true));
        read
    }

    fn next_batch(&mut self, to: &mut Vec<Record>) -> Result<bool, Error> {
        while to.is_empty() {
            self.source.read_batch(to, &mut self.context)?;
            if to.is_empty() {
                return self.finish();
            }
            let first = self.context.place;
            if self.are_usual(to) {
                self.count_usual(to);
                self.context.place = self.place_in_batch(first, to.len() - 1);
                return Ok(true);
            }
            let mut kept = 0;
            for index in 0..to.len() {
                let (record, rest) = to[index..].split_at_mut(1);
                let record = &mut record[0];
                self.context.place = self.place_in_batch(first, index);
                if self.is_chosen(record, rest)?
                    && self.has_sound_extent(record)?
                    && self.set_clock(record)?
                {
                    self.count(record);
                    if kept < index {
                        to[kept] = to[index];
                    }
                    kept += 1;
                }
            }
            to.truncate(kept);
        }
        Ok(true)
    }

    fn place_in_batch(&self, first: Position, index: usize) -> Position {
        self.context.places.get(index).copied().unwrap_or_else(|| first.after(index as u64))
    }

    /// Whether the records are as most are: every one is kept as it is, but for the origin of time. The checks of the others find nothing in these.
    fn are_usual(&self, records: &[Record]) -> bool {
        let (Some(origin), None) = (self.origin, &self.of_devices) else { return false };
        let capacity = self.context.options.capacity.unwrap_or(u64::MAX);
        let mut latest = self.latest.as_nanos().saturating_add(origin);
        let (mut places, mut odd) = (0, self.first.is_none());
        for record in records {
            let (at, end) = (record.at.as_nanos(), record.offset.wrapping_add(record.bytes));
            places |= record.offset | record.bytes;
            odd |= record.bytes == 0 || end < record.offset || end > capacity || at < latest;
            odd |= record.completed.is_some_and(|completed| completed < record.at) || record.op == Op::Flush;
            latest = at;
        }
        !odd && places.is_multiple_of(SECTOR_BYTES) && self.are_chosen(records)
    }

    /// Whether the devices of these records are chosen, and there is no second one if only one is.
    fn are_chosen(&self, records: &[Record]) -> bool {
        match &self.context.options.device {
            DeviceChoice::All => true,
            DeviceChoice::Single => records.iter().all(|record| record.device.0 == 0),
            DeviceChoice::Named(_) => {
                let entries = self.context.devices.entries();
                records.iter().all(|record| entries[record.device.0 as usize].chosen)
            }
        }
    }

    /// Sets the times of usual records and counts them.
    fn count_usual(&mut self, records: &mut [Record]) {
        let origin = Span::from_nanos(self.origin());
        for record in &mut *records {
            self.context.devices.count(record.device);
            if origin > Span::ZERO {
                for time in [&mut record.at].into_iter().chain(&mut record.completed) {
                    *time = Time::from_nanos(time.as_nanos() - origin.as_nanos());
                }
            }
            self.count_process(record);
        }
        self.jumped_run = 0;
        self.requests += records.len() as u64;
        self.latest = records.last().map_or(self.latest, |record| record.at);
    }

    fn read_next(&mut self, record: &mut Record) -> Result<bool, Error> {
        loop {
            if !self.source.read(record, &mut self.context)? {
                return self.finish();
            }
            if self.is_chosen(record, &[])? && self.has_sound_extent(record)? && self.set_clock(record)? {
                self.count(record);
                return Ok(true);
            }
        }
    }

    #[inline(never)]
    fn finish(&mut self) -> Result<bool, Error> {
        self.context.fail_if_none_valid()?;
        match &self.context.options.device {
            DeviceChoice::Named(name) if self.requests == 0 && self.context.devices.in_use() > 0 => {
                let problem = format!("there is no request of device '{name}'");
                let advice = format!("it has {}", self.context.devices.list());
                Err(self.context.error(ErrorKind::Device, problem).advice(advice))
            }
            _ => Ok(false),
        }
    }

    #[inline]
    fn is_chosen(&mut self, record: &Record, rest: &[Record]) -> Result<bool, Error> {
        let chosen = self.context.devices.count(record.device);
        let second = record.device.0 > 0
            && self.context.options.device == DeviceChoice::Single
            && self.context.devices.in_use() > 1;
        if second { Err(self.several_devices(rest)) } else { Ok(chosen) }
    }

    /// The error for several devices; reads on, behind the records that are read already, to list them.
    #[cold]
    fn several_devices(&mut self, rest: &[Record]) -> Error {
        let place = self.context.place;
        for record in rest {
            self.context.devices.count(record.device);
        }
        let mut read = 0;
        while let (true, Ok(Some(record))) = (read < LISTED_REQUESTS_MAX, self.source.next(&mut self.context))
        {
            self.context.devices.count(record.device);
            read += 1;
        }
        let problem = format!("the recording has several devices: {}", self.context.devices.list());
        let advice = "choose one of them, or all";
        self.context.error(ErrorKind::Device, problem).at(place).advice(advice)
    }

    #[inline]
    fn has_sound_extent(&mut self, record: &mut Record) -> Result<bool, Error> {
        if record.op == Op::Flush {
            cold_path();
            if (record.offset, record.bytes, record.flags.preflush) != (0, 0, false) {
                (record.offset, record.bytes, record.flags.preflush) = (0, 0, false);
                self.context.skip(Oddity::FlushExtent)?;
            }
            return Ok(true);
        }
        let oddity = if record.bytes == 0 {
            Oddity::ZeroLength
        } else if record.offset.checked_add(record.bytes).is_none_or(|end| self.is_beyond(end)) {
            Oddity::BeyondCapacity
        } else if record.is_aligned() {
            return Ok(true);
        } else {
            self.context.skip(Oddity::Unaligned)?;
            return Ok(true);
        };
        self.context.skip(oddity)?;
        Ok(false)
    }

    fn is_beyond(&self, end: u64) -> bool {
        self.context.options.capacity.is_some_and(|capacity| end > capacity)
    }

    /// Shifts a record's times to the reader's clock and checks that they do not decrease.
    #[inline]
    fn set_clock(&mut self, record: &mut Record) -> Result<bool, Error> {
        let moved = if self.context.epoch_clock { record.at.as_nanos() } else { 0 };
        let (mut latest, mut preceding) = (self.latest, 0);
        if let Some(times) = &self.of_devices {
            latest = times.get(record.device.0 as usize).copied().unwrap_or(Time::ZERO);
            preceding = PRECEDING;
        }
        let origin = *self.origin.get_or_insert(moved.saturating_sub(preceding));
        let on_our_clock = |time: Time| Time::from_nanos(time.as_nanos().saturating_sub(origin));
        if record.completed.is_some_and(|completed| completed < record.at) {
            cold_path();
            record.completed = None;
            self.context.skip(Oddity::CompletedEarly)?;
        }
        let back = Time::from_nanos(latest.as_nanos().saturating_add(origin)).since(record.at);
        if origin > 0 {
            record.at = on_our_clock(record.at);
            record.completed = record.completed.map(on_our_clock);
        }
        if back > Span::ZERO && self.first.is_some() {
            return self.step_back(record, latest, back);
        }
        self.jumped_run = 0;
        Ok(true)
    }

    #[cold]
    fn step_back(&mut self, record: &mut Record, latest: Time, back: Span) -> Result<bool, Error> {
        if back <= BACKWARDS_MAX {
            record.at = latest;
            record.completed = record.completed.map(|completed| completed.max(latest));
            self.context.skip(Oddity::ClockBackwards)?;
            return Ok(true);
        }
        self.jumped_run += 1;
        if self.jumped_run >= JUMPED_RUN_MAX {
            return Err(self.clock_error(back));
        }
        self.context.skip(Oddity::ClockJump)?;
        Ok(false)
    }

    fn clock_error(&self, back: Span) -> Error {
        let first = self.context.skips.get(Oddity::ClockJump).first.unwrap_or(self.context.place);
        let problem = format!("the clock runs back by {:.3} s and stays there", back.as_secs_f64());
        let advice = match self.context.devices.in_use() > 1 && self.of_devices.is_none() {
            true => {
                "sort the file by time; if it is sorted by device, choose one device, or split the file by device"
            }
            false => {
                "sort the file by time; cut it there if it is two recordings, or cut out the stamps before if they are wrong"
            }
        };
        self.context.error(ErrorKind::Clock, problem).at(first).field("time").advice(advice)
    }

    #[inline]
    fn count(&mut self, record: &Record) {
        self.first.get_or_insert(record.at);
        match &mut self.of_devices {
            None => self.latest = record.at,
            Some(times) => {
                let index = record.device.0 as usize;
                if times.len() <= index {
                    times.resize(index + 1, Time::ZERO);
                }
                times[index] = record.at;
                self.latest = self.latest.max(record.at);
                self.first = self.first.min(Some(record.at));
            }
        }
        self.requests += 1;
        self.count_process(record);
    }

    #[inline]
    fn count_process(&mut self, record: &Record) {
        if record.process.is_some() && record.process != self.last_pid {
            cold_path();
            self.last_pid = record.process;
            if self.pids.len() < NAMES_MAX {
                self.pids.extend(record.process);
            }
        }
    }
}

impl Iterator for Recording {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut record = Record::new(Time::ZERO, DeviceId(0), Op::Read, 0, 0);
        if self.over {
            return None;
        }
        // The record is changed where the source has written it: moving a value that was just written field by field stalls on store
        // forwarding.
        let read = self.read_next(&mut record);
        self.over = !matches!(read, Ok(true));
        match read {
            Ok(true) => Some(Ok(record)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
