//! The control socket while the device serves.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use common::client::{FLUSH, Nbd, READ};
use common::{Directory, Served};
use server::control::Client;

#[test]
fn every_order_has_a_reply() {
    let directory = Directory::in_memory();
    let (socket, control, log) = (directory.join("sock"), directory.join("control"), directory.join("log"));
    let address = format!("unix:{}", socket.display());
    let path = control.to_string_lossy().into_owned();
    let mut server = Served::start(&["--memory", "64M", "--nbd", &address, "--control", &path]);
    for socket in [&socket, &control] {
        assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let mut client = Client::connect(&control).unwrap();
    client.log(log.clone(), Duration::from_secs(600)).unwrap();
    assert!(client.log(directory.join("other"), Duration::from_secs(1)).is_err(), "one log at a time");
    let mut disk = Nbd::connect(&socket);
    for n in 0..100 {
        assert_eq!(disk.write(n * 4096, &[1; 4096]), 0);
    }
    assert_eq!(disk.command(0, FLUSH, 0, 0), 0);
    let state = client.show().unwrap();
    assert_eq!((state.scheduler.as_str(), state.operations["write"].done), ("deadline", 100));
    assert_eq!((state.operations["write"].bytes, state.operations["flush"].done), (409_600, 1));
    assert_eq!((state.clients.len(), state.processes.len()), (1, 1), "a connection is a process");
    assert_eq!(state.head_sector, 800);
    assert!(state.tunables.iter().any(|tunable| tunable.name == "read_expire"));
    client.tune("read_expire", "124ms").unwrap();
    assert!(client.tune("read_expire", "124").is_err(), "a length of time needs its unit");
    assert!(client.tune("nothing", "1").is_err());
    let tuned = client.show().unwrap();
    assert_eq!(tuned.tunables.iter().find(|t| t.name == "read_expire").unwrap().value, "124 ms");
    assert!(client.switch("no such scheduler", false).is_err());
    client.switch("noop", false).unwrap();
    assert!(!client.switch("stream(deadline)", true).unwrap().draining, "there is nothing to drain");
    assert_eq!(disk.read(0, 4096).unwrap(), [1; 4096]);
    let switched = client.show().unwrap();
    assert_eq!((switched.scheduler.as_str(), switched.switches), ("stream(deadline)", 2));
    assert!(switched.items.iter().any(|item| item.facts.contains_key("selected_pending_service_ns")));
    client.tune("stream_threshold", "6").unwrap();
    client.tune("fifo_batch", "3").unwrap();
    assert!(client.tune("fifo_batch", "0").is_err(), "it is out of range");
    let tuned = client.show().unwrap().tunables;
    let value = |name: &str| tuned.iter().find(|tunable| tunable.name == name).unwrap().value.clone();
    assert_eq!((value("stream_threshold"), value("fifo_batch")), ("6".to_string(), "3".to_string()));
    let metrics = client.metrics().unwrap();
    assert!(
        metrics.contains("dwell_operations_total{device=\"control\",operation=\"write\"} 100"),
        "{metrics}"
    );
    assert!(
        metrics.contains("dwell_latency_seconds_count{device=\"control\",operation=\"write\"} 100"),
        "{metrics}"
    );
    client.stop().unwrap();
    server.wait();
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains(" dispatch ")).count() as u64, switched.dispatched);
    assert!(!control.exists() && !socket.exists(), "the sockets are removed");
}

#[test]
fn invalid_input_on_the_control_socket_has_an_error_reply() {
    let directory = Directory::in_memory();
    let control = directory.join("control");
    let server = Served::start(&["--memory", "1M", "--control", &control.to_string_lossy()]);
    let mut stream = UnixStream::connect(&control).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for line in [&b"nonsense"[..], b"{\"do\":\"dance\"}", b"[]", b"\xff\xfe"] {
        stream.write_all(&[line, b"\n"].concat()).unwrap();
        let mut reply = String::new();
        reader.read_line(&mut reply).unwrap();
        assert!(reply.starts_with("{\"error\":"), "{line:?}: {reply}");
    }
    drop(stream);
    let mut long = UnixStream::connect(&control).unwrap();
    let _ = long.write_all(&vec![b'x'; 1 << 20]);
    Client::connect(&control).unwrap().show().unwrap();
    server.stop();
}

#[test]
fn a_second_server_on_the_same_file_or_socket_is_refused() {
    let directory = Directory::on_disk();
    let (file, socket) = (directory.join("disk"), directory.join("sock"));
    let (file, address) = (file.to_string_lossy().into_owned(), format!("unix:{}", socket.display()));
    let first = Served::start(&["--file", &file, "--size", "1M", "--nbd", &address]);
    assert!(Served::try_start(&["--file", &file, "--size", "1M"]).is_none(), "the same file");
    assert!(Served::try_start(&["--memory", "1M", "--nbd", &address]).is_none(), "the same socket");
    assert!(
        Served::try_start(&["--memory", "1M", "--nbd", "tcp:0.0.0.0:10809"]).is_none(),
        "open without TLS"
    );
    first.stop();
}

