//! Golden files in `tests/data`. A run with `DWELL_BLESS=1` writes them anew; the commit must explain each changed line.

/// Compares a text with the golden file of this name, line by line.
pub fn compare(file: &str, text: &str) {
    let path = format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("DWELL_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (found, expected) in text.lines().zip(golden.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(text.len(), golden.len());
}
