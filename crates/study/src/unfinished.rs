//! Files under a temporary name until they are complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Creates a file beside `path`, under a name that no file has. The caller renames or removes the file.
///
/// # Errors
/// The directory is missing, full or not writable.
pub fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        let name = name(path);
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            // From a killed process with the same number.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => return Ok((file?, name)),
        }
    }
}

/// A temporary name beside `path`, which no other call of this process returns.
pub fn name(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    name.into()
}

/// Gives a complete file its name, which no file may have by now: another process may have written one since the start.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`], or the file system cannot rename.
pub fn rename_to_new(temporary: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(temporary, path) {
        Ok(()) => fs::remove_file(temporary),
        // A file system without links.
        Err(error) if error.kind() != ErrorKind::AlreadyExists && !path.exists() => {
            fs::rename(temporary, path)
        }
        linked => linked,
    }
}

/// Removes the files of [`create`] for names with this ending that killed processes left in a folder. Other processes do not remove those of this
/// one while it keeps the result, a lock of the folder. None, and nothing is removed, if a process uses the folder so, or if its file system has no
/// locks.
///
/// # Errors
/// A file cannot be removed.
pub fn clear(folder: &Path, ending: &str) -> io::Result<Option<File>> {
    let lock = File::open(folder)?;
    if lock.try_lock().is_ok() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| is_unfinished(name, ending)) {
                fs::remove_file(entry.path())?;
            }
        }
        lock.unlock()?;
    }
    // Between the two another process may have removed files, but none of this one, which has none yet.
    Ok(lock.lock_shared().is_ok().then_some(lock))
}

fn is_unfinished(name: &str, ending: &str) -> bool {
    let number = name.strip_suffix(".tmp").and_then(|name| name.rsplit_once('.'));
    number.is_some_and(|(name, number)| {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        name.ends_with(ending) && number.split_once('-').is_some_and(|(a, b)| is_number(a) && is_number(b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_appeared_meanwhile_is_not_replaced() {
        let path = std::env::temp_dir().join(format!("dwell-rename-{}", std::process::id()));
        let (_, temporary) = create(&path).unwrap();
        fs::write(&path, "another").unwrap();
        let error = rename_to_new(&temporary, &path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(temporary.exists() && fs::read(&path).unwrap() == b"another");
        fs::remove_file(&path).unwrap();
        rename_to_new(&temporary, &path).unwrap();
        assert!(!temporary.exists() && fs::read(&path).unwrap().is_empty());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn leftovers_are_removed_unless_a_process_writes() {
        let folder = std::env::temp_dir().join(format!("dwell-unfinished-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&folder).unwrap().map(|of| of.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let kept = ["7.parquet", "a.parquet.tmp", "b.parquet.1-x.tmp", "c.parquet.1-2", "d.txt.1-2.tmp"];
        kept.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        fs::write(folder.join("7.parquet.4711-0.tmp"), "").unwrap();
        let first = clear(&folder, ".parquet").unwrap();
        assert_eq!(names(), kept);
        let (_, own) = create(&folder.join("8.parquet")).unwrap();
        let second = clear(&folder, ".parquet").unwrap();
        assert!(own.exists() && first.is_some() && second.is_some());
        drop(first);
        drop(clear(&folder, ".parquet").unwrap());
        assert!(own.exists(), "the second is still there");
        drop(second);
        drop(clear(&folder, ".parquet").unwrap());
        assert_eq!(names(), kept);
        fs::remove_dir_all(folder).unwrap();
    }
}
