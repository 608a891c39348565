//! `dwell exec`.

mod account;

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use admission::container::{self, Container};
use admission::{Joined, Listener, Signals};
use clap::{ArgGroup, Args};
use server::control::bind_private;

use crate::error::Error;
use crate::input::account_terms::terms;
use account::Account;

/// Options of `dwell exec`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("programs").args(["command", "join", "join_cgroup", "listen", "seccomp_profile"]).required(true), after_help = "Examples:
  dwell exec --control /run/dwell/disk.ctl --account backup --rate 5M -- rsync -a /home /mnt/backup
  dwell exec --control /run/dwell/disk.ctl --account web --weight 2 -- podman run -v /mnt/data:/data nginx
  dwell exec --control /run/dwell/disk.ctl --account db --fsync-deadline 100ms --join 4711
  dwell exec --control /run/dwell/disk.ctl --rate 5M --listen /run/dwell/seccomp.sock")]
pub(crate) struct ExecArguments {
    /// The control socket of 'dwell serve --causes --control'; repeatable, for programs that use several served devices
    #[arg(long, value_name = "SOCKET", required_unless_present = "seccomp_profile")]
    pub(crate) control: Vec<PathBuf>,
    /// The account; programs with the same name share one account. Of containers (--listen) the default is the container's identifier
    #[arg(long, value_name = "NAME", required_unless_present_any = ["listen", "seccomp_profile"])]
    pub(crate) account: Option<String>,
    /// The account's weight under afq, 1 to 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) weight: Option<u8>,
    /// The target latency of the account's fsync calls under split-deadline
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) fsync_deadline: Option<String>,
    /// The account's limit under split-token, as bytes of sequential I/O per second: 5M is 5 * 10^6
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// Join a process that runs already, and the children that it makes from now on; repeatable. 'dwell exec' ends with the last of these
    /// processes; if it ends earlier, they continue without limits until they are joined again
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) join: Vec<u32>,
    /// Join every process of this cgroup and of those below it, now and as they enter: a directory with a file cgroup.procs. 'dwell exec' ends
    /// when the cgroup is empty and the last joined process has ended; one that leaves the cgroup stays limited. Processes keep the filter
    /// until they end. Rejects a cgroup with this command, such as the root
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) join_cgroup: Option<PathBuf>,
    /// Wait for containers: the 'listenerPath' of their seccomp profile. Each becomes an account until it ends. Their annotations dwell.account,
    /// dwell.weight, dwell.fsync-deadline and dwell.rate precede the options. Runs until Ctrl-C; running containers then continue without limits,
    /// and others with the profile do not start
    #[arg(long, value_name = "SOCKET")]
    pub(crate) listen: Option<PathBuf>,
    /// Print a seccomp profile for containers that sends the calls to a listener at this path (see --listen) and allows all others
    #[arg(long, value_name = "SOCKET")]
    pub(crate) seccomp_profile: Option<PathBuf>,
    /// Leave 'write' out of the profile, which runc rejects: plain writes of its containers are charged and not delayed
    #[arg(long)]
    pub(crate) runc: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How often a cgroup is searched for new processes.
const LOOK: Duration = Duration::from_millis(200);

/// An agent that runs for so long after its cgroup became empty has a program elsewhere: it ends soon after its last program.
const LEFT: Duration = Duration::from_secs(1);

