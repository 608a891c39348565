//! Options, by which client and server negotiate.

use super::{BASE_ALLOCATION, BadMagic, Bytes, OPTION_MAGIC, OPTION_REPLY_MAGIC};

/// Types of replies to options.
pub mod reply {
    /// Accepted.
    pub const ACK: u32 = 1;
    /// One export.
    pub const SERVER: u32 = 2;
    /// One piece of information.
    pub const INFO: u32 = 3;
    /// One meta context.
    pub const META_CONTEXT: u32 = 4;
    /// Unknown option.
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// Forbidden by the server's policy.
    pub const ERR_POLICY: u32 = 1 << 31 | 2;
    /// Malformed.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// TLS is required first.
    pub const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// Too long.
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// `NBD_OPT_EXPORT_NAME`.
pub const EXPORT_NAME: u32 = 1;
/// `NBD_OPT_SET_META_CONTEXT`.
pub const SET_META_CONTEXT: u32 = 10;

/// Parses the header of an option: its number, and the length of its data.
///
/// # Errors
/// The magic number is wrong: the client uses another protocol.
pub fn option_header(bytes: &[u8; 16]) -> Result<(u32, u32), BadMagic> {
    let mut bytes = Bytes(bytes);
    match (bytes.u64(), bytes.u32(), bytes.u32()) {
        (Some(OPTION_MAGIC), Some(option), Some(length)) => Ok((option, length)),
        _ => Err(BadMagic),
    }
}

/// An option that a client sends in negotiation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Negotiate<'a> {
    /// Choose an export and begin the transmission phase. Without an error reply; newer clients send [`Go`](Self::Go).
    ExportName(&'a str),
    /// End the connection.
    Abort,
    /// List the exports.
    List,
    /// Begin TLS.
    StartTls,
    /// Describe an export.
    Info(&'a str),
    /// Describe an export and begin the transmission phase.
    Go(&'a str),
    /// Use structured replies.
    StructuredReply,
    /// List the meta contexts that match.
    ListMetaContext(Contexts<'a>),
    /// Use the meta contexts that match.
    SetMetaContext(Contexts<'a>),
    /// An option that this server does not support.
    Unknown,
}

/// A query for meta contexts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contexts<'a> {
    /// The export's name.
    pub export: &'a str,
    /// Whether there is no query, which lists all contexts.
    pub has_no_query: bool,
    /// Whether a query matches [`BASE_ALLOCATION`].
    pub base_allocation: bool,
}

/// Parses an option; `None` if its data is malformed.
pub fn option(number: u32, data: &[u8]) -> Option<Negotiate<'_>> {
    Some(match number {
        EXPORT_NAME => Negotiate::ExportName(std::str::from_utf8(data).ok()?),
        2 => Negotiate::Abort,
        3 if data.is_empty() => Negotiate::List,
        5 if data.is_empty() => Negotiate::StartTls,
        6 => Negotiate::Info(info(data)?),
        7 => Negotiate::Go(info(data)?),
        8 if data.is_empty() => Negotiate::StructuredReply,
        9 => Negotiate::ListMetaContext(contexts(data, true)?),
        SET_META_CONTEXT => Negotiate::SetMetaContext(contexts(data, false)?),
        3 | 5 | 8 => return None,
        _ => Negotiate::Unknown,
    })
}

/// The export's name in the data of `NBD_OPT_INFO` and `NBD_OPT_GO`. The requested kinds of information are ignored: the server sends all
/// of them, which the protocol permits.
fn info(data: &[u8]) -> Option<&str> {
    let mut bytes = Bytes(data);
    let name = bytes.text()?;
    let asked = bytes.u16()?;
    bytes.take(usize::from(asked) * 2)?;
    bytes.0.is_empty().then_some(name)
}

fn contexts(data: &[u8], listing: bool) -> Option<Contexts<'_>> {
    let mut bytes = Bytes(data);
    let export = bytes.text()?;
    let queries = bytes.u32()?;
    let mut base_allocation = false;
    for _ in 0..queries {
        let query = bytes.text()?;
        base_allocation |= query == BASE_ALLOCATION || (listing && query == "base:");
    }
    bytes.0.is_empty().then_some(Contexts { export, has_no_query: queries == 0, base_allocation })
}

/// The header of a reply to an option.
pub fn option_reply(option: u32, kind: u32, length: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    bytes[8..12].copy_from_slice(&option.to_be_bytes());
    bytes[12..16].copy_from_slice(&kind.to_be_bytes());
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_magic_is_an_error() {
        assert_eq!(option_header(&[0; 16]), Err(BadMagic));
    }

    fn meta_query(export: &str, queries: &[&str]) -> Vec<u8> {
        let mut data = Vec::new();
        let text = |data: &mut Vec<u8>, text: &str| {
            data.extend((text.len() as u32).to_be_bytes());
            data.extend(text.as_bytes());
        };
        text(&mut data, export);
        data.extend((queries.len() as u32).to_be_bytes());
        queries.iter().for_each(|query| text(&mut data, query));
        data
    }

    #[test]
    fn truncated_or_overlong_options_are_malformed() {
        let go = [&4u32.to_be_bytes()[..], b"disk", &1u16.to_be_bytes(), &3u16.to_be_bytes()].concat();
        assert_eq!(option(7, &go), Some(Negotiate::Go("disk")));
        for cut in 0..go.len() {
            assert_eq!(option(7, &go[..cut]), None, "cut at {cut}");
        }
        assert_eq!(option(7, &[&go[..], b"x"].concat()), None, "bytes after the end");
        let query = meta_query("", &["qemu:dirty", "base:allocation"]);
        let contexts = Contexts { export: "", has_no_query: false, base_allocation: true };
        assert_eq!(option(10, &query), Some(Negotiate::SetMetaContext(contexts)));
        let absurd = [&0u32.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat();
        assert_eq!(option(10, &absurd), None, "2^32 - 1 queries without data");
        assert_eq!(option(8, b"x"), None);
        assert_eq!(option(1234, b"x"), Some(Negotiate::Unknown));
    }

    #[test]
    fn each_option_has_its_number() {
        let name = [&4u32.to_be_bytes()[..], b"disk", &0u16.to_be_bytes()].concat();
        let table: [(u32, &[u8], Option<Negotiate<'_>>); 12] = [
            (1, b"disk", Some(Negotiate::ExportName("disk"))),
            (1, b"\xff", None),
            (2, b"", Some(Negotiate::Abort)),
            (2, b"ignored", Some(Negotiate::Abort)),
            (3, b"", Some(Negotiate::List)),
            (3, b"x", None),
            (4, b"", Some(Negotiate::Unknown)),
            (5, b"", Some(Negotiate::StartTls)),
            (5, b"x", None),
            (6, &name, Some(Negotiate::Info("disk"))),
            (7, &name, Some(Negotiate::Go("disk"))),
            (8, b"", Some(Negotiate::StructuredReply)),
        ];
        for (number, data, expected) in table {
            assert_eq!(option(number, data), expected, "{number} {data:?}");
        }
    }

    #[test]
    fn base_contexts_are_listed_by_their_namespace_and_set_by_name() {
        let found = |number, queries: &[&str]| match option(number, &meta_query("e", queries)) {
            Some(Negotiate::ListMetaContext(of) | Negotiate::SetMetaContext(of)) => {
                assert_eq!(of.export, "e");
                (of.has_no_query, of.base_allocation)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!([found(9, &[]), found(10, &[])], [(true, false); 2]);
        assert_eq!([found(9, &["base:"]), found(10, &["base:"])], [(false, true), (false, false)]);
        assert_eq!([found(9, &["base:allocation"]), found(10, &["base:allocation"])], [(false, true); 2]);
        assert_eq!([found(9, &["qemu:"]), found(10, &["qemu:", "x"])], [(false, false); 2]);
        let data = meta_query("e", &["base:allocation"]);
        assert_eq!(option(9, &[&data[..], b"x"].concat()), None, "bytes after the end");
    }

    #[test]
    fn headers_have_the_bytes_of_the_protocol() {
        let header = [&OPTION_MAGIC.to_be_bytes()[..], &7u32.to_be_bytes(), &300u32.to_be_bytes()].concat();
        assert_eq!(option_header(header.as_slice().try_into().unwrap()), Ok((7, 300)));
        let first = [0x0003_e889_0455_65a9_u64.to_be_bytes(), [0, 0, 0, 7, 0x80, 0, 0, 1]].concat();
        let expected = [&first[..], &[0, 0, 1, 44]].concat();
        assert_eq!(option_reply(7, reply::ERR_UNSUP, 300)[..], expected);
    }
}
