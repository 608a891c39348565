//! The client's end of the control socket, for `dwell ctl` and `dwell top`.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};

use super::protocol::{Reply, Request, State, SwitchState};

/// How long a server may take: it answers between two rounds of its work.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a server. One that broke is made anew for the next request: an answer that came too late to be waited for
/// would be taken for the next one's. So is one that the server gave up for others while nothing was asked.
pub struct Client {
    path: PathBuf,
    patience: Duration,
    stream: Option<BufReader<UnixStream>>,
}

impl Client {
    /// Connects to the control socket at `path`.
    ///
    /// # Errors
    /// Nobody listens there, or not to us.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Self::patient(path, PATIENCE)
    }

    fn patient(path: &Path, patience: Duration) -> io::Result<Self> {
        let stream = Some(connect(path, patience)?);
        Ok(Self { path: path.to_path_buf(), patience, stream })
    }

    /// Sends any request and waits for its reply.
    ///
    /// # Errors
    /// The connection broke, or cannot be made anew; the server did not answer for half a minute, and may still do what it was
    /// asked; or it answered something else than a reply.
    pub fn request(&mut self, request: &Request) -> io::Result<Reply> {
        let mut stream = match self.stream.take().filter(|stream| !has_ended(stream)) {
            Some(stream) => stream,
            None => connect(&self.path, self.patience)?,
        };
        let reply = exchange(&mut stream, request).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer for {} s; what was asked may still be done", self.patience.as_secs()),
            ),
            _ => error,
        })?;
        self.stream = Some(stream);
        Ok(reply)
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

fn connect(path: &Path, patience: Duration) -> io::Result<BufReader<UnixStream>> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(BufReader::new(stream))
}

/// Whether the server has hung up and left nothing to be read.
fn has_ended(stream: &BufReader<UnixStream>) -> bool {
    let looked = recv(stream.get_ref(), &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    stream.buffer().is_empty() && looked.is_ok_and(|(_, length)| length == 0)
}

fn exchange(stream: &mut BufReader<UnixStream>, request: &Request) -> io::Result<Reply> {
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    match stream.get_mut().write_all(&text) {
        // A server that is full says so and hangs up without hearing what is wanted.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => hear(stream).map_err(|_| error),
        sent => sent.and_then(|()| hear(stream)),
    }
}

fn hear(stream: &mut BufReader<UnixStream>) -> io::Result<Reply> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}

fn unexpected(reply: Reply) -> io::Error {
    match reply {
        Reply::Error(problem) => io::Error::other(problem),
        other => io::Error::new(io::ErrorKind::InvalidData, format!("unexpected reply {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    #[test]
    fn an_answer_that_came_too_late_is_nobodys() {
        let path = std::env::temp_dir().join(format!("dwell-late-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let hear = || {
                let (mut reader, mut line) = (BufReader::new(listener.accept().unwrap().0), String::new());
                reader.read_line(&mut line).unwrap();
                (reader, line)
            };
            let (mut late, first) = hear();
            thread::sleep(Duration::from_millis(100));
            let _ = writeln!(late.get_mut(), "{{\"error\":\"too late\"}}");
            let (mut next, second) = hear();
            writeln!(next.get_mut(), "\"done\"").unwrap();
            [first, second]
        });
        let mut client = Client::patient(&path, Duration::from_millis(50)).unwrap();
        let late = client.tune("fifo_batch", "8").unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert!(late.to_string().contains("may still be done"), "{late}");
        thread::sleep(Duration::from_millis(100));
        client.patience = PATIENCE;
        client.stop().unwrap();
        let asked = server.join().unwrap();
        assert!(asked[0].contains("fifo_batch") && asked[1].contains("stop"), "{asked:?}");
        std::fs::remove_file(path).unwrap();
    }
}