/// Runs the program and returns its exit code, or joins other programs. Called before this process has a second thread.
pub(crate) fn run(arguments: &ExecArguments) -> Result<ExitCode, Error> {
    if arguments.runc && arguments.seccomp_profile.is_none() {
        return Err(Error::Usage("--runc changes what --seccomp-profile prints; add that option".to_owned()));
    }
    if let Some(listener) = &arguments.seccomp_profile {
        let path = std::path::absolute(listener).map_err(|error| Error::file(listener.display(), &error))?;
        writeln!(io::stdout(), "{:#}", container::profile(&path.to_string_lossy(), arguments.runc))?;
        return Ok(ExitCode::SUCCESS);
    }
    let terms = terms(arguments.weight, arguments.fsync_deadline.as_deref(), arguments.rate.as_deref())?;
    let account = Account {
        controls: arguments.control.clone(),
        name: arguments.account.clone().unwrap_or_default(),
        terms,
        of: None,
    };
    account.note_effects();
    if let Some(socket) = &arguments.listen {
        return listen(socket, &account).map(|()| ExitCode::SUCCESS);
    }
    if let Some(cgroup) = &arguments.join_cgroup {
        return join_cgroup(cgroup, &account).map(|()| ExitCode::SUCCESS);
    }
    if !arguments.join.is_empty() {
        return join(&arguments.join, &account).map(|()| ExitCode::SUCCESS);
    }
    let code = admission::run(&arguments.command, account.join()?);
    code.map(ExitCode::from).map_err(error)
}

fn error(error: admission::Error) -> Error {
    match error {
        admission::Error::Program { .. } => Error::Usage(error.to_string()),
        admission::Error::Process { .. }
        | admission::Error::NoProcess { .. }
        | admission::Error::Nested { .. }
        | admission::Error::Intercepted { .. }
        | admission::Error::Within { .. } => Error::Failed(error.to_string()),
        admission::Error::System { .. } => Error::Kernel(error.to_string()),
    }
}

/// A child process that is the agent of another one.
struct Agent(u32);

impl Agent {
    /// Intercepts the calls of a process that runs. Of one whose calls are intercepted already nothing is reported if `is_expected`.
    fn of_process(process: u32, account: &Account, is_expected: bool) -> Result<Self, Error> {
        Self::new(|| {
            // First, as an error must leave the process as it is.
            let joined = account.of_process(process).join()?;
            match admission::join(process) {
                Err(admission::Error::Intercepted { .. }) if is_expected => Ok(()),
                listener => {
                    Self::attend(listener.map_err(error)?, || Ok(joined), &format!("process {process}"))
                }
            }
        })
    }

    /// Receives a container from its runtime.
    fn of_container(runtime: &UnixStream, account: &Account) -> Result<Self, Error> {
        Self::new(|| {
            let received = container::receive(runtime);
            let Container { listener, id, annotations } = received
                .map_err(|error| Error::Failed(format!("a container's seccomp listener: {error}")))?;
            Self::attend(
                listener,
                || {
                    let own = account.of_container(&id, &annotations).and_then(|own| {
                        if own.terms != account.terms {
                            own.note_effects();
                        }
                        own.join_in_time()
                    });
                    own.or_else(|problem| {
                        // An annotation must not be a way out of the listener's limits.
                        say!("container {id}: {problem}; its annotations are ignored");
                        account.of_container(&id, &BTreeMap::new())?.join_in_time()
                    })
                },
                &format!("container {id}"),
            )
        })
    }

    fn new(work: impl FnOnce() -> Result<(), Error>) -> Result<Self, Error> {
        let agent = admission::in_child(|| match work() {
            Ok(()) => 0,
            Err(error) => {
                say!("{error}");
                1
            }
        });
        agent.map(Self).map_err(error)
    }

    /// Answers calls until the last process has ended. An error is reported at once, and all calls continue.
    fn attend(
        listener: impl Into<Listener>,
        join: impl FnOnce() -> Result<Vec<Joined>, Error>,
        of: &str,
    ) -> Result<(), Error> {
        admission::attend(listener, join, |error| say!("{of} is not limited: {error}"));
        Ok(())
    }

    /// Whether it ended well; `None` while it runs.
    fn ended(&self, wait: bool) -> Option<bool> {
        admission::child_ended(self.0, wait)
    }
}

impl From<admission::Error> for Error {
    fn from(source: admission::Error) -> Self {
        error(source)
    }
}

