//! The BPF program: loading, and reading its maps.

use std::io;

use aya::maps::{Array, HashMap, MapData, MapError, RingBuf};
use aya::{Btf, Ebpf, EbpfLoader};

use super::attached::{Attached, Awaited, is_present};
use super::owner::{Class, Owner, Transaction};
use crate::bpf::load::{attach, kernel_types, load_raw, map, refused};
use crate::error::Error;

/// GPL-2.0-only, with its source. See `bpf/README.md`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/causes.bpf.o");

/// `DEVICES` of the program.
pub(super) const DEVICES: usize = 8;

/// Bytes of `struct event` of the program.
pub(super) const EVENT_BYTES: usize = 48;

/// Programs without which nothing is attributed: the name and the tracepoint. The last one starts the accounting.
const NEEDED: [(&str, &str); 4] = [
    ("dirty_folio", "writeback_dirty_folio"),
    ("dirty_buffer", "block_dirty_buffer"),
    ("inode_start", "writeback_single_inode_start"),
    ("bio_queue", "block_bio_queue"),
];

/// Programs for one file system each, which may be a module, also one that is loaded later.
const OF_FILE_SYSTEMS: [(&str, &[(&str, &str)]); 3] = [
    (
        "ext4",
        &[
            ("da_write_end", "ext4_da_write_end"),
            ("ext4_inode", "ext4_mark_inode_dirty"),
            ("handle_stats", "jbd2_handle_stats"),
            ("start_commit", "jbd2_start_commit"),
        ],
    ),
    (
        "xfs",
        &[
            ("xfs_write", "xfs_file_buffered_write"),
            ("xfs_convert", "xfs_unwritten_convert"),
            ("xfs_file_size", "xfs_setfilesize"),
            ("xfs_commit", "xfs_trans_commit"),
            ("xfs_log_buf", "xfs_trans_log_buf"),
        ],
    ),
    (
        "btrfs",
        &[("btrfs_lookup", "btrfs_ordered_extent_lookup"), ("btrfs_commit", "btrfs_transaction_commit")],
    ),
];

/// What the program is set to.
pub(super) struct Settings {
    pub(super) devices: [u32; DEVICES],
    pub(super) by_cgroup: bool,
    pub(super) pages: u32,
    /// Memory for events, in bytes; `None` without events.
    pub(super) ring_bytes: Option<u32>,
    /// System calls whose writes can be held before they begin.
    pub(super) held_calls: &'static [libc::c_long],
}

/// The key of a total: the kind of its I/O, and the thread that submitted it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) owner: Owner,
    pub(super) class: Class,
    /// The process or kernel thread; 0 for the owner.
    pub(super) submitter: u32,
}

/// An account, as the program noted it.
pub(super) struct Noted {
    pub(super) owner: Owner,
    pub(super) name: String,
    pub(super) dirtied: u64,
}

/// The program, attached until this is dropped.
pub(super) struct Program {
    totals: HashMap<MapData, [u64; 2], [u64; 2]>,
    accounts: HashMap<MapData, u64, [u64; 4]>,
    shares: HashMap<MapData, [u64; 2], [u64; 2]>,
    lost: Array<MapData, u64>,
    events: RingBuf<MapData>,
    _attached: Attached,
}

