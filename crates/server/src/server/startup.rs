//! The start of a server: its front ends, its control socket, its thread, its attachment.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ::control::device_number::{self, DeviceNumber};
use elevator::queue::{Options, Queue, SyncWrites};

use super::{BackendFactory, Configuration, Server};
use crate::ServeError;
use crate::array::{ArrayPlace, Link};
use crate::attach::Attachment;
use crate::backend::{Backend, Geometry, Medium};
use crate::busy_poll::BusyPoll;
use crate::clock::Clock;
use crate::control::{Line, Order, Orders, Snapshot, Socket, Stop};
use crate::core::Core;
use crate::device::Device;
use crate::front::{FrontEnd, Guard};
use crate::fuse::{Fuse, FuseOptions};
use crate::identity::{Identify, IdentifyFactory, Identity};
use crate::nbd::{Acceptor, Nbd, NbdOptions};
use crate::poller::Bell;
use crate::privileges;
use crate::progress::Progress;
use crate::realtime;
use crate::resident;
use crate::spin_sleep::SpinSleep;
use crate::split::{Admission, CausesFactory, Observed};
use crate::statistics::Watch;
use crate::thread::{DeviceThread, Waiting};

/// Default time for which a device's thread polls before it sleeps: the wake-up of an idle processor on a virtual machine, which the
/// client needs to receive a reply.
const POLL: Duration = Duration::from_micros(50);

/// The front ends, and what belongs to them outside the device's thread.
#[derive(Default)]
struct Fronts {
    all: Vec<Box<dyn FrontEnd + Send>>,
    acceptor: Option<Acceptor>,
    attachment: Option<Attachment>,
    observers: Observers,
}

impl Fronts {
    fn add_nbd(&mut self, options: NbdOptions) -> Result<(), ServeError> {
        let nbd = Nbd::new(options)?;
        self.acceptor = nbd.acceptor();
        self.all.push(Box::new(nbd));
        Ok(())
    }

    fn add_admission(&mut self, make: CausesFactory) {
        let (sender, awaited) = channel();
        self.all.push(Box::new(Admission::new(awaited)));
        self.observers.causes = Some((make, sender));
    }

    /// Mounts the FUSE file system, whose file [`Attachment::attach`] attaches later. `most_held`: bytes of requests that the front end holds.
    fn mount(&mut self, configuration: &mut Configuration, most_held: usize) -> Result<(), ServeError> {
        let Some(options) = &configuration.attach else { return Ok(()) };
        let identity = configuration.identify.take().map_or(Identity::Unknown, |make| {
            let (sender, awaited) = channel();
            self.observers.identify = Some((make, sender));
            Identity::Awaited(awaited)
        });
        let (mount, connection) = Attachment::mount(options)?;
        let fuse = FuseOptions {
            identity,
            only_file: options.only_file,
            most_held,
            resumed: mount.is_resumed(),
            shared: mount.shared(),
        };
        self.attachment = Some(mount);
        self.all.push(Box::new(Fuse::new(connection, fuse)));
        Ok(())
    }
}

/// Observers that can be made only once the device is attached, with the channels by which the device's thread receives them.
#[derive(Default)]
struct Observers {
    identify: Option<(IdentifyFactory, Sender<Box<dyn Identify>>)>,
    causes: Option<(CausesFactory, Sender<Observed>)>,
}

impl Observers {
    fn make(self, device: &Path) -> Result<(), ServeError> {
        if let Some((make, sender)) = self.identify {
            let _ = sender.send(make(device)?);
        }
        if let Some((make, sender)) = self.causes {
            let failed = |source| ServeError::io(device.display().to_string(), source);
            let number = number_of(device).map_err(failed)?;
            let _ = sender.send((make(device)?, number));
        }
        Ok(())
    }
}

/// Reports the end of the device's thread, a panic included.
struct Ending(Sender<Stop>, Arc<Progress>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.1.end();
        let _ = self.0.send(Stop::Ended);
    }
}

/// What the device's thread reports once it serves.
struct Serving {
    geometry: Geometry,
    medium: Option<Medium>,
    addresses: Vec<String>,
    guards: Vec<Guard>,
    refused: Vec<String>,
}

