//! Runs benchmarks on schedulers, one after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use elevator::Span;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::benchmark::Size;
use crate::devices::LONGEST_BYTES;
use crate::files::{copy_image, make_image};
use crate::helper::{Helper, Role};
use crate::programs::{Blocks, Order, Process, Task};
use crate::testbed::{Store, Testbed, TestbedOptions};
use crate::{Benchmark, DuelError, FileSystem, Outcome, Scheduler, TaskOutcome};

/// How long beyond its time a program may take to notice: one request, however long that waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// How finely the times of a request's way are told: one in a thousand is where a busy machine shows.
const QUANTILES: u32 = 2000;

/// How long a way is measured.
const MEASURED: Duration = Duration::from_secs(1);

/// The depth at which an elevator is tried: one that every loop device can have.
const TRIED: u32 = 4;

/// So many programs keep a drive busy that takes one request at a time.
const CROWD: u64 = 4;

/// What drives take with which ways should be measured: a sequential read of a disk and a seek, about. A processor that has had
/// nothing to do for longer wakes more slowly, by a tenth of a millisecond in a virtual machine.
pub const SERVICES: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(8)];

/// A kind of requests that a way is measured of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kind {
    /// Length.
    pub bytes: u64,
    /// Writes, or reads.
    pub writes: bool,
    /// What the drive takes for each.
    pub service: Duration,
}

impl Kind {
    /// A program that makes such requests.
    fn blocks(&self, device: &Path) -> Blocks {
        Blocks {
            device: device.to_path_buf(),
            start_bytes: 0,
            bytes: 1 << 30,
            block_bytes: self.bytes,
            order: Order::Sequential,
            writes: self.writes,
            direct: true,
            think: Duration::ZERO,
        }
    }
}

/// What requests of a kind take on their way through loop devices and FUSE, there and back.
#[derive(Clone, Debug)]
pub struct Way {
    /// Times that are each as likely as any other, in order.
    pub times: Vec<Duration>,
    /// The share of it that lies beneath whoever schedules, from 0 to 1: most of it for an elevator of the kernel, which sits
    /// in the loop device; nothing for Dwell's schedulers, which sit beside the drive. What is above looks to a scheduler like
    /// a program that thinks; what is beneath, like a drive that takes longer.
    pub below: f64,
    /// Of a drive that takes one request at a time behind an elevator of the kernel: how long it has nothing to do between its answer
    /// to such a request and its next command though others wait, as often as that was measured. It is several times what is beneath
    /// the elevator otherwise: another program's request is handed on by whoever hears of the answer, on other processors, which may
    /// sleep.
    pub turns: Vec<Duration>,
}

impl Way {
    /// This way as it was at another time as well.
    pub fn join(&mut self, other: &Self) {
        let (ours, theirs) = (self.times.len() as f64, other.times.len() as f64);
        self.below = (self.below * ours + other.below * theirs) / (ours + theirs).max(1.0);
        self.times.extend(&other.times);
        self.times.sort_unstable();
        self.turns.extend(&other.turns);
        self.turns.sort_unstable();
    }
}

/// What every program is given.
#[derive(Clone, Copy, Debug)]
pub struct Priorities {
    /// Processor priority, -20 to 19.
    pub nice: i32,
    /// Level of the best-effort I/O class, 0 to 7; 4 is the kernel's default.
    pub level: u8,
}

/// What duels need: a mount namespace, a directory of files, and the process that removes it. Dropped, nothing of it is left.
pub struct Duel {
    options: TestbedOptions,
    priorities: Priorities,
    size: Size,
    /// Asked again and again while programs run: whether to stop.
    asked: fn() -> bool,
    _cleanup: Helper,
}

/// What a duel is made of.
pub struct Settings {
    /// The drive and whoever may schedule in front of it.
    pub options: TestbedOptions,
    /// What programs are given.
    pub priorities: Priorities,
    /// How large the comparisons are.
    pub size: Size,
    /// Whether to stop early.
    pub asked: fn() -> bool,
}

