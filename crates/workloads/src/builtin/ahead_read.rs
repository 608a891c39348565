//! ahead-read: sequential readers as they reach a disk array below a page cache with read-ahead.
//!
//! Full-window read-ahead as in Linux (`mm/readahead.c`, on demand): the reader has one window cached or in flight and uses
//! its first page when it arrives; that page is marked, which submits the next window. So at most two windows are in flight,
//! and each is submitted when the first request of the previous one completes. Linux gives an md array a window of two full
//! stripes: 640 KB on five disks with units of 64 KB, one request per stripe unit in 2.6.
//!
//! Only the steady state is modelled: no cache, no growing window, nothing read twice. Scripts use the page cache of the
//! modelled machine instead.

use elevator::text::whole;
use elevator::{Sector, Sectors, Span, tunables};
use machine::{Await, Io, Next, Program, Submitter};

use super::{GIB, KIB};
use crate::steps::program_of;
use crate::workload::Workload;

tunables! {
    pub struct AheadReadSettings {
        /// Processes.
        processes: Count = 4, 1, 4096;
        /// Bytes of a request, a multiple of 512.
        request_bytes: Count = 64 * KIB, 512, 1024 * KIB;
        /// Bytes of the read-ahead window; at least a request.
        window_bytes: Count = 640 * KIB, 512, 1024 * 1024 * KIB;
        /// Bytes that each process reads.
        file_bytes: Count = GIB, 512, 1024 * GIB;
        /// Bytes from the start of one file to the start of the next; the stream paper's gap of 50 GB and the file.
        apart_bytes: Count = 51 * GIB, 512, 64 * 1024 * GIB;
        /// Think time for each request.
        think: Span = Span::ZERO, Span::ZERO, Span::from_secs(10);
    }
}

/// The workload with its settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct AheadRead(pub AheadReadSettings);

impl AheadRead {
    fn reader(&self, first: u64) -> Box<dyn Program> {
        let AheadReadSettings { request_bytes, window_bytes, file_bytes, think, .. } = self.0;
        let sectors = Sectors::from_bytes(request_bytes);
        let requests = file_bytes / request_bytes;
        let window = (window_bytes / request_bytes).max(1);
        let send = move |from: u64| {
            (from..requests.min(from + window))
                .map(move |i| Next::Submit(Io::read(Sector(first + i * u64::from(sectors.0)), sectors)))
        };
        program_of(send(0).chain((0..requests).flat_map(move |i| {
            let next = i.is_multiple_of(window).then(|| send(i + window)).into_iter().flatten();
            let think = (think > Span::ZERO).then_some(Next::Think(think));
            std::iter::once(Next::Await(Await::Io(i))).chain(next).chain(think)
        })))
    }
}

impl Workload for AheadRead {
    fn describe(&self) -> String {
        let AheadReadSettings { processes, request_bytes, window_bytes, file_bytes, apart_bytes, think } =
            self.0;
        format!(
            "ahead-read: {processes} processes, {} each, read ahead by {} in requests of {}, {} apart, {think} of thinking a request",
            whole(file_bytes),
            whole(window_bytes),
            whole(request_bytes),
            whole(apart_bytes),
        )
    }

    fn end(&self) -> Sector {
        Sector(((self.0.processes - 1) * self.0.apart_bytes + self.0.file_bytes).div_ceil(512))
    }

    fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
        let reader = |n: u64| self.reader(n * self.0.apart_bytes / 512);
        (0..self.0.processes)
            .map(|n| (Submitter::process(n as u32 + 1, format!("reader-{}", n + 1)), reader(n)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use elevator::Time;

    use super::*;

    #[test]
    fn a_window_follows_the_first_completion_of_the_previous_one() {
        let settings = AheadReadSettings {
            request_bytes: 4 * KIB,
            window_bytes: 8 * KIB,
            file_bytes: 20 * KIB,
            ..AheadReadSettings::default()
        };
        let mut program = AheadRead(settings).reader(0);
        let steps = std::iter::from_fn(|| match program.next(Time::ZERO) {
            Next::Submit(io) => Some(format!("send {}", io.start.0 / 8)),
            Next::Await(Await::Io(n)) => Some(format!("await {n}")),
            _ => None,
        });
        let steps: Vec<String> = steps.collect();
        let expected = [
            "send 0", "send 1", "await 0", "send 2", "send 3", "await 1", "await 2", "send 4", "await 3",
            "await 4",
        ];
        assert_eq!(steps, expected);
    }
}
