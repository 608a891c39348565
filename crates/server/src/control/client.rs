//! The client's end of the control socket, for `dwell ctl` and `dwell top`.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::protocol::{Reply, Request, State, SwitchState};

/// How long a server may take: it answers between two rounds of its work.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a server.
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the control socket at `path`.
    ///
    /// # Errors
    /// Nobody listens there, or not to us.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends any request and waits for its reply.
    ///
    /// # Errors
    /// The connection broke, or the server answered something else than a reply.
    pub fn request(&mut self, request: &Request) -> io::Result<Reply> {
        let mut text = serde_json::to_vec(request)?;
        text.push(b'\n');
        self.stream.get_mut().write_all(&text)?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// The device now.
    ///
    /// # Errors
    /// The connection broke.
    pub fn show(&mut self) -> io::Result<State> {
        match self.request(&Request::Show)? {
            Reply::State(state) => Ok(*state),
            other => Err(unexpected(other)),
        }
    }

    /// The device now, as Prometheus text.
    ///
    /// # Errors
    /// The connection broke.
    pub fn metrics(&mut self) -> io::Result<String> {
        match self.request(&Request::Metrics)? {
            Reply::Metrics(text) => Ok(text),
            other => Err(unexpected(other)),
        }
    }

    /// Another scheduler takes over; `drain` empties the queue first, as Linux does.
    ///
    /// # Errors
    /// There is no such scheduler, or the connection broke.
    pub fn switch(&mut self, scheduler: &str, drain: bool) -> io::Result<SwitchState> {
        match self.request(&Request::Switch { scheduler: scheduler.to_string(), drain })? {
            Reply::Switched(state) => Ok(state),
            other => Err(unexpected(other)),
        }
    }

    /// Sets a tunable of the scheduler.
    ///
    /// # Errors
    /// There is no such tunable, its value is of another kind or out of range, or the connection broke.
    pub fn tune(&mut self, tunable: &str, value: &str) -> io::Result<()> {
        self.done(&Request::Tune { tunable: tunable.to_string(), value: value.to_string() })
    }

    /// Writes a decision log to `file`, which must not exist, for so long.
    ///
    /// # Errors
    /// The file cannot be created, a log is on already, or the connection broke.
    pub fn log(&mut self, file: PathBuf, during: Duration) -> io::Result<()> {
        self.done(&Request::Log { file, milliseconds: during.as_millis() as u64 })
    }

    /// Ends the server, as SIGTERM does.
    ///
    /// # Errors
    /// The connection broke.
    pub fn stop(&mut self) -> io::Result<()> {
        self.done(&Request::Stop)
    }

    fn done(&mut self, request: &Request) -> io::Result<()> {
        match self.request(request)? {
            Reply::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }
}

fn unexpected(reply: Reply) -> io::Error {
    match reply {
        Reply::Error(problem) => io::Error::other(problem),
        other => io::Error::new(io::ErrorKind::InvalidData, format!("unexpected reply {other:?}")),
    }
}