/// Starts a server; it serves when this returns.
///
/// # Errors
/// The configuration cannot be served, something is in use or not permitted. Nothing is left behind.
pub fn start(mut configuration: Configuration) -> Result<Server, ServeError> {
    let failed = |source| ServeError::io("starting", source);
    // Requests of FUSE and NBD do not say it; the observer of the submitters does.
    configuration.options.sync_writes =
        if configuration.identify.is_some() { SyncWrites::Flagged } else { SyncWrites::Guessed };
    // Before any thread starts, so that all of them inherit it.
    let reserve = configuration.attach.is_some().then(resident::reserve);
    let mut limited = None;
    let mut fronts = Fronts::default();
    if let Some(options) = configuration.nbd.take() {
        limited = options.memory_notice();
        fronts.add_nbd(options)?;
    }
    if let Some(make) = configuration.causes.take() {
        fronts.add_admission(make);
    }
    fronts.mount(&mut configuration, reserve.as_ref().map_or(usize::MAX, |reserve| reserve.data))?;
    let Fronts { all: fronts, acceptor, attachment, observers } = fronts;
    let chosen = attachment.as_ref().and_then(Attachment::chosen);
    match &attachment {
        Some(mount) if mount.is_resumed() => {
            let is_known = |name: &str| (configuration.schedulers)(name).map(drop);
            let scheduler = chosen.as_ref().and_then(|chosen| chosen.read(is_known));
            configuration.scheduler = scheduler.unwrap_or(configuration.scheduler);
        }
        Some(_) => configuration.backend = resident_only(configuration.backend),
        None => {}
    }
    let (orders, heard) = channel();
    let (stop, stops) = channel();
    let bell = Arc::new(Bell::new().map_err(failed)?);
    let progress = Arc::new(Progress::default());
    let speed = configuration.speed.max(1);
    let member = configuration.array.as_ref().map(|place| place.member.0);
    let name = configuration.control.as_deref().and_then(Path::file_name).unwrap_or_default();
    let name = name.to_string_lossy();
    // Of an array's members, a number follows the ending.
    let name = name.strip_suffix(".ctl").unwrap_or(&name).to_owned();
    let line = Line { orders, bell, speed, stop: stop.clone(), progress, chosen, member, name };
    let control = configuration.control.as_deref().map(|path| {
        Socket::listen(path, line.clone())
            .map_err(|error| ServeError::io(format!("listening on {}", path.display()), error))
    });
    let control = control.transpose()?;
    let teardown_limit = configuration.teardown_limit;
    let (thread, serving) = spawn(configuration, fronts, &line, heard)?;
    let Serving { geometry, medium, addresses, guards, mut refused } = serving;
    refused.extend(reserve.and_then(|reserve| reserve.warning));
    refused.extend(limited);
    let mut server = Server {
        line,
        stops,
        stop,
        thread: Some(thread),
        attachment,
        attached: None,
        geometry,
        medium,
        addresses,
        guards,
        refused,
        teardown_limit,
        acceptor,
        _control: control,
    };
    if let Some(attachment) = &mut server.attachment {
        let path = attachment.attach(&geometry)?;
        observers.make(&path)?;
        server.attached = Some(path);
    }
    Ok(server)
}

/// The same back end, or an error if memory cannot be reserved for it; see [`resident::check`].
fn resident_only(make: BackendFactory) -> BackendFactory {
    Box::new(move || {
        let backend = make()?;
        resident::check(&*backend)?;
        Ok(backend)
    })
}

/// The handle of the device's thread.
type Handle = JoinHandle<io::Result<Box<Snapshot>>>;

/// Starts the device's thread, and waits until it serves.
fn spawn(
    configuration: Configuration,
    fronts: Vec<Box<dyn FrontEnd + Send>>,
    line: &Line,
    orders: Receiver<Order>,
) -> Result<(Handle, Serving), ServeError> {
    let (ready, started) = channel();
    let shared = (line.bell.clone(), line.progress.clone());
    let ending = Ending(line.stop.clone(), line.progress.clone());
    let body = move || {
        let _ending = ending;
        serve(configuration, fronts, shared, orders, &ready)
    };
    let thread = thread::Builder::new().name("device".into()).spawn(body);
    let thread = thread.map_err(|source| ServeError::io("starting", source))?;
    let serving = started.recv().unwrap_or_else(|_| {
        Err(ServeError::Configuration("the device's thread panicked while it started".into()))
    })?;
    Ok((thread, serving))
}

