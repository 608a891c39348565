//! `dwell serve`.

mod array;
mod environment;

use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};
use std::io::{self, Write};
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use disks::{Drive, Truncated};
use elevator::queue::{Barriers, Supervision};
use elevator::text::counted;
use elevator::{SECTOR_BYTES, Sector, Span};
use schedulers::registry::Catalogue;
use schedulers::{Environment, Spec};
use server::backend::{Backend, Emulated, FileBackend, FileOptions, Memory, Nature, Nothing};
use server::control::SchedulerFactory;
use server::control::protocol::State;
use server::nbd::{Address, TlsFiles};
use server::{AttachOptions, Configuration, NbdOptions, Report, ServeError, TimesSummary, supervisor};

use crate::device_capture::node_meant;
use crate::error::Error;
use crate::identity::causes_of_device;
use crate::input::quantity::{size, span};
use crate::input::scheduler_arg;
use crate::{identity, service_manager};
use environment::DeviceEnvironment;
use evaluation::device::Device;
use evaluation::report::format::{bytes, object, time};

/// Options of `dwell serve`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  dwell serve --drive wd5000aaks --size 500G --scheduler 'stream(deadline)' --attach
  dwell serve /dev/sdb --scheduler cooperative --nbd unix:/run/dwell/sdb.sock --control /run/dwell/sdb.ctl
  dwell serve --member /dev/sdb --member /dev/sdc --array md:/dev/md0 --attach --control /run/dwell/md0.ctl")]