fn join(processes: &[u32], account: &Account) -> Result<(), Error> {
    let agent = |process: u32| Agent::of_process(process, account, false);
    let processes: BTreeSet<u32> = processes.iter().copied().collect();
    let agents: Vec<Agent> = processes.into_iter().map(agent).collect::<Result<_, _>>()?;
    match agents.iter().filter(|agent| agent.ended(true) == Some(false)).count() {
        0 => Ok(()),
        failed => Err(Error::Failed(format!("{failed} of {} processes not joined", agents.len()))),
    }
}

/// The processes of a cgroup and of those below it.
fn members(cgroup: &Path) -> Result<Vec<u32>, Error> {
    let file = cgroup.join("cgroup.procs");
    let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if cgroup.is_dir() => Error::Usage(format!(
            "{}: no cgroup, as it has no file cgroup.procs; cgroups are directories below /sys/fs/cgroup",
            cgroup.display()
        )),
        io::ErrorKind::NotFound => Error::Usage(format!("{}: there is no such cgroup", cgroup.display())),
        _ => Error::file(file.display(), &error),
    })?;
    let mut all: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A group below may have been removed meanwhile.
            all.extend(members(&entry.path()).unwrap_or_default());
        }
    }
    Ok(all)
}

/// Rejects a cgroup with this process, such as the root: all programs of the machine would get a filter that nothing removes.
fn reject_own(cgroup: &Path, members: &[u32]) -> Result<(), Error> {
    if !members.contains(&std::process::id()) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{}: this 'dwell exec' is in that cgroup or in one below it, so its own shell would be joined, too; choose the cgroup of the programs alone",
        cgroup.display()
    )))
}

fn join_cgroup(cgroup: &Path, account: &Account) -> Result<(), Error> {
    reject_own(cgroup, &members(cgroup)?)?;
    // Agents may be in the cgroup as well.
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    let is_own =
        |process: u32| program(&process.to_string()).is_none_or(|path| Some(path) == program("self"));
    let mut agents: BTreeMap<u32, Agent> = BTreeMap::new();
    // Since when the cgroup is empty.
    let mut empty: Option<Instant> = None;
    let mut is_reported = false;
    loop {
        let now = match members(cgroup) {
            // Its programs left it, and it was removed.
            Err(_) if !cgroup.exists() => Vec::new(),
            now => now?,
        };
        for &process in now.iter().filter(|&&process| !is_own(process)) {
            if let Entry::Vacant(agent) = agents.entry(process) {
                // A child of a joined process has its filter.
                agent.insert(Agent::of_process(process, account, true)?);
            }
        }
        agents.retain(|process, agent| agent.ended(false).is_none() || now.contains(process));
        if !now.is_empty() {
            (empty, is_reported) = (None, false);
        } else if agents.is_empty() {
            return Ok(());
        } else if empty.get_or_insert_with(Instant::now).elapsed() >= LEFT && !is_reported {
            is_reported = true;
            say!(
                "{}: empty; programs that left it, or that its programs started elsewhere, are limited until they end, or until Ctrl-C",
                cgroup.display()
            );
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits for containers.
fn listen(socket: &Path, account: &Account) -> Result<(), Error> {
    let failed = |error: io::Error| Error::file(socket.display(), &error);
    // The socket is removed at the end, also by a signal.
    let signals = Signals::new().map_err(failed)?;
    let (listener, _file) = bind_private(socket).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    say!("waiting for containers at {}", socket.display());
    account.note_absent_servers();
    let mut agents: Vec<Agent> = Vec::new();
    while signals.wait(&listener).map_err(failed)? {
        match listener.accept() {
            Ok((runtime, _)) => agents.push(Agent::of_container(&runtime, account)?),
            // The runtime has ended meanwhile.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {}
            Err(error) => return Err(failed(error)),
        }
        agents.retain(|agent| agent.ended(false).is_none());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_with_this_process_is_rejected() {
        let own = std::process::id();
        assert!(reject_own(Path::new("/c"), &[1, own]).is_err());
        assert!(reject_own(Path::new("/c"), &[1, own + 1]).is_ok());
    }
}
