//! The supervisor's thread that starts servers, sends messages to them, and prints.
//!
//! For each of these the kernel allocates memory (a task, a socket's buffer, a page of a log file). In a limited memory cgroup the thread may then
//! wait for writeback to a device without a server. The supervisor's main thread makes no such call, so it can always give the device up,
//! which ends the wait.
//!
//! A server is the child of this thread, which ends with the process: `PR_SET_PDEATHSIG` depends on that.

use std::env;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{FdFlags, fcntl_setfd};

use super::inputs;
use crate::descriptor_store::{SUPERVISOR, environment, give};
use crate::resident;

/// A descriptor that outlives servers.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) name: String,
    pub(super) descriptor: Arc<OwnedFd>,
}

/// A server that waits for its turn, or serves.
pub(super) struct Server {
    pub(super) child: Child,
    /// Receives the server's messages, and sends to it.
    pub(super) socket: Arc<UnixDatagram>,
    /// The server has reserved its memory; it waits for the descriptor, or has received it.
    pub(super) is_ready: bool,
}

enum Job {
    Start,
    /// Sends these descriptors to a server, which then serves.
    Give(Arc<UnixDatagram>, Vec<Kept>),
    Print(String),
}

/// Handle of the thread.
pub(super) struct Starter {
    jobs: Sender<Job>,
    started: Receiver<io::Result<Server>>,
    /// Rung for each server. A write to an eventfd allocates nothing.
    bell: Arc<OwnedFd>,
}

impl Starter {
    /// Call this after the signals are blocked: servers inherit the signal mask.
    pub(super) fn new() -> io::Result<Self> {
        let ((jobs, waiting), (done, started)) = (channel(), channel());
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let inputs = inputs::for_servers()?;
        let rung = bell.clone();
        let work = move || {
            resident::populate_stack();
            for job in waiting {
                match job {
                    Job::Start => {
                        let _ = done.send(start(&inputs));
                        let _ = rustix::io::write(&rung, &1u64.to_ne_bytes());
                    }
                    Job::Give(socket, kept) => {
                        let descriptors =
                            kept.iter().map(|kept| (kept.name.as_str(), kept.descriptor.as_fd()));
                        if let Err(error) = give(&socket, descriptors) {
                            say!("cannot send to a server: {error}");
                        }
                    }
                    Job::Print(text) => say!("{text}"),
                }
            }
        };
        thread::Builder::new().name("starter".into()).spawn(work)?;
        Ok(Self { jobs, started, bell })
    }

    pub(super) fn start(&self) {
        let _ = self.jobs.send(Job::Start);
    }

    pub(super) fn give(&self, server: &Server, kept: Vec<Kept>) {
        let _ = self.jobs.send(Job::Give(server.socket.clone(), kept));
    }

    pub(super) fn print(&self, text: String) {
        let _ = self.jobs.send(Job::Print(text));
    }

    /// A server that has been started, or why it was not.
    pub(super) fn started(&self) -> Option<io::Result<Server>> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.started.try_recv().ok()
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Starts this program again with the same arguments. Without a function to run between fork and exec, the standard library uses
/// posix_spawn(3), which shares this process's memory with the child instead of copying its page tables.
fn start(inputs: &OwnedFd) -> io::Result<Server> {
    let (ours, theirs) = UnixDatagram::pair()?;
    ours.set_nonblocking(true)?;
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let mut command = Command::new("/proc/self/exe");
    let mut arguments = env::args_os();
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // Ctrl-C reaches the supervisor only, which passes it on once.
    command.args(arguments).env(SUPERVISOR, environment(&theirs, inputs)).process_group(0);
    Ok(Server { child: command.spawn()?, socket: Arc::new(ours), is_ready: false })
}
