//! Schedulers in TOML.

#![no_main]

use schedulers::Spec;
use schedulers::registry::Catalogue;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(spec) = cli::scheduler_page(Catalogue::default(), "fuzzed", text) {
        let text = spec.to_string();
        assert_eq!(Spec::parse(&text).map(|again| again.to_string()), Ok(text), "the page and its text form are equivalent");
    }
});
