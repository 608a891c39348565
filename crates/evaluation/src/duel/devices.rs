//! The helper process that sets up loop devices and mounts, and removes them when its standard input closes.

use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use server::{Lifetime, LoopDevice, QueueSettings};

use crate::duel::DuelError;
use crate::duel::benchmark::FileSystem;
use crate::duel::direct::{Aligned, open};
use crate::duel::parking::{EXIT_BYTES, PARKED, places};
use crate::duel::pipe::{ignore_signals, send, wait_for_end};
use crate::duel::priority::{Priority, set_priority};

/// The devices to set up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DeviceSetup {
    /// The served file.
    pub(crate) file: PathBuf,
    /// Block size of the loop device in bytes.
    pub(crate) block_bytes: u32,
    pub(crate) rotational: bool,
    /// Tags of the loop device.
    pub(crate) nr_requests: u32,
    /// The kernel's scheduler and its tunables.
    pub(crate) elevator: String,
    pub(crate) tunables: Vec<(String, String)>,
    /// Add a loop device on top, on which the programs run.
    pub(crate) hidden: bool,
    /// Keep all tags but one busy.
    pub(crate) parks: bool,
    /// File systems on parts of the device.
    pub(crate) file_systems: Vec<FileSystem>,
    /// Folder of the mounts, one directory per number.
    pub(crate) mounts: PathBuf,
}

/// The devices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// The device of the programs.
    pub(crate) device: PathBuf,
    /// The loop device on the served file, which has the kernel's scheduler.
    pub(crate) lowest: PathBuf,
}

/// The longest request of a testbed's loop devices; the kernel splits longer ones.
pub const LONGEST_BYTES: u64 = 512 << 10;

/// Timeout for parking.
const PARKING: Duration = Duration::from_secs(10);

/// Timeout for detaching a loop device.
const PATIENCE: Duration = Duration::from_secs(20);

/// Everything that was set up, in order.
#[derive(Default)]
struct Devices {
    loops: Vec<(LoopDevice, File)>,
    parked: Vec<JoinHandle<()>>,
    mounted: Vec<PathBuf>,
}

/// Sets everything up, reports it, waits until standard input closes, and removes everything.
pub(crate) fn hold(setup: DeviceSetup) -> Result<(), DuelError> {
    ignore_signals()?;
    let mut devices = Devices::default();
    let ready = devices.set_up(&setup);
    let sent = send(&ready.map_err(|error| error.to_string()));
    wait_for_end();
    devices.tear_down(&setup.file);
    sent.map_err(DuelError::io("reporting"))
}

impl Devices {
    fn set_up(&mut self, setup: &DeviceSetup) -> Result<Ready, DuelError> {
        self.attach(&setup.file, setup, setup.nr_requests)?;
        self.loops[0]
            .0
            .set_elevator(&setup.elevator, &setup.tunables)
            .map_err(DuelError::io("choosing an elevator"))?;
        if setup.parks {
            self.park()?;
        }
        if setup.hidden {
            let below = self.loops[0].0.path();
            self.attach(&below, setup, 128)?;
        }
        let device = self.loops[self.loops.len() - 1].0.path();
        for (n, file_system) in setup.file_systems.iter().enumerate() {
            let partition = self.partition(n as u32 + 1, file_system)?;
            let at = setup.mounts.join(n.to_string());
            self.mount(&partition, &at, file_system.read_only)?;
        }
        Ok(Ready { device, lowest: self.loops[0].0.path() })
    }

    fn attach(&mut self, file: &Path, setup: &DeviceSetup, nr_requests: u32) -> Result<(), DuelError> {
        let (device, open) = LoopDevice::attach(file, setup.block_bytes, Lifetime::UntilClosed)
            .map_err(DuelError::io("attaching a loop device (CAP_SYS_ADMIN)"))?;
        let settings = QueueSettings {
            rotational: setup.rotational,
            nr_requests,
            read_ahead_kb: 128,
            max_sectors_kb: (LONGEST_BYTES >> 10) as u32,
        };
        let refused = device.set_up(settings);
        let depth = driver_depth(&device.path());
        self.loops.push((device, open));
        if !refused.is_empty() {
            return Err(DuelError::Helper(refused.join("; ")));
        }
        // A driver with 128 tags would make every scheduler look like `none`.
        match depth {
            Some(depth) if depth != nr_requests => Err(DuelError::Helper(format!(
                "the loop device takes {depth} requests at once, not {nr_requests}"
            ))),
            _ => Ok(()),
        }
    }

    /// Starts reads that never complete, one for each tag to keep busy, and before them one that completes when they have arrived.
    fn park(&mut self) -> Result<(), DuelError> {
        let path = self.loops[0].0.path();
        for (reads, place) in (1..).zip(places()) {
            let device = open(&path, false, true).map_err(DuelError::io("opening a device to park on"))?;
            let size = length_of(&device).map_err(DuelError::io("sizing a device to park on"))?;
            let at = size - place;
            self.parked.push(thread::spawn(move || {
                on_the_first_processor();
                // Of the idle class, or BFQ would idle for these threads.
                let _ = set_priority(Priority::IDLE);
                let _ = device.read_at(&mut Aligned::new(EXIT_BYTES as usize), at);
            }));
            // One after the other and on one processor, so that the first read gets the first tag: each processor starts its search at another tag.
            if reads <= PARKED {
                await_reads(&path, reads);
            }
        }
        // Only its completion shows that the others are parked and the first tag is free.
        if comes_true(|| self.parked[0].is_finished(), PARKING) {
            return Ok(());
        }
        Err(DuelError::Helper(format!("{}: its tags could not be parked within {PARKING:?}", path.display())))
    }

