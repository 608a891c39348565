//! Device profiles, as `dwell profile` writes and `--profile` reads them.

#![no_main]

use capture::profile::Profile;
use elevator::{Sector, Sectors};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(profile) = Profile::from_toml(text) {
        let curve = profile.service_curve();
        assert!((0..=48).map(|power| curve.at_distance(1 << power)).is_sorted(), "nearer is sooner");
        let _ = curve.service_time(Sector(1 << 40), Sector(0), 150) + curve.transfer(Sectors(1 << 16));
        let _ = profile.table(&["noop".to_owned(), "bfq".to_owned()]);
    }
});
