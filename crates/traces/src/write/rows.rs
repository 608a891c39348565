//! Formats of a line, or a record of fixed size, for each read and write.

use std::collections::HashSet;
use std::io::{self, Write};

use elevator::Op;

use super::{Field, Holds, RecordWriter, Sink, Written};
use crate::devices::DeviceEntry;
use crate::record::Record;

/// A format of a line, or a record of fixed size, for each request.
pub(crate) trait Rows {
    /// What it holds.
    const HOLDS: Holds;
    /// Whether readers set the first request to zero, so that only differences of times have a meaning.
    const IS_RELATIVE: bool;

    /// Appends what precedes the rows.
    fn head(&self, _to: &mut Vec<u8>) {}

    /// Appends a read or write at a time in nanoseconds; `None` if the format cannot express it.
    fn row(&mut self, at: u64, record: &Record, device: &Device, to: &mut Vec<u8>) -> Option<()>;

    /// Appends what follows the rows.
    fn end(&mut self, _to: &mut Vec<u8>) {}
}

/// The names of a device.
pub(crate) struct Device {
    /// The device's name if it is a number; otherwise a free one.
    pub(crate) number: u64,
    /// A host and the number of its disk, `src1,2`.
    pub(crate) host_and_disk: (String, u64),
}

/// `R` or `W`.
pub(crate) const fn letter(op: Op) -> char {
    if matches!(op, Op::Read) { 'R' } else { 'W' }
}

/// Makes a writer.
pub(super) fn open<'a, R: Rows + Default + 'static>(
    sink: Sink<'a>,
    devices: &[DeviceEntry],
    _comment: &str,
) -> io::Result<Box<dyn RecordWriter + 'a>> {
    let rows = R::default();
    let mut row = Vec::new();
    rows.head(&mut row);
    let names = Names::default();
    let mut writer = Writer { sink, rows, names, first: None, row, written: Written::default() };
    writer.sink.write_all(&writer.row)?;
    writer.meet(devices);
    Ok(Box::new(writer))
}

struct Writer<'a, R> {
    sink: Sink<'a>,
    rows: R,
    names: Names,
    /// The time of the first request.
    first: Option<u64>,
    row: Vec<u8>,
    written: Written,
}

/// The devices by id, and the names that are in use.
#[derive(Default)]
struct Names {
    devices: Vec<Device>,
    numbers: HashSet<u64>,
    disks: HashSet<(String, u64)>,
}

impl Names {
    fn add(&mut self, name: &str) {
        let number = name.parse().ok().filter(|number| !self.numbers.contains(number));
        let number = number.or_else(|| (0..).find(|number| !self.numbers.contains(number))).unwrap_or(0);
        self.numbers.insert(number);
        let parts = name.rsplit_once(['.', ',']);
        let parts = parts.and_then(|(host, disk)| Some((host, disk.parse().ok()?)));
        let (host, disk) = parts.unwrap_or((name, 0));
        let plain = |c: char| if c == ',' || c.is_whitespace() || c.is_control() { '_' } else { c };
        let host: String =
            if host.is_empty() { "disk".to_owned() } else { host.chars().map(plain).collect() };
        let is_free = |disk: &u64| !self.disks.contains(&(host.clone(), *disk));
        let disk = (disk..).find(is_free).unwrap_or(disk);
        self.disks.insert((host.clone(), disk));
        self.devices.push(Device { number, host_and_disk: (host, disk) });
    }
}

impl<R: Rows> RecordWriter for Writer<'_, R> {
    fn meet(&mut self, devices: &[DeviceEntry]) {
        for device in devices.iter().skip(self.names.devices.len()) {
            self.names.add(&device.name);
        }
    }

    fn write(&mut self, record: &Record, _process_name: Option<&str>) -> io::Result<()> {
        let index = record.device.0 as usize;
        while self.names.devices.len() <= index {
            self.names.add(&self.names.devices.len().to_string());
        }
        let first = *self.first.get_or_insert(record.at.as_nanos());
        let at = record.at.as_nanos() - if R::IS_RELATIVE { first.min(record.at.as_nanos()) } else { 0 };
        self.row.clear();
        let is_plain = matches!(record.op, Op::Read | Op::Write);
        if !is_plain || self.rows.row(at, record, &self.names.devices[index], &mut self.row).is_none() {
            self.written.left_out += 1;
            return Ok(());
        }
        let unit = R::HOLDS.resolution.as_nanos();
        let latency = record.latency().filter(|_| R::HOLDS.fields.has(Field::Completions));
        let is_exact = at.is_multiple_of(unit)
            && latency.is_none_or(|latency| latency.as_nanos().is_multiple_of(unit))
            && (R::HOLDS.fields.has(Field::Bytes) || record.is_aligned());
        self.written.written += 1;
        self.written.rounded += u64::from(!is_exact);
        self.sink.write_all(&self.row)
    }

    fn finish(mut self: Box<Self>) -> io::Result<Written> {
        self.row.clear();
        self.rows.end(&mut self.row);
        self.sink.write_all(&self.row)?;
        self.sink.flush().map(|()| self.written)
    }
}
