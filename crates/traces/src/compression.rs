//! What a recording may be wrapped in: gzip, bzip2, zstd, tar, or one within the other; and the mark that a text may begin with.

use std::fmt;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use serde::Serialize;

use crate::tar::TarMembers;

/// A wrapping, told by its magic number.
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

/// Wrappings within one another that are taken off; more is not a recording but a bomb.
const DEPTH_MAX: usize = 3;
/// As far as tar's magic number.
const HEAD_BYTES: usize = 512;
/// What the zstd decoder may hold beyond its window before it is collected.
const DECODED_AT_ONCE: usize = 128 * 1024;

/// What some programs write before a text in UTF-8, whose bytes have no order to mark.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The stream without its wrappings and without a text's byte-order mark, and which they were, outermost first.
#[must_use]
pub fn unwrap(mut source: Box<dyn Read>) -> (Box<dyn Read>, Vec<Wrapping>) {
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

/// The stream that begins with `head`, without its mark. What has a zero in it is binary; there the bytes are of a number.
fn without_mark(head: &[u8], mut whole: Peeked) -> Box<dyn Read> {
    if head.starts_with(BYTE_ORDER_MARK) && !head.contains(&0) {
        let (peeked, _) = whole.get_mut();
        peeked.get_mut().0.set_position(BYTE_ORDER_MARK.len() as u64);
    }
    Box::new(whole)
}

type Peeked = Chain<Chain<Cursor<Vec<u8>>, Failing>, Box<dyn Read>>;

/// The first bytes, and the stream that still has them. A failure while peeking comes when reading gets there.
fn peek(mut source: Box<dyn Read>) -> (Vec<u8>, Peeked) {
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

/// What is not taken off, by its first bytes: what it is, and what makes a recording of it.
const NOT_READ: [(&[u8], &str, &str); 5] = [
    (b"\xfd7zXZ\0", "compressed by xz", "xz -dc"),
    (b"\x04\x22\x4d\x18", "compressed by lz4", "lz4 -dc"),
    (b"PK\x03\x04", "a ZIP archive", "unzip -p"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x -so"),
    (b"\xff\xfe", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"),
];

/// What a stream that is in no known format is wrapped in, and the program that unwraps it, where that is plain.
pub(crate) fn not_read(head: &[u8]) -> Option<(&'static str, &'static str)> {
    NOT_READ.iter().find(|(magic, ..)| head.starts_with(magic)).map(|&(_, what, program)| (what, program))
}

/// What stands behind a compressed stream and is none of it. A reader ends with this error once all before it has been read.
#[derive(Debug, thiserror::Error)]
#[error("what stands behind the end of the compressed stream is none of it")]
struct Trailing;

fn trailing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Trailing)
}

/// Whether `error` says that all of a compressed stream has been read, and something stands behind it.
pub(crate) fn is_trailing(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Trailing>())
}

/// A part of a compressed stream that can be decoded by itself: gzip's members, bzip2's streams.
trait Member: Read + Sized {
    /// The first byte of its magic number.
    const FIRST: u8;

    fn begin(source: BufReader<Peeked>) -> io::Result<Self>;

    /// What stands behind it, once it has been read.
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

/// The members of a compressed stream, one after the other.
struct Members<M> {
    member: Option<M>,
    /// What stands behind the latest.
    rest: Option<BufReader<Peeked>>,
}

impl<M: Member> Members<M> {
    fn new(source: Peeked) -> Self {
        Self { member: None, rest: Some(BufReader::new(source)) }
    }

    /// The member that begins there; `None` at the end.
    fn next(mut source: BufReader<Peeked>) -> io::Result<Option<M>> {
        match source.fill_buf()? {
            [] => Ok(None),
            // A header would be read to its end first.
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

/// Notices when its stream ends, which tells a cut file from a damaged one.
struct Watched {
    source: BufReader<Box<dyn Read>>,
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
    /// Whether there is another frame; an error if it is something else.
    fn has_frame(&mut self) -> io::Result<bool> {
        match self.source.fill_buf()? {
            [] => Ok(false),
            [0x28 | 0x50..=0x5f, ..] => Ok(true),
            _ => Err(trailing()),
        }
    }
}

/// A block of a zstd frame, with its header of three bytes.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    given: usize,
    last: bool,
}

impl Block {
    const HEADER_BYTES: u64 = 3;
    /// A byte that is repeated so often as the header says.
    const REPEATED: u32 = 1;
    /// A last one that holds nothing.
    const EMPTY: [u8; 3] = [1, 0, 0];

    /// Takes the next one from `source`, or the empty one if it is cut.
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

/// A frame's blocks, whole ones only: the decoder keeps what it decoded, up to a window of megabytes, until the frame is
/// over, so the frame of a cut stream must end with what was whole.
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
    /// What stands behind the last block, which is looked at by nobody; so it need not be there.
    fn checksum(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into)?;
        if read > 0 {
            return Ok(read);
        }
        into.fill(0);
        Ok(into.len())
    }
}

/// The frames of a zstd stream, one after the other, skippable ones skipped.
struct ZstdFrames {
    source: Watched,
    block: Block,
    decoder: FrameDecoder,
    within: bool,
}

impl ZstdFrames {
    fn new(source: Box<dyn Read>) -> Self {
        let source = BufReader::with_capacity(64 * 1024, source);
        let source = Watched { source, ended: false };
        Self { source, block: Block::default(), decoder: FrameDecoder::new(), within: false }
    }

    /// Begins the next frame; false at the end.
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

    /// Decodes until something can be collected or the frame is over.
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
        let (mut source, wrappings) = unwrap(Box::new(Cursor::new(bytes.to_vec())));
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
    fn what_stands_behind_the_last_member_is_none_of_it() {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        let behind = |whole: &[u8], behind: &[u8]| {
            let (mut source, _) = unwrap(Box::new(Cursor::new([whole, behind].concat())));
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
        // The beginning of another member, and so a cut.
        assert_eq!(unwrapped(&[&two, &[0x1f, 0x8b, 8][..]].concat()).2, Some(io::ErrorKind::UnexpectedEof));
    }

    #[test]
    fn a_byte_order_mark_is_taken_off_a_text_and_nothing_else() {
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
    fn a_cut_stream_is_told_from_a_damaged_one() {
        let text: Vec<u8> =
            (0..100_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for whole in [gzip(&text), bzip2(&text), zstd(&text)] {
            let (content, _, error) = unwrapped(&whole[..whole.len() / 2]);
            assert_eq!(error, Some(io::ErrorKind::UnexpectedEof));
            assert!(text.starts_with(&content));
            assert!(content.len() > text.len() / 8, "{} bytes of what was whole", content.len());
        }
        let mut damaged = gzip(&text);
        let end = damaged.len() - 6;
        damaged[end] ^= 1;
        assert!(matches!(unwrapped(&damaged).2, Some(kind) if kind != io::ErrorKind::UnexpectedEof));
    }
}
