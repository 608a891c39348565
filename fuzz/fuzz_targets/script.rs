//! Scripts of processes for the modelled machine.

#![no_main]

use workloads::scenario::Scenario;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = Scenario::parse("fuzzed", text, 0.001);
});
