//! Options, by which a client and a server agree on what follows.

use super::{BASE_ALLOCATION, BadMagic, Bytes, OPTION_MAGIC, OPTION_REPLY_MAGIC};

/// Types of answers to options.
pub mod reply {
    /// Granted.
    pub const ACK: u32 = 1;
    /// One export.
    pub const SERVER: u32 = 2;
    /// One piece of information.
    pub const INFO: u32 = 3;
    /// One meta context.
    pub const META_CONTEXT: u32 = 4;
    /// Not known here.
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// Forbidden here.
    pub const ERR_POLICY: u32 = 1 << 31 | 2;
    /// Malformed.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// Only after TLS was started.
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

/// The header of an option: which one, and how many bytes follow.
///
/// # Errors
/// Its magic is wrong: whoever sends it speaks something else.
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
    /// Choose an export and begin, the old way.
    ExportName(&'a str),
    /// Go away.
    Abort,
    /// List the exports.
    List,
    /// Encrypt from here on.
    StartTls,
    /// Tell about an export.
    Info(&'a str),
    /// Tell about an export and begin.
    Go(&'a str),
    /// Structured replies, please.
    StructuredReply,
    /// List the meta contexts of an export that match.
    ListMetaContext(Contexts<'a>),
    /// Use those that match.
    SetMetaContext(Contexts<'a>),
    /// Something newer than this server.
    Unknown,
}

/// A query for meta contexts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contexts<'a> {
    /// Of which export.
    pub export: &'a str,
    /// Whether there was no query at all, which lists everything.
    pub none_asked: bool,
    /// Whether any of the queries means the one context there is.
    pub base_allocation: bool,
}

/// Parses an option; `None` if its data does not fit it.
#[must_use]
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

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`. What kinds of information are asked for makes no difference: all are
/// sent, as servers may.
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
    bytes.0.is_empty().then_some(Contexts { export, none_asked: queries == 0, base_allocation })
}

/// The header of an answer to an option.
#[must_use]
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
    fn a_wrong_magic_is_noticed() {
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
    fn options_are_read_whole_or_not_at_all() {
        let go = [&4u32.to_be_bytes()[..], b"disk", &1u16.to_be_bytes(), &3u16.to_be_bytes()].concat();
        assert_eq!(option(7, &go), Some(Negotiate::Go("disk")));
        for cut in 0..go.len() {
            assert_eq!(option(7, &go[..cut]), None, "cut at {cut}");
        }
        assert_eq!(option(7, &[&go[..], b"x"].concat()), None, "something behind it");
        let query = meta_query("", &["qemu:dirty", "base:allocation"]);
        let contexts = Contexts { export: "", none_asked: false, base_allocation: true };
        assert_eq!(option(10, &query), Some(Negotiate::SetMetaContext(contexts)));
        let absurd = [&0u32.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat();
        assert_eq!(option(10, &absurd), None, "four thousand million queries, none of which is there");
        assert_eq!(option(8, b"x"), None);
        assert_eq!(option(1234, b"x"), Some(Negotiate::Unknown));
    }
}
