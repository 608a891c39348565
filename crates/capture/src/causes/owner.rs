//! Owners of dirty pages, as `bpf/causes.bpf.c` encodes them.

/// Marks a transaction: then 31 bits of the device's number and 31 bits of the transaction's.
const TRANSACTION: u64 = 1 << 63;
/// Marks a kernel thread, by its number.
const KERNEL_THREAD: u64 = 1 << 62;
const NUMBER: u64 = 0x7fff_ffff;

/// Who a page or a request belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Owner {
    /// A process (thread group) or a cgroup, by its number.
    Account(u64),
    /// A kernel thread whose cause is unknown.
    KernelThread(u32),
    /// All accounts of a transaction.
    Transaction(Transaction),
}

/// A transaction of a journal; of XFS and btrfs, what was changed between two writes of the log or commits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Transaction {
    /// The file system's device: major << 20 | minor, without the highest bit.
    pub device: u32,
    /// Its number: the lowest 31 bits.
    pub number: u32,
}

impl Owner {
    pub(super) const fn parse(raw: u64) -> Self {
        if raw & TRANSACTION != 0 {
            let (device, number) = (raw >> 31 & NUMBER, raw & NUMBER);
            Self::Transaction(Transaction { device: device as u32, number: number as u32 })
        } else if raw & KERNEL_THREAD != 0 {
            Self::KernelThread(raw as u32)
        } else {
            Self::Account(raw)
        }
    }

    pub(super) const fn raw(self) -> u64 {
        match self {
            Self::Account(account) => account,
            Self::KernelThread(thread) => KERNEL_THREAD | thread as u64,
            Self::Transaction(Transaction { device, number }) => {
                TRANSACTION | (device as u64) << 31 | number as u64
            }
        }
    }
}

/// The kind of I/O.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Data of files, or of the device without a file system.
    Data,
    /// Metadata outside the journal.
    Metadata,
    Journal,
    /// Reads.
    Read,
}

impl Class {
    pub(super) const fn parse(raw: u32) -> Self {
        match raw {
            0 => Self::Data,
            1 => Self::Metadata,
            2 => Self::Journal,
            _ => Self::Read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_encoded_like_in_the_program() {
        assert_eq!(Owner::parse(1234), Owner::Account(1234));
        assert_eq!(Owner::parse(1 << 62 | 77), Owner::KernelThread(77));
        let raw = 1 << 63 | u64::from(7_u32 << 20 | 3) << 31 | 19;
        let transaction = Transaction { device: 7 << 20 | 3, number: 19 };
        assert_eq!(Owner::parse(raw), Owner::Transaction(transaction));
        assert_eq!(Owner::Transaction(transaction).raw(), raw);
    }
}
