//! Files that somebody wrote: scripts, job files, descriptions.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;

/// The longest that is read: far more than anybody writes, and no machine runs out of memory.
const LONGEST_MIB: u64 = 16;

/// The text of a file, or of a pipe; `kind` is what it should be, such as a script.
///
/// # Errors
/// If it cannot be read, is longer than 16 MiB (a device such as `/dev/zero` has no end), or is no UTF-8.
pub(crate) fn read(path: impl AsRef<Path>, kind: &str) -> Result<String, Error> {
    let path = path.as_ref();
    let name = path.display();
    let longest = LONGEST_MIB << 20;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(longest + 1).read_to_end(&mut bytes));
    read.map_err(|error| Error::file(&name, &error))?;
    if bytes.len() as u64 > longest {
        let problem = format!("is longer than {LONGEST_MIB} MiB, which no {kind} is");
        return Err(Error::Input(format!("{name}: {problem}")));
    }
    String::from_utf8(bytes).map_err(|_| Error::Input(format!("{name}: is no text")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> String {
        match read(path, "script") {
            Err(Error::Input(problem)) => problem,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_too_long_or_no_text_is_refused() {
        let path = std::env::temp_dir().join(format!("dwell-text-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        // Neither takes room on the disk.
        file.set_len(LONGEST_MIB << 20).unwrap();
        assert_eq!(read(&path, "script").unwrap().len() as u64, LONGEST_MIB << 20);
        file.set_len((LONGEST_MIB << 20) + 1).unwrap();
        assert!(refused(&path).ends_with(": is longer than 16 MiB, which no script is"));
        std::fs::write(&path, b"caf\xe9").unwrap();
        assert!(refused(&path).ends_with(": is no text"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_device_that_never_ends_is_left() {
        assert_eq!(refused(Path::new("/dev/zero")), "/dev/zero: is longer than 16 MiB, which no script is");
    }
}
