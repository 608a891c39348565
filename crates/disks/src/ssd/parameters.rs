//! Parameters of a solid-state drive: whole numbers with their unit in the name.

use serde::{Deserialize, Serialize};

/// The unit of the address mapping and of the write buffer: 4 KiB, in sectors.
pub(crate) const PAGE_SECTORS: u64 = 8;

/// A solid-state drive. Omitted fields have the defaults of [`SsdParameters::default`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdParameters {
    /// Name.
    pub name: String,
    /// Size in sectors of 512 bytes; 8 (one mapping page) to 2^40.
    pub capacity_sectors: u64,
    /// Commands accepted at once, 1 to 1024.
    #[serde(default = "defaults::depth")]
    pub depth: u32,
    /// A flush may be queued with other commands (NVMe). Otherwise (SATA) a host submits a flush only while no other command is in the
    /// drive, and no other command until it has completed.
    #[serde(default)]
    pub queued_flush: bool,
    /// The interface and the controller behind it.
    #[serde(default)]
    pub host: HostParameters,
    /// The flash chips.
    #[serde(default)]
    pub flash: FlashParameters,
    /// The write buffer.
    #[serde(default)]
    pub write_buffer: WriteBufferParameters,
    /// The mapping of logical pages to flash.
    #[serde(default)]
    pub translation: TranslationParameters,
}

/// The interface and the controller behind it. Default: SATA at 6 Gbit/s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostParameters {
    /// Time for which each command occupies the controller, which limits the commands per second; 0 to 10^9.
    pub command_ns: u64,
    /// Latency that interface and firmware add to each command without occupying the controller; 0 to 10^9.
    pub latency_ns: u64,
    /// Rate of the interface in 10^6 bytes per second; 1 to 10^6.
    pub megabytes_per_second: u64,
    /// Reads and writes have separate paths (PCI Express) instead of a common one (SATA).
    pub full_duplex: bool,
}

/// The flash chips. Default: 8 channels of 4 dies of TLC flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlashParameters {
    /// Number of channels between controller and dies; 1 to 64.
    pub channels: u32,
    /// Independent dies on each channel; 1 to 64.
    pub dies_per_channel: u32,
    /// Planes of a die, programmed and erased together; 1 to 8.
    pub planes: u32,
    /// Size of a plane's page: a multiple of 4096, at most 65536.
    pub page_bytes: u32,
    /// Pages of a block, which are erased together; 1 to 65536.
    pub pages_per_block: u32,
    /// Time to read one page into the die's register; 0 to 10^9.
    pub page_read_ns: u64,
    /// Time to program one page of each plane; 0 to 10^9.
    pub page_program_ns: u64,
    /// Time to erase one block of each plane; 0 to 10^9.
    pub block_erase_ns: u64,
    /// Rate of a channel in 10^6 bytes per second; 1 to 10^6.
    pub channel_megabytes_per_second: u64,
    /// How often a program or an erase may be suspended for reads; 0: reads wait for its end.
    pub suspends_per_operation: u32,
    /// Time to suspend an operation; 0 to 10^9.
    pub suspend_ns: u64,
    /// Time to resume an operation; 0 to 10^9.
    pub resume_ns: u64,
    /// Reads that a die serves in a row while a program or an erase waits; at least 1.
    pub reads_before_program: u32,
}

/// The write buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WriteBufferParameters {
    /// Size: at least two programs (planes times page size), at most 2^32.
    pub bytes: u64,
    /// Writes complete in the buffer; otherwise on flash.
    pub write_cache: bool,
    /// The buffer survives a loss of power, so that flushes and FUA do not wait.
    pub power_loss_protection: bool,
}

/// The mapping of logical pages to flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TranslationParameters {
    /// Flash beyond the capacity, in percent of the capacity; 1 to 400.
    pub over_provisioning_percent: u32,
    /// The share of the drive, from its first sector, that holds data at the start, in percent; 0 to 100.
    pub filled_percent: u32,
    /// A drive with at most this many pages is tracked completely, otherwise one page in 2^n; 1024 to 2^28.
    pub tracked_pages_max: u32,
}

mod defaults {
    pub(super) const fn depth() -> u32 {
        32
    }
}

impl Default for HostParameters {
    fn default() -> Self {
        Self { command_ns: 10_000, latency_ns: 15_000, megabytes_per_second: 550, full_duplex: false }
    }
}

impl Default for FlashParameters {
    fn default() -> Self {
        Self {
            channels: 8,
            dies_per_channel: 4,
            planes: 2,
            page_bytes: 16_384,
            pages_per_block: 768,
            page_read_ns: 60_000,
            page_program_ns: 700_000,
            block_erase_ns: 4_000_000,
            channel_megabytes_per_second: 533,
            suspends_per_operation: 0,
            suspend_ns: 20_000,
            resume_ns: 20_000,
            reads_before_program: 16,
        }
    }
}

