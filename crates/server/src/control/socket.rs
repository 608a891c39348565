//! The server's end of the control socket: a thread that reads requests and writes replies.

use std::collections::BTreeMap;
use std::fs::{self, File, FileType};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use elevator::queue::{SwitchMode, SwitchReport};
use elevator::{Fact, Item, Span};
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use super::metrics::{self, OPERATIONS};
use super::orders::{Order, Snapshot, Stop};
use super::protocol::{ItemState, LONGEST_LINE, OperationState, Reply, Request, State, SwitchState};
use crate::chosen::Chosen;
use crate::names::node;
use crate::poller::Bell;
use crate::progress::Progress;
use crate::rate_limit::RateLimit;
use crate::split::Joining;

/// Clients served at once; each has a thread.
const CLIENTS: usize = 16;

/// A client that is silent for so long is disconnected.
const SILENCE: Duration = Duration::from_secs(600);

/// How long a client may be silent while others wait for its place.
const TURN: Duration = Duration::from_secs(1);

/// How long new clients wait for a place before they are turned away: programs that start together ask one after the other. A place is held for one
/// order ([`PATIENCE`]), or for [`TURN`] by a silent client; longer by clients that do not read their replies. Shorter than a client's own patience.
const ROOM: Duration = Duration::from_secs(4);

/// How long the device's thread may take for an order. It answers between two rounds, which take a millisecond. Shorter than the
/// client's own patience, so that the client receives the message.
const PATIENCE: Duration = Duration::from_secs(3);

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Pause after the system refused to accept a connection.
pub(crate) const REFUSED: Duration = Duration::from_millis(50);

/// The answer of a line whose device has ended.
pub(crate) const STOPPED: &str = "the device has stopped";

/// Sends orders to the device's thread.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) orders: Sender<Order>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) speed: u32,
    pub(crate) progress: Arc<Progress>,
    /// Receives a client's order to stop: the thread that started the server takes it down in the right order.
    pub(crate) stop: Sender<Stop>,
    /// Where a client's choice of a scheduler outlives a crash.
    pub(crate) chosen: Option<Chosen>,
    /// The place in an array.
    pub(crate) member: Option<u32>,
    /// The device in the metrics: the name of the control socket without `.ctl`.
    pub(crate) name: String,
}

impl Line {
    pub(crate) fn order(&self, order: Order) -> Result<(), String> {
        self.orders.send(order).map_err(|_| STOPPED.to_string())?;
        self.bell.ring();
        Ok(())
    }

    /// Gives an order and waits for its result.
    pub(crate) fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Result<T, String> {
        let (reply, answer) = channel();
        self.order(order(reply))?;
        answer.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Disconnected => STOPPED.to_string(),
            RecvTimeoutError::Timeout => format!(
                "the device's thread has not answered for {} s ({}, {} operations unfinished); a requested change may still be made",
                PATIENCE.as_secs(),
                self.progress.thread_state(),
                self.progress.unfinished()
            ),
        })
    }
}

/// A control socket, until this is dropped.
pub(crate) struct Socket {
    _file: SocketFile,
}

impl Socket {
    /// Listens on a socket of mode 0600.
    pub(crate) fn listen(path: &Path, line: Line) -> io::Result<Self> {
        let (listener, file) = bind_private(path)?;
        thread::Builder::new().name("control".into()).spawn(move || accept(&listener, &line))?;
        Ok(Self { _file: file })
    }
}

/// The file of a socket, removed with this unless another server has replaced it.
pub struct SocketFile {
    path: PathBuf,
    node: (u64, u64),
    /// Goes after the socket.
    _directory: Option<MadeDirectory>,
}

/// A directory that was created for a socket, removed with this if it is empty.
struct MadeDirectory(PathBuf);

impl MadeDirectory {
    /// Creates it with mode 0700; none if it exists or the path has no directory.
    fn make_for(path: &Path) -> io::Result<Option<Self>> {
        let named = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let Some(missing) = named.filter(|parent| !parent.exists()) else { return Ok(None) };
        fs::DirBuilder::new().mode(0o700).create(missing).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => {
                    "the directory above it does not exist either; create it first".to_string()
                }
                _ => error.to_string(),
            };
            io::Error::new(
                error.kind(),
                format!("the directory {} cannot be created: {why}", missing.display()),
            )
        })?;
        Ok(Some(Self(missing.to_path_buf())))
    }
}

