//! The back end with a BPF program at the block layer's tracepoints.
//!
//! Only descriptors of this process hold the program and its maps: nothing is pinned, so the kernel removes everything when the process ends.

pub(crate) mod load;
mod record;
mod under_way;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use aya::maps::{MapData, PerCpuArray, RingBuf};
use aya::util::nr_cpus;
use aya::{Btf, Ebpf, EbpfLoader};
use control::DeviceNumber;
use rustix::event::{Timespec, epoll};

use crate::clock::now;
use crate::error::Error;
use crate::event::Batch;
use crate::source::{Backend, Counts, Options, Source};
use load::{attach, kernel_types, map, refused};
use record::{ARRIVAL_BYTES, Record};
use under_way::UnderWay;

/// The program: GPL-2.0-only, with its source. See `bpf/README.md`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/block.bpf.o");

/// `PERIOD_SHIFT` of the program.
const PERIOD_SHIFT: u32 = 27;

/// The header of a record in the kernel's ring buffer, in bytes.
const RECORD_HEADER: usize = 8;

/// `struct account` of the program: submissions that arrived, were skipped, were lost; ends that were lost; then its own notes.
type Account = [u64; 6];

/// The program at its tracepoints.
pub(crate) struct Bpf {
    ring: RingBuf<MapData>,
    accounts: PerCpuArray<MapData, Account>,
    /// Ready when the program wakes the reader, not whenever there is a record, as with a level-triggered wait.
    woken: OwnedFd,
    /// Submissions in flight, if completions are reported.
    under_way: Option<UnderWay>,
    /// Holds the programs and their links.
    _ebpf: Ebpf,
}

impl Bpf {
    /// Attaches to the disk with that number.
    pub(crate) fn open((major, minor): DeviceNumber, options: &Options) -> Result<Self, Error> {
        let btf = kernel_types()?;
        let mut ebpf = load(&btf, major << 20 | minor, options)?;
        let wanted = [
            ("process_exit", "sched_process_exit", options.exits),
            ("bio_complete", "block_bio_complete", options.completions),
            ("request_complete", "block_rq_complete", options.completions),
            ("bio_queue", "block_bio_queue", true),
        ];
        for (program, tracepoint, _) in wanted.into_iter().filter(|&(.., is_wanted)| is_wanted) {
            attach(&mut ebpf, program, tracepoint, &btf)?;
        }
        let ring = RingBuf::try_from(map(&mut ebpf, "records")?)
            .map_err(|error| Error::kernel("mapping the BPF ring buffer", error))?;
        let accounts = PerCpuArray::try_from(map(&mut ebpf, "accounts")?)
            .map_err(|error| Error::kernel("opening the BPF counters", error))?;
        let woken = wait_on(&ring).map_err(|error| Error::io("waiting for a BPF ring buffer", error))?;
        let under_way = options.completions.then(UnderWay::default);
        Ok(Self { ring, accounts, woken, under_way, _ebpf: ebpf })
    }
}

fn load(btf: &Btf, device: u32, options: &Options) -> Result<Ebpf, Error> {
    let processors = nr_cpus().unwrap_or(1) as u32;
    let ring_bytes = options.ring_bytes.clamp(1 << 16, 1 << 30).next_power_of_two();
    let per_period = |rate: u32| (u64::from(rate) << PERIOD_SHIFT).div_ceil(1_000_000_000) as u32;
    let period_taken = options.rate_max.map_or(0, |rate| per_period(rate).max(1));
    let wake_every = ring_bytes / 2 / (ARRIVAL_BYTES + RECORD_HEADER) as u32 / processors;
    EbpfLoader::new()
        .btf(Some(btf))
        .override_global("device", &device, true)
        .override_global("completions", &u32::from(options.completions), true)
        .override_global("exits", &u32::from(options.exits), true)
        .override_global("period_taken", &period_taken, true)
        .override_global("wake_every", &wake_every.max(1), true)
        .map_max_entries("records", ring_bytes)
        .load(OBJECT)
        .map_err(|error| refused("making BPF maps", error))
}

fn wait_on(ring: &RingBuf<MapData>) -> io::Result<OwnedFd> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let when = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&epoll, ring.as_fd(), epoll::EventData::new_u64(0), when)?;
    Ok(epoll)
}

impl Source for Bpf {
    fn take(&mut self, batch: &mut Batch, patience: Duration) -> Result<(), Error> {
        if !patience.is_zero() {
            let mut ready = Vec::with_capacity(1);
            let patience = Timespec::try_from(patience).ok();
            match epoll::wait(&self.woken, rustix::buffer::spare_capacity(&mut ready), patience.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::io("waiting for a BPF ring buffer", error.into())),
            }
        }
        // Later events stay for the next call: on a busy device they may arrive as fast as they are read, so that this call would not end.
        let until = now();
        let mut is_over = false;
        while !is_over && let Some(bytes) = self.ring.next() {
            let Some(record) = Record::parse(&bytes) else { continue };
            is_over = record.at().is_some_and(|at| at > until);
            match (record, &mut self.under_way) {
                (Record::Arrived(bio, arrival), under_way) => {
                    batch.arrivals.push(arrival);
                    under_way.iter_mut().for_each(|table| table.arrived(bio, arrival));
                }
                (Record::Completed { bio, at, failed }, Some(under_way)) => {
                    batch.completed.extend(under_way.completed(bio, at, failed));
                }
                (Record::Completed { .. }, None) => {}
                (Record::Exited(process), _) => batch.exited.push(process),
            }
        }
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Error> {
        let accounts =
            self.accounts.get(&0, 0).map_err(|error| Error::kernel("reading the BPF counters", error))?;
        let sum = |field: usize| accounts.iter().map(|account| account[field]).sum();
        let missing = self.under_way.as_ref().map_or(0, UnderWay::missing);
        Ok(Counts {
            arrived: sum(0),
            skipped: sum(1),
            lost: sum(2),
            ends_lost: sum(3).saturating_add(missing),
        })
    }

    fn backend(&self) -> Backend {
        Backend::Bpf
    }
}
