//! Columns of numbers and words in the memory of NumPy, Arrow and others, read in place.

use std::any::Any;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::input;

/// The type of the values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Arrow's type without values: each is missing.
    Null,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// Truth values of a byte.
    Bool,
    /// Truth values of a bit.
    Bits,
    /// NumPy's text: code points of four bytes.
    Wide(usize),
    /// NumPy's text of bytes.
    Narrow(usize),
    /// Arrow's text with offsets of 32 bits.
    Text32,
    /// Arrow's text with offsets of 64 bits.
    Text64,
    /// Arrow's views: a length, then the first bytes.
    TextView,
    /// Arrow's dictionary: the kinds of index and value.
    Dictionary(Box<(Kind, Kind)>),
}

impl Kind {
    /// Bytes from one value to the next, in an array without gaps.
    pub(crate) fn bytes(&self) -> isize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::Text32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::Text64 => 8,
            Self::TextView => 16,
            Self::Wide(length) => *length as isize * 4,
            Self::Narrow(length) => *length as isize,
            Self::Null | Self::Bits | Self::Dictionary(_) => 0,
        }
    }
}

/// What keeps the memory.
pub(crate) enum Owner {
    Python(#[allow(dead_code)] Py<PyAny>),
    Arrow(Arc<dyn Any + Send + Sync>),
}

impl Owner {
    pub(crate) fn clone_arrow(&self) -> Option<Self> {
        match self {
            Self::Python(_) => None,
            Self::Arrow(array) => Some(Self::Arrow(Arc::clone(array))),
        }
    }
}

/// Where the values are.
pub(crate) struct Values {
    /// The first value of the buffer.
    pub(crate) first: *const u8,
    /// Bytes from one value to the next.
    pub(crate) stride: isize,
    /// The text that offsets refer to.
    pub(crate) text: *const u8,
    /// A bit for each value of the buffer that is not null.
    pub(crate) validity: Option<*const u8>,
    /// The number of the chunk's first value in the buffer.
    pub(crate) start: usize,
}

/// Values in one piece of memory.
pub(crate) struct Chunk {
    kind: Kind,
    values: Values,
    length: usize,
    dictionary: Option<Box<Chunk>>,
    _owner: Owner,
}

// SAFETY: the memory is only read, and the owner may be dropped in any thread.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

/// A value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    Null,
    Whole(i128),
    Real(f64),
    /// A text.
    Word(Word),
}

/// A text: its bytes if there are few.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Word {
    bytes: [u8; Self::MOST],
    length: u8,
}

impl Word {
    /// More bytes than the name of an operation has. Arrow's views have texts of this length in place.
    const MOST: usize = 12;

    fn of(bytes: impl Iterator<Item = u8>) -> Value {
        let mut word = Self::default();
        for byte in bytes {
            if let Some(place) = word.bytes.get_mut(usize::from(word.length)) {
                *place = byte;
            }
            word.length = word.length.saturating_add(1).min(Self::MOST as u8 + 1);
        }
        Value::Word(word)
    }

    const fn long() -> Value {
        Value::Word(Self { bytes: [0; Self::MOST], length: Self::MOST as u8 + 1 })
    }

    /// The text; empty if it is too long.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl Chunk {
    pub(crate) fn new(
        kind: Kind,
        values: Values,
        length: usize,
        dictionary: Option<Box<Self>>,
        owner: Owner,
    ) -> Self {
        Self { kind, values, length, dictionary, _owner: owner }
    }

