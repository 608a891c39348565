//! md's superblock, version 1: the geometry of an array, as each of its members has it.
//!
//! Source: Linux `include/uapi/linux/raid/md_p.h` (`struct mdp_superblock_1`), `drivers/md/md.c` (`super_1_load`). All fields are
//! little-endian.

use elevator::{Sector, Sectors};

use super::geometry::MEMBERS_MAX;
use super::layout::{Arrangement, ArrayLayoutError, Layout};

/// Bytes that a superblock takes at most with all roles.
pub const BYTES: usize = 4096;

/// `MD_SB_MAGIC`.
const MAGIC: u32 = 0xa92b_4efc;

/// Where the roles begin; `dev_roles` of the structure.
const ROLES: usize = 256;

/// Roles from here on are no member: spare, faulty, journal.
const ROLES_MAX: u16 = 0xfffd;

/// Left-symmetric parity: `ALGORITHM_LEFT_SYMMETRIC`.
const LEFT_SYMMETRIC: u32 = 2;

/// Bits of `feature_map` under which the fields do not describe the whole layout: a reshape is in progress, or the array is in a cluster.
const RESHAPE: u32 = 4;
const CLUSTERED: u32 = 256;

/// What a member's superblock states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Identifies the array.
    pub array: [u8; 16],
    /// Identifies the member.
    pub device: [u8; 16],
    /// The array's name.
    pub name: String,
    /// The member's place in the array; `None` for a spare, a faulty device or a journal.
    pub role: Option<u32>,
    /// The array's event counter: the superblock with the greatest one is the newest.
    pub events: u64,
    /// The layout.
    pub layout: Layout,
}

