//! The state that parsers share: position, anomalies, devices, processes.

use crate::devices::{Devices, Key};
use crate::error::{Error, ErrorKind, Position};
use crate::format::list::Format;
use crate::input::ReadStop;
use crate::names::Names;
use crate::options::{Options, StartEvent, TimeUnit};
use crate::record::{DeviceId, Pid, Record};
use crate::scan::{Expected, FieldError};
use crate::skips::{Oddity, Skips};
use crate::unit::UnitSource;

/// Upper bound for consecutive malformed lines; beyond it the file has another format.
const MALFORMED_RUN_MAX: u32 = 100;
/// The advice for a recording of too many devices.
pub(crate) const FEWER_DEVICES: &str = "divide the recording into several with fewer devices each";
/// Bytes of a malformed field in a message.
const SHOWN: usize = 40;

/// A source of records, whose times are on the recording's own clock.
pub(crate) trait Source {
    /// The next request. Sets [`Context::place`] to its position.
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error>;

    /// The same into `record`; false at the end.
    #[inline]
    fn read(&mut self, record: &mut Record, context: &mut Context) -> Result<bool, Error> {
        let next = self.next(context)?;
        if let Some(next) = next {
            *record = next;
        }
        Ok(next.is_some())
    }

    /// The next requests into `to`, which is empty: those whose devices and names are known by now. Their positions are
    /// [`Context::places`], or follow on each other from [`Context::place`] if there are none. Without requests at the end.
    fn read_batch(&mut self, to: &mut Vec<Record>, context: &mut Context) -> Result<(), Error> {
        to.extend(self.next(context)?);
        Ok(())
    }
}

pub(crate) struct Context {
    pub(crate) file: String,
    pub(crate) options: Options,
    /// The detected format, if none was specified.
    pub(crate) taken_for: Option<Format>,
    pub(crate) place: Position,
    /// Those of a batch whose positions do not follow on each other.
    pub(crate) places: Vec<Position>,
    pub(crate) skips: Skips,
    pub(crate) devices: Devices,
    pub(crate) names: Names,
    /// Assumptions to be printed.
    pub(crate) notes: Vec<String>,
    /// Requests that grew after their start event.
    pub(crate) grown: u64,
    malformed_run: u32,
    any_valid: bool,
    /// The first error of the present run of malformed lines.
    first_of_run: Option<Error>,
    /// The unit of time stamps and its source, once known.
    pub(crate) unit: Option<(TimeUnit, UnitSource)>,
    /// The clock counts from an epoch, so that times are shifted to begin at zero.
    pub(crate) epoch_clock: bool,
    /// The event that is a request's start, in recordings of events.
    pub(crate) event: Option<StartEvent>,
}

impl Context {
    pub(crate) fn new(file: &str, options: &Options) -> Self {
        Self {
            file: file.to_owned(),
            options: options.clone(),
            taken_for: None,
            place: Position::Line(0),
            places: Vec::new(),
            skips: Skips::default(),
            devices: Devices::default(),
            names: Names::default(),
            notes: Vec::new(),
            grown: 0,
            malformed_run: 0,
            any_valid: false,
            first_of_run: None,
            unit: None,
            epoch_clock: false,
            event: None,
        }
    }

    /// Determines the unit: specified, or else judged, or else published. Returns nanoseconds per unit.
    pub(crate) fn settle_unit(&mut self, published: TimeUnit, judged: Option<TimeUnit>) -> u64 {
        let (unit, source) = match (self.options.unit, judged) {
            (Some(unit), _) => (unit, UnitSource::Forced),
            (None, Some(unit)) if unit != published => (unit, UnitSource::Judged),
            (None, _) => (published, UnitSource::Published),
        };
        self.unit = Some((unit, source));
        unit.nanos()
    }

    pub(crate) fn error(&self, kind: ErrorKind, problem: impl Into<String>) -> Error {
        Error::new(kind, &self.file, problem)
    }

    /// The id of a device; an error beyond [`DEVICES_MAX`](crate::devices::DEVICES_MAX).
    #[inline(always)]
    pub(crate) fn device(&mut self, key: Key<'_>) -> Result<DeviceId, FieldError> {
        self.devices.intern(key, &self.options.device).ok_or(Self::too_many_devices())
    }

    pub(crate) const fn too_many_devices() -> FieldError {
        FieldError { field: "device", expected: Expected::KnownDevice, at: 0 }
    }

