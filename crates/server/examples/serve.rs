//! A small block server that the tests and benchmarks of this crate run. It shows how the library is used.
//!
//! ```text
//! serve --memory 1G --nbd unix:/tmp/a.sock --scheduler deadline
//! serve --file disk.img --size 4G --nbd unix:/tmp/a.sock --control /tmp/a.ctl
//! serve --fixed 1000 --file /dev/shm/disk --buffered --size 1G --attach
//! serve --drive wd5000aaks --speed 60 --attach
//! ```
//!
//! `--supervised` runs the server below a supervisor, as `dwell serve --attach` does.
//!
//! `--check` checks the queue against the scheduler contract. At the end, violations are printed and make the program fail.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use disks::Fixed;
use elevator::check::Checker;
use elevator::queue::{Event, Observer, Plugging};
use elevator::{Span, Time};
use schedulers::{Environment, Spec};
use server::backend::{Backend, Emulated, Engine, FileBackend, FileOptions, Memory, Nature, Nothing};
use server::control::SchedulerFactory;
use server::nbd::TlsFiles;
use server::{AttachOptions, Configuration, NbdOptions, ServeError, say, supervisor};

#[derive(Default)]
struct Arguments {
    memory: Option<u64>,
    nothing: Option<u64>,
    file: Option<PathBuf>,
    size: Option<u64>,
    buffered: bool,
    engine: Option<Engine>,
    drive: Option<String>,
    fixed_us: Option<u64>,
    depth: Option<u32>,
    scheduler: Option<String>,
    nbd: Vec<String>,
    tls: Option<PathBuf>,
    tls_verify_peer: bool,
    connections: Option<u16>,
    attach: bool,
    runtime: Option<PathBuf>,
    control: Option<PathBuf>,
    poll_us: Option<u64>,
    speed: Option<u32>,
    check: bool,
    plain_queue: bool,
    even_if_used: bool,
    read_only: bool,
    per_address: Option<u16>,
    client_memory: Option<u64>,
    idle_ms: Option<u64>,
    supervised: bool,
    request_timeout_ms: Option<u64>,
    teardown_ms: Option<u64>,
}

fn main() {
    if let Err(error) = serve() {
        say!("{error}");
        std::process::exit(1);
    }
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut arguments = Arguments::default();
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--memory" => arguments.memory = Some(bytes(&value()?)?),
            "--nothing" => arguments.nothing = Some(bytes(&value()?)?),
            "--file" => arguments.file = Some(value()?.into()),
            "--size" => arguments.size = Some(bytes(&value()?)?),
            "--buffered" => arguments.buffered = true,
            "--engine" => arguments.engine = Some(engine(&value()?)?),
            "--drive" => arguments.drive = Some(value()?),
            "--fixed" => arguments.fixed_us = Some(value()?.parse()?),
            "--depth" => arguments.depth = Some(value()?.parse()?),
            "--scheduler" => arguments.scheduler = Some(value()?),
            "--nbd" => arguments.nbd.push(value()?),
            "--tls-verify-peer" => arguments.tls_verify_peer = true,
            "--tls" => arguments.tls = Some(value()?.into()),
            "--connections" => arguments.connections = Some(value()?.parse()?),
            "--attach" => arguments.attach = true,
            "--runtime" => arguments.runtime = Some(value()?.into()),
            "--control" => arguments.control = Some(value()?.into()),
            "--poll" => arguments.poll_us = Some(value()?.parse()?),
            "--speed" => arguments.speed = Some(value()?.parse()?),
            "--check" => arguments.check = true,
            "--plain-queue" => arguments.plain_queue = true,
            "--request-timeout-ms" => arguments.request_timeout_ms = Some(value()?.parse()?),
            "--teardown-ms" => arguments.teardown_ms = Some(value()?.parse()?),
            "--supervised" => arguments.supervised = true,
            "--even-if-used" => arguments.even_if_used = true,
            "--read-only" => arguments.read_only = true,
            "--per-address" => arguments.per_address = Some(value()?.parse()?),
            "--client-memory" => arguments.client_memory = Some(bytes(&value()?)?),
            "--idle-ms" => arguments.idle_ms = Some(value()?.parse()?),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    Ok(arguments)
}

fn bytes(text: &str) -> Result<u64, Box<dyn Error>> {
    let shift = match text.chars().last() {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        _ => 0,
    };
    Ok(text.trim_end_matches(['K', 'M', 'G']).parse::<u64>()? << shift)
}

fn engine(text: &str) -> Result<Engine, Box<dyn Error>> {
    match text {
        "uring" => Ok(Engine::Uring),
        "threads" => Ok(Engine::Threads),
        "inline" => Ok(Engine::Inline),
        other => Err(format!("unknown engine {other}").into()),
    }
}

fn schedulers() -> SchedulerFactory {
    Arc::new(|name| {
        let spec = Spec::parse(name).map_err(|error| error.to_string())?;
        let scheduler = spec.build(&Environment::default()).map_err(|error| error.to_string())?;
        Ok(scheduler)
    })
}

