//! The limit of the memory cgroup in which this process is.

use std::fs;
use std::path::{Path, PathBuf};

use ::control::mounts::Mount;

use crate::buffer::ALIGNMENT;

/// The smallest limit of the process's memory cgroup and of those above it, in bytes, of version 1 and 2. None without a limit
/// below the machine's memory.
pub(crate) fn own() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let least = groups(&own, &Mount::seen_by("self"))
        .into_iter()
        .filter_map(|(root, group, file)| least(&root, &group, file))
        .min();
    least.filter(|&limit| limit < machine())
}

/// Memory of the machine in bytes.
pub(crate) fn machine() -> u64 {
    // SAFETY: takes a number and returns one.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).map_or(u64::MAX, |pages| pages * ALIGNMENT as u64)
}

/// For each hierarchy that may limit memory: its mount point, the process's directory below that, and the name of the limit's file.
fn groups(own: &str, mounts: &[Mount]) -> Vec<(PathBuf, PathBuf, &'static str)> {
    let mut groups = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (kind, file) = if controllers.split(',').any(|controller| controller == "memory") {
            ("cgroup", "memory.limit_in_bytes")
        } else if controllers.is_empty() {
            ("cgroup2", "memory.max")
        } else {
            continue;
        };
        for mount in mounts.iter().filter(|mount| mount.kind == kind) {
            if kind == "cgroup2" || mount.options.split(',').any(|option| option == "memory") {
                // A container sees only the part of the hierarchy that is mounted (`root`).
                let below = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(group));
                let below = below.strip_prefix("/").unwrap_or(below);
                groups.push((mount.place.clone(), mount.place.join(below), file));
            }
        }
    }
    groups
}

/// The smallest limit from `group` up to `root`.
fn least(root: &Path, group: &Path, file: &str) -> Option<u64> {
    let above = group.ancestors().take_while(|directory| directory.starts_with(root));
    above.filter_map(|directory| fs::read_to_string(directory.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found_also_in_a_container() {
        const MOUNTS: &[u8] = b"30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                              31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                              32 25 0:28 /box /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let mounts: Vec<Mount> = Mount::all(MOUNTS).collect();
        let found = groups("4:memory:/one/two\n1:cpu:/\n0::/box/in\n", &mounts);
        let v1 = PathBuf::from("/sys/fs/cgroup/memory");
        let v2 = PathBuf::from("/sys/fs/cgroup/unified");
        assert_eq!(
            found,
            [
                (v1.clone(), v1.join("one/two"), "memory.limit_in_bytes"),
                (v2.clone(), v2.join("in"), "memory.max")
            ]
        );
    }

    #[test]
    fn the_smallest_limit_up_to_the_root_counts() {
        let root = std::env::temp_dir().join(format!("dwell-limit-{}", std::process::id()));
        let group = root.join("one/two");
        fs::create_dir_all(&group).unwrap();
        assert_eq!(least(&root, &group, "memory.max"), None);
        fs::write(root.join("one/memory.max"), "1048576\n").unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(least(&root, &group, "memory.max"), Some(1 << 20));
        fs::write(group.join("memory.max"), "4096\n").unwrap();
        assert_eq!(least(&root, &group, "memory.max"), Some(4096));
        fs::remove_dir_all(root).unwrap();
    }
}
