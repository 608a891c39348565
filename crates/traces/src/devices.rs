//! The devices of a recording, by the format's names for them.

use std::collections::HashMap;

use elevator::text::counted;
use serde::Serialize;

use crate::options::DeviceChoice;
use crate::record::DeviceId;

/// Upper bound for devices: more than any valid recording has.
pub(crate) const DEVICES_MAX: usize = 65_536;
const NAME_BYTES_MAX: usize = 4_096;

/// A format's name for a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key<'a> {
    /// A number: DiskSim's devno, an ASU, a volume.
    Number(u64),
    /// Linux's major and minor number.
    Pair(u32, u32),
    /// A file name, or host and disk.
    Name(&'a [u8]),
}

/// A [`Key`] that another thread records.
pub(crate) enum OwnedKey {
    Number(u64),
    Pair(u32, u32),
    Name(Box<[u8]>),
}

impl OwnedKey {
    fn of(key: Key<'_>) -> Self {
        match key {
            Key::Number(number) => Self::Number(number),
            Key::Pair(major, minor) => Self::Pair(major, minor),
            Key::Name(name) => Self::Name(name.into()),
        }
    }

    pub(crate) fn as_key(&self) -> Key<'_> {
        match self {
            Self::Number(number) => Key::Number(*number),
            Self::Pair(major, minor) => Key::Pair(*major, *minor),
            Self::Name(name) => Key::Name(name),
        }
    }
}

/// A device and its number of requests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DeviceEntry {
    /// The name, as [`DeviceChoice::Named`] expects it.
    pub name: String,
    /// Requests so far, also of devices that are not chosen.
    pub requests: u64,
    #[serde(skip)]
    pub(crate) chosen: bool,
}

/// The mapping between names and dense ids.
#[derive(Default)]
pub(crate) struct Devices {
    entries: Vec<DeviceEntry>,
    numbers: HashMap<u64, u32>,
    pairs: HashMap<(u32, u32), u32>,
    names: HashMap<Box<[u8]>, u32>,
    /// Numbers with their ids, by the lowest bits: a fleet's volumes alternate from line to line, and mostly have numbers near each other.
    recent: Vec<(u32, u32)>,
    /// As `recent`, of pairs and of names.
    recent_pairs: Vec<((u32, u32), u32)>,
    recent_names: Vec<(Box<[u8]>, u32)>,
    /// New devices, to be recorded by another context, if so.
    log: Option<Vec<OwnedKey>>,
}

/// Places of [`Devices::recent`]: Tencent's volumes, of which thousands alternate, have numbers below it.
const RECENT: usize = 32_768;

/// Places of [`Devices::recent_pairs`] and [`Devices::recent_names`].
const RECENT_OTHERS: usize = 64;

const fn place(number: u32) -> usize {
    number as usize % RECENT
}

/// Minor numbers of disks are often multiples of 16.
const fn place_of_pair((major, minor): (u32, u32)) -> usize {
    major.wrapping_add(minor).wrapping_add(minor >> 4) as usize % RECENT_OTHERS
}

/// Names often differ in their last bytes.
fn place_of_name(name: &[u8]) -> usize {
    let last = name.iter().rev().take(3).fold(0, |all, byte| 5 * all + usize::from(*byte));
    (name.len() + last) % RECENT_OTHERS
}

/// An id that no device has.
const NO_ID: u32 = u32::MAX;

impl Devices {
    /// The id of `key`, a new one if it is the first occurrence; `None` beyond [`DEVICES_MAX`].
    #[inline(always)]
    pub(crate) fn intern(&mut self, key: Key<'_>, choice: &DeviceChoice) -> Option<DeviceId> {
        match self.find_recent(key) {
            Some(id) if id != NO_ID => Some(DeviceId(id)),
            _ => self.intern_other(key, choice),
        }
    }

    #[inline(always)]
    fn find_recent(&self, key: Key<'_>) -> Option<u32> {
        match key {
            Key::Number(number) => {
                let number = u32::try_from(number).ok()?;
                let (recent, id) = self.recent.get(place(number))?;
                (*recent == number).then_some(*id)
            }
            Key::Pair(major, minor) => {
                let pair = (major, minor);
                let (recent, id) = self.recent_pairs.get(place_of_pair(pair))?;
                (*recent == pair).then_some(*id)
            }
            Key::Name(name) => {
                let (recent, id) = self.recent_names.get(place_of_name(name))?;
                (**recent == *name).then_some(*id)
            }
        }
    }

