//! Runs a program whose system calls a served device's scheduler admits.
//!
//! Between fork and exec the child installs a seccomp filter, which its own children inherit. The kernel suspends each intercepted call and
//! notifies the listener of the filter. The *agent*, a thread of the process that started the program, passes calls that change files of a
//! served device to its server and lets them continue when the server's scheduler admits them. All other calls continue at once.
//!
//! | what ends | what follows |
//! |---|---|
//! | the agent | the *keeper*, a process that holds the listener as well, lets all held and later calls continue |
//! | a server | held and later calls on its device wait for the next server, for a limited time; after that, calls continue until there is one |
//! | the part of its scheduler above the block layer | the server admits all held and later calls |
//! | the stopper, a process that stops threads, because stores to mapped files cannot be intercepted | the threads continue, and are not stopped any more |
//! | the program | the agent returns its exit code; descendants that still run are not held any more |
//!
//! A process that runs already gets the filter by [`join`], a container from its OCI runtime, which sends the listener ([`container`]); [`attend`]
//! is the agent of both.
//!
//! Not intercepted: io_uring, `io_submit`, stores to mapped files, `sync`, `syncfs`, `ioctl` (`FICLONE` and others), and calls of 32-bit programs.
//! Their data is charged to the account when it becomes dirty. A thread that makes data of files dirty in such a way, by stores for example, is
//! stopped for as long as the scheduler would hold a write of it; `O_DIRECT`, `sync`, `syncfs` and changes of metadata are not delayed.

mod agent;
mod call;
pub mod container;
mod continuing;
mod device;
mod early;
mod filter;
mod handed;
mod keeper;
mod listener;
mod members;
mod running;
mod signals;
mod stopper;
mod takeover;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agent::Agent;
use control::DeviceNumber;
use control::protocol::AccountTerms;
use handed::{Received, receive_fd, send_fd};
pub use signals::Signals;
use stopper::Stopper;
pub use takeover::Listener;

/// An error of starting a program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program cannot be started.
    #[error("{}: {source}", program.to_string_lossy())]
    Program {
        /// Its name.
        program: OsString,
        /// The reason.
        source: io::Error,
    },
    /// The calls of a running process are intercepted already.
    #[error(
        "process {process}: its calls are intercepted already, by a 'dwell exec' that runs or by the listener of its container's profile; end that first"
    )]
    Intercepted {
        /// Its number.
        process: u32,
    },
    /// This process has the filter of the process that it shall join.
    #[error(
        "process {process}: this 'dwell exec' has the same filter, as a process started it that was joined before; start it from another process"
    )]
    Within {
        /// Its number.
        process: u32,
    },
    /// The calls of the program that shall start would be intercepted twice.
    #[error("{}: its calls are intercepted already: this process runs under 'dwell exec', or in a container with a listener", program.to_string_lossy())]
    Nested {
        /// Its name.
        program: OsString,
    },
    /// There is no such process.
    #[error("no process {process}")]
    NoProcess {
        /// The number.
        process: u32,
    },
    /// A running process cannot be joined.
    #[error("process {process}: {source}")]
    Process {
        /// Its number.
        process: u32,
        /// The reason.
        source: io::Error,
    },
    /// The kernel does not allow it.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { what, source }
}

/// A connection to a server that has joined an account, and the number of the block device whose files are scheduled.
pub struct Joined {
    /// Carries messages of [`control::admission`].
    pub server: UnixStream,
    /// Major and minor number.
    pub device: DeviceNumber,
    /// What joins the account again when the server has ended.
    pub again: Again,
    /// How long calls on its device then wait for the next server; afterwards they continue until there is one.
    pub patience: Duration,
}

/// A connection to a server that has joined an account, and the number of the device.
pub type Connection = (UnixStream, DeviceNumber);

/// Waits until a server has the account again, with the terms that the former one reported, if it did. Called in a thread of its own.
pub type Again = Arc<dyn Fn(Option<AccountTerms>) -> Connection + Send + Sync>;

/// How long the agent may take to end after the program.
const LAST: Duration = Duration::from_millis(50);

