//! The BPF objects were built from the sources in the same directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")
}

fn contains(object: &[u8], part: &[u8]) -> bool {
    object.windows(part.len()).any(|window| window == part)
}

/// Without `.bpf.c` and `.bpf.o`.
const PROGRAMS: [&str; 2] = ["block", "causes"];

#[test]
fn the_object_contains_its_source() {
    for program in PROGRAMS {
        let object = fs::read(directory().join(format!("{program}.bpf.o"))).unwrap();
        let sources =
            |path: PathBuf| fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
        let main = directory().join(format!("{program}.bpf.c"));
        for source in std::iter::once(main).chain(sources(directory().join(program))) {
            assert!(
                contains(&object, &fs::read(&source).unwrap()),
                "{} was changed after the object was built: run build.sh",
                source.display()
            );
        }
    }
}

#[test]
fn the_source_builds_and_gives_the_object() {
    let Ok(version) = Command::new("clang").arg("--version").output() else {
        eprintln!("SKIPPED: clang is not installed, so the BPF objects are not rebuilt");
        return;
    };
    let compiler = version.stdout.split(|&byte| byte == b'\n').next().unwrap();
    for program in PROGRAMS {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{program}.bpf.o"));
        let status =
            Command::new("sh").arg(directory().join("build.sh")).arg(program).arg(&built).status().unwrap();
        assert!(status.success());
        let object = fs::read(directory().join(format!("{program}.bpf.o"))).unwrap();
        if contains(&object, compiler) {
            let is_same = object == fs::read(&built).unwrap();
            assert!(is_same, "{program}: the same compiler builds a different object: run build.sh");
        } else {
            eprintln!(
                "SKIPPED: {program}.bpf.o was built by another compiler, so its instructions are not compared"
            );
        }
    }
}
