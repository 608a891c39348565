//! Detection of compression and format, then the detected reader.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dwell_fuzz::read(None, data));
