//! Runs a program whose system calls a served device's scheduler admits.
//!
//! Between fork and exec the child installs a seccomp filter, which its own children inherit. The kernel suspends each intercepted call and
//! notifies the listener of the filter. The *agent*, a thread of the process that started the program, passes calls that change files of the
//! served device to the server and lets them continue when the server's scheduler admits them. All other calls continue at once.
//!
//! | what ends | what follows |
//! |---|---|
//! | the agent | the *keeper*, a process that holds the listener as well, lets all held and later calls continue |
//! | the server, or its scheduler's part above the block layer | the agent lets all held and later calls continue |
//! | the program | the agent returns its exit code; descendants that still run are not held any more |
//!
//! Not intercepted: io_uring, `io_submit`, stores to mapped files, `sync`, `syncfs`, `msync`, `link` and `symlink`, and calls of 32-bit programs.
//! Their data is charged to the account when it becomes dirty, but nothing delays them.

mod agent;
mod call;
mod device;
mod filter;
mod handed;
mod keeper;
mod listener;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::thread;

use agent::Agent;
use handed::{Received, receive_fd, send_fd};

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
    pub device: (u32, u32),
}

/// Runs a program to its end; returns its exit code, or 128 and the number of the signal that ended it. The calling process must have one
/// thread only, as it forks the keeper.
///
/// # Errors
/// The program cannot be started, or the kernel has no seccomp notification (Linux 5.5).
pub fn run(command: &[OsString], joined: Joined) -> Result<u8, Error> {
    let Some((program, arguments)) = command.split_first() else {
        let source = io::ErrorKind::InvalidInput.into();
        return Err(Error::Program { program: OsString::new(), source });
    };
    let received = Arc::new(Received::new().map_err(system("sharing memory with the keeper"))?);
    let pair = || UnixStream::pair().map_err(system("making a socket"));
    let (keeper, for_keeper) = pair()?;
    keeper::fork(for_keeper, &received).map_err(system("forking the keeper"))?;
    let (from_child, for_agent) = pair()?;
    let ready = thread::Builder::new()
        .name("agent".into())
        .spawn(move || serve(from_child, keeper, received, joined))
        .map_err(system("starting the agent"))?;
    let mut filter = filter::program();
    let mut child = Command::new(program);
    child.args(arguments);
    let socket = for_agent.try_clone().map_err(system("making a socket"))?;
    // SAFETY: the closure only makes system calls; it does not allocate.
    unsafe { child.pre_exec(move || install(&mut filter, &socket)) };
    ignore_interrupts();
    let spawned = child.spawn();
    // The agent waits for the other end only as long as the child may still send its listener.
    drop((child, for_agent));
    let status = match spawned {
        Ok(mut child) => child.wait().map_err(system("waiting for the program"))?,
        Err(source) => return Err(ready_error(ready, program, source)),
    };
    Ok(code(status))
}

/// Why the program did not start: the agent's reason, if it has one.
fn ready_error(agent: thread::JoinHandle<Result<(), Error>>, program: &OsString, source: io::Error) -> Error {
    match agent.join() {
        Ok(Err(error)) => error,
        _ => Error::Program { program: program.clone(), source },
    }
}

/// The agent's thread.
fn serve(
    mut child: UnixStream,
    mut keeper: UnixStream,
    received: Arc<Received>,
    joined: Joined,
) -> Result<(), Error> {
    // The child has ended, and its error is known to its parent.
    let Some(listener) = receive_fd(&child).map_err(system("receiving the listener"))? else { return Ok(()) };
    send_fd(&keeper, listener.as_fd()).map_err(system("passing the listener to the keeper"))?;
    keeper.read_exact(&mut [0]).map_err(system("starting the keeper"))?;
    let mut agent =
        Agent::new(listener, received, joined.server, joined.device).map_err(system("starting the agent"))?;
    child.write_all(&[1]).map_err(system("starting the program"))?;
    agent.run();
    // Only now, as its end lets the keeper answer.
    drop(keeper);
    Ok(())
}

/// In the child, between fork and exec.
fn install(filter: &mut [libc::sock_filter], agent: &UnixStream) -> io::Result<()> {
    // SAFETY: these take numbers only.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        libc::signal(libc::SIGQUIT, libc::SIG_DFL);
        // If the agent ends before it and the keeper have the listener, no process can answer this process's calls.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
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

/// The terminal sends these to the program as well, which decides.
fn ignore_interrupts() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(signal) as u8
}
