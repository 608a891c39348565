//! The paths of cgroups by their numbers.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Mount points of the version 2 hierarchy: alone, or next to version 1.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Reads the hierarchy anew when it meets a number for the first time.
#[derive(Default)]
pub(super) struct Cgroups {
    paths: HashMap<u64, String>,
}

impl Cgroups {
    /// The path of a cgroup, such as `/system.slice/ssh.service`; its number if it no longer exists.
    pub(super) fn name(&mut self, number: u64) -> String {
        if !self.paths.contains_key(&number) {
            if let Some(root) = root() {
                self.read(&root, &root);
            }
            self.paths.entry(number).or_insert_with(|| format!("cgroup {number}"));
        }
        self.paths[&number].clone()
    }

    fn read(&mut self, root: &Path, directory: &Path) {
        let Ok(metadata) = fs::metadata(directory) else { return };
        let below = directory.strip_prefix(root).unwrap_or(directory);
        self.paths.insert(metadata.ino(), format!("/{}", below.display()));
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.read(root, &entry.path());
            }
        }
    }
}

fn root() -> Option<PathBuf> {
    let is_v2 = |path: &&&str| Path::new(path).join("cgroup.controllers").exists();
    ROOTS.iter().find(is_v2).map(PathBuf::from)
}