    /// The value at `index`, which must be less than the length.
    #[inline]
    fn value(&self, index: usize) -> Value {
        if self.kind == Kind::Null {
            return Value::Null;
        }
        let Values { first, stride, text, validity, start } = self.values;
        let index = start + index;
        // SAFETY: the producer's description of the array states that these addresses are in its memory, which the owner keeps. Values need
        // not be aligned.
        unsafe {
            let bit = |bits: *const u8| *bits.add(index / 8) >> (index % 8) & 1;
            if validity.is_some_and(|bits| bit(bits) == 0) {
                return Value::Null;
            }
            let at = first.offset(stride * index as isize);
            macro_rules! whole {
                ($type:ty) => {
                    Value::Whole(i128::from(at.cast::<$type>().read_unaligned()))
                };
            }
            let value = match &self.kind {
                Kind::I8 => whole!(i8),
                Kind::U8 => whole!(u8),
                Kind::I16 => whole!(i16),
                Kind::U16 => whole!(u16),
                Kind::I32 => whole!(i32),
                Kind::U32 => whole!(u32),
                Kind::I64 => whole!(i64),
                Kind::U64 => whole!(u64),
                Kind::F32 => Value::Real(f64::from(at.cast::<f32>().read_unaligned())),
                Kind::F64 => Value::Real(at.cast::<f64>().read_unaligned()),
                Kind::Bool => Value::Whole(i128::from(*at != 0)),
                Kind::Bits => Value::Whole(i128::from(bit(first))),
                Kind::Wide(length) => {
                    let letter = |n: usize| at.cast::<u32>().add(n).read_unaligned();
                    let letters = (0..*length).map(letter).take_while(|letter| *letter != 0);
                    Word::of(letters.map(|letter| u8::try_from(letter).unwrap_or(b'?')))
                }
                Kind::Narrow(length) => {
                    Word::of((0..*length).map(|n| *at.add(n)).take_while(|byte| *byte != 0))
                }
                Kind::Text32 => {
                    let [from, to] = [0, 1].map(|n| at.cast::<i32>().add(n).read_unaligned() as usize);
                    Word::of((from..to).take(Word::MOST + 1).map(|n| *text.add(n)))
                }
                Kind::Text64 => {
                    let [from, to] = [0, 1].map(|n| at.cast::<i64>().add(n).read_unaligned() as usize);
                    Word::of((from..to).take(Word::MOST + 1).map(|n| *text.add(n)))
                }
                // Short text is in the view.
                Kind::TextView => match usize::try_from(at.cast::<i32>().read_unaligned()) {
                    Ok(length) if length <= Word::MOST => Word::of((0..length).map(|n| *at.add(4 + n))),
                    _ => Word::long(),
                },
                Kind::Null | Kind::Dictionary(_) => Value::Null,
            };
            match (&self.dictionary, value) {
                (None, value) => value,
                (Some(of), Value::Whole(index)) => match usize::try_from(index) {
                    Ok(index) if index < of.length => of.value(index),
                    _ => Value::Null,
                },
                (Some(_), _) => Value::Null,
            }
        }
    }
}

/// A column: values in any number of pieces.
pub(crate) struct Column {
    /// The producer's name of the type.
    pub(crate) type_name: String,
    /// Nanoseconds of a tick, if the type is a time.
    pub(crate) ticks: Option<u64>,
    chunks: Vec<Chunk>,
    pub(crate) length: usize,
    /// This library reads the type.
    is_read: bool,
}

