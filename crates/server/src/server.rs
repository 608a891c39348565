//! A server from its configuration to its report.

mod startup;

pub use startup::start;

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use elevator::queue::{Observer, Options};
use serde::Serialize;

use crate::ServeError;
use crate::array::ArrayPlace;
use crate::attach::{AttachOptions, Attachment, GiveUp};
use crate::backend::{Backend, Geometry, Medium};
use crate::control::protocol::State;
use crate::control::{Line, Order, SchedulerFactory, Snapshot, Socket, Stop, state};
use crate::ending::{Requests, is_ignored};
use crate::front::Guard;
use crate::identity::IdentifyFactory;
use crate::nbd::{Acceptor, NbdOptions};
use crate::progress::{self, Stall};
use crate::realtime::Punctuality;
use crate::split::CausesFactory;
use crate::supervisor;

/// Makes the back end, on the device's thread.
pub type BackendFactory = Box<dyn FnOnce() -> Result<Box<dyn Backend>, ServeError> + Send>;

/// Creates an observer of the queue's events from the queue's options.
pub type ObserverFactory = Box<dyn FnOnce(&Options) -> Box<dyn Observer + Send> + Send>;

/// Period of checks whether the block device was removed: the kernel does not report the removal of an idle device.
const LOOK: Duration = Duration::from_secs(1);

/// A disk without a completion for this time has failed: SCSI's error recovery starts after 30 s.
const TEARDOWN_LIMIT: Duration = Duration::from_secs(30);

/// The configuration of a server.
pub struct Configuration {
    /// Holds the data.
    pub backend: BackendFactory,
    /// The first scheduler's specification.
    pub scheduler: String,
    /// Makes schedulers from their specifications.
    pub schedulers: SchedulerFactory,
    /// The queue. Cache and barriers are the back end's; the depth is the smaller of the two.
    pub options: Options,
    /// How many times faster than real time the device's time passes.
    pub speed: u32,
    /// The NBD front end, if any.
    pub nbd: Option<NbdOptions>,
    /// The FUSE front end and its loop device, if any.
    pub attach: Option<AttachOptions>,
    /// Identifies the processes that issue requests to the attached device.
    pub identify: Option<IdentifyFactory>,
    /// Observes the causes of requests to the attached device, for split-level schedulers.
    pub causes: Option<CausesFactory>,
    /// The control socket.
    pub control: Option<PathBuf>,
    /// Punctuality of an emulated drive.
    pub punctuality: Punctuality,
    /// How long the device's thread polls for requests before it sleeps, while polling is successful; zero: never.
    /// Polling saves the wake-up of the thread, about half of a single request's latency. It costs up to one processor for a client that sends
    /// each request within this time after the previous reply. `None`: 50 µs in front of memory, zero in front of a disk.
    /// The thread never polls in front of an emulated drive.
    pub poll: Option<Duration>,
    /// How long the back end may take for one request, in real time, before the request fails; `None` for ever.
    pub request_timeout: Option<Duration>,
    /// How long the attached device may make no progress while it is taken down, before its users get errors.
    pub teardown_limit: Duration,
    /// Receives every event of the queue.
    pub observer: Option<ObserverFactory>,
    /// The place in an array, if the device is a member.
    pub array: Option<ArrayPlace>,
}

impl Configuration {
    /// The back end under the scheduler, without a front end.
    pub fn new(
        backend: impl FnOnce() -> Result<Box<dyn Backend>, ServeError> + Send + 'static,
        scheduler: &str,
        schedulers: SchedulerFactory,
    ) -> Self {
        Self {
            backend: Box::new(backend),
            scheduler: scheduler.to_string(),
            schedulers,
            options: Options::default(),
            speed: 1,
            nbd: None,
            attach: None,
            identify: None,
            causes: None,
            control: None,
            punctuality: Punctuality::default(),
            poll: None,
            request_timeout: None,
            teardown_limit: TEARDOWN_LIMIT,
            observer: None,
            array: None,
        }
    }
}

/// A server's final report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Its last state, lateness included.
    pub state: State,
    /// What the system refused, in words.
    pub refused: Vec<String>,
}