    /// A context for another thread, which records what depends on the order of lines.
    pub(crate) fn of_worker(&self) -> Self {
        let mut context = Self::new("", &self.options);
        context.devices.log();
        context.names.log();
        context
    }

    /// Whether a context for another thread has recorded something.
    #[inline]
    pub(crate) fn has_log(&self) -> bool {
        self.devices.has_log() || self.names.has_log()
    }

    /// Records the name of a process.
    pub(crate) fn process(&mut self, pid: u32, name: &[u8]) -> Option<Pid> {
        // Linux's pid 0 is the idle task: the event came from an interrupt and has no process.
        if pid == 0 {
            return None;
        }
        if !self.names.note(Pid(pid), name) {
            self.skips.add(Oddity::NameDropped, 1, self.place);
        }
        Some(Pid(pid))
    }

    /// Records that a line was valid.
    #[inline]
    pub(crate) fn good(&mut self) {
        self.malformed_run = 0;
        self.any_valid = true;
    }

    /// Counts an anomaly at the present position; an error in strict mode if it is a fault.
    pub(crate) fn skip(&mut self, oddity: Oddity) -> Result<(), Error> {
        self.skips.add(oddity, 1, self.place);
        if !(self.options.strict && oddity.is_fault()) {
            return Ok(());
        }
        let error = self.error(ErrorKind::Strict, oddity.as_str().split(',').next().unwrap_or_default());
        Err(error.at(self.place).advice("without strict reading, it is counted and left out or corrected"))
    }

    /// Counts a malformed line; an error in strict mode or if such lines are not an exception.
    #[cold]
    pub(crate) fn malformed(&mut self, bad: FieldError, line: &[u8]) -> Result<(), Error> {
        self.skips.add(Oddity::Malformed, 1, self.place);
        self.malformed_run += 1;
        let first_of_run = match self.first_of_run.take() {
            Some(error) if self.malformed_run > 1 => error,
            _ => self.malformed_error(bad, line),
        };
        let hopeless = self.malformed_run >= MALFORMED_RUN_MAX || bad.expected == Expected::KnownDevice;
        if self.options.strict || hopeless {
            return Err(first_of_run);
        }
        self.first_of_run = Some(first_of_run);
        Ok(())
    }

    /// At the end: an error if no line was valid.
    pub(crate) fn fail_if_none_valid(&mut self) -> Result<(), Error> {
        match self.first_of_run.take() {
            Some(error) if !self.any_valid => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn malformed_error(&self, bad: FieldError, line: &[u8]) -> Error {
        let found = line.get(bad.at as usize..).unwrap_or_default();
        let shown = String::from_utf8_lossy(&found[..found.len().min(SHOWN)]);
        let problem = match shown.is_empty() {
            true if bad.expected == Expected::PossibleTime => format!("expected {}", bad.expected),
            true => format!("expected {}, found the end of the line", bad.expected),
            false => format!("expected {}, found '{}'", bad.expected, shown.escape_debug()),
        };
        let advice = match (self.options.strict, self.any_valid) {
            _ if bad.expected == Expected::KnownDevice => FEWER_DEVICES.to_owned(),
            (true, _) => {
                let what = if matches!(self.place, Position::Row(_)) { "row" } else { "line" };
                format!("delete the {what}, or read without strict, which counts it and leaves it out")
            }
            (false, _) if matches!(self.place, Position::Row(_)) => {
                "correct the rows in the program that wrote the file".to_owned()
            }
            (false, true) => "no line from here on is valid: truncate the file here".to_owned(),
            (false, false) => self.another_format(),
        };
        self.error(ErrorKind::Malformed, problem).at(self.place).field(bad.field).advice(advice)
    }

    /// The advice for a file of which no line was valid.
    pub(crate) fn another_format(&self) -> String {
        match self.taken_for {
            Some(format) => format!("it was detected as {format}; if that is wrong, specify the format"),
            None => "if it has another format, specify it".to_owned(),
        }
    }

    /// The error for a stream that cannot be read further.
    pub(crate) fn stopped(&self, stop: ReadStop) -> Error {
        match stop {
            ReadStop::Failed(error) => self
                .error(ErrorKind::Io, format!("cannot read further: {error}"))
                .at(self.place)
                .advice("check that the file is complete and not damaged")
                .caused_by(error),
            ReadStop::LineTooLong => self
                .error(ErrorKind::Limit, "the next line is longer than 256 KiB")
                .at(self.place)
                .advice("this is not a text recording; if it is a binary one, specify its format"),
        }
    }
}
