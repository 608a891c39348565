//! Admission of clients, and the effect of clients without a place on others.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::client::{FLUSH, Nbd, READ, TRIM, WRITE, WRITE_ZEROES};
use common::tls::{Encrypted, Plain, certificates, read_certificate, tcp_from};
use common::{Directory, Served};

fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    (20_000 + (std::process::id() * 8 + NEXT.fetch_add(1, Ordering::Relaxed)) % 30_000) as u16
}

/// Serves 64 MiB of memory to clients with a certificate, by TCP, and to its owner by a unix socket.
fn serve_verifying(directory: &Directory, arguments: &[&str]) -> (Served, u16, PathBuf) {
    let (port, socket) = (port(), directory.join("sock"));
    let (tcp, unix) = (format!("tcp:127.0.0.1:{port}"), format!("unix:{}", socket.display()));
    let tls = certificates().to_string_lossy().into_owned();
    let fixed = ["--memory", "64M", "--nbd", &tcp, "--nbd", &unix, "--tls", &tls, "--tls-verify-peer"];
    (Served::start(&[&fixed[..], arguments].concat()), port, socket)
}

fn holder_connects(port: u16) -> bool {
    Encrypted::connect(port, Some("client")).and_then(|mut client| client.read_sector()).is_ok()
}

#[test]
fn only_holders_of_a_certificate_of_the_authority_are_served() {
    let directory = Directory::in_memory();
    let (server, port, _) = serve_verifying(&directory, &[]);
    assert!(holder_connects(port));
    assert!(Encrypted::connect(port, None).is_err(), "no certificate");
    assert!(Encrypted::connect(port, Some("stranger")).is_err(), "another authority's certificate");
    let plain = Plain::connect_from(1, port).err().unwrap().to_string();
    assert!(plain.contains("0x80000005"), "NBD_REP_ERR_TLS_REQD: {plain}");
    server.stop();
}

#[test]
fn silent_peers_do_not_keep_out_holders_of_a_certificate() {
    let directory = Directory::in_memory();
    let (server, port, socket) = serve_verifying(&directory, &[]);
    let mut silent: Vec<TcpStream> = Vec::new();
    for peers in [32, 500] {
        while silent.len() < peers {
            silent.push(tcp_from(1, port).unwrap());
        }
        let holders = (0..10).filter(|_| holder_connects(port)).count();
        assert_eq!(holders, 10, "beside {peers} silent peers");
        Nbd::connect(&socket).read(0, 512).unwrap();
    }
    let count = |what: &str| fs::read_dir(format!("/proc/{}/{what}", server.pid())).unwrap().count();
    let (threads, descriptors) = (count("task"), count("fd"));
    assert!(threads < 64 + 30 && descriptors < 64 + 40, "{threads} threads, {descriptors} descriptors");
    server.stop();
}

/// Peers that make progress are displaced later than silent ones, but cannot exclude other clients either.
#[test]
fn peers_that_stop_in_the_middle_of_a_handshake_do_not_keep_out_holders_of_a_certificate() {
    let directory = Directory::in_memory();
    let (server, port, _) = serve_verifying(&directory, &[]);
    let stalled: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut stream = tcp_from(1, port).unwrap();
            // Flags, and half of the peers STARTTLS.
            let _ = stream.write_all(&3u32.to_be_bytes());
            if n % 2 == 0 {
                let _ = stream.write_all(&[b"IHAVEOPT", &[0, 0, 0, 5, 0, 0, 0, 0][..]].concat());
            }
            stream
        })
        .collect();
    assert_eq!((0..10).filter(|_| holder_connects(port)).count(), 10);
    drop(stalled);
    server.stop();
}

/// How long the server keeps a connection on which `next` is sent each second.
fn kept(mut stream: TcpStream, first: &[u8], next: &[u8]) -> Duration {
    let began = Instant::now();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(first).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    while !matches!(stream.read(&mut [0; 64]), Ok(0)) && began.elapsed() < Duration::from_secs(60) {
        if !next.is_empty() && stream.write_all(next).is_err() {
            break;
        }
    }
    began.elapsed()
}

