//! A client of the control socket.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvFlags, recv};

use super::device_number::DeviceNumber;
use super::protocol::{AccountTerms, ArrayState, MemberState, Reply, Request, State, SwitchState};

/// How long a server may take. Its control thread reports after 3 s that the device's thread does not answer; a longer silence means
/// that the whole process does not run.
const PATIENCE: Duration = Duration::from_secs(8);

/// Length of a reply, far above that of the longest one, the state of a device.
const LONGEST: usize = 64 << 20;

/// By how much a socket's timeout may be early.
const TIMER: Duration = Duration::from_millis(10);

/// How often a client that waits looks whether the server's process runs.
const LOOK: Duration = Duration::from_secs(1);

/// A connection to a server. After an error, or when the server has closed an idle connection, the next request makes a new one: a late
/// reply must not be read as the reply to the next request.
pub struct Client {
    path: PathBuf,
    patience: Duration,
    stream: Option<BufReader<UnixStream>>,
}

impl Client {
    /// Connects to the control socket at `path`.
    ///
    /// # Errors
    /// No server listens there, or this user may not connect.
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
    /// The connection broke, or cannot be made anew; the server's process is stopped or did not answer for 8 s, and may still do what
    /// was requested; or it answered something else than a reply.
    pub fn request(&mut self, request: &Request) -> io::Result<Reply> {
        let mut stream = match self.stream.take().filter(|stream| !has_ended(stream)) {
            Some(stream) => stream,
            None => connect(&self.path, self.patience)?,
        };
        let reply = exchange(&mut stream, request, self.patience)?;
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

    /// Replaces the scheduler; `drain` empties the queue first, as Linux does.
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

    /// The array now.
    ///
    /// # Errors
    /// The server is no array's, or the connection broke.
    pub fn array(&mut self) -> io::Result<ArrayState> {
        match self.request(&Request::Array)? {
            Reply::Array(state) => Ok(*state),
            other => Err(unexpected(other)),
        }
    }

    /// Ends a member's server; its users get errors.
    ///
    /// # Errors
    /// There is no such member, it is not served, or the connection broke.
    pub fn fail_member(&mut self, member: u32) -> io::Result<()> {
        self.done(&Request::MemberFail { member })
    }

    /// Serves a file or device in the place of a member that is not served.
    ///
    /// # Errors
    /// There is no such member, it is served, the file or device is refused, or the connection broke.
    pub fn replace_member(&mut self, member: u32, source: PathBuf) -> io::Result<MemberState> {
        match self.request(&Request::MemberReplace { member, source })? {
            Reply::Member(state) => Ok(*state),
            other => Err(unexpected(other)),
        }
    }

    /// Ends the server, as SIGTERM does.
    ///
    /// # Errors
    /// The connection broke.
    pub fn stop(&mut self) -> io::Result<()> {
        self.done(&Request::Stop)
    }

    /// Joins an account; returns the connection, which carries [admission](crate::admission) messages from now on, and the number of the
    /// block device whose files are scheduled.
    ///
    /// # Errors
    /// The server does not observe causes, or the connection broke.
    pub fn join(mut self, account: &str, terms: AccountTerms) -> io::Result<(UnixStream, DeviceNumber)> {
        let (account, process) = (account.to_string(), std::process::id());
        match self.request(&Request::Join { account, terms, process })? {
            Reply::Joined { major, minor } => {
                let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?.into_inner();
                // Neither is an exchange any more: a server that is busy for longer has not ended.
                stream.set_read_timeout(None)?;
                stream.set_write_timeout(None)?;
                Ok((stream, (major, minor)))
            }
            other => Err(unexpected(other)),
        }
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
    stream.set_read_timeout(Some(patience.min(LOOK)))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(BufReader::new(stream))
}

/// Whether the server has closed the connection and nothing is left to read.
fn has_ended(stream: &BufReader<UnixStream>) -> bool {
    let looked = recv(stream.get_ref(), &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    stream.buffer().is_empty() && looked.is_ok_and(|(_, length)| length == 0)
}

fn exchange(stream: &mut BufReader<UnixStream>, request: &Request, patience: Duration) -> io::Result<Reply> {
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    match stream.get_mut().write_all(&text) {
        // A server at its limit of connections sends an error and disconnects without reading the request.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            receive(stream, patience).map_err(|_| error)
        }
        sent => sent.and_then(|()| receive(stream, patience)),
    }
}

fn receive(stream: &mut BufReader<UnixStream>, patience: Duration) -> io::Result<Reply> {
    let (mut line, began) = (Vec::new(), Instant::now());
    loop {
        match stream.fill_buf() {
            Ok([]) if line.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(received) => {
                let end = received.iter().position(|&byte| byte == b'\n');
                let taken = end.map_or(received.len(), |end| end + 1);
                let is_whole = end.is_some() || taken == 0;
                line.extend(&received[..taken]);
                stream.consume(taken);
                if is_whole {
                    return Ok(serde_json::from_slice(&line)?);
                }
                if line.len() > LONGEST {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "its reply has no end"));
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                let server = Server::of(stream.get_ref());
                if server.is_stopped() {
                    return Err(server.no_answer(began));
                }
            }
            Err(error) => return Err(error),
        }
        // Also of a process that sends a byte now and then.
        if began.elapsed() + TIMER >= patience {
            return Err(Server::of(stream.get_ref()).no_answer(began));
        }
    }
}

/// The process at the other end of a socket.
struct Server {
    pid: Option<u32>,
    name: String,
    /// One letter and its meaning, as `/proc/PID/status` has it: `T (stopped)`.
    state: String,
}

impl Server {
    fn of(stream: &UnixStream) -> Self {
        let pid = socket_peercred(stream).ok().map(|peer| peer.pid.as_raw_pid() as u32);
        let status = pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
        let field = |name: &str| {
            let line = status.as_deref()?.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().to_owned())
        };
        Self {
            pid,
            name: field("Name:").unwrap_or_else(|| "unknown".to_owned()),
            state: field("State:").unwrap_or_else(|| "unknown".to_owned()),
        }
    }

