//! Recordings: files, and columns in memory.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use elevator::{Flags, Op, SECTOR_BYTES, Sector, Span, Time};
use evaluation::input::{self, Completions, Opened, Reading, Replaying};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use traces::{DeviceId, Oddity, Pid, Record, Rwbs};
use workloads::replay::{Closed, Open};

use crate::background::in_background;
use crate::column::{Column, Value};
use crate::error;

/// A recording. It is read at the first comparison on a drive, and kept for further ones.
#[pyclass(frozen, module = "dwell._native")]
pub(crate) struct Trace {
    source: Source,
    /// By capacity of the drive in sectors, and whether the replay is open.
    opened: Mutex<HashMap<(u64, bool), Arc<Opened>>>,
}

enum Source {
    /// A recording, a job file of fio or a built-in workload, by name.
    Named(String, Reading),
    Columns(Box<Columns>),
}

/// Columns of equal length.
struct Columns {
    name: String,
    length: usize,
    /// Nanoseconds in a unit of `time` and `completed` whose types are numbers.
    unit: u64,
    time: Column,
    offset: Column,
    bytes: Column,
    op: Column,
    process: Option<Column>,
    completed: Option<Column>,
}

/// The column of an object with NumPy's or Arrow's interface.
fn column(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Column> {
    if let Ok(interface) = object.getattr("__array_interface__") {
        return Column::of_numpy(name, object, interface.cast::<PyDict>()?);
    }
    if object.hasattr("__arrow_c_array__")? || object.hasattr("__arrow_c_stream__")? {
        let mut columns = crate::arrow::columns(object)?;
        if let (Some((_, column)), true) = (columns.pop(), columns.is_empty()) {
            return column.checked(name);
        }
        return Err(error::input(format!("column '{name}' is a table of several columns; select one")));
    }
    let kind = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("column '{name}' is {kind}: use a NumPy array or an Arrow array")))
}

#[pymethods]
impl Trace {
    /// A file or built-in workload.
    #[staticmethod]
    fn named(
        name: PathBuf,
        format: Option<String>,
        device: Option<String>,
        unit: Option<String>,
        strict: bool,
    ) -> PyResult<Self> {
        let name = name.to_str().ok_or_else(|| error::input("the name of a recording must be UTF-8"))?;
        if name == input::STANDARD_INPUT {
            return Err(error::input("a recording cannot be read from Python's standard input; give a file"));
        }
        Ok(Self::of(Source::Named(name.to_owned(), Reading { format, device, unit, strict })))
    }

