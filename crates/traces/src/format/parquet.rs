//! Parquet, one row per request. Written by `dwell trace convert` and `dwell trace split`.
//!
//! | column | type | content |
//! |---|---|---|
//! | `device` | UTF-8 | name of the device |
//! | `at_ns` | INT64 | **nanoseconds** since the recording began, ascending for each device |
//! | `latency_ns` | INT64, optional | **nanoseconds** from then to the completion |
//! | `op` | INT32 | 0 read, 1 write, 2 discard, 3 flush |
//! | `offset` | INT64 | first **byte** on the device |
//! | `bytes` | INT64 | length in **bytes** |
//! | `flags` | INT32, optional | sum of 1 synchronous, 2 metadata, 4 read-ahead, 8 forced unit access, 16 preflush |
//! | `priority` | INT32, optional | as Linux's `ioprio`: the class (1 real-time, 2 best-effort, 3 idle) times 8192, plus the level |
//! | `process` | INT64, optional | the task |
//! | `process_name` | UTF-8, optional | its name |
//!
//! A flush has no extent: its `offset`, `bytes` and preflush flag are 0 or null. Rows with others are read without them, and counted.
//!
//! Other programs may write such files: optional columns may be absent, columns may be in any order, and integers may be INT32 or INT64. A
//! file without `device` has one device.
//!
//! A row group has one device, and a device's row groups are in the order of time. So one device of many is read without the others, and all
//! devices are merged in the order of time with a batch of rows of each in memory.
//!
//! Pitfalls: the index of the file is at its end. A file is read in place; a stream is first read into memory, up to 64 MiB.

use super::{Signature, Spec};
use crate::binary::PARQUET_MAGIC;
use crate::context::{Context, Source};
use crate::error::{Error, ErrorKind};
use crate::input::Input;

pub(crate) const SPEC: Spec = Spec {
    name: "parquet",
    title: "Parquet",
    extensions: &[],
    signature: Signature::Start(|head| head.starts_with(PARQUET_MAGIC)),
    reader: from_stream,
    writes: None,
};

/// Largest stream that is read into memory.
#[cfg(feature = "parquet")]
const STREAM_BYTES_MAX: usize = 64 << 20;

#[cfg(feature = "parquet")]
fn from_stream(mut input: Input, context: &mut Context) -> Result<Box<dyn Source>, Error> {
    if !input.peek(PARQUET_MAGIC.len()).starts_with(PARQUET_MAGIC) {
        return Err(context.error(ErrorKind::Format, "does not begin with 'PAR1'"));
    }
    let mut bytes = Vec::new();
    loop {
        let read = input.peek(crate::input::BUFFER_BYTES);
        let length = read.len();
        if length == 0 {
            break;
        }
        bytes.extend_from_slice(read);
        input.pass(length);
        if bytes.len() > STREAM_BYTES_MAX {
            let problem = "a Parquet stream of more than 64 MiB; its index is at the end";
            return Err(context.error(ErrorKind::Limit, problem).advice("name the uncompressed file"));
        }
    }
    input.failure().map_err(|stop| context.stopped(stop))?;
    crate::parquet::source(bytes::Bytes::from(bytes), context)
}

#[cfg(not(feature = "parquet"))]
fn from_stream(_input: Input, context: &mut Context) -> Result<Box<dyn Source>, Error> {
    Err(not_built(context))
}

/// Opens a file in place.
#[cfg(feature = "parquet")]
pub(crate) fn from_file(file: std::fs::File, context: &mut Context) -> Result<Box<dyn Source>, Error> {
    crate::parquet::source(file, context)
}

#[cfg(not(feature = "parquet"))]
pub(crate) fn from_file(_file: std::fs::File, context: &mut Context) -> Result<Box<dyn Source>, Error> {
    Err(not_built(context))
}

#[cfg(not(feature = "parquet"))]
fn not_built(context: &Context) -> Error {
    context.error(ErrorKind::NotBuilt, "a Parquet file, and this program was built without Parquet")
}
