//! A parent process that holds the attached device's FUSE descriptor and restarts the server when it dies.
//!
//! *Why a process*: a server that is killed, runs out of memory or panics loses every descriptor that it owns. This parent has a copy of the
//! FUSE descriptor, so the kernel keeps the connection: requests wait, and the loop device keeps its name.
//!
//! *Threads*: the main thread waits for events, decides, kills servers and gives the device up. It makes no system call that allocates kernel
//! memory, so it never waits for the device. The thread of the module `starter` makes all others.
//!
//! *Standby*: in a limited memory cgroup, a starting process may wait for writeback to the device that it should serve. In such a cgroup the
//! supervisor starts a second server before the device is attached. The second server reserves and locks its memory, and waits for the
//! descriptor. When the active server dies, the second one takes over, and the supervisor starts another one once the device is served again.
//!
//! *Inputs*: servers open no file of the configuration; see the module `inputs`.
//!
//! *Ends*: the parent forwards SIGINT, SIGTERM and SIGHUP to the server. When the server ends and no descriptor is stored, the parent ends with
//! the server's exit status. When the parent is killed, the kernel sends SIGUSR1 to the server (`PR_SET_PDEATHSIG`), which then serves the
//! device until it is unused, and ends. SIGTERM would not do: a second SIGTERM aborts the device's users. When both are killed, a third process
//! takes the device down: see the module `watcher`.
//!
//! Under systemd this process is not needed: see the module `descriptor_store`.

mod inputs;
mod signals;
mod starter;
mod watcher;

use std::env;
use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::attach;
use crate::descriptor_store::{
    CONTINUED, ENDING, Message, READY, SUPERVISOR, is_supervised_by, message, receive,
};
use crate::ending::Requests;
use crate::memory_limit;
use crate::private_directory;
use crate::resident;
pub use inputs::{input, read_at_most};
use signals::Signals;
use starter::{Kept, Server, Starter};

/// A server that ends within this time counts as a failed start.
const SHORT: Duration = Duration::from_millis(500);

/// Pause after a failed start, doubled by each further one up to `LONGEST_PAUSE`: the cost is bounded if a request crashes every server, or if
/// the disk is absent. Requests wait meanwhile.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Limit of the time in which a server must take over its predecessor's device. It bounds a deadlock: a new process that shares a limited memory
/// cgroup with the device's writers may wait for writeback to the device that it should serve. The new server also waits for its predecessor's
/// I/O, so this limit exceeds that wait.
const CONTINUE: Duration = attach::SOURCE_BUSY.saturating_add(Duration::from_secs(30));

/// The smallest limit of a memory cgroup in which a second server is started: each locks a reserve of 13 MiB or more, and the program's text.
const ROOM_FOR_TWO: u64 = 96 << 20;

/// Limit of the time in which a server must end after the second signal. It exceeds the 30 s without progress after which the server itself
/// gives its device up. A killed server cannot end while one of its threads waits for writeback to the device.
const END: Duration = Duration::from_secs(40);

/// Limit of the time in which killed servers must disappear.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// Starts this program again with the same arguments, restarts it when it dies, and returns the exit status with which this
/// process should end. `runtime` is where servers keep their records. None in the process that is to serve: one that a supervisor or a
/// service manager has started. To be called before any thread starts, and after all inputs are read ([`input`], [`check_certificates`]):
/// servers receive them.
///
/// [`check_certificates`]: crate::NbdOptions::check_certificates
///
/// # Errors
/// The program cannot be started, or this is a server whose supervisor has ended.
pub fn supervise(runtime: &Path) -> io::Result<Option<i32>> {
    if let Some(text) = env::var_os(SUPERVISOR) {
        // SAFETY: the calls change how this process receives signals, and touch no memory.
        unsafe {
            // A server in the background may write to its terminal also where `stty tostop` is set.
            libc::signal(libc::SIGTTOU, libc::SIG_IGN);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGUSR1);
        }
        // After the call, so that no end is missed.
        if !is_supervised_by(&text.to_string_lossy()) {
            return Err(io::Error::other("the supervisor of this server has ended"));
        }
        name_process();
        return Ok(None);
    }
    if env::var_os("NOTIFY_SOCKET").is_some() {
        return Ok(None);
    }
    attach::check_mount_capability().map_err(io::Error::other)?;
    let directory = private_directory::make(runtime).map_err(io::Error::other)?;
    watcher::start(&directory)?;
    let signals = Signals::new()?;
    // The device may hold this program's own file, and the heap of this process may be at its cgroup's limit.
    resident::reserve_for_supervisor();
    let supervisor = Supervisor {
        directory,
        runtime: runtime.to_path_buf(),
        signals,
        starter: Starter::new()?,
        keeps_standby: memory_limit::own().is_some_and(|limit| limit >= ROOM_FOR_TWO),
        active: None,
        standby: None,
        is_starting: false,
        has_begun: false,
        kept: Vec::new(),
        ending: None,
        requests: Requests::default(),
        is_second: false,
        until: None,
        not_before: None,
        standby_not_before: None,
        began: Instant::now(),
    };
    supervisor.run().map(Some)
}

