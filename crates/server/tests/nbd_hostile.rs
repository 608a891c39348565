//! Clients that violate the protocol or misuse it. Other clients are unaffected.

mod common;

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use common::client::{DISCONNECT, FLUSH, Nbd, READ, TRIM, WRITE, WRITE_ZEROES};
use common::{Directory, Random, Served};

const SIZE: u64 = 64 << 20;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;

fn serve(directory: &Directory) -> (Served, std::path::PathBuf) {
    let socket = directory.join("sock");
    let address = format!("unix:{}", socket.display());
    (Served::start(&["--memory", "64M", "--nbd", &address]), socket)
}

/// Longer than anything takes on a busy machine, and shorter than what never ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks that an ordinary client is served.
fn still_serves(socket: &Path) {
    let began = Instant::now();
    let mut client = Nbd::connect_patiently(socket);
    let data = vec![0x5a; 8192];
    assert_eq!(client.write(4096, &data), 0);
    assert_eq!(client.read(4096, 8192).unwrap(), data);
    assert!(began.elapsed() < PATIENCE, "it took {:?}", began.elapsed());
}

#[test]
fn requests_outside_the_export_are_refused_and_the_connection_continues() {
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let mut client = Nbd::connect(&socket);
    let table = [
        (READ, SIZE - 512, 1024, EINVAL),
        (READ, SIZE, 512, EINVAL),
        (READ, u64::MAX - 511, 1024, EINVAL),
        (READ, 1, 512, EINVAL),
        (READ, 0, 0, EINVAL),
        (READ, 0, 33 << 20, EOVERFLOW),
        (READ, 0, u32::MAX, EINVAL),
        (TRIM, SIZE, 512, EINVAL),
        (WRITE_ZEROES, SIZE - 512, 1024, ENOSPC),
        (WRITE_ZEROES, 0, u32::MAX - 511, ENOSPC),
        (FLUSH, 512, 0, EINVAL),
        (77, 0, 512, EINVAL),
    ];
    for (kind, offset, length, error) in table {
        assert_eq!(client.command(0, kind, offset, length), error, "{kind} {offset}+{length}");
    }
    // The data of a refused write is discarded, and the next request is read.
    client.send_write(0, 9, SIZE - 512, &vec![1; 100_000 - 100_000 % 512]).unwrap();
    assert_eq!(client.reply().unwrap(), (9, ENOSPC));
    assert_eq!(client.read(0, 512).unwrap(), vec![0; 512]);
    still_serves(&socket);
    server.stop();
}

/// libnbd treats a reply to a request that it is still sending as a protocol error and disconnects.
#[test]
fn a_write_is_refused_after_all_of_its_data_has_arrived() {
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let mut client = Nbd::connect(&socket);
    let header = Nbd::header(0, WRITE, 9, SIZE, 1 << 20);
    client.stream.write_all(&[&header[..], &[1; 4096]].concat()).unwrap();
    client.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(client.stream.read(&mut [0; 16]).is_err(), "the client is still sending");
    client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    client.stream.write_all(&vec![1; (1 << 20) - 4096]).unwrap();
    assert_eq!(client.reply().unwrap(), (9, ENOSPC));
    assert_eq!(client.read(0, 512).unwrap(), vec![0; 512]);
    server.stop();
}

#[test]
fn silent_clients_do_not_keep_out_others() {
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let silent: Vec<_> = (0..16).map(|_| Nbd::raw(&socket)).collect();
    let began = Instant::now();
    let mut clients: Vec<Nbd> = (0..16).map(|_| Nbd::connect_patiently(&socket)).collect();
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert!(Nbd::try_connect(&socket).is_err(), "clients that are not idle keep their places");
    assert!(clients.iter_mut().all(|client| client.read(0, 512).is_ok()));
    drop(silent);
    server.stop();
}

