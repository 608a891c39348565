//! `dwell exec`.

use std::collections::{BTreeMap, btree_map::Entry};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use admission::container::{self, Container};
use admission::{Again, Connection, Joined};
use clap::{ArgGroup, Args};
use server::control::protocol::AccountTerms;
use server::control::{Client, bind_private};
use server::split::NOT_ATTACHED;

use super::ctl::no_server;
use crate::error::Error;
use crate::input::quantity::{size, some_time};

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
    #[arg(long, value_name = "TIME")]
    pub(crate) fsync_deadline: Option<String>,
    /// The account's limit under split-token, as bytes of sequential I/O per second: 5M is 5 * 10^6
    #[arg(long, value_name = "SIZE")]
    pub(crate) rate: Option<String>,
    /// Join a process that runs already, and the children that it makes from now on; repeatable. Ends with the last of them; if it is ended
    /// before, they continue without limits
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) join: Vec<u32>,
    /// Join every process of this cgroup and of those below it, now and as they enter, until the cgroup is empty: a directory with a file
    /// cgroup.procs
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) join_cgroup: Option<PathBuf>,
    /// Wait for containers: the 'listenerPath' of their seccomp profile. Each becomes an account until it ends. Their annotations dwell.account,
    /// dwell.weight, dwell.fsync-deadline and dwell.rate precede the options. Runs until Ctrl-C; the containers then continue without limits
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

/// Limit of the time for which a server may attach its device.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a server that ended is looked for.
const RETURN: Duration = Duration::from_millis(100);

/// How often a cgroup is searched for new processes.
const LOOK: Duration = Duration::from_millis(200);

/// An account to join.
#[derive(Clone, Debug)]
struct Account {
    controls: Vec<PathBuf>,
    name: String,
    terms: AccountTerms,
    /// Whose calls an agent intercepts, if the command has several.
    of: Option<String>,
}

impl Account {
    /// Joins the account on each device.
    fn join(&self) -> Result<Vec<Joined>, Error> {
        let mut all: Vec<Joined> = Vec::new();
        for (place, control) in self.controls.iter().enumerate() {
            let joined = self.join_at(control)?;
            if let Some(before) = all.iter().position(|other| other.device == joined.device) {
                let (control, before) = (control.display(), self.controls[before].display());
                return Err(Error::Usage(format!(
                    "--control {control} (number {}): the same device as {before}; name each device once",
                    place + 1
                )));
            }
            all.push(joined);
        }
        Ok(all)
    }

    fn join_at(&self, control: &Path) -> Result<Joined, Error> {
        let failed = |error: io::Error| no_server(control, &error);
        let begun = Instant::now();
        loop {
            let joined = Client::connect(control).and_then(|client| client.join(&self.name, self.terms));
            match joined {
                // The server was just started or restarted and has not attached its device yet.
                Err(error)
                    if error.to_string().contains(NOT_ATTACHED) && begun.elapsed() < ATTACH_TIMEOUT =>
                {
                    std::thread::sleep(Duration::from_millis(50));
                }
                joined => {
                    let (server, device) = joined.map_err(failed)?;
                    return Ok(Joined { server, device, again: Some(self.again(control)) });
                }
            }
        }
    }

    /// What joins the account again when the server has ended.
    fn again(&self, control: &Path) -> Again {
        let (account, control) = (self.clone(), control.to_owned());
        Arc::new(move |terms| account.join_again(&control, terms.unwrap_or(account.terms)))
    }

    /// Waits for the next server and joins the account there, with these terms. Prints a line when the limits end and when they hold again.
    fn join_again(&self, control: &Path, terms: AccountTerms) -> Connection {
        // Standard error may be a full pipe, or a file on the device that has no server.
        let (lines, printed) = channel::<String>();
        let _ = std::thread::Builder::new()
            .name("print".into())
            .spawn(move || printed.iter().for_each(|line| say!("{line}")));
        let of = self.of.as_ref().map(|of| format!(" ({of})")).unwrap_or_default();
        let what = format!("{}: account '{}'{of}", control.display(), self.name);
        let _ = lines.send(format!(
            "{what} has no limits on this device: its server has ended; waiting for the next one"
        ));
        let mut reported = false;
        loop {
            match Client::connect(control).and_then(|client| client.join(&self.name, terms)) {
                Ok(connection) => {
                    let _ = lines.send(format!("{what} has its limits again: a server is back"));
                    return connection;
                }
                Err(error) if !is_away(&error) && !reported => {
                    reported = true;
                    let _ = lines.send(format!("{what}: not joined yet: {}", no_server(control, &error)));
                }
                Err(_) => {}
            }
            std::thread::sleep(RETURN);
        }
    }

    /// The account of a container. Its annotations precede the options.
    fn of_container(&self, id: &str, annotations: &BTreeMap<String, String>) -> Result<Self, Error> {
        let noted = |name: &str| annotations.get(&format!("dwell.{name}")).map(String::as_str);
        let weight = noted("weight").map(|text| match text.parse() {
            Ok(weight @ 1..=8) => Ok(weight),
            _ => Err(Error::Usage(format!("annotation dwell.weight={text}: the weight is 1 to 8"))),
        });
        let own = terms(weight.transpose()?, noted("fsync-deadline"), noted("rate"))?;
        let name = noted("account").map_or_else(|| self.name.clone(), str::to_owned);
        Ok(Self {
            controls: self.controls.clone(),
            name: if name.is_empty() { id.to_owned() } else { name },
            terms: own.or(self.terms),
            of: Some(format!("container {id}")),
        })
    }