    /// Whether a signal or a debugger has stopped it, so that no answer will come.
    fn is_stopped(&self) -> bool {
        self.state.starts_with(['T', 't'])
    }

    fn no_answer(&self, began: Instant) -> io::Error {
        let problem = format!(
            "no answer for {:.1} s from {}; a requested change may still be made",
            began.elapsed().as_secs_f64(),
            self.description()
        );
        io::Error::new(io::ErrorKind::TimedOut, problem)
    }

    fn description(&self) -> String {
        match self.pid {
            Some(pid) => format!("process {pid} ({}), whose state is {}", self.name, self.state),
            None => "the server".to_owned(),
        }
    }
}

/// A server's text for a terminal: without control characters, which could move the cursor or change the title, and of limited length.
fn printable(text: &str) -> String {
    const LONGEST: usize = 2000;
    text.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn unexpected(reply: Reply) -> io::Error {
    match reply {
        Reply::Error(problem) => io::Error::other(printable(&problem)),
        other => io::Error::new(io::ErrorKind::InvalidData, format!("unexpected reply {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    #[test]
    fn an_error_text_contains_no_control_characters() {
        let hostile = "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31mno such\r\nscheduler\u{202e}";
        let text = unexpected(Reply::Error(hostile.to_string())).to_string();
        assert!(text.contains("no such") && !text.contains(|c: char| c.is_control()), "{text:?}");
        assert_eq!(printable(&"x".repeat(9999)).len(), 2000);
    }

    #[test]
    fn a_late_reply_is_not_read_as_the_next_one() {
        let path = std::env::temp_dir().join(format!("dwell-late-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let accept_line = || {
                let (mut reader, mut line) = (BufReader::new(listener.accept().unwrap().0), String::new());
                reader.read_line(&mut line).unwrap();
                (reader, line)
            };
            let (mut late, first) = accept_line();
            thread::sleep(Duration::from_millis(100));
            let _ = writeln!(late.get_mut(), "{{\"error\":\"too late\"}}");
            let (mut next, second) = accept_line();
            writeln!(next.get_mut(), "\"done\"").unwrap();
            [first, second]
        });
        let mut client = Client::patient(&path, Duration::from_millis(50)).unwrap();
        let late = client.tune("fifo_batch", "8").unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert!(late.to_string().contains("may still be made"), "{late}");
        thread::sleep(Duration::from_millis(100));
        client.patience = PATIENCE;
        client.stop().unwrap();
        let asked = server.join().unwrap();
        assert!(asked[0].contains("fifo_batch") && asked[1].contains("stop"), "{asked:?}");
        fs::remove_file(path).unwrap();
    }

    /// The reply of a process that sends `bytes` again and again to each client.
    fn endless(name: &str, bytes: &'static [u8], patience: Duration) -> io::Error {
        let path = std::env::temp_dir().join(format!("dwell-{name}-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(bytes).is_ok() {
                thread::sleep(Duration::from_millis(u64::from(bytes.len() < 100)));
            }
        });
        let error = Client::patient(&path, patience).unwrap().show().unwrap_err();
        server.join().unwrap();
        fs::remove_file(path).unwrap();
        error
    }

    /// A regression: a client read for as long as bytes came.
    #[test]
    fn a_reply_without_end_is_an_error() {
        let error = endless("drip", b"{", Duration::from_millis(50));
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        let error = endless("flood", &[b' '; 1 << 20], Duration::from_secs(600));
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
}
