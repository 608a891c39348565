//! Array specifications.

#![no_main]

use disks::array::ArrayDescription;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(array) = ArrayDescription::parse(text) {
        let _ = array.geometry(elevator::Sector(1 << 30));
    }
});