impl Duel {
    /// Prepares one. From now on, mounts of this thread and of what it starts are seen by nobody else.
    ///
    /// # Errors
    /// No leave (CAP_SYS_ADMIN; CAP_SYS_NICE for programs before others), no FUSE, no loop devices, or no memory to keep files in.
    pub fn prepare(settings: Settings) -> Result<Self, DuelError> {
        let Settings { mut options, priorities, size, asked } = settings;
        for node in ["/dev/fuse", "/dev/loop-control"] {
            if !Path::new(node).exists() {
                return Err(DuelError::Missing(format!(
                    "a duel needs {node}, which this kernel does not have"
                )));
            }
        }
        may_be_as_nice(priorities.nice)?;
        private_mounts()?;
        options.scratch = options.scratch.join(format!("dwell-duel-{}", process::id()));
        fs::create_dir(&options.scratch)
            .map_err(DuelError::io(format!("creating {}", options.scratch.display())))?;
        let mut cleanup = options.helpers.start(&Role::Cleanup(options.scratch.clone()))?;
        cleanup.receive::<()>()?;
        Ok(Self { options, priorities, size, asked, _cleanup: cleanup })
    }

    /// From now on, runs at another depth, or with programs hidden or not.
    pub fn set(&mut self, depth: u32, hidden: bool) {
        self.options.depth = depth;
        self.options.hidden = hidden;
    }

