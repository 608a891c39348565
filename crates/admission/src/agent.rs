//! The agent: a thread that passes intercepted calls to the servers of their devices and answers them as the schedulers decide.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Bound;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use control::admission::{MESSAGE_BYTES, Message, Operation, take};
use control::protocol::AccountTerms;

use crate::call::{Sync, Wanted, wanted};
use crate::continuing::Continuing;
use crate::device::{Served, find};
use crate::early::Early;
use crate::handed::{Received, take_fd};
use crate::listener::{
    Intercepted, Readiness, finish, interrupt, poll, proceed, readiness, receive, wake_here,
};
use crate::members::Members;
use crate::signals::{is_asked_to_end, is_killed};
use crate::stopper::Stopper;
use crate::{Again, Connection, Joined};

/// How long thread groups and descriptors are remembered: their numbers are reused.
const REMEMBERED: Duration = Duration::from_secs(1);

/// How often the agent looks whether an account was joined again, in ms.
const LOOK: libc::c_int = 50;

/// How often the agent looks whether all of its processes were killed.
const LOOK_FOR_KILLED: Duration = Duration::from_secs(1);

/// How often the agent looks for signals of held threads, and of how many threads at a time, which takes about 1 ms.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(20);
const THREADS: usize = 64;

/// How many messages about calls that continue already are sent at once, and how long they wait.
const UNSENT: usize = 16;
const LATER: Duration = Duration::from_millis(1);

/// What the agent's threads share.
struct Shared {
    listener: OwnedFd,
    received: Arc<Received>,
    /// Received and not answered yet.
    open: Mutex<BTreeSet<u64>>,
    /// For messages to each server; `None` when the connection is broken.
    servers: Vec<Mutex<Option<UnixStream>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn receive(&self) -> io::Result<Option<Intercepted>> {
        let call = receive(self.listener.as_fd())?;
        if let Some(Intercepted { id, .. }) = call {
            let mut open = lock(&self.open);
            open.insert(id);
            self.received.note(open.first().copied().unwrap_or(id), id);
        }
        Ok(call)
    }

    fn answered(&self, id: u64) {
        lock(&self.open).remove(&id);
    }

    fn proceed(&self, id: u64) {
        proceed(self.listener.as_fd(), id);
        self.answered(id);
    }

    fn interrupt(&self, id: u64) {
        interrupt(self.listener.as_fd(), id);
        self.answered(id);
    }

    /// Lets an fsync continue whose end the kernel would not report.
    fn let_continue(&self, number: u32, id: u64) {
        self.proceed(id);
        self.send(&[Message::Return { call: number }]);
    }

    /// The server that a call's number belongs to.
    fn server_of(&self, number: u32) -> usize {
        number as usize % self.servers.len()
    }

    fn is_for(&self, message: &Message, place: usize) -> bool {
        match *message {
            Message::Enter { call, .. } | Message::Return { call } | Message::Admit { call } => {
                self.server_of(call) == place
            }
            Message::Process { .. } => true,
            // A server's.
            Message::WriteBack { .. }
            | Message::Stop { .. }
            | Message::Resume { .. }
            | Message::StopAll { .. }
            | Message::ResumeAll { .. }
            | Message::Terms(_) => false,
        }
    }

    /// Sends messages to the servers of their calls, and those about processes to all; returns the servers whose connections have ended.
    fn send(&self, messages: &[Message]) -> Vec<usize> {
        let mut ended = Vec::new();
        for (place, server) in self.servers.iter().enumerate() {
            let own = messages.iter().filter(|message| self.is_for(message, place));
            let bytes: Vec<u8> = own.flat_map(|message| message.to_bytes()).collect();
            if bytes.is_empty() {
                continue;
            }
            let mut server = lock(server);
            if server.as_mut().is_none_or(|stream| stream.write_all(&bytes).is_err()) {
                *server = None;
                ended.push(place);
            }
        }
        ended
    }
}

/// The end of a connection to a server from which messages are read.
struct Server {
    /// `None` when the connection is broken.
    stream: Option<UnixStream>,
    buffer: Vec<u8>,
    again: Again,
    patience: Duration,
    /// Until when calls wait for the next server.
    waits: Option<Instant>,
    /// The terms of the account, as the server reported them.
    terms: Option<AccountTerms>,
    /// While the account is joined again: the new connection.
    awaited: Option<Receiver<Connection>>,
    early: Early,
}

