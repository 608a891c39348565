//! Benchmarks of the papers, at the level of requests.

mod ahead_read;
mod chunk_reads;
mod kernel_read;
mod multi_threads;
mod par_read;
mod strided;
mod tariffs;
mod tpc_e;
mod tpc_h;

use crate::workload::{Settings, SettingsError, Workload, apply};

pub use ahead_read::AheadRead;
pub use chunk_reads::ChunkReads;
pub use kernel_read::KernelRead;
pub use multi_threads::MultiThreads;
pub use par_read::ParRead;
pub use strided::Strided;
pub use tariffs::Tariffs;
pub use tpc_e::TpcE;
pub use tpc_h::{TpcH, UserBytes};

use elevator::Tunable;

/// A built-in workload.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    pub name: &'static str,
    /// Its behaviour and source.
    pub doc: &'static str,
    pub settings: &'static [Tunable],
    build: fn(&Settings) -> Result<Box<dyn Workload>, SettingsError>,
}

impl Builtin {
    /// The built-in workload of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|builtin| builtin.name == name)
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// A setting is unknown or out of range.
    pub fn build(&self, settings: &Settings) -> Result<Box<dyn Workload>, SettingsError> {
        (self.build)(settings)
    }
}

/// Declares the built-in workloads.
macro_rules! builtins {
    ($($name:literal: $module:ident::$workload:ident($settings:ident), $doc:literal;)+) => {
        $(impl $workload {
            /// From settings.
            ///
            /// # Errors
            /// A setting is unknown or out of range.
            pub fn new(settings: &Settings) -> Result<Self, SettingsError> {
                let mut own = $module::$settings::default();
                apply($name, $module::$settings::TABLE, settings, &mut |name, value| own.set(name, value))?;
                Ok(Self(own))
            }
        })+

        impl Builtin {
            /// All built-in workloads.
            pub const ALL: &'static [Self] = &[$(Self {
                name: $name,
                doc: $doc,
                settings: $module::$settings::TABLE,
                build: |settings| $workload::new(settings).map(|workload| Box::new(workload) as Box<dyn Workload>),
            }),+];
        }
    };
}

builtins! {
    "par-read": par_read::ParRead(ParReadSettings),
        "processes that each read a file of their own from start to end, far apart (stream paper, section 3.3)";
    "ahead-read": ahead_read::AheadRead(AheadReadSettings),
        "the same below a page cache that reads ahead two full stripes of an array (stream paper, section 3.5)";
    "multi-threads": multi_threads::MultiThreads(MultiThreadsSettings),
        "pairs of threads that read the first 4 KB of each 16 KB of a file and meet every five requests (stream paper, section 3.4)";
    "chunk-reads": chunk_reads::ChunkReads(ChunkReadsSettings),
        "small files of a tree, each read by a process of its own, beside others that do the same (cooperative paper)";
    "strided": strided::Strided(StridedSettings),
        "processes that each read 4 KB and jump 8 KB (8S) or 512 KB (512S) through a file of their own (IOAnalyzer, section IV-E)";
    "kernel-read": kernel_read::KernelRead(KernelReadSettings),
        "two readers of kernel trees beside two dumps of big files: sequential each, random together (IOAnalyzer, section IV-C)";
    "tpc-e": tpc_e::TpcE(TpcESettings),
        "like TPC-E: clients whose transactions read scattered pages and commit to a log, above a checkpointer (IOAnalyzer, section IV-A)";
    "tpc-h": tpc_h::TpcH(TpcHSettings),
        "like TPC-H: eight queries in parallel that scan and join tables through a shared page cache (IOAnalyzer, section IV-B)";
    "tariffs": tariffs::Tariffs(TariffsSettings),
        "like Tariff Advisor: four virtual machines that read calls and write reports, on raw or copy-on-write images (IOAnalyzer, section IV-D)";
}

/// Bytes of a KiB, MiB and GiB.
const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
