//! Descriptions of modelled machines, and kernels built from them.

#![no_main]

use elevator::Sector;
use machine::kernel::{Description, Image, Kernel};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(description) = Description::from_toml(text) {
        let _ = Kernel::new(&description, Sector(1 << 24), &Image::new());
    }
});