impl Server {
    fn new(Joined { server, again, patience, .. }: Joined) -> Self {
        let stream = Some(server);
        let (waits, terms, awaited) = (None, None, None);
        Self { stream, buffer: Vec::new(), again, patience, waits, terms, awaited, early: Early::default() }
    }

    /// Whether calls wait for it, or for the next one.
    const fn has_calls(&self) -> bool {
        self.stream.is_some() || self.waits.is_some()
    }

    /// Joins the account again, in a thread of its own.
    fn join_again(&mut self) {
        let again = self.again.clone();
        let (done, awaited) = channel();
        let terms = self.terms;
        // If there is no thread, the channel ends, and the next look tries again.
        let _ = thread::Builder::new().name("rejoin".into()).spawn(move || done.send(again(terms)));
        self.awaited = Some(awaited);
    }
}

/// A call that waits for the server.
struct Held {
    id: u64,
    wanted: Wanted,
    process: u32,
    thread: u32,
    system_call: libc::c_long,
    since: Instant,
}

impl Held {
    const fn enter(&self, call: u32) -> Message {
        let Wanted { operation, file, bytes, .. } = self.wanted;
        Message::Enter { call, operation, process: self.process, file, bytes }
    }
}

/// The agent's own state.
pub(crate) struct Agent {
    shared: Arc<Shared>,
    servers: Vec<Server>,
    served: Served,
    held: BTreeMap<u32, Held>,
    continuing: Continuing,
    next: u32,
    members: Members,
    /// Thread groups by thread, and where the descriptor of a device's file was seen: the thread and the descriptor.
    groups: HashMap<u32, u32>,
    descriptors: HashMap<(usize, u64), (u32, u32)>,
    since: Instant,
    /// Orders of writeback for the thread that carries them out; `None` until the first one.
    orders: Option<SyncSender<WriteBack>>,
    stopper: Stopper,
    /// When it looked for signals of held threads, and the number of the last call.
    looked: (Instant, u32),
    /// When it looked whether its processes were killed.
    looked_for_killed: Instant,
    /// Messages about calls that continue already, and since when they wait to be sent.
    unsent: (Vec<Message>, Instant),
}

impl Agent {
    /// With connections that have joined accounts, at least one.
    pub(crate) fn new(
        listener: OwnedFd,
        received: Arc<Received>,
        stopper: Stopper,
        joined: Vec<Joined>,
    ) -> io::Result<Self> {
        let writer = |joined: &Joined| Ok(Mutex::new(Some(joined.server.try_clone()?)));
        let writers = joined.iter().map(writer).collect::<io::Result<_>>()?;
        wake_here(listener.as_fd());
        let shared = Shared { listener, received, open: Mutex::default(), servers: writers };
        let served = Served::new(joined.iter().map(|joined| joined.device).collect());
        Ok(Self {
            shared: Arc::new(shared),
            servers: joined.into_iter().map(Server::new).collect(),
            served,
            held: BTreeMap::new(),
            continuing: Continuing::new(),
            next: 0,
            members: Members::new(),
            groups: HashMap::new(),
            descriptors: HashMap::new(),
            since: Instant::now(),
            orders: None,
            stopper,
            looked: (Instant::now(), 0),
            looked_for_killed: Instant::now(),
            unsent: (Vec::new(), Instant::now()),
        })
    }

    /// Answers calls until the last process with the filter has ended.
    pub(crate) fn run(&mut self) {
        // The server reports the account's terms to agents that have sent something.
        self.send(&[Message::Process { process: std::process::id() }]);
        loop {
            let streams = self.servers.iter().map(|server| server.stream.as_ref().map(AsRawFd::as_raw_fd));
            let (calls, messages) = poll(&self.shared.listener, streams, self.timeout());
            for place in (0..messages.len()).filter(|&place| messages[place]) {
                if !self.receive(place) {
                    self.ended(place);
                }
            }
            match readiness(calls) {
                Readiness::Call => {
                    if let Ok(Some(call)) = self.shared.receive() {
                        self.intercepted(call);
                    }
                }
                Readiness::Ended => return self.send(&[]),
                Readiness::Nothing => {}
            }
            let (unsent, since) = &self.unsent;
            if unsent.len() >= UNSENT || !unsent.is_empty() && since.elapsed() >= LATER {
                self.send(&[]);
            }
            self.returned();
            self.look_for_servers();
            self.look_for_signals();
            self.look_for_killed();
        }
    }

