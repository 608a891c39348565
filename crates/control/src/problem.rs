//! System errors of files in words, with what to do. The caller's message names the file first.
//!
//! An error that a program made (`io::Error::new`) has such words already, and keeps them.

use std::io;

use rustix::io::Errno;

/// Why a file or a device cannot be read, and what to do.
#[must_use]
pub fn reading(error: &io::Error) -> String {
    let words = match Errno::from_io_error(error) {
        Some(Errno::NOENT) => "there is no such file; correct its name",
        Some(Errno::ISDIR) => "is a directory; name a file",
        Some(Errno::ACCESS | Errno::PERM) => {
            "this user may not read it; run this as root, or change the file's permissions"
        }
        _ => return either(error),
    };
    words.to_owned()
}

/// Why a file cannot be written, and what to do.
#[must_use]
pub fn writing(error: &io::Error) -> String {
    let words = match Errno::from_io_error(error) {
        Some(Errno::NOENT) => "no file can be created there; name a file in another directory",
        Some(Errno::ISDIR) => "is a directory; name a file in it",
        Some(Errno::ACCESS | Errno::PERM) => {
            "this user may not write there; run this as root, or name a file in another directory"
        }
        Some(Errno::NOSPC) => "no space is left on its file system; free some, or name a file on another one",
        Some(Errno::DQUOT) => {
            "the user's quota is exhausted; free some space, or name a file on another file system"
        }
        Some(Errno::ROFS) => "its file system is read-only; name a file on another one",
        Some(Errno::FBIG) => "exceeds the size that its file system or the user's limit permits (ulimit -f)",
        Some(Errno::TXTBSY) => "is a running program; name another file",
        _ => return either(error),
    };
    words.to_owned()
}

/// What does not depend on the direction.
fn either(error: &io::Error) -> String {
    let words = match Errno::from_io_error(error) {
        Some(Errno::NXIO) => "is a socket, or a device without hardware; name a file",
        Some(Errno::NOTDIR) => "a part of this path is a file, not a directory; correct the path",
        Some(Errno::NAMETOOLONG) => "a name in this path is too long; correct the path",
        Some(Errno::LOOP) => "its symbolic links lead in a circle; correct them",
        Some(Errno::IO) => "the device below reported an error; 'dmesg' has the kernel's message",
        Some(Errno::NODEV) => "the device is gone; attach it again",
        Some(Errno::BUSY) => "is in use by another program; end that first",
        Some(Errno::MFILE | Errno::NFILE) => "too many files are open; raise the limit (ulimit -n)",
        _ => return error.to_string(),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_error_has_words_and_a_remedy() {
        let both = [Errno::ISDIR, Errno::NOTDIR, Errno::ACCESS, Errno::NXIO, Errno::NAMETOOLONG, Errno::LOOP];
        for errno in both.into_iter().chain([Errno::NOENT, Errno::IO, Errno::BUSY, Errno::NODEV]) {
            for text in [reading(&errno.into()), writing(&errno.into())] {
                assert!(text.contains("; ") && !text.contains("os error"), "{errno:?}: {text}");
            }
        }
        for errno in [Errno::NOSPC, Errno::ROFS, Errno::DQUOT, Errno::TXTBSY] {
            let text = writing(&errno.into());
            assert!(text.contains("; ") && !text.contains("os error"), "{errno:?}: {text}");
        }
        let own = io::Error::new(io::ErrorKind::PermissionDenied, "needs CAP_SYS_PTRACE");
        assert_eq!([reading(&own), writing(&own)], ["needs CAP_SYS_PTRACE", "needs CAP_SYS_PTRACE"]);
    }
}
