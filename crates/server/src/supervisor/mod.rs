//! A parent process that holds the attached device's FUSE descriptor and restarts the server when it dies.
//!
//! *Why a process*: a server that is killed, runs out of memory or panics loses everything it owns. This parent owns the
//! descriptor as well, so the kernel keeps the connection: requests wait, and the loop device keeps its name. The parent has
//! one thread, touches no request and allocates only at a start, so little can make it fail.
//!
//! *Ends*: SIGINT, SIGTERM and SIGHUP go on to the server. When the server ends and no descriptor is stored, the parent ends with
//! the server's exit status. When the parent is killed, the server gets SIGTERM (`PR_SET_PDEATHSIG`): it serves the device until it
//! is unused and ends.
//!
//! Under systemd this process is not needed: see the module `descriptor_store`.

use std::env;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, kill_process};

use crate::attach;
use crate::descriptor_store::{CONTINUED, Message, SUPERVISOR, Stored, environment, message};
use crate::server::is_ignored;

/// A server that lives shorter than this has failed at once.
const SHORT: Duration = Duration::from_millis(500);

/// Pause before the next start after a server failed at once; twice as long after each one, up to the longest. A request that makes
/// each server fail, or a disk that is absent, then costs little, and the requests wait.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a server may take to continue with the device of the one before. A new process that shares a limited memory cgroup with the
/// device's writers may wait for writeback to this very device, which only it could serve. It waits for the I/O of the former server,
/// too, so the limit is longer than that wait.
const CONTINUE: Duration = attach::SOURCE_BUSY.saturating_add(Duration::from_secs(30));

/// Whether this process is to be supervised: neither a supervisor nor a service manager has started it.
#[must_use]
pub fn is_needed() -> bool {
    env::var_os(SUPERVISOR).is_none() && env::var_os("NOTIFY_SOCKET").is_none()
}

/// Starts this program again with the same arguments, restarts it when it dies, and returns the exit status with which this
/// process should end. `runtime` is where servers keep their records. To be called before any thread starts.
///
/// # Errors
/// The program cannot be started.
pub fn supervise(runtime: &Path) -> io::Result<i32> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::CHILD];
    let signals = signals.into_iter().filter(|signal| {
        // A supervisor that `nohup` has started ignores SIGHUP, and so does the server.
        *signal != Signal::HUP || !is_ignored(libc::SIGHUP)
    });
    let signals: Vec<(Signal, UnixStream)> = signals
        .map(|signal| {
            let (heard, rung) = UnixStream::pair()?;
            heard.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal.as_raw(), rung)?;
            Ok((signal, heard))
        })
        .collect::<io::Result<_>>()?;
    // The device may hold this program's own file: a restart must not have to read it. What is refused is done without.
    let _ = mlockall(MlockAllFlags::CURRENT);
    let (ours, theirs) = UnixDatagram::pair()?;
    ours.set_nonblocking(true)?;
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let mut supervisor = Supervisor { signals, ours, theirs, stored: Vec::new(), ending: None };
    let mut pause = Duration::ZERO;
    loop {
        let began = Instant::now();
        let mut child = supervisor.start()?;
        if let Some(signal) = supervisor.ending {
            pass_on(&child, signal);
        }
        let status = supervisor.watch(&mut child, runtime)?;
        if supervisor.stored.is_empty() {
            return Ok(exit_code(status));
        }
        pause =
            if began.elapsed() < SHORT { (pause * 2).clamp(PAUSE, LONGEST_PAUSE) } else { Duration::ZERO };
        say!(
            "the server ended ({status}) while its device is attached: requests wait; restarting it in {} ms",
            pause.as_millis()
        );
        // The first signal goes on to the next server, which serves the device until it is unused; a second one gives up.
        let was_ending = supervisor.ending.is_some();
        if supervisor.is_signalled_within(pause)? && was_ending {
            supervisor.give_up(runtime, "a second signal");
            return Ok(1);
        }
    }
}

/// SIGHUP may make the server read its certificates again.
fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::TERM)
}

fn pass_on(child: &Child, signal: Signal) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process(pid, signal);
    }
}