    fn timeout(&self) -> libc::c_int {
        let rejoins = self.servers.iter().any(|server| server.awaited.is_some()).then_some(LOOK);
        let signals = LOOK_FOR_SIGNALS.saturating_sub(self.looked.0.elapsed()).as_millis() as libc::c_int + 1;
        let signals = (!self.held.is_empty() || self.stopper.has_stopped()).then_some(signals);
        let continuing = Some(self.continuing.timeout()).filter(|&timeout| timeout >= 0);
        let unsent = (!self.unsent.0.is_empty()).then_some(LATER.as_millis() as libc::c_int);
        let killed =
            LOOK_FOR_KILLED.saturating_sub(self.looked_for_killed.elapsed()).as_millis() as libc::c_int + 1;
        rejoins.into_iter().chain(signals).chain(continuing).chain(unsent).fold(killed, libc::c_int::min)
    }

    /// Leaves the accounts when all processes were killed. They cannot end before requests of theirs that wait because of the accounts' limits.
    fn look_for_killed(&mut self) {
        if self.looked_for_killed.elapsed() < LOOK_FOR_KILLED {
            return;
        }
        self.looked_for_killed = Instant::now();
        let mut processes = self.members.running().peekable();
        if processes.peek().is_none() || !processes.all(is_killed) {
            return;
        }
        drop(processes);
        for (place, server) in self.servers.iter_mut().enumerate() {
            (server.stream, server.awaited, server.waits) = (None, None, None);
            *lock(&self.shared.servers[place]) = None;
            self.stopper.forget(place);
        }
    }

    /// Lets held and stopped threads handle signals that ask them to end.
    fn look_for_signals(&mut self) {
        let (at, last) = self.looked;
        let has_any = !self.held.is_empty() || self.stopper.has_stopped();
        if !has_any || at.elapsed() < LOOK_FOR_SIGNALS {
            return;
        }
        self.stopper.release(is_asked_to_end, THREADS);
        let (after, before) = (Bound::Excluded(last), Bound::Included(last));
        let rest =
            self.held.range((after, Bound::Unbounded)).chain(self.held.range((Bound::Unbounded, before)));
        let looked: Vec<_> = rest.take(THREADS).map(|(&number, held)| (number, held.thread)).collect();
        self.looked = (Instant::now(), looked.last().map_or(0, |&(number, _)| number));
        for (number, thread) in looked {
            if !is_asked_to_end(thread) {
                continue;
            }
            if let Some(held) = self.held.remove(&number) {
                self.shared.interrupt(held.id);
                self.send(&[Message::Return { call: number }]);
            }
        }
    }

    /// Continues with servers whose accounts were joined again, and without those for which calls have waited long enough.
    fn look_for_servers(&mut self) {
        for place in 0..self.servers.len() {
            if self.servers[place].waits.is_some_and(|until| until <= Instant::now()) {
                self.let_calls_continue(place);
            }
            match self.servers[place].awaited.as_ref().map(Receiver::try_recv) {
                Some(Ok(connection)) => self.joined(place, connection),
                Some(Err(TryRecvError::Disconnected)) => self.servers[place].join_again(),
                Some(Err(TryRecvError::Empty)) | None => {}
            }
        }
    }

    /// A restarted server has the account, and gets its processes and held calls.
    fn joined(&mut self, place: usize, (stream, device): Connection) {
        let Ok(writer) = stream.try_clone() else { return self.servers[place].join_again() };
        self.served.set(place, device);
        *lock(&self.shared.servers[place]) = Some(writer);
        let server = &mut self.servers[place];
        (server.stream, server.awaited, server.waits) = (Some(stream), None, None);
        let own = std::iter::once(std::process::id());
        let processes = own.chain(self.members.running()).map(|process| Message::Process { process });
        let is_own = |number: &u32| self.shared.server_of(*number) == place;
        let calls = self.held.iter().filter(|(number, _)| is_own(number));
        let messages: Vec<_> = processes.chain(calls.map(|(&number, held)| held.enter(number))).collect();
        self.send(&messages);
    }

    /// Reports continuing calls that ended without a next one.
    fn returned(&mut self) {
        let ended: Vec<_> =
            self.continuing.ended().into_iter().map(|call| Message::Return { call }).collect();
        if !ended.is_empty() {
            self.send(&ended);
        }
    }

