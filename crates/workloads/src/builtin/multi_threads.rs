//! multi-threads: the stream paper's microbenchmark for threads that synchronise.
//!
//! "there are four processes, each forking two threads. Each thread reads a 40MB file in a strided pattern, reading the
//! first 4KB of data of every 16KB segment from the beginning to the end of the file. The distance between the two files
//! accessed by one process is 100MB, and the distance of files read by adjacent processes is 50GB. Two threads of a
//! process synchronizes after each makes every five requests." (section 3.4)

use elevator::text::whole;
use elevator::{Priority, Process, Sector, Sectors, tunables};
use machine::{Await, Barrier, Io, Next, Program, Submitter};

use super::{GIB, KIB};
use crate::steps::program_of;
use crate::workload::Workload;

const MIB: u64 = 1 << 20;

tunables! {
    pub struct MultiThreadsSettings {
        /// Processes with two threads each.
        processes: Count = 4, 1, 1024;
        /// Bytes of each thread's file.
        file_bytes: Count = 40 * MIB, 16 * KIB, 64 * GIB;
        /// Bytes of a request, read at the start of each segment.
        request_bytes: Count = 4 * KIB, 512, 1024 * KIB;
        /// Bytes of a segment.
        segment_bytes: Count = 16 * KIB, 512, 1024 * MIB;
        /// Requests of a thread between two barriers.
        meet_every: Count = 5, 1, 1_000_000;
        /// Bytes between the two files of a process.
        pair_bytes: Count = 100 * MIB, 512, 1024 * GIB;
        /// Bytes between the files of adjacent processes.
        apart_bytes: Count = 50 * GIB, 512, 64 * 1024 * GIB;
    }
}

/// The benchmark with its settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct MultiThreads(pub MultiThreadsSettings);

impl MultiThreads {
    fn thread(&self, process: u64, thread: u64) -> Box<dyn Program> {
        let own = self.0;
        let first = (process * own.apart_bytes + thread * own.pair_bytes) / 512;
        let sectors = Sectors::from_bytes(own.request_bytes);
        let meeting = Barrier { name: process as u32, members: 2 };
        program_of((0..own.file_bytes / own.segment_bytes).flat_map(move |i| {
            let start = Sector(first + i * own.segment_bytes / 512);
            let meet = ((i + 1) % own.meet_every == 0).then_some(Next::Barrier(meeting));
            [Some(Next::Submit(Io::read(start, sectors))), Some(Next::Await(Await::All)), meet]
                .into_iter()
                .flatten()
        }))
    }
}

impl Workload for MultiThreads {
    fn describe(&self) -> String {
        let MultiThreadsSettings { processes, file_bytes, request_bytes, segment_bytes, meet_every, .. } =
            self.0;
        format!(
            "multi-threads: {processes} processes of two threads, {request_bytes} of every {segment_bytes} bytes of {} each, meeting every {meet_every} requests",
            whole(file_bytes),
        )
    }

    fn end(&self) -> Sector {
        let MultiThreadsSettings { processes, file_bytes, request_bytes, pair_bytes, apart_bytes, .. } =
            self.0;
        Sector(((processes - 1) * apart_bytes + pair_bytes + file_bytes + request_bytes).div_ceil(512))
    }

    fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
        let threads = (0..self.0.processes).flat_map(|process| [(process, 0), (process, 1)]);
        threads
            .map(|(process, thread)| {
                let group = 2 * process as u32 + 1;
                let who = Submitter {
                    process: Some(Process::thread(group + thread as u32, group)),
                    priority: Priority::default(),
                    name: format!("process-{}/{}", process + 1, thread + 1),
                };
                (who, self.thread(process, thread))
            })
            .collect()
    }
}
