//! Drive descriptions in TOML.

#![no_main]

use disks::DriveDescription;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(description) = DriveDescription::parse("fuzzed", text) {
        let _ = description.to_toml();
    }
});