/// Signals that end a server.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Changes for the calling thread whether the ending signals are blocked. Async-signal-safe.
fn set_blocked(how: libc::c_int) {
    // SAFETY: the set is initialised before it is used, and no other memory is involved.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in ENDING {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// Lets a supervised process receive the signals that the supervisor has passed on since its start. To be called once it handles them,
/// before it starts a thread.
pub(crate) fn unblock_signals() {
    if env::var_os(SUPERVISOR).is_some() {
        set_blocked(libc::SIG_UNBLOCK);
    }
}

/// As a shell reports it.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

struct Supervisor {
    signals: Vec<(Signal, UnixStream)>,
    /// Messages from the server.
    ours: UnixDatagram,
    theirs: UnixDatagram,
    stored: Vec<Stored>,
    /// The signal that has asked for the end.
    ending: Option<Signal>,
}

impl Supervisor {
    fn start(&self) -> io::Result<Child> {
        let supervisor = std::process::id();
        let mut command = Command::new("/proc/self/exe");
        let mut arguments = env::args_os();
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        command.args(arguments).env(SUPERVISOR, environment(&self.theirs, &self.stored));
        // Ctrl-C reaches this process only, which passes it on once.
        command.process_group(0);
        // SAFETY: the calls are async-signal-safe and touch no memory of this process.
        unsafe {
            command.pre_exec(move || {
                // A server in the background may write to its terminal also where `stty tostop` is set.
                libc::signal(libc::SIGTTOU, libc::SIG_IGN);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                // Until the server handles them: see `unblock_signals`.
                set_blocked(libc::SIG_BLOCK);
                if libc::getppid() as u32 == supervisor {
                    Ok(())
                } else {
                    Err(io::ErrorKind::BrokenPipe.into())
                }
            })
        };
        command.spawn()
    }

    /// The signals and messages to wait for.
    fn sources(&self) -> Vec<PollFd<'_>> {
        let signals = self.signals.iter().map(|(_, heard)| heard.as_fd());
        let all = signals.chain([self.ours.as_fd()]);
        all.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)).collect()
    }

    /// Waits until a signal or message arrives or the time is over.
    fn wait(&self, at_most: Option<Duration>) -> io::Result<()> {
        let timeout = at_most
            .map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
        match poll(&mut self.sources(), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How often each signal has arrived.
    fn signals(&mut self) -> Vec<(Signal, usize)> {
        let count =
            |(signal, heard): &mut (Signal, UnixStream)| (*signal, heard.read(&mut [0; 16]).unwrap_or(0));
        self.signals.iter_mut().map(count).collect()
    }

    /// Lets the pause pass without a server, or until a signal arrives that ends this process; returns whether one did.
    fn is_signalled_within(&mut self, pause: Duration) -> io::Result<bool> {
        let until = Instant::now() + pause;
        loop {
            let arrived = self.signals().into_iter().find(|&(signal, count)| ends(signal) && count > 0);
            if let Some((signal, _)) = arrived {
                self.ending = Some(signal);
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.wait(Some(left))?;
        }
    }

    /// Takes the attached device down: its users get errors, and processes that wait for it go on.
    fn give_up(&mut self, runtime: &Path, why: &str) {
        say!("giving up the attached device ({why}); its users get errors");
        for Stored { name, descriptor } in self.stored.drain(..) {
            drop(descriptor);
            attach::give_up(runtime, &name);
        }
    }

    /// Serves the child until it ends. A child that does not continue with the stored device in time loses it.
    fn watch(&mut self, child: &mut Child, runtime: &Path) -> io::Result<ExitStatus> {
        let mut until = (!self.stored.is_empty()).then(|| Instant::now() + CONTINUE);
        loop {
            self.wait(until.map(|until| until.saturating_duration_since(Instant::now())))?;
            let mut is_second = false;
            for (signal, count) in self.signals() {
                if signal != Signal::CHILD {
                    // A second signal gives up on the device's users, so each is passed on.
                    (0..count).for_each(|_| pass_on(child, signal));
                    if ends(signal) && count > 0 {
                        is_second = count > 1 || self.ending.is_some();
                        self.ending = Some(signal);
                    }
                }
            }
            // The status first: a message that the server sent before it ended is read after that.
            let ended = child.try_wait()?;
            while let Some((text, descriptor)) = self.receive() {
                match (message(&text), descriptor) {
                    (Some(Message::Store(name)), Some(descriptor)) => {
                        self.stored.retain(|stored| stored.name != name);
                        self.stored.push(Stored { name: name.to_owned(), descriptor });
                    }
                    (Some(Message::Remove(name)), _) => self.stored.retain(|stored| stored.name != name),
                    _ if text == CONTINUED => until = None,
                    _ => {}
                }
            }
            if let Some(status) = ended {
                return Ok(status);
            }
            if let Some(limit) = until
                && (is_second || Instant::now() >= limit)
            {
                let late = format!("its server has not continued within {} s", CONTINUE.as_secs());
                self.give_up(runtime, if is_second { "a second signal" } else { &late });
                until = None;
            }
        }
    }

    /// The next message. Its descriptor is inherited by the next server, so it is not closed on exec.
    fn receive(&self) -> Option<(String, Option<OwnedFd>)> {
        let mut bytes = [0; 256];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(&self.ours, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty()).ok()?;
        let text = String::from_utf8_lossy(&bytes[..received.bytes]).into_owned();
        let mut descriptor = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptor = descriptors.last().or(descriptor);
            }
        }
        Some((text, descriptor))
    }
}
