//! fio job files.

#![no_main]

use workloads::Workload;
use workloads::fio::JobFile;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(file) = JobFile::parse("fuzzed", text) {
        let _ = (file.describe(), file.end());
    }
});