    /// The account as one of several processes joins it.
    fn of_process(&self, process: u32) -> Self {
        Self { of: Some(format!("process {process}")), ..self.clone() }
    }
}

/// Whether an error means that a server has ended, or has not attached its device yet.
fn is_away(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
    let kinds = [NotFound, ConnectionRefused, ConnectionReset, BrokenPipe, UnexpectedEof];
    kinds.contains(&error.kind()) || error.to_string().contains(NOT_ATTACHED)
}

/// Terms by the names of the options, as a command line or a container's annotations have them.
fn terms(
    weight: Option<u8>,
    fsync_deadline: Option<&str>,
    rate: Option<&str>,
) -> Result<AccountTerms, Error> {
    let rate = rate.map(|text| size(text).map_err(|error| Error::Usage(format!("--rate: {error}"))));
    let rate = rate.transpose()?;
    if rate == Some(0) {
        return Err(Error::Usage("--rate: must be greater than 0".to_owned()));
    }
    let deadline = fsync_deadline.map(|text| some_time("--fsync-deadline", text)).transpose()?;
    Ok(AccountTerms { weight, rate, fsync_deadline_ns: deadline.map(|deadline| deadline.as_nanos() as u64) })
}

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
        | admission::Error::Intercepted { .. } => Error::Failed(error.to_string()),
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
                    let own = account.of_container(&id, &annotations).and_then(|own| own.join());
                    own.or_else(|problem| {
                        // An annotation must not be a way out of the listener's limits.
                        say!("container {id}: {problem}; its annotations are ignored");
                        account.of_container(&id, &BTreeMap::new())?.join()
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
        listener: OwnedFd,
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
    let agent = |&process: &u32| Agent::of_process(process, account, false);
    let agents: Vec<Agent> = processes.iter().map(agent).collect::<Result<_, _>>()?;
    match agents.iter().filter(|agent| agent.ended(true) == Some(false)).count() {
        0 => Ok(()),
        failed => Err(Error::Failed(format!("{failed} of {} processes not joined", agents.len()))),
    }
}

/// The processes of a cgroup and of those below it.
fn members(cgroup: &Path) -> Result<Vec<u32>, Error> {
    let file = cgroup.join("cgroup.procs");
    let text = fs::read_to_string(&file).map_err(|error| Error::file(file.display(), &error))?;
    let mut all: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A group below may have been removed meanwhile.
            all.extend(members(&entry.path()).unwrap_or_default());
        }
    }
    Ok(all)
}

fn join_cgroup(cgroup: &Path, account: &Account) -> Result<(), Error> {
    // This process and its agents may be in the cgroup as well.
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    let is_own =
        |process: u32| program(&process.to_string()).is_none_or(|path| Some(path) == program("self"));
    let mut agents: BTreeMap<u32, Agent> = BTreeMap::new();
    loop {
        let now = members(cgroup)?;
        for &process in now.iter().filter(|&&process| !is_own(process)) {
            if let Entry::Vacant(agent) = agents.entry(process) {
                // A child of a joined process has its filter.
                agent.insert(Agent::of_process(process, account, true)?);
            }
        }
        agents.retain(|process, agent| agent.ended(false).is_none() || now.contains(process));
        if now.is_empty() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits for containers.
fn listen(socket: &Path, account: &Account) -> Result<(), Error> {
    let failed = |error: io::Error| Error::file(socket.display(), &error);
    let (listener, _file) = bind_private(socket).map_err(failed)?;
    say!("waiting for containers at {}", socket.display());
    let mut agents: Vec<Agent> = Vec::new();
    for runtime in listener.incoming() {
        agents.push(Agent::of_container(&runtime.map_err(failed)?, account)?);
        agents.retain(|agent| agent.ended(false).is_none());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(annotations: &[(&str, &str)]) -> Result<Account, Error> {
        let options = AccountTerms { rate: Some(5_000_000), ..AccountTerms::default() };
        let account = Account { controls: Vec::new(), name: String::new(), terms: options, of: None };
        let annotations = annotations.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        account.of_container("4f2a", &annotations.collect())
    }

    #[test]
    fn a_containers_annotations_precede_the_options() {
        let plain = account(&[]).unwrap();
        assert_eq!((plain.name.as_str(), plain.terms.rate), ("4f2a", Some(5_000_000)));
        let noted = [("dwell.account", "db"), ("dwell.rate", "1M"), ("dwell.weight", "8"), ("other", "x")];
        let noted = account(&noted).unwrap();
        assert_eq!((noted.name.as_str(), noted.terms.rate), ("db", Some(1_000_000)));
        assert_eq!((noted.terms.weight, noted.terms.fsync_deadline_ns), (Some(8), None));
        for wrong in [("dwell.weight", "9"), ("dwell.rate", "0"), ("dwell.fsync-deadline", "soon")] {
            assert!(account(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
