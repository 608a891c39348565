//! What describes a solid-state drive: plain data, whole numbers, each with its unit in its name.

use serde::{Deserialize, Serialize};

/// The unit of the address mapping and of the write buffer: 4 KiB, in sectors.
pub(crate) const PAGE_SECTORS: u64 = 8;

/// A solid-state drive, completely. Absent fields have the defaults of [`SsdParameters::default`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdParameters {
    /// What it is called.
    pub name: String,
    /// Its size in sectors of 512 bytes; at least one mapping page of 8.
    pub capacity_sectors: u64,
    /// Commands it takes at once, 1 to 1024.
    #[serde(default = "defaults::depth")]
    pub depth: u32,
    /// A flush may be one of several commands (NVMe). If not (SATA), a host sends it when the drive has nothing else, and
    /// nothing beside it.
    #[serde(default)]
    pub queued_flush: bool,
    /// The interface and the controller behind it.
    #[serde(default)]
    pub host: HostParameters,
    /// The flash chips.
    #[serde(default)]
    pub flash: FlashParameters,
    /// Where written data waits for the flash.
    #[serde(default)]
    pub write_buffer: WriteBufferParameters,
    /// How logical pages are mapped to flash.
    #[serde(default)]
    pub translation: TranslationParameters,
}

/// The interface and the controller behind it. Default: SATA at 6 Gbit/s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostParameters {
    /// The controller is busy so long with each command; its inverse bounds the commands per second.
    pub command_ns: u64,
    /// What the interface and the firmware add to each command without being busy.
    pub latency_ns: u64,
    /// Data over the interface, in units of 10^6 bytes a second; at least 1.
    pub megabytes_per_second: u64,
    /// Reads and writes have a way each (PCI Express) and do not share one (SATA).
    pub full_duplex: bool,
}

/// The flash chips. Default: 8 channels of 4 dies of TLC flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlashParameters {
    /// Buses between controller and dies; 1 to 64.
    pub channels: u32,
    /// Dies on each of them, working independently; 1 to 64.
    pub dies_per_channel: u32,
    /// Planes of a die, programmed and erased together; 1 to 8.
    pub planes: u32,
    /// A plane's page: a multiple of 4096, at most 65536.
    pub page_bytes: u32,
    /// Pages that are erased together; 1 to 65536.
    pub pages_per_block: u32,
    /// From the cells of one page into the die's register.
    pub page_read_ns: u64,
    /// From the registers of all planes into the cells.
    pub page_program_ns: u64,
    /// A block of each plane.
    pub block_erase_ns: u64,
    /// Data over a channel, in units of 10^6 bytes a second; at least 1.
    pub channel_megabytes_per_second: u64,
    /// How often a program or an erase may be interrupted for reads; 0 makes them wait for its end.
    pub suspends_per_operation: u32,
    /// From the order to suspend until the die can read.
    pub suspend_ns: u64,
    /// From the order to resume until it works again.
    pub resume_ns: u64,
    /// Reads that a die serves in a row while a program or an erase waits; at least 1.
    pub reads_before_program: u32,
}

/// Where written data waits for the flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WriteBufferParameters {
    /// Its size: at least two programs (planes times page) of data, at most 2^32.
    pub bytes: u64,
    /// A write completes in the buffer; off, each waits for the flash.
    pub write_cache: bool,
    /// The buffer survives a loss of power: flushes and FUA have nothing to wait for.
    pub power_loss_protection: bool,
}

/// How logical pages are mapped to flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TranslationParameters {
    /// Flash beyond the capacity, in percent of the capacity; 1 to 400.
    pub over_provisioning_percent: u32,
    /// How much of the drive holds data from the start, from its first sector; 0 to 100.
    pub filled_percent: u32,
    /// The mapping tracks every page of a drive that has no more than this, else one in 2^n. 1024 to 2^28.
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

/// The default drive: a generic SATA one of 500 GB.
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
    /// A number is out of its range.
    #[error("{field} must lie between {min} and {max}, not {value}")]
    Range {
        /// Its name.
        field: &'static str,
        /// What it is.
        value: u64,
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// Pages do not fit the mapping.
    #[error("flash.page_bytes must be a multiple of 4096, not {0}")]
    PageBytes(u32),
    /// The over-provisioning is fewer superblocks than garbage collection needs.
    #[error(
        "over-provisioning of {spare} superblocks (one block of each plane of each die) is too little to collect \
         garbage, which takes at least {needed}: raise translation.over_provisioning_percent or lower flash.pages_per_block"
    )]
    OverProvisioning {
        /// What there is.
        spare: u64,
        /// What it takes.
        needed: u64,
    },
}

impl SsdParameters {
    /// Whether every field is in its range.
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

    /// Its size in mapping pages.
    pub(super) fn pages(&self) -> u64 {
        self.capacity_sectors.div_ceil(PAGE_SECTORS)
    }
}

impl FlashParameters {
    /// All dies.
    pub(super) fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Mapping pages in a page of flash.
    pub(super) fn pages_in_page(&self) -> u64 {
        u64::from(self.page_bytes) / (PAGE_SECTORS * 512)
    }

    /// Mapping pages that one program writes.
    pub(super) fn pages_in_program(&self) -> u64 {
        self.pages_in_page() * u64::from(self.planes)
    }

    /// What one program writes.
    fn program_bytes(&self) -> u64 {
        u64::from(self.page_bytes) * u64::from(self.planes)
    }

    /// Mapping pages in a superblock: one block of each plane of each die.
    pub(super) fn pages_in_superblock(&self) -> u64 {
        self.pages_in_program() * u64::from(self.pages_per_block) * u64::from(self.dies())
    }
}
