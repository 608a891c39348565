//! DiskSim's parameter files: the resolver returns the same text for every file.

#![no_main]

use std::io::{Cursor, Read};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut open = |_: &str| Ok(Box::new(Cursor::new(data.to_vec())) as Box<dyn Read>);
    let _ = disks::disksim::read("fuzzed.diskspecs", &mut open);
    let _ = disks::disksim::read("fuzzed.parv", &mut open);
});
