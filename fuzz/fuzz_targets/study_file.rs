//! Study files, and the runs that they describe.

#![no_main]

use std::path::Path;

use schedulers::registry::Catalogue;
use study::Study;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(study) = Study::parse("fuzzed", text.to_owned(), Path::new("/nonexistent")) else { return };
    let _ = study.addresses();
    // A range of a few letters describes ten million runs, which take seconds; a path reaches files of this machine.
    if !text.contains("..") && !text.contains('/') {
        let _ = study.runs(Catalogue::default()).map(|runs| study.depth_notes(&runs));
    }
});