impl Column {
    /// A column without values. `is_read`: whether this library reads the type.
    pub(crate) fn new(type_name: &str, ticks: Option<u64>, is_read: bool) -> Self {
        Self { type_name: type_name.to_owned(), ticks, chunks: Vec::new(), length: 0, is_read }
    }

    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.length += chunk.length;
        self.chunks.push(chunk);
    }

    /// The values in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.chunks.iter().flat_map(|chunk| (0..chunk.length).map(|index| chunk.value(index)))
    }

    /// What times of the column count from: those of two columns with different ones cannot be compared.
    pub(crate) fn clock(&self) -> &'static str {
        // NumPy's durations are 'm8', Arrow's 'tD'; Arrow's time stamps are 'ts', the unit, a colon and the zone.
        let name = self.type_name.trim_start_matches(['<', '>', '|']);
        let zone = name.starts_with("ts").then(|| name.split_once(':').map_or("", |(_, zone)| zone));
        match zone {
            _ if self.ticks.is_none() => "numbers",
            _ if name.starts_with("m8") || name.starts_with("tD") => "durations",
            Some(zone) if !zone.is_empty() => "time stamps with a zone",
            _ => "time stamps without a zone",
        }
    }

    /// The column, if its type is one that this library reads.
    pub(crate) fn checked(self, name: &str) -> PyResult<Self> {
        if self.is_read {
            return Ok(self);
        }
        let kind = &self.type_name;
        // Dates, and times of a day.
        let read = if kind.starts_with('t') {
            "of times, time stamps and durations"
        } else {
            "numbers, times and text"
        };
        Err(input(format!(
            "column '{name}' has the Arrow type '{kind}'; {read} are read: convert the column to one of them"
        )))
    }

    /// NumPy's array interface, version 3.
    pub(crate) fn of_numpy(
        name: &str,
        object: &Bound<'_, PyAny>,
        interface: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let item = |key: &str| {
            let missing = || input(format!("column '{name}': its array interface has no '{key}'"));
            interface.get_item(key)?.ok_or_else(missing)
        };
        let type_name: String = item("typestr")?.extract()?;
        let shape: Vec<usize> = item("shape")?.extract()?;
        let [length] = shape[..] else {
            return Err(input(format!("column '{name}' has {} dimensions; use one", shape.len())));
        };
        let (address, _): (usize, bool) = item("data")?.extract()?;
        let Some((kind, ticks)) = numpy_kind(&type_name) else {
            let advice = match type_name.get(1..2) {
                Some(time @ ("M" | "m")) => {
                    format!("times in s, ms, us and ns are read: convert it with .astype('{time}8[ns]')")
                }
                _ => "numbers, times and text in this machine's byte order are read: convert it with .astype(...)"
                    .to_owned(),
            };
            return Err(input(format!("column '{name}' has the NumPy type '{type_name}'; {advice}")));
        };
        let strides: Option<Vec<isize>> = interface.get_item("strides")?.and_then(|of| of.extract().ok());
        let stride = strides.and_then(|of| of.first().copied()).unwrap_or_else(|| kind.bytes());
        let values = Values {
            first: std::ptr::with_exposed_provenance(address),
            stride,
            text: std::ptr::null(),
            validity: None,
            start: 0,
        };
        let mut column = Self::new(&type_name, ticks, true);
        column.push(Chunk::new(kind, values, length, None, Owner::Python(object.clone().unbind())));
        Ok(column)
    }
}

/// The kind of a NumPy type, and nanoseconds of a tick if it is a time.
fn numpy_kind(type_name: &str) -> Option<(Kind, Option<u64>)> {
    let ours = if cfg!(target_endian = "little") { '<' } else { '>' };
    let rest = type_name.strip_prefix([ours, '|'])?;
    let plain = |kind| Some((kind, None));
    if let Some(time) = rest.strip_prefix("M8").or_else(|| rest.strip_prefix("m8")) {
        let ticks = match time {
            "[ns]" => 1,
            "[us]" => 1_000,
            "[ms]" => 1_000_000,
            "[s]" => 1_000_000_000,
            _ => return None,
        };
        return Some((Kind::I64, Some(ticks)));
    }
    match (rest.split_at_checked(1)?, rest) {
        (("U", length), _) => plain(Kind::Wide(length.parse().ok()?)),
        (("S", length), _) => plain(Kind::Narrow(length.parse().ok()?)),
        (_, "b1") => plain(Kind::Bool),
        (_, "i1") => plain(Kind::I8),
        (_, "u1") => plain(Kind::U8),
        (_, "i2") => plain(Kind::I16),
        (_, "u2") => plain(Kind::U16),
        (_, "i4") => plain(Kind::I32),
        (_, "u4") => plain(Kind::U32),
        (_, "i8") => plain(Kind::I64),
        (_, "u8") => plain(Kind::U64),
        (_, "f4") => plain(Kind::F32),
        (_, "f8") => plain(Kind::F64),
        _ => None,
    }
}
