//! An opened recording: an iterator of requests that all satisfy the same promises.

use std::collections::HashSet;
use std::io::Read;

use elevator::{Op, Span, Time, cold_path};

use crate::compression::{self, Wrapping};
use crate::context::{Context, Source};
use crate::detect::detect;
use crate::devices::DeviceEntry;
use crate::error::{Error, ErrorKind, Position};
use crate::format::Format;
use crate::input::{BUFFER_BYTES, Input};
use crate::interpretation::Interpretation;
use crate::names::NAMES_MAX;
use crate::options::{DeviceChoice, Options, TimeUnit};
use crate::record::{Pid, Record};
use crate::skips::{Oddity, Skips};
use crate::unit::UnitSource;

/// A step back in time that the buffers of several CPUs explain. More is a clock that was set, or a damaged stamp.
const BACKWARDS_MAX: Span = Span::from_secs(1);
/// This many requests in a row far back in time, and it is not they that are wrong.
const JUMPED_RUN_MAX: u32 = 1_000;
/// Requests read on to list the devices of a recording of several.
const LISTED_REQUESTS_MAX: u64 = 50_000_000;

/// Opens a recording: unwraps it, tells its format, and reads up to the first request's unit and kind.
///
/// `name` is what errors call it; where the content leaves a choice of formats, the name decides.
///
/// # Errors
/// If the format is not told, or the head of the file is not of the format that was named.
pub fn open(name: &str, source: Box<dyn Read>, options: &Options) -> Result<Recording, Error> {
    let (source, wrappings) = compression::unwrap(source);
    let mut input = Input::new(source);
    let mut context = Context::new(name, options);
    let format = match options.format {
        Some(format) => format,
        None => tell_format(&mut input, &mut context)?,
    };
    let source = format.reader(input, &mut context)?;
    Ok(Recording::new(source, context, format, wrappings))
}

fn tell_format(input: &mut Input, context: &mut Context) -> Result<Format, Error> {
    let head = input.peek(BUFFER_BYTES);
    if head.is_empty() {
        input.failure().map_err(|stop| context.stopped(stop))?;
        let problem = match input.odd_end() {
            Some(Oddity::CutShort) => "it is compressed and cut before anything can be read of it",
            _ => "there is nothing in it",
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

/// An opened recording. Iterate over it; then ask what was odd and how it was read.
///
/// The requests come in the order of `at`, each with a place on a chosen device, within the capacity if one was stated,
/// and of non-zero length unless it is a flush. After an error it ends. Memory is bounded whatever the file holds.
pub struct Recording {
    source: Box<dyn Source>,
    context: Context,
    format: Format,
    wrappings: Vec<Wrapping>,
    /// Nanoseconds on the recording's clock that are [`Time::ZERO`], once known.
    origin: Option<u64>,
    /// Time of the first and of the latest request.
    first: Option<Time>,
    latest: Time,
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
            jumped_run: 0,
            requests: 0,
            pids: HashSet::new(),
            last_pid: None,
            over: false,
        }
    }

    /// How the recording is read; complete when it has been read to its end.
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

    /// What was left out or mended so far.
    #[must_use]
    pub fn skips(&self) -> &Skips {
        &self.context.skips
    }

    /// The devices met so far, by [`DeviceId`](crate::DeviceId), with their requests.
    #[must_use]
    pub fn devices(&self) -> &[DeviceEntry] {
        self.context.devices.entries()
    }

    /// The name by which the recording last knew a process.
    #[must_use]
    pub fn process_name(&self, pid: Pid) -> Option<String> {
        self.context.names.get(pid).map(std::borrow::Cow::into_owned)
    }

    /// The time, on the recording's own clock in nanoseconds, that requests call [`Time::ZERO`].
    #[must_use]
    pub fn origin(&self) -> u64 {
        self.origin.unwrap_or(0)
    }

    /// Where in the file the latest request came from.
    #[must_use]
    pub fn place(&self) -> Position {
        self.context.place
    }

    // A record is looked at and changed where the source has put it: one just written a field at a time would be waited for if
    // it were moved.
    #[inline]
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            let mut next = self.source.next(&mut self.context);
            match &mut next {
                Ok(Some(record)) => {
                    if self.is_chosen(record)? && self.has_sound_extent(record)? && self.set_clock(record)? {
                        self.count(record);
                        return next;
                    }
                }
                Ok(None) => return self.finish(),
                Err(_) => return next,
            }
        }
    }

    #[inline(never)]
    fn finish(&mut self) -> Result<Option<Record>, Error> {
        self.context.nothing_understood()?;
        match &self.context.options.device {
            DeviceChoice::Named(name) if self.requests == 0 && self.context.devices.in_use() > 0 => {
                let problem = format!("there is no request of device '{name}'");
                let advice = format!("it has {}", self.context.devices.list());
                Err(self.context.error(ErrorKind::Device, problem).advice(advice))
            }
            _ => Ok(None),
        }
    }

    #[inline]
    fn is_chosen(&mut self, record: &Record) -> Result<bool, Error> {
        let chosen = self.context.devices.count(record.device);
        let second = record.device.0 > 0
            && self.context.options.device == DeviceChoice::Single
            && self.context.devices.in_use() > 1;
        if second { Err(self.several_devices()) } else { Ok(chosen) }
    }

    /// Reads on, to say which devices there are.
    #[cold]
    fn several_devices(&mut self) -> Error {
        let place = self.context.place;
        let mut read = 0;
        while let (true, Ok(Some(record))) = (read < LISTED_REQUESTS_MAX, self.source.next(&mut self.context))
        {
            self.context.devices.count(record.device);
            read += 1;
        }
        let problem = format!("the recording has several devices: {}", self.context.devices.list());
        let advice = "choose one with --device, or all of them with --device all";
        self.context.error(ErrorKind::Device, problem).at(place).advice(advice)
    }

    #[inline]
    fn has_sound_extent(&mut self, record: &Record) -> Result<bool, Error> {
        if record.op == Op::Flush {
            cold_path();
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

    /// Moves a record to the reader's clock and holds that clock to running forwards.
    #[inline]
    fn set_clock(&mut self, record: &mut Record) -> Result<bool, Error> {
        let moved = if self.context.epoch_clock { record.at.as_nanos() } else { 0 };
        let origin = *self.origin.get_or_insert(moved);
        let on_our_clock = |time: Time| Time::from_nanos(time.as_nanos().saturating_sub(origin));
        if record.completed.is_some_and(|completed| completed < record.at) {
            cold_path();
            record.completed = None;
            self.context.skip(Oddity::CompletedEarly)?;
        }
        let back = Time::from_nanos(self.latest.as_nanos().saturating_add(origin)).since(record.at);
        if origin > 0 {
            record.at = on_our_clock(record.at);
            record.completed = record.completed.map(on_our_clock);
        }
        if back > Span::ZERO && self.first.is_some() {
            return self.step_back(record, back);
        }
        self.jumped_run = 0;
        Ok(true)
    }

    #[cold]
    fn step_back(&mut self, record: &mut Record, back: Span) -> Result<bool, Error> {
        if back <= BACKWARDS_MAX {
            record.at = self.latest;
            record.completed = record.completed.map(|completed| completed.max(self.latest));
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
        let advice =
            "cut the file there if it is two recordings, or cut out the stamps before if they are wrong";
        self.context.error(ErrorKind::Clock, problem).at(first).field("time").advice(advice)
    }

    #[inline]
    fn count(&mut self, record: &Record) {
        self.first.get_or_insert(record.at);
        self.latest = record.at;
        self.requests += 1;
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
        if self.over {
            return None;
        }
        let next = self.next_record().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}