    /// Columns by name, from objects with NumPy's or Arrow's interface, and nanoseconds in a unit of time.
    #[staticmethod]
    fn columns(name: String, columns: Vec<(String, Bound<'_, PyAny>)>, unit: u64) -> PyResult<Self> {
        let named = |(name, object): &(String, Bound<'_, PyAny>)| Ok((name.clone(), column(name, object)?));
        let columns = columns.iter().map(named).collect::<PyResult<_>>()?;
        Ok(Self::of(Source::Columns(Box::new(Columns::new(name, columns, unit)?))))
    }

    /// The columns of a table with Arrow's interface; `names` has a field, the name of its column, and whether the table must have it.
    #[staticmethod]
    fn table(
        name: String,
        table: &Bound<'_, PyAny>,
        names: Vec<(String, String, bool)>,
        unit: u64,
    ) -> PyResult<Self> {
        let mut found: Vec<(String, Option<Column>)> =
            crate::arrow::columns(table)?.into_iter().map(|(name, column)| (name, Some(column))).collect();
        let known: Vec<String> = found.iter().map(|(name, _)| name.clone()).collect();
        let mut columns = Vec::new();
        for (field, wanted, is_required) in names {
            match known.iter().filter(|name| **name == wanted).count() {
                0 if !is_required => continue,
                0 | 1 => {}
                _ => {
                    return Err(error::input(format!(
                        "{name}: two columns are called '{wanted}'; rename one"
                    )));
                }
            }
            let column =
                found.iter_mut().find(|(name, _)| *name == wanted).and_then(|(_, column)| column.take());
            let column = column.ok_or_else(|| {
                let known = known.join(", ");
                error::input(format!("{name}: no column '{wanted}' for '{field}'; the table has {known}"))
            })?;
            columns.push((field, column.checked(&wanted)?));
        }
        Ok(Self::of(Source::Columns(Box::new(Columns::new(name, columns, unit)?))))
    }

    /// Requests, if they are known without reading a file.
    fn requests(&self) -> Option<usize> {
        match &self.source {
            Source::Named(..) => None,
            Source::Columns(columns) => Some(columns.length),
        }
    }

    /// The name, for messages and results.
    #[getter]
    fn name(&self) -> &str {
        match &self.source {
            Source::Named(name, _) => name,
            Source::Columns(columns) => &columns.name,
        }
    }

    /// Reads the recording as a drive of that many bytes would get it; returns a description and notes.
    fn describe(&self, py: Python<'_>, capacity: u64, open: bool) -> PyResult<(String, Vec<String>)> {
        let opened = in_background(py, || self.open(Sector(capacity / SECTOR_BYTES), open))?;
        Ok((opened.workload.describe(), [&opened.notes[..], &opened.missing].concat()))
    }
}

impl Trace {
    fn of(source: Source) -> Self {
        Self { source, opened: Mutex::default() }
    }

    /// The workload for a drive of this capacity.
    pub(crate) fn open(&self, capacity: Sector, open: bool) -> PyResult<Arc<Opened>> {
        let key = (capacity.0, open);
        let known = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = known().get(&key) {
            return Ok(Arc::clone(opened));
        }
        let opened = match &self.source {
            Source::Named(name, reading) => {
                let how = Replaying { open: open.then_some("open"), ..Replaying::default() };
                input::open(name, reading, how, capacity).map_err(error::input)?
            }
            Source::Columns(columns) => columns.open(capacity, open)?,
        };
        Ok(Arc::clone(known().entry(key).or_insert(Arc::new(opened))))
    }
}

impl Columns {
    fn new(name: String, columns: Vec<(String, Column)>, unit: u64) -> PyResult<Self> {
        let mut columns: HashMap<String, Column> = columns.into_iter().collect();
        let mut optional = |field: &str| columns.remove(field);
        let mut needed = |field: &str| {
            optional(field).ok_or_else(|| error::input(format!("{name}: the column '{field}' is missing")))
        };
        let (time, offset, bytes, op) = (needed("time")?, needed("offset")?, needed("bytes")?, needed("op")?);
        let (process, completed) = (optional("process"), optional("completed"));
        let length = time.length;
        let all = [("offset", Some(&offset)), ("bytes", Some(&bytes)), ("op", Some(&op))];
        let all = all.into_iter().chain([("process", process.as_ref()), ("completed", completed.as_ref())]);
        for (field, column) in all {
            if let Some(column) = column.filter(|column| column.length != length) {
                let rows = column.length;
                return Err(error::input(format!(
                    "{name}: column '{field}' has {rows} rows, and 'time' has {length}; columns need the same length"
                )));
            }
        }
        if length == 0 {
            return Err(error::input(format!("{name}: there is no request in it")));
        }
        Ok(Self { name, length, unit, time, offset, bytes, op, process, completed })
    }

    fn open(&self, capacity: Sector, open: bool) -> PyResult<Opened> {
        let mut notes = vec![format!("{}: {} requests from columns", self.name, self.length)];
        let mut in_loops = None;
        if !open && self.completed.is_some() {
            let (mut builder, mut completions) = (Closed::default(), Completions::default());
            let oddities = self.records(capacity, &mut |record| {
                completions.add(record);
                builder.push(record);
            })?;
            notes.extend(
                completions
                    .note()
                    .filter(|_| !completions.is_none())
                    .map(|note| format!("{}: {note}", self.name)),
            );
            in_loops = (!completions.is_none()).then_some((builder, oddities));
        }
        if !open && in_loops.is_none() {
            let what =
                if self.completed.is_some() { "without a value in the column" } else { "without a column" };
            notes.push(format!(
                "{}: {what} 'completed', dependencies of requests are unknown: replayed by time stamps, as with open=True",
                self.name
            ));
        }
        let by_time = in_loops.is_none();
        let (replay, oddities) = match in_loops {
            Some((builder, oddities)) => (builder.finish(&self.name, &|_| None), oddities),
            None => {
                let mut builder = Open::default();
                let oddities = self.records(capacity, &mut |record| builder.push(record))?;
                (builder.finish(&self.name, &|_| None), oddities)
            }
        };
        notes.extend(replay.note().map(|note| format!("{}: {note}", self.name)));
        notes.extend(oddities.iter().map(|(oddity, count, first)| {
            format!("{}: {count} {} (first: row {})", self.name, oddity.as_str(), first + 1)
        }));
        Ok(Opened {
            workload: Box::new(replay),
            notes,
            missing: Vec::new(),
            by_time,
            skips: Default::default(),
            length: None,
            runtimes: Default::default(),
        })
    }

    /// Calls `push` with each row's record. Returns what a note counts, with the number of rows and the first row.
    fn records(
        &self,
        capacity: Sector,
        push: &mut dyn FnMut(&Record),
    ) -> PyResult<Vec<(Oddity, usize, usize)>> {
        let mut oddities: Vec<(Oddity, usize, usize)> = Vec::new();
        let mut rows = Rows { columns: self, row: 0, latest: 0 };
        let mut process = self.process.as_ref().map(Column::values);
        let mut completed = self.completed.as_ref().map(Column::values);
        let required =
            self.time.values().zip(self.offset.values()).zip(self.bytes.values()).zip(self.op.values());
        for (row, (((time, offset), bytes), op)) in required.enumerate() {
            rows.row = row;
            let mut record = rows.record(time, offset, bytes, op)?;
            if let Some(process) = process.as_mut().and_then(Iterator::next) {
                record.process = rows.process(process)?;
            }
            if let Some(completed) = completed.as_mut().and_then(Iterator::next) {
                record.completed = rows.completed(completed, record.at)?;
            }
            rows.check(&record, capacity)?;
            let oddity = match record.op {
                Op::Flush => ((record.offset, record.bytes) != (0, 0)).then_some(Oddity::FlushExtent),
                _ => (!record.is_aligned()).then_some(Oddity::Unaligned),
            };
            if let Some(oddity) = oddity {
                match oddities.iter_mut().find(|(known, ..)| *known == oddity) {
                    Some((_, count, _)) => *count += 1,
                    None => oddities.push((oddity, 1, row)),
                }
            }
            push(&record);
        }
        Ok(oddities)
    }
}

/// NumPy's `NaT`.
const NOT_A_TIME: i128 = i64::MIN as i128;

/// Converts the values of a row.
struct Rows<'a> {
    columns: &'a Columns,
    /// From 0; in messages from 1, as lines of text and rows of Parquet files are.
    row: usize,
    latest: u64,
}

impl Rows<'_> {
    fn wrong(&self, column: &str, problem: &str) -> PyErr {
        error::input(format!("{}, row {}, column '{column}': {problem}", self.columns.name, self.row + 1))
    }

