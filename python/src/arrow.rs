//! Arrow's C data interface: arrays of other libraries, read where they are. <https://arrow.apache.org/docs/format/CDataInterface.html>

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::column::{Chunk, Column, Kind, Owner, Values};
use crate::error::input;

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *const *const Schema,
    dictionary: *const Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const u8,
    children: *const *const Array,
    dictionary: *const Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

/// A structure of the interface: empty while `release` is null, and released when dropped.
trait Released: Sized {
    const EMPTY: Self;

    fn release(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)>;
}

macro_rules! released {
    ($($name:ident { $($field:ident = $empty:expr),* })*) => {
        $(impl Released for $name {
            const EMPTY: Self = Self { $($field: $empty,)* release: None, private_data: std::ptr::null_mut() };

            fn release(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)> {
                &mut self.release
            }
        })*
    };
}

released! {
    Schema { format = null(), name = null(), metadata = null(), flags = 0, n_children = 0, children = null(), dictionary = null() }
    Array { length = 0, null_count = 0, offset = 0, n_buffers = 0, n_children = 0, buffers = null(), children = null(), dictionary = null() }
    Stream { get_schema = None, get_next = None, get_last_error = None }
}

/// Owns a structure.
struct Owned<T: Released>(T);

impl<T: Released> Owned<T> {
    /// Moves the structure out of a capsule.
    fn taken(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<Self> {
        let capsule = capsule.cast::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(name))?.cast::<T>();
        // SAFETY: the capsule's name states its type. The protocol transfers a structure by copying it and clearing `release`.
        unsafe {
            let taken = Self(std::ptr::read(pointer.as_ptr()));
            *(*pointer.as_ptr()).release() = None;
            Ok(taken)
        }
    }
}

impl<T: Released> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Some(release) = *self.0.release() {
            // SAFETY: the structure is not released yet, and is not used afterwards.
            unsafe { release(&raw mut self.0) };
        }
    }
}

/// An array with everything that it points to.
pub(crate) struct OwnedArray(Owned<Array>);

// SAFETY: the interface requires that a consumer may read and release structures from any thread.
unsafe impl Send for OwnedArray {}
// SAFETY: as above; a shared array is only read.
unsafe impl Sync for OwnedArray {}

/// The columns of an object with Arrow's capsules: those of a table by name, or one without a name.
pub(crate) fn columns(object: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Column)>> {
    if object.hasattr("__arrow_c_stream__")? {
        let stream = object.call_method0("__arrow_c_stream__")?;
        return from_stream(Owned::taken(&stream, c"arrow_array_stream")?);
    }
    let pair = object.call_method0("__arrow_c_array__")?;
    let schema = Owned::<Schema>::taken(&pair.get_item(0)?, c"arrow_schema")?;
    let mut columns = Columns::of(&schema.0)?;
    columns.add(Owned::taken(&pair.get_item(1)?, c"arrow_array")?)?;
    Ok(columns.columns)
}

fn from_stream(mut stream: Owned<Stream>) -> PyResult<Vec<(String, Column)>> {
    let (mut schema, pointer) = (Owned(Schema::EMPTY), &raw mut stream.0);
    // SAFETY: a stream that is not released has these functions; `schema` and `array` are empty structures for their results.
    unsafe {
        let get = |code: Option<c_int>| match code {
            Some(0) => Ok(()),
            _ => Err(input(format!("the Arrow stream failed: {}", last_error(pointer)))),
        };
        get(stream.0.get_schema.map(|function| function(pointer, &raw mut schema.0)))?;
        let mut columns = Columns::of(&schema.0)?;
        loop {
            let mut array = Owned(Array::EMPTY);
            get(stream.0.get_next.map(|function| function(pointer, &raw mut array.0)))?;
            if array.0.release.is_none() {
                return Ok(columns.columns);
            }
            columns.add(array)?;
        }
    }
}

