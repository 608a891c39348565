//! From a client's first byte to the transmission phase. Blocking, over anything that reads and writes; the caller keeps
//! the deadline.

use std::io::{self, Read, Write};

use super::protocol::{
    self, BASE_ALLOCATION, BASE_ALLOCATION_ID, Contexts, EXPORT_NAME, LONGEST_OPTION, LONGEST_PAYLOAD, MAGIC,
    Negotiate, OPTION_MAGIC, SET_META_CONTEXT, handshake, option_reply, reply, transmission,
};
use crate::backend::Geometry;

/// What a client is offered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Its name; the empty name always means it too.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The smallest thing that can be read or written, in bytes.
    pub block_bytes: u32,
    /// Whether something turns.
    pub rotational: bool,
    /// Whether whatever would change it fails.
    pub read_only: bool,
}

impl Export {
    /// A device under that name.
    #[must_use]
    pub fn new(name: &str, geometry: &Geometry) -> Self {
        Self {
            name: name.to_string(),
            bytes: geometry.capacity.bytes(),
            block_bytes: geometry.block_bytes,
            rotational: geometry.rotational,
            read_only: geometry.read_only,
        }
    }

    fn flags(&self) -> u16 {
        use transmission::{
            CAN_MULTI_CONN, HAS_FLAGS, READ_ONLY, ROTATIONAL, SEND_FLUSH, SEND_FUA, SEND_TRIM,
            SEND_WRITE_ZEROES,
        };
        // Many connections share one queue, and its flush covers whatever completed before, on any of them.
        let always = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | CAN_MULTI_CONN;
        let if_so = |so, flag| if so { flag } else { 0 };
        always | if_so(self.rotational, ROTATIONAL) | if_so(self.read_only, READ_ONLY)
    }

    fn is_called(&self, name: &str) -> bool {
        name.is_empty() || name == self.name
    }
}

/// What a client and the server agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreed {
    /// Replies may be structured.
    pub structured: bool,
    /// `base:allocation` may be asked for.
    pub base_allocation: bool,
}

/// Whether the connection is, can be, or must be encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// It cannot be.
    Unavailable,
    /// It must be, and is not yet.
    Required,
    /// It is.
    On,
}

/// How a negotiation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The transmission phase begins with the next byte.
    Transmission(Agreed),
    /// A TLS handshake begins with the next byte, and then [`options`] again.
    StartTls,
    /// The client went away, as it may.
    Gone,
}