/// A running server. Dropping it stops it.
pub struct Server {
    pub(crate) line: Line,
    stops: Receiver<Stop>,
    pub(crate) stop: Sender<Stop>,
    thread: Option<JoinHandle<io::Result<Box<Snapshot>>>>,
    attachment: Option<Attachment>,
    attached: Option<PathBuf>,
    geometry: Geometry,
    medium: Option<Medium>,
    addresses: Vec<String>,
    /// What the front ends have created in the file system. Their own thread may not remove it.
    guards: Vec<Guard>,
    refused: Vec<String>,
    teardown_limit: Duration,
    /// The TLS configuration of NBD, to read its certificates again.
    acceptor: Option<Acceptor>,
    _control: Option<Socket>,
}

/// Serves until SIGINT, SIGTERM, SIGHUP (unless ignored), or an order to stop; takes everything down and reports. A second
/// signal ends the wait for users of the attached device. With TLS, SIGHUP reads the certificates again instead. `started` is called once
/// the server serves.
///
/// # Errors
/// The server could not start, or its thread failed.
pub fn run(configuration: Configuration, started: impl FnOnce(&Server)) -> Result<Report, ServeError> {
    // Installed before anything is attached: a signal in between must take it down again.
    let failed = |error| ServeError::io("handling signals", error);
    let hangups = if configuration.nbd.as_ref().is_some_and(|nbd| nbd.tls.is_some()) {
        Some(signals_of([libc::SIGHUP]).map_err(failed)?)
    } else {
        None
    };
    let signals = signals(hangups.is_some()).map_err(failed)?;
    let orphaned =
        supervisor::is_server().then(|| signals_of([libc::SIGUSR1])).transpose().map_err(failed)?;
    supervisor::unblock_signals();
    let server = start(configuration)?;
    if let (Some(acceptor), Some(hangups)) = (server.acceptor.clone(), hangups) {
        // The attached device is served by now, so files on it can be read.
        let is_resumed = server.is_resumed();
        let reload = move || {
            if is_resumed {
                acceptor.renew_received();
            }
            acceptor.reload_on(hangups);
        };
        thread::Builder::new().name("certificates".into()).spawn(reload).map_err(failed)?;
    }
    let is_asked = Arc::new(AtomicBool::new(false));
    if let Some(orphaned) = orphaned {
        let (stop, is_asked) = (server.stop.clone(), is_asked.clone());
        let wait = move || stop_without_supervisor(orphaned, &stop, &is_asked);
        thread::Builder::new().name("supervisor".into()).spawn(wait).map_err(failed)?;
    }
    let stop = server.stop.clone();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || wait_for_signals(signals, &stop, &is_asked))
        .map_err(failed)?;
    if let Some(interval) = progress::watchdog_interval() {
        let (progress, bell) = (server.line.progress.clone(), server.line.bell.clone());
        let watch = move || progress::watch(&progress, &bell, interval);
        thread::Builder::new().name("watchdog".into()).spawn(watch).map_err(failed)?;
    }
    started(&server);
    server.wait()
}

pub(crate) fn signals(hangup_reloads: bool) -> io::Result<UnixStream> {
    let hangup = (!hangup_reloads && !is_ignored(libc::SIGHUP)).then_some(libc::SIGHUP);
    signals_of([libc::SIGINT, libc::SIGTERM].into_iter().chain(hangup))
}

/// A socket that receives a byte for each of these signals.
pub(crate) fn signals_of(signals: impl IntoIterator<Item = libc::c_int>) -> io::Result<UnixStream> {
    let (heard, rung) = UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(signal, rung.try_clone()?)?;
    }
    Ok(heard)
}

/// The end of the supervisor stops the server. It is no second signal, which would give up on the users of the device.
pub(crate) fn stop_without_supervisor(mut orphaned: UnixStream, stop: &Sender<Stop>, is_asked: &AtomicBool) {
    if matches!(orphaned.read(&mut [0]), Ok(1)) && !is_asked.swap(true, Ordering::Relaxed) {
        let _ = stop.send(Stop::Asked);
    }
}

pub(crate) fn wait_for_signals(mut signals: UnixStream, stop: &Sender<Stop>, is_asked: &AtomicBool) {
    let mut requests = Requests::default();
    while matches!(signals.read(&mut [0]), Ok(1)) {
        // A supervisor passes on only those that count.
        if requests.add().is_none() && !supervisor::is_server() {
            continue;
        }
        is_asked.store(true, Ordering::Relaxed);
        if stop.send(Stop::Asked).is_err() {
            return;
        }
    }
}