    /// Sends messages after those that wait, and looks for the next ones of servers whose connections have ended.
    fn send(&mut self, messages: &[Message]) {
        let mut all = std::mem::take(&mut self.unsent.0);
        all.extend(messages);
        self.shared.send(&all).into_iter().for_each(|place| self.ended(place));
    }

    /// Sends messages with the next ones, or soon.
    fn send_later(&mut self, messages: impl IntoIterator<Item = Message>) {
        let (unsent, since) = &mut self.unsent;
        if unsent.is_empty() {
            *since = Instant::now();
        }
        unsent.extend(messages);
    }

    fn intercepted(&mut self, call: Intercepted) {
        // Also while all servers are away: they get the process when they are back.
        let process = self.group_of(call.thread);
        if !self.servers.iter().any(Server::has_calls) {
            return self.shared.proceed(call.id);
        }
        let before = self.continuing.ends(call.thread).map(|call| Message::Return { call });
        let wanted = wanted(&call, &mut self.served);
        let wanted = wanted.filter(|wanted| self.servers[wanted.device].has_calls());
        let Some(wanted) = wanted else {
            self.shared.proceed(call.id);
            return self.send(before.as_slice());
        };
        let Wanted { device, file, bytes, operation, .. } = wanted;
        if let Some(descriptor) = wanted.descriptor {
            self.descriptors.insert((device, file), (call.thread, descriptor));
        }
        let number = self.number(device);
        let (thread, system_call) = (call.thread, call.number);
        let since = Instant::now();
        let held = Held { id: call.id, wanted, process, thread, system_call, since };
        let messages = before.into_iter().chain([held.enter(number)]);
        let Server { stream, early, .. } = &mut self.servers[device];
        let is_early = operation == Operation::Write && !wanted.then_fsync && stream.is_some();
        if is_early && early.admits(since, bytes) {
            early.continues(since, number, bytes);
            self.continuing.begins(thread, number, system_call);
            self.shared.proceed(call.id);
            return self.send_later(messages);
        }
        self.held.insert(number, held);
        let messages: Vec<_> = messages.collect();
        self.send(&messages);
    }

    /// A number for a call, whose remainder is the server's place.
    fn number(&mut self, place: usize) -> u32 {
        let servers = self.servers.len() as u32;
        let number = self.next * servers + place as u32;
        self.next = (self.next + 1) % (u32::MAX / servers);
        number
    }

    /// A server ended or sent an invalid message. Held and later calls on its device wait for the next one.
    fn ended(&mut self, place: usize) {
        *lock(&self.shared.servers[place]) = None;
        self.stopper.forget(place);
        let Self { servers, shared, continuing, unsent, .. } = self;
        if servers[place].stream.take().is_some() {
            servers[place].buffer.clear();
            servers[place].early.distrust();
            servers[place].waits = Some(Instant::now() + servers[place].patience);
            servers[place].join_again();
            // The next one learns of held calls only.
            continuing.retain(|number| shared.server_of(number) != place);
            unsent.0.retain(|message| !shared.is_for(message, place));
        }
    }

    /// The calls on a device whose next server is late continue.
    fn let_calls_continue(&mut self, place: usize) {
        self.servers[place].waits = None;
        let Self { shared, held, .. } = self;
        held.retain(|&number, held| {
            let stays = shared.server_of(number) != place;
            if !stays {
                shared.proceed(held.id);
            }
            stays
        });
    }

    /// Reads messages of a server; `false` if the connection ended.
    fn receive(&mut self, place: usize) -> bool {
        let Server { stream: Some(stream), buffer, .. } = &mut self.servers[place] else { return true };
        let mut received = [0; 128 * MESSAGE_BYTES];
        match stream.read(&mut received) {
            Ok(0) => return false,
            Ok(length) => buffer.extend(&received[..length]),
            Err(error) => return error.kind() == io::ErrorKind::Interrupted,
        }
        take(buffer).into_iter().all(|message| self.obey(place, message))
    }

