//! Names of schedulers with their tunables.

#![no_main]

use schedulers::{Environment, Spec};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(spec) = Spec::parse(text) {
        let again = Spec::parse(&spec.to_string()).map(|again| again.to_string());
        assert_eq!(again.ok(), Some(spec.to_string()), "the printed form is equivalent");
        let _ = spec.build(&Environment::default());
    }
});