impl Drop for MadeDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if node(&self.path).is_ok_and(|now| now == self.node) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a unix socket of mode 0600. A dead server's socket is replaced, a living one's is not. The directory, which may be in a file
/// system that is empty after a boot, is created with mode 0700 if it is absent, and removed at the end.
pub fn bind_private(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if path.as_os_str().is_empty() {
        // The system would bind an abstract name, to which every user may connect.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a socket needs a path"));
    }
    let directory = MadeDirectory::make_for(path)?;
    if let Ok(found) = fs::symlink_metadata(path) {
        make_room(path, found.file_type())?;
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file gets the socket's mode (Linux's `unix_bind_bsd`), so it is right from the start; a umask would apply to every thread.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let file = SocketFile { path: path.to_path_buf(), node: node(path)?, _directory: directory };
    listen(&socket, BACKLOG)?;
    Ok((UnixListener::from(socket), file))
}

/// Removes the socket of a dead server.
fn make_room(path: &Path, found: FileType) -> io::Result<()> {
    let in_use = |by| Err(io::Error::new(io::ErrorKind::AddrInUse, by));
    if !found.is_socket() {
        return in_use("a file that is not a socket is there");
    }
    match UnixStream::connect(path) {
        // Only this error means that no server listens.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Ok(_) => in_use("another server listens there"),
        Err(error) => Err(error),
    }
}

fn accept(listener: &UnixListener, line: &Line) {
    let (mut clients, turned_away) = (Clients::default(), RateLimit::default());
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Usually a temporary lack of descriptors.
            thread::sleep(REFUSED);
            continue;
        };
        if !clients.await_room() {
            let full = format!("all {CLIENTS} places are taken");
            turned_away.log((), format_args!("control: a client was turned away: {full}"));
            // Nothing has been sent to it yet, so there is room for a line.
            let _ = send(&stream, &Reply::Error(full));
            continue;
        }
        let (line, client) = (line.clone(), clients.add(stream));
        let _ = thread::Builder::new().name("control-client".into()).spawn(move || client.serve(&line));
    }
}

/// The connected clients.
#[derive(Default)]
struct Clients {
    all: Vec<Weak<Client>>,
    /// Since when new ones find no room.
    full: Option<Instant>,
}

/// A client, which another thread can disconnect while it is idle.
struct Client {
    stream: UnixStream,
    /// Start of its idleness. The thread that takes this value decides: the client's own thread serves a request, or another one
    /// disconnects the client.
    idle: Mutex<Option<Instant>>,
}

impl Clients {
    fn has_room(&mut self) -> bool {
        self.all.retain(|client| client.strong_count() > 0);
        self.all.len() < CLIENTS
    }

