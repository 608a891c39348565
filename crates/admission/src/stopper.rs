//! The stopper: a process that stops threads, as no system call delays their stores to mapped files, or their requests.
//!
//! The stopper traces them (`ptrace`), so the kernel resumes all of them when the stopper ends, whatever the cause. The stopper ends with its agent. The
//! thread's parent does not see such a stop; a thread that another program traces cannot be stopped. The stopper is a process, because all threads of a
//! tracer would receive the stops of its children.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use control::process::detach;

/// How often the stopper looks for stops, in ms.
const LOOK: libc::c_int = 5;

/// Bytes of an order: the thread's number, and 1 to stop it.
const ORDER: usize = 5;

/// The place of the server that has a thread stopped, and the process if the server has the whole process stopped.
type Reason = (usize, Option<u32>);

/// The agent's end, and why each thread is stopped.
pub(crate) struct Stopper {
    process: UnixStream,
    stopped: HashMap<u32, HashSet<Reason>>,
}

impl Stopper {
    /// Forks the process. This one must have one thread.
    pub(crate) fn fork() -> io::Result<Self> {
        let (process, agent) = UnixStream::pair()?;
        // SAFETY: this process has one thread, as documented at `run`, so the child may do anything.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                detach(c"dwell-stopper", Some(agent.as_fd()));
                obey(&agent);
                // SAFETY: ends the process without the parent's exit handlers.
                unsafe { libc::_exit(0) }
            }
            _ => Ok(Self { process, stopped: HashMap::new() }),
        }
    }

    fn order(&self, thread: u32, stop: bool) {
        let mut order = [u8::from(stop); ORDER];
        order[..4].copy_from_slice(&thread.to_le_bytes());
        // Without its process nothing is stopped.
        let _ = (&self.process).write_all(&order);
    }

    /// A server orders a thread to be stopped.
    pub(crate) fn stop(&mut self, place: usize, thread: u32) {
        self.stop_for((place, None), thread);
    }

    /// A server orders all threads of a process to be stopped.
    pub(crate) fn stop_all(&mut self, place: usize, process: u32) {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/task")) else { return };
        let threads = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        threads.for_each(|thread| self.stop_for((place, Some(process)), thread));
    }

    /// A server orders a thread to continue.
    pub(crate) fn resume(&mut self, place: usize, thread: u32) {
        self.resume_for((place, None), thread);
    }

    /// A server orders a process to continue.
    pub(crate) fn resume_all(&mut self, place: usize, process: u32) {
        self.end(|&reason| reason == (place, Some(process)));
    }

    /// Whether threads are stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        !self.stopped.is_empty()
    }

    /// Lets stopped threads continue, of which `may` is true; looks at so many of them at most.
    pub(crate) fn release(&mut self, may: impl Fn(u32) -> bool, most: usize) {
        let released: Vec<_> =
            self.stopped.keys().copied().take(most).filter(|&thread| may(thread)).collect();
        for thread in released {
            self.stopped.remove(&thread);
            self.order(thread, false);
        }
    }

    /// A server has ended.
    pub(crate) fn forget(&mut self, place: usize) {
        self.end(|&(of, _)| of == place);
    }

    fn stop_for(&mut self, reason: Reason, thread: u32) {
        let reasons = self.stopped.entry(thread).or_default();
        if reasons.insert(reason) && reasons.len() == 1 {
            self.order(thread, true);
        }
    }

    fn resume_for(&mut self, reason: Reason, thread: u32) {
        if let Some(reasons) = self.stopped.get_mut(&thread)
            && reasons.remove(&reason)
            && reasons.is_empty()
        {
            self.stopped.remove(&thread);
            self.order(thread, false);
        }
    }

    /// These reasons do not hold any longer.
    fn end(&mut self, is_it: impl Fn(&Reason) -> bool) {
        let all =
            self.stopped.iter().flat_map(|(&thread, reasons)| reasons.iter().map(move |&of| (of, thread)));
        let ended: Vec<_> = all.filter(|(reason, _)| is_it(reason)).collect();
        ended.into_iter().for_each(|(reason, thread)| self.resume_for(reason, thread));
    }
}

/// A traced thread.
#[derive(Default)]
struct Traced {
    may_continue: bool,
    /// It has stopped; with the signal that it was about to receive, or 0.
    signal: Option<libc::c_int>,
}

