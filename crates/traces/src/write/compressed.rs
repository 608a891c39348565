//! Compression by the extension of a file's name.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Bytes of a zstd frame before compression: the compressor needs a whole frame at once.
const FRAME_BYTES: usize = 1 << 20;

/// A sink that compresses by the extension of a name (`gz`, `zst`, otherwise none). It must be [finished](Compressed::finish).
pub enum Compressed<W: Write> {
    /// No compression.
    Plain(W),
    /// gzip, one member.
    Gzip(GzEncoder<W>),
    /// Zstandard, one frame per MiB.
    Zstd {
        /// The sink.
        sink: W,
        /// The incomplete frame.
        frame: Vec<u8>,
    },
}

/// The extension of a name, if it is that of a compression that is not written.
#[must_use]
pub fn not_written(name: &str) -> Option<&str> {
    let (_, extension) = name.rsplit_once('.')?;
    ["bz2", "xz", "lz4", "zip", "7z", "tgz"].contains(&extension).then_some(extension)
}

impl<W: Write> Compressed<W> {
    /// Writes to `sink`.
    pub fn new(name: &str, sink: W) -> Self {
        match name.rsplit('.').next() {
            Some("gz") => Self::Gzip(GzEncoder::new(sink, Compression::fast())),
            Some("zst") => Self::Zstd { sink, frame: Vec::with_capacity(FRAME_BYTES) },
            _ => Self::Plain(sink),
        }
    }

    /// Writes the rest of the stream.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(mut sink) => sink.flush().map(|()| sink),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd { mut sink, mut frame } => {
                write_frame(&mut sink, &mut frame)?;
                sink.flush().map(|()| sink)
            }
        }
    }
}

fn write_frame(sink: &mut impl Write, frame: &mut Vec<u8>) -> io::Result<()> {
    if !frame.is_empty() {
        sink.write_all(&compress_to_vec(&**frame, CompressionLevel::Fastest))?;
        frame.clear();
    }
    Ok(())
}

impl<W: Write> Write for Compressed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(sink) => sink.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd { sink, frame } => {
                let taken = bytes.len().min(FRAME_BYTES - frame.len());
                frame.extend_from_slice(&bytes[..taken]);
                if frame.len() == FRAME_BYTES {
                    write_frame(sink, frame)?;
                }
                Ok(taken)
            }
        }
    }

    /// An incomplete frame is written by [`finish`](Compressed::finish) only.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(sink) | Self::Zstd { sink, .. } => sink.flush(),
            Self::Gzip(encoder) => encoder.flush(),
        }
    }
}