/// A regression: the socket was closed with unread requests in it, and TCP then discarded replies that the client had not received.
#[test]
fn a_client_with_unread_requests_receives_all_replies_when_the_server_stops() {
    let port = 20_000 + std::process::id() % 20_000;
    let server = Served::start(&["--memory", "64M", "--nbd", &format!("tcp:127.0.0.1:{port}")]);
    let mut client = std::net::TcpStream::connect(("127.0.0.1", port as u16)).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&client, 64 << 10).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    client
        .write_all(&[&3u32.to_be_bytes(), &b"IHAVEOPT"[..], &1u32.to_be_bytes(), &[0; 4]].concat())
        .unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    let requests: Vec<u8> = (0..10_000).flat_map(|n| Nbd::header(0, READ, n, 0, 64 << 10)).collect();
    client.write_all(&requests).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let report = std::thread::spawn(move || server.stop());
    std::thread::sleep(Duration::from_millis(300));
    let mut replies = Vec::new();
    let ended = client.read_to_end(&mut replies);
    let done = report.join().unwrap()["state"]["operations"]["read"]["done"].as_u64().unwrap();
    assert_eq!(replies.len() as u64, done * (16 + (64 << 10)), "{done} reads completed; {ended:?}");
}

#[test]
fn a_wrong_magic_ends_only_that_connection() {
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let mut client = Nbd::connect(&socket);
    client.stream.write_all(&[0xff; 28]).unwrap();
    assert!(client.reply().is_err(), "the server disconnects");
    let mut raw = Nbd::raw(&socket);
    raw.write_all(&[0xff; 64]).unwrap();
    let mut rest = Vec::new();
    let _ = raw.read_to_end(&mut rest);
    still_serves(&socket);
    server.stop();
}

#[test]
fn incomplete_requests_do_not_delay_other_clients() {
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let mut half_header = Nbd::connect(&socket);
    half_header.stream.write_all(&Nbd::header(0, READ, 1, 0, 512)[..13]).unwrap();
    let mut half_write = Nbd::connect(&socket);
    half_write.stream.write_all(&Nbd::header(0, WRITE, 1, 0, 32 << 20)).unwrap();
    half_write.stream.write_all(&vec![0xee; 3 << 20]).unwrap();
    let silent = Nbd::raw(&socket);
    still_serves(&socket);
    // An incomplete write is not executed, even when its client disconnects.
    drop(half_write);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(Nbd::connect(&socket).read(0, 512).unwrap(), vec![0; 512]);
    drop((half_header, silent));
    let report = server.stop();
    assert_eq!(report["state"]["unfinished"], 0);
}

#[test]
fn the_memory_of_a_client_that_never_reads_its_replies_is_bounded() {
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let before = server.resident();
    let mut deaf: Vec<Nbd> = (0..4).map(|_| Nbd::connect(&socket)).collect();
    for client in &mut deaf {
        client.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        // A thousand reads of 4 MiB would have 4 GB of replies.
        for cookie in 0..1000 {
            if client.send(0, READ, cookie, 0, 4 << 20).is_err() {
                break;
            }
        }
    }
    still_serves(&socket);
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 4 * (48 << 20) + (64 << 20), "the server grew by {} MiB", grown >> 20);
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < PATIENCE, "the server waits too long for clients that do not read");
}

