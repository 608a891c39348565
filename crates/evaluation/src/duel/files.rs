//! The files of the benchmarks: created once, the same for every scheduler.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use elevator::Random;

use crate::duel::DuelError;
use crate::duel::benchmark::{Content, FileSystem};
use crate::duel::programs::commits::make_cluster;
use crate::duel::programs::text;

/// Files per directory of a source tree.
const IN_A_DIRECTORY: u64 = 40;

/// Creates a sparse image of `bytes` with a benchmark's file systems.
pub(crate) fn make_image(image: &Path, bytes: u64, file_systems: &[FileSystem]) -> Result<(), DuelError> {
    let failed = || DuelError::io(format!("making {}", image.display()));
    File::create(image).and_then(|file| file.set_len(bytes)).map_err(failed())?;
    for (n, file_system) in file_systems.iter().enumerate() {
        let content = image.with_extension(format!("content-{n}"));
        fs::create_dir_all(&content).and_then(|()| fill(&content, file_system)).map_err(failed())?;
        make_file_system(image, file_system, n, &content)?;
        fs::remove_dir_all(&content).map_err(failed())?;
    }
    Ok(())
}

fn fill(directory: &Path, file_system: &FileSystem) -> io::Result<()> {
    match file_system.content {
        Content::Empty => Ok(()),
        Content::Tree { files, seed } => source_tree(directory, files, seed),
        Content::Commits { file_bytes, cluster } => {
            let file = File::create(directory.join("file"))?;
            let piece = text(&mut Random::new(1), 1 << 20);
            (0..file_bytes.div_ceil(1 << 20)).try_for_each(|n| file.write_all_at(&piece, n << 20))?;
            if cluster { make_cluster(&directory.join("data")) } else { Ok(()) }
        }
    }
}

/// The files of a source tree relative to its root, with sizes in bytes: most of a few KB, some of a hundred. Files of a directory
/// are consecutive.
pub fn tree_files(files: u64, seed: u64) -> impl Iterator<Item = (String, u64)> {
    let mut random = Random::new(seed);
    (0..files).map(move |file| {
        let mut bytes = 512 + random.below(3584);
        while bytes < 128 << 10 && random.below(100) < 45 {
            bytes *= 2;
        }
        (format!("d{:03}/f{file}.c", file / IN_A_DIRECTORY), bytes)
    })
}

fn source_tree(directory: &Path, files: u64, seed: u64) -> io::Result<()> {
    let words = text(&mut Random::new(seed), 256 << 10);
    let mut random = Random::new(seed + 1);
    for (name, bytes) in tree_files(files, seed) {
        let path = directory.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let from = random.below(words.len() as u64 - bytes) as usize;
        fs::write(path, &words[from..from + bytes as usize])?;
    }
    Ok(())
}

/// Creates an ext4 in its partition of the image. Hash seed and names are fixed, because they determine the order of directory entries.
fn make_file_system(
    image: &Path,
    file_system: &FileSystem,
    n: usize,
    content: &Path,
) -> Result<(), DuelError> {
    const SEED: &str = "d1e11000-0000-4000-8000-00000000000";
    let extended = format!(
        "offset={},hash_seed={SEED}1,lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        file_system.start_bytes
    );
    let output = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-m", "0", "-J", "size=16", "-E", &extended])
        .args(["-U", &format!("{SEED}{}", (n + 2) % 10), "-N", &file_system.inodes().to_string(), "-d"])
        .args([content, image])
        // Without a unit, mke2fs counts in blocks.
        .arg(format!("{}k", file_system.bytes / 1024))
        .output()
        .map_err(DuelError::io("mkfs.ext4 (e2fsprogs)"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(DuelError::Missing(format!("mkfs.ext4 failed: {words}")))
}

/// Copies an image and keeps its holes.
pub(crate) fn copy_image(from: &Path, to: &Path) -> Result<(), DuelError> {
    let doing = format!("copying {}", from.display());
    let copied = Command::new("cp")
        .arg("--sparse=always")
        .args([from, to])
        .status()
        .map_err(DuelError::io(&*doing))?;
    if copied.success() { Ok(()) } else { Err(DuelError::Missing(format!("{doing} failed"))) }
}