pub(crate) struct ServeArguments {
    /// The file or block device to serve; with --drive, the store of the emulated drive's data
    pub(crate) path: Option<PathBuf>,
    /// Open the file or block device without write access; writes fail (NBD: EPERM)
    #[arg(long, requires = "path")]
    pub(crate) read_only: bool,
    /// Emulate this drive in real time; see 'dwell drives'
    #[arg(long)]
    pub(crate) drive: Option<String>,
    /// Size of the device: 500G is 500 * 10^9 bytes, 500GiB is 500 * 2^30
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<String>,
    /// Serve this file or block device as a member of an array; repeat it for each member, in the array's order. Each member gets an
    /// attached device (or NBD address) of its own, on which md, LVM or btrfs assembles the array
    #[arg(long, value_name = "DEVICE", requires = "array", conflicts_with_all = ["path", "memory", "read_only", "size"])]
    pub(crate) member: Vec<PathBuf>,
    /// The members' layout: raid0:64k, raid1, raid5:64k, raid6:64k, raid10:64k (two near copies), or md:/dev/md0 to read it from md's
    /// superblocks
    #[arg(long, value_name = "LAYOUT", requires = "member")]
    pub(crate) array: Option<String>,
    /// Minimum rate of an array's resynchronisation, rebuild or scrub per member, in bytes per second, while other requests are queued
    #[arg(long, value_name = "SIZE", default_value = "4M", requires = "array")]
    pub(crate) background_rate: String,
    /// Serve from memory; needs --size
    #[arg(long, conflicts_with_all = ["path", "drive"])]
    pub(crate) memory: bool,
    /// Keep no data of an emulated drive: reads return zeroes
    #[arg(long, requires = "drive", conflicts_with_all = ["path", "memory"])]
    pub(crate) discard_data: bool,
    /// Give schedulers the service times of this profile ('dwell profile')
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// A scheduler with tunables in braces, or a TOML file (scheduler = "...", one tunable per line). dwell waits only in front of a
    /// device whose service times depend on distance, by --profile, the drive's description or a sample of half a second. With --member,
    /// the default is stream(deadline); stream(...) and dwell are coordinated, and every other scheduler runs on each member alone
    #[arg(
        long,
        short,
        default_value = "dwell",
        default_value_if("array", ArgPredicate::IsPresent, "stream(deadline)")
    )]
    pub(crate) scheduler: String,
    /// Requests in the backing device at once
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) depth: u32,
    /// Speed of an emulated drive, as a multiple of real time
    #[arg(long, default_value_t = 1, requires = "drive", conflicts_with = "memory", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) speed: u32,
    /// Attach as a loop device through FUSE; needs root
    #[arg(long)]
    pub(crate) attach: bool,
    /// Identify the process behind a request to the attached device by this method; default: none
    #[arg(long, value_enum, value_name = "METHOD", requires = "attach")]
    pub(crate) identify: Option<IdentifyBy>,
    /// Observe which processes cause the requests to the attached device, and let a split-level scheduler (afq, split-deadline, split-token)
    /// admit the system calls of programs started by 'dwell exec'; needs BPF
    #[arg(long, requires = "attach")]
    pub(crate) causes: bool,
    /// Serve the NBD protocol at unix:PATH or tcp:ADDRESS:PORT; repeatable
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) nbd: Vec<String>,
    /// Directory with server-cert.pem and server-key.pem: use TLS on TCP. Required for addresses other than loopback; unix sockets
    /// never use TLS
    #[arg(long, value_name = "DIRECTORY", requires = "nbd")]
    pub(crate) tls: Option<PathBuf>,
    /// Admit only clients with a certificate of an authority in the directory's ca-cert.pem. Without it, every client that reaches
    /// the address may read and write
    #[arg(long, requires = "tls")]
    pub(crate) tls_verify_peer: bool,
    /// Concurrent NBD clients through unix sockets, and as many through TCP
    #[arg(long, value_name = "NUMBER", default_value_t = 16, requires = "nbd", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) connections: u16,
    /// Concurrent NBD clients from one IP address (of IPv6, one /64 network); at most
    /// --connections; default: three quarters of it
    #[arg(long, value_name = "NUMBER", requires = "nbd", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) connections_per_address: Option<u16>,
    /// Memory of all NBD clients together: data of their requests and replies, of which one client holds at most 40 MiB. Default: half of
    /// what remains of the memory cgroup's limit after 64 MiB, or a quarter of the machine's memory
    #[arg(long, value_name = "SIZE", requires = "nbd")]
    pub(crate) client_memory: Option<String>,
    /// Control socket for dwell ctl, top and tune
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Poll this long for further requests before sleeping: lower latency for single requests, more CPU time. Polling stops while it finds
    /// none. 0ns disables polling. Default: 0ns for a disk, 50us for memory
    #[arg(long, value_name = "TIME", conflicts_with = "drive")]
    pub(crate) poll: Option<String>,
    /// Replace a scheduler by noop if it holds back every request of an idle device for this long. Must be longer than any wait that a
    /// tunable of the scheduler permits; 0ns disables the check
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) longest_hold: String,
    /// Replace a scheduler by noop if a request of this age is still queued, 10,000 others were dispatched meanwhile, and twice the
    /// scheduler's stated waiting bound, if it has one, has passed; or, whatever was dispatched, at ten times this age. 0ns disables the check
    #[arg(long, value_name = "TIME", default_value = "120s")]
    pub(crate) oldest_request: String,
    /// Fail a request with an I/O error if the disk has not completed it after this time; 0s disables the timeout. The request keeps its
    /// memory, and writes to the same sectors fail, until the disk completes it
    #[arg(long, value_name = "TIME", default_value = "120s")]
    pub(crate) request_timeout: String,
    /// Serve a device even if it is mounted or open; must be given twice
    #[arg(long, action = clap::ArgAction::Count)]
    pub(crate) even_if_used: u8,
    /// Print the final report as JSON; the device and the addresses then go to standard error
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints the names of the device and the addresses, to standard error beside a report as JSON. Errors of standard output are ignored: the device
/// must be served even if the reader of these lines has exited.
fn announce(names: impl Iterator<Item = String>, json: bool) {
    let mut out = io::stdout().lock();
    for name in names {
        match json {
            true => say!("{name}"),
            false => _ = writeln!(out, "{name}"),
        }
    }
}

/// How processes are identified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum IdentifyBy {
    /// A BPF program observes the submitters of the loop device
    Bpf,
}

