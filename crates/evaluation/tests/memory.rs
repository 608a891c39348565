//! Memory of a replay of many processes. A program of its own: other tests would count.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use elevator::queue::Options;
use elevator::{Op, Span, Time};
use evaluation::device::Device;
use evaluation::runs::{Plan, run};
use evaluation::spool::{StepFile, return_memory};
use schedulers::Spec;
use traces::{DeviceId, Pid, Record};
use workloads::replay::{Closed, NAMED, Open, Replay};

const PROCESSES: u64 = 100_000;
/// Of each process: the recording has more than the two million that memory holds.
const REQUESTS: u64 = 21;

/// A number of kilobytes in `/proc/self/status`.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The requests of the processes in turns, or one process after the other.
fn record(number: u64, in_turns: bool) -> Record {
    let at = Time::from_nanos(number * 100_000);
    let op = if number.is_multiple_of(3) { Op::Write } else { Op::Read };
    let start = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 100_000_000;
    let mut record = Record::new(at, DeviceId(0), op, start * 512, 4096);
    record.completed = Some(at + Span::from_nanos(20_000 + start % 70_000));
    let process = if in_turns { number % PROCESSES } else { number / REQUESTS };
    record.process = Some(Pid(process as u32 + 1));
    record
}

fn replay(open: bool, in_turns: bool) -> Replay {
    let spill = Arc::new(StepFile::default());
    let records = (0..PROCESSES * REQUESTS).map(|number| record(number, in_turns));
    if open {
        let mut builder = Open::spilling_to(spill);
        records.for_each(|record| builder.push(&record));
        return builder.finish("test", &|_| None);
    }
    let mut builder = Closed::spilling_to(spill);
    records.for_each(|record| builder.push(&record));
    builder.finish("test", &|_| None)
}

#[test]
fn a_recording_of_many_processes_fits_into_memory() {
    let device = Device::open("ssd-nvme").unwrap();
    let schedulers = [Spec::parse("noop").unwrap(), Spec::parse("noop").unwrap()];
    for (open, in_turns) in [(false, false), (false, true), (true, false), (true, true)] {
        let workload = replay(open, in_turns);
        return_memory();
        let plan = Plan {
            workload: &workload,
            device: &device,
            schedulers: &schedulers,
            options: Options { depth: device.depth(), ..Options::default() },
            before: Span::ZERO,
            at_most: None,
            chart_requests: 0,
            explain: None,
        };
        let runs = run(&plan, &|_| ()).unwrap();
        for run in &runs {
            assert_eq!((run.failure.as_deref(), run.measured.requests), (None, PROCESSES * REQUESTS));
            let processes = &run.measured.processes;
            assert_eq!(processes.len(), NAMED + 1);
            let others = processes.iter().find(|process| process.name == "99744 other processes").unwrap();
            assert_eq!(others.latency.count, (PROCESSES - NAMED as u64) * REQUESTS);
        }
        let peak = status("VmHWM:");
        // 277,636 KiB, most of it while the recording is read.
        assert!(peak < 350 << 10, "{peak} KiB for {PROCESSES} processes, open {open}, in turns {in_turns}");
    }
}