/// 16 MiB, volatile.
impl Default for WriteBufferParameters {
    fn default() -> Self {
        Self { bytes: 16 << 20, write_cache: true, power_loss_protection: false }
    }
}

/// 7% over-provisioning, full from the start, four million pages tracked (32 MB of memory).
impl Default for TranslationParameters {
    fn default() -> Self {
        Self { over_provisioning_percent: 7, filled_percent: 100, tracked_pages_max: 1 << 22 }
    }
}

/// A generic SATA drive of 500 GB.
impl Default for SsdParameters {
    fn default() -> Self {
        Self {
            name: "ssd".to_owned(),
            capacity_sectors: 976_773_168,
            depth: defaults::depth(),
            queued_flush: false,
            host: HostParameters::default(),
            flash: FlashParameters::default(),
            write_buffer: WriteBufferParameters::default(),
            translation: TranslationParameters::default(),
        }
    }
}

/// Why a solid-state drive is impossible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SsdError {
    /// A field is out of range.
    #[error("{field} must lie between {min} and {max}, not {value}")]
    Range {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Flash pages are not a multiple of mapping pages.
    #[error("flash.page_bytes must be a multiple of 4096, not {0}")]
    PageBytes(u32),
    /// Garbage collection needs more spare superblocks.
    #[error(
        "over-provisioning of {spare} superblocks (one block of each plane of each die) is too little to collect \
         garbage, which takes at least {needed}: raise translation.over_provisioning_percent or lower flash.pages_per_block"
    )]
    OverProvisioning {
        /// Number of spare superblocks.
        spare: u64,
        /// Required number.
        needed: u64,
    },
}

impl SsdParameters {
    /// Checks the range of every field.
    pub(super) fn check(&self) -> Result<(), SsdError> {
        let (host, flash, buffer, map) = (&self.host, &self.flash, &self.write_buffer, &self.translation);
        let second = 1_000_000_000;
        let ranges: [(&'static str, u64, u64, u64); 21] = [
            ("capacity_sectors", self.capacity_sectors, PAGE_SECTORS, 1 << 40),
            ("depth", self.depth.into(), 1, 1024),
            ("host.command_ns", host.command_ns, 0, second),
            ("host.latency_ns", host.latency_ns, 0, second),
            ("host.megabytes_per_second", host.megabytes_per_second, 1, 1_000_000),
            ("flash.channels", flash.channels.into(), 1, 64),
            ("flash.dies_per_channel", flash.dies_per_channel.into(), 1, 64),
            ("flash.planes", flash.planes.into(), 1, 8),
            ("flash.page_bytes", flash.page_bytes.into(), 4096, 65_536),
            ("flash.pages_per_block", flash.pages_per_block.into(), 1, 65_536),
            ("flash.page_read_ns", flash.page_read_ns, 0, second),
            ("flash.page_program_ns", flash.page_program_ns, 0, second),
            ("flash.block_erase_ns", flash.block_erase_ns, 0, second),
            ("flash.channel_megabytes_per_second", flash.channel_megabytes_per_second, 1, 1_000_000),
            ("flash.suspend_ns", flash.suspend_ns, 0, second),
            ("flash.resume_ns", flash.resume_ns, 0, second),
            ("flash.reads_before_program", flash.reads_before_program.into(), 1, u64::from(u32::MAX)),
            ("write_buffer.bytes", buffer.bytes, 2 * flash.program_bytes(), 1 << 32),
            ("translation.over_provisioning_percent", map.over_provisioning_percent.into(), 1, 400),
            ("translation.filled_percent", map.filled_percent.into(), 0, 100),
            ("translation.tracked_pages_max", map.tracked_pages_max.into(), 1024, 1 << 28),
        ];
        for (field, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(SsdError::Range { field, value, min, max });
            }
        }
        let whole = flash.page_bytes.is_multiple_of(4096);
        if whole { Ok(()) } else { Err(SsdError::PageBytes(flash.page_bytes)) }
    }

    /// Size in mapping pages.
    pub(super) fn pages(&self) -> u64 {
        self.capacity_sectors.div_ceil(PAGE_SECTORS)
    }
}

impl FlashParameters {
    /// Number of dies.
    pub(super) fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Mapping pages in a flash page.
    pub(super) fn pages_in_page(&self) -> u64 {
        u64::from(self.page_bytes) / (PAGE_SECTORS * 512)
    }

    /// Mapping pages written by one program.
    pub(super) fn pages_in_program(&self) -> u64 {
        self.pages_in_page() * u64::from(self.planes)
    }

    /// Bytes written by one program.
    fn program_bytes(&self) -> u64 {
        u64::from(self.page_bytes) * u64::from(self.planes)
    }

    /// Mapping pages in a superblock: one block of each plane of each die.
    pub(super) fn pages_in_superblock(&self) -> u64 {
        self.pages_in_program() * u64::from(self.pages_per_block) * u64::from(self.dies())
    }
}