pub(crate) fn run(arguments: &ServeArguments, catalogue: Catalogue) -> Result<(), Error> {
    if let Some(layout) = &arguments.array {
        return array::run(arguments, layout, catalogue);
    }
    let requested = arguments.size.as_deref().map(size).transpose()?;
    // Reads every input file, also for the servers that a supervisor starts later.
    let (configuration, found) = configuration(arguments, requested, catalogue)?;
    if arguments.attach && source(arguments).is_some() {
        let certificates = configuration.nbd.as_ref().map(NbdOptions::check_certificates);
        certificates.transpose().map_err(|error| failed(&error))?;
        let runtime = AttachOptions::default().runtime;
        if let Some(code) = supervisor::supervise(&runtime).map_err(not_supervised)? {
            std::process::exit(code);
        }
    }
    let scheduler = scheduler_arg::spec(catalogue, &configuration.scheduler)?;
    let report = server::run(configuration, |server| {
        let device = server.attached().filter(|_| !server.is_resumed()).map(|path| path.display().to_string());
        let addresses = server.addresses().iter().map(ToString::to_string);
        announce(device.into_iter().chain(addresses), arguments.json);
        server.refused().iter().for_each(|what| say!("not permitted: {what}"));
        // Reached for memory and emulated drives only: file back ends reject such a size.
        if requested.is_some_and(|size| size % SECTOR_BYTES > 0) {
            let served = server.geometry().capacity.bytes();
            say!("--size is not a multiple of the sector size: serving {served} bytes");
        }
        // The drive's own queue limits the depth.
        let depth = arguments.depth.min(server.geometry().depth).max(1);
        let at_once = counted(u64::from(depth), "request");
        let serving = format!("serving {} under {scheduler}, at most {at_once} at once", what(arguments));
        say!("{found}");
        say!("{serving}; Ctrl-C ends it");
        if server.is_resumed() && arguments.causes {
            say!("programs of 'dwell exec' had no limits since the former server ended; each has them again when it has joined");
        }
        service_manager::notify(&[service_manager::State::Ready, service_manager::State::Status(&serving)]);
    })
    .map_err(|error| failed(&error))?;
    print(arguments, &report)
}

fn not_supervised(error: io::Error) -> Error {
    match error.downcast::<ServeError>() {
        Ok(error) => failed(&error),
        Err(error) => Error::Failed(format!("starting a server: {error}")),
    }
}

fn failed(error: &ServeError) -> Error {
    match error {
        ServeError::Configuration(_) => Error::Usage(error.to_string()),
        ServeError::Refused { .. } => Error::Permission(error.to_string()),
        ServeError::Unfit { path, .. } => Error::Input(error.to_string() + &node_meant(path)),
        ServeError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Error::Permission(error.to_string())
        }
        _ => Error::Failed(error.to_string()),
    }
}

fn what(arguments: &ServeArguments) -> String {
    match (&arguments.drive, &arguments.path) {
        (Some(drive), None) => format!("an emulated {drive}"),
        (Some(drive), Some(path)) => format!("an emulated {drive} over {}", path.display()),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => "memory".to_owned(),
    }
}

/// The scheduler of a device whose causes are not observed.
fn without_causes(catalogue: Catalogue, text: &str) -> Result<Spec, Error> {
    let found = scheduler_arg::for_device_with_causes(catalogue, text)?;
    scheduler_arg::for_one_device(catalogue, text).map_err(|_| {
        Error::Usage(format!(
            "--scheduler {}: it also schedules system calls and the page cache; add --causes (with --attach)",
            found.listing().name
        ))
    })
}

/// Rejects schedulers that the host of a device cannot have.
type Named = fn(Catalogue, &str) -> Result<Spec, Error>;

fn configuration(
    arguments: &ServeArguments,
    size: Option<u64>,
    catalogue: Catalogue,
) -> Result<(Configuration, String), Error> {
    let named = if arguments.causes { scheduler_arg::for_device_with_causes } else { without_causes };
    configuration_for(arguments, size, catalogue, named)
}

