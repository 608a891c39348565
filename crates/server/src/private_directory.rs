//! The directory of mount points and records, which only its owner may enter.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::ServeError;

/// Its name below the runtime directory. The runtime directory itself also holds sockets and claims, and systemd or an administrator
/// may have created it readable by all users.
const NAME: &str = "attach";

/// Write access of the group and of others, and the bit that keeps one user from renaming another's entries (`S_ISVTX`).
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Any access of the group and of others.
const OTHERS: u32 = 0o077;

/// Creates the private directory below `runtime`, or restores its mode.
///
/// # Errors
/// Another user could replace it: `runtime` belongs to another user, or other users may write to it; or the private directory
/// belongs to another user.
pub(crate) fn make(runtime: &Path) -> Result<PathBuf, ServeError> {
    let failed =
        |path: &Path, source| ServeError::io(format!("creating {} for mount points", path.display()), source);
    DirBuilder::new().recursive(true).mode(0o700).create(runtime).map_err(|error| failed(runtime, error))?;
    let found = fs::metadata(runtime).map_err(|error| failed(runtime, error))?;
    let own = geteuid().as_raw();
    if found.uid() != own && found.uid() != 0 {
        let problem = format!("user {} owns it and could replace mount points in it; remove it", found.uid());
        return Err(ServeError::refused(runtime, &problem));
    }
    if found.mode() & WRITABLE_BY_OTHERS != 0 && found.mode() & STICKY == 0 {
        let problem =
            format!("other users may write to it (mode {:o}); use chmod go-w on it", found.mode() & 0o7777);
        return Err(ServeError::refused(runtime, &problem));
    }
    let path = runtime.join(NAME);
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&path, error)),
        _ => {}
    }
    // By its descriptor: a link that another user put there is not followed, and what is checked is what is changed.
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits() as i32)
        .open(&path)
        .map_err(|error| failed(&path, error))?;
    let found = directory.metadata().map_err(|error| failed(&path, error))?;
    if found.uid() != own {
        let problem = format!("user {} owns it, not user {own}; remove it", found.uid());
        return Err(ServeError::refused(&path, &problem));
    }
    if found.mode() & OTHERS != 0 {
        directory.set_permissions(fs::Permissions::from_mode(0o700)).map_err(|error| failed(&path, error))?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn runtime(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("dwell-private-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn the_directory_is_private_below_a_public_one_and_its_mode_is_restored() {
        let runtime = runtime("mode");
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        let made = make(&runtime).unwrap();
        assert_eq!((mode(&runtime), mode(&made)), (0o755, 0o700));
        fs::set_permissions(&made, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(mode(&make(&runtime).unwrap()), 0o700);
        fs::remove_dir_all(runtime).unwrap();
    }

    #[test]
    fn directories_that_another_user_could_replace_are_refused() {
        let runtime = runtime("refused");
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = make(&runtime).unwrap_err().to_string();
        assert!(refused.contains("chmod go-w"), "{refused}");
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o1777)).unwrap();
        let made = make(&runtime).unwrap();
        fs::remove_dir(&made).unwrap();
        std::os::unix::fs::symlink("/", &made).unwrap();
        assert!(make(&runtime).is_err(), "a link is not followed");
        fs::remove_file(&made).unwrap();
        if geteuid().is_root() {
            fs::create_dir(&made).unwrap();
            std::os::unix::fs::chown(&made, Some(65534), None).unwrap();
            assert!(make(&runtime).unwrap_err().to_string().contains("user 65534 owns it"));
            std::os::unix::fs::chown(&runtime, Some(65534), None).unwrap();
            assert!(make(&runtime).unwrap_err().to_string().contains("user 65534 owns it"));
        } else {
            eprintln!("SKIPPED in part: only root can give a directory to another user");
        }
        fs::remove_dir_all(runtime).unwrap();
    }
}
