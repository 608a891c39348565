//! Runs benchmarks under schedulers, one after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use elevator::Span;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::duel::benchmark::Size;
use crate::duel::devices::LONGEST_BYTES;
use crate::duel::files::{copy_image, make_image};
use crate::duel::helper::{Helper, Role};
use crate::duel::programs::{Blocks, Order, Process, Task};
use crate::duel::testbed::{Store, Testbed, TestbedOptions};
use crate::duel::{Benchmark, DuelError, FileSystem, Outcome, Scheduler, TaskOutcome};

/// Extra time for a program to end: the wait of one request.
const PATIENCE: Duration = Duration::from_secs(120);

/// Resolution of the measured latency distribution. The effect of a busy machine appears at one in a thousand.
const QUANTILES: u32 = 2000;

/// Longest duration of a latency measurement.
const MEASURED_MAX: Duration = Duration::from_secs(1);

/// The depth for trying a scheduler: one that every loop device supports.
const TRIED: u32 = 4;

/// Programs that keep a drive of depth 1 busy.
const CROWD: u64 = 4;

/// Service times with which latency is measured: about a sequential read of a disk, and a seek. A processor that was idle for longer
/// wakes more slowly, by a tenth of a millisecond in a virtual machine.
pub const SERVICES: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(8)];

/// A kind of requests whose latency is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestKind {
    /// Length in bytes.
    pub bytes: u64,
    /// Writes instead of reads.
    pub writes: bool,
    /// Service time of the drive.
    pub service: Duration,
}

impl RequestKind {
    /// A program with such requests.
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

/// Latency of the path through loop devices and FUSE, both directions, for one kind of requests.
#[derive(Clone, Debug)]
pub struct PathLatency {
    /// Equally likely latencies, sorted.
    pub times: Vec<Duration>,
    /// The share below the scheduler, from 0 to 1: most of it for a scheduler of the kernel, which is in the loop device; 0 for
    /// Dwell's schedulers, which are beside the drive. Latency above the scheduler acts as think time of the program; latency below it
    /// acts as a slower drive.
    pub below: f64,
    /// For a drive of depth 1 behind a scheduler of the kernel: how long the drive is idle between a completion and the next command
    /// although other programs wait, one value per measurement. It is several times the latency below the scheduler, because another
    /// program's request is submitted by threads on other processors, which may sleep.
    pub gaps: Vec<Duration>,
}

impl PathLatency {
    /// Adds another measurement.
    pub fn join(&mut self, other: &Self) {
        let (ours, theirs) = (self.times.len() as f64, other.times.len() as f64);
        self.below = (self.below * ours + other.below * theirs) / (ours + theirs).max(1.0);
        self.times.extend(&other.times);
        self.times.sort_unstable();
        self.gaps.extend(&other.gaps);
        self.gaps.sort_unstable();
    }
}

/// Priorities of the programs.
#[derive(Clone, Copy, Debug)]
pub struct Priorities {
    /// Nice value, -20 to 19.
    pub nice: i32,
    /// Level of the best-effort I/O class, 0 to 7; 4 is the kernel's default.
    pub level: u8,
}

/// The mount namespace, the scratch directory, and the process that removes it. Dropping it removes everything.
pub struct Duel {
    options: TestbedOptions,
    priorities: Priorities,
    size: Size,
    /// Whether to stop; polled while programs run.
    is_stopped: fn() -> bool,
    _cleanup: Helper,
}

/// Settings of a duel.
pub struct Settings {
    /// The drive and the schedulers.
    pub options: TestbedOptions,
    /// Priorities of the programs.
    pub priorities: Priorities,
    /// Sizes of the benchmarks.
    pub size: Size,
    /// Whether to stop early.
    pub is_stopped: fn() -> bool,
}

impl Duel {
    /// Prepares a duel. Afterwards, mounts of this thread and its children are private.
    ///
    /// # Errors
    /// Missing capabilities (CAP_SYS_ADMIN; CAP_SYS_NICE for a negative nice value), no FUSE, no loop devices, or no memory for files.
    pub fn prepare(settings: Settings) -> Result<Self, DuelError> {
        let Settings { mut options, priorities, size, is_stopped } = settings;
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
        Ok(Self { options, priorities, size, is_stopped, _cleanup: cleanup })
    }

    /// Sets the depth and the visibility of the programs for further runs.
    pub fn set(&mut self, depth: u32, hidden: bool) {
        self.options.depth = depth;
        self.options.hidden = hidden;
    }