fn configuration_for(
    arguments: &ServeArguments,
    size: Option<u64>,
    catalogue: Catalogue,
    named: Named,
) -> Result<(Configuration, String), Error> {
    if !arguments.attach && arguments.nbd.is_empty() {
        return Err(Error::Usage("the device has no front end; add --attach, --nbd, or both".to_owned()));
    }
    if size.is_some_and(|size| size < SECTOR_BYTES) {
        return Err(Error::Usage(format!(
            "--size: a device has at least one sector of {SECTOR_BYTES} bytes"
        )));
    }
    let device = arguments.drive.as_deref().map(Device::open).transpose()?;
    if !supervisor::is_server() {
        device.iter().flat_map(Device::notes).for_each(|note| say!("{note}"));
    }
    let environment =
        DeviceEnvironment::of(arguments.profile.as_deref(), device.as_ref(), arguments.path.as_deref())?;
    let scheduler = scheduler_arg::full_name(catalogue, &arguments.scheduler)?;
    let found = environment.in_words(&scheduler);
    let factory = schedulers(catalogue, environment.environment, named);
    named(catalogue, &scheduler)?;
    let backend = match device {
        Some(device) => emulated(arguments, &device, size)?,
        None => plain(arguments, size)?,
    };
    let mut configuration = Configuration::new(backend, &scheduler, factory);
    configuration.options.depth = arguments.depth;
    configuration.options.supervision = Supervision {
        longest_hold: limit("--longest-hold", &arguments.longest_hold)?,
        oldest: limit("--oldest-request", &arguments.oldest_request)?,
        ..Supervision::default()
    };
    configuration.speed = arguments.speed;
    configuration.poll = arguments.poll.as_deref().map(|text| span("--poll", text)).transpose()?;
    let limit = span("--request-timeout", &arguments.request_timeout)?;
    configuration.request_timeout = (!limit.is_zero()).then_some(limit);
    configuration.control.clone_from(&arguments.control);
    configuration.attach =
        arguments.attach.then(|| AttachOptions { source: source(arguments), ..AttachOptions::default() });
    configuration.causes = arguments.causes.then(causes_of_device);
    configuration.identify = arguments.identify.map(|IdentifyBy::Bpf| identity::by_bpf());
    configuration.nbd = nbd(arguments)?;
    Ok((configuration, found))
}

/// The file or device that still holds the data after this process dies.
fn source(arguments: &ServeArguments) -> Option<PathBuf> {
    arguments.path.clone().filter(|_| !arguments.discard_data)
}

/// A time limit; zero is none.
fn limit(option: &str, text: &str) -> Result<Option<Span>, Error> {
    let limit = span(option, text)?;
    Ok((!limit.is_zero()).then(|| Span::from_nanos(limit.as_nanos() as u64)))
}

type BackendMaker = Box<dyn FnOnce() -> Result<Box<dyn Backend>, ServeError> + Send>;

fn plain(arguments: &ServeArguments, size: Option<u64>) -> Result<BackendMaker, Error> {
    let depth = arguments.depth;
    match (&arguments.path, arguments.memory, size) {
        (Some(path), false, size) => {
            let options = FileOptions { depth, size, ..claimed(arguments, path) };
            Ok(Box::new(move || Ok(Box::new(FileBackend::open(options)?) as Box<dyn Backend>)))
        }
        (None, true, Some(size)) if size > Memory::MOST => Err(Error::Usage(format!(
            "--size {} does not fit: at most {} are served from memory",
            bytes(size),
            bytes(Memory::MOST)
        ))),
        (None, true, Some(size)) => {
            Ok(Box::new(move || Ok(Box::new(Memory::new(size, depth)) as Box<dyn Backend>)))
        }
        (None, true, None) => Err(Error::Usage("--memory needs --size, such as --size 1G".to_owned())),
        _ => Err(Error::Usage(
            "nothing to serve: name a file or device, --drive, or --memory with --size".to_owned(),
        )),
    }
}

/// The model in real time in front of a sparse file, or of nothing.
fn emulated(arguments: &ServeArguments, device: &Device, size: Option<u64>) -> Result<BackendMaker, Error> {
    let drive = device.build();
    let whole = drive.capacity().bytes();
    let size = size.unwrap_or(whole);
    if size > whole {
        let name = arguments.drive.as_deref().unwrap_or_default();
        return Err(Error::Usage(format!(
            "--size {} does not fit: {name} has {}",
            bytes(size),
            bytes(whole)
        )));
    }
    let drive = Truncated::new(drive, Sector(size / 512));
    let (size, depth, nature) = (drive.capacity().bytes(), drive.depth(), nature(device));
    // The store uses the page cache, because it must be faster than the emulated drive.
    let store = |path| FileOptions { direct: false, depth, size: Some(size), ..claimed(arguments, path) };
    let file = arguments.path.as_deref().map(store);
    let nothing = arguments.discard_data;
    Ok(Box::new(move || {
        let store: Box<dyn Backend> = match file {
            _ if nothing => Box::new(Nothing::new(size, depth)),
            Some(options) => Box::new(FileBackend::open(options)?),
            None => Box::new(Memory::new(size, depth)),
        };
        Ok(Box::new(Emulated::new(Box::new(drive), store, nature)?) as Box<dyn Backend>)
    }))
}