/// Carries out orders until the agent ends.
fn obey(agent: &UnixStream) {
    let (mut traced, mut orders) = (HashMap::<libc::pid_t, Traced>::new(), Vec::new());
    loop {
        let mut entry = libc::pollfd { fd: agent.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the entry lives during the call.
        unsafe { libc::poll(&raw mut entry, 1, if traced.is_empty() { -1 } else { LOOK }) };
        if entry.revents != 0 {
            let mut received = [0; 64 * ORDER];
            match rustix::io::read(agent, &mut received) {
                Ok(0) => return,
                Ok(length) => orders.extend(&received[..length]),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
        let (whole, _) = orders.as_chunks::<ORDER>();
        let length = whole.len() * ORDER;
        for &[a, b, c, d, stop] in whole {
            let thread = u32::from_le_bytes([a, b, c, d]) as libc::pid_t;
            if stop == 1 {
                begin(&mut traced, thread);
            } else if let Some(traced) = traced.get_mut(&thread) {
                traced.may_continue = true;
            }
        }
        orders.drain(..length);
        look(&mut traced);
        traced.retain(|&thread, traced| !(traced.may_continue && end(thread, traced)));
    }
}

fn trace(request: libc::c_uint, thread: libc::pid_t, data: libc::c_int) -> bool {
    // SAFETY: these requests take numbers only.
    unsafe { libc::ptrace(request, thread, 0, libc::c_long::from(data)) == 0 }
}

fn begin(traced: &mut HashMap<libc::pid_t, Traced>, thread: libc::pid_t) {
    let entry = traced.entry(thread).or_default();
    entry.may_continue = false;
    // It has been resumed and has not stopped yet, or is stopped still.
    let interrupts = || trace(libc::PTRACE_INTERRUPT, thread, 0);
    let stops =
        entry.signal.is_some() || interrupts() || (trace(libc::PTRACE_SEIZE, thread, 0) && interrupts());
    if !stops {
        traced.remove(&thread);
    }
}

/// Notes which threads have stopped or ended.
fn look(traced: &mut HashMap<libc::pid_t, Traced>) {
    loop {
        let mut status = 0;
        // SAFETY: writes a number.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
        if thread <= 0 {
            return;
        }
        if !libc::WIFSTOPPED(status) {
            traced.remove(&thread);
        } else if let Some(traced) = traced.get_mut(&thread) {
            let is_ours = status >> 16 == libc::PTRACE_EVENT_STOP;
            traced.signal = Some(if is_ours { 0 } else { libc::WSTOPSIG(status) });
        }
    }
}

/// Resumes a thread; `false` if the thread has not stopped yet.
fn end(thread: libc::pid_t, traced: &Traced) -> bool {
    let Some(signal) = traced.signal else { return false };
    trace(libc::PTRACE_DETACH, thread, signal);
    true
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    /// Its state, as in `/proc/PID/stat`; `t`: traced and stopped.
    fn is_in(child: &Child, states: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| states.contains(&rest[..1]))
    }

    fn eventually(mut is_so: impl FnMut() -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thread_is_stopped_until_no_server_wants_it_or_the_agent_ends() {
        let (own, agent) = UnixStream::pair().unwrap();
        // A thread, as a test must not fork.
        let works = std::thread::spawn(move || obey(&agent));
        let mut stopper = Stopper { process: own, stopped: HashMap::new() };
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let thread = child.id();
        stopper.stop(0, thread);
        eventually(|| is_in(&child, "t"));
        stopper.stop(1, thread);
        stopper.resume(0, thread);
        std::thread::sleep(Duration::from_millis(30));
        assert!(is_in(&child, "t"), "the other server has not resumed it");
        stopper.forget(1);
        eventually(|| is_in(&child, "RS"));
        stopper.stop_all(0, thread);
        stopper.stop(0, thread);
        eventually(|| is_in(&child, "t"));
        stopper.resume(0, thread);
        std::thread::sleep(Duration::from_millis(30));
        assert!(is_in(&child, "t"), "the whole process is stopped");
        stopper.resume_all(0, thread);
        eventually(|| is_in(&child, "RS"));
        stopper.stop(0, thread);
        eventually(|| is_in(&child, "t"));
        stopper.release(|_| false, 9);
        stopper.release(|_| true, 9);
        eventually(|| is_in(&child, "RS"));
        assert!(!stopper.has_stopped());
        stopper.stop(0, thread);
        eventually(|| is_in(&child, "t"));
        drop(stopper);
        works.join().unwrap();
        eventually(|| is_in(&child, "RS"));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
