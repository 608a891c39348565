//! Text files from the user: scripts, job files, descriptions.

use std::path::Path;

use server::supervisor::{input, read_at_most};

use crate::error::Error;

/// Maximum size: larger than any script, small enough for any machine's memory.
const LONGEST_MIB: u64 = 16;

/// The text of a file or pipe; `kind` names the expected content in the error, such as "script".
///
/// # Errors
/// The file cannot be read, is longer than 16 MiB (a device such as `/dev/zero` has no end), or is not UTF-8.
pub fn read(path: impl AsRef<Path>, kind: &str) -> Result<String, Error> {
    let path = path.as_ref();
    let name = path.display();
    let longest = LONGEST_MIB << 20;
    let bytes =
        input(path, || read_at_most(path, longest + 1)).map_err(|error| Error::file(&name, &error))?;
    if bytes.len() as u64 > longest {
        let problem = format!("is longer than {LONGEST_MIB} MiB, too long for a {kind}; name another file");
        return Err(Error::Input(format!("{name}: {problem}")));
    }
    String::from_utf8(bytes).map_err(|_| Error::Input(format!("{name}: is not text (UTF-8); name a {kind}")))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn problem(path: &Path) -> String {
        match read(path, "script") {
            Err(Error::Input(problem)) => problem,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn long_and_binary_files_are_rejected() {
        let path = std::env::temp_dir().join(format!("dwell-text-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        // Sparse files.
        file.set_len(LONGEST_MIB << 20).unwrap();
        assert_eq!(read(&path, "script").unwrap().len() as u64, LONGEST_MIB << 20);
        file.set_len((LONGEST_MIB << 20) + 1).unwrap();
        assert!(
            problem(&path).ends_with(": is longer than 16 MiB, too long for a script; name another file")
        );
        std::fs::write(&path, b"caf\xe9").unwrap();
        assert!(problem(&path).ends_with(": is not text (UTF-8); name a script"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_endless_device_is_rejected() {
        assert_eq!(
            problem(Path::new("/dev/zero")),
            "/dev/zero: is longer than 16 MiB, too long for a script; name another file"
        );
    }
}