    /// Tries the kernel's elevators among them, with their tunables, before the first of many runs.
    ///
    /// # Errors
    /// This kernel has no such elevator, or refuses a tunable.
    pub fn try_out(&self, schedulers: &[Scheduler]) -> Result<(), DuelError> {
        let options = TestbedOptions { depth: TRIED, hidden: false, ..self.options.clone() };
        for scheduler in schedulers.iter().filter(|scheduler| scheduler.is_kernel()) {
            match Testbed::set_up(&options, scheduler, Store::Nowhere, &[]) {
                Ok(testbed) => drop(testbed.tear_down()?),
                Err(DuelError::Helper(said)) => return Err(DuelError::Usage(format!("{scheduler}: {said}"))),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Runs a benchmark once on a scheduler: all of its programs, or the first one alone.
    ///
    /// # Errors
    /// Something could not be set up, a program failed, or somebody asked to stop. Nothing is left behind.
    pub fn run(
        &self,
        benchmark: &Benchmark,
        scheduler: &Scheduler,
        alone: bool,
    ) -> Result<Outcome, DuelError> {
        let file_systems = benchmark.file_systems(&self.size);
        let store = self.store(benchmark, &file_systems)?;
        let testbed = Testbed::set_up(&self.options, scheduler, store, &file_systems)?;
        let mut programs =
            benchmark.programs(&self.size, testbed.device(), testbed.mounts(), &self.options.scratch)?;
        if alone {
            programs.truncate(1);
        }
        let at_most = benchmark.at_most(&self.size);
        let processes = programs.into_iter().map(|it| self.process(it.name, it.task, it.background, at_most));
        let tasks = self.run_all(processes.collect());
        let down = testbed.tear_down();
        let (tasks, (lateness, reads_queued)) = (tasks?, down?);
        Ok(Outcome { tasks, lateness, reads_queued })
    }

    /// How long such a request takes on its way between a program and the drive and back, beside what the drive takes: what the
    /// model, which knows no such way, must be told. Measured for a second, one request after the other, with a drive that
    /// always takes the kind's time.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn way(&self, scheduler: &Scheduler, kind: Kind) -> Result<Way, DuelError> {
        let drive = kind.service;
        let fixed = Store::Fixed(Span::from_nanos(drive.as_nanos() as u64));
        let testbed = Testbed::set_up(&self.options, scheduler, fixed, &[])?;
        let task = Task::Blocks(kind.blocks(testbed.device()));
        let process = self.process("way".to_owned(), task, false, MEASURED);
        let looking = || DuelError::io("looking at the loop device's statistics");
        let before = testbed.time_below().map_err(looking())?;
        let tasks = self.run_all(vec![Process { quantiles: QUANTILES, ..process }]);
        let after = testbed.time_below().map_err(looking())?;
        testbed.tear_down()?;
        let took = tasks?.into_iter().flat_map(|task| task.quantiles_ns).map(Duration::from_nanos);
        let times: Vec<Duration> = took.map(|took| took.saturating_sub(drive)).collect();
        let below = match after.0 - before.0 {
            requests @ 1.. if scheduler.is_kernel() => {
                let below = (after.1 - before.1).div_f64(requests as f64).saturating_sub(drive);
                let whole = times.iter().sum::<Duration>().div_f64(times.len().max(1) as f64);
                (below.as_secs_f64() / whole.as_secs_f64().max(1e-9)).min(1.0)
            }
            _ => 0.0,
        };
        let parks = scheduler.is_kernel() && self.options.depth == 1;
        let turns = if parks { vec![self.turn(kind)?] } else { Vec::new() };
        Ok(Way { times, below, turns })
    }

    /// [`Way::turns`], for a second. What the elevator is makes no difference to the way, so it is one that never idles.
    fn turn(&self, kind: Kind) -> Result<Duration, DuelError> {
        let elevator = Scheduler::Kernel { elevator: "mq-deadline".to_owned(), tunables: Vec::new() };
        let fixed = Store::Fixed(Span::from_nanos(kind.service.as_nanos() as u64));
        let testbed = Testbed::set_up(&self.options, &elevator, fixed, &[])?;
        // One request a call, so that calls count requests.
        let kind = Kind { bytes: kind.bytes.min(LONGEST_BYTES), ..kind };
        let task = |n| Task::Blocks(Blocks { start_bytes: n << 30, ..kind.blocks(testbed.device()) });
        let crowd = (0..CROWD).map(|n| self.process("turn".to_owned(), task(n), false, MEASURED));
        let tasks = self.run_all(crowd.collect());
        let (lateness, reads_queued) = testbed.tear_down()?;
        let each = 1.0 / Outcome { tasks: tasks?, lateness, reads_queued }.operations_per_second().max(1.0);
        Ok(Duration::from_secs_f64(each).saturating_sub(kind.service))
    }

    fn process(&self, name: String, task: Task, background: bool, at_most: Duration) -> Process {
        let Priorities { nice, level } = self.priorities;
        Process { name, task, background, nice, level, at_most, quantiles: 0 }
    }

    /// The drive's data: made once for a benchmark, and copied for those who change it.
    fn store(&self, benchmark: &Benchmark, file_systems: &[FileSystem]) -> Result<Store, DuelError> {
        if file_systems.is_empty() {
            return Ok(Store::Nowhere);
        }
        let image = self.options.scratch.join(format!("{}.image", benchmark.name()));
        if !image.exists() {
            make_image(&image, (self.options.drive)().capacity().bytes(), file_systems)?;
        }
        if file_systems.iter().all(|fs| fs.read_only) {
            return Ok(Store::File(image));
        }
        let copy = self.options.scratch.join("copy.image");
        let _ = fs::remove_file(&copy);
        copy_image(&image, &copy)?;
        Ok(Store::File(copy))
    }

    /// Starts the processes, has all begin at once, and waits for them.
    fn run_all(&self, processes: Vec<Process>) -> Result<Vec<TaskOutcome>, DuelError> {
        let at_most = processes.iter().map(|process| process.at_most).max().unwrap_or_default() + PATIENCE;
        let started = processes
            .into_iter()
            .map(|process| self.options.helpers.start(&Role::Program(Box::new(process))));
        let mut processes = Processes(started.collect::<Result<_, _>>()?);
        for process in &mut processes.0 {
            process.receive::<()>()?;
        }
        for process in &mut processes.0 {
            process.begin().map_err(DuelError::io("giving the start signal"))?;
        }
        processes.wait(at_most, self.asked)?;
        processes.0.iter_mut().map(Helper::receive).collect()
    }
}

/// How long a program that was killed may take to be gone before the device that it waits for is torn down under it.
const DYING: Duration = Duration::from_secs(2);

/// Programs at work. Dropped, they are killed.
struct Processes(Vec<Helper>);

impl Processes {
    fn wait(&mut self, at_most: Duration, asked: fn() -> bool) -> Result<(), DuelError> {
        let began = Instant::now();
        while !self.0.iter_mut().all(Helper::has_ended) {
            if asked() {
                return Err(DuelError::Interrupted);
            }
            if began.elapsed() > at_most {
                return Err(DuelError::Helper(format!("the programs did not end within {at_most:?}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Helper::kill);
        let since = Instant::now();
        for process in &mut self.0 {
            process.ends_within(DYING.saturating_sub(since.elapsed()));
        }
    }
}

/// Whether programs may be as nice as that, found out before there are any.
fn may_be_as_nice(nice: i32) -> Result<(), DuelError> {
    let told = |error: rustix::io::Errno| DuelError::io(format!("nice {nice} (CAP_SYS_NICE)"))(error.into());
    let before = getpriority_process(None).map_err(told)?;
    if nice < before {
        setpriority_process(None, nice).map_err(told)?;
        // To be nicer is always allowed.
        setpriority_process(None, before).map_err(told)?;
    }
    Ok(())
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
