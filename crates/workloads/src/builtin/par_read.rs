//! par-read: the stream paper's microbenchmark for think time.
//!
//! "It creates four independent processes, each reading a 1GB file using 4KB requests in parallel. There is a 50GB gap
//! between each two adjacent files. By default the thinktime between consecutive requests of a process is set to 0."
//! (section 3.3). Here every request of the program is a request of the disk: no page cache, no read-ahead.

use elevator::text::whole;
use elevator::{Sector, Sectors, Span, tunables};
use machine::{Await, Io, Next, Program, Submitter};

use super::{GIB, KIB};
use crate::steps::program_of;
use crate::workload::Workload;

tunables! {
    pub struct ParReadSettings {
        /// Processes that read.
        processes: Count = 4, 1, 4096;
        /// Bytes of a request, a multiple of 512.
        request_bytes: Count = 4 * KIB, 512, 1024 * KIB;
        /// Bytes that each process reads.
        file_bytes: Count = GIB, 512, 1024 * GIB;
        /// Bytes from the start of one file to the start of the next; the paper's gap of 50 GB and the file.
        apart_bytes: Count = 51 * GIB, 512, 64 * 1024 * GIB;
        /// Think time between a process's requests.
        think: Span = Span::ZERO, Span::ZERO, Span::from_secs(10);
    }
}

/// The benchmark with its settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParRead(pub ParReadSettings);

impl Workload for ParRead {
    fn describe(&self) -> String {
        let ParReadSettings { processes, request_bytes, file_bytes, apart_bytes, think } = self.0;
        format!(
            "par-read: {processes} processes, {} each in requests of {request_bytes} bytes, {} apart, think time {think}",
            whole(file_bytes),
            whole(apart_bytes),
        )
    }

    fn end(&self) -> Sector {
        Sector(((self.0.processes - 1) * self.0.apart_bytes + self.0.file_bytes).div_ceil(512))
    }

    fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
        let ParReadSettings { processes, request_bytes, file_bytes, apart_bytes, think } = self.0;
        let reader = |n: u64| {
            let first = n * apart_bytes / 512;
            let sectors = Sectors::from_bytes(request_bytes);
            program_of((0..file_bytes / request_bytes).flat_map(move |i| {
                let start = Sector(first + i * u64::from(sectors.0));
                let think = (think > Span::ZERO).then_some(Next::Think(think));
                [Some(Next::Submit(Io::read(start, sectors))), Some(Next::Await(Await::All)), think]
                    .into_iter()
                    .flatten()
            }))
        };
        (0..processes)
            .map(|n| (Submitter::process(n as u32 + 1, format!("reader-{}", n + 1)), reader(n)))
            .collect()
    }
}
