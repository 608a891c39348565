//! Measured traces of physical drives, as `dwell drives validate` reads them.

#![no_main]

use std::io::Cursor;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(trace) = disks::validate::read_trace(Cursor::new(data)) {
        assert!(!trace.is_empty() && trace.iter().all(|request| request.sectors.0 > 0));
    }
});
