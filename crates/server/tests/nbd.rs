//! The operations that NBD requests become in the device, and the replies that operations become.

mod common;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::Directory;
use common::client::{BLOCK_STATUS, FLUSH, FUA, Nbd, READ, REQ_ONE, TRIM, WRITE, WRITE_ZEROES};
use elevator::queue::Cache;
use elevator::{Op, Time};
use rustix::io::Errno;
use schedulers::{Environment, Spec};
use server::backend::{Backend, Done, Extent, Extents, Geometry, Job, Memory};
use server::nbd::Address;
use server::{Configuration, NbdOptions, Server};

/// First sectors of the last two MiB, in which every operation fails: with `ENOSPC`, and with `EOPNOTSUPP`.
const FULL: u64 = 16 << 11;
const UNSUPPORTED: u64 = FULL + (1 << 11);
const BYTES: u64 = (UNSUPPORTED + (1 << 11)) << 9;

/// The operations that the back end was given, and whether each had FUA.
type Operations = Arc<Mutex<Vec<(Op, bool)>>>;

/// Memory with a cache that records its operations and fails in two ranges. Every other MiB holds data.
struct Watched {
    memory: Memory,
    operations: Operations,
    failed: VecDeque<(Job, Errno)>,
    slow: Option<Arc<dyn Extents>>,
}

/// Answers after a message on the channel, and panics if none arrives.
struct Slow(Mutex<Receiver<()>>);

impl Extents for Slow {
    fn extent(&self, _offset: u64, most: u64) -> Extent {
        self.0.lock().unwrap().recv_timeout(Duration::from_secs(60)).expect("a message");
        Extent { bytes: most, data: false }
    }
}

impl Backend for Watched {
    fn geometry(&self) -> Geometry {
        Geometry { cache: Cache::WriteBack { fua: true }, ..self.memory.geometry() }
    }

    fn start(&mut self, now: Time, job: Job) {
        self.operations.lock().unwrap().push((job.op, job.fua));
        let end = job.start.0 + u64::from(job.sectors.0);
        match () {
            () if end > UNSUPPORTED => self.failed.push_back((job, Errno::OPNOTSUPP)),
            () if end > FULL => self.failed.push_back((job, Errno::NOSPC)),
            () => self.memory.start(now, job),
        }
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        let failed = self.failed.pop_front().map(|(job, error)| Done { job, at: now, result: Err(error) });
        failed.or_else(|| self.memory.poll(now))
    }

    fn extent(&mut self, offset: u64, most: u64) -> Extent {
        let left = (1 << 20) - offset % (1 << 20);
        Extent { bytes: left.min(most), data: (offset >> 20).is_multiple_of(2) }
    }

    fn slow_extents(&self) -> Option<Arc<dyn Extents>> {
        self.slow.clone()
    }

    fn describe(&self) -> String {
        "watched memory".to_string()
    }
}

fn serve(directory: &Directory) -> (Server, Operations, std::path::PathBuf) {
    serve_with(directory, None)
}

fn serve_with(
    directory: &Directory,
    slow: Option<Arc<dyn Extents>>,
) -> (Server, Operations, std::path::PathBuf) {
    let operations = Operations::default();
    let backend = {
        let operations = operations.clone();
        move || {
            let memory = Memory::new(BYTES, 8);
            Ok(Box::new(Watched { memory, operations, failed: VecDeque::new(), slow }) as Box<dyn Backend>)
        }
    };
    let schedulers = Arc::new(|name: &str| {
        let built = Spec::parse(name).unwrap().build(&Environment::default());
        built.map(|scheduler| scheduler as Box<dyn elevator::Scheduler>).map_err(|error| error.to_string())
    });
    let socket = directory.join("sock");
    let mut configuration = Configuration::new(backend, "noop", schedulers);
    let addresses = vec![Address::Unix(socket.clone())];
    configuration.nbd = Some(NbdOptions { addresses, ..NbdOptions::default() });
    (server::start(configuration).unwrap(), operations, socket)
}

#[test]
fn fua_becomes_fua_or_a_flush_after_the_last_operation() {
    let directory = Directory::in_memory();
    let (server, operations, socket) = serve(&directory);
    let mut client = Nbd::connect(&socket);
    let mut becomes = |flags, kind| {
        operations.lock().unwrap().clear();
        let (offset, length) = if kind == FLUSH { (0, 0) } else { (8192, 4096) };
        let error = match kind {
            WRITE => {
                client.send_write(flags, 1, offset, &[1; 4096]).unwrap();
                client.reply().unwrap().1
            }
            _ => client.command(flags, kind, offset, length),
        };
        assert_eq!(error, 0);
        operations.lock().unwrap().clone()
    };
    assert_eq!(becomes(0, WRITE), [(Op::Write, false)]);
    assert_eq!(becomes(FUA, WRITE), [(Op::Write, true)]);
    assert_eq!(becomes(0, WRITE_ZEROES), [(Op::Write, false)]);
    assert_eq!(becomes(FUA, WRITE_ZEROES), [(Op::Write, false), (Op::Flush, false)]);
    assert_eq!(becomes(0, TRIM), [(Op::Discard, false)]);
    assert_eq!(becomes(FUA, TRIM), [(Op::Discard, false), (Op::Flush, false)]);
    assert_eq!(becomes(0, FLUSH), [(Op::Flush, false)]);
    drop(client);
    server.stop().unwrap();
}

