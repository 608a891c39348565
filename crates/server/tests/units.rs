//! The systemd units in `packaging`.

use std::path::Path;
use std::process::Command;

/// Ten times the greatest exposure that `systemd-analyze security` may compute for a unit.
const THRESHOLD: &str = "--threshold=20";

#[test]
fn the_units_are_confined() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for unit in ["dwell-serve@.service", "dwell-tune@.service"] {
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--no-pager", THRESHOLD]).arg(packaging.join(unit));
        let Ok(output) = command.output() else {
            return eprintln!("SKIPPED: systemd-analyze is not installed");
        };
        let (text, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if text.is_empty() {
            // Before version 250 it has no offline mode.
            return eprintln!("SKIPPED: systemd-analyze security --offline: {errors}");
        }
        assert!(output.status.success(), "{unit}: {text}");
    }
}
