//! An NBD client for tests, which can also violate the protocol.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;
pub const FUA: u16 = 1;
pub const REQ_ONE: u16 = 1 << 3;

/// A connection, with simple replies unless stated otherwise.
pub struct Nbd {
    pub stream: UnixStream,
}

impl Nbd {
    /// A connection before any negotiation.
    pub fn raw(path: &Path) -> UnixStream {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// A connection in the transmission phase.
    pub fn connect(path: &Path) -> Self {
        Self::try_connect(path).unwrap()
    }

    /// The same, retried while all places are taken: the server frees a place a little after its client has disconnected.
    pub fn connect_patiently(path: &Path) -> Self {
        let mut tries = 0..400;
        loop {
            match Self::try_connect(path) {
                Err(_) if tries.next().is_some() => std::thread::sleep(Duration::from_millis(50)),
                tried => return tried.unwrap(),
            }
        }
    }

    pub fn try_connect(path: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        stream.write_all(&3u32.to_be_bytes())?;
        // NBD_OPT_EXPORT_NAME with the empty name.
        stream.write_all(&[b"IHAVEOPT".as_slice(), &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat())?;
        let mut export = [0; 10];
        stream.read_exact(&mut export)?;
        Ok(Self { stream })
    }

    /// A connection with structured replies and `base:allocation`.
    pub fn connect_structured(path: &Path) -> Self {
        let mut stream = Self::raw(path);
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        let context = b"base:allocation";
        let query = [&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, context.len() as u8][..], context].concat();
        // NBD_OPT_STRUCTURED_REPLY, NBD_OPT_SET_META_CONTEXT, NBD_OPT_GO.
        for (option, data) in [(8u32, &[][..]), (10, &query), (7, &[0; 6])] {
            let length = data.len() as u32;
            let bytes = [b"IHAVEOPT", &option.to_be_bytes()[..], &length.to_be_bytes(), data].concat();
            stream.write_all(&bytes).unwrap();
            let mut header = [0; 20];
            while header[12..16] != 1u32.to_be_bytes() {
                stream.read_exact(&mut header).unwrap();
                let length = u32::from_be_bytes(header[16..].try_into().unwrap());
                stream.read_exact(&mut vec![0; length as usize]).unwrap();
            }
        }
        Self { stream }
    }

    /// The kinds and data of a structured reply's chunks.
    pub fn chunks(&mut self, cookie: u64) -> Vec<(u16, Vec<u8>)> {
        let (mut chunks, mut header) = (Vec::new(), [0; 20]);
        while header[4..6] != 1u16.to_be_bytes() {
            self.stream.read_exact(&mut header).unwrap();
            assert_eq!(
                (&header[..4], &header[8..16]),
                (&[0x66, 0x8e, 0x33, 0xef][..], &cookie.to_be_bytes()[..])
            );
            let mut data = vec![0; u32::from_be_bytes(header[16..].try_into().unwrap()) as usize];
            self.stream.read_exact(&mut data).unwrap();
            chunks.push((u16::from_be_bytes([header[6], header[7]]), data));
        }
        chunks
    }

    pub fn header(flags: u16, kind: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes
    }

    pub fn send(&mut self, flags: u16, kind: u16, cookie: u64, offset: u64, length: u32) -> io::Result<()> {
        self.stream.write_all(&Self::header(flags, kind, cookie, offset, length))
    }

    pub fn send_write(&mut self, flags: u16, cookie: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = Self::header(flags, WRITE, cookie, offset, data.len() as u32);
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes)
    }

    /// The next reply's cookie and error. The caller reads the data after it.
    pub fn reply(&mut self) -> io::Result<(u64, u32)> {
        let mut bytes = [0; 16];
        self.stream.read_exact(&mut bytes)?;
        assert_eq!(bytes[..4], 0x6744_6698u32.to_be_bytes(), "a simple reply");
        let error = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        Ok((u64::from_be_bytes(bytes[8..].try_into().unwrap()), error))
    }

    /// Reads data.
    ///
    /// # Errors
    /// The error number of the reply.
    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        self.send(0, READ, 1, offset, length).unwrap();
        match self.reply().unwrap() {
            (1, 0) => {
                let mut data = vec![0; length as usize];
                self.stream.read_exact(&mut data).unwrap();
                Ok(data)
            }
            (cookie, error) => {
                assert_eq!(cookie, 1);
                Err(error)
            }
        }
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.send_write(0, 2, offset, data).unwrap();
        self.reply().unwrap().1
    }

    pub fn command(&mut self, flags: u16, kind: u16, offset: u64, length: u32) -> u32 {
        self.send(flags, kind, 3, offset, length).unwrap();
        self.reply().unwrap().1
    }
}