    fn record(&mut self, time: Value, offset: Value, bytes: Value, op: Value) -> PyResult<Record> {
        let at = self.time("time", &self.columns.time, time)?;
        if at < self.latest {
            return Err(self.wrong("time", "earlier than the row before; sort the rows by time"));
        }
        self.latest = at;
        let (mut op, flags) = self.op(op)?;
        let (offset, bytes) = (self.whole("offset", offset)?, self.whole("bytes", bytes)?);
        if bytes == 0 && flags.preflush {
            op = Op::Flush;
        }
        let mut record = Record::new(Time::from_nanos(at), DeviceId(0), op, offset, bytes);
        record.flags = Flags { preflush: flags.preflush && op != Op::Flush, ..flags };
        Ok(record)
    }

    fn check(&self, record: &Record, capacity: Sector) -> PyResult<()> {
        if record.op == Op::Flush {
            return Ok(());
        }
        if record.bytes == 0 {
            return Err(self.wrong("bytes", "only a flush may have no length; leave the row out"));
        }
        if record.offset.checked_add(record.bytes).is_none_or(|end| end > capacity.bytes()) {
            let problem = format!(
                "{} bytes at offset {} end beyond the drive's end at {}; choose a larger drive, or leave the row out",
                record.bytes,
                record.offset,
                capacity.bytes()
            );
            return Err(self.wrong("offset", &problem));
        }
        Ok(())
    }

    fn time(&self, name: &str, column: &Column, value: Value) -> PyResult<u64> {
        let unit = column.ticks.unwrap_or(self.columns.unit);
        let outside = |ticks: &dyn Display| {
            let unit = Span::from_nanos(unit);
            self.wrong(name, &format!("{ticks} in units of {unit} is not from 0 to 2^64 - 1 ns (584 years)"))
        };
        match value {
            Value::Whole(NOT_A_TIME) if column.ticks.is_some() => Err(self.wrong(name, "there is no value")),
            Value::Whole(ticks) => u64::try_from(ticks)
                .ok()
                .and_then(|ticks| ticks.checked_mul(unit))
                .ok_or_else(|| outside(&ticks)),
            Value::Real(ticks) if ticks >= 0.0 && ticks * (unit as f64) < u64::MAX as f64 => {
                Ok((ticks * unit as f64).round() as u64)
            }
            Value::Real(ticks) if !ticks.is_nan() => Err(outside(&ticks)),
            Value::Real(_) | Value::Null => Err(self.wrong(name, "there is no value")),
            Value::Word(_) => Err(self.wrong(name, "text is no time; convert the column to numbers")),
        }
    }

