//! Compression and archives: gzip, bzip2, zstd, tar, also nested; and the byte-order mark of a text.

use std::fmt;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use serde::Serialize;

use crate::tar::TarMembers;

/// A compression or archive format, detected by its magic number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wrapping {
    /// gzip, of one or more members.
    Gzip,
    /// bzip2, of one or more streams.
    Bzip2,
    /// Zstandard, of one or more frames; windows up to 100 MiB.
    Zstd,
    /// A tar archive; its regular files are read one after the other.
    Tar,
}

impl fmt::Display for Wrapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Zstd => "zstd",
            Self::Tar => "tar",
        })
    }
}

/// Nested formats that are unpacked; deeper nesting is a decompression bomb.
const DEPTH_MAX: usize = 3;
/// Bytes up to the end of tar's magic number.
const HEAD_BYTES: usize = 512;
/// Decoded bytes that the zstd decoder holds beyond its window.
const DECODED_AT_ONCE: usize = 128 * 1024;

/// The byte-order mark that some programs write before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The unpacked stream without a byte-order mark, and the formats that were removed, outermost first.
#[must_use]
pub fn decompress(mut source: Box<dyn Read + Send>) -> (Box<dyn Read + Send>, Vec<Wrapping>) {
    let mut wrappings = Vec::new();
    loop {
        let (head, whole) = peek(source);
        let found = told_by(&head).filter(|_| wrappings.len() < DEPTH_MAX);
        let Some(wrapping) = found else {
            return (without_mark(&head, whole), wrappings);
        };
        wrappings.push(wrapping);
        source = match wrapping {
            Wrapping::Gzip => Box::new(Members::<GzDecoder<_>>::new(whole)),
            Wrapping::Bzip2 => Box::new(Members::<BzDecoder<_>>::new(whole)),
            Wrapping::Zstd => Box::new(ZstdFrames::new(Box::new(whole))),
            Wrapping::Tar => Box::new(TarMembers::new(Box::new(whole))),
        };
    }
}

/// The stream that begins with `head`, without its byte-order mark. Data with a zero byte is binary and has no mark.
fn without_mark(head: &[u8], mut whole: Peeked) -> Box<dyn Read + Send> {
    if head.starts_with(BYTE_ORDER_MARK) && !head.contains(&0) {
        let (peeked, _) = whole.get_mut();
        peeked.get_mut().0.set_position(BYTE_ORDER_MARK.len() as u64);
    }
    Box::new(whole)
}

type Peeked = Chain<Chain<Cursor<Vec<u8>>, Failing>, Box<dyn Read + Send>>;

/// The first bytes, and the stream including them. Errors while peeking are returned when reading reaches them.
fn peek(mut source: Box<dyn Read + Send>) -> (Vec<u8>, Peeked) {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let failure = (&mut source).take(HEAD_BYTES as u64).read_to_end(&mut head).err();
    (head.clone(), Cursor::new(head).chain(Failing(failure)).chain(source))
}

/// An empty stream, or one that fails once.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn told_by(head: &[u8]) -> Option<Wrapping> {
    match head {
        [0x1f, 0x8b, 8, ..] => Some(Wrapping::Gzip),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Some(Wrapping::Bzip2),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Wrapping::Zstd),
        _ if head.get(257..262) == Some(b"ustar") => Some(Wrapping::Tar),
        _ => None,
    }
}

/// Formats that are not unpacked: magic number, description, and a program that unpacks them.
const NOT_READ: [(&[u8], &str, &str); 5] = [
    (b"\xfd7zXZ\0", "compressed by xz", "xz -dc"),
    (b"\x04\x22\x4d\x18", "compressed by lz4", "lz4 -dc"),
    (b"PK\x03\x04", "a ZIP archive", "unzip -p"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x -so"),
    (b"\xff\xfe", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"),
];

/// The description of a format that is not unpacked, and the program for it.
pub(crate) fn not_read(head: &[u8]) -> Option<(&'static str, &'static str)> {
    NOT_READ.iter().find(|(magic, ..)| head.starts_with(magic)).map(|&(_, what, program)| (what, program))
}

/// The error at the end of a compressed stream that is followed by other bytes.
#[derive(Debug)]
struct Trailing;

impl fmt::Display for Trailing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("trailing bytes behind the compressed stream")
    }
}

impl std::error::Error for Trailing {}

fn trailing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Trailing)
}

/// Whether `error` means that the compressed stream has been read completely and other bytes follow.
pub(crate) fn is_trailing(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Trailing>())
}

/// An independent part of a compressed stream: a gzip member or a bzip2 stream.
trait Member: Read + Sized {
    /// The first byte of its magic number.
    const FIRST: u8;

    fn begin(source: BufReader<Peeked>) -> io::Result<Self>;

    /// The rest of the stream, after the member has been read.
    fn end(self) -> BufReader<Peeked>;
}

impl Member for GzDecoder<BufReader<Peeked>> {
    const FIRST: u8 = 0x1f;

