//! Where members of the structures of XFS and btrfs are: file systems are modules of some kernels, whose types are in files of their own.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::error::Error;

/// `enum member` of the program, in its order: the file system, the structure and its member.
pub(super) const MEMBERS: [(&str, &str, &str); 16] = [
    ("xfs", "xfs_trans", "t_mountp"),
    ("xfs", "xfs_mount", "m_super"),
    ("xfs", "xfs_mount", "m_log"),
    ("xfs", "xlog", "l_logBBstart"),
    ("xfs", "xlog", "l_logBBsize"),
    ("xfs", "xfs_buf_log_item", "bli_buf"),
    ("xfs", "xfs_buf", "b_rhash_key"),
    ("xfs", "xfs_buf", "b_target"),
    ("xfs", "xfs_buftarg", "bt_dev"),
    ("xfs", "xfs_inode", "i_vnode"),
    ("btrfs", "btrfs_inode", "vfs_inode"),
    ("btrfs", "btrfs_fs_info", "sb"),
    ("btrfs", "btrfs_fs_info", "fs_devices"),
    ("btrfs", "btrfs_fs_devices", "devices"),
    ("btrfs", "btrfs_device", "dev_list"),
    ("btrfs", "btrfs_device", "bdev"),
];

/// The offsets, in bytes, of a file system's members, with their numbers.
pub(super) fn offsets(types: &Path, file_system: &str) -> Result<Vec<(u32, u32)>, Error> {
    let wanted: Vec<_> = (0..).zip(MEMBERS).filter(|(_, (of, ..))| *of == file_system).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let read = |name: &str| {
        let path = types.join(name);
        fs::read(&path).map_err(|error| Error::kernel(format!("reading types ({})", path.display()), error))
    };
    let kernel = read("vmlinux")?;
    let module = match read(file_system) {
        Err(_) if !types.join(file_system).exists() => None,
        read => Some(read?),
    };
    let own = module.as_deref().unwrap_or(&kernel);
    let base = module.is_some().then_some(&kernel[..]);
    let names = wanted.iter().map(|&(_, (_, structure, member))| (structure, member));
    let found = Types::parse(own, base).and_then(|types| types.offsets(names));
    let found = found.ok_or_else(|| {
        Error::kernel(format!("types of {file_system}"), io::Error::from(io::ErrorKind::InvalidData))
    })?;
    let offset = |&(number, (_, structure, member)): &(u32, (&str, &str, &str))| {
        let missing = || Error::kernel(format!("struct {structure}"), format!("has no member {member}"));
        found.get(&(structure, member)).map(|&offset| (number, offset)).ok_or_else(missing)
    };
    wanted.iter().map(offset).collect()
}

/// Types in the format BTF (`Documentation/bpf/btf.rst`). Names of a module's types may be among the strings of the kernel's.
struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    base: &'a [u8],
}

/// Four bytes at a place.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The sections of types and of strings.
fn sections(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    const MAGIC: [u8; 2] = [0x9f, 0xeb];
    if bytes.get(..2)? != MAGIC {
        return None;
    }
    let header = word(bytes, 4)? as usize;
    let section = |offset: usize, length: usize| {
        let start = header + word(bytes, offset)? as usize;
        bytes.get(start..start + word(bytes, length)? as usize)
    };
    Some((section(8, 12)?, section(16, 20)?))
}

impl<'a> Types<'a> {
    fn parse(own: &'a [u8], base: Option<&'a [u8]>) -> Option<Self> {
        let (types, strings) = sections(own)?;
        let base = base.map_or(Some(&[][..]), |base| Some(sections(base)?.1))?;
        Some(Self { types, strings, base })
    }

    fn is_named(&self, offset: u32, name: &str) -> bool {
        let offset = offset as usize;
        let text = match offset.checked_sub(self.base.len()) {
            Some(own) => self.strings.get(own..),
            None => self.base.get(offset..),
        };
        text.and_then(|text| text.strip_prefix(name.as_bytes())).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The offsets of those members that exist.
    fn offsets<'n>(
        &self,
        wanted: impl Iterator<Item = (&'n str, &'n str)> + Clone,
    ) -> Option<HashMap<(&'n str, &'n str), u32>> {
        const STRUCT: u32 = 4;
        let mut found = HashMap::new();
        let mut at = 0;
        while at < self.types.len() {
            let (name, info) = (word(self.types, at)?, word(self.types, at + 4)?);
            let (kind, count, has_bits) = (info >> 24 & 0x1f, (info & 0xffff) as usize, info >> 31 == 1);
            at += 12;
            if kind == STRUCT {
                for (structure, member) in
                    wanted.clone().filter(|(structure, _)| self.is_named(name, structure))
                {
                    for nth in 0..count {
                        let (name, offset) =
                            (word(self.types, at + nth * 12)?, word(self.types, at + nth * 12 + 8)?);
                        if self.is_named(name, member) {
                            let bits = if has_bits { offset & 0x00ff_ffff } else { offset };
                            found.insert((structure, member), bits / 8);
                        }
                    }
                }
            }
            at += following(kind)? * if has_one(kind) { 1 } else { count };
        }
        Some(found)
    }
}

/// Bytes that follow the common part of a type: for each of its members, or once (`has_one`).
const fn following(kind: u32) -> Option<usize> {
    Some(match kind {
        // Pointers, declarations, typedefs and qualifiers, functions, floats, tags.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Enumerations, parameters.
        6 | 13 => 8,
        // Arrays, structures, unions, sections, enumerations of 64 bits.
        3..=5 | 15 | 19 => 12,
        _ => return None,
    })
}

const fn has_one(kind: u32) -> bool {
    matches!(kind, 1 | 3 | 14 | 17)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn btf(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let length = types.len() as u32 * 4;
        let header = [0x0001_eb9f, 24, 0, length, length, strings.len() as u32];
        let words = header.iter().chain(types).flat_map(|word| word.to_le_bytes());
        words.chain(strings.iter().copied()).collect()
    }

    #[test]
    fn a_member_is_found_among_a_modules_types_with_names_of_the_kernels() {
        let kernel = btf(&[], b"\0m_super\0");
        // An integer, then `struct xfs_mount { a; m_super; }`; its own strings begin at 9.
        let (int, mount) = (1 << 24, 4 << 24 | 2);
        let types = [0, int, 4, 32, 9, mount, 16, 19, 1, 0, 1, 1, 64];
        let module = btf(&types, b"xfs_mount\0a\0");
        let types = Types::parse(&module, Some(&kernel)).unwrap();
        let wanted = [("xfs_mount", "m_super"), ("xfs_mount", "b"), ("xfs", "a")];
        let found = types.offsets(wanted.into_iter()).unwrap();
        assert_eq!(found, HashMap::from([(("xfs_mount", "m_super"), 8)]));
    }

    #[test]
    fn incomplete_types_are_an_error() {
        assert!(Types::parse(b"\x9f\xeb\x01", None).is_none());
        let types = btf(&[0, 31 << 24, 0], b"\0");
        assert!(Types::parse(&types, None).unwrap().offsets([("a", "b")].into_iter()).is_none());
    }
}