/// # Safety
/// The stream is not released.
unsafe fn last_error(stream: *mut Stream) -> String {
    // SAFETY: by the caller; the text is valid until the next call.
    unsafe {
        let text = (*stream).get_last_error.map_or(null(), |function| function(stream));
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

/// # Safety
/// `text` is null or a string that lives long enough.
unsafe fn words<'a>(text: *const c_char) -> &'a str {
    // SAFETY: by the caller.
    if text.is_null() { "" } else { unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?") }
}

/// Columns of a schema, to which arrays are added.
struct Columns {
    columns: Vec<(String, Column)>,
    /// The kind of each column; `None` if this library reads no such type.
    kinds: Vec<Option<Kind>>,
    is_table: bool,
}

impl Columns {
    fn of(schema: &Schema) -> PyResult<Self> {
        // SAFETY: strings and children of a schema are valid while it is not released.
        unsafe {
            let is_table = words(schema.format) == "+s";
            let schemas: Vec<&Schema> = match is_table {
                true => (0..schema.n_children).map(|n| &**schema.children.offset(n as isize)).collect(),
                false => vec![schema],
            };
            let kinds: Vec<Option<Kind>> = schemas.iter().map(|schema| kind(schema)).collect();
            let column = |(schema, kind): (&&Schema, &Option<Kind>)| {
                let ticks = ticks(words(schema.format));
                (words(schema.name).to_owned(), Column::new(words(schema.format), ticks, kind.is_some()))
            };
            Ok(Self { columns: schemas.iter().zip(&kinds).map(column).collect(), kinds, is_table })
        }
    }

    fn add(&mut self, array: Owned<Array>) -> PyResult<()> {
        let owner = Arc::new(OwnedArray(array));
        let array = &owner.0.0;
        for (n, ((name, column), kind)) in self.columns.iter_mut().zip(&self.kinds).enumerate() {
            // Columns of other types may be in a table, and are not read.
            let Some(kind) = kind else { continue };
            // SAFETY: arrays have the children and buffers that their schema states, as long as `owner` lives.
            let chunk = unsafe {
                let (values, offset) = match self.is_table {
                    true => (&**array.children.add(n), array.offset),
                    false => (array, 0),
                };
                chunk(values, offset, array.length, kind, Owner::Arrow(owner.clone()))
            };
            column
                .push(chunk.ok_or_else(|| input(format!("column '{name}': the Arrow array is malformed")))?);
        }
        Ok(())
    }
}

/// Nanoseconds of a tick, if the type is a time.
fn ticks(format: &str) -> Option<u64> {
    let unit = format.strip_prefix("ts").or_else(|| format.strip_prefix("tD"))?;
    Some(match unit.as_bytes().first()? {
        b's' => 1_000_000_000,
        b'm' => 1_000_000,
        b'u' => 1_000,
        _ => 1,
    })
}

/// # Safety
/// The schema is not released.
unsafe fn kind(schema: &Schema) -> Option<Kind> {
    // SAFETY: by the caller.
    let (format, dictionary) = unsafe { (words(schema.format), schema.dictionary.as_ref()) };
    let kind = match format {
        "n" => Kind::Null,
        "c" => Kind::I8,
        "C" => Kind::U8,
        "s" => Kind::I16,
        "S" => Kind::U16,
        "i" => Kind::I32,
        "I" => Kind::U32,
        "l" => Kind::I64,
        "L" => Kind::U64,
        "f" => Kind::F32,
        "g" => Kind::F64,
        "b" => Kind::Bits,
        "u" | "z" => Kind::Text32,
        "U" | "Z" => Kind::Text64,
        "vu" | "vz" => Kind::TextView,
        time if ticks(time).is_some() => Kind::I64,
        _ => return None,
    };
    match dictionary {
        // SAFETY: by the caller.
        Some(dictionary) => Some(Kind::Dictionary(Box::new((kind, unsafe { self::kind(dictionary) }?)))),
        None => Some(kind),
    }
}

/// # Safety
/// The array has the kind, and `owner` keeps it.
unsafe fn chunk(array: &Array, offset: i64, length: i64, kind: &Kind, owner: Owner) -> Option<Chunk> {
    let (outer, wanted) = match kind {
        Kind::Dictionary(both) => (&both.0, 2),
        Kind::Text32 | Kind::Text64 => (kind, 3),
        Kind::Null => (kind, 0),
        _ => (kind, 2),
    };
    // A view has a buffer for each block of text, and one for their lengths.
    if array.n_buffers < wanted || length < 0 {
        return None;
    }
    let start = usize::try_from(array.offset + offset).ok()?;
    let length = usize::try_from(length).ok()?;
    // SAFETY: by the caller.
    unsafe {
        let buffer = |n: usize| if n < wanted as usize { *array.buffers.add(n) } else { null() };
        let validity = Some(buffer(0)).filter(|bits| !bits.is_null() && array.null_count != 0);
        if wanted > 0 && buffer(1).is_null() && length > 0 {
            return None;
        }
        let text = buffer(2);
        let dictionary = match kind {
            Kind::Dictionary(both) => {
                let inner = array.dictionary.as_ref()?;
                Some(Box::new(chunk(inner, 0, inner.length, &both.1, owner.clone_arrow()?)?))
            }
            _ => None,
        };
        let values = Values { first: buffer(1), stride: outer.bytes(), text, validity, start };
        Some(Chunk::new(outer.clone(), values, length, dictionary, owner))
    }
}
