//! Messages of NBD clients: negotiation options and requests.

#![no_main]

use server::nbd::protocol::{Command, Limits, REQUEST_BYTES, option, option_header, request};

/// Size of the export; accepted requests must lie within.
const SIZE: u64 = 1 << 30;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((header, rest)) = data.split_first_chunk::<16>() {
        let number = option_header(header).map_or(u32::from(header[0]), |(number, _)| number);
        let _ = option(number, rest);
    }
    if let Some(header) = data.first_chunk::<REQUEST_BYTES>()
        && let Ok(request) = request(header)
        && request.problem(&Limits { bytes: SIZE, block_bytes: 512, read_only: false, longest: 32 << 20 }).is_none()
    {
        let end = request.offset.checked_add(u64::from(request.length));
        assert!(end.is_some_and(|end| end <= SIZE) || request.command == Command::Disconnect);
    }
});
