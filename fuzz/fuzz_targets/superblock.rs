//! md's superblock.

#![no_main]

use disks::array::superblock::Superblock;
use elevator::Sector;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for place in [0, 8] {
        if let Ok(found) = Superblock::parse(bytes, Sector(place)) {
            for sector in [0, 8, 1 << 20, u64::MAX] {
                let _ = found.layout.logical(found.layout.members() - 1, Sector(sector));
            }
        }
    }
});
