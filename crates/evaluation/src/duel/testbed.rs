//! A testbed: the emulated drive, the scheduler in front of it, and the device of the programs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use disks::{Drive, Fixed};
use elevator::Span;
use elevator::queue::Options;
use server::backend::{Backend, Emulated, FileBackend, FileOptions, Nature, Nothing};
use server::control::SchedulerFactory;
use server::{AttachOptions, Configuration, ServeError, Server, TimesSummary};

use crate::duel::devices::{DeviceSetup, Ready};
use crate::duel::helper::{Helper, HelperCommand, Role};
use crate::duel::parking::{PARKED, Parking};
use crate::duel::{DuelError, FileSystem, Scheduler};

/// Creates the drive, idle.
pub type DriveFactory = Arc<dyn Fn() -> Box<dyn Drive + Send> + Send + Sync>;

/// The minimum number of tags of a loop device.
const LEAST_TAGS: u32 = 4;

/// Tags of a loop device without a scheduler.
const TAGS: u32 = 128;

/// Timeout for removing a testbed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options that are the same for all schedulers.
#[derive(Clone)]
pub struct TestbedOptions {
    pub drive: DriveFactory,
    /// What the kernel and schedulers receive about the drive.
    pub nature: Nature,
    /// Commands in the drive at once.
    pub depth: u32,
    /// One more loop device hides the programs from the scheduler.
    pub hidden: bool,
    /// Creates Dwell's schedulers.
    pub schedulers: SchedulerFactory,
    /// How helper processes are started.
    pub helpers: HelperCommand,
    /// The scratch directory.
    pub scratch: PathBuf,
}

/// The store of the drive's data.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    /// None: reads return zeroes.
    Nowhere,
    /// A file, which must be in memory.
    File(PathBuf),
    /// None, with a drive of constant service time.
    Fixed(Span),
}

/// The testbed of a scheduler. Dropping it removes it.
pub struct Testbed {
    // Field order is drop order: the device of the programs before the drive below it.
    devices: Helper,
    device: PathBuf,
    lowest: PathBuf,
    mounts: PathBuf,
    server: Server,
}

impl Testbed {
    pub(crate) fn set_up(
        options: &TestbedOptions,
        scheduler: &Scheduler,
        store: Store,
        file_systems: &[FileSystem],
    ) -> Result<Self, DuelError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let parks = scheduler.is_kernel() && options.depth < LEAST_TAGS;
        if parks && options.depth != 1 {
            return Err(DuelError::Usage(format!(
                "the kernel's depth can be 1, or from {LEAST_TAGS} on; not {}",
                options.depth
            )));
        }
        let server = server::start(configuration(options, scheduler, store, parks))?;
        let file = server.attached().map(Path::to_path_buf).unwrap_or_default();
        let mounts = options.scratch.join(format!("mounts-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let (elevator, tunables) = match scheduler {
            Scheduler::Kernel { elevator, tunables } => (elevator.clone(), tunables.clone()),
            Scheduler::Dwell { .. } => ("none".to_owned(), Vec::new()),
        };
        let geometry = server.geometry();
        let setup = DeviceSetup {
            file,
            block_bytes: geometry.block_bytes,
            rotational: geometry.rotational,
            nr_requests: if scheduler.is_kernel() { options.depth.max(LEAST_TAGS) } else { TAGS },
            elevator,
            tunables,
            hidden: options.hidden,
            parks,
            file_systems: file_systems.to_vec(),
            mounts: mounts.clone(),
        };
        let mut devices = options.helpers.start(&Role::Devices(Box::new(setup)))?;
        let Ready { device, lowest } = devices.receive()?;
        Ok(Self { devices, device, lowest, mounts, server })
    }

    /// The device of the programs.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// The directory of the benchmark's mounts.
    pub fn mounts(&self) -> &Path {
        &self.mounts
    }

    /// The number of requests that the lowest loop device, which has the kernel's scheduler, has completed, and their total time in its
    /// queue and below.
    pub(crate) fn time_below(&self) -> io::Result<(u64, Duration)> {
        let name = self.lowest.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(format!("/sys/block/{name}/stat"))?;
        let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        match fields[..] {
            // Documentation/block/stat.rst: completed, merged, sectors, milliseconds; of reads, then of writes.
            [reads, _, _, reads_ms, writes, _, _, writes_ms, ..] => {
                Ok((reads + writes, Duration::from_millis(reads_ms + writes_ms)))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Removes the testbed; returns how late the drive's completions were, and how long reads waited in Dwell's queue.
    pub(crate) fn tear_down(self) -> Result<(TimesSummary, TimesSummary), DuelError> {
        let Self { mut devices, server, .. } = self;
        if let Err(error) = devices.end(PATIENCE) {
            // Joining would wait until the drive is unused. The server ends with this process, and so do programs that wait for the drive.
            std::mem::forget(server);
            return Err(error);
        }
        let state = server.stop()?.state;
        let reads = state.operations.get("read").map(|reads| reads.wait);
        Ok((state.lateness, reads.unwrap_or_default()))
    }
}

fn configuration(
    options: &TestbedOptions,
    scheduler: &Scheduler,
    store: Store,
    parks: bool,
) -> Configuration {
    // Below the kernel's schedulers, requests keep the order of dispatch.
    let (scheduler, depth) = match scheduler {
        Scheduler::Kernel { .. } => ("noop", options.depth.max(LEAST_TAGS)),
        Scheduler::Dwell { scheduler } => (scheduler.as_str(), options.depth),
    };
    let (drive, nature) = ((options.drive)(), options.nature);
    let backend = move || backend(drive, nature, store, parks);
    let mut configuration = Configuration::new(backend, scheduler, options.schedulers.clone());
    configuration.options = Options { depth, ..Options::default() };
    configuration.attach =
        Some(AttachOptions { runtime: options.scratch.clone(), only_file: true, ..AttachOptions::default() });
    configuration
}

fn backend(
    drive: Box<dyn Drive + Send>,
    nature: Nature,
    store: Store,
    parks: bool,
) -> Result<Box<dyn Backend>, ServeError> {
    let (bytes, depth) = (drive.capacity().bytes(), drive.depth());
    let drive = match store {
        Store::Fixed(service) => Box::new(Fixed::new(bytes, depth, service)),
        _ => drive,
    };
    let nothing = || Box::new(Nothing::new(bytes, depth + PARKED));
    let data: Box<dyn Backend> = match store {
        Store::Nowhere | Store::Fixed(_) => nothing(),
        Store::File(path) => {
            let options = FileOptions { direct: false, depth, size: Some(bytes), ..FileOptions::new(path) };
            Box::new(FileBackend::open(options)?)
        }
    };
    let emulated = Box::new(Emulated::new(drive, data, nature)?);
    Ok(if parks { Box::new(Parking::new(emulated)) } else { emulated })
}
