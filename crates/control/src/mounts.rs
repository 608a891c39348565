//! The mounted file systems, as the kernel lists them (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::device_number::{self, DeviceNumber};

/// A line of `mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    pub id: u64,
    /// Major and minor number of the file system. Major 0: it has no block device of its own, or several.
    pub number: DeviceNumber,
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub place: PathBuf,
    pub kind: String,
    /// The device, for most kinds.
    pub source: PathBuf,
    /// Options of the file system.
    pub options: String,
}

impl Mount {
    /// The mounts that a process sees (its number, or `self`), in the kernel's order: a later mount covers an earlier one at the same place.
    pub fn seen_by(process: impl Display) -> Vec<Self> {
        let text = fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
        Self::all(&text).collect()
    }

    /// The mount of a path: the deepest one above it; of several at one directory the last, which covers the others.
    #[must_use]
    pub fn above<'a>(mounts: &'a [Self], path: &Path) -> Option<&'a Self> {
        let above = mounts.iter().filter(|mount| path.starts_with(&mount.place));
        above.max_by_key(|mount| mount.place.components().count())
    }

    /// The lines of a `mountinfo`; others are left out.
    pub fn all(mountinfo: &[u8]) -> impl Iterator<Item = Self> {
        mountinfo.split(|&byte| byte == b'\n').filter_map(Self::of_line)
    }

    fn of_line(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ').map(unescaped);
        let mut next = || fields.next();
        let (id, _parent, number) = (number(next()?)?, next()?, next()?.into_os_string().into_string().ok()?);
        let number = device_number::parse(&number)?;
        let (root, place) = (next()?, next()?);
        // The mount's own options, and fields that newer kernels add, end with a field of their own.
        while next()?.as_os_str() != "-" {}
        let text = |field: PathBuf| field.to_string_lossy().into_owned();
        Some(Self {
            id,
            number,
            root,
            place,
            kind: text(next()?),
            source: next()?,
            options: text(next().unwrap_or_default()),
        })
    }
}

fn number(field: PathBuf) -> Option<u64> {
    field.to_str()?.parse().ok()
}

/// Decodes a name from `/proc`, in which characters that would end a field are a backslash and three octal digits.
pub fn unescaped(field: &[u8]) -> PathBuf {
    let mut name = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(&byte) = rest.next() {
        name.push(match (byte, rest.as_slice()) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                rest = after.iter();
                (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')
            }
            _ => byte,
        });
    }
    OsString::from_vec(name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_those_of_another_form_left_out() {
        let text = b"36 35 0:31 /@home /srv/my\\040data rw,noatime shared:9 master:1 - btrfs /dev/sda2 rw,subvol=/@home\n\
            37 35 8:1 / /srv rw\nx 35 8:1 / /srv rw - ext4 /dev/sda1 rw\n38 35 8:1 / /a rw - ext4 /dev/sda1 rw\n";
        let [home, other] = &Mount::all(text).collect::<Vec<_>>()[..] else {
            panic!("two lines have all fields")
        };
        let expected = Mount {
            id: 36,
            number: (0, 31),
            root: "/@home".into(),
            place: "/srv/my data".into(),
            kind: "btrfs".into(),
            source: "/dev/sda2".into(),
            options: "rw,subvol=/@home".into(),
        };
        assert_eq!((home, other.id), (&expected, 38));
        assert!(Mount::seen_by("self").iter().any(|mount| mount.place == Path::new("/")));
    }

    #[test]
    fn only_complete_escapes_are_decoded() {
        for (field, name) in [("/a\\040b", "/a b"), ("/\\134040", "/\\040"), ("/\\9\\4", "/\\9\\4")] {
            assert_eq!(unescaped(field.as_bytes()), Path::new(name));
        }
    }
}
