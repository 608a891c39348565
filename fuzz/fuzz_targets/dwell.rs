//! The `dwell` reader.

#![no_main]

use traces::Format;

libfuzzer_sys::fuzz_target!(|data: &[u8]| dwell_fuzz::read(Some(Format::Dwell), data));
