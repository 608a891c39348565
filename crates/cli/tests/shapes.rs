//! The papers' shapes, on the program itself: `dwell reproduce stream --single-disk` must find that all hold.

use std::process::Command;

use serde_json::Value;

#[test]
fn the_stream_papers_shapes_hold_on_one_disk() {
    let output = Command::new(env!("CARGO_BIN_EXE_dwell"))
        .args(["reproduce", "stream", "--single-disk", "--scale", "0.01", "--json"])
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let rows = report["rows"].as_array().expect("rows");
    let judged: Vec<&Value> = rows.iter().filter(|row| !row["holds"].is_null()).collect();
    assert!(judged.len() >= 20, "only {} figures were judged", judged.len());
    let failed: Vec<&&Value> = judged.iter().filter(|row| row["holds"] != true).collect();
    assert!(failed.is_empty(), "these do not hold: {failed:#?}");
}