    fn obey(&mut self, place: usize, message: Option<Message>) -> bool {
        match message {
            Some(Message::Admit { call }) => {
                let is_own = self.shared.server_of(call) == place;
                let early = &mut self.servers[place].early;
                match is_own.then(|| self.held.remove(&call)).flatten() {
                    Some(held) => {
                        early.waited(held.since.elapsed());
                        self.admit(call, held);
                    }
                    None => early.answered(call),
                }
                true
            }
            Some(Message::WriteBack { file, pages, offset }) => {
                if let Some(&(thread, descriptor)) = self.descriptors.get(&(place, file)) {
                    let path = format!("/proc/{thread}/fd/{descriptor}");
                    let orders = self.orders.get_or_insert_with(start_writer);
                    // If there is no thread, or it has much to do, the scheduler orders it again.
                    let _ = orders.try_send(WriteBack { path, inode: file, pages, offset });
                }
                true
            }
            Some(Message::Stop { thread }) => {
                self.stopper.stop(place, thread);
                true
            }
            Some(Message::Resume { thread }) => {
                self.stopper.resume(place, thread);
                true
            }
            Some(Message::StopAll { process }) => {
                self.stopper.stop_all(place, process);
                true
            }
            Some(Message::ResumeAll { process }) => {
                self.stopper.resume_all(place, process);
                true
            }
            Some(Message::Terms(terms)) => {
                self.servers[place].terms = Some(terms);
                true
            }
            _ => false,
        }
    }

    fn admit(&mut self, number: u32, mut held: Held) {
        if std::mem::take(&mut held.wanted.then_fsync) {
            held.wanted.operation = Operation::Fsync;
            let again = self.number(held.wanted.device);
            let messages = [Message::Return { call: number }, held.enter(again)];
            self.held.insert(again, held);
            return self.send(&messages);
        }
        let Held { id, wanted, process, thread, system_call, .. } = held;
        let file_of = |descriptor| take_fd(process, descriptor).ok().map(File::from);
        let file = wanted.sync.and_then(|sync| Some((sync, file_of(wanted.descriptor?)?)));
        let Some((sync, file)) = file else {
            self.continuing.begins(thread, number, system_call);
            return self.shared.proceed(id);
        };
        // The kernel does not report the end of a call that continues, and the scheduler needs that of an fsync. The same open file: an
        // error is reported once to each.
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let result = match sync {
                Sync::All => file.sync_all(),
                Sync::Data => file.sync_data(),
            };
            let error = result.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
            // First, as the program may end with this call, and the agent with the program.
            shared.send(&[Message::Return { call: number }]);
            finish(shared.listener.as_fd(), id, error);
            shared.answered(id);
        };
        if thread::Builder::new().name("fsync".into()).spawn(work).is_err() {
            self.shared.let_continue(number, id);
        }
    }

    fn group_of(&mut self, thread: u32) -> u32 {
        if self.since.elapsed() > REMEMBERED {
            self.groups.clear();
            self.since = Instant::now();
            let live = |path: &(u32, u32)| find(&format!("/proc/{}/fd/{}", path.0, path.1)).is_some();
            self.descriptors.retain(|_, path| live(path));
        }
        if let Some(&known) = self.groups.get(&thread) {
            return known;
        }
        let process = group_of(thread).unwrap_or(thread);
        self.groups.insert(thread, process);
        self.members.add(process);
        // Before the call continues: a program that only reads is charged from its first read on.
        self.send(&[Message::Process { process }]);
        process
    }
}

fn group_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")).and_then(|text| text.trim().parse().ok())
}

/// An order to write back some pages of a file.
struct WriteBack {
    path: String,
    inode: u64,
    pages: u32,
    offset: u64,
}

/// The number of orders that wait.
const ORDERS: usize = 64;

/// Starts the thread that begins the writeback of ordered pages, as a full queue delays that. One thread for all orders: with several, a later order
/// may precede an earlier one, and the drive loses a revolution when it returns for the pages that it has passed.
fn start_writer() -> SyncSender<WriteBack> {
    let (orders, received) = sync_channel(ORDERS);
    let work = move || received.iter().for_each(|order: WriteBack| order.begin());
    let _ = thread::Builder::new().name("write-back".into()).spawn(work);
    orders
}

impl WriteBack {
    fn begin(&self) {
        let is_it = find(&self.path).is_some_and(|found| found.inode == self.inode);
        let Some(file) = File::open(&self.path).ok().filter(|_| is_it) else { return };
        let (offset, length) = (self.offset as i64, i64::from(self.pages) * 4096);
        // SAFETY: takes numbers only.
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) };
    }
}
