//! The status of a running tuner, for `dwell tune --status` and as Prometheus text.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::files;

/// A status is some hundred bytes long, plus the names of the arms.
const LENGTH_MAX: u64 = 1 << 20;

/// What a tuner has done.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The device's name.
    pub device: String,
    /// The process that tunes it.
    pub pid: u32,
    /// When that process started, in clock ticks since boot, because process numbers are reused.
    #[serde(default)]
    pub started: u64,
    /// When it began to tune, in seconds since 1970.
    #[serde(default)]
    pub began: u64,
    /// The metric's name.
    pub metric: String,
    /// Decisions are reported but not carried out.
    pub dry_run: bool,
    /// The arms.
    pub arms: Vec<String>,
    /// The scheduler in use.
    pub current: String,
    /// The scheduler before tuning.
    pub before: String,
    /// Windows watched.
    pub windows: u64,
    /// Windows with enough requests to be analysed.
    pub analysed: u64,
    /// Windows of a known kind of load or cluster.
    pub hits: u64,
    /// Known kinds of load.
    #[serde(default)]
    pub kinds: u64,
    /// Stored clusters.
    pub clusters: u64,
    /// Switches.
    pub switches: u64,
    /// Their total duration in seconds.
    pub switching_seconds: f64,
    /// Requests that were not reported.
    pub missed: u64,
    /// Windows in which the metric could not be measured, because its command failed or printed no number.
    #[serde(default)]
    pub unmeasured: u64,
    /// CPU time of the tuner in seconds.
    pub processor_seconds: f64,
    /// The metric's value in the latest window.
    pub value: Option<f64>,
    /// The line of the latest decision.
    pub latest: String,
}

/// The file of a device's status.
#[must_use]
pub fn file(directory: &Path, device: &str) -> PathBuf {
    directory.join(format!("tune-{}.json", device.replace('/', "!")))
}

/// Replaces a device's status file.
///
/// # Errors
/// The directory cannot be created or written.
pub fn write(directory: &Path, status: &Status) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let text = serde_json::to_vec(status)?;
    files::replace(&file(directory, &status.device), &text, false)
}

