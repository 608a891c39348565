//! The measurements of a run.

mod device;
mod processes;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::latencies::Latency;

pub(crate) use device::DeviceStats;
pub(crate) use processes::ProcessStats;

/// The measurements of a run. Times and sizes are those of the modelled machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// From the start to the last completion, in nanoseconds.
    pub elapsed_ns: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Finished submissions.
    pub requests: u64,
    /// Submissions that failed.
    pub failed: u64,
    /// Requests dispatched to the device, after merging.
    pub dispatched: u64,
    /// From submission to completion, of all operations but flushes.
    pub latency: Latency,
    pub reads: Latency,
    /// Of writes and discards.
    pub writes: Latency,
    /// Of the system calls `fsync` and `fdatasync`.
    pub fsyncs: Latency,
    /// Distance of head movement in sectors of address space, including read-ahead and the write-out of buffered data; 0
    /// without a head.
    pub head_travel_sectors: u64,
    /// Accesses that did not continue the previous one.
    pub seeks: u64,
    /// Time in which the device was idle in a deliberate wait with requests queued.
    pub waits: Waits,
    /// By member of an array; empty for a single disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberMeasured>,
    /// By process, or group of processes with one name, in order of first start.
    pub processes: Vec<ProcessMeasured>,
}

impl Measured {
    /// Throughput over the whole run in 10^6 bytes a second.
    pub fn megabytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.elapsed_ns) / 1e6
    }
}

fn per_second(amount: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { amount as f64 * 1e9 / ns as f64 }
}

/// Deliberate waits of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// Number of waits.
    pub count: u64,
    /// Sum, in nanoseconds.
    pub total_ns: u64,
    /// Sums by reason.
    pub by_reason: BTreeMap<&'static str, u64>,
}

impl Waits {
    fn with(mut self, other: &Self) -> Self {
        self.count += other.count;
        self.total_ns += other.total_ns;
        for (reason, ns) in &other.by_reason {
            *self.by_reason.entry(reason).or_default() += ns;
        }
        self
    }
}

/// The measurements of a member of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemberMeasured {
    /// Requests dispatched to it, after merging.
    pub dispatched: u64,
    /// Bytes read and written, including parity and the reads for it.
    pub bytes: u64,
    /// Distance of head movement in sectors.
    pub head_travel_sectors: u64,
    /// Accesses that did not continue the previous one.
    pub seeks: u64,
    /// Time with requests in the device, in nanoseconds.
    pub busy_ns: u64,
    /// Time in which it was idle in a deliberate wait with requests queued.
    pub waits: Waits,
}

/// The measurements of a process, or group of processes with one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessMeasured {
    pub name: String,
    /// From its start to its end, or to its last completion if that is later, in nanoseconds; to the end of the run if the
    /// run was stopped before its end.
    pub elapsed_ns: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Latency of all requests.
    pub latency: Latency,
    pub reads: Latency,
    pub writes: Latency,
    /// Of system calls, by name; reading and writing calls are included above as well.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<&'static str, Latency>,
}