/// Runs a program to its end; returns its exit code, or 128 and the number of the signal that ended it. `joined` has a connection for each
/// served device. The calling process must have one thread only, as it forks the keeper.
///
/// # Errors
/// The program cannot be started, or the kernel has no seccomp notification (Linux 5.5).
pub fn run(command: &[OsString], joined: Vec<Joined>) -> Result<u8, Error> {
    let Some((program, arguments)) = command.split_first() else {
        let source = io::ErrorKind::InvalidInput.into();
        return Err(Error::Program { program: OsString::new(), source });
    };
    let keeper = Keeper::fork()?;
    let (from_child, for_agent) = UnixStream::pair().map_err(system("making a socket"))?;
    let ready = thread::Builder::new()
        .name("agent".into())
        .spawn(move || serve(from_child, keeper, joined))
        .map_err(system("starting the agent"))?;
    let mut filter = filter::program();
    let mut child = Command::new(program);
    child.args(arguments);
    let socket = for_agent.try_clone().map_err(system("making a socket"))?;
    let parent = std::process::id();
    // SAFETY: the closure only makes system calls; it does not allocate.
    unsafe { child.pre_exec(move || install(&mut filter, &socket, parent)) };
    signals::pass_on_signals();
    let spawned = child.spawn();
    if let Ok(child) = &spawned {
        signals::pass_on_to(child.id());
    }
    // The agent waits for the other end only as long as the child may still send its listener.
    drop((child, for_agent));
    let status = match spawned {
        Ok(mut child) => child.wait().map_err(system("waiting for the program"))?,
        Err(source) => return Err(ready_error(ready, program, source)),
    };
    // The server learns of the last small writes a little later. If descendants of the program still run, the agent does not end.
    let ended = Instant::now();
    while !ready.is_finished() && ended.elapsed() < LAST {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(code(status))
}

/// Why the program did not start: the agent's reason, if it has one.
fn ready_error(agent: thread::JoinHandle<Result<(), Error>>, program: &OsString, source: io::Error) -> Error {
    match agent.join() {
        Ok(Err(error)) => error,
        _ if source.raw_os_error() == Some(libc::EBUSY) => Error::Nested { program: program.clone() },
        _ => Error::Program { program: program.clone(), source },
    }
}

/// The agent's thread.
fn serve(mut child: UnixStream, keeper: Keeper, joined: Vec<Joined>) -> Result<(), Error> {
    // The child has ended, and its error is known to its parent.
    let Some(listener) = receive_fd(&child).map_err(system("receiving the listener"))? else { return Ok(()) };
    keeper.agent_for(listener, joined, || child.write_all(&[1]).map_err(system("starting the program")))
}

/// The agent's end of its connection to the keeper, and the memory that they share.
struct Keeper {
    process: UnixStream,
    received: Arc<Received>,
    stopper: Stopper,
}

impl Keeper {
    fn fork() -> Result<Self, Error> {
        let received = Arc::new(Received::new().map_err(system("sharing memory with the keeper"))?);
        let (process, for_keeper) = UnixStream::pair().map_err(system("making a socket"))?;
        keeper::fork(for_keeper, &received).map_err(system("forking the keeper"))?;
        let stopper = Stopper::fork().map_err(system("forking the stopper"))?;
        Ok(Self { process, received, stopper })
    }

    /// Answers the calls of a listener until the last process with its filter has ended. `begin` lets the program begin.
    fn agent_for(
        mut self,
        listener: OwnedFd,
        joined: Vec<Joined>,
        begin: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        send_fd(&self.process, listener.as_fd()).map_err(system("passing the listener to the keeper"))?;
        self.process.read_exact(&mut [0]).map_err(system("starting the keeper"))?;
        let agent = Agent::new(listener, self.received, self.stopper, joined);
        let mut agent = agent.map_err(system("starting the agent"))?;
        begin()?;
        agent.run();
        // Only now, as its end lets the keeper answer.
        drop(self.process);
        Ok(())
    }
}

/// Answers the calls of a listener from elsewhere until the last process with its filter has ended. Without a server, or if the agent cannot be
/// started, all calls continue. The calling process must have one thread only, as it forks the keeper.
///
/// `report` gets the reason.
pub fn attend<E: From<Error>>(
    listener: impl Into<Listener>,
    join: impl FnOnce() -> Result<Vec<Joined>, E>,
    report: impl FnOnce(E),
) {
    let Listener { fd, former } = listener.into();
    let copy = fd.try_clone();
    let attended = join().and_then(|joined| {
        let keeper = Keeper::fork()?;
        // Only now, as the new keeper has the listener.
        let begin = || {
            former.iter().for_each(Listener::dismiss);
            Ok(())
        };
        Ok(keeper.agent_for(fd, joined, begin)?)
    });
    if let Err(error) = attended {
        report(error);
        copy.iter().for_each(|listener| keeper::answer_all(listener, None));
    }
}

/// Intercepts the calls of a process that runs already, and of the children that it makes from now on; returns the listener, for [`attend`]. Of a process
/// whose agent has ended, and of all others with its filter, the listener is that of the agent's keeper.
///
/// # Errors
/// There is no such process, it ends, another program traces it, an agent answers its calls already, or it is no `x86_64` program.
pub fn join(process: u32) -> Result<Listener, Error> {
    running::install(process as libc::pid_t).map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY) => Error::Intercepted { process },
        Some(libc::ELOOP) => Error::Within { process },
        Some(libc::ENOENT | libc::ESRCH) => Error::NoProcess { process },
        Some(libc::EACCES | libc::EPERM) => {
            let text = format!("it cannot be traced ({source}): that needs CAP_SYS_PTRACE, and no other tracer such as strace");
            Error::Process { process, source: io::Error::new(source.kind(), text) }
        }
        _ => Error::Process { process, source },
    })
}

