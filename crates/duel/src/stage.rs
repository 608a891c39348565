//! What one contestant plays on: the emulated drive, whoever schedules in front of it, and the device that programs see.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use disks::Drive;
use elevator::queue::{Cache, Options};
use server::backend::{Backend, Emulated, FileBackend, FileOptions, Nothing};
use server::control::SchedulerFactory;
use server::{AttachOptions, Configuration, ServeError, Server, TimesSummary};

use crate::parking::{PARKED, Parking};
use crate::part::{Actor, Part, Troupe};
use crate::stagehand::{Put, Scenery};
use crate::{Contestant, DuelError, Scene};

/// Makes the drive, each time at rest.
pub type DriveFactory = Arc<dyn Fn() -> Box<dyn Drive + Send> + Send + Sync>;

/// The least that a loop device can be made to have under way.
const LEAST_TAGS: u32 = 4;

/// Requests of a loop device that does not schedule.
const TAGS: u32 = 128;

/// How long a stage may take to come down.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is the same for everybody.
#[derive(Clone)]
pub struct Arena {
    /// The drive.
    pub drive: DriveFactory,
    /// Whether it has a head to move.
    pub rotational: bool,
    /// Requests that it is given at once.
    pub depth: u32,
    /// One more loop device hides the programs from whoever schedules.
    pub hidden: bool,
    /// Makes Dwell's schedulers.
    pub schedulers: SchedulerFactory,
    /// Plays our parts.
    pub troupe: Troupe,
    /// A directory of ours.
    pub scratch: PathBuf,
}

/// Where the drive's data is.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    /// Nowhere: reads give zeroes.
    Nowhere,
    /// In a file, which must be in memory.
    File(PathBuf),
    /// Nowhere, and no drive either: answers come at once.
    NoDrive,
}

/// A contestant's stage. Dropped, it comes down.
pub struct Stage {
    // In the order in which they go: the device of the programs first, then the drive beneath it.
    stagehand: Actor,
    device: PathBuf,
    mounts: PathBuf,
    server: Server,
}

impl Stage {
    pub(crate) fn put_up(
        arena: &Arena,
        contestant: &Contestant,
        store: Store,
        scene: &Scene,
    ) -> Result<Self, DuelError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let parks = contestant.is_kernel() && arena.depth < LEAST_TAGS;
        if parks && arena.depth != 1 {
            return Err(DuelError::Usage(format!(
                "the kernel's depth can be 1, or from {LEAST_TAGS} on; not {}",
                arena.depth
            )));
        }
        let server = server::start(configuration(arena, contestant, store, parks))?;
        let file = server.attached().map(Path::to_path_buf).unwrap_or_default();
        let mounts = arena.scratch.join(format!("mounts-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let (elevator, tunables) = match contestant {
            Contestant::Kernel { elevator, tunables } => (elevator.clone(), tunables.clone()),
            Contestant::Dwell { .. } => ("none".to_owned(), Vec::new()),
        };
        let geometry = server.geometry();
        let scenery = Scenery {
            file,
            block_bytes: geometry.block_bytes,
            rotational: geometry.rotational,
            nr_requests: if contestant.is_kernel() { arena.depth.max(LEAST_TAGS) } else { TAGS },
            elevator,
            tunables,
            hidden: arena.hidden,
            parks,
            places: scene.places.clone(),
            mounts: mounts.clone(),
        };
        let mut stagehand = arena.troupe.start(&Part::Stagehand(Box::new(scenery)))?;
        let Put { device } = stagehand.hear()?;
        Ok(Self { stagehand, device, mounts, server })
    }

    /// The device that programs see.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Below it, the scene's file systems are mounted.
    #[must_use]
    pub fn mounts(&self) -> &Path {
        &self.mounts
    }

    /// Takes it down; how late the drive's answers were, and how long reads waited in Dwell's queue before they went to it.
    pub(crate) fn take_down(self) -> Result<(TimesSummary, TimesSummary), DuelError> {
        let Self { mut stagehand, server, .. } = self;
        stagehand.end(PATIENCE)?;
        let state = server.stop()?.state;
        let reads = state.operations.get("read").map(|reads| reads.wait);
        Ok((state.lateness, reads.unwrap_or_default()))
    }
}

fn configuration(arena: &Arena, contestant: &Contestant, store: Store, parks: bool) -> Configuration {
    // Beneath the kernel's elevators, whatever they let go goes on as it comes.
    let (scheduler, depth) = match contestant {
        Contestant::Kernel { .. } => ("noop", arena.depth.max(LEAST_TAGS)),
        Contestant::Dwell { scheduler } => (scheduler.as_str(), arena.depth),
    };
    let (drive, rotational) = ((arena.drive)(), arena.rotational);
    let backend = move || backend(drive, rotational, store, parks);
    let mut configuration = Configuration::new(backend, scheduler, arena.schedulers.clone());
    configuration.options = Options { depth, ..Options::default() };
    configuration.attach =
        Some(AttachOptions { runtime: arena.scratch.clone(), only_file: true, ..AttachOptions::default() });
    configuration
}

fn backend(
    drive: Box<dyn Drive + Send>,
    rotational: bool,
    store: Store,
    parks: bool,
) -> Result<Box<dyn Backend>, ServeError> {
    let (bytes, depth) = (drive.capacity().bytes(), drive.depth());
    let nothing = || Box::new(Nothing::new(bytes, depth + PARKED));
    let cache = Cache::WriteBack { fua: true };
    let data: Box<dyn Backend> = match store {
        Store::NoDrive => return Ok(if parks { Box::new(Parking::new(nothing())) } else { nothing() }),
        Store::Nowhere => nothing(),
        Store::File(path) => {
            let options = FileOptions { direct: false, depth, size: Some(bytes), ..FileOptions::new(path) };
            Box::new(FileBackend::open(options)?)
        }
    };
    let emulated = Box::new(Emulated::new(drive, data, rotational, cache)?);
    Ok(if parks { Box::new(Parking::new(emulated)) } else { emulated })
}
