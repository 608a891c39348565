//! Keeps the memory of the I/O path resident.
//!
//! A page that a server of an attached device touches for the first time is charged to its memory cgroup. At the limit the kernel
//! reclaims pages of that cgroup, and in a cgroup of version 1 it waits for pages under writeback (`shrink_folio_list`, case 3). If
//! their writeback needs this very server, both wait for ever, also after SIGKILL. Two measures prevent this:
//!
//! - `PR_SET_IO_FLUSHER` before any thread starts: allocations of the process then start no I/O and wait for none. It needs
//!   CAP_SYS_RESOURCE, which root lacks in many containers.
//! - Nothing is touched for the first time while the device serves. Program text, heap and stacks are populated and locked at the
//!   start, and `malloc` neither returns nor maps memory afterwards. The FUSE front end leaves requests in the kernel that would need
//!   more than the reserved memory. io_uring has allocated its requests and started its only worker thread.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{MlockAllFlags, mlock, mlockall};

use crate::backend::Backend;
use crate::{ServeError, memory_limit};

/// Data of requests on their way, at most: 128 requests, as many as the loop device has under way, of 512 KiB, its largest.
const DATA: usize = 64 << 20;

/// The share of a memory cgroup's limit that data of requests may take, and the least for two of the largest requests. A server that
/// waits to take over needs as much again.
const SHARE: u64 = 16;
const DATA_LEAST: usize = 4 << 20;

/// All other allocations while the device serves: operations, the scheduler's state, statistics, snapshots.
const REST: usize = 8 << 20;

/// Stack that a thread of the I/O path uses. Measured use is below 40 KiB; panics and formatted messages take more.
const STACK: usize = 128 << 10;

/// Memory was reserved, so that threads that start later lock their stacks.
static RESERVED: AtomicBool = AtomicBool::new(false);

/// The device serves from within a memory cgroup that has a limit.
static LIMITED: AtomicBool = AtomicBool::new(false);

/// The result of the reservation.
pub(crate) struct Reserve {
    /// Data of requests that may be on their way, in bytes.
    pub(crate) data: usize,
    /// A risk that remains, in words.
    pub(crate) warning: Option<String>,
}

/// Sets the OOM score adjustment with which the kernel does not kill this process when memory is short: without a server, programs that use the
/// device wait. Needs CAP_SYS_RESOURCE; without it nothing changes.
fn survive_others() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
}

/// Reserves and locks the memory of a server of an attached device. To be called before any other thread starts.
pub(crate) fn reserve() -> Reserve {
    survive_others();
    let limit = memory_limit::own();
    let share = limit.map_or(DATA, |limit| usize::try_from(limit / SHARE).unwrap_or(DATA));
    let data = share.clamp(DATA_LEAST, DATA);
    let flusher = rustix::process::configure_io_flusher_behavior(true).map_err(io::Error::from);
    // A quarter more: buffers are aligned, which leaves gaps between them.
    let locked = lock_heap(data + data / 4 + REST).and_then(|()| Ok(mlockall(MlockAllFlags::CURRENT)?));
    RESERVED.store(locked.is_ok(), Ordering::Relaxed);
    LIMITED.store(limit.is_some(), Ordering::Relaxed);
    let warning = match (limit, flusher, locked) {
        (Some(limit), Err(flusher), Err(locked)) => Some(warning(limit, &flusher, &locked)),
        _ => None,
    };
    Reserve { data, warning }
}

fn warning(limit: u64, flusher: &io::Error, locked: &io::Error) -> String {
    format!(
        "a memory cgroup limits the server to {} MiB, PR_SET_IO_FLUSHER needs CAP_SYS_RESOURCE ({flusher}), and locked memory \
         needs CAP_IPC_LOCK ({locked}): a program in that cgroup that writes to the attached device can block the server for \
         ever; grant one of the two, or run the server outside that cgroup",
        limit >> 20
    )
}

/// Refuses a back end of an attached device that allocates memory for its jobs in a memory cgroup with a small limit: nothing can be
/// reserved for it. Pages of other programs that wait for writeback can fill the cgroup only if its limit is below the share of the
/// machine's memory that may be dirty (`vm.dirty_ratio`, 20%; here half of the memory, because root may raise it).
pub(crate) fn check(backend: &dyn Backend) -> Result<(), ServeError> {
    let limit = memory_limit::own().filter(|&limit| limit < memory_limit::machine() / 2);
    let Some(limit) = limit.filter(|_| backend.allocates()) else { return Ok(()) };
    Err(ServeError::Configuration(format!(
        "{} allocates memory for what is written, a memory cgroup limits the server to {} MiB, and a program in that cgroup that writes \
         to the attached device could block the server for ever: run the server in a cgroup without a limit, serve a file on a disk \
         without --drive, or use --nbd",
        backend.describe(),
        limit >> 20
    )))
}

/// Heap of a supervisor. It needs some kilobytes.
const SUPERVISOR: usize = 1 << 20;

/// The same for a supervisor, which must not wait for the device, either. What is refused is done without.
pub(crate) fn reserve_for_supervisor() {
    survive_others();
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let _ = lock_heap(SUPERVISOR);
    let _ = mlockall(MlockAllFlags::CURRENT);
    populate_stack();
}

/// Makes `malloc` allocate from one heap that never shrinks, and populates and locks `bytes` of it.
fn lock_heap(bytes: usize) -> io::Result<()> {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_MAX, 0), (libc::M_TRIM_THRESHOLD, -1)] {
        // SAFETY: changes parameters of the allocator; no memory is involved.
        unsafe { libc::mallopt(parameter, value) };
    }
    let mut heap: Vec<u8> = Vec::new();
    heap.try_reserve_exact(bytes).map_err(io::Error::other)?;
    heap.resize(bytes, 1);
    let heap = black_box(heap);
    // SAFETY: the range is the vector's own memory. It stays locked when it is freed, as the heap does not shrink.
    Ok(unsafe { mlock(heap.as_ptr().cast_mut().cast(), bytes) }?)
}

/// Whether kernel allocations for this process may wait for the served device.
pub(crate) fn is_limited() -> bool {
    LIMITED.load(Ordering::Relaxed)
}

/// Populates and locks the stack of the calling thread, if memory was reserved.
pub(crate) fn lock_stack() {
    if RESERVED.load(Ordering::Relaxed) {
        populate_stack();
    }
}

/// Populates and locks the stack of the calling thread.
#[inline(never)]
pub(crate) fn populate_stack() {
    let mut stack = [0u8; STACK];
    black_box(&mut stack);
    // SAFETY: the range is this function's own memory. A failure has no effect on the thread.
    let _ = unsafe { mlock(stack.as_mut_ptr().cast(), STACK) };
}