#[test]
fn a_handshake_has_5_s_for_the_first_bytes_and_15_s_in_all() {
    let directory = Directory::in_memory();
    let (server, port, _) = serve_verifying(&directory, &[]);
    let [silent, slow] = [(&b""[..], &b""[..]), (&[0, 0, 0, 3], b"I")].map(|(first, next)| {
        let stream = tcp_from(1, port).unwrap();
        thread::spawn(move || kept(stream, first, next).as_secs())
    });
    let (silent, slow) = (silent.join().unwrap(), slow.join().unwrap());
    // A busy machine may be late, but it treats both alike.
    assert!(silent >= 4 && slow >= 14 && silent < slow && slow < 60, "{silent} s, {slow} s");
    server.stop();
}

#[test]
fn a_flood_of_tcp_connections_does_not_affect_the_unix_socket() {
    let directory = Directory::in_memory();
    let (server, port, socket) = serve_verifying(&directory, &[]);
    let stop = AtomicBool::new(false);
    let flooded = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut peers: Vec<TcpStream> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    peers.extend(tcp_from(1, port));
                    flooded.fetch_add(1, Ordering::Relaxed);
                    if peers.len() == 100 {
                        thread::sleep(Duration::from_millis(300));
                        peers.clear();
                    }
                }
            });
        }
        // More than all handshakes and places.
        while flooded.load(Ordering::Relaxed) < 100 {
            thread::sleep(Duration::from_millis(10));
        }
        let connected =
            (0..200).filter(|_| Nbd::try_connect(&socket).is_ok_and(|mut nbd| nbd.read(0, 512).is_ok()));
        let connected = connected.count();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(connected, 200);
    });
    server.stop();
}

#[test]
fn one_address_cannot_take_all_places() {
    let port = port();
    let address = format!("tcp:127.0.0.1:{port}");
    let server = Served::start(&["--memory", "1M", "--nbd", &address, "--connections", "4"]);
    let mut clients: Vec<Plain> = (0..3).map(|_| Plain::connect_from(1, port).unwrap()).collect();
    let refused = Plain::connect_from(1, port).err().unwrap().to_string();
    assert!(refused.contains("its address has reached the limit for one address, 3"), "{refused}");
    clients.push(Plain::connect_from(2, port).unwrap());
    let refused = Plain::connect_from(3, port).err().unwrap().to_string();
    assert!(refused.contains("all 4 places for clients are taken"), "{refused}");
    assert!(clients.iter_mut().all(|client| client.read_sector().is_ok()));
    drop(clients);
    server.stop();
}

#[test]
fn unix_and_tcp_clients_have_separate_places() {
    let directory = Directory::in_memory();
    let (server, port, socket) = serve_verifying(&directory, &["--connections", "1"]);
    let mut tcp = Encrypted::connect(port, Some("client")).unwrap();
    let mut unix = Nbd::connect(&socket);
    assert!(Encrypted::connect(port, Some("client")).is_err() && Nbd::try_connect(&socket).is_err());
    tcp.read_sector().unwrap();
    unix.read(0, 512).unwrap();
    drop((tcp, unix));
    server.stop();
}

fn is_disconnected(stream: &mut impl Read) -> bool {
    matches!(stream.read(&mut [0]), Ok(0) | Err(_))
}

#[test]
fn an_idle_client_gives_its_place_to_one_that_waits() {
    let directory = Directory::in_memory();
    let (server, port, socket) = serve_verifying(&directory, &["--connections", "1", "--idle-ms", "200"]);
    let mut idle = Nbd::connect(&socket);
    idle.read(0, 512).unwrap();
    let mut idle_tls = Encrypted::connect(port, Some("client")).unwrap();
    idle_tls.read_sector().unwrap();
    thread::sleep(Duration::from_millis(400));
    assert!(idle.read(0, 512).is_ok(), "without another client, an idle one stays");
    assert!(Nbd::try_connect(&socket).is_err(), "it has just been served");
    thread::sleep(Duration::from_millis(400));
    let mut next = Nbd::connect(&socket);
    next.read(0, 512).unwrap();
    assert!(is_disconnected(&mut idle.stream));
    Encrypted::connect(port, Some("client")).unwrap().read_sector().unwrap();
    assert!(is_disconnected(&mut idle_tls.stream));
    drop(next);
    server.stop();
}