    fn begin(source: BufReader<Peeked>) -> io::Result<Self> {
        let mut member = Self::new(source);
        if member.header().is_some() {
            return Ok(member);
        }
        let why = member.read(&mut [0]).err().filter(|error| error.kind() != io::ErrorKind::InvalidInput);
        Err(why.unwrap_or_else(trailing))
    }

    fn end(self) -> BufReader<Peeked> {
        self.into_inner()
    }
}

impl Member for BzDecoder<BufReader<Peeked>> {
    const FIRST: u8 = b'B';

    fn begin(source: BufReader<Peeked>) -> io::Result<Self> {
        Ok(Self::new(source))
    }

    fn end(self) -> BufReader<Peeked> {
        self.into_inner()
    }
}

/// The members of a compressed stream in sequence.
struct Members<M> {
    member: Option<M>,
    /// The rest behind the latest member.
    rest: Option<BufReader<Peeked>>,
}

impl<M: Member> Members<M> {
    fn new(source: Peeked) -> Self {
        Self { member: None, rest: Some(BufReader::new(source)) }
    }

    /// Opens the next member; `None` at the end.
    fn next(mut source: BufReader<Peeked>) -> io::Result<Option<M>> {
        match source.fill_buf()? {
            [] => Ok(None),
            // Checked first, because the decoder would read a header to its end.
            [first, ..] if *first != M::FIRST => Err(trailing()),
            _ => M::begin(source).map(Some),
        }
    }
}

impl<M: Member> Read for Members<M> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(member) = &mut self.member {
                let read = member.read(into)?;
                if read > 0 || into.is_empty() {
                    return Ok(read);
                }
                self.rest = self.member.take().map(M::end);
            }
            let Some(rest) = self.rest.take() else { return Ok(0) };
            self.member = Self::next(rest)?;
        }
    }
}

/// Records whether its stream has ended, which distinguishes a truncated file from a damaged one.
struct Watched {
    source: BufReader<Box<dyn Read + Send>>,
    ended: bool,
}

impl Read for Watched {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into)?;
        self.ended |= read == 0 && !into.is_empty();
        Ok(read)
    }
}

impl Watched {
    /// Whether another frame follows; an error if other bytes follow.
    fn has_frame(&mut self) -> io::Result<bool> {
        match self.source.fill_buf()? {
            [] => Ok(false),
            [0x28 | 0x50..=0x5f, ..] => Ok(true),
            _ => Err(trailing()),
        }
    }
}

/// A block of a zstd frame, including its header of three bytes.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    given: usize,
    last: bool,
}

impl Block {
    const HEADER_BYTES: u64 = 3;
    /// Block type: one byte, repeated.
    const REPEATED: u32 = 1;
    /// A last block without content.
    const EMPTY: [u8; 3] = [1, 0, 0];

    /// Reads the next block, or `EMPTY` if it is truncated.
    fn next(&mut self, source: &mut Watched) -> io::Result<()> {
        self.bytes.clear();
        self.given = 0;
        source.take(Self::HEADER_BYTES).read_to_end(&mut self.bytes)?;
        if let [low, middle, high] = self.bytes[..] {
            let header = u32::from_le_bytes([low, middle, high, 0]);
            self.last = header & 1 == 1;
            let bytes = if header >> 1 & 3 == Self::REPEATED { 1 } else { u64::from(header >> 3) };
            if source.take(bytes).read_to_end(&mut self.bytes)? as u64 == bytes {
                return Ok(());
            }
        }
        (self.bytes, self.last) = (Self::EMPTY.to_vec(), true);
        Ok(())
    }
}

/// The complete blocks of a frame. The decoder returns its window, of up to megabytes, only at the end of the frame; the frame of a
/// truncated stream must therefore end with its last complete block.
struct WholeBlocks<'a> {
    source: &'a mut Watched,
    block: &'a mut Block,
}

impl Read for WholeBlocks<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.block.given == self.block.bytes.len() {
            if self.block.last {
                return self.checksum(into);
            }
            self.block.next(self.source)?;
        }
        let read = (&self.block.bytes[self.block.given..]).read(into)?;
        self.block.given += read;
        Ok(read)
    }
}

impl WholeBlocks<'_> {
    /// The checksum behind the last block, which is not verified and may be missing.
    fn checksum(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into)?;
        if read > 0 {
            return Ok(read);
        }
        into.fill(0);
        Ok(into.len())
    }
}

/// The frames of a zstd stream in sequence, without skippable ones.
pub(crate) struct ZstdFrames {
    source: Watched,
    block: Block,
    decoder: FrameDecoder,
    within: bool,
}

impl ZstdFrames {
    pub(crate) fn new(source: Box<dyn Read + Send>) -> Self {
        let source = BufReader::with_capacity(64 * 1024, source);
        let source = Watched { source, ended: false };
        Self { source, block: Block::default(), decoder: FrameDecoder::new(), within: false }
    }

