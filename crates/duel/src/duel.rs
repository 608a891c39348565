//! Lets contestants play.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::discipline::Size;
use crate::files::{copy_image, make_image};
use crate::part::{Actor, Part};
use crate::programs::{Blocks, Order, Play, Task};
use crate::stage::{Arena, Stage, Store};
use crate::{Contestant, Discipline, DuelError, Outcome, Scene, TaskOutcome};

/// How long beyond its time a program may take to notice: one request, however long that waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// How finely the times of a request's way are told: one in a thousand is where a busy machine shows.
const QUANTILES: u32 = 2000;

/// What every program is given.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Processor priority, -20 to 19.
    pub nice: i32,
    /// Level of the best-effort I/O class, 0 to 7; 4 is the kernel's default.
    pub level: u8,
}

/// A place for duels: namespace, files and caretaker. Dropped, nothing of it is left.
pub struct Duel {
    arena: Arena,
    standing: Standing,
    size: Size,
    /// Asked again and again while programs run: whether to stop.
    asked: fn() -> bool,
    _caretaker: Actor,
}

/// What a duel is made of.
pub struct Settings {
    /// The drive and whoever may schedule in front of it.
    pub arena: Arena,
    /// What programs are given.
    pub standing: Standing,
    /// How large the contests are.
    pub size: Size,
    /// Whether to stop early.
    pub asked: fn() -> bool,
}

impl Duel {
    /// Prepares one. From now on, mounts of this thread and of what it starts are seen by nobody else.
    ///
    /// # Errors
    /// No leave (CAP_SYS_ADMIN), no FUSE, no loop devices, or no memory to keep files in.
    pub fn prepare(settings: Settings) -> Result<Self, DuelError> {
        let Settings { mut arena, standing, size, asked } = settings;
        for node in ["/dev/fuse", "/dev/loop-control"] {
            if !Path::new(node).exists() {
                return Err(DuelError::Missing(format!(
                    "a duel needs {node}, which this kernel does not have"
                )));
            }
        }
        private_mounts()?;
        arena.scratch = arena.scratch.join(format!("dwell-duel-{}", process::id()));
        fs::create_dir(&arena.scratch)
            .map_err(DuelError::io(format!("creating {}", arena.scratch.display())))?;
        let mut caretaker = arena.troupe.start(&Part::Caretaker(arena.scratch.clone()))?;
        caretaker.hear::<()>()?;
        Ok(Self { arena, standing, size, asked, _caretaker: caretaker })
    }

    /// Plays at another depth, or with programs hidden or not.
    pub fn set(&mut self, depth: u32, hidden: bool) {
        self.arena.depth = depth;
        self.arena.hidden = hidden;
    }

    /// Has one contestant play once.
    ///
    /// # Errors
    /// Something could not be put up, a program failed, or somebody asked to stop. Nothing is left up.
    pub fn play(&self, discipline: &Discipline, contestant: &Contestant) -> Result<Outcome, DuelError> {
        let scene = discipline.scene(&self.size);
        let store = self.store(discipline, &scene)?;
        let stage = Stage::put_up(&self.arena, contestant, store, &scene)?;
        let parts = discipline.parts(&self.size, stage.device(), stage.mounts(), &self.arena.scratch)?;
        let at_most = discipline.at_most(&self.size);
        let plays = parts.into_iter().map(|part| self.a_play(part.name, part.task, part.background, at_most));
        let tasks = self.run(plays.collect());
        let down = stage.take_down();
        let (tasks, (lateness, reads_queued)) = (tasks?, down?);
        Ok(Outcome { tasks, lateness, reads_queued })
    }

    /// How long such a request takes on the way between a program and a drive that answers at once: what the model, which
    /// knows no such way, must be told. Times that are each as likely as any other, in order, of a second of requests one
    /// after the other.
    ///
    /// # Errors
    /// As [`play`](Self::play).
    pub fn path_times(
        &self,
        contestant: &Contestant,
        block_bytes: u64,
        writes: bool,
    ) -> Result<Vec<Duration>, DuelError> {
        let stage = Stage::put_up(&self.arena, contestant, Store::NoDrive, &Scene::default())?;
        let blocks = Blocks {
            device: stage.device().to_path_buf(),
            start_bytes: 0,
            bytes: 1 << 30,
            block_bytes,
            order: Order::Sequential,
            writes,
            direct: true,
            think: Duration::ZERO,
        };
        let play = self.a_play("way".to_owned(), Task::Blocks(blocks), false, Duration::from_secs(1));
        let tasks = self.run(vec![Play { quantiles: QUANTILES, ..play }]);
        stage.take_down()?;
        let times = tasks?.into_iter().flat_map(|task| task.quantiles_ns);
        Ok(times.map(Duration::from_nanos).collect())
    }

    fn a_play(&self, name: String, task: Task, background: bool, at_most: Duration) -> Play {
        let Standing { nice, level } = self.standing;
        Play { name, task, background, nice, level, at_most, quantiles: 0 }
    }

    /// The drive's data: made once for a discipline, and copied for those who change it.
    fn store(&self, discipline: &Discipline, scene: &Scene) -> Result<Store, DuelError> {
        if scene.places.is_empty() {
            return Ok(Store::Nowhere);
        }
        let image = self.arena.scratch.join(format!("{}.image", discipline.name()));
        if !image.exists() {
            make_image(&image, (self.arena.drive)().capacity().bytes(), scene)?;
        }
        if scene.places.iter().all(|place| place.read_only) {
            return Ok(Store::File(image));
        }
        let copy = self.arena.scratch.join("copy.image");
        let _ = fs::remove_file(&copy);
        copy_image(&image, &copy)?;
        Ok(Store::File(copy))
    }

    /// Starts everybody, gives the word, and waits.
    fn run(&self, plays: Vec<Play>) -> Result<Vec<TaskOutcome>, DuelError> {
        let at_most = plays.iter().map(|play| play.at_most).max().unwrap_or_default() + PATIENCE;
        let players = plays.into_iter().map(|play| self.arena.troupe.start(&Part::Player(Box::new(play))));
        let mut players = Players(players.collect::<Result<_, _>>()?);
        for player in &mut players.0 {
            player.hear::<()>()?;
        }
        for player in &mut players.0 {
            player.begin().map_err(DuelError::io("giving the word"))?;
        }
        players.wait(at_most, self.asked)?;
        players.0.iter_mut().map(Actor::hear).collect()
    }
}

/// Programs at work. Dropped, they are killed.
struct Players(Vec<Actor>);

impl Players {
    fn wait(&mut self, at_most: Duration, asked: fn() -> bool) -> Result<(), DuelError> {
        let began = Instant::now();
        while !self.0.iter_mut().all(Actor::has_ended) {
            if asked() {
                return Err(DuelError::Interrupted);
            }
            if began.elapsed() > at_most {
                return Err(DuelError::Part(format!("the programs did not end within {at_most:?}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Players {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Actor::kill);
    }
}

/// A namespace of our own, in which nothing that is mounted outlives us.
fn private_mounts() -> Result<(), DuelError> {
    let told = || DuelError::io("making mounts that nobody else sees (CAP_SYS_ADMIN)");
    // SAFETY: of the flags, only the one for file descriptors would be unsafe.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(|error| told()(error.into()))?;
    let whole = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", whole).map_err(|error| told()(error.into()))?;
    // It tells how many requests a driver really takes. Without it, that is not checked.
    let _ = mount("debugfs", "/sys/kernel/debug", "debugfs", MountFlags::empty(), None);
    Ok(())
}

/// Where files are kept that must be faster than any disk.
#[must_use]
pub fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}
