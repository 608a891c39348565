//! 8S and 512S: IOAnalyzer's strided readers (its section IV-E).
//!
//! "they read 4KB and jump 8 KB or 512 KB, respectively, of a 2GB file. These tests use a different 2GB file for each process
//! and the page cache is cleaned every time." The paper runs them with 4 and with 8 processes. A jump counts from the start
//! of one read to the start of the next. There is no read-ahead, since the kernel's does not follow strides.

use elevator::text::whole;
use elevator::{Sector, Sectors, tunables};
use machine::{Await, Io, Next, Program, Submitter};

use super::{GIB, KIB};
use crate::steps::program_of;
use crate::workload::{Processes, Workload};

tunables! {
    pub struct StridedSettings {
        /// Processes, each with a file of its own.
        processes: Count = 4, 1, 4096;
        /// Bytes of a file.
        file_bytes: Count = 2 * GIB, 512, 1024 * GIB;
        /// Bytes from the start of a read to the start of the next: 8 KiB is the paper's 8S, 512 KiB its 512S.
        stride_bytes: Count = 8 * KIB, 512, GIB;
        /// Bytes of a read.
        request_bytes: Count = 4 * KIB, 512, 1024 * KIB;
        /// Bytes from the start of one file to the start of the next.
        apart_bytes: Count = 8 * GIB, 512, 64 * 1024 * GIB;
    }
}

/// The benchmark with its settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strided(pub StridedSettings);

impl Strided {
    fn reader(&self, n: u64) -> Box<dyn Program> {
        let StridedSettings { file_bytes, stride_bytes, request_bytes, apart_bytes, .. } = self.0;
        let sectors = Sectors::from_bytes(request_bytes);
        program_of((0..file_bytes / stride_bytes).flat_map(move |i| {
            let start = Sector((n * apart_bytes + i * stride_bytes) / 512);
            [Next::Submit(Io::read(start, sectors)), Next::Await(Await::All)]
        }))
    }
}

impl Workload for Strided {
    fn describe(&self) -> String {
        let StridedSettings { processes, file_bytes, stride_bytes, request_bytes, .. } = self.0;
        format!(
            "strided: {processes} processes, {request_bytes} of every {stride_bytes} bytes of {} each",
            whole(file_bytes)
        )
    }

    fn end(&self) -> Sector {
        let StridedSettings { processes, file_bytes, apart_bytes, request_bytes, .. } = self.0;
        Sector(((processes - 1) * apart_bytes + file_bytes + request_bytes).div_ceil(512))
    }

    fn processes(&self) -> Processes {
        let reader = |n: u64| (Submitter::process(n as u32 + 1, format!("reader-{}", n + 1)), self.reader(n));
        (0..self.0.processes).map(reader).collect()
    }
}