/// The properties of an emulated drive that its host sees.
pub(crate) fn nature(device: &Device) -> Nature {
    let (rotational, barriers) = (device.rotational(), device.barriers(Barriers::Completed));
    Nature { rotational, barriers, ..Nature::default() }
}

/// The options for a file or device. `--even-if-used` given twice permits a device in use.
fn claimed(arguments: &ServeArguments, path: &Path) -> FileOptions {
    let read_only = arguments.read_only;
    FileOptions { even_if_used: arguments.even_if_used >= 2, read_only, ..FileOptions::new(path) }
}

/// Makes schedulers by name for a served device. `named` rejects schedulers that the device cannot host.
pub(crate) fn schedulers(catalogue: Catalogue, environment: Environment, named: Named) -> SchedulerFactory {
    Arc::new(move |name| {
        let spec = named(catalogue, name).map_err(|error| error.to_string())?;
        let scheduler = spec.build(&environment).map_err(|error| error.to_string())?;
        Ok(scheduler)
    })
}

fn nbd(arguments: &ServeArguments) -> Result<Option<NbdOptions>, Error> {
    if arguments.nbd.is_empty() {
        return Ok(None);
    }
    let addresses =
        arguments.nbd.iter().map(|text| text.parse().map_err(|e| Error::Usage(format!("--nbd {text}: {e}"))));
    let tls = arguments.tls.as_ref().map(|directory| TlsFiles {
        certificates: directory.join("server-cert.pem"),
        key: directory.join("server-key.pem"),
        client_authorities: arguments.tls_verify_peer.then(|| directory.join("ca-cert.pem")),
    });
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    let memory = arguments.client_memory.as_deref().map(size).transpose()?;
    let is_control = |address: &Address| matches!(address, Address::Unix(path) if arguments.control.as_ref() == Some(path));
    if addresses.iter().any(is_control) {
        return Err(Error::Usage("--nbd and --control name the same socket; use two sockets".to_owned()));
    }
    Ok(Some(NbdOptions {
        addresses,
        tls,
        connections: arguments.connections,
        connections_per_address: arguments.connections_per_address,
        memory,
        ..NbdOptions::default()
    }))
}

fn print(arguments: &ServeArguments, report: &Report) -> Result<(), Error> {
    if arguments.json {
        return Ok(writeln!(io::stdout(), "{}", object(report)?)?);
    }
    let state = &report.state;
    say!("{}", in_words(state));
    if arguments.drive.is_some() {
        let TimesSummary { count, p50_ns, p99_ns, max_ns, .. } = state.lateness;
        say!(
            "completions late by {} (median), {} (p99), {} (max), {count} in total",
            time(p50_ns),
            time(p99_ns),
            time(max_ns)
        );
    }
    Ok(())
}

/// The number of requests, deliberate waits and failed operations.
fn in_words(state: &State) -> String {
    let failed: u64 = state.operations.values().map(|operation| operation.failed).sum();
    let failures = (failed > 0).then(|| format!(", {} failed", counted(failed, "operation")));
    format!(
        "{} went to the device, {}{}",
        counted(state.dispatched, "request"),
        counted(state.holds, "deliberate wait"),
        failures.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::control::protocol::OperationState;

    #[test]
    fn the_summary_has_failed_operations_only_if_there_are_any() {
        let summary = |failed| {
            let operation = OperationState { done: 3, failed, ..Default::default() };
            let operations = ["flush", "write"].map(|name| (name.to_owned(), operation)).into();
            in_words(&State { dispatched: 27, operations, ..State::default() })
        };
        assert_eq!(summary(0), "27 requests went to the device, 0 deliberate waits");
        assert_eq!(summary(12), "27 requests went to the device, 0 deliberate waits, 24 operations failed");
    }
}
