//! The reader of the format named by `DWELL_FUZZ_FORMAT`, or the readers of all formats.

#![no_main]

use std::sync::LazyLock;

use traces::Format;

static FORMATS: LazyLock<Vec<Format>> = LazyLock::new(|| match std::env::var("DWELL_FUZZ_FORMAT") {
    Ok(name) => vec![Format::from_name(&name).expect("DWELL_FUZZ_FORMAT is the identifier of a format")],
    Err(_) => Format::ALL.to_vec(),
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| FORMATS.iter().for_each(|&format| dwell_fuzz::read(Some(format), data)));