    /// Sets each of the kernel's schedulers and its tunables once, before the first run.
    ///
    /// # Errors
    /// The kernel lacks the scheduler or rejects a tunable.
    pub fn try_out(&self, schedulers: &[Scheduler]) -> Result<(), DuelError> {
        let options = TestbedOptions { depth: TRIED, hidden: false, ..self.options.clone() };
        for scheduler in schedulers.iter().filter(|scheduler| scheduler.is_kernel()) {
            match Testbed::set_up(&options, scheduler, Store::Nowhere, &[]) {
                Ok(testbed) => drop(testbed.tear_down()?),
                Err(DuelError::Helper(problem)) => {
                    return Err(DuelError::Usage(format!("{scheduler}: {problem}")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Runs a benchmark once under a scheduler: all programs, or the first one alone.
    ///
    /// # Errors
    /// The setup or a program failed, or the user stopped the duel. Everything is removed.
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

    /// Measures the latency of the path between a program and the drive, in both directions, without the drive's time. Requests go to a drive of
    /// constant service time, one after the other, for a second, or for the time of a run if that is shorter. The model has no such path and
    /// needs the value.
    pub fn path_latency(&self, scheduler: &Scheduler, kind: RequestKind) -> Result<PathLatency, DuelError> {
        let drive = kind.service;
        let fixed = Store::Fixed(Span::from_nanos(drive.as_nanos() as u64));
        let testbed = Testbed::set_up(&self.options, scheduler, fixed, &[])?;
        let task = Task::Blocks(kind.blocks(testbed.device()));
        let process = self.process("way".to_owned(), task, false, self.measured());
        let failed = || DuelError::io("reading the loop device's statistics");
        let before = testbed.time_below().map_err(failed())?;
        let tasks = self.run_all(vec![Process { quantiles: QUANTILES, ..process }]);
        let after = testbed.time_below().map_err(failed())?;
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
        let gaps = if parks { vec![self.gap(kind)?] } else { Vec::new() };
        Ok(PathLatency { times, below, gaps })
    }

    /// Duration of a latency measurement.
    fn measured(&self) -> Duration {
        self.size.time.min(MEASURED_MAX)
    }

    /// Measures [`PathLatency::gaps`], under a scheduler that never idles; the gap does not depend on the scheduler.
    fn gap(&self, kind: RequestKind) -> Result<Duration, DuelError> {
        let elevator = Scheduler::Kernel { elevator: "mq-deadline".to_owned(), tunables: Vec::new() };
        let fixed = Store::Fixed(Span::from_nanos(kind.service.as_nanos() as u64));
        let testbed = Testbed::set_up(&self.options, &elevator, fixed, &[])?;
        // One request per call, so that calls count requests.
        let kind = RequestKind { bytes: kind.bytes.min(LONGEST_BYTES), ..kind };
        let task = |n| Task::Blocks(Blocks { start_bytes: n << 30, ..kind.blocks(testbed.device()) });
        let crowd = (0..CROWD).map(|n| self.process("turn".to_owned(), task(n), false, self.measured()));
        let tasks = self.run_all(crowd.collect());
        let (lateness, reads_queued) = testbed.tear_down()?;
        let each = 1.0 / Outcome { tasks: tasks?, lateness, reads_queued }.operations_per_second().max(1.0);
        Ok(Duration::from_secs_f64(each).saturating_sub(kind.service))
    }

    fn process(&self, name: String, task: Task, background: bool, at_most: Duration) -> Process {
        let Priorities { nice, level } = self.priorities;
        Process { name, task, background, nice, level, at_most, quantiles: 0 }
    }

    /// The drive's data: created once per benchmark, and copied for programs that change it.
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

    /// Starts the processes, gives all of them the start signal, and waits for them.
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
        processes.wait(at_most, self.is_stopped)?;
        processes.0.iter_mut().map(Helper::receive).collect()
    }
}

/// Timeout for a killed program to end before its device is removed.
const DYING: Duration = Duration::from_secs(2);

/// Running programs. Dropping it kills them.
struct Processes(Vec<Helper>);

impl Processes {
    fn wait(&mut self, at_most: Duration, is_stopped: fn() -> bool) -> Result<(), DuelError> {
        let began = Instant::now();
        while !self.0.iter_mut().all(Helper::has_ended) {
            if is_stopped() {
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

/// Checks before the first program that the nice value is permitted.
fn may_be_as_nice(nice: i32) -> Result<(), DuelError> {
    let failed =
        |error: rustix::io::Errno| DuelError::io(format!("nice {nice} (CAP_SYS_NICE)"))(error.into());
    let before = getpriority_process(None).map_err(failed)?;
    if nice < before {
        setpriority_process(None, nice).map_err(failed)?;
        // Raising the nice value is always permitted.
        setpriority_process(None, before).map_err(failed)?;
    }
    Ok(())
}

/// Enters a private mount namespace, whose mounts end with this process.
fn private_mounts() -> Result<(), DuelError> {
    let failed = || DuelError::io("creating a private mount namespace (CAP_SYS_ADMIN)");
    // SAFETY: of the flags, only the one for file descriptors would be unsafe.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(|error| failed()(error.into()))?;
    let whole = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", whole).map_err(|error| failed()(error.into()))?;
    // debugfs has the driver's number of tags. Without it, the number is not verified.
    let _ = mount("debugfs", "/sys/kernel/debug", "debugfs", MountFlags::empty(), None);
    Ok(())
}

/// A directory in memory, for files that must be faster than any disk.
pub fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}
