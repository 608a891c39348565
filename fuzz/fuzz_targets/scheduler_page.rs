//! Schedulers as a page of TOML names them.

#![no_main]

use schedulers::Spec;
use schedulers::registry::Catalogue;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(spec) = cli::scheduler_page(Catalogue::default(), "fuzzed", text) {
        let said = spec.to_string();
        assert_eq!(Spec::parse(&said).map(|again| again.to_string()), Ok(said), "braces say what the page says");
    }
});