    /// A partition of the topmost device: a device with the same queue.
    fn partition(&self, number: u32, file_system: &FileSystem) -> Result<PathBuf, DuelError> {
        let (device, open) = &self.loops[self.loops.len() - 1];
        add_partition(open, number, file_system.start_bytes, file_system.bytes)
            .map_err(DuelError::io(format!("adding partition {number} to {}", device.path().display())))?;
        Ok(PathBuf::from(format!("{}p{number}", device.path().display())))
    }

    fn mount(&mut self, partition: &Path, at: &Path, read_only: bool) -> Result<(), DuelError> {
        let failed = || DuelError::io(format!("mounting {}", partition.display()));
        fs::create_dir_all(at).map_err(failed())?;
        // Without access times, reading does not write.
        let mut flags = MountFlags::NOATIME | MountFlags::NODEV | MountFlags::NOSUID;
        flags.set(MountFlags::RDONLY, read_only);
        await_node(partition).map_err(failed())?;
        mount(partition, at, "ext4", flags, None).map_err(|error| failed()(error.into()))?;
        self.mounted.push(at.to_path_buf());
        Ok(())
    }

    /// Removes everything, last first. Failures are printed and do not stop the rest.
    fn tear_down(&mut self, served: &Path) {
        // Before anything that may wait for a tag: killed programs and their dirty data.
        if !self.parked.is_empty()
            && let Err(error) = unpark(served)
        {
            say!("{}: cannot complete the parked requests: {error}", served.display());
        }
        self.parked.drain(..).for_each(|parked| drop(parked.join()));
        for at in self.mounted.drain(..).rev() {
            if unmount(&at, UnmountFlags::empty()).is_err() {
                let _ = unmount(&at, UnmountFlags::DETACH);
            }
        }
        while let Some((device, open)) = self.loops.pop() {
            // Before detaching: the kernel may give a detached device to another program at once.
            device.restore();
            drop(open);
            let _ = device.ask_to_detach();
            if !device.wait_detached(PATIENCE) {
                say!("{}: still in use", device.path().display());
            }
        }
    }
}

/// Reads the block that completes the parked requests. Not through the loop device, which may have no free tag.
fn unpark(served: &Path) -> io::Result<()> {
    let file = open(served, false, true)?;
    let at = length_of(&file)? - EXIT_BYTES;
    file.read_at(&mut Aligned::new(EXIT_BYTES as usize), at).map(drop)
}

/// Pins the calling thread to the first processor that it may use.
fn on_the_first_processor() {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let Some(first) = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)) else { return };
    let mut only = CpuSet::new();
    only.set(first);
    let _ = sched_setaffinity(None, &only);
}

/// Waits until the driver has this many reads in flight, for at most a second; returns at once if the kernel does not report it.
fn await_reads(device: &Path, reads: u32) {
    let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let under_way = || {
        let text = fs::read_to_string(format!("/sys/block/{name}/inflight")).ok()?;
        text.split_whitespace().next()?.parse::<u32>().ok()
    };
    comes_true(|| under_way().is_none_or(|now| now == reads), Duration::from_secs(1));
}

/// Tests a condition every millisecond until the timeout; returns whether it held.
fn comes_true(is_so: impl Fn() -> bool, at_most: Duration) -> bool {
    for _ in 0..at_most.as_millis() {
        if is_so() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

fn length_of(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?)
}

/// Number of tags of the driver, if debugfs has it.
fn driver_depth(device: &Path) -> Option<u32> {
    let name = device.file_name()?.to_string_lossy().into_owned();
    let text = fs::read_to_string(format!("/sys/kernel/debug/block/{name}/hctx0/tags")).ok()?;
    let (_, rest) = text.split_once("depth=")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// `struct blkpg_partition` and `struct blkpg_ioctl_arg` of `linux/blkpg.h`.
#[repr(C)]
struct Partition {
    start: i64,
    length: i64,
    number: i32,
    device_name: [u8; 64],
    volume_name: [u8; 64],
}

#[repr(C)]
struct PartitionCall {
    operation: i32,
    flags: i32,
    length: i32,
    data: *mut Partition,
}

const BLKPG: libc::c_ulong = 0x1269;
const BLKPG_ADD_PARTITION: i32 = 1;

const _: () = assert!(size_of::<Partition>() == 152);

fn add_partition(device: &File, number: u32, start: u64, length: u64) -> io::Result<()> {
    let mut partition = Partition {
        start: start as i64,
        length: length as i64,
        number: number as i32,
        device_name: [0; 64],
        volume_name: [0; 64],
    };
    let call = PartitionCall {
        operation: BLKPG_ADD_PARTITION,
        flags: 0,
        length: size_of::<Partition>() as i32,
        data: &raw mut partition,
    };
    // SAFETY: both structures have the kernel's layout and live across the call, which only reads them.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), BLKPG as _, &raw const call) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A device's node may appear shortly after the device.
fn await_node(node: &Path) -> io::Result<()> {
    if comes_true(|| node.exists(), Duration::from_secs(1)) { Ok(()) } else { make_node(node) }
}

/// Creates the node, which is missing without a device manager (in a container).
fn make_node(node: &Path) -> io::Result<()> {
    let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbers = fs::read_to_string(format!("/sys/class/block/{name}/dev"))?;
    let (major, minor) = numbers.trim().split_once(':').ok_or(io::ErrorKind::InvalidData)?;
    let made = Command::new("mknod").arg(node).args(["b", major, minor]).status()?;
    if made.success() { Ok(()) } else { Err(io::Error::other("no node for a partition of the device")) }
}
