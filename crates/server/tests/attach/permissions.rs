//! Access to the device's file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Place;
use crate::common::{Served, run, try_run};

/// Runs a shell command as the user `nobody`; returns whether it succeeded, and its output.
fn as_nobody(command: &str) -> (bool, String) {
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    try_run("setpriv", &[&user[..], &["sh", "-c", command]].concat())
}

/// The mounted file of the only server below this directory.
fn mount_point(runtime: &Path) -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    points.into_iter().find(|point| point.starts_with(runtime)).expect("the server has mounted its file")
}

/// A regression: any user could open the file below a runtime directory of mode 0755 and write to the disk.
#[test]
fn other_users_can_neither_open_nor_see_the_file() {
    let Some(place) = Place::in_memory(&["setpriv"]) else { return };
    // As systemd creates it without RuntimeDirectoryMode.
    fs::create_dir(&place.runtime).unwrap();
    fs::set_permissions(&place.runtime, fs::Permissions::from_mode(0o755)).unwrap();
    let server = place.serve(&["--memory", "64M"]);
    let file = mount_point(&place.runtime);
    let refused = |how: &str| {
        for command in [
            format!("exec 3<>{}", file.display()),
            format!("dd if={} of=/dev/null count=1", file.display()),
            format!("dd if=/dev/zero of={} bs=4096 count=1 conv=notrunc,nocreat", file.display()),
            format!("stat {}", file.display()),
        ] {
            let (done, text) = as_nobody(&command);
            assert!(!done, "{how}: nobody could {command}: {text}");
            assert!(text.contains("Permission denied"), "{how}: {command}: {text}");
        }
    };
    refused("in its private directory");
    // The directory is one barrier, the mount another one.
    fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    refused("in a directory that all may enter");
    // The owner and the loop driver have access.
    run("dd", &["if=/dev/zero", &format!("of={}", file.display()), "bs=4096", "count=1", "conv=notrunc"]);
    run("dd", &["if=/dev/zero", &format!("of={}", server.what), "bs=1M", "count=8", "oflag=direct"]);
    place.stop(server);
}

/// A regression: the file belonged to the user of the device's thread, and without CAP_DAC_OVERRIDE root could not attach a loop device.
/// These are the capabilities of `packaging/dwell-serve@.service`.
#[test]
fn the_capabilities_of_the_unit_suffice_to_attach() {
    let Some(place) = Place::in_memory(&["setpriv"]) else { return };
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/dwell-serve@.service");
    let unit = fs::read_to_string(unit).unwrap();
    let set = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let names = set.split(' ').map(|name| name.trim_start_matches("CAP_").to_lowercase());
    let set = names.fold("-all".to_owned(), |set, name| format!("{set},+{name}"));
    let disk = place.join("disk");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", &set]);
    let attached = ["--file", disk.to_str().unwrap(), "--size", "16M"];
    let server = Served::start_by(&mut command, &place.attaching(&attached)).expect("the server attaches");
    run("dd", &["if=/dev/zero", &format!("of={}", server.what), "bs=1M", "count=8", "oflag=direct"]);
    place.stop(server);
    fs::remove_file(disk).unwrap();
}