/// Why bytes are no usable superblock.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuperblockError {
    /// There is no superblock of version 1.
    #[error("there is no md superblock of version 1.0, 1.1 or 1.2 (mdadm creates 1.2 by default)")]
    Absent,
    /// The checksum is wrong.
    #[error("the md superblock's checksum is wrong")]
    Checksum,
    /// A field is out of range.
    #[error("the md superblock is damaged: {0}")]
    Damaged(&'static str),
    /// The layout is none that the coordinator handles.
    #[error("{0}; dwell coordinates RAID 0, 1, 10 (near copies), and left-symmetric RAID 5 and 6")]
    Unsupported(String),
    /// The layout is impossible.
    #[error(transparent)]
    Layout(#[from] ArrayLayoutError),
}

/// The sectors at which a superblock may be on a device of this size: versions 1.2, 1.1, 1.0.
#[must_use]
pub fn places(capacity: Sector) -> [Sector; 3] {
    // `super_1_load`: at least 8 KiB from the end, aligned to 4 KiB.
    [Sector(8), Sector(0), Sector(capacity.0.saturating_sub(16) & !7)]
}

/// Bytes by which a superblock of version 0.90 is recognised.
pub const OLD_BYTES: usize = 512;

/// The sector of a superblock of version 0.90, `MD_NEW_SIZE_SECTORS`: 64 KiB before the end, aligned to 64 KiB. `None` on a device that is too
/// small for one.
#[must_use]
pub const fn old_place(capacity: Sector) -> Option<Sector> {
    match (capacity.0 & !127).checked_sub(128) {
        Some(sector) => Some(Sector(sector)),
        None => None,
    }
}

/// Whether `bytes` begin with a superblock of version 0.90 (`mdp_super_t`), in either byte order: this version has that of its machine. Its
/// fields are not read.
#[must_use]
pub fn is_old(bytes: &[u8]) -> bool {
    let field = Fields(bytes);
    let words = [0, 4, 8].map(|at| field.u32(at));
    words == [Some(MAGIC), Some(0), Some(90)] || words == [MAGIC, 0, 90].map(|word| Some(word.swap_bytes()))
}

impl Superblock {
    /// Reads the superblock that `bytes` begin with, found at the sector `at`.
    ///
    /// # Errors
    /// There is none, it is damaged, or its layout is not supported.
    pub fn parse(bytes: &[u8], at: Sector) -> Result<Self, SuperblockError> {
        let field = Fields(bytes);
        if field.u32(0) != Some(MAGIC) || field.u32(4) != Some(1) {
            return Err(SuperblockError::Absent);
        }
        let damaged = SuperblockError::Damaged;
        let short = || damaged("it is cut off");
        let max_dev = field.u32(220).ok_or_else(short)? as usize;
        if max_dev > (BYTES - ROLES) / 2 {
            return Err(damaged("it lists too many devices"));
        }
        let whole = bytes.get(..ROLES + max_dev * 2).ok_or_else(short)?;
        if field.u64(144) != Some(at.0) {
            return Err(damaged("it is not at the sector that it states"));
        }
        if checksum(whole) != field.u32(216).ok_or_else(short)? {
            return Err(SuperblockError::Checksum);
        }
        let features = field.u32(8).ok_or_else(short)?;
        if features & (RESHAPE | CLUSTERED) != 0 {
            return Err(SuperblockError::Unsupported("the array is being reshaped, or is clustered".into()));
        }
        let members = field.u32(92).filter(|&members| members <= MEMBERS_MAX);
        let members = members.ok_or_else(|| damaged("it has too many members"))?;
        let chunk = field.u32(88).ok_or_else(short)?;
        let arrangement =
            arrangement(field.u32(72).ok_or_else(short)? as i32, field.u32(76).ok_or_else(short)?)?;
        let (start, size) = (field.u64(128).ok_or_else(short)?, field.u64(136).ok_or_else(short)?);
        if start.checked_add(size).is_none_or(|end| end > 1 << 55) {
            return Err(damaged("its data end behind every device"));
        }
        let layout = Layout::new(arrangement, members, Sectors(chunk), start, size)?;
        let number = field.u32(160).ok_or_else(short)? as usize;
        let role = (number < max_dev).then(|| field.u16(ROLES + number * 2)).flatten();
        let role = role.filter(|&role| role < ROLES_MAX).map(u32::from);
        if role.is_some_and(|role| role >= members) {
            return Err(damaged("the device's place is not in the array"));
        }
        let name = field.bytes(32, 32).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(Self {
            array: field.id(16),
            device: field.id(168),
            name: String::from_utf8_lossy(name).into_owned(),
            role,
            events: field.u64(200).ok_or_else(short)?,
            layout,
        })
    }
}

fn arrangement(level: i32, layout: u32) -> Result<Arrangement, SuperblockError> {
    let unsupported = |what: String| Err(SuperblockError::Unsupported(what));
    match (level, layout) {
        (0, _) => Ok(Arrangement::Striped),
        (1, _) => Ok(Arrangement::Mirrored),
        (5, LEFT_SYMMETRIC) => Ok(Arrangement::Parity(1)),
        (6, LEFT_SYMMETRIC) => Ok(Arrangement::Parity(2)),
        // Bits 0 to 7: near copies; 8 to 15: far copies; above: how those are placed.
        (10, layout) if layout >> 8 == 1 && (1..=16).contains(&(layout & 0xff)) => {
            Ok(Arrangement::Near(layout & 0xff))
        }
        (10, _) => unsupported("RAID 10 with far or offset copies".into()),
        (5 | 6, layout) => unsupported(format!("RAID {level} with parity layout {layout}")),
        (level, _) => unsupported(format!("md level {level}")),
    }
}

/// `calc_sb_1_csum`: the sum of 32-bit words, and of a last 16-bit word, with the checksum's own field as 0.
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = 0_u64;
    for (index, word) in bytes.chunks(4).enumerate() {
        sum += match *word {
            [..] if index == 216 / 4 => 0,
            [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
            [a, b, ..] => u64::from(u16::from_le_bytes([a, b])),
            _ => 0,
        };
    }
    ((sum & 0xffff_ffff) + (sum >> 32)) as u32
}

/// Fields of a structure by their offset.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes(&self, at: usize, length: usize) -> Option<&[u8]> {
        self.0.get(at..at + length)
    }

    fn id(&self, at: usize) -> [u8; 16] {
        self.bytes(at, 16).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.bytes(at, 2)?.try_into().ok().map(u16::from_le_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.bytes(at, 4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.bytes(at, 8)?.try_into().ok().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use elevator::Random;

    use super::*;

    /// A superblock as mdadm writes it: version 1.2, five members, 64 KiB.
    fn sample(level: i32, layout: u32, number: u32) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC.to_le_bytes());
        put(4, &1_u32.to_le_bytes());
        put(16, &[7; 16]);
        put(32, b"host:fast");
        put(72, &level.to_le_bytes());
        put(76, &layout.to_le_bytes());
        put(88, &128_u32.to_le_bytes());
        put(92, &5_u32.to_le_bytes());
        put(128, &2048_u64.to_le_bytes());
        put(136, &1_000_000_u64.to_le_bytes());
        put(144, &8_u64.to_le_bytes());
        put(160, &number.to_le_bytes());
        put(168, &[9; 16]);
        put(200, &17_u64.to_le_bytes());
        put(220, &8_u32.to_le_bytes());
        for (place, role) in [0_u16, 1, 0xffff, 2, 3, 4, 0xfffe, 0xffff].iter().enumerate() {
            put(ROLES + place * 2, &role.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    fn seal(bytes: &mut [u8]) {
        let listed = u32::from_le_bytes(bytes[220..224].try_into().unwrap()) as usize;
        let sum = checksum(&bytes[..(ROLES + listed * 2).min(BYTES)]);
        bytes[216..220].copy_from_slice(&sum.to_le_bytes());
    }

    #[test]
    fn members_and_spares_are_read() {
        let found = Superblock::parse(&sample(5, LEFT_SYMMETRIC, 3), Sector(8)).unwrap();
        assert_eq!((found.role, found.events, found.name.as_str()), (Some(2), 17, "host:fast"));
        assert_eq!(found.layout.to_string(), "raid5 of 5 members, stripe unit 64 KiB");
        assert_eq!((found.array, found.device), ([7; 16], [9; 16]));
        for spare in [2, 6, 7, 8, u32::MAX] {
            assert_eq!(Superblock::parse(&sample(5, LEFT_SYMMETRIC, spare), Sector(8)).unwrap().role, None);
        }
    }

    #[test]
    fn every_level_has_its_arrangement() {
        for (level, layout, expected) in
            [(0, 0, "raid0"), (1, 0, "raid1"), (6, 2, "raid6"), (10, 0x102, "raid10")]
        {
            let found = Superblock::parse(&sample(level, layout, 0), Sector(8)).unwrap();
            assert_eq!(found.layout.arrangement().to_string(), expected);
        }
        for (level, layout) in [(5, 0), (10, 0x201), (10, 0x2_0101), (4, 0), (-1, 0), (10, 0)] {
            let error = Superblock::parse(&sample(level, layout, 0), Sector(8)).unwrap_err();
            assert!(matches!(error, SuperblockError::Unsupported(_)), "{level} {layout}: {error}");
        }
    }

    #[test]
    fn what_is_no_superblock_is_refused_by_name() {
        let good = sample(0, 0, 0);
        let parse = |bytes: &[u8], at| Superblock::parse(bytes, Sector(at)).unwrap_err().to_string();
        assert!(parse(&[0; BYTES], 8).contains("no md superblock"));
        assert!(parse(&[], 8).contains("no md superblock"));
        assert!(parse(&good[..200], 8).contains("cut off"));
        assert!(parse(&good, 0).contains("not at the sector"));
        let mut flipped = good;
        flipped[32] ^= 1;
        assert!(parse(&flipped, 8).contains("checksum"));
    }

    /// Any bytes with a right checksum: the parser returns, and a layout that it returns maps every sector.
    #[test]
    fn changed_superblocks_do_no_harm() {
        let mut random = Random::new(36);
        let mut accepted = 0;
        for _ in 0..200_000 {
            let mut bytes = sample([0, 1, 5, 6, 10][random.below(5) as usize], 2, random.below(9) as u32);
            for _ in 0..random.below(4) {
                let at = [random.below(512), 72 + random.below(80)][random.below(2) as usize] as usize;
                bytes[at] = random.below(256) as u8;
            }
            seal(&mut bytes);
            bytes.truncate(if random.below(8) == 0 { random.below(600) as usize } else { BYTES });
            let Ok(found) = Superblock::parse(&bytes, Sector(8)) else { continue };
            accepted += 1;
            for sector in [0, 8, 2048, 5_000_000, u64::MAX] {
                let _ = found.layout.logical(found.layout.members() - 1, Sector(sector));
            }
        }
        assert!(accepted > 10_000, "{accepted}");
    }

    #[test]
    fn version_0_90_is_recognised() {
        let block = |to_bytes: fn(u32) -> [u8; 4]| [MAGIC, 0, 90].map(to_bytes).concat();
        assert!(is_old(&block(u32::to_le_bytes)) && is_old(&block(u32::to_be_bytes)));
        assert!(!is_old(&sample(5, LEFT_SYMMETRIC, 0)) && !is_old(&[0; 512]) && !is_old(&[]));
        assert_eq!(old_place(Sector(1_000_003)), Some(Sector(999_808)));
        assert_eq!(old_place(Sector(100)), None);
    }

    #[test]
    fn the_last_place_is_aligned_and_within_the_device() {
        assert_eq!(places(Sector(1_000_003))[2], Sector(999_984));
        assert_eq!(places(Sector(3))[2], Sector(0));
    }
}
