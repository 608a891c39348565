//! The object that is loaded belongs to the source beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")
}

fn contains(object: &[u8], part: &[u8]) -> bool {
    object.windows(part.len()).any(|window| window == part)
}

#[test]
fn the_object_carries_the_source_that_it_was_built_from() {
    let object = fs::read(directory().join("block.bpf.o")).unwrap();
    let source = fs::read(directory().join("block.bpf.c")).unwrap();
    assert!(contains(&object, &source), "block.bpf.c was changed after block.bpf.o was built: run build.sh");
}

#[test]
fn the_source_builds_and_gives_the_object() {
    let Ok(version) = Command::new("clang").arg("--version").output() else {
        eprintln!("SKIPPED: no clang, so the BPF object is not built anew");
        return;
    };
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("block.bpf.o");
    let status = Command::new("sh").arg(directory().join("build.sh")).arg(&built).status().unwrap();
    assert!(status.success());
    let object = fs::read(directory().join("block.bpf.o")).unwrap();
    let compiler = version.stdout.split(|&byte| byte == b'\n').next().unwrap();
    if contains(&object, compiler) {
        assert!(object == fs::read(&built).unwrap(), "the same compiler gives another object: run build.sh");
    } else {
        eprintln!("SKIPPED: the object is of another compiler, so its instructions are not compared");
    }
}