impl Server {
    /// The attached block device, or the FUSE file if only that was requested.
    pub fn attached(&self) -> Option<&Path> {
        self.attached.as_deref()
    }

    /// Whether the attached device is one that a former process had attached.
    pub fn is_resumed(&self) -> bool {
        self.attachment.as_ref().is_some_and(Attachment::is_resumed)
    }

    /// The addresses for NBD clients, with the ports that the system chose.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The geometry of the served device.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What the system refused, in words.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// The device's present state.
    ///
    /// # Errors
    /// It has stopped.
    pub fn state(&self) -> Result<State, String> {
        Ok(state(&*self.line.ask(Order::Show)?, self.line.speed))
    }

    /// Waits for a request to stop, then takes everything down and reports. It also ends when its block device is removed: the
    /// device is a different one to the kernel when it returns.
    ///
    /// # Errors
    /// The device's thread failed, or [`ServeError::Gone`].
    pub fn wait(mut self) -> Result<Report, ServeError> {
        let gone = self.wait_for_end();
        if let Some(node) = &gone {
            // The teardown may wait for users.
            say!("{}: removed; its users get errors", node.display());
        }
        let report = self.take_down()?;
        gone.map_or(Ok(report), |node| Err(ServeError::Gone(node)))
    }

    /// Waits for a request to stop, or the removal of the served device, which is returned.
    fn wait_for_end(&self) -> Option<PathBuf> {
        let Some(Medium { node, sysfs }) = &self.medium else {
            let _ = self.stops.recv();
            return None;
        };
        while self.stops.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if !sysfs.exists() {
                return Some(node.clone());
            }
        }
        None
    }

    /// Takes everything down and reports.
    pub fn stop(mut self) -> Result<Report, ServeError> {
        self.take_down()
    }

    /// The loop device first, while its file is still served; then the device; then the mount. If the device makes no progress meanwhile,
    /// the FUSE connection is aborted, so that its users get errors, and a device's thread that waits for its disk is left behind.
    fn take_down(&mut self) -> Result<Report, ServeError> {
        let has_ended = || self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let is_left = self.attachment.as_ref().is_some_and(|attachment| attachment.is_for_next(has_ended()));
        let (progress, limit) = (self.line.progress.clone(), self.teardown_limit);
        let mut is_aborted = false;
        let mut stall = Stall::new(&progress, limit);
        if let (false, Some(attachment)) = (is_left, &self.attachment) {
            is_aborted = attachment.detach(|is_detaching| {
                // Without its thread the device is not served any more: no user can finish.
                if has_ended() {
                    GiveUp::Broke
                } else if stall.is_stalled(is_detaching) {
                    GiveUp::Stalled { limit }
                } else if !matches!(self.stops.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout)) {
                    GiveUp::Asked
                } else {
                    GiveUp::No
                }
            });
        }
        let _ = self.line.order(Order::Stop);
        let failed = |source| ServeError::io("the device's thread failed", source);
        let mut stall = Stall::new(&progress, limit);
        while !self.thread.as_ref().is_none_or(JoinHandle::is_finished) && !stall.is_stalled(true) {
            thread::sleep(LOOK_FOR_END);
        }
        let thread = self.thread.take().ok_or_else(|| failed(io::Error::other("it had ended before")))?;
        if !thread.is_finished() {
            match &mut self.attachment {
                Some(attachment) if is_left => attachment.leave(false),
                Some(attachment) if !is_aborted => attachment.abort(),
                _ => {}
            }
            self.attachment = None;
            let lost = progress.unfinished();
            let problem =
                format!("{lost} operations did not return from the disk ({})", progress.thread_state());
            return Err(ServeError::io("stopping", io::Error::new(io::ErrorKind::TimedOut, problem)));
        }
        let served = thread.join().map_err(|_| failed(io::Error::other("it panicked")));
        // The thread has dropped its copies. The last one first: the first one may have created the directory of the others.
        while self.guards.pop().is_some() {}
        if let (true, Some(attachment)) = (is_left, &mut self.attachment) {
            attachment.leave(matches!(served, Ok(Ok(_))));
        }
        self.attachment = None;
        let snapshot = served?.map_err(failed)?;
        Ok(Report { state: state(&snapshot, self.line.speed), refused: std::mem::take(&mut self.refused) })
    }
}

/// Period of checks for the end of the device's thread during teardown.
const LOOK_FOR_END: Duration = Duration::from_millis(2);

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.take_down();
        }
    }
}