/// Runs `work` in a child process, whose exit code it returns; returns the child's number. The child ends with its parent. The calling process must
/// have one thread only.
///
/// # Errors
/// The kernel makes no process.
pub fn in_child(work: impl FnOnce() -> u8) -> Result<u32, Error> {
    let parent = std::process::id();
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(system("making a process")(io::Error::last_os_error())),
        0 => {
            signals::unblock();
            let code = if ends_with(parent, libc::SIGTERM).is_ok() { work() } else { 1 };
            // SAFETY: ends the process without the parent's exit handlers.
            unsafe { libc::_exit(code.into()) }
        }
        child => Ok(child as u32),
    }
}

/// The kernel sends the calling thread a signal when its parent ends. Fails if the parent has ended before, of which the kernel does not inform.
fn ends_with(parent: u32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
    let is_alive = std::os::unix::process::parent_id() == parent;
    is_alive.then_some(()).ok_or(io::ErrorKind::BrokenPipe.into())
}

/// In the child, between fork and exec.
fn install(filter: &mut [libc::sock_filter], agent: &UnixStream, parent: u32) -> io::Result<()> {
    // SAFETY: these take numbers only.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        libc::signal(libc::SIGQUIT, libc::SIG_DFL);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
    }
    // If the agent ends before it and the keeper have the listener, no process can answer this process's calls. This process has both ends of its
    // connection to the agent, so that reading from it would not fail.
    ends_with(parent, libc::SIGKILL)?;
    let listener = filter::install(filter)?;
    send_fd(agent, listener.as_fd())?;
    // The agent has a copy; this one must not keep the filter's listener alive.
    drop(listener);
    if rustix::io::read(agent, &mut [0_u8; 1])? == 0 {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    // The agent answers this call at once, as the descriptor is invalid. Its number is the first of the calls' sequential numbers.
    // SAFETY: no such descriptor.
    unsafe {
        libc::fsync(-1);
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
    }
    Ok(())
}

/// Whether a child of [`in_child`] ended with code 0; `None` while it runs.
#[must_use]
pub fn child_ended(child: u32, wait: bool) -> Option<bool> {
    let (mut status, options) = (0, if wait { 0 } else { libc::WNOHANG });
    loop {
        // SAFETY: writes a number.
        match unsafe { libc::waitpid(child as libc::pid_t, &raw mut status, options) } {
            0 => return None,
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            ended => return Some(ended > 0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0),
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(signal) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_whose_parent_has_ended_before_fails() {
        let parent = std::os::unix::process::parent_id();
        assert!(ends_with(parent, 0).is_ok());
        assert_eq!(ends_with(parent + 1, 0).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