/// A checker that outlives the queue.
#[derive(Clone)]
struct Shared(Arc<Mutex<Option<Checker>>>);

impl Observer for Shared {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        if let Some(checker) = self.0.lock().expect("no thread panics with the lock").as_mut() {
            checker.event(now, event);
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let runtime = arguments.runtime.clone().unwrap_or_else(|| AttachOptions::default().runtime);
    if arguments.supervised
        && let Some(code) = supervisor::supervise(&runtime)?
    {
        std::process::exit(code);
    }
    let name = arguments.scheduler.clone().unwrap_or_else(|| "deadline".to_string());
    let (size, depth) = (arguments.size, arguments.depth.unwrap_or(31));
    let (memory, nothing, file) = (arguments.memory, arguments.nothing, arguments.file.clone());
    let (fixed_us, buffered, engine) = (arguments.fixed_us, arguments.buffered, arguments.engine);
    let (even_if_used, read_only) = (arguments.even_if_used, arguments.read_only);
    let open = |file: &str| File::open(file).map(|file| Box::new(file) as Box<dyn Read>);
    let drive = arguments.drive.as_deref().map(|name| disks::open(name, &mut { open })).transpose()?;
    let backend = move || {
        if let Some((drive, _)) = drive {
            let store = Memory::new(drive.capacity().bytes(), drive.depth());
            let emulated = Emulated::new(drive, Box::new(store), Nature::default())?;
            return Ok(Box::new(emulated) as Box<dyn Backend>);
        }
        let store: Box<dyn Backend> = match (memory, nothing, file) {
            (Some(bytes), ..) => Box::new(Memory::new(bytes, depth)),
            (_, Some(bytes), _) => Box::new(Nothing::new(bytes, depth)),
            (.., Some(path)) => {
                let options =
                    FileOptions { path, direct: !buffered, depth, size, engine, even_if_used, read_only };
                Box::new(FileBackend::open(options)?)
            }
            _ => return Err(ServeError::Configuration("nothing to serve".to_string())),
        };
        let Some(us) = fixed_us else { return Ok(store) };
        let drive = Fixed::new(store.geometry().capacity.bytes(), depth, Span::from_micros(us));
        let emulated = Emulated::new(Box::new(drive), store, Nature::default())?;
        Ok(Box::new(emulated) as Box<dyn Backend>)
    };
    let mut configuration = Configuration::new(backend, &name, schedulers());
    if arguments.plain_queue {
        configuration.options.plugging = Plugging::None;
        configuration.options.merges = false;
    }
    configuration.options.depth = depth;
    configuration.speed = arguments.speed.unwrap_or(1);
    if let Some(us) = arguments.poll_us {
        configuration.poll = Some(Duration::from_micros(us));
    }
    configuration.control = arguments.control;
    configuration.request_timeout = arguments.request_timeout_ms.map(Duration::from_millis);
    if let Some(limit) = arguments.teardown_ms {
        configuration.teardown_limit = Duration::from_millis(limit);
    }
    if !arguments.nbd.is_empty() {
        let addresses = arguments.nbd.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        let tls = arguments.tls.map(|directory| TlsFiles {
            certificates: directory.join("server-cert.pem"),
            key: directory.join("server-key.pem"),
            client_authorities: arguments.tls_verify_peer.then(|| directory.join("ca-cert.pem")),
        });
        let connections = arguments.connections.unwrap_or(16);
        let default = NbdOptions::default();
        configuration.nbd = Some(NbdOptions {
            addresses,
            tls,
            memory: arguments.client_memory,
            connections,
            connections_per_address: arguments.per_address,
            idle: arguments.idle_ms.map_or(default.idle, Duration::from_millis),
            ..default
        });
    }
    if arguments.attach {
        let source = arguments.file.clone();
        configuration.attach = Some(AttachOptions { runtime, source, ..AttachOptions::default() });
    }
    let shared = Shared(Arc::default());
    if arguments.check {
        let shared = shared.clone();
        configuration.observer = Some(Box::new(move |options| {
            *shared.0.lock().expect("no thread panics with the lock") = Some(Checker::new(options));
            Box::new(shared)
        }));
    }
    // A supervisor restarts this program with the same output.
    let is_restart = arguments.supervised;
    let report = server::run(configuration, |server| {
        // Tests wait for the first line, which names what is served.
        if !server.is_resumed() || !is_restart {
            println!("serving {}", server.attached().map_or("sockets".into(), |path| path.to_string_lossy()));
        }
        server.refused().iter().for_each(|what| say!("refused: {what}"));
    })?;
    println!("{}", serde_json::to_string(&report)?);
    if let Some(mut checker) = shared.0.lock().expect("no thread panics with the lock").take() {
        checker.finish();
        if checker.count() > 0 {
            return Err(format!("{} violations: {:#?}", checker.count(), checker.violations()).into());
        }
    }
    Ok(())
}
