//! Replays a recording on a modelled drive under a policy: `cargo run -p dwell-traces --example replay FILE 'stream(deadline)'`.
//!
//! In a program of its own, its `Cargo.toml` gives the packages these names: `elevator = { package = "dwell-elevator", path = "…" }`, and
//! `schedulers` and `disks` in the same way.

use std::{env::args, error::Error, fs::File};

use elevator::queue::{Limits, Notice, Options, Queue, Step, Submission, Ticket, Token};
use elevator::{Outcome, Process, Request, Span, Time};
use schedulers::{Environment, Spec};

fn main() -> Result<(), Box<dyn Error>> {
    let (path, policy) = args().nth(1).zip(args().nth(2)).ok_or("usage: replay FILE POLICY")?;
    let recording =
        dwell_traces::open(&path, Box::new(File::open(&path)?), &dwell_traces::Options::default())?;
    let records = recording.collect::<Result<Vec<_>, _>>()?;
    let (mut drive, _) = disks::open("wd5000aaks", &mut |path| Ok(Box::new(File::open(path)?) as _))?;
    let options = Options { depth: 1, limits: Limits::NONE, ..Options::default() };
    let mut queue: Queue = Queue::new(options, Spec::parse(&policy)?.build(&Environment::default())?);
    // Each token is the number of its record, so none is used twice.
    let (mut left, mut wake) = ((0..).map(Token).zip(&records).peekable(), None::<Time>);
    let (mut in_drive, mut finished, mut latencies) = (None::<Ticket>, 0, Span::ZERO);
    // The next event is an arrival, a step of the drive, or the end of a deliberate wait.
    while let Some(now) =
        [left.peek().map(|(_, of)| of.at), drive.next_event(), wake].into_iter().flatten().min()
    {
        if let Some(ticket) = drive.poll(now).and_then(|_| in_drive.take()) {
            queue.complete(now, ticket, Outcome::Done);
        }
        while let Some((token, of)) = left.next_if(|(_, of)| of.at <= now) {
            let process = of.process.map(|pid| Process::single(pid.0));
            let (flags, priority) = (of.flags, of.priority.unwrap_or_default());
            let plain = Submission::new(token, of.op, of.start(), of.sectors());
            // By time stamps: the next record is submitted even while the submitter of this one sleeps (`Accepted::Asleep`).
            let _ = queue.submit(now, Submission { flags, priority, process, ..plain });
        }
        wake = None;
        match queue.next(now, drive.positioning()) {
            Step::Dispatch(ticket) => {
                let &Request { op, start, sectors, .. } = queue.request(&ticket);
                let (tag, fua) = (disks::Tag(0), queue.is_forced(&ticket));
                drive.submit(now, disks::Command { tag, op, start, sectors, fua });
                in_drive = Some(ticket);
            }
            Step::Wait(hold) => wake = hold.until,
            Step::Full | Step::Idle => {}
        }
        while let Some(Notice::Finished(of)) = queue.notice() {
            (finished, latencies) = (finished + 1, latencies + now.since(of.submitted));
        }
    }
    println!("{finished} requests, mean latency {:.1} ms", (latencies / finished.max(1)).as_millis_f64());
    Ok(())
}
