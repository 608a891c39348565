//! Detection of wrappings and formats, and then whatever reader they lead to.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dwell_fuzz::read(None, data));