/// All clients together may hold 16 MiB, of which each has 256 KiB of its own.
#[test]
fn clients_that_do_not_read_neither_exceed_the_memory_of_all_nor_affect_others() {
    let directory = Directory::in_memory();
    let (file, socket) = (directory.join("disk"), directory.join("sock"));
    let (file, address) = (file.to_string_lossy().into_owned(), format!("unix:{}", socket.display()));
    let limits = ["--client-memory", "16M", "--idle-ms", "500"];
    let fixed = ["--file", &file, "--size", "64M", "--nbd", &address];
    let (server, words) = Served::start_heard(&[&fixed[..], &limits].concat());
    let mut small = Nbd::connect(&socket);
    assert_eq!(small.write(0, &[0x5a; 4096]), 0);
    let before = server.resident();
    let mut deaf: Vec<Nbd> = (0..12).map(|_| Nbd::connect(&socket)).collect();
    for client in &mut deaf {
        client.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let _ = (0..256).try_for_each(|cookie| client.send(0, READ, cookie, 0, 1 << 20));
    }
    // A client with small requests has memory of its own.
    for _ in 0..100 {
        assert_eq!(small.read(0, 4096).unwrap(), [0x5a; 4096]);
    }
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 32 << 20, "the server grew by {} MiB", grown >> 20);
    // A large request waits until the others have lost theirs.
    let mut large = Nbd::connect(&socket);
    assert_eq!(large.read(0, 8 << 20).unwrap().len(), 8 << 20);
    let data = vec![0xa5; 5 << 20];
    assert_eq!(large.write(1 << 20, &data), 0);
    assert_eq!(large.read(1 << 20, 5 << 20).unwrap(), data);
    // A longer one would never have room.
    assert_eq!(large.read(0, 16 << 20).unwrap_err(), EOVERFLOW);
    assert_eq!(small.read(0, 4096).unwrap(), [0x5a; 4096]);
    drop(deaf);
    server.stop();
    let words = std::io::read_to_string(words).unwrap();
    assert!(words.contains("and another client waits for memory"), "{words}");
    assert!(words.contains("NBD clients share 8 MiB of memory, beside 256 KiB for each of 16"), "{words}");
}

/// Large replies are not copied into the socket: the client copies them from the disk's memory when it reads them.
#[test]
fn a_reply_that_is_read_late_has_the_data_of_the_time_of_the_read() {
    const LONG: usize = 128 << 10;
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let mut writer = Nbd::connect(&socket);
    let patterns = [1u8, 2, 3, 4].map(|byte| vec![byte; 8 * LONG]);
    assert_eq!(writer.write(0, &patterns[0]), 0);
    let mut late: Vec<Nbd> = (0..3).map(|_| Nbd::connect(&socket)).collect();
    for (client, pattern) in late.iter_mut().zip(&patterns[1..]) {
        for cookie in 0..8 {
            client.send(0, READ, cookie, cookie * LONG as u64, LONG as u32).unwrap();
        }
        // After a disconnect request, the server closes its end; its replies can still be read.
        client.send(0, DISCONNECT, 0, 0, 0).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        // As one write and as writes of half a chunk.
        assert_eq!(writer.write(0, &pattern[..4 * LONG]), 0);
        for half in 8..16 {
            let at = half * LONG / 2;
            assert_eq!(writer.write(at as u64, &pattern[at..at + LONG / 2]), 0);
        }
        assert_eq!(writer.command(0, TRIM, 0, LONG as u32), 0);
        assert_eq!(writer.write(0, &pattern[..LONG]), 0);
    }
    for (client, pattern) in late.iter_mut().zip(&patterns) {
        for _ in 0..8 {
            assert_eq!(client.reply().unwrap().1, 0);
            let mut data = vec![0; LONG];
            client.stream.read_exact(&mut data).unwrap();
            assert!(data == pattern[..LONG], "{} instead of {}", data[0], pattern[0]);
        }
    }
    assert!(writer.read(0, 8 * LONG as u32).unwrap() == patterns[3]);
    server.stop();
}

#[test]
fn clients_beyond_the_limit_are_refused_until_one_leaves() {
    let directory = Directory::in_memory();
    let socket = directory.join("sock");
    let address = format!("unix:{}", socket.display());
    let (server, words) = Served::start_heard(&["--memory", "1M", "--nbd", &address, "--connections", "2"]);
    let (one, _two) = (Nbd::connect(&socket), Nbd::connect(&socket));
    for _ in 0..10 {
        assert!(Nbd::try_connect(&socket).is_err());
    }
    drop(one);
    Nbd::connect_patiently(&socket).read(0, 512).unwrap();
    server.stop();
    let words = std::io::read_to_string(words).unwrap();
    let lines = words.matches("refused: all 2 places for clients are taken").count();
    assert_eq!(lines, 1, "one line a minute: {words}");
}