impl Program {
    /// Loads and attaches; also returns what this kernel lacks.
    pub(super) fn open(settings: &Settings) -> Result<(Self, Vec<String>), Error> {
        let btf = kernel_types()?;
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("devices", &settings.devices, true)
            .override_global("by_cgroup", &u32::from(settings.by_cgroup), true)
            .override_global("stream", &u32::from(settings.ring_bytes.is_some()), true)
            .override_global("held", &bits(settings.held_calls), true)
            .map_max_entries("pages", settings.pages)
            .map_max_entries("events", settings.ring_bytes.unwrap_or(1 << 12))
            .load(OBJECT)
            .map_err(|error| refused("making BPF maps", error))?;
        let opened = |error: MapError| Error::kernel("opening the BPF maps", error);
        let mut notes = Vec::new();
        let layout = Array::try_from(map(&mut ebpf, "layout")?).map_err(opened)?;
        let mut awaited = Awaited { layout, file_systems: Vec::new() };
        for (file_system, programs) in OF_FILE_SYSTEMS {
            programs.iter().try_for_each(|(program, tracepoint)| load_raw(&mut ebpf, program, tracepoint))?;
            let mut left = programs;
            let error = awaited.attach(&mut ebpf, file_system, &mut left).err();
            if error.is_some() {
                awaited.file_systems.push((file_system, left));
            }
            if let Some(error) = error.filter(|_| is_present(file_system)) {
                notes.push(format!("{file_system}: journal and metadata stay unattributed ({error})"));
            }
        }
        if settings.ring_bytes.is_some() {
            attach_all(&mut ebpf, &[("drop_folio", "mm_filemap_delete_from_page_cache")], &btf)?;
        }
        attach_all(&mut ebpf, &NEEDED, &btf)?;
        let program = Self {
            totals: HashMap::try_from(map(&mut ebpf, "totals")?).map_err(opened)?,
            accounts: HashMap::try_from(map(&mut ebpf, "accounts")?).map_err(opened)?,
            shares: HashMap::try_from(map(&mut ebpf, "shares")?).map_err(opened)?,
            lost: Array::try_from(map(&mut ebpf, ".bss")?).map_err(opened)?,
            events: RingBuf::try_from(map(&mut ebpf, "events")?).map_err(opened)?,
            _attached: awaited.wait(ebpf)?,
        };
        Ok((program, notes))
    }

    pub(super) fn totals(&self) -> Result<Vec<(Key, [u64; 2])>, Error> {
        let parsed = |(key, total)| (parse(key), total);
        entries(&self.totals).map(|all| all.into_iter().map(parsed).collect())
    }

    /// All accounts that did anything.
    pub(super) fn accounts(&self) -> Result<Vec<Noted>, Error> {
        let noted = |(owner, [first, second, dirtied, _]): (u64, [u64; 4])| {
            let name = [first.to_le_bytes(), second.to_le_bytes()].concat();
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            Noted { owner: Owner::parse(owner), name: String::from_utf8_lossy(name).into_owned(), dirtied }
        };
        entries(&self.accounts).map(|all| all.into_iter().map(noted).collect())
    }

    /// The blocks of accounts in transactions.
    pub(super) fn shares(&self) -> Result<Vec<(Transaction, u64, u64)>, Error> {
        let parsed =
            |([transaction, account], [blocks, _]): ([u64; 2], [u64; 2])| match Owner::parse(transaction) {
                Owner::Transaction(transaction) => Some((transaction, account, blocks)),
                _ => None,
            };
        entries(&self.shares).map(|all| all.into_iter().filter_map(parsed).collect())
    }

    /// Amounts that found no room in the table of totals; of a stream, lost events.
    pub(super) fn lost(&self) -> Result<u64, Error> {
        self.lost.get(&0, 0).map_err(|error| Error::kernel("reading a BPF map", error))
    }

    /// The next event, as the program wrote it.
    pub(super) fn event(&mut self) -> Option<[u8; EVENT_BYTES]> {
        self.events.next()?[..].try_into().ok()
    }

    /// Removes a total that is final.
    pub(super) fn remove(&mut self, key: Key) {
        let _ = self.totals.remove(&[key.owner.raw(), u64::from(key.submitter) << 32 | key.class as u64]);
    }
}

fn attach_all(ebpf: &mut Ebpf, programs: &[(&str, &str)], btf: &Btf) -> Result<(), Error> {
    programs.iter().try_for_each(|(program, tracepoint)| attach(ebpf, program, tracepoint, btf))
}

/// The entries of a map to which the kernel adds meanwhile. One that moves away during the walk ends it early, and the rest follows at the
/// next one.
fn entries<K: aya::Pod, V: aya::Pod>(map: &HashMap<MapData, K, V>) -> Result<Vec<(K, V)>, Error> {
    let mut all = Vec::new();
    for entry in map.iter() {
        match entry {
            Ok(entry) => all.push(entry),
            Err(MapError::KeyNotFound) => {}
            Err(MapError::SyscallError(error)) if error.io_error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::kernel("reading a BPF map", error)),
        }
    }
    Ok(all)
}

/// A bit for each number below 512, as the program has them.
fn bits(numbers: &[libc::c_long]) -> [u64; 8] {
    let mut bits = [0; 8];
    for &number in numbers {
        bits[number as usize / 64] |= 1 << (number % 64);
    }
    bits
}

const fn parse([owner, rest]: [u64; 2]) -> Key {
    Key { owner: Owner::parse(owner), class: Class::parse(rest as u32), submitter: (rest >> 32) as u32 }
}