/// Reads a device's status; `None` if no running tuner has written one.
///
/// # Errors
/// The file cannot be read.
pub fn read(directory: &Path, device: &str) -> io::Result<Option<Status>> {
    match files::read(&file(directory, device), LENGTH_MAX) {
        Ok(bytes) => {
            let status: Status = serde_json::from_slice(&bytes)?;
            Ok(Some(status).filter(|status| capture::is_process(status.pid, status.started)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Status {
    /// The Prometheus text exposition format 0.0.4.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let device = escaped(&self.device);
        let mut out = String::new();
        let mut single = |name: &str, kind: &str, help: &str, value: f64| {
            let _ = writeln!(
                out,
                "# HELP dwell_tuner_{name} {help}\n# TYPE dwell_tuner_{name} {kind}\ndwell_tuner_{name}{{device=\"{device}\"}} {value}"
            );
        };
        single("windows_total", "counter", "Windows watched.", self.windows as f64);
        single(
            "windows_analysed_total",
            "counter",
            "Windows with enough requests to be analysed.",
            self.analysed as f64,
        );
        single("hits_total", "counter", "Windows of a known kind of load or cluster.", self.hits as f64);
        single("kinds", "gauge", "Known kinds of load.", self.kinds as f64);
        single("clusters", "gauge", "Stored clusters.", self.clusters as f64);
        single("switches_total", "counter", "Switches made.", self.switches as f64);
        single("switching_seconds_total", "counter", "Total duration of switches.", self.switching_seconds);
        single("missed_requests_total", "counter", "Requests that were not reported.", self.missed as f64);
        single("processor_seconds_total", "counter", "CPU time of the tuner.", self.processor_seconds);
        if let Some(value) = self.value {
            single("metric", "gauge", "The metric in the latest window.", value);
        }
        let _ =
            writeln!(out, "# HELP dwell_tuner_arm Whether an arm is in use.\n# TYPE dwell_tuner_arm gauge");
        for arm in &self.arms {
            let used = u8::from(*arm == self.current);
            let _ = writeln!(out, "dwell_tuner_arm{{device=\"{device}\",arm=\"{}\"}} {used}", escaped(arm));
        }
        out
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A status that a thread serves over HTTP.
#[derive(Clone, Default)]
pub struct StatusServer(Arc<Mutex<Status>>);

impl StatusServer {
    /// Serves HTTP at `address` until the process ends.
    ///
    /// # Errors
    /// The address is in use or not local.
    pub fn serve(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        let bound = listener.local_addr()?;
        let shown = self.clone();
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            listener.incoming().flatten().for_each(|stream| drop(shown.answer(stream)));
        })?;
        Ok(bound)
    }

    /// Replaces the status.
    pub fn set(&self, status: Status) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn answer(&self, mut stream: std::net::TcpStream) -> io::Result<()> {
        /// For the whole request: one slow client must not block the others.
        const PATIENCE: Duration = Duration::from_secs(2);
        stream.set_write_timeout(Some(PATIENCE))?;
        let until = Instant::now() + PATIENCE;
        let mut request = Vec::new();
        let mut piece = [0; 1024];
        while !request.windows(4).any(|four| four == b"\r\n\r\n") && request.len() < 8192 {
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
            match stream.read(&mut piece)? {
                0 => break,
                length => request.extend_from_slice(&piece[..length]),
            }
        }
        let (state, text) = if request.starts_with(b"GET /metrics ") {
            ("200 OK", self.0.lock().unwrap_or_else(PoisonError::into_inner).prometheus())
        } else {
            ("404 Not Found", "only /metrics exists\n".to_owned())
        };
        write!(
            stream,
            "HTTP/1.1 {state}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        Status {
            device: "sda".to_owned(),
            arms: ["none", "bfq{slice_idle=\"0\"}"].map(str::to_owned).to_vec(),
            current: "none".to_owned(),
            windows: 3,
            ..Status::default()
        }
    }

    #[test]
    fn the_status_is_read_as_written() {
        let tree = crate::testing::Tree::new("status");
        assert_eq!(read(&tree.directory(), "sda").unwrap(), None);
        let (pid, started) = capture::this_process();
        let status = Status { pid, started, ..status() };
        write(&tree.directory(), &status).unwrap();
        assert_eq!(read(&tree.directory(), "sda").unwrap(), Some(status));
    }

    #[test]
    fn prometheus_text_is_served_over_http() {
        let shown = StatusServer::default();
        shown.set(status());
        let address = shown.serve(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let ask = |path: &str| {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let text = ask("/metrics");
        assert!(
            text.starts_with("HTTP/1.1 200 OK")
                && text.contains("\ndwell_tuner_windows_total{device=\"sda\"} 3\n")
        );
        assert!(text.contains("dwell_tuner_arm{device=\"sda\",arm=\"bfq{slice_idle=\\\"0\\\"}\"} 0"));
        assert!(ask("/").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn the_status_of_a_killed_tuner_is_ignored() {
        let tree = crate::testing::Tree::new("status-killed");
        let of = |pid: u32, started: u64| Status { pid, started, ..status() };
        let (pid, started) = capture::this_process();
        write(&tree.directory(), &of(pid, started)).unwrap();
        assert_eq!(read(&tree.directory(), "sda").unwrap(), Some(of(pid, started)));
        write(&tree.directory(), &of(pid, started + 1)).unwrap();
        assert_eq!(read(&tree.directory(), "sda").unwrap(), None, "the number is another process's now");
    }

    #[test]
    fn a_slow_client_is_disconnected() {
        let shown = StatusServer::default();
        shown.set(status());
        let address = shown.serve(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let mut slow = std::net::TcpStream::connect(address).unwrap();
        let dripping = std::thread::spawn(move || {
            (0..100).take_while(|_| slow.write_all(b"x").is_ok()).for_each(|_| {
                std::thread::sleep(Duration::from_millis(100));
            });
        });
        std::thread::sleep(Duration::from_millis(100));
        let from = Instant::now();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        stream.read_to_string(&mut String::new()).unwrap();
        assert!(from.elapsed() < Duration::from_secs(5), "{:?}", from.elapsed());
        dripping.join().unwrap();
    }
}
