//! [`Recorder`]: writes a device's requests to a recording, without their data.

use std::collections::VecDeque;
use std::io::{self, Write};

use control::DeviceNumber;
use elevator::{SECTOR_BYTES, Span, Time};
use traces::write::{DwellWriter, Written};
use traces::{DeviceId, Pid, Record};

use crate::event::{Arrival, Batch, Completed};

/// Arrivals that wait for their own or an older completion; more than a device has in flight.
const HELD_MAX: usize = 1 << 16;
/// An arrival without a completion by then is written without one: Linux times requests out after 30 s.
const PATIENCE: Span = Span::from_secs(60);

struct Held {
    arrival: Arrival,
    completed: Option<Time>,
}

/// Writes a [`Source`](crate::Source)'s batches as a recording in Dwell's own format, in the order of arrival.
pub struct Recorder<W: Write> {
    writer: DwellWriter<W>,
    /// The recording's time zero.
    origin: Time,
    with_completions: bool,
    held: VecDeque<Held>,
    /// What is known about tasks, for the end.
    identities: Vec<(u32, String)>,
}

impl<W: Write> Recorder<W> {
    /// Writes to `sink`, which should be buffered. `origin` is the start of the recording on the clock of arrivals, `comment` describes it.
    /// Without completions nothing waits for them.
    pub fn new(
        sink: W,
        device: DeviceNumber,
        origin: Time,
        comment: &str,
        with_completions: bool,
    ) -> io::Result<Self> {
        let writer = DwellWriter::new(sink, [format!("{},{}", device.0, device.1)], comment)?;
        let (held, identities) = (VecDeque::new(), Vec::new());
        Ok(Self { writer, origin, with_completions, held, identities })
    }

    /// Writes a batch.
    pub fn take(&mut self, batch: &Batch) -> io::Result<()> {
        // A source may have been opened before the recording.
        let origin = self.origin;
        for arrival in batch.arrivals.iter().filter(|arrival| arrival.at >= origin) {
            self.arrived(*arrival);
        }
        for completed in &batch.completed {
            self.completed(completed);
        }
        self.release()
    }

    /// CPUs report concurrently: an event may be slightly earlier than its predecessor.
    fn arrived(&mut self, arrival: Arrival) {
        let earlier = self.held.iter().rev().take_while(|held| held.arrival.at > arrival.at).count();
        self.held.insert(self.held.len() - earlier, Held { arrival, completed: None });
    }

    fn completed(&mut self, completed: &Completed) {
        let from = self.held.partition_point(|held| held.arrival.at < completed.arrival.at);
        let mut same = self.held.range_mut(from..).take_while(|held| held.arrival.at == completed.arrival.at);
        let held = same.find(|held| held.arrival == completed.arrival && held.completed.is_none());
        if let Some(held) = held {
            held.completed = Some(completed.at);
        }
    }

    /// Writes the arrivals that need wait no longer.
    fn release(&mut self) -> io::Result<()> {
        let now = self.held.back().map_or(Time::ZERO, |held| held.arrival.at);
        while let Some(held) = self.held.front() {
            let settled = held.completed.is_some() || !self.with_completions;
            if !settled && self.held.len() <= HELD_MAX && now.since(held.arrival.at) < PATIENCE {
                break;
            }
            self.write_first()?;
        }
        Ok(())
    }

    fn write_first(&mut self) -> io::Result<()> {
        let Some(Held { arrival, completed }) = self.held.pop_front() else { return Ok(()) };
        let relative = |time: Time| Time::from_nanos(time.since(self.origin).as_nanos());
        let (offset, bytes) = (arrival.start.0.saturating_mul(SECTOR_BYTES), arrival.sectors.bytes());
        let mut record = Record::new(relative(arrival.at), DeviceId(0), arrival.op, offset, bytes);
        record.completed = completed.map(relative);
        record.flags = arrival.flags;
        record.priority = arrival.priority;
        record.process = arrival.process.map(|process| Pid(process.task));
        self.writer.write(&record, Some(&arrival.name.to_string()))
    }

    /// Adds what is known about tasks, such as their control groups: readers use it as their names.
    pub fn identify(&mut self, identities: impl IntoIterator<Item = (u32, String)>) {
        self.identities.extend(identities);
    }