    /// Opens the next frame; false at the end.
    fn begin(&mut self) -> io::Result<bool> {
        while self.source.has_frame()? {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.block = Block::default();
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.source).take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(self.failure(error)),
            }
        }
        Ok(false)
    }

    /// Decodes until data is available or the frame is complete.
    fn decode(&mut self) -> io::Result<()> {
        while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
            let strategy = BlockDecodingStrategy::UptoBytes(DECODED_AT_ONCE);
            let blocks = WholeBlocks { source: &mut self.source, block: &mut self.block };
            if let Err(error) = self.decoder.decode_blocks(blocks, strategy) {
                return Err(self.failure(error));
            }
        }
        Ok(())
    }

    fn failure(&self, error: FrameDecoderError) -> io::Error {
        let cut = self.source.ended;
        let kind = if cut { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
        io::Error::new(kind, error.to_string())
    }
}

impl Read for ZstdFrames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.within {
                self.within = self.begin()?;
                if !self.within {
                    return Ok(0);
                }
            }
            self.decode()?;
            let read = self.decoder.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            self.within = !self.decoder.is_finished();
            if self.source.ended {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the frame is cut"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(bytes: &[u8]) -> (Vec<u8>, Vec<Wrapping>, Option<io::ErrorKind>) {
        let (mut source, wrappings) = decompress(Box::new(Cursor::new(bytes.to_vec())));
        let mut content = Vec::new();
        let error = source.read_to_end(&mut content).err().map(|error| error.kind());
        (content, wrappings, error)
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut encoder, content).unwrap();
        encoder.finish().unwrap()
    }

    fn bzip2(content: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        io::Write::write_all(&mut encoder, content).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn members_and_frames_follow_one_another() {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(unwrapped(&two), (b"one two".to_vec(), vec![Wrapping::Gzip], None));
        let two = [bzip2(b"one "), bzip2(b"two")].concat();
        assert_eq!(unwrapped(&two), (b"one two".to_vec(), vec![Wrapping::Bzip2], None));
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let frames = [zstd(b"one "), skippable.to_vec(), zstd(b"two")].concat();
        assert_eq!(unwrapped(&frames), (b"one two".to_vec(), vec![Wrapping::Zstd], None));
        let nested = zstd(&gzip(b"in"));
        assert_eq!(unwrapped(&nested), (b"in".to_vec(), vec![Wrapping::Zstd, Wrapping::Gzip], None));
        assert_eq!(unwrapped(b""), (vec![], vec![], None));
    }

    #[test]
    fn trailing_bytes_after_the_last_member_are_an_error() {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        let behind = |whole: &[u8], behind: &[u8]| {
            let (mut source, _) = decompress(Box::new(Cursor::new([whole, behind].concat())));
            let mut content = Vec::new();
            let error = source.read_to_end(&mut content).unwrap_err();
            assert!(content == b"one two" && is_trailing(&error), "{error}");
        };
        for whole in [&two, &[bzip2(b"one "), bzip2(b"two")].concat(), &zstd(b"one two")] {
            for something in [&b"garbage"[..], &[0; 512], b"\n"] {
                behind(whole, something);
            }
        }
        behind(&two, &[0x1f, 0x8b, 7, 0, 0, 0, 0, 0, 0, 0]);
        // The beginning of another member: truncated.
        assert_eq!(unwrapped(&[&two, &[0x1f, 0x8b, 8][..]].concat()).2, Some(io::ErrorKind::UnexpectedEof));
    }

    #[test]
    fn a_byte_order_mark_is_removed_only_from_text() {
        let marked = b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n";
        let text = b"one\n\xef\xbb\xbftwo\n".to_vec();
        assert_eq!(unwrapped(marked), (text.clone(), vec![], None));
        assert_eq!(unwrapped(&gzip(marked)), (text, vec![Wrapping::Gzip], None));
        assert_eq!(unwrapped(b"\xef\xbb\xbf"), (vec![], vec![], None));
        assert_eq!(unwrapped(b"\xef\xbb"), (b"\xef\xbb".to_vec(), vec![], None));
        let binary = b"\xef\xbb\xbf\x00\x01\x00";
        assert_eq!(unwrapped(binary), (binary.to_vec(), vec![], None));
        let long = [BYTE_ORDER_MARK, &[b'x'; 5000]].concat();
        assert_eq!(unwrapped(&long), (vec![b'x'; 5000], vec![], None));
    }

    #[test]
    fn a_truncated_stream_is_not_reported_as_damaged() {
        let text: Vec<u8> =
            (0..100_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for whole in [gzip(&text), bzip2(&text), zstd(&text)] {
            let (content, _, error) = unwrapped(&whole[..whole.len() / 2]);
            assert_eq!(error, Some(io::ErrorKind::UnexpectedEof));
            assert!(text.starts_with(&content));
            assert!(content.len() > text.len() / 8, "only {} bytes of the complete blocks", content.len());
        }
        let mut damaged = gzip(&text);
        let end = damaged.len() - 6;
        damaged[end] ^= 1;
        assert!(matches!(unwrapped(&damaged).2, Some(kind) if kind != io::ErrorKind::UnexpectedEof));
    }
}
