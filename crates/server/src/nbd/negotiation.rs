//! A client's negotiation, from its first byte to the transmission phase.
//!
//! The functions block and work on anything that reads and writes; the caller enforces the deadline.

use std::io::{self, Read, Write};

use super::protocol::{
    self, BASE_ALLOCATION, BASE_ALLOCATION_ID, Contexts, EXPORT_NAME, LONGEST_OPTION, LONGEST_PAYLOAD, MAGIC,
    Negotiate, OPTION_MAGIC, SET_META_CONTEXT, handshake, option_reply, reply, transmission,
};
use crate::backend::Geometry;

/// The device as clients see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Its name. Clients may also use the empty name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The smallest unit that can be read or written, in bytes.
    pub block_bytes: u32,
    /// Whether it is a rotating disk.
    pub rotational: bool,
    /// Whether writes, trims and write-zeroes fail.
    pub read_only: bool,
    /// The longest data of one request, in bytes.
    pub longest: u32,
}

impl Export {
    /// The export of a device.
    pub fn new(name: &str, geometry: &Geometry) -> Self {
        Self {
            name: name.to_string(),
            bytes: geometry.capacity.bytes(),
            block_bytes: geometry.block_bytes,
            rotational: geometry.rotational,
            read_only: geometry.read_only,
            longest: LONGEST_PAYLOAD,
        }
    }

    fn flags(&self) -> u16 {
        use transmission::{
            CAN_MULTI_CONN, HAS_FLAGS, READ_ONLY, ROTATIONAL, SEND_FLUSH, SEND_FUA, SEND_TRIM,
            SEND_WRITE_ZEROES,
        };
        // All connections share one queue, so a flush covers what completed before it on any of them.
        let always = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;
        let writing = if self.read_only { READ_ONLY } else { SEND_TRIM | SEND_WRITE_ZEROES };
        let rotational = if self.rotational { ROTATIONAL } else { 0 };
        always | writing | rotational
    }

    fn is_named(&self, name: &str) -> bool {
        name.is_empty() || name == self.name
    }
}

/// What a client and the server agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreed {
    /// Replies are structured.
    pub structured: bool,
    /// The client may request the block status of `base:allocation`.
    pub base_allocation: bool,
}

/// Whether the connection is, can be, or must be encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// It cannot be.
    Unavailable,
    /// It must be, and is not yet.
    Required,
    On,
}

/// How a negotiation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<P> {
    /// The transmission phase begins with the next byte; the client has this place.
    Transmission(Agreed, P),
    /// A TLS handshake begins with the next byte, followed by [`options`] over TLS.
    StartTls,
    /// The client ended the connection, as it may.
    Gone,
}