/// The client sent what no client should.
fn rude(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The greeting. Whether 124 zeroes are left out of the answer to `NBD_OPT_EXPORT_NAME`.
pub fn greet(stream: &mut (impl Read + Write)) -> io::Result<bool> {
    let mut greeting = [0; 18];
    greeting[..8].copy_from_slice(&MAGIC.to_be_bytes());
    greeting[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    greeting[16..].copy_from_slice(&(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
    stream.write_all(&greeting)?;
    let mut flags = [0; 4];
    stream.read_exact(&mut flags)?;
    let flags = u32::from_be_bytes(flags);
    if flags & !u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) != 0 {
        return Err(rude("unknown handshake flags"));
    }
    Ok(flags & u32::from(handshake::NO_ZEROES) != 0)
}

/// Answers options until one of them ends the negotiation.
pub fn options(
    stream: &mut (impl Read + Write),
    export: &Export,
    encryption: Encryption,
    no_zeroes: bool,
) -> io::Result<Outcome> {
    let mut agreed = Agreed::default();
    let mut data = Vec::new();
    loop {
        let mut header = [0; 16];
        match stream.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Outcome::Gone),
            other => other?,
        }
        let (number, length) = protocol::option_header(&header).map_err(|_| rude("not an option"))?;
        // It replaces what was chosen before even if it fails.
        agreed.base_allocation &= number != SET_META_CONTEXT;
        let option = if length > LONGEST_OPTION {
            skip(stream, length)?;
            Err(reply::ERR_TOO_BIG)
        } else {
            data.resize(length as usize, 0);
            stream.read_exact(&mut data)?;
            protocol::option(number, &data).ok_or(reply::ERR_INVALID)
        };
        let mut dialogue = Dialogue { stream, export, encryption, no_zeroes, number, agreed };
        match option {
            Ok(option) => {
                if let Some(outcome) = dialogue.answer(&option)? {
                    return Ok(outcome);
                }
            }
            Err(refusal) => dialogue.refuse(refusal)?,
        }
        agreed = dialogue.agreed;
    }
}

fn skip(stream: &mut impl Read, length: u32) -> io::Result<()> {
    let skipped = io::copy(&mut stream.take(u64::from(length)), &mut io::sink())?;
    if skipped < u64::from(length) { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

fn answer(stream: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    // One write: what is small should not be sent in two packets.
    let mut bytes = option_reply(option, kind, data.len() as u32).to_vec();
    bytes.extend_from_slice(data);
    stream.write_all(&bytes)
}

/// One option and what is needed to answer it.
struct Dialogue<'a, S> {
    stream: &'a mut S,
    export: &'a Export,
    encryption: Encryption,
    no_zeroes: bool,
    number: u32,
    agreed: Agreed,
}

impl<S: Read + Write> Dialogue<'_, S> {
    /// Answers an option; how the negotiation ended, if it did.
    fn answer(&mut self, option: &Negotiate<'_>) -> io::Result<Option<Outcome>> {
        let plain = matches!(option, Negotiate::Abort | Negotiate::StartTls);
        if self.encryption == Encryption::Required && !plain {
            self.refuse(reply::ERR_TLS_REQD)?;
            return Ok(None);
        }
        match option {
            Negotiate::ExportName(name) => return self.export_name(name).map(Some),
            Negotiate::Abort => {
                // The client may be gone already, which is no error.
                let _ = self.reply(reply::ACK, b"");
                return Ok(Some(Outcome::Gone));
            }
            Negotiate::StartTls => return self.start_tls(),
            Negotiate::Go(name) => return self.go(name),
            Negotiate::Info(name) => {
                self.info(name)?;
            }
            Negotiate::List => self.list()?,
            Negotiate::StructuredReply => {
                self.agreed.structured = true;
                self.reply(reply::ACK, b"")?;
            }
            Negotiate::ListMetaContext(contexts) => {
                self.meta_contexts(contexts, contexts.none_asked || contexts.base_allocation, 0)?;
            }
            Negotiate::SetMetaContext(contexts) => {
                let known = self.meta_contexts(contexts, contexts.base_allocation, BASE_ALLOCATION_ID)?;
                self.agreed.base_allocation = known && contexts.base_allocation;
            }
            Negotiate::Unknown => self.reply(reply::ERR_UNSUP, b"")?,
        }
        Ok(None)
    }

    /// Before TLS, where it must be, nothing else is said of an option; and one of them knows no refusal.
    fn refuse(&mut self, why: u32) -> io::Result<()> {
        match self.encryption {
            Encryption::Required if self.number == EXPORT_NAME => {
                Err(rude("an export was chosen without TLS"))
            }
            _ if self.number == EXPORT_NAME => Err(rude("what was chosen is no name of an export")),
            Encryption::Required => self.reply(reply::ERR_TLS_REQD, b""),
            Encryption::Unavailable | Encryption::On => self.reply(why, b""),
        }
    }

    fn reply(&mut self, kind: u32, data: &[u8]) -> io::Result<()> {
        answer(self.stream, self.number, kind, data)
    }

    fn export_name(&mut self, name: &str) -> io::Result<Outcome> {
        if !self.export.is_called(name) {
            return Err(rude("an unknown export was chosen"));
        }
        let mut bytes = [0; 134];
        bytes[..8].copy_from_slice(&self.export.bytes.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.export.flags().to_be_bytes());
        self.stream.write_all(if self.no_zeroes { &bytes[..10] } else { &bytes })?;
        Ok(Outcome::Transmission(self.agreed))
    }

    fn start_tls(&mut self) -> io::Result<Option<Outcome>> {
        match self.encryption {
            Encryption::Required => {
                self.reply(reply::ACK, b"")?;
                Ok(Some(Outcome::StartTls))
            }
            Encryption::Unavailable => {
                self.reply(reply::ERR_POLICY, b"")?;
                Ok(None)
            }
            Encryption::On => {
                self.reply(reply::ERR_INVALID, b"")?;
                Ok(None)
            }
        }
    }

    fn go(&mut self, name: &str) -> io::Result<Option<Outcome>> {
        Ok(self.info(name)?.then_some(Outcome::Transmission(self.agreed)))
    }

    /// Tells about the export; whether there is one of that name.
    fn info(&mut self, name: &str) -> io::Result<bool> {
        if !self.export.is_called(name) {
            self.reply(reply::ERR_UNKNOWN, b"")?;
            return Ok(false);
        }
        let mut export = [0; 12];
        export[2..10].copy_from_slice(&self.export.bytes.to_be_bytes());
        export[10..].copy_from_slice(&self.export.flags().to_be_bytes());
        self.reply(reply::INFO, &export)?;
        let mut sizes = [0; 14];
        sizes[..2].copy_from_slice(&3u16.to_be_bytes());
        let preferred = self.export.block_bytes.max(4096);
        for (at, size) in [(2, self.export.block_bytes), (6, preferred), (10, LONGEST_PAYLOAD)] {
            sizes[at..at + 4].copy_from_slice(&size.to_be_bytes());
        }
        self.reply(reply::INFO, &sizes)?;
        self.reply(reply::ACK, b"")?;
        Ok(true)
    }

    fn list(&mut self) -> io::Result<()> {
        let name = self.export.name.as_bytes();
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name);
        self.reply(reply::SERVER, &data)?;
        self.reply(reply::ACK, b"")
    }

    /// Answers a query; whether it made sense.
    fn meta_contexts(&mut self, asked: &Contexts<'_>, matches: bool, id: u32) -> io::Result<bool> {
        if !self.agreed.structured {
            self.reply(reply::ERR_INVALID, b"")?;
            return Ok(false);
        }
        if !self.export.is_called(asked.export) {
            self.reply(reply::ERR_UNKNOWN, b"")?;
            return Ok(false);
        }
        if matches {
            let mut data = id.to_be_bytes().to_vec();
            data.extend_from_slice(BASE_ALLOCATION.as_bytes());
            self.reply(reply::META_CONTEXT, &data)?;
        }
        self.reply(reply::ACK, b"")?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that has said everything beforehand.
    struct Scripted {
        says: io::Cursor<Vec<u8>>,
        heard: Vec<u8>,
    }

    impl Read for Scripted {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.says.read(to)
        }
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn option(number: u32, data: &[u8]) -> Vec<u8> {
        [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data]
            .concat()
    }

    fn go(name: &str) -> Vec<u8> {
        option(7, &[&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &[0, 0]].concat())
    }

    /// Says all that; how it ended, and the types of the replies.
    fn talk(encryption: Encryption, says: &[Vec<u8>]) -> (io::Result<Outcome>, Vec<u32>) {
        let export = Export {
            name: "disk".into(),
            bytes: 1 << 20,
            block_bytes: 512,
            rotational: true,
            read_only: false,
        };
        let mut client = Scripted { says: io::Cursor::new(says.concat()), heard: Vec::new() };
        let outcome = options(&mut client, &export, encryption, true);
        let (mut types, mut heard) = (Vec::new(), &client.heard[..]);
        while heard.len() >= 20 {
            types.push(u32::from_be_bytes(heard[12..16].try_into().unwrap()));
            let length = u32::from_be_bytes(heard[16..20].try_into().unwrap()) as usize;
            heard = &heard[20 + length..];
        }
        (outcome, types)
    }

    #[test]
    fn negotiations_end_as_the_protocol_says() {
        use reply::{
            ACK, ERR_INVALID, ERR_POLICY, ERR_TLS_REQD, ERR_TOO_BIG, ERR_UNKNOWN, ERR_UNSUP, INFO, SERVER,
        };
        let plain = Encryption::Unavailable;
        let began = |structured| Outcome::Transmission(Agreed { structured, base_allocation: false });
        let (outcome, types) = talk(plain, &[option(3, b""), option(8, b""), go("disk")]);
        assert_eq!((outcome.unwrap(), types), (began(true), vec![SERVER, ACK, ACK, INFO, INFO, ACK]));
        let (outcome, types) = talk(plain, &[go("other"), go("")]);
        assert_eq!((outcome.unwrap(), types), (began(false), vec![ERR_UNKNOWN, INFO, INFO, ACK]));
        let (outcome, types) = talk(plain, &[option(99, b"?"), option(5, b""), option(2, b"")]);
        assert_eq!((outcome.unwrap(), types), (Outcome::Gone, vec![ERR_UNSUP, ERR_POLICY, ACK]));
        let query = [&0u32.to_be_bytes()[..], &0u32.to_be_bytes()].concat();
        let (_, types) = talk(plain, &[option(10, &query)]);
        assert_eq!(types, [ERR_INVALID], "meta contexts before structured replies");
        let (_, types) = talk(plain, &[option(3, &vec![0; 40_000])]);
        assert_eq!(types, [ERR_TOO_BIG]);
        let (outcome, types) = talk(Encryption::Required, &[go(""), option(3, b""), option(5, b"")]);
        assert_eq!((outcome.unwrap(), types), (Outcome::StartTls, vec![ERR_TLS_REQD, ERR_TLS_REQD, ACK]));
        for refused in [option(1, b"disk"), option(1, b"\xff"), option(1, &vec![0; 40_000])] {
            let (outcome, types) = talk(Encryption::Required, &[refused]);
            assert!(outcome.is_err() && types.is_empty(), "an answer would be taken for the export");
        }
        let (_, types) = talk(Encryption::Required, &[option(3, b"?"), option(3, &vec![0; 40_000])]);
        assert_eq!(types, [ERR_TLS_REQD, ERR_TLS_REQD]);
        for refused in [option(1, b"other"), option(1, b"\xff"), option(1, &vec![0; 40_000])] {
            assert!(talk(plain, &[refused]).0.is_err());
        }
        assert!(talk(plain, &[vec![0; 16]]).0.is_err(), "not an option");
    }

    #[test]
    fn meta_contexts_that_were_chosen_before_are_gone_if_the_last_choice_fails() {
        let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        let choose = |export| option(10, &[text(export), vec![0, 0, 0, 1], text("base:allocation")].concat());
        let chosen = |last: Vec<u8>| match talk(
            Encryption::Unavailable,
            &[option(8, b""), choose("disk"), last, go("disk")],
        ) {
            (Ok(Outcome::Transmission(agreed)), _) => agreed.base_allocation,
            other => panic!("{other:?}"),
        };
        assert!(chosen(choose("")));
        for (what, last) in [
            ("another export", choose("other")),
            ("cut off", option(10, &choose("disk")[16..20])),
            ("too long", option(10, &vec![0; 40_000])),
        ] {
            assert!(!chosen(last), "{what}");
        }
    }

    #[test]
    fn no_bytes_make_a_negotiation_panic() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let data: Vec<u8> = (0..random() % 40).map(|_| (random() >> 32) as u8 & 7).collect();
            let mut says = vec![option((random() % 11) as u32, &data), go("")];
            let cut = random() as usize % (says[0].len() + 1);
            if random() % 2 == 0 {
                says = vec![says[0][..cut].to_vec()];
            }
            let _ = talk(Encryption::Unavailable, &says);
        }
    }
}