/// The number of a device's node.
fn number_of(node: &Path) -> io::Result<DeviceNumber> {
    Ok(device_number::split(rustix::fs::stat(node)?.st_rdev))
}

/// The device's thread from beginning to end.
fn serve(
    configuration: Configuration,
    fronts: Vec<Box<dyn FrontEnd + Send>>,
    shared: (Arc<Bell>, Arc<Progress>),
    orders: Receiver<Order>,
    ready: &Sender<Result<Serving, ServeError>>,
) -> io::Result<Box<Snapshot>> {
    resident::lock_stack();
    match prepare(configuration, fronts, shared, orders) {
        Ok((mut thread, serving)) => {
            for refused in privileges::restrict_device_thread() {
                say!("warning: the device's thread {refused}");
            }
            // If the receiver is gone, an order to stop follows.
            let _ = ready.send(Ok(serving));
            thread.run()?;
            Ok(Box::new(thread.end()))
        }
        Err(error) => {
            let _ = ready.send(Err(error));
            Err(io::Error::other("it did not start"))
        }
    }
}

fn prepare(
    configuration: Configuration,
    fronts: Vec<Box<dyn FrontEnd + Send>>,
    (bell, progress): (Arc<Bell>, Arc<Progress>),
    orders: Receiver<Order>,
) -> Result<(DeviceThread, Serving), ServeError> {
    let backend = (configuration.backend)()?;
    let (geometry, medium) = (backend.geometry(), backend.medium());
    let scheduler =
        (configuration.schedulers)(&configuration.scheduler).map_err(ServeError::Configuration)?;
    let depth = configuration.options.depth.min(geometry.depth).max(1);
    let options =
        Options { depth, cache: geometry.cache, barriers: geometry.barriers, ..configuration.options };
    let observer = configuration.observer.map(|make| make(&options));
    let watch = Watch::new(observer);
    let keeps_time = backend.keeps_time();
    // Only replies at given times justify a real-time thread.
    let refused = if keeps_time {
        realtime::apply(configuration.punctuality)
    } else {
        // Best effort: nothing depends on it.
        let _ = realtime::timer_slack();
        Vec::new()
    };
    let poll = poll(configuration.poll, &*backend);
    let mut device = Device::new(Queue::observed(options, scheduler, watch), backend);
    let clock = match &configuration.array {
        Some(ArrayPlace { hub, member, clock }) => {
            device.join(Link::new(hub.clone(), *member, bell.clone()));
            *clock
        }
        None => Clock::new(configuration.speed),
    };
    let fronts = fronts.into_iter().map(|front| front as Box<dyn FrontEnd>).collect();
    let handler = Orders::new(configuration.schedulers, configuration.scheduler);
    let waiting = Waiting {
        spin_sleep: SpinSleep::new(configuration.punctuality.spin),
        busy_poll: BusyPoll::new(poll),
        request_timeout: configuration.request_timeout,
    };
    let thread = Core::new(device, fronts, handler)
        .and_then(|core| DeviceThread::new(clock, core, bell, orders, waiting, keeps_time, progress))
        .map_err(|error| ServeError::io("starting", error))?;
    let (addresses, guards) = (thread.addresses(), thread.guards());
    Ok((thread, Serving { geometry, medium, addresses, guards, refused }))
}

/// How long to poll before sleeping, given the option.
fn poll(option: Option<Duration>, backend: &dyn Backend) -> Duration {
    // At the real-time priority of an emulated drive's thread, polling would take the processor from the clients.
    if backend.keeps_time() {
        return Duration::ZERO;
    }
    // A disk wakes the thread anyway, and until then the kernel's workers may need this processor.
    option.unwrap_or(if backend.wake_fd().is_some() { Duration::ZERO } else { POLL })
}