/// The client violates the protocol.
fn violation(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Exchanges the greeting. Whether the 124 zeroes after the reply to `NBD_OPT_EXPORT_NAME` are left out; `None` if the client
/// disconnects without having sent anything, as port scanners do.
///
/// # Errors
/// The stream fails, or the client's flags are unknown.
pub fn greet(stream: &mut (impl Read + Write)) -> io::Result<Option<bool>> {
    let mut greeting = [0; 18];
    greeting[..8].copy_from_slice(&MAGIC.to_be_bytes());
    greeting[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    greeting[16..].copy_from_slice(&(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
    stream.write_all(&greeting)?;
    let mut flags = [0; 4];
    if !read_or_end(stream, &mut flags)? {
        return Ok(None);
    }
    let flags = u32::from_be_bytes(flags);
    if flags & !u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) != 0 {
        return Err(violation("its handshake flags are unknown"));
    }
    Ok(Some(flags & u32::from(handshake::NO_ZEROES) != 0))
}

/// Fills `to`; `false` if the stream ends before.
fn read_or_end(stream: &mut impl Read, to: &mut [u8]) -> io::Result<bool> {
    match stream.read_exact(to) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

/// Replies to options until one of them ends the negotiation.
///
/// `admit` is called once the client has authenticated itself, if it must, and chooses the export. It returns the client's place, or why
/// there is none, which the client receives.
///
/// # Errors
/// The stream fails, or the client violates the protocol.
pub fn options<P>(
    stream: &mut (impl Read + Write),
    export: &Export,
    encryption: Encryption,
    no_zeroes: bool,
    mut admit: impl FnMut() -> Result<P, String>,
) -> io::Result<Outcome<P>> {
    let mut agreed = Agreed::default();
    let mut data = Vec::new();
    loop {
        let mut header = [0; 16];
        if !read_or_end(stream, &mut header)? {
            return Ok(Outcome::Gone);
        }
        let (number, length) =
            protocol::option_header(&header).map_err(|_| violation("an option without its magic number"))?;
        // The option replaces the contexts that were set before, even if it fails.
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
                if let Some(outcome) = dialogue.answer(&option, &mut admit)? {
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
    // One write, so that a small reply is not sent in two packets.
    let mut bytes = option_reply(option, kind, data.len() as u32).to_vec();
    bytes.extend_from_slice(data);
    stream.write_all(&bytes)
}

/// One option and what is needed to reply to it.
struct Dialogue<'a, S> {
    stream: &'a mut S,
    export: &'a Export,
    encryption: Encryption,
    no_zeroes: bool,
    number: u32,
    agreed: Agreed,
}

impl<S: Read + Write> Dialogue<'_, S> {
    /// Replies to an option; how the negotiation ended, if it did.
    fn answer<P>(
        &mut self,
        option: &Negotiate<'_>,
        admit: &mut impl FnMut() -> Result<P, String>,
    ) -> io::Result<Option<Outcome<P>>> {
        let plain = matches!(option, Negotiate::Abort | Negotiate::StartTls);
        if self.encryption == Encryption::Required && !plain {
            self.refuse(reply::ERR_TLS_REQD)?;
            return Ok(None);
        }
        match option {
            Negotiate::ExportName(name) => return self.export_name(name, admit).map(Some),
            Negotiate::Abort => {
                // The client may have closed the connection already.
                let _ = self.reply(reply::ACK, b"");
                return Ok(Some(Outcome::Gone));
            }
            Negotiate::StartTls => return self.start_tls(),
            Negotiate::Go(name) => return self.go(name, admit),
            Negotiate::Info(name) => {
                if !self.reject_unknown(name)? {
                    self.info()?;
                }
            }
            Negotiate::List => self.list()?,
            Negotiate::StructuredReply => {
                self.agreed.structured = true;
                self.reply(reply::ACK, b"")?;
            }
            Negotiate::ListMetaContext(contexts) => {
                self.meta_contexts(contexts, contexts.has_no_query || contexts.base_allocation, 0)?;
            }
            Negotiate::SetMetaContext(contexts) => {
                let known = self.meta_contexts(contexts, contexts.base_allocation, BASE_ALLOCATION_ID)?;
                self.agreed.base_allocation = known && contexts.base_allocation;
            }
            Negotiate::Unknown => self.reply(reply::ERR_UNSUP, b"")?,
        }
        Ok(None)
    }

    /// Refuses an option. Before required TLS the reason is always the missing TLS, and `NBD_OPT_EXPORT_NAME` has no error reply.
    fn refuse(&mut self, why: u32) -> io::Result<()> {
        match self.encryption {
            Encryption::Required if self.number == EXPORT_NAME => {
                Err(violation("it chooses an export without TLS"))
            }
            _ if self.number == EXPORT_NAME => Err(violation("it chooses an export with an invalid name")),
            Encryption::Required => self.reply(reply::ERR_TLS_REQD, b""),
            Encryption::Unavailable | Encryption::On => self.reply(why, b""),
        }
    }

    fn reply(&mut self, kind: u32, data: &[u8]) -> io::Result<()> {
        answer(self.stream, self.number, kind, data)
    }

    fn export_name<P>(
        &mut self,
        name: &str,
        admit: &mut impl FnMut() -> Result<P, String>,
    ) -> io::Result<Outcome<P>> {
        if !self.export.is_named(name) {
            return Err(violation("it chooses an export that does not exist"));
        }
        // The option has no error reply; the caller has logged the reason.
        let Ok(place) = admit() else { return Ok(Outcome::Gone) };
        let mut bytes = [0; 134];
        bytes[..8].copy_from_slice(&self.export.bytes.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.export.flags().to_be_bytes());
        self.stream.write_all(if self.no_zeroes { &bytes[..10] } else { &bytes })?;
        Ok(Outcome::Transmission(self.agreed, place))
    }

    fn start_tls<P>(&mut self) -> io::Result<Option<Outcome<P>>> {
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

    fn go<P>(
        &mut self,
        name: &str,
        admit: &mut impl FnMut() -> Result<P, String>,
    ) -> io::Result<Option<Outcome<P>>> {
        if self.reject_unknown(name)? {
            return Ok(None);
        }
        match admit() {
            Ok(place) => {
                self.info()?;
                Ok(Some(Outcome::Transmission(self.agreed, place)))
            }
            Err(why) => {
                self.reply(reply::ERR_POLICY, why.as_bytes())?;
                Ok(None)
            }
        }
    }

    /// Replies with an error if no export has that name; returns whether it did.
    fn reject_unknown(&mut self, name: &str) -> io::Result<bool> {
        let is_unknown = !self.export.is_named(name);
        if is_unknown {
            self.reply(reply::ERR_UNKNOWN, b"")?;
        }
        Ok(is_unknown)
    }

    /// Describes the export.
    fn info(&mut self) -> io::Result<()> {
        let mut export = [0; 12];
        export[2..10].copy_from_slice(&self.export.bytes.to_be_bytes());
        export[10..].copy_from_slice(&self.export.flags().to_be_bytes());
        self.reply(reply::INFO, &export)?;
        let mut sizes = [0; 14];
        sizes[..2].copy_from_slice(&3u16.to_be_bytes());
        let preferred = self.export.block_bytes.max(4096);
        for (at, size) in [(2, self.export.block_bytes), (6, preferred), (10, self.export.longest)] {
            sizes[at..at + 4].copy_from_slice(&size.to_be_bytes());
        }
        self.reply(reply::INFO, &sizes)?;
        self.reply(reply::ACK, b"")
    }

    fn list(&mut self) -> io::Result<()> {
        let name = self.export.name.as_bytes();
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name);
        self.reply(reply::SERVER, &data)?;
        self.reply(reply::ACK, b"")
    }

    /// Replies to a query for meta contexts; whether the query was valid.
    fn meta_contexts(&mut self, asked: &Contexts<'_>, matches: bool, id: u32) -> io::Result<bool> {
        if !self.agreed.structured {
            self.reply(reply::ERR_INVALID, b"")?;
            return Ok(false);
        }
        if self.reject_unknown(asked.export)? {
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

    /// A client whose bytes have all been sent beforehand.
    struct Scripted {
        sent: io::Cursor<Vec<u8>>,
        received: Vec<u8>,
    }

    impl Read for Scripted {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.sent.read(to)
        }
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.received.extend_from_slice(bytes);
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

    #[test]
    fn a_client_that_leaves_within_the_data_of_an_option_is_noticed() {
        assert!(skip(&mut &[0; 4][..], 4).is_ok());
        let error = skip(&mut &[0; 3][..], 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    fn export() -> Export {
        Export {
            name: "disk".into(),
            bytes: 1 << 20,
            block_bytes: 512,
            rotational: true,
            read_only: false,
            longest: LONGEST_PAYLOAD,
        }
    }

    /// Negotiates with a client that sends these options; the outcome, and the types of the replies.
    fn negotiate<P>(
        encryption: Encryption,
        sent: &[Vec<u8>],
        admit: impl FnMut() -> Result<P, String>,
    ) -> (io::Result<Outcome<P>>, Vec<u32>) {
        let mut client = Scripted { sent: io::Cursor::new(sent.concat()), received: Vec::new() };
        let outcome = options(&mut client, &export(), encryption, true, admit);
        let (mut types, mut received) = (Vec::new(), &client.received[..]);
        while received.len() >= 20 {
            types.push(u32::from_be_bytes(received[12..16].try_into().unwrap()));
            let length = u32::from_be_bytes(received[16..20].try_into().unwrap()) as usize;
            received = &received[20 + length..];
        }
        (outcome, types)
    }

    fn admitted(encryption: Encryption, sent: &[Vec<u8>]) -> (io::Result<Outcome<()>>, Vec<u32>) {
        negotiate(encryption, sent, || Ok(()))
    }

    #[test]
    fn options_are_answered_as_the_protocol_prescribes() {
        use reply::{
            ACK, ERR_INVALID, ERR_POLICY, ERR_TLS_REQD, ERR_TOO_BIG, ERR_UNKNOWN, ERR_UNSUP, INFO, SERVER,
        };
        let plain = Encryption::Unavailable;
        let began = |structured| Outcome::Transmission(Agreed { structured, base_allocation: false }, ());
        let (outcome, types) = admitted(plain, &[option(3, b""), option(8, b""), go("disk")]);
        assert_eq!((outcome.unwrap(), types), (began(true), vec![SERVER, ACK, ACK, INFO, INFO, ACK]));
        let (outcome, types) = admitted(plain, &[go("other"), go("")]);
        assert_eq!((outcome.unwrap(), types), (began(false), vec![ERR_UNKNOWN, INFO, INFO, ACK]));
        let (outcome, types) = admitted(plain, &[option(99, b"?"), option(5, b""), option(2, b"")]);
        assert_eq!((outcome.unwrap(), types), (Outcome::Gone, vec![ERR_UNSUP, ERR_POLICY, ACK]));
        let query = [&0u32.to_be_bytes()[..], &0u32.to_be_bytes()].concat();
        let (_, types) = admitted(plain, &[option(10, &query)]);
        assert_eq!(types, [ERR_INVALID], "meta contexts before structured replies");
        let (_, types) = admitted(plain, &[option(3, &vec![0; 40_000])]);
        assert_eq!(types, [ERR_TOO_BIG]);
        let (outcome, types) = admitted(Encryption::Required, &[go(""), option(3, b""), option(5, b"")]);
        assert_eq!((outcome.unwrap(), types), (Outcome::StartTls, vec![ERR_TLS_REQD, ERR_TLS_REQD, ACK]));
        for refused in [option(1, b"disk"), option(1, b"\xff"), option(1, &vec![0; 40_000])] {
            let (outcome, types) = admitted(Encryption::Required, &[refused]);
            assert!(outcome.is_err() && types.is_empty(), "the client would take a reply for the export");
        }
        let (_, types) = admitted(Encryption::Required, &[option(3, b"?"), option(3, &vec![0; 40_000])]);
        assert_eq!(types, [ERR_TLS_REQD, ERR_TLS_REQD]);
        for refused in [option(1, b"other"), option(1, b"\xff"), option(1, &vec![0; 40_000])] {
            assert!(admitted(plain, &[refused]).0.is_err());
        }
        assert!(admitted(plain, &[vec![0; 16]]).0.is_err(), "not an option");
    }

    #[test]
    fn a_client_takes_a_place_when_it_chooses_the_export_and_not_before() {
        use reply::{ACK, ERR_POLICY, INFO};
        let mut calls = 0;
        let info = option(6, &[0; 6]);
        let refusing = || {
            calls += 1;
            if calls == 1 { Err("full".to_string()) } else { Ok(calls) }
        };
        let (outcome, types) = negotiate(Encryption::On, &[info.clone(), go("disk"), go("disk")], refusing);
        let begun = Outcome::Transmission(Agreed::default(), 2);
        assert_eq!((outcome.unwrap(), types), (begun, vec![INFO, INFO, ACK, ERR_POLICY, INFO, INFO, ACK]));
        let full = || Err::<(), _>("full".to_string());
        let (outcome, types) = negotiate(Encryption::On, &[option(1, b"disk")], full);
        assert_eq!((outcome.unwrap(), types), (Outcome::Gone, vec![]));
        let never = || -> Result<(), String> { panic!("it has not authenticated itself") };
        let _ = negotiate(Encryption::Required, &[info, go("disk"), option(1, b"disk")], never);
    }

    #[test]
    fn a_read_only_export_offers_no_writing_commands() {
        let flags = |read_only| Export { read_only, ..export() }.flags();
        let writing = transmission::SEND_TRIM | transmission::SEND_WRITE_ZEROES;
        assert_eq!(flags(true) & (writing | transmission::READ_ONLY), transmission::READ_ONLY);
        assert_eq!(flags(false) & (writing | transmission::READ_ONLY), writing);
    }

    #[test]
    fn a_client_that_sends_nothing_is_no_error() {
        let mut client = Scripted { sent: io::Cursor::default(), received: Vec::new() };
        assert_eq!(greet(&mut client).unwrap(), None);
        client.sent = io::Cursor::new(vec![0, 0, 0, 8]);
        assert!(greet(&mut client).is_err(), "unknown flags");
    }

    #[test]
    fn a_failed_choice_of_meta_contexts_discards_those_chosen_before() {
        let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        let choose = |export| option(10, &[text(export), vec![0, 0, 0, 1], text("base:allocation")].concat());
        let chosen = |last: Vec<u8>| match admitted(
            Encryption::Unavailable,
            &[option(8, b""), choose("disk"), last, go("disk")],
        ) {
            (Ok(Outcome::Transmission(agreed, ())), _) => agreed.base_allocation,
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
    fn the_context_is_listed_unless_only_others_are_requested() {
        use reply::{ACK, META_CONTEXT};
        let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        for (queries, listed) in [(&[][..], true), (&["base:allocation"], true), (&["qemu:dirty"], false)] {
            let count = vec![0, 0, 0, queries.len() as u8];
            let queries = queries.iter().flat_map(|query| text(query)).collect();
            let list = option(9, &[text("disk"), count, queries].concat());
            let (_, types) = admitted(Encryption::Unavailable, &[option(8, b""), list]);
            assert_eq!(types, if listed { vec![ACK, META_CONTEXT, ACK] } else { vec![ACK, ACK] });
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
            let mut sent = vec![option((random() % 11) as u32, &data), go("")];
            let cut = random() as usize % (sent[0].len() + 1);
            if random() % 2 == 0 {
                sent = vec![sent[0][..cut].to_vec()];
            }
            let _ = admitted(Encryption::Unavailable, &sent);
        }
    }
}