/// Also on a device without requests.
#[test]
fn a_log_whose_time_is_over_makes_room_for_the_next() {
    let directory = Directory::in_memory();
    let control = directory.join("control");
    let server = Served::start(&["--memory", "1M", "--control", &control.to_string_lossy()]);
    let mut client = Client::connect(&control).unwrap();
    client.log(directory.join("first"), Duration::from_millis(20)).unwrap();
    let began = Instant::now();
    while client.show().unwrap().log_lost.is_some() {
        assert!(began.elapsed() < Duration::from_secs(60), "the log does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Longer than the test takes on a busy machine.
    client.log(directory.join("second"), Duration::from_secs(600)).unwrap();
    assert_eq!(client.show().unwrap().log_lost, Some(0), "the log is being written");
    assert!(client.log(directory.join("third"), Duration::from_secs(60)).is_err());
    assert!(!directory.join("third").exists(), "a rejected log leaves no file");
    assert!(client.log(directory.join("second"), Duration::from_secs(60)).is_err());
    assert!(directory.join("second").exists(), "the log is being written");
    server.stop();
}

/// Behind a draining switch, more operations are submitted than the queue has room for: their submitters do not sleep.
#[test]
fn a_client_with_many_requests_continues_after_a_draining_switch() {
    let directory = Directory::in_memory();
    let (socket, control) = (directory.join("sock"), directory.join("control"));
    let address = format!("unix:{}", socket.display());
    let path = control.to_string_lossy().into_owned();
    let arguments =
        ["--memory", "64M", "--fixed", "5000", "--depth", "4", "--nbd", &address, "--control", &path];
    let server = Served::start(&arguments);
    let mut disk = Nbd::connect(&socket);
    let mut ask = |numbers: std::ops::Range<u64>| {
        for n in numbers {
            disk.send(0, READ, n, n << 17, 4096).unwrap();
        }
    };
    ask(0..40);
    let mut client = Client::connect(&control).unwrap();
    while client.show().unwrap().unfinished < 20 {}
    client.switch("noop", true).unwrap();
    assert!(client.show().unwrap().draining_ns.is_some(), "the queue drains while the rest arrives");
    ask(40..250);
    for answer in 0..250 {
        let (_, error) = disk.reply().unwrap_or_else(|error| panic!("after {answer} answers: {error}"));
        assert_eq!(error, 0);
        std::io::Read::read_exact(&mut disk.stream, &mut [0; 4096]).unwrap();
    }
    assert_eq!(disk.read(0, 512).unwrap(), [0; 512], "the client is still served");
    server.stop();
}

/// The administrator reads the log; only the client receives the error.
#[test]
fn the_first_failed_operation_is_logged_and_later_ones_are_counted() {
    let directory = Directory::on_disk();
    let (file, socket) = (directory.join("disk"), directory.join("sock"));
    let address = format!("unix:{}", socket.display());
    let arguments = ["--file", &file.to_string_lossy(), "--size", "1M", "--nbd", &address];
    let (server, mut words) = Served::start_heard(&arguments);
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(4096).unwrap();
    let mut disk = Nbd::connect(&socket);
    assert!(disk.read(0, 4096).is_ok() && disk.read(8192, 4096).is_err());
    let mut line = String::new();
    BufReader::new(&mut words).read_line(&mut line).unwrap();
    assert!(line.starts_with("read of 4096 bytes at sector 16 failed: Input/output error"), "{line}");
    for n in 3..20 {
        assert!(disk.read(n * 4096, 4096).is_err());
    }
    drop(disk);
    assert_eq!(server.stop()["state"]["operations"]["read"]["failed"], 18);
    line.clear();
    std::io::Read::read_to_string(&mut words, &mut line).unwrap();
    assert!(!line.contains("failed"), "{line}");
}

/// A setting of the old scheduler would be lost with it.
#[test]
fn tunables_set_during_a_draining_switch_apply_to_the_new_scheduler() {
    let directory = Directory::in_memory();
    let (socket, control) = (directory.join("sock"), directory.join("control"));
    let address = format!("unix:{}", socket.display());
    let path = control.to_string_lossy().into_owned();
    let server =
        Served::start(&["--memory", "64M", "--fixed", "1000000", "--nbd", &address, "--control", &path]);
    let mut disk = Nbd::connect(&socket);
    let mut client = Client::connect(&control).unwrap();
    client.switch("noop", false).unwrap();
    disk.send(0, READ, 1, 0, 4096).unwrap();
    while client.show().unwrap().in_flight == 0 {}
    assert!(client.switch("deadline", true).unwrap().draining);
    client.tune("fifo_batch", "7").unwrap();
    let batch = |client: &mut Client| {
        let state = client.show().unwrap();
        let value = state.tunables.iter().find(|tunable| tunable.name == "fifo_batch").unwrap().value.clone();
        (state.scheduler, value, state.draining_ns.is_some())
    };
    assert_eq!(batch(&mut client), ("deadline".to_string(), "7".to_string(), true));
    assert_eq!(disk.reply().unwrap(), (1, 0));
    assert_eq!(batch(&mut client), ("deadline".to_string(), "7".to_string(), false));
    server.stop();
}

/// A temporary lack of descriptors has no lasting effect, and the server does not spin meanwhile.
#[test]
fn sockets_outlive_a_lack_of_descriptors() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let directory = Directory::in_memory();
    let (socket, control) = (directory.join("sock"), directory.join("control"));
    let address = format!("unix:{}", socket.display());
    let path = control.to_string_lossy().into_owned();
    let server = Served::start(&["--memory", "1M", "--nbd", &address, "--control", &path]);
    let pid = Pid::from_raw(server.pid() as i32);
    let used = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count() as u64;
    let before = getrlimit(Resource::Nofile);
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(used), ..before }).unwrap();
    let waiting = [Nbd::raw(&socket), UnixStream::connect(&control).unwrap()];
    let (began, cost) = (Instant::now(), processor_ticks(server.pid()));
    std::thread::sleep(Duration::from_millis(600));
    let share = (processor_ticks(server.pid()) - cost) as f64 / 100.0 / began.elapsed().as_secs_f64();
    prlimit(pid, Resource::Nofile, before).unwrap();
    drop(waiting);
    assert!(share < 0.3, "{share} of a processor while no client can be accepted");
    Nbd::connect_patiently(&socket).read(0, 512).unwrap();
    Client::connect(&control).unwrap().show().unwrap();
    server.stop();
}

