//! The row groups of a file that is being written.

use std::io;
use std::sync::Arc;

/// Number of columns.
pub(super) const COLUMNS: usize = 10;

/// An encoded row group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// First byte in the file.
    pub(super) from: u64,
    pub(super) device: u32,
    pub(super) rows: u32,
    /// The first and the last time.
    pub(super) times: [i64; 2],
    pub(super) columns: [Chunk; COLUMNS],
}

/// A column of a group. Sizes are in bytes; a group is much smaller than 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Chunk {
    /// Size of the dictionary page; 0: none.
    pub(super) dictionary: u32,
    /// Size of all pages, which are not compressed.
    pub(super) bytes: u32,
    pub(super) encodings: i32,
    /// No row has a value.
    pub(super) is_empty: bool,
}

/// A place for the descriptions of row groups until the end of a file, for any number of [`ParquetWriter`](super::writer::ParquetWriter)s: in
/// memory, those of a fleet's month take gigabytes.
pub trait GroupStore: Send + Sync {
    /// Appends bytes; returns their position.
    ///
    /// # Errors
    /// They cannot be written.
    fn append(&self, bytes: &[u8]) -> io::Result<u64>;

    /// Reads bytes that were appended.
    ///
    /// # Errors
    /// They cannot be read.
    fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()>;
}

/// The groups of a file, in memory or in a store.
#[derive(Default)]
pub(super) struct Groups {
    kept: Vec<Group>,
    store: Option<Arc<dyn GroupStore>>,
    /// Numbers of the groups in the store.
    stored: Vec<u32>,
    rows: u64,
}

impl Groups {
    pub(super) fn in_store(store: Arc<dyn GroupStore>) -> Self {
        Self { store: Some(store), ..Self::default() }
    }

    pub(super) fn push(&mut self, group: Group) -> io::Result<()> {
        self.rows += u64::from(group.rows);
        match &self.store {
            None => self.kept.push(group),
            Some(store) => {
                let at = store.append(&group.to_bytes())? / Group::BYTES as u64;
                let at =
                    u32::try_from(at).map_err(|_| io::Error::other("more than 4294967295 row groups"))?;
                self.stored.push(at);
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len() + self.stored.len()
    }

    /// Rows of all groups.
    pub(super) const fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = io::Result<Group>> {
        let read = |at: &u32| {
            let mut bytes = [0; Group::BYTES];
            match &self.store {
                Some(store) => store.read(u64::from(*at) * Group::BYTES as u64, &mut bytes)?,
                None => return Err(io::ErrorKind::NotFound.into()),
            }
            Ok(Group::from_bytes(&bytes))
        };
        self.kept.iter().cloned().map(Ok).chain(self.stored.iter().map(read))
    }
}

impl Group {
    /// Length in a store.
    const BYTES: usize = 8 + 4 + 4 + 2 * 8 + COLUMNS * Chunk::BYTES;

    fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&self.from.to_le_bytes());
        put(&self.device.to_le_bytes());
        put(&self.rows.to_le_bytes());
        self.times.iter().for_each(|time| put(&time.to_le_bytes()));
        for chunk in &self.columns {
            put(&chunk.dictionary.to_le_bytes());
            put(&chunk.bytes.to_le_bytes());
            put(&chunk.encodings.to_le_bytes());
            put(&[u8::from(chunk.is_empty)]);
        }
        bytes
    }

    fn from_bytes(mut bytes: &[u8]) -> Self {
        let from = &mut bytes;
        let group =
            (u64::from_le_bytes(take(from)), u32::from_le_bytes(take(from)), u32::from_le_bytes(take(from)));
        let times = [(); 2].map(|()| i64::from_le_bytes(take(from)));
        let columns = [(); COLUMNS].map(|()| Chunk {
            dictionary: u32::from_le_bytes(take(from)),
            bytes: u32::from_le_bytes(take(from)),
            encodings: i32::from_le_bytes(take(from)),
            is_empty: take::<1>(from) == [1],
        });
        Self { from: group.0, device: group.1, rows: group.2, times, columns }
    }
}

impl Chunk {
    const BYTES: usize = 4 + 4 + 4 + 1;
}

/// The first bytes; zeros behind the end.
fn take<const N: usize>(from: &mut &[u8]) -> [u8; N] {
    let (first, rest) = from.split_first_chunk().map_or(([0; N], &[][..]), |(first, rest)| (*first, rest));
    *from = rest;
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_survives_the_store() {
        let chunk =
            |n: u32| Chunk { dictionary: n, bytes: 7 * n, encodings: -3, is_empty: n.is_multiple_of(2) };
        let mut columns = [Chunk::default(); COLUMNS];
        columns.iter_mut().zip(1..).for_each(|(column, n)| *column = chunk(n));
        let group = Group { from: 1 << 40, device: 70_000, rows: 9, times: [-1, i64::MAX], columns };
        assert_eq!(Group::from_bytes(&group.to_bytes()), group);
    }
}