    /// Waits for room; `false` if there has been none for [`ROOM`].
    fn await_room(&mut self) -> bool {
        while !self.has_room() && !self.make_room() {
            if self.full.get_or_insert_with(Instant::now).elapsed() >= ROOM {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.full = None;
        true
    }

    /// Disconnects the client that has been idle the longest, at least for [`TURN`]; returns whether there is room.
    fn make_room(&mut self) -> bool {
        let clients = self.all.iter().filter_map(Weak::upgrade);
        let idle = clients.filter_map(|client| {
            let since = *client.idle();
            Some((since?, client))
        });
        let idlest = idle.min_by_key(|&(since, _)| since).filter(|(since, _)| since.elapsed() >= TURN);
        idlest.is_some_and(|(_, client)| client.let_go())
            && (0..50).any(|_| {
                thread::sleep(Duration::from_millis(1));
                self.has_room()
            })
    }

    fn add(&mut self, stream: UnixStream) -> Arc<Client> {
        let client = Arc::new(Client { stream, idle: Mutex::new(Some(Instant::now())) });
        self.all.push(Arc::downgrade(&client));
        client
    }
}

impl Client {
    fn idle(&self) -> MutexGuard<'_, Option<Instant>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Disconnects it unless it has sent a request meanwhile; returns whether it did.
    fn let_go(&self) -> bool {
        self.idle().take().is_some() && self.stream.shutdown(Shutdown::Both).is_ok()
    }

    fn serve(&self, line: &Line) -> io::Result<()> {
        self.stream.set_read_timeout(Some(SILENCE))?;
        self.stream.set_write_timeout(Some(SILENCE))?;
        let mut reader = BufReader::new(&self.stream);
        loop {
            let mut text = Vec::new();
            let length = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut text)?;
            if length == 0 || self.idle().take().is_none() {
                return Ok(());
            }
            let reply = match serde_json::from_slice(&text) {
                Ok(Request::Join { account, terms, process }) => {
                    let joining = Joining { stream: self.stream.try_clone()?, account, terms, process };
                    match line.ask(|reply| Order::Join(joining, reply)).flatten() {
                        // The device's thread has the connection.
                        Ok((major, minor)) => return send(&self.stream, &Reply::Joined { major, minor }),
                        Err(error) => Reply::Error(error),
                    }
                }
                Ok(request) => obey(request, line).unwrap_or_else(Reply::Error),
                Err(error) => Reply::Error(format!("not a request: {error}")),
            };
            send(&self.stream, &reply)?;
            if !text.ends_with(b"\n") {
                return Ok(());
            }
            *self.idle() = Some(Instant::now());
        }
    }
}

fn send(mut to: &UnixStream, reply: &Reply) -> io::Result<()> {
    let mut answer = serde_json::to_vec(reply)?;
    answer.push(b'\n');
    to.write_all(&answer)
}

pub(crate) fn obey(request: Request, line: &Line) -> Result<Reply, String> {
    Ok(match request {
        Request::Show => {
            let state = state(&*line.ask(Order::Show)?, line.speed);
            Reply::State(Box::new(State { member: line.member, ..state }))
        }
        Request::Metrics => Reply::Metrics(metrics::text(&*line.ask(Order::Show)?, &line.name)),
        Request::Switch { scheduler, drain } => {
            let mode = if drain { SwitchMode::Drain } else { SwitchMode::Transfer };
            let name = scheduler.clone();
            let report = line.ask(|reply| Order::Switch { scheduler, mode, reply })??;
            if let Some(chosen) = &line.chosen {
                let noted = chosen.write(&name);
                noted.map_err(|error| format!("switched, but a crash would undo the switch: {error}"))?;
            }
            Reply::Switched(switched(report))
        }
        Request::Tune { tunable, value } => {
            line.ask(|reply| Order::Tune { tunable, value, reply })??;
            Reply::Done
        }
        Request::Log { file: path, milliseconds } => {
            let during = Span::from_millis(milliseconds);
            let file = File::create_new(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let begun = line.ask(|reply| Order::Log { file, during, reply }).flatten();
            begun.inspect_err(|_| _ = fs::remove_file(&path))?;
            Reply::Done
        }
        Request::EndLog => Reply::LogEnded { lost: line.ask(Order::EndLog)?? },
        Request::Array | Request::MemberFail { .. } | Request::MemberReplace { .. } => {
            return Err("this is the socket of one device; an array has one of its own".to_string());
        }
        Request::Join { .. } => return Err("join needs a connection of its own".to_string()),
        Request::Stop => {
            line.stop.send(Stop::Asked).map_err(|_| STOPPED.to_string())?;
            Reply::Done
        }
    })
}

fn switched(report: Option<SwitchReport>) -> SwitchState {
    match report {
        None => SwitchState { draining: true, ..SwitchState::default() },
        Some(SwitchReport { moved, in_flight, drained_for }) => {
            SwitchState { draining: false, moved, in_flight, drained_for_ns: drained_for.as_nanos() }
        }
    }
}

/// An object of a policy, as JSON.
fn item(item: &Item) -> ItemState {
    let fact = |&(name, fact): &(&str, Fact)| match fact {
        Fact::Count(count) => Some((name.to_string(), count.into())),
        Fact::Span(span) => Some((format!("{name}_ns"), span.as_nanos().into())),
        Fact::Sector(sector) => Some((format!("{name}_sector"), sector.0.into())),
        Fact::Flag(flag) => Some((name.to_string(), flag.into())),
        Fact::Word(word) => Some((name.to_string(), word.into())),
        Fact::Percent(percent) => Some((format!("{name}_percent"), percent.into())),
        Fact::None => None,
    };
    let facts = item.facts.iter().filter_map(fact).collect();
    ItemState { kind: item.kind.to_string(), number: item.number, facts }
}

/// A snapshot, as clients receive it.
pub(crate) fn state(snapshot: &Snapshot, speed: u32) -> State {
    let statistics = &snapshot.statistics;
    let operation = |op| {
        let account = statistics.account(op);
        let state = OperationState {
            done: account.done,
            failed: account.failed,
            bytes: account.bytes,
            latency: account.latency.summary(),
            wait: account.wait.summary(),
        };
        (op.to_string(), state)
    };
    State {
        member: None,
        time_ns: snapshot.now.as_nanos(),
        speed,
        scheduler: snapshot.scheduler.clone(),
        tunables: snapshot.tunables.clone(),
        items: snapshot.items.iter().map(item).collect(),
        backend: snapshot.backend.clone(),
        capacity_sectors: snapshot.capacity.0,
        depth: snapshot.depth,
        queued: snapshot.queued,
        in_flight: snapshot.in_flight,
        unfinished: snapshot.unfinished as u64,
        head_sector: statistics.head.0,
        dispatched: statistics.dispatched,
        holds: statistics.holds,
        salvaged: statistics.salvaged,
        timed_out: statistics.timed_out,
        operations: OPERATIONS.into_iter().map(operation).collect::<BTreeMap<_, _>>(),
        processes: statistics.processes().clone(),
        accounts: snapshot.accounts.clone(),
        clients: snapshot.clients.clone(),
        lateness: statistics.lateness.summary(),
        switches: statistics.switches.0,
        last_switch: statistics.switches.1.map(|report| switched(Some(report))),
        draining_ns: snapshot.draining.map(Span::as_nanos),
        log_lost: snapshot.log_lost,
        scheduler_faults: statistics.faults,
        last_scheduler_fault: snapshot.last_fault.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_socket_and_its_new_directory_are_private() {
        let directory = std::env::temp_dir().join(format!("dwell-socket-{}", std::process::id()));
        let path = directory.join("sdb.sock");
        let _bound = bind_private(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
        let error =
            bind_private(&directory.join("neither/nor/sdb.sock")).err().map(|error| error.to_string());
        assert!(error.is_some_and(
            |error| error.contains("neither/nor cannot be created") && error.contains("create it first")
        ));
        assert!(bind_private(Path::new("")).is_err(), "an abstract socket would be open to every user");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_directory_created_for_a_socket_is_removed_with_it_if_empty() {
        let directory = std::env::temp_dir().join(format!("dwell-socket-made-{}", std::process::id()));
        drop(bind_private(&directory.join("sock")).unwrap());
        assert!(!directory.exists());
        assert!(bind_private(&directory.join("x".repeat(200))).is_err(), "too long for a socket");
        assert!(!directory.exists(), "a failed bind leaves no directory");
        let bound = bind_private(&directory.join("sock")).unwrap();
        fs::write(directory.join("other"), "kept").unwrap();
        drop(bound);
        fs::remove_file(directory.join("other")).unwrap();
        drop(bind_private(&directory.join("sock")).unwrap());
        fs::remove_dir(directory).expect("an existing directory is kept");
    }

    #[test]
    fn only_the_socket_of_a_dead_server_is_replaced() {
        let directory = std::env::temp_dir().join(format!("dwell-socket-room-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("sock");
        drop(UnixListener::bind(&path).unwrap());
        let (first, file) = bind_private(&path).unwrap();
        let refused = bind_private(&path).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("another server listens there"), "{refused}");
        drop((first, file));
        assert!(!path.exists(), "its owner removes it");
        fs::write(&path, "kept").unwrap();
        let refused = bind_private(&path).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("not a socket is there"), "{refused}");
        fs::remove_file(&path).unwrap();
        // For example a logger's socket: it is in use, and a stream cannot connect to it.
        let other = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        assert!(bind_private(&path).is_err() && path.exists());
        drop(other);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_server_does_not_remove_the_socket_of_its_successor() {
        let path = std::env::temp_dir().join(format!("dwell-socket-other-{}", std::process::id()));
        let first = bind_private(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = bind_private(&path).unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok(), "the second server listens there");
        drop(second);
        assert!(!path.exists());
    }

    /// A umask would also apply to files that other threads create.
    #[test]
    fn the_umask_is_not_changed() {
        let directory = std::env::temp_dir().join(format!("dwell-socket-umask-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let mode = |path: &Path| File::create(path).unwrap().metadata().unwrap().permissions().mode() & 0o777;
        let allowed = mode(&directory.join("before"));
        let stop = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while stop.load(Ordering::Relaxed) == 0 {
                    drop(bind_private(&directory.join("sock")).unwrap());
                }
            });
            for n in 0..2000 {
                let mode = mode(&directory.join(n.to_string()));
                stop.store(usize::from(mode != allowed || n == 1999), Ordering::Relaxed);
                assert_eq!(mode, allowed);
            }
        });
        fs::remove_dir_all(directory).unwrap();
    }
}
