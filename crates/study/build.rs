//! A hash of the sources that determine results, for the identifiers of runs: a change of the simulator changes them, even at the same
//! version.

use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use fnv::FnvHasher;

/// Crates that determine results: this one and those below it.
const CRATES: [&str; 8] =
    ["disks", "elevator", "evaluation", "machine", "schedulers", "study", "traces", "workloads"];
/// Parts of a crate that do not.
const OTHERS: [&str; 5] = ["benches", "corpus", "examples", "target", "tests"];

fn main() {
    let mut hasher = FnvHasher::default();
    for name in CRATES {
        let folder = Path::new("..").join(name);
        let mut files = Vec::new();
        collect(&folder, &mut files);
        files.sort();
        for file in files {
            hasher.write(file.to_string_lossy().as_bytes());
            hasher.write(&fs::read(&file).unwrap_or_default());
        }
    }
    println!("cargo::rustc-env=DWELL_SOURCES={:016x}", hasher.finish());
}

/// The files of a crate's folder. Cargo runs this program again when one of them changes.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_text_about_it = name.ends_with(".md") || name == "public-api.txt";
        if name.starts_with('.') || OTHERS.contains(&&*name) || is_text_about_it {
            continue;
        }
        println!("cargo::rerun-if-changed={}", path.display());
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}
