//! Processes that are put to rest outside memory act as those that stay there.

use std::sync::Arc;

use elevator::queue::Options;
use elevator::{Op, Sector, Span, Time};
use evaluation::device::Device;
use evaluation::runs::{Plan, run};
use evaluation::spool::StepFile;
use machine::{Measured, Program, Submitter};
use schedulers::Spec;
use traces::{DeviceId, Pid, Record};
use workloads::Workload;
use workloads::replay::{Closed, Open, Replay};

/// More than a machine keeps in memory, each with a loop of reads and a chain of writes.
const PROCESSES: u32 = 6_000;

/// Starts each process by itself, so that none is put to rest.
struct InMemory(Replay);

impl Workload for InMemory {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn end(&self) -> Sector {
        self.0.end()
    }

    fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
        self.0.processes()
    }
}

fn record(number: u32) -> Record {
    let at = Time::from_nanos(u64::from(number) * 300_000);
    let op = if number.is_multiple_of(3) { Op::Write } else { Op::Read };
    let start = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 100_000_000;
    let mut record = Record::new(at, DeviceId(0), op, start * 512, 4096);
    record.completed = Some(at + Span::from_nanos(20_000 + start % 7_000_000));
    record.process = Some(Pid(number % (PROCESSES - number % 7) + 1));
    record
}

fn measured(workload: &(dyn Workload + Sync), scheduler: &str, drive: &str) -> Measured {
    let device = Device::open(drive).unwrap();
    let plan = Plan {
        workload,
        device: &device,
        schedulers: &[Spec::parse(scheduler).unwrap()],
        options: Options { depth: device.depth(), ..Options::default() },
        before: Span::ZERO,
        at_most: None,
        chart_requests: 0,
        explain: None,
    };
    let mut runs = run(&plan, &|_| ()).unwrap();
    assert_eq!(runs[0].failure, None);
    runs.remove(0).measured
}

#[test]
fn processes_at_rest_change_no_result() {
    let records = || (0..10 * PROCESSES).map(record);
    let spill = || Arc::new(StepFile::default());
    let mut closed = Closed::spilling_to(spill());
    records().for_each(|record| closed.push(&record));
    let mut open = Open::spilling_to(spill());
    records().for_each(|record| open.push(&record));
    for replay in [closed.finish("closed", &|_| None), open.finish("open", &|_| None)] {
        for (scheduler, drive) in [("bfq", "ssd-sata"), ("noop", "ssd-nvme")] {
            let resting = measured(&replay, scheduler, drive);
            let in_memory = measured(&InMemory(replay.clone()), scheduler, drive);
            assert!(resting == in_memory, "{}, {scheduler}, {drive}", replay.describe());
        }
    }
}