#[test]
fn errors_have_the_numbers_of_the_protocol() {
    const ENOSPC: u32 = 28;
    const EIO: u32 = 5;
    let directory = Directory::in_memory();
    let (server, _, socket) = serve(&directory);
    let mut client = Nbd::connect(&socket);
    let (full, unsupported) = (FULL << 9, UNSUPPORTED << 9);
    assert_eq!(client.write(full, &[1; 4096]), ENOSPC);
    assert_eq!(client.command(0, WRITE_ZEROES, full, 4096), ENOSPC);
    assert_eq!(client.command(0, TRIM, full, 4096), ENOSPC);
    assert_eq!(client.write(unsupported, &[1; 4096]), EIO);
    assert_eq!(client.command(0, TRIM, unsupported, 4096), 0, "a trim is advice");
    assert_eq!(client.command(FUA, TRIM, unsupported, 4096), 0);
    drop(client);
    server.stop().unwrap();
}

/// Kinds of chunks.
const DATA: u16 = 1;
const EXTENTS: u16 = 5;
const ERROR: u16 = 1 << 15 | 1;

#[test]
fn a_read_that_fails_in_part_ends_with_an_error_chunk() {
    let directory = Directory::in_memory();
    let (server, _, socket) = serve(&directory);
    let mut client = Nbd::connect_structured(&socket);
    client.send(0, READ, 7, (FULL << 9) - (2 << 20), 3 << 20).unwrap();
    let chunks = client.chunks(7);
    let (error, data) = chunks.split_last().unwrap();
    assert_eq!((error.0, &error.1[..4]), (ERROR, &28u32.to_be_bytes()[..]));
    assert!(data.len() == 2 && data.iter().all(|(kind, _)| *kind == DATA));
    client.send(0, READ, 8, 0, 3 << 20).unwrap();
    let chunks = client.chunks(8);
    let mut offsets: Vec<u64> =
        chunks.iter().map(|(_, data)| u64::from_be_bytes(data[..8].try_into().unwrap())).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [0, 1 << 20, 2 << 20]);
    assert!(chunks.iter().all(|(kind, data)| *kind == DATA && data.len() == 8 + (1 << 20)));
    drop(client);
    server.stop().unwrap();
}

#[test]
fn extents_end_with_the_requested_range_or_after_the_first() {
    let directory = Directory::in_memory();
    let (server, _, socket) = serve(&directory);
    let mut client = Nbd::connect_structured(&socket);
    let mut extents = |flags| -> Vec<(u32, u32)> {
        client.send(flags, BLOCK_STATUS, 9, 512 << 10, 2 << 20).unwrap();
        let chunks = client.chunks(9);
        let [(EXTENTS, data)] = &chunks[..] else { panic!("one chunk of extents: {chunks:?}") };
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        assert_eq!(number(&data[..4]), 1, "the number of the context");
        data[4..].chunks(8).map(|extent| (number(&extent[..4]), number(&extent[4..]))).collect()
    };
    assert_eq!(extents(REQ_ONE), [(512 << 10, 0)]);
    // A hole that reads as zeroes.
    assert_eq!(extents(0), [(512 << 10, 0), (1 << 20, 3), (512 << 10, 0)]);
    client.send(0, BLOCK_STATUS, 9, 1, 512).unwrap();
    assert_eq!(client.chunks(9)[0].0, ERROR);
    drop(client);
    server.stop().unwrap();
}

/// Otherwise the server waits, for some time, until its last client has taken the last replies.
#[test]
fn a_server_without_clients_stops_at_once() {
    let directory = Directory::in_memory();
    let (server, _, socket) = serve(&directory);
    assert_eq!(server.addresses(), [format!("unix:{}", socket.display())]);
    let mut client = Nbd::connect(&socket);
    assert_eq!(client.write(0, &[1; 4096]), 0);
    drop(client);
    let begun = Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

/// A file system may have to read from the disk where a file has data.
#[test]
fn a_client_that_waits_for_a_block_status_does_not_delay_others() {
    let directory = Directory::in_memory();
    let (let_go, gate) = channel();
    let (server, _, socket) = serve_with(&directory, Some(Arc::new(Slow(Mutex::new(gate)))));
    let mut clients = [0, 1].map(|_| Nbd::connect_structured(&socket));
    for client in &mut clients {
        client.send(0, BLOCK_STATUS, 9, 1 << 20, 2 << 20).unwrap();
    }
    let mut other = Nbd::connect(&socket);
    assert_eq!(other.write(0, &[1; 4096]), 0);
    let [gone, mut waits] = clients;
    drop(gone);
    assert_eq!(other.write(0, &[1; 4096]), 0);
    (0..2).for_each(|_| let_go.send(()).unwrap());
    let chunks = waits.chunks(9);
    let whole_hole = [1, 2 << 20, 3].map(u32::to_be_bytes).concat();
    assert_eq!(chunks, [(EXTENTS, whole_hole)]);
    drop((waits, other));
    server.stop().unwrap();
}
