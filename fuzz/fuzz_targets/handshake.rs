//! What NBD clients send before the transmission phase: the greeting and options, with and without TLS and a free place.

#![no_main]

use std::io::{self, Cursor, Read, Write};

use server::nbd::Export;
use server::nbd::negotiation::{Encryption, Outcome, greet, options};

/// A client whose bytes have all arrived.
struct Client<'a> {
    sent: Cursor<&'a [u8]>,
    received: Vec<u8>,
}

impl Read for Client<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.sent.read(to)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.received.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const GREETING: usize = 18;
const REPLY_HEADER: usize = 20;
const EXPORT_NAME: [u8; 4] = 1u32.to_be_bytes();
const ACK: u32 = 1;
const REFUSALS: std::ops::RangeFrom<u32> = 1 << 31..;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, sent)) = data.split_first() else { return };
    let encryption = match choice & 3 {
        0 => Encryption::Required,
        1 => Encryption::On,
        _ => Encryption::Unavailable,
    };
    let has_place = choice & 4 == 0;
    let export = Export {
        name: "disk".to_string(),
        bytes: 1 << 30,
        block_bytes: 512,
        rotational: choice & 8 != 0,
        read_only: choice & 16 != 0,
        longest: 32 << 20,
    };
    let mut client = Client { sent: Cursor::new(sent), received: Vec::new() };
    let Ok(Some(no_zeroes)) = greet(&mut client) else { return };
    let mut places = 0;
    let admit = || {
        assert_ne!(encryption, Encryption::Required, "a place before TLS");
        places += 1;
        if has_place { Ok(()) } else { Err("full".to_string()) }
    };
    let outcome = options(&mut client, &export, encryption, no_zeroes, admit);
    let begun = matches!(outcome, Ok(Outcome::Transmission(..)));
    assert!(!begun || (has_place && places == 1), "transmission without a place");
    assert!(!matches!(outcome, Ok(Outcome::StartTls)) || encryption == Encryption::Required);

    // Everything that the client receives is a sequence of replies, and at the end perhaps the one to NBD_OPT_EXPORT_NAME.
    let mut rest = &client.received[GREETING..];
    while rest.starts_with(&0x0003_e889_0455_65a9_u64.to_be_bytes()) {
        let (header, behind) = rest.split_at(REPLY_HEADER);
        let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let kind = number(12);
        assert_ne!(header[8..12], EXPORT_NAME, "this option has no reply of this form");
        assert!(encryption != Encryption::Required || kind == ACK || REFUSALS.contains(&kind), "information before TLS");
        rest = &behind[number(16) as usize..];
    }
    assert!(rest.is_empty() || (begun && rest.len() == if no_zeroes { 10 } else { 134 }), "{rest:?}");
});