/// User and system time so far, in hundredths of a second.
fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// A disk in memory completes a read within the round in which it arrives.
#[test]
fn a_read_from_memory_has_a_latency_and_no_queueing_time() {
    let directory = Directory::in_memory();
    let socket = directory.join("sock");
    let server = Served::start(&["--memory", "1M", "--nbd", &format!("unix:{}", socket.display())]);
    let mut client = Nbd::connect(&socket);
    for _ in 0..100 {
        client.read(0, 128 << 10).unwrap();
    }
    drop(client);
    let read = &server.stop()["state"]["operations"]["read"];
    assert!(read["latency"]["p50_ns"].as_u64().unwrap() > 100, "{read}");
    assert_eq!(read["wait"]["max_ns"], 0, "{read}");
}

#[test]
fn silent_clients_do_not_exclude_others_from_the_control_socket() {
    let directory = Directory::in_memory();
    let control = directory.join("control");
    let path = control.to_string_lossy().into_owned();
    let address = format!("unix:{}", directory.join("sock").display());
    let (server, words) = Served::start_heard(&["--memory", "1M", "--nbd", &address, "--control", &path]);
    let mut first = Client::connect(&control).unwrap();
    first.show().unwrap();
    let silent: Vec<_> = (1..16).map(|_| UnixStream::connect(&control).unwrap()).collect();
    Client::connect(&control).unwrap().show().expect("it waits until one has been silent long enough");
    std::thread::sleep(Duration::from_millis(1100));
    // As many clients as before, and one more, which displaces the first one.
    let mut clients: Vec<_> = silent.iter().map(|_| Client::connect(&control).unwrap()).collect();
    clients.iter_mut().for_each(|client| _ = client.show().unwrap());
    assert!(Client::connect(&control).unwrap().show().is_ok(), "one client has been idle long enough");
    std::thread::sleep(Duration::from_millis(1100));
    first.show().expect("a client that was disconnected while idle reconnects");
    server.stop();
    assert_eq!(std::io::read_to_string(words).unwrap().matches("was turned away").count(), 0);
}

#[test]
fn clients_that_do_not_read_take_places_for_seconds_and_others_are_then_turned_away() {
    let directory = Directory::in_memory();
    let control = directory.join("control");
    let path = control.to_string_lossy().into_owned();
    let address = format!("unix:{}", directory.join("sock").display());
    let (server, words) = Served::start_heard(&["--memory", "1M", "--nbd", &address, "--control", &path]);
    let busy: Vec<_> = (0..16).map(|_| UnixStream::connect(&control).unwrap()).collect();
    for client in &busy {
        client.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        // Until the server waits for room for its replies, and this client for room for its requests.
        while Write::write_all(&mut &*client, &b"{\"do\":\"show\"}\n".repeat(64)).is_ok() {}
    }
    for _ in 0..2 {
        let full = Client::connect(&control).and_then(|mut client| client.show());
        assert_eq!(full.unwrap_err().to_string(), "all 16 places are taken");
    }
    drop(busy);
    Client::connect(&control).unwrap().show().unwrap();
    server.stop();
    let words = std::io::read_to_string(words).unwrap();
    assert_eq!(words.matches("was turned away: all 16 places are taken").count(), 1, "{words}");
}

#[test]
fn a_hundred_clients_at_once_are_served() {
    let directory = Directory::in_memory();
    let control = directory.join("control");
    let path = control.to_string_lossy().into_owned();
    let address = format!("unix:{}", directory.join("sock").display());
    let server = Served::start(&["--memory", "1M", "--nbd", &address, "--control", &path]);
    let all = Barrier::new(100);
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let mut client = Client::connect(&control).unwrap();
                all.wait();
                client.show().unwrap();
            });
        }
    });
    server.stop();
}