    /// Writes the rest, the number of missing events if there are any, and the end.
    pub fn finish(mut self, missing: Option<&str>) -> io::Result<Written> {
        while !self.held.is_empty() {
            self.write_first()?;
        }
        for (task, text) in &self.identities {
            self.writer.process(Pid(*task), text)?;
        }
        missing.map_or(Ok(()), |text| self.writer.comment(text))?;
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Flags, Op, Priority, PriorityClass, Process, Sector, Sectors};

    use super::*;
    use crate::event::Name;

    fn arrival(us: u64, start: u64, task: u32) -> Arrival {
        Arrival {
            at: Time::ZERO + Span::from_micros(us),
            op: Op::Write,
            start: Sector(start),
            sectors: Sectors(8),
            flags: Flags { sync: true, ..Flags::default() },
            priority: Some(Priority { class: PriorityClass::Idle, level: 7 }),
            process: Some(Process::single(task)),
            name: Name::from("a writer"),
        }
    }

    fn record(batches: &[Batch]) -> Vec<Record> {
        let mut bytes = Vec::new();
        let origin = Time::ZERO + Span::from_micros(100);
        let mut recorder = Recorder::new(&mut bytes, (7, 1), origin, "test", true).unwrap();
        batches.iter().for_each(|batch| recorder.take(batch).unwrap());
        recorder.finish(Some("3 left out")).unwrap();
        let source = Box::new(io::Cursor::new(bytes));
        let mut recording = traces::open("io.trace", source, &traces::Options::default()).unwrap();
        let records = recording.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(recording.devices()[0].name, "7,1");
        assert_eq!(recording.process_name(Pid(5)).as_deref(), Some("a writer"));
        assert!(recording.skips().is_empty());
        records
    }

    #[test]
    fn a_recording_is_read_back_completely_and_in_order() {
        let (first, second, third) = (arrival(100, 0, 5), arrival(110, 0, 6), arrival(105, 64, 5));
        let done = |arrival, us| Completed { arrival, at: Time::ZERO + Span::from_micros(us), failed: false };
        let records = record(&[
            Batch {
                arrivals: vec![first, second, third],
                completed: vec![done(second, 200)],
                ..Batch::default()
            },
            Batch { completed: vec![done(first, 300)], ..Batch::default() },
        ]);
        let micros = |time: Time| time.as_nanos() / 1_000;
        let written: Vec<_> = records
            .iter()
            .map(|r| (micros(r.at), r.offset, r.process.unwrap().0, r.completed.map(micros)))
            .collect();
        assert_eq!(written, [(0, 0, 5, Some(200)), (5, 32_768, 5, None), (10, 0, 6, Some(100))]);
        assert_eq!((records[0].op, records[0].bytes, records[0].flags.sync), (Op::Write, 4096, true));
        assert_eq!(records[0].priority, first.priority);
    }

    #[test]
    fn what_is_known_about_a_task_at_the_end_is_its_name() {
        let mut bytes = Vec::new();
        let mut recorder = Recorder::new(&mut bytes, (7, 1), Time::ZERO, "test", true).unwrap();
        recorder.take(&Batch { arrivals: vec![arrival(100, 0, 5)], ..Batch::default() }).unwrap();
        recorder.identify([(5, "a writer in /db\n".to_owned())]);
        recorder.finish(None).unwrap();
        let source = Box::new(io::Cursor::new(bytes));
        let mut recording = traces::open("io.trace", source, &traces::Options::default()).unwrap();
        assert_eq!(recording.by_ref().count(), 1);
        assert_eq!(recording.process_name(Pid(5)).as_deref(), Some("a writer in /db?"));
        assert!(recording.skips().is_empty());
    }

    #[test]
    fn requests_before_the_start_are_not_recorded() {
        let (before, first) = (arrival(99, 0, 6), arrival(100, 8, 5));
        let records = record(&[Batch { arrivals: vec![before, first], ..Batch::default() }]);
        assert_eq!(records.iter().map(|record| record.offset).collect::<Vec<_>>(), [4096]);
    }

    #[test]
    fn a_request_without_completion_does_not_delay_others() {
        let mut batches = vec![Batch { arrivals: vec![arrival(100, 0, 5)], ..Batch::default() }];
        let late = arrival(61_000_200, 8, 5);
        batches.push(Batch { arrivals: vec![late], ..Batch::default() });
        assert_eq!(record(&batches).len(), 2);
    }
}