/// Such a client makes no progress, and occupies a place.
#[test]
fn a_client_that_stopped_in_the_middle_of_a_write_or_of_its_replies_gives_its_place() {
    let directory = Directory::in_memory();
    let (server, _, socket) = serve_verifying(&directory, &["--connections", "2", "--idle-ms", "200"]);
    let mut half = Nbd::connect(&socket);
    half.stream.write_all(&Nbd::header(0, WRITE, 1, 0, 1 << 20)).unwrap();
    half.stream.write_all(&[1; 4096]).unwrap();
    let mut deaf = Nbd::connect(&socket);
    for cookie in 0..8 {
        deaf.send(0, READ, cookie, 0, 4 << 20).unwrap();
    }
    thread::sleep(Duration::from_millis(1000));
    let mut next = [0, 1].map(|_| Nbd::connect(&socket));
    assert!(next.iter_mut().all(|client| client.read(0, 512).is_ok()));
    drop(next);
    server.stop();
}

#[test]
fn a_busy_client_never_gives_its_place() {
    let directory = Directory::in_memory();
    let socket = directory.join("sock");
    let address = format!("unix:{}", socket.display());
    // Each request takes 8 s, forty times as long as a client must be idle.
    let server = Served::start(&[
        "--memory",
        "1M",
        "--fixed",
        "8000000",
        "--nbd",
        &address,
        "--connections",
        "1",
        "--idle-ms",
        "200",
    ]);
    let mut busy = Nbd::connect(&socket);
    busy.send(0, READ, 7, 0, 512).unwrap();
    let until = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < until {
        assert!(Nbd::try_connect(&socket).is_err());
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(busy.reply().unwrap(), (7, 0));
    busy.stream.read_exact(&mut [0; 512]).unwrap();
    drop(busy);
    server.stop();
}

#[test]
fn a_read_only_server_changes_nothing_and_shares_its_file_with_readers() {
    const EPERM: u32 = 1;
    let directory = Directory::on_disk();
    let file = directory.join("disk");
    fs::write(&file, vec![0x5a; 1 << 20]).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
    let path = file.to_string_lossy().into_owned();
    let socket = |name: &str| (directory.join(name), format!("unix:{}", directory.join(name).display()));
    let ((first, address), (second, other)) = (socket("first"), socket("second"));
    let server = Served::start(&["--file", &path, "--read-only", "--nbd", &address]);
    let reader = Served::start(&["--file", &path, "--read-only", "--nbd", &other]);
    assert!(Served::try_start(&["--file", &path, "--nbd", &socket("third").1]).is_none(), "a writer");
    let mut client = Nbd::connect(&first);
    assert_eq!(client.write(0, &[1; 4096]), EPERM);
    assert_eq!(client.command(0, TRIM, 0, 4096), EPERM);
    assert_eq!(client.command(0, WRITE_ZEROES, 0, 4096), EPERM);
    assert_eq!(client.command(0, FLUSH, 0, 0), 0);
    assert_eq!(client.read(0, 4096).unwrap(), [0x5a; 4096]);
    assert_eq!(Nbd::connect(&second).read(4096, 512).unwrap(), [0x5a; 512]);
    // NBD_FLAG_READ_ONLY in the reply to NBD_OPT_EXPORT_NAME.
    let mut raw = Nbd::raw(&first);
    raw.read_exact(&mut [0; 18]).unwrap();
    raw.write_all(&[&3u32.to_be_bytes(), &b"IHAVEOPT"[..], &1u32.to_be_bytes(), &[0; 4]].concat()).unwrap();
    let mut export = [0; 10];
    raw.read_exact(&mut export).unwrap();
    assert_eq!(u16::from_be_bytes([export[8], export[9]]) & 2, 2);
    drop((client, raw));
    server.stop();
    reader.stop();
    assert!(fs::read(&file).unwrap().iter().all(|&byte| byte == 0x5a));
    let missing = directory.join("missing").to_string_lossy().into_owned();
    let created = ["--file", &missing, "--size", "1M", "--read-only", "--nbd", &address];
    assert!(Served::try_start(&created).is_none() && !directory.join("missing").exists());
}

#[test]
fn threads_that_parse_what_clients_send_have_no_privileges() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root has privileges to drop");
    }
    let directory = Directory::in_memory();
    let (server, port, socket) = serve_verifying(&directory, &[]);
    let mut served = Encrypted::connect(port, Some("client")).unwrap();
    served.read_sector().unwrap();
    let _negotiating = (tcp_from(1, port).unwrap(), Nbd::raw(&socket));
    thread::sleep(Duration::from_millis(200));
    let mut names = Vec::new();
    for task in fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().map(str::to_string).collect::<Vec<_>>()
        };
        let name = field("Name:").concat();
        let capabilities = u64::from_str_radix(&field("CapPrm:")[0], 16).unwrap();
        if name.starts_with("nbd-") {
            // A user that no other program has: otherwise its programs could kill the server through this thread.
            let own = (0xe000_0000 + u64::from(server.pid())).to_string();
            assert_eq!((field("Uid:"), field("Gid:")), (vec![own.clone(); 4], vec![own; 4]));
            assert!(field("Groups:").is_empty());
            assert_eq!(
                (field("NoNewPrivs:").concat(), field("Seccomp:").concat()),
                ("1".into(), "2".into()),
                "{name}"
            );
            // CAP_IPC_LOCK alone, by which memory can be locked.
            assert_eq!(capabilities & !(1 << 14), 0, "{name}");
        }
        if name == "device" {
            let own = (0xe000_0000 + u64::from(server.pid())).to_string();
            assert_eq!((field("Uid:"), field("Gid:")), (vec![own.clone(); 4], vec![own; 4]));
            assert!(field("Groups:").is_empty());
            // CAP_NET_ADMIN, CAP_IPC_LOCK, CAP_PERFMON and CAP_BPF at most.
            assert_eq!(capabilities & !(1 << 12 | 1 << 14 | 1 << 38 | 1 << 39), 0);
        }
        names.push(name);
    }
    for expected in ["nbd-listener", "nbd-greeter", "nbd-tls", "device"] {
        assert!(names.iter().any(|name| name == expected), "{expected} is missing in {names:?}");
    }
    server.stop();
    assert!(!socket.exists(), "a thread that may remove the socket removes it");
}

