//! `dwell serve`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use disks::{Drive, Truncated};
use elevator::queue::{Barriers, Limits, Supervision};
use elevator::text::counted;
use elevator::{SECTOR_BYTES, Scheduler, Sector, Span};
use schedulers::Environment;
use schedulers::registry::Catalogue;
use server::backend::{Backend, Emulated, FileBackend, FileOptions, Memory, Nature, Nothing};
use server::control::SchedulerFactory;
use server::control::protocol::State;
use server::nbd::{Address, TlsFiles};
use server::{AttachOptions, Configuration, NbdOptions, Report, ServeError, TimesSummary, supervisor};

use crate::arguments::{IdentifyBy, ServeArguments};
use crate::device::{Device, tell};
use crate::error::Error;
use crate::format::{bytes, object, time};
use crate::live::node_meant;
use crate::quantity::{size, span};
use crate::{identity, named, profile, systemd};

pub(crate) fn run(arguments: &ServeArguments, catalogue: Catalogue) -> Result<(), Error> {
    if arguments.attach && source(arguments).is_some() && supervisor::is_needed() {
        std::process::exit(supervisor::supervise(&AttachOptions::default().runtime)?);
    }
    let asked = arguments.size.as_deref().map(size).transpose()?;
    let configuration = configuration(arguments, asked, catalogue)?;
    let scheduler = named::spec(catalogue, &configuration.scheduler)?;
    let report = server::run_with(configuration, |server| {
        // Whoever wanted to know may have gone: others are served all the same.
        let mut out = std::io::stdout().lock();
        if let (Some(path), false) = (server.attached(), server.is_resumed()) {
            let _ = writeln!(out, "{}", path.display());
        }
        for address in server.addresses() {
            let _ = writeln!(out, "{address}");
        }
        server.refused().iter().for_each(|what| say!("not granted: {what}"));
        // Files and devices of such a size are refused.
        if asked.is_some_and(|size| size % SECTOR_BYTES > 0) {
            let served = server.geometry().capacity.bytes();
            say!("--size is no whole number of sectors: {served} bytes are served");
        }
        // A drive that queues fewer than were asked for is given as many as it queues.
        let depth = arguments.depth.min(server.geometry().depth).max(1);
        let at_once = counted(u64::from(depth), "request");
        let serving = format!("serving {} under {scheduler}, at most {at_once} at once", what(arguments));
        say!("{serving}; Ctrl-C ends it");
        systemd::tell(&[systemd::State::Ready, systemd::State::Status(&serving)]);
    })
    .map_err(|error| failed(&error))?;
    print(arguments, &report)
}

fn failed(error: &ServeError) -> Error {
    match error {
        ServeError::Configuration(_) => Error::Usage(error.to_string()),
        ServeError::Refused { .. } => Error::Permission(error.to_string()),
        ServeError::Unfit { path, .. } => Error::Input(error.to_string() + &node_meant(path)),
        ServeError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
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

fn configuration(
    arguments: &ServeArguments,
    size: Option<u64>,
    catalogue: Catalogue,
) -> Result<Configuration, Error> {
    if !arguments.attach && arguments.nbd.is_empty() {
        return Err(Error::Usage("nobody could reach it: give --attach, --nbd, or both".to_owned()));
    }
    if size.is_some_and(|size| size < SECTOR_BYTES) {
        return Err(Error::Usage(format!(
            "--size: a device has at least one sector of {SECTOR_BYTES} bytes"
        )));
    }
    let device = arguments.drive.as_deref().map(Device::open).transpose()?;
    device.iter().for_each(|device| tell(device.notes()));
    let environment = environment(arguments, device.as_ref())?;
    let factory = schedulers(catalogue, environment);
    let scheduler = named::full_name(catalogue, &arguments.scheduler)?;
    named::of_one_device(catalogue, &scheduler)?;
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
    configuration.identify = arguments.identify.map(|IdentifyBy::Bpf| identity::by_bpf());
    configuration.nbd = nbd(arguments)?;
    Ok(configuration)
}

/// The file or device that keeps the data when this process dies.
fn source(arguments: &ServeArguments) -> Option<std::path::PathBuf> {
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
        _ => Err(Error::Usage(
            "say what to serve: a file or device, --drive, or --memory with --size".to_owned(),
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
    // The store goes through the page cache: it must be faster than any disk.
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

/// What a host is told of a drive that is emulated.
pub(crate) fn nature(device: &Device) -> Nature {
    let (rotational, barriers) = (device.rotational(), device.barriers(Barriers::Completed));
    Nature { rotational, barriers, ..Nature::default() }
}

/// That file or device, which may be in use if that was said twice.
fn claimed(arguments: &ServeArguments, path: &Path) -> FileOptions {
    let read_only = arguments.read_only;
    FileOptions { even_if_used: arguments.even_if_used >= 2, read_only, ..FileOptions::new(path) }
}

/// What schedulers are told: what was measured on the device itself, else what its model says.
fn environment(arguments: &ServeArguments, device: Option<&Device>) -> Result<Environment, Error> {
    let mut environment =
        device.map_or_else(Environment::default, |device| device.environment(&Limits::default()));
    if let Some(path) = &arguments.profile {
        let profile = profile::read(path)?;
        environment.service_times = profile.service_curve();
        environment.rotational = profile.rotational;
    }
    Ok(environment)
}

/// Makes schedulers by name for a device that is served.
pub(crate) fn schedulers(catalogue: Catalogue, environment: Environment) -> SchedulerFactory {
    Arc::new(move |name| {
        let spec = named::of_one_device(catalogue, name).map_err(|error| error.to_string())?;
        let scheduler = spec.build(&environment).map_err(|error| error.to_string())?;
        Ok(scheduler as Box<dyn Scheduler>)
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
    let is_control = |address: &Address| matches!(address, Address::Unix(path) if arguments.control.as_ref() == Some(path));
    if addresses.iter().any(is_control) {
        return Err(Error::Usage(
            "--nbd and --control name the same socket; each has one of its own".to_owned(),
        ));
    }
    Ok(Some(NbdOptions {
        addresses,
        tls,
        connections: arguments.connections,
        connections_per_address: arguments.connections_per_address,
        ..NbdOptions::default()
    }))
}

fn print(arguments: &ServeArguments, report: &Report) -> Result<(), Error> {
    if arguments.json {
        return Ok(writeln!(std::io::stdout(), "{}", object(report)?)?);
    }
    let state = &report.state;
    say!("{}", in_words(state));
    if arguments.drive.is_some() {
        let TimesSummary { count, p50_ns, p99_ns, max_ns, .. } = state.lateness;
        say!(
            "answers late by {} (median), {} (p99), {} (longest) over {count}",
            time(p50_ns),
            time(p99_ns),
            time(max_ns)
        );
    }
    Ok(())
}

/// What there was to do, and what could not be done.
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
    fn what_failed_is_told_at_the_end_if_anything_did() {
        let told = |failed| {
            let operation = OperationState { done: 3, failed, ..Default::default() };
            let operations = ["flush", "write"].map(|name| (name.to_owned(), operation)).into();
            in_words(&State { dispatched: 27, operations, ..State::default() })
        };
        assert_eq!(told(0), "27 requests went to the device, 0 deliberate waits");
        assert_eq!(told(12), "27 requests went to the device, 0 deliberate waits, 24 operations failed");
    }
}