#[test]
fn random_bytes_in_every_phase_do_not_affect_other_clients() {
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let mut random = Random(0x5eed);
    for round in 0..200 {
        let mut stream = match round % 3 {
            0 => Nbd::raw(&socket),
            _ => Nbd::connect_patiently(&socket).stream,
        };
        let mut bytes: Vec<u8> = (0..random.below(400)).map(|_| random.next() as u8).collect();
        if round % 3 == 2 {
            // Headers with a correct magic number and random fields.
            let kind = random.below(9) as u16;
            let length = random.below(1 << 17) as u32;
            bytes =
                [Nbd::header(random.below(8) as u16, kind, 1, random.below(SIZE), length), bytes].concat();
        }
        let _ = stream.write_all(&bytes);
    }
    still_serves(&socket);
    server.stop();
}

const NO_HOLE: u16 = 2;

/// Zeroes with `NBD_CMD_FLAG_NO_HOLE` take one operation for each MiB, which a disk in memory completes immediately.
#[test]
fn a_client_with_many_large_write_zeroes_does_not_delay_others() {
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let mut greedy = Nbd::connect(&socket);
    for cookie in 0..1000 {
        greedy.send(NO_HOLE, WRITE_ZEROES, cookie, 1 << 20, 63 << 20).unwrap();
    }
    still_serves(&socket);
    greedy.stream.set_nonblocking(true).unwrap();
    let replies = std::iter::from_fn(|| greedy.reply().ok()).count();
    assert!(replies < 1000, "the server was not busy");
    drop(greedy);
    server.stop();
}

#[test]
fn the_remaining_work_of_a_client_that_is_gone_is_not_done() {
    // Seconds of work, so that the client has left before the half of it is done.
    const REQUESTS: u64 = 200;
    let directory = Directory::in_memory();
    let (server, socket) = serve(&directory);
    let mut gone = Nbd::connect(&socket);
    for cookie in 0..REQUESTS {
        gone.send(NO_HOLE, WRITE_ZEROES, cookie, 0, 64 << 20).unwrap();
    }
    // The client disconnects before the reply.
    gone.send(0, FLUSH, REQUESTS, 0, 0).unwrap();
    drop(gone);
    let report = server.stop();
    let written = report["state"]["operations"]["write"]["bytes"].as_u64().unwrap();
    assert!(written < REQUESTS * SIZE / 2, "{} MiB", written >> 20);
    assert_eq!(report["state"]["unfinished"], 0);
}

/// The client sends more than the server holds for one client: the rest waits in the socket, and the server's receive memory is full.
#[test]
fn a_client_that_exceeds_its_memory_receives_all_replies() {
    const LONG: usize = 3 << 20;
    let directory = Directory::in_memory();
    let socket = directory.join("sock");
    let address = format!("unix:{}", socket.display());
    let server = Served::start(&["--memory", "64M", "--fixed", "2000", "--nbd", &address]);
    let mut client = Nbd::connect(&socket);
    let mut writer = Nbd { stream: client.stream.try_clone().unwrap() };
    // Large writes, after each of which only the next header is received; then large reads, and many small ones.
    let writing = std::thread::spawn(move || -> std::io::Result<()> {
        (0..20).try_for_each(|n| writer.send_write(0, n, n * LONG as u64, &vec![n as u8 + 1; LONG]))?;
        (20..40).try_for_each(|n| writer.send(0, READ, n, (n - 20) * LONG as u64, LONG as u32))?;
        (40..6000).try_for_each(|n| writer.send(0, READ, n, 0, 512))
    });
    let mut data = vec![0; LONG];
    for n in 0..6000 {
        let (cookie, error) = client.reply().unwrap_or_else(|error| panic!("after {n} replies: {error}"));
        assert_eq!(error, 0);
        let length = [0, LONG, 512][usize::from(cookie >= 20) + usize::from(cookie >= 40)];
        client.stream.read_exact(&mut data[..length]).unwrap();
        if length == LONG {
            assert!(data.iter().all(|&byte| u64::from(byte) == cookie - 19));
        }
    }
    writing.join().unwrap().unwrap();
    server.stop();
}
