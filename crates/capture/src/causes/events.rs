//! Causes as they happen, for a host of split-level policies.

use std::path::Path;

use control::causes::{CauseEvent, WRITES};
use control::device_number::whole_disk;
use elevator::Sectors;
use elevator::split::File;

use super::owner::{Class, Owner};
use super::program::{EVENT_BYTES, Program, Settings};
use super::shares::Shares;
use super::{CausesOptions, observed};
use crate::error::Error;
use crate::file_system::number_of;

/// Memory between the kernel and the reader: 74,898 events of 48 bytes, each with a header of 8.
const RING_BYTES: u32 = 4 << 20;

const RUN: u16 = 1;
const DIRTIED: u16 = 2;
const SHARE: u16 = 3;
const DROPPED: u16 = 4;

/// Reports a device's causes until it is dropped.
pub struct CauseEvents {
    program: Program,
    shares: Shares,
    lost: u64,
}

impl CauseEvents {
    /// Observes the whole disk of a device node; also returns what this kernel lacks.
    pub fn open(device: &Path) -> Result<(Self, Vec<String>), Error> {
        let disk = whole_disk(number_of(device)?);
        let pages = CausesOptions::default().pages;
        let settings = Settings {
            devices: observed(disk),
            by_cgroup: false,
            pages,
            ring_bytes: Some(RING_BYTES),
            held_calls: WRITES,
        };
        let (program, notes) = Program::open(&settings)?;
        Ok((Self { program, shares: Shares::default(), lost: 0 }, notes))
    }

    /// Adds the events since the previous call. `false`: events were lost, and what was dirty before is unknown.
    pub fn take(&mut self, events: &mut Vec<CauseEvent>) -> Result<bool, Error> {
        let mut has_events = false;
        while let Some(bytes) = self.program.event() {
            has_events = true;
            events.extend(self.parse(&bytes));
        }
        // Events are lost only while the ring is full. The count costs a system call, and this is called for each request.
        if !has_events {
            return Ok(true);
        }
        let lost = self.program.lost()?;
        Ok(std::mem::replace(&mut self.lost, lost) == lost)
    }

    fn parse(&mut self, bytes: &[u8; EVENT_BYTES]) -> Option<CauseEvent> {
        // The program is built for little-endian machines only.
        let long = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| bytes[at + byte]));
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (owner, second, file, offset) = (Owner::parse(long(0)), long(8), long(16), long(24));
        let (sector, length, class) = (long(32), long(40) as u32, Class::parse(u32::from(short(46))));
        match short(44) {
            DIRTIED => {
                let file = file_of(class, file);
                let stored_by = Some(sector as u32).filter(|&thread| thread != 0);
                Some(CauseEvent::Dirtied {
                    process: self.process(owner),
                    file,
                    offset,
                    bytes: length,
                    stored_by,
                })
            }
            DROPPED => Some(CauseEvent::Dropped { file, offset, bytes: length }),
            SHARE => {
                if let Owner::Transaction(transaction) = owner {
                    self.shares.add(transaction, second, offset);
                }
                None
            }
            RUN => {
                let second = (second != 0).then(|| Owner::parse(second));
                let owners = [Some(owner), second].into_iter().flatten();
                let mut processes: Vec<u32> = owners.flat_map(|owner| self.processes(owner)).collect();
                processes.sort_unstable();
                processes.dedup();
                Some(CauseEvent::Submitted {
                    start: sector,
                    sectors: Sectors::from_bytes(u64::from(length)).0,
                    is_read: class == Class::Read,
                    is_data: class == Class::Data,
                    processes,
                    file: (matches!(class, Class::Data | Class::Metadata) && file != 0)
                        .then_some((file_of(class, file), offset)),
                })
            }
            _ => None,
        }
    }

    /// The process that made a page dirty. Metadata becomes dirty in the buffer cache when its transaction has committed: the process that changed
    /// most in it. The requests that write it are charged to all of them.
    fn process(&self, owner: Owner) -> Option<u32> {
        match owner {
            Owner::Account(account) => Some(account as u32),
            Owner::KernelThread(_) => None,
            Owner::Transaction(transaction) => self.shares.greatest(transaction),
        }
    }

    fn processes(&self, owner: Owner) -> Vec<u32> {
        match owner {
            Owner::Account(account) => vec![account as u32],
            Owner::KernelThread(_) => Vec::new(),
            Owner::Transaction(transaction) => self.shares.accounts(transaction),
        }
    }
}

/// The number of a page's file for policies. Changed metadata has its position on the device as its offset.
fn file_of(class: Class, inode: u64) -> u64 {
    if class == Class::Metadata { File::METADATA.0 } else { inode }
}
