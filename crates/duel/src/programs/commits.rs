//! Has a data base commit small transactions, one after the other, through the client that comes with it.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

use super::Round;

/// Which data base.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// SQLite with its defaults: a rollback journal, `synchronous=FULL`.
    Sqlite,
}

impl Engine {
    /// The program that must be installed.
    #[must_use]
    pub const fn client(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite3",
        }
    }
}

/// What is committed where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Commits {
    /// The data base's kind.
    pub engine: Engine,
    /// Its file.
    pub place: PathBuf,
}

/// A client that answers each transaction with a line.
struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(commits: &Commits) -> io::Result<Self> {
        let mut child = Command::new(commits.engine.client())
            .args(["-batch", "-bail"])
            .arg(&commits.place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self { child, input, output: BufReader::new(output) }),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Has it carry out statements; they are durable when this returns.
    fn carry_out(&mut self, statements: &str) -> io::Result<()> {
        writeln!(self.input, "{statements}\nSELECT 'done';")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim() == "done" { Ok(()) } else { Err(io::Error::other("the data base did not answer")) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Commits {
    pub(crate) fn run(&self, round: &mut Round) -> io::Result<()> {
        let mut client = Client::start(self)?;
        client.carry_out("CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, note TEXT);")?;
        let row = format!("INSERT INTO entries (note) VALUES ('{}');", "n".repeat(100));
        while round.goes_on() {
            round.timed(|| client.carry_out(&row))?;
            round.moved(row.len());
            round.count();
        }
        Ok(())
    }
}