/// Names this process as its program: it was started as `/proc/self/exe`, and `ps` and `ctl` would print `exe`.
fn name_process() {
    let name = env::args_os().next().map(PathBuf::from);
    let name = name.as_deref().and_then(Path::file_name).map(|name| CString::new(name.as_bytes()));
    if let Some(Ok(name)) = name {
        let _ = rustix::thread::set_name(&name);
    }
}

/// Lets a server receive signals that arrived since its supervisor started it. To be called once it handles them, before it starts a thread.
pub(crate) fn unblock_signals() {
    if is_server() {
        signals::unblock();
    }
}

/// Whether a supervisor started this process.
pub fn is_server() -> bool {
    env::var_os(SUPERVISOR).is_some()
}

/// The exit code that a shell would report.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn pass_on(child: &Child, signal: Signal) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process(pid, signal);
    }
}

struct Supervisor {
    runtime: PathBuf,
    /// The directory of mount points: `fuse` mounts the device's file here, under the name of its descriptor.
    directory: PathBuf,
    signals: Signals,
    starter: Starter,
    keeps_standby: bool,
    /// The server that serves the device, or will serve it.
    active: Option<Server>,
    /// The server that waits to take over.
    standby: Option<Server>,
    /// A server was requested and has not arrived.
    is_starting: bool,
    /// The first server was allowed to attach the device.
    has_begun: bool,
    kept: Vec<Kept>,
    /// The signal that requested the end.
    ending: Option<Signal>,
    requests: Requests,
    /// A second signal requested the end of the active server.
    is_second: bool,
    /// When the device is given up, if its server neither continues nor ends until then.
    until: Option<Instant>,
    /// When the active server received the descriptor.
    began: Instant,
    /// When the next server may start, or the standby may take over.
    not_before: Option<Instant>,
    /// When another standby may start.
    standby_not_before: Option<Instant>,
}

impl Supervisor {
    fn run(mut self) -> io::Result<i32> {
        let mut pause = Duration::ZERO;
        self.start();
        loop {
            self.wait()?;
            let is_second = self.take_signals();
            match self.starter.started() {
                Some(Ok(server)) => {
                    self.is_starting = false;
                    self.arrived(server);
                }
                Some(Err(error)) if self.active.is_none() && self.kept.is_empty() => return Err(error),
                Some(Err(error)) => {
                    self.is_starting = false;
                    self.starter.print(format!("cannot start a server: {error}"));
                    self.not_before = Some(Instant::now() + LONGEST_PAUSE);
                }
                None => {}
            }
            // The status first: a message that the server sent before it ended is read after that.
            let ended = self.active.as_mut().map(|server| server.child.try_wait()).transpose()?.flatten();
            self.receive();
            if let Some(status) = ended {
                self.active = None;
                if self.kept.is_empty() {
                    self.kill_all();
                    return Ok(exit_code(status));
                }
                let is_short = self.began.elapsed() < SHORT;
                pause = if is_short { (pause * 2).clamp(PAUSE, LONGEST_PAUSE) } else { Duration::ZERO };
                let now = Instant::now();
                self.not_before = Some(now + pause);
                // Servers that fail one after the other share one limit only if none continues.
                self.until.get_or_insert(now + CONTINUE);
                self.starter.print(format!(
                    "the server ended ({status}) while its device is attached: requests wait; restarting it in {} ms",
                    pause.as_millis()
                ));
            }
            if let Some(standby) = &mut self.standby
                && standby.child.try_wait()?.is_some()
            {
                self.standby = None;
                self.standby_not_before = Some(Instant::now() + LONGEST_PAUSE);
                if !self.has_begun {
                    self.keeps_standby = false;
                    self.starter.print(
                        "warning: no second server fits into the memory cgroup: a restart may fail"
                            .to_owned(),
                    );
                }
            }
            match self.until {
                Some(_) if is_second => {
                    self.give_up(if self.is_second { "a third signal" } else { "a second signal" });
                    return Ok(1);
                }
                Some(limit) if Instant::now() >= limit => {
                    self.give_up(if self.is_second {
                        "its server has not ended after a second signal"
                    } else {
                        "no server has continued with it in time"
                    });
                    return Ok(1);
                }
                None if is_second && !self.kept.is_empty() => {
                    (self.is_second, self.until) = (true, Some(Instant::now() + END));
                }
                _ => {}
            }
            self.proceed();
        }
    }