    /// As [`intern`](Self::intern), of a key that is not among the recent ones.
    #[inline(never)]
    fn intern_other(&mut self, key: Key<'_>, choice: &DeviceChoice) -> Option<DeviceId> {
        let id = match self.find(key) {
            Some(id) => id,
            None => self.add(key, choice)?,
        };
        match key {
            Key::Number(number) => {
                // Larger ones are rare.
                if let Ok(number) = u32::try_from(number) {
                    self.recent.resize(RECENT, (0, NO_ID));
                    self.recent[place(number)] = (number, id);
                }
            }
            Key::Pair(major, minor) => {
                self.recent_pairs.resize(RECENT_OTHERS, ((0, 0), NO_ID));
                self.recent_pairs[place_of_pair((major, minor))] = ((major, minor), id);
            }
            Key::Name(name) => {
                self.recent_names.resize(RECENT_OTHERS, (Box::default(), NO_ID));
                self.recent_names[place_of_name(name)] = (name.into(), id);
            }
        }
        Some(DeviceId(id))
    }

    fn find(&self, key: Key<'_>) -> Option<u32> {
        match key {
            Key::Number(number) => self.numbers.get(&number),
            Key::Pair(major, minor) => self.pairs.get(&(major, minor)),
            Key::Name(name) => self.names.get(name),
        }
        .copied()
    }

    fn add(&mut self, key: Key<'_>, choice: &DeviceChoice) -> Option<u32> {
        let name = match key {
            Key::Number(number) => number.to_string(),
            Key::Pair(major, minor) => format!("{major},{minor}"),
            Key::Name(name) => String::from_utf8_lossy(name).replace(',', "."),
        };
        if self.entries.len() >= DEVICES_MAX || name.len() > NAME_BYTES_MAX {
            return None;
        }
        let id = self.entries.len() as u32;
        if let Some(log) = &mut self.log {
            log.push(OwnedKey::of(key));
        }
        match key {
            Key::Number(number) => self.numbers.insert(number, id),
            Key::Pair(major, minor) => self.pairs.insert((major, minor), id),
            Key::Name(name) => self.names.insert(name.into(), id),
        };
        let chosen = match choice {
            DeviceChoice::Named(wanted) => *wanted == name || wanted.replace(':', ",") == name,
            DeviceChoice::Single | DeviceChoice::All => true,
        };
        self.entries.push(DeviceEntry { name, requests: 0, chosen });
        Some(id)
    }

    /// Records new devices for another context from now on.
    pub(crate) fn log(&mut self) {
        self.log = Some(Vec::new());
    }

    #[inline]
    pub(crate) fn has_log(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.is_empty())
    }

    pub(crate) fn take_log(&mut self) -> impl Iterator<Item = OwnedKey> {
        self.log.iter_mut().flat_map(|log| log.drain(..))
    }

    pub(crate) fn entries(&self) -> &[DeviceEntry] {
        &self.entries
    }

    /// Counts a request; returns whether its device is chosen.
    #[inline]
    pub(crate) fn count(&mut self, id: DeviceId) -> bool {
        let entry = &mut self.entries[id.0 as usize];
        entry.requests += 1;
        entry.chosen
    }

    /// Counts requests of a device that is not read.
    #[cfg(feature = "parquet")]
    pub(crate) fn count_many(&mut self, id: DeviceId, requests: u64) {
        self.entries[id.0 as usize].requests += requests;
    }

    /// Number of devices with requests.
    pub(crate) fn in_use(&self) -> usize {
        self.entries.iter().filter(|entry| entry.requests > 0).count()
    }

    /// The busiest devices for a message: `'7,0' (12 requests), '7,1' (3 requests)`.
    pub(crate) fn list(&self) -> String {
        const LISTED: usize = 20;
        let mut used: Vec<_> = self.entries.iter().filter(|entry| entry.requests > 0).collect();
        used.sort_by_key(|entry| std::cmp::Reverse(entry.requests));
        let mut parts: Vec<_> = used
            .iter()
            .take(LISTED)
            .map(|entry| format!("'{}' ({})", entry.name, counted(entry.requests, "request")))
            .collect();
        if used.len() > LISTED {
            parts.push(format!("and {} more", used.len() - LISTED));
        }
        parts.join(", ")
    }
}