/// All threads that parse what clients or the kernel send, while the device is attached.
#[test]
fn the_thread_of_an_attached_device_is_not_root() {
    if !common::can_attach() {
        return;
    }
    let directory = Directory::in_memory();
    let (file, socket) = (directory.join("disk"), directory.join("sockets/nbd"));
    let (file, address) = (file.to_string_lossy().into_owned(), format!("unix:{}", socket.display()));
    let server = Served::start(&["--file", &file, "--size", "64M", "--attach", "--nbd", &address]);
    let mut client = Nbd::connect(&socket);
    assert_eq!(client.write(0, &[0x5a; 4096]), 0);
    // The flush and the trim reach the file as well.
    assert_eq!((client.command(0, FLUSH, 0, 0), client.command(0, TRIM, 8192, 4096)), (0, 0));
    let read = common::run(
        "dd",
        &[&format!("if={}", server.what), "bs=4096", "count=1", "iflag=direct", "status=none"],
    );
    assert_eq!(read, "Z".repeat(4096));
    let uid_of = |pid: u32| -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        let devices = statuses.filter(|status| status.starts_with("Name:\tdevice\n"));
        devices
            .map(|status| status.lines().find(|line| line.starts_with("Uid:")).unwrap().to_string())
            .collect()
    };
    let pids = std::iter::once(server.pid()).chain(server.children());
    let users: Vec<String> = pids.flat_map(uid_of).collect();
    assert!(
        !users.is_empty() && users.iter().all(|user| !user.split_whitespace().any(|id| id == "0")),
        "{users:?}"
    );
    drop(client);
    server.stop();
    assert!(!socket.parent().unwrap().exists(), "the socket and its directory are removed");
}

