//! Every file of the corpus, read, against a golden text that is reviewed in diffs.
//!
//! `DWELL_BLESS=1 cargo test -p dwell-traces --test corpus` writes it anew.

mod common;

use std::fmt::Write;
use std::path::Path;

use dwell_traces::Options;

fn render(name: &str, bytes: &[u8]) -> String {
    let mut text = format!("== {name}\n");
    let mut recording = match common::open(name, bytes, &Options::default()) {
        Ok(recording) => recording,
        Err(error) => return format!("{text}error: {error}\n"),
    };
    let records: Vec<_> = recording.by_ref().collect();
    writeln!(text, "{}", recording.interpretation()).expect("memory");
    const SHOWN: usize = 12;
    for record in records.iter().take(SHOWN) {
        match record {
            Ok(record) => writeln!(text, "{}", common::line(record, &recording)),
            Err(error) => writeln!(text, "error: {error}"),
        }
        .expect("memory");
    }
    if records.len() > SHOWN {
        writeln!(text, "... {} in all", records.len()).expect("memory");
    }
    if !recording.skips().is_empty() {
        writeln!(text, "{}", recording.skips()).expect("memory");
    }
    text
}

#[test]
fn every_file_is_read_as_reviewed() {
    let text: String = common::corpus().iter().map(|(name, bytes)| render(name, bytes) + "\n").collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus.golden");
    if std::env::var_os("DWELL_BLESS").is_some() {
        std::fs::write(&golden, &text).expect("the golden text");
    }
    let expected = std::fs::read_to_string(&golden).expect("the golden text");
    assert!(text == expected, "differs from tests/corpus.golden (DWELL_BLESS=1 writes it anew):\n{text}");
}

/// A binary recording that blkparse merged, and the text that blkparse printed for it, contain the same requests.
#[test]
fn a_binary_is_read_as_blkparse_reads_it() {
    let corpus = common::corpus();
    let read = |path: &str| {
        let (name, bytes) = corpus.iter().find(|(name, _)| name == path).expect("in the corpus");
        let (records, recording) = common::read(name, bytes, &Options::default()).unwrap();
        records.iter().map(|record| common::line(record, &recording)).collect::<Vec<_>>()
    };
    let binary = read("blktrace/merged-by-blkparse-1.2.blktrace");
    assert_eq!(binary.len(), 27);
    assert_eq!(binary, read("blkparse/printed-by-blkparse-1.2.blkparse"));
}
