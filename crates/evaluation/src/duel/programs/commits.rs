//! Commits of small transactions to a database, one at a time, through the database's own client.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Recorder;

/// The database engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// SQLite with its defaults: a rollback journal, `synchronous=FULL`.
    Sqlite,
    /// PostgreSQL with its defaults: `fsync` and `synchronous_commit` on.
    Postgres,
}

/// The user for PostgreSQL, which refuses to run as root.
const USER: &str = "postgres";

/// How long a server may take to start.
const START: Duration = Duration::from_secs(60);

impl Engine {
    /// The programs that must be installed.
    pub const fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Sqlite => &["sqlite3"],
            Self::Postgres => &["postgres", "initdb", "psql", "setpriv"],
        }
    }
}

/// A program that commits to a database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Commits {
    pub engine: Engine,
    /// Its file or directory.
    pub place: PathBuf,
}

/// A command that runs as PostgreSQL's user and receives SIGQUIT at the end of its parent: PostgreSQL then ends at once, and
/// removes its shared memory.
fn as_user(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--pdeathsig", "QUIT", program]);
    command
}

/// Makes an empty PostgreSQL cluster.
pub(crate) fn make_cluster(directory: &Path) -> io::Result<()> {
    std::fs::create_dir(directory)?;
    let owned = Command::new("chown").arg(USER).arg(directory).status()?;
    let output = as_user("initdb").args(["--auth=trust", "--no-sync", "-D"]).arg(directory).output()?;
    if owned.success() && output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("initdb: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// A running database, with a client that prints a line for each transaction.
pub(crate) struct Connection {
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    // Ends after its client.
    _server: Option<Server>,
}

struct Server(Child);

impl Server {
    fn start(place: &Path) -> io::Result<Self> {
        let mut command = as_user("postgres");
        command.arg("-D").arg(place).arg("-k").arg(place).args(["-c", "listen_addresses="]);
        let server = Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let began = Instant::now();
        while !psql(place)
            .args(["-c", "SELECT 1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?
            .success()
        {
            if began.elapsed() > START {
                return Err(io::Error::other("PostgreSQL did not start"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An immediate shutdown without a checkpoint, because only commits are measured.
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
        let _ = self.0.wait();
    }
}

fn psql(place: &Path) -> Command {
    let mut command = Command::new("psql");
    command.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", "postgres", "-h"]).arg(place);
    command
}

impl Connection {
    fn start(commits: &Commits) -> io::Result<Self> {
        let (server, mut command) = match commits.engine {
            Engine::Sqlite => {
                let mut command = Command::new("sqlite3");
                command.args(["-batch", "-bail"]).arg(&commits.place);
                (None, command)
            }
            Engine::Postgres => (Some(Server::start(&commits.place)?), psql(&commits.place)),
        };
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        match (client.stdin.take(), client.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Self { client, input, output: BufReader::new(output), _server: server })
            }
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Executes statements; they are durable when this returns.
    fn carry_out(&mut self, statements: &str) -> io::Result<()> {
        writeln!(self.input, "{statements}\nSELECT 'done';")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim() == "done" { Ok(()) } else { Err(io::Error::other("the database did not respond")) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

impl Commits {
    /// Starts the database and creates a table.
    pub(crate) fn prepare(&self) -> io::Result<Connection> {
        let mut connection = Connection::start(self)?;
        connection.carry_out("CREATE TABLE IF NOT EXISTS entries (note TEXT);")?;
        Ok(connection)
    }

    pub(crate) fn run(connection: &mut Connection, recorder: &mut Recorder) -> io::Result<()> {
        let row = format!("INSERT INTO entries (note) VALUES ('{}');", "n".repeat(100));
        while recorder.may_continue() {
            recorder.timed(|| connection.carry_out(&row))?;
            recorder.moved(row.len());
            recorder.count();
        }
        Ok(())
    }
}