    /// Does what is due: the first server begins, a standby takes over, a server starts.
    fn proceed(&mut self) {
        let now = Instant::now();
        self.not_before = self.not_before.filter(|&time| now < time);
        self.standby_not_before = self.standby_not_before.filter(|&time| now < time);
        if self.not_before.is_some() {
            return;
        }
        if self.active.is_none() {
            match self.standby.take() {
                Some(server) => self.arrived(server),
                None if !self.is_starting => self.start(),
                None => {}
            }
        }
        let Some(active) = &self.active else { return };
        if !self.has_begun && active.is_ready {
            if !self.keeps_standby || self.standby.as_ref().is_some_and(|standby| standby.is_ready) {
                self.has_begun = true;
                self.starter.give(active, Vec::new());
            } else if self.standby.is_none() && !self.is_starting {
                self.start();
            }
        } else if self.has_begun
            && self.keeps_standby
            && self.until.is_none()
            && self.ending.is_none()
            && self.standby.is_none()
            && self.standby_not_before.is_none()
            && !self.is_starting
        {
            self.start();
        }
    }

    fn start(&mut self) {
        self.is_starting = true;
        self.starter.start();
    }

    /// Makes a new server the active one, or the standby if there is an active one.
    fn arrived(&mut self, server: Server) {
        if self.active.is_some() {
            self.standby = Some(server);
            return;
        }
        self.began = Instant::now();
        // It blocks signals until it handles them.
        if let Some(signal) = self.ending {
            pass_on(&server.child, signal);
        }
        if self.has_begun {
            self.starter.give(&server, self.kept.clone());
        }
        self.active = Some(server);
    }

    /// Waits until a signal or message arrives, or something is due.
    fn wait(&self) -> io::Result<()> {
        let servers = [&self.active, &self.standby].into_iter().flatten().map(|server| server.socket.as_fd());
        let sources = [self.signals.descriptor(), self.starter.bell()].into_iter().chain(servers);
        let mut sources: Vec<PollFd<'_>> =
            sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)).collect();
        let next = [self.until, self.not_before, self.standby_not_before].into_iter().flatten().min();
        let timeout = next.map(|time| {
            // Rounded up: at the end the time is over.
            let left = time.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes signals on. Returns whether one has arrived that ends this process, and not for the first time.
    fn take_signals(&mut self) -> bool {
        let mut is_second = false;
        while let Some(number) = self.signals.next() {
            let signal = match number {
                libc::SIGINT => Signal::INT,
                libc::SIGTERM => Signal::TERM,
                libc::SIGHUP => Signal::HUP,
                _ => continue,
            };
            let ends = signal != Signal::HUP;
            let request = if ends { self.requests.add() } else { Some(false) };
            let Some(is_later) = request else { continue };
            // SIGHUP may make servers read their certificates again, so a waiting one does, too.
            let standby = self.standby.as_ref().filter(|_| !ends);
            // A second signal gives up on the device's users, so each is passed on.
            self.active.iter().chain(standby).for_each(|server| pass_on(&server.child, signal));
            if ends {
                is_second |= is_later;
                self.ending = Some(signal);
            }
        }
        is_second
    }

    /// Takes the servers' messages.
    fn receive(&mut self) {
        for server in [&mut self.active, &mut self.standby].into_iter().flatten() {
            while let Some((text, descriptor)) = receive(&server.socket) {
                match (message(&text), descriptor) {
                    (Some(Message::Store(name)), Some(descriptor)) => {
                        self.kept.retain(|kept| kept.name != name);
                        self.kept.push(Kept { name: name.to_owned(), descriptor: Arc::new(descriptor) });
                    }
                    (Some(Message::Remove(name)), _) => self.kept.retain(|kept| kept.name != name),
                    _ if text == CONTINUED && !self.is_second => self.until = None,
                    _ if text == READY => server.is_ready = true,
                    // Also by an order of a control client, of which no signal informs this process.
                    _ if text == ENDING && self.ending.is_none() => {
                        self.ending = Some(Signal::TERM);
                        let _ = self.requests.add();
                    }
                    _ => {}
                }
            }
        }
    }

    /// Removes the attached device: its users get errors, and processes that wait for it continue.
    fn give_up(&mut self, why: &str) {
        // First what ends every wait for the device: the system call allocates nothing that is charged to a cgroup.
        for kept in &self.kept {
            attach::fail_requests(&self.directory, &kept.name);
        }
        self.kill_all();
        say!("giving up the attached device ({why}); its users get errors");
        for Kept { name, descriptor } in self.kept.drain(..) {
            drop(descriptor);
            attach::give_up(&self.runtime, &name);
        }
        let began = Instant::now();
        while began.elapsed() < LAST_WAIT
            && let Some(server) = &mut self.active
            && matches!(server.child.try_wait(), Ok(None))
        {
            thread::sleep(PAUSE);
        }
    }

    fn kill_all(&self) {
        let servers = self.active.iter().chain(&self.standby);
        servers.for_each(|server| pass_on(&server.child, Signal::KILL));
    }
}
