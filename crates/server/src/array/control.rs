//! The array's control socket: the protocol of a device's, for all members together.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use ::control::protocol::{LONGEST_LINE, Reply, Request, State};

use crate::control::{REFUSED, SocketFile, bind_private};

/// How long a client may be silent. One is served at a time.
const SILENCE: Duration = Duration::from_secs(10);

/// A command to the thread that started the members.
pub(super) enum Command {
    Request(Request, Sender<Reply>),
    /// To read what md does.
    LookAtMd,
    Stop,
}

/// The socket, until this is dropped.
pub(super) struct Listener {
    _file: SocketFile,
}

impl Listener {
    pub(super) fn listen(path: &Path, commands: Sender<Command>) -> io::Result<Self> {
        let (listener, file) = bind_private(path)?;
        thread::Builder::new().name("array control".into()).spawn(move || accept(&listener, &commands))?;
        Ok(Self { _file: file })
    }
}

fn accept(listener: &UnixListener, commands: &Sender<Command>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            thread::sleep(REFUSED);
            continue;
        };
        let commands = commands.clone();
        let served =
            thread::Builder::new().name("array client".into()).spawn(move || serve(&stream, &commands));
        if served.is_err() {
            thread::sleep(REFUSED);
        }
    }
}

fn serve(stream: &UnixStream, commands: &Sender<Command>) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut text = Vec::new();
        if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut text)? == 0 {
            return Ok(());
        }
        let reply = match serde_json::from_slice(&text) {
            Ok(request) => ask(request, commands),
            Err(error) => Reply::Error(format!("not a request: {error}")),
        };
        let mut answer = serde_json::to_vec(&reply)?;
        answer.push(b'\n');
        (&mut &*stream).write_all(&answer)?;
    }
}

fn ask(request: Request, commands: &Sender<Command>) -> Reply {
    let (reply, answer) = channel();
    let sent = commands.send(Command::Request(request, reply));
    let answer = sent.ok().and_then(|()| answer.recv().ok());
    answer.unwrap_or_else(|| Reply::Error("the array has stopped".to_owned()))
}

/// The members' schedulers: one name, or `X (members 0 and 2), Y (member 1)`.
fn schedulers(states: &[(u32, State)]) -> String {
    let mut by_name: Vec<(&str, Vec<String>)> = Vec::new();
    for (member, state) in states {
        match by_name.iter_mut().find(|(name, _)| *name == state.scheduler) {
            Some((_, members)) => members.push(member.to_string()),
            None => by_name.push((&state.scheduler, vec![member.to_string()])),
        }
    }
    if let [(name, _)] = &*by_name {
        return (*name).to_owned();
    }
    let each = by_name.iter().map(|(name, members)| {
        format!("{name} (member{} {})", if members.len() > 1 { "s" } else { "" }, members.join(", "))
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Several members as one device: counts are sums, latencies those of the slowest member.
pub(super) fn aggregate(states: Vec<(u32, State)>) -> Option<State> {
    let (members, scheduler) = (states.len(), schedulers(&states));
    let mut states: Vec<State> = states.into_iter().map(|(_, state)| state).collect();
    let mut all = states.drain(..1.min(members)).next()?;
    for state in states {
        all.capacity_sectors += state.capacity_sectors;
        all.depth += state.depth;
        all.queued += state.queued;
        all.in_flight += state.in_flight;
        all.unfinished += state.unfinished;
        all.dispatched += state.dispatched;
        all.holds += state.holds;
        all.salvaged += state.salvaged;
        all.timed_out += state.timed_out;
        all.scheduler_faults += state.scheduler_faults;
        all.last_scheduler_fault = all.last_scheduler_fault.or(state.last_scheduler_fault);
        for (name, operation) in state.operations {
            let total = all.operations.entry(name).or_default();
            total.done += operation.done;
            total.failed += operation.failed;
            total.bytes += operation.bytes;
            if operation.latency.p99_ns > total.latency.p99_ns {
                total.latency = operation.latency;
            }
            if operation.wait.p99_ns > total.wait.p99_ns {
                total.wait = operation.wait;
            }
        }
    }
    all.scheduler = scheduler;
    all.backend = format!("{members} members, the first one {}", all.backend);
    Some(all)
}