#[test]
fn certificates_are_read_again_on_sighup_and_bad_ones_are_not_used() {
    let (directory, port) = (Directory::in_memory(), port());
    let (tcp, tls) = (format!("tcp:127.0.0.1:{port}"), directory.0.to_string_lossy().into_owned());
    let copy = |from: &str, to: &str| {
        fs::copy(certificates().join(format!("{from}.pem")), directory.join(&format!("{to}.pem"))).unwrap();
    };
    for file in ["ca-cert", "server-cert", "server-key"] {
        copy(file, file);
    }
    let arguments = ["--memory", "1M", "--nbd", &tcp, "--tls", &tls, "--tls-verify-peer"];
    let (server, log) = Served::start_heard(&arguments);
    let connect = || Encrypted::connect(port, Some("client")).unwrap();
    let reload = |expected: &str| {
        server.signal("-HUP");
        let until = Instant::now() + Duration::from_secs(60);
        while connect().server_certificate() != read_certificate(expected) {
            assert!(Instant::now() < until, "{expected} is not used");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let mut first = connect();
    assert_eq!(first.server_certificate(), read_certificate("server"));
    copy("renewed-cert", "server-cert");
    server.signal("-HUP");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(connect().server_certificate(), read_certificate("server"), "it does not match the key");
    copy("renewed-key", "server-key");
    reload("renewed");
    fs::write(directory.join("server-cert.pem"), "no certificate").unwrap();
    server.signal("-HUP");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(connect().server_certificate(), read_certificate("renewed"));
    first.read_sector().unwrap();
    drop(first);
    server.stop();
    let log = std::io::read_to_string(log).unwrap();
    assert!(
        log.contains("does not match the key in") && log.contains("it holds no certificate in PEM"),
        "{log}"
    );
    assert_eq!(log.matches("use the previous TLS certificates").count(), 2, "{log}");
}

#[test]
fn a_misbehaving_client_has_one_line_a_minute_in_the_log() {
    let port = port();
    let address = format!("tcp:127.0.0.1:{port}");
    let (server, log) = Served::start_heard(&["--memory", "1M", "--nbd", &address]);
    for n in 0..100 {
        // Unknown handshake flags, from two addresses.
        let mut stream = tcp_from(1 + n % 2, port).unwrap();
        let _ = stream.write_all(&[0xff; 4]);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    server.stop();
    let log = std::io::read_to_string(log).unwrap();
    // For each address one a minute; a busy machine may take longer than one.
    let lines = log.matches("its handshake flags are unknown").count();
    assert!((2..=6).contains(&lines), "{log}");
    assert_eq!(log.matches("warning: tcp:127.0.0.1").count(), 1, "every local user can connect: {log}");
}

/// The same for a client that was admitted.
#[test]
fn an_admitted_client_that_sends_no_request_has_a_line_in_the_log() {
    let directory = Directory::in_memory();
    let socket = directory.join("nbd");
    let address = format!("unix:{}", socket.display());
    let (server, log) = Served::start_heard(&["--memory", "1M", "--nbd", &address]);
    for _ in 0..20 {
        let mut client = Nbd::connect(&socket);
        client.stream.write_all(&[0; 28]).unwrap();
        assert!(client.stream.read_to_end(&mut Vec::new()).is_ok_and(|left| left == 0), "it is disconnected");
    }
    server.stop();
    let log = std::io::read_to_string(log).unwrap();
    let lines = log.matches("it sent bytes that are no request").count();
    assert!((1..=6).contains(&lines), "{log}");
}