    fn whole(&self, name: &str, value: Value) -> PyResult<u64> {
        match value {
            Value::Whole(number) => u64::try_from(number)
                .map_err(|_| self.wrong(name, &format!("{number} is not from 0 to 2^64 - 1"))),
            Value::Real(number) if number >= 0.0 && number.fract() == 0.0 && number < u64::MAX as f64 => {
                Ok(number as u64)
            }
            Value::Real(number) if !number.is_nan() => {
                Err(self.wrong(name, &format!("{number} is no whole number")))
            }
            Value::Real(_) | Value::Null => Err(self.wrong(name, "there is no value")),
            Value::Word(_) => Err(self.wrong(name, "text is no number; convert the column to numbers")),
        }
    }

    /// The operation; and the flags, if it is in the letters of the block layer.
    fn op(&self, value: Value) -> PyResult<(Op, Flags)> {
        let wrong = |found: &str| {
            let advice = "use read, write, discard, flush (or r, w, d, f), the block layer's letters such as WS, or 0, 1, 2, 3";
            Err(self.wrong("op", &format!("{found} is not an operation; {advice}")))
        };
        let word = match value {
            Value::Whole(number @ 0..=3) => {
                let all = [Op::Read, Op::Write, Op::Discard, Op::Flush];
                return Ok((all[number as usize], Flags::default()));
            }
            Value::Whole(number) => return wrong(&number.to_string()),
            // pandas makes floats of a column in which a value is missing.
            Value::Real(number) if [0.0, 1.0, 2.0, 3.0].contains(&number) => {
                return self.op(Value::Whole(number as i128));
            }
            Value::Real(number) if !number.is_nan() => return wrong(&format!("{number:?}")),
            Value::Real(_) | Value::Null => return Err(self.wrong("op", "there is no value")),
            Value::Word(word) => word,
        };
        let op = match word.bytes().to_ascii_lowercase().as_slice() {
            b"read" | b"r" => Op::Read,
            b"write" | b"w" => Op::Write,
            b"discard" | b"trim" | b"d" | b"t" => Op::Discard,
            b"flush" | b"f" => Op::Flush,
            _ => {
                let is_upper = word.bytes().iter().all(u8::is_ascii_uppercase);
                let letters =
                    Rwbs::parse(word.bytes()).filter(|_| is_upper && Self::are_letters(word.bytes()));
                return match letters.and_then(|letters| Some((letters.op?, letters.flags))) {
                    Some(found) => Ok(found),
                    None => wrong(&format!("'{}'", String::from_utf8_lossy(word.bytes()))),
                };
            }
        };
        Ok((op, Flags::default()))
    }

    /// Whether all of a text are letters of the block layer, in a number that it prints.
    fn are_letters(word: &[u8]) -> bool {
        word.len() <= 7 && word.iter().all(|byte| b"RWDFNEZASM".contains(byte))
    }

    fn process(&self, value: Value) -> PyResult<Option<Pid>> {
        match value {
            Value::Null => Ok(None),
            Value::Real(number) if number.is_nan() => Ok(None),
            value => {
                let number = match value {
                    Value::Whole(number) => number,
                    value => self.whole("process", value)?.into(),
                };
                let process = u32::try_from(number).map(|number| Some(Pid(number)));
                process.map_err(|_| self.wrong("process", &format!("{number} is not from 0 to 2^32 - 1")))
            }
        }
    }

    /// No value means a completion that was not recorded.
    fn completed(&self, value: Value, at: Time) -> PyResult<Option<Time>> {
        let column = self.columns.completed.as_ref().unwrap_or(&self.columns.time);
        match value {
            Value::Null => Ok(None),
            Value::Real(ticks) if ticks.is_nan() => Ok(None),
            Value::Whole(NOT_A_TIME) if column.ticks.is_some() => Ok(None),
            value => {
                let clocks = [&self.columns.time, column].map(Column::clock);
                if clocks[0] != clocks[1] {
                    let types = [&self.columns.time, column].map(|column| &column.type_name);
                    let problem = format!(
                        "it has {} ('{}'), and 'time' has {} ('{}'); convert one of them",
                        clocks[1], types[1], clocks[0], types[0]
                    );
                    return Err(self.wrong("completed", &problem));
                }
                let completed = Time::from_nanos(self.time("completed", column, value)?);
                if completed < at {
                    return Err(self.wrong("completed", "earlier than 'time' of the same row"));
                }
                Ok(Some(completed))
            }
        }
    }
}
