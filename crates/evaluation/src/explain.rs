//! `--explain`: every decision with its reason, as text or JSON lines.

use std::io::Write;
use std::path::PathBuf;

use elevator::queue::{Event, Observer};
use elevator::{Outcome, Request, Side, Time};
use machine::kernel::thread_name;
use serde_json::json;

/// The format of a decision log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplainFormat {
    /// One line of text per event.
    Text,
    /// One JSON object per line.
    Jsonl,
}

/// How decisions are logged.
#[derive(Clone, Debug)]
pub struct Explaining {
    pub format: ExplainFormat,
    /// Folder of the temporary files that hold the logs until all runs have ended.
    pub folder: PathBuf,
}

/// Logs the decisions of a queue.
pub struct Explainer<W> {
    scheduler: String,
    /// The array member that the queue belongs to.
    member: Option<u32>,
    format: ExplainFormat,
    out: W,
}

impl<W: Write> Explainer<W> {
    /// A log of the queue of this scheduler, of an array's `member`, to `out`.
    pub fn new(scheduler: String, member: Option<u32>, format: ExplainFormat, out: W) -> Self {
        Self { scheduler, member, format, out }
    }

    fn text(&mut self, now: Time, event: &Event<'_>) -> std::io::Result<()> {
        let is_logged = matches!(
            event,
            Event::Dispatched { .. }
                | Event::Held { .. }
                | Event::Completed { .. }
                | Event::Merged(..)
                | Event::Absorbed(..)
                | Event::Inserted(_)
        );
        let out = &mut self.out;
        if let Some(member) = self.member.filter(|_| is_logged) {
            write!(out, "member {member} ")?;
        }
        let at = now.as_secs_f64();
        match *event {
            Event::Dispatched { request, reason, queued, in_flight } => writeln!(
                out,
                "{at:14.6} dispatch {} -- {reason} ({queued} left queued, {in_flight} in the device)",
                describe(request)
            ),
            Event::Held { hold, queued, .. } => {
                let until = hold
                    .until
                    .map_or("something happens".to_owned(), |until| format!("{:.6}", until.as_secs_f64()));
                writeln!(out, "{at:14.6} hold     until {until} -- {} ({queued} queued)", hold.reason)
            }
            Event::Completed { request, outcome, dispatched } => {
                let took = now.since(dispatched).as_millis_f64();
                let outcome = match outcome {
                    Outcome::Done => "",
                    Outcome::Failed => ", failed",
                    Outcome::GivenBack => ", given back",
                };
                writeln!(out, "{at:14.6} complete {} after {took:.3} ms{outcome}", describe(request))
            }
            Event::Merged(_, request, side) => {
                writeln!(
                    out,
                    "{at:14.6} merge    a submission into {}, at its {}",
                    describe(request),
                    end(side)
                )
            }
            Event::Absorbed(request, other) => {
                writeln!(out, "{at:14.6} merge    #{} into {}", other.serial, describe(request))
            }
            Event::Inserted(request) => writeln!(out, "{at:14.6} insert   {}", describe(request)),
            _ => Ok(()),
        }
    }

    fn json(&mut self, now: Time, event: &Event<'_>) -> std::io::Result<()> {
        let value = match *event {
            Event::Dispatched { request, reason, queued, in_flight } => {
                json!({"event": "dispatch", "request": fields(request), "reason": reason.as_str(), "queued": queued, "in_flight": in_flight})
            }
            Event::Held { hold, queued, in_flight } => json!({
                "event": "hold", "until_ns": hold.until.map(Time::as_nanos), "reason": hold.reason.as_str(),
                "queued": queued, "in_flight": in_flight,
            }),
            Event::Completed { request, outcome, dispatched } => json!({
                "event": "complete", "request": fields(request), "outcome": format!("{outcome:?}").to_lowercase(),
                "dispatched_ns": dispatched.as_nanos(),
            }),
            Event::Merged(_, request, side) => {
                json!({"event": "merge", "request": fields(request), "side": end(side)})
            }
            Event::Absorbed(request, other) => {
                json!({"event": "merge", "request": fields(request), "absorbed": other.serial})
            }
            Event::Inserted(request) => json!({"event": "insert", "request": fields(request)}),
            _ => return Ok(()),
        };
        let mut line = json!({"scheduler": self.scheduler, "at_ns": now.as_nanos(), "what": value});
        if let Some(member) = self.member {
            line["member"] = json!(member);
        }
        writeln!(self.out, "{line}")
    }
}

fn describe(request: &Request) -> String {
    let name = |task: u32| thread_name(task).map_or_else(|| task.to_string(), str::to_owned);
    let process = request.process.map_or("unknown".to_owned(), |process| name(process.task));
    format!("#{} {} {}+{} by {process}", request.serial, request.op, request.start, request.sectors)
}

/// The end of a request at which it grew.
const fn end(side: Side) -> &'static str {
    match side {
        Side::Back => "back",
        Side::Front => "front",
    }
}

fn fields(request: &Request) -> serde_json::Value {
    let task = request.process.map(|process| process.task);
    let mut fields = json!({
        "serial": request.serial, "op": request.op.to_string(), "sector": request.start.0,
        "sectors": request.sectors.0, "task": task,
    });
    if let Some(name) = task.and_then(thread_name) {
        fields["thread"] = json!(name);
    }
    fields
}

impl<W: Write> Observer for Explainer<W> {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        // A spool accepts everything and reports failures when it is copied.
        let _ = match self.format {
            ExplainFormat::Text => self.text(now, event),
            ExplainFormat::Jsonl => self.json(now, event),
        };
    }
}
