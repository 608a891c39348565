//! The decision log: requests, dispatches and their reasons, written to a file while the device serves.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use elevator::queue::{Event, Fault};
use elevator::{HoldReason, Op, Outcome, Reason, RequestId, Sector, Sectors, Span, Time};

/// Entries between the device's thread and the writer: a third of a second at 200,000 a second. Entries that do not fit are counted
/// and discarded; the device never waits for its log.
const RING: usize = 1 << 16;

/// How often the writer polls. Waking it would cost the device more than the entry.
const LOOK: Duration = Duration::from_millis(20);

/// One line.
#[derive(Clone, Copy, Debug)]
enum What {
    Inserted { op: Op, start: Sector, sectors: Sectors, process: Option<u32> },
    Dispatched { op: Op, start: Sector, sectors: Sectors, reason: Reason, queued: u32, in_flight: u32 },
    Held { reason: HoldReason, until: Option<Time>, queued: u32 },
    Completed { outcome: Outcome, took: Span },
    Switched { moved: u32, in_flight: u32 },
    Faulted { fault: Fault, queued: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Time,
    id: RequestId,
    what: What,
}

/// A log that is being written. After a drop, the writer writes the entries of the ring and ends.
pub struct DecisionLog {
    entries: Option<SyncSender<Entry>>,
    lost: u64,
    /// Later entries are ignored.
    until: Time,
    writer: Option<JoinHandle<()>>,
}

impl DecisionLog {
    /// Starts a log in an empty file, until `until`.
    pub fn start(file: File, until: Time) -> io::Result<Self> {
        let (entries, ring) = sync_channel(RING);
        let writer =
            thread::Builder::new().name("decision-log".into()).spawn(move || write_all(file, &ring))?;
        Ok(Self { entries: Some(entries), lost: 0, until, writer: Some(writer) })
    }

    /// The time of its end.
    pub const fn until(&self) -> Time {
        self.until
    }

    /// Entries discarded because the writer could not keep up.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Ends the log and waits until every entry is written.
    pub fn close(mut self) {
        self.entries = None;
        if let Some(writer) = self.writer.take() {
            // The writer does not panic, and has logged its own errors.
            let _ = writer.join();
        }
    }

    pub(crate) fn event(&mut self, now: Time, event: &Event<'_>) {
        let Some((id, what)) = entry(now, event) else { return };
        if let Some(entries) = &self.entries
            && now < self.until
            && entries.try_send(Entry { at: now, id, what }).is_err()
        {
            self.lost += 1;
        }
    }
}

impl Drop for DecisionLog {
    fn drop(&mut self) {
        self.entries = None;
        // The writer ends by itself once the ring is empty; waiting for a slow disk here would stop the device.
        drop(self.writer.take());
    }
}

fn entry(now: Time, event: &Event<'_>) -> Option<(RequestId, What)> {
    Some(match *event {
        Event::Inserted(request) => {
            let (op, start, sectors) = (request.op, request.start, request.sectors);
            (request.id, What::Inserted { op, start, sectors, process: request.process.map(|p| p.group) })
        }
        Event::Dispatched { request, reason, queued, in_flight } => {
            let (op, start, sectors) = (request.op, request.start, request.sectors);
            (request.id, What::Dispatched { op, start, sectors, reason, queued, in_flight })
        }
        Event::Held { hold, queued, .. } => {
            (RequestId(u32::MAX), What::Held { reason: hold.reason, until: hold.until, queued })
        }
        Event::Completed { request, outcome, dispatched } => {
            (request.id, What::Completed { outcome, took: now.since(dispatched) })
        }
        Event::Switched(report) => {
            (RequestId(u32::MAX), What::Switched { moved: report.moved, in_flight: report.in_flight })
        }
        Event::Faulted { fault, queued } => (RequestId(u32::MAX), What::Faulted { fault, queued }),
        _ => return None,
    })
}

fn write_all(file: File, ring: &Receiver<Entry>) {
    let mut out = BufWriter::new(file);
    loop {
        match ring.try_recv() {
            Ok(entry) => {
                if let Err(error) = write_entry(&mut out, &entry) {
                    say!("the decision log ends here: {error}");
                    return;
                }
            }
            Err(TryRecvError::Empty) => {
                let _ = out.flush();
                thread::sleep(LOOK);
            }
            Err(TryRecvError::Disconnected) => break,
        }
    }
    let _ = out.flush();
}

fn write_entry(out: &mut impl Write, entry: &Entry) -> io::Result<()> {
    let at = entry.at.as_nanos();
    let id = entry.id.0;
    match entry.what {
        What::Inserted { op, start, sectors, process } => {
            write!(out, "{at} insert {id} {op} {start} {sectors}")?;
            match process {
                Some(process) => writeln!(out, " by {process}"),
                None => writeln!(out),
            }
        }
        What::Dispatched { op, start, sectors, reason, queued, in_flight } => {
            writeln!(
                out,
                "{at} dispatch {id} {op} {start} {sectors} queued {queued} in-flight {in_flight}: {reason}"
            )
        }
        What::Held { reason, until, queued } => match until {
            Some(until) => writeln!(out, "{at} hold until {} queued {queued}: {reason}", until.as_nanos()),
            None => writeln!(out, "{at} hold queued {queued}: {reason}"),
        },
        What::Completed { outcome, took } => {
            let outcome = match outcome {
                Outcome::Done => "done",
                Outcome::Failed => "failed",
                Outcome::GivenBack => "given back",
            };
            writeln!(out, "{at} complete {id} {outcome} after {}", took.as_nanos())
        }
        What::Switched { moved, in_flight } => {
            writeln!(out, "{at} switch: {moved} requests taken over, {in_flight} in flight")
        }
        What::Faulted { fault, queued } => writeln!(out, "{at} fault queued {queued}: the scheduler {fault}"),
    }
}
