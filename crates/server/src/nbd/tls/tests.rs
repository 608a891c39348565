//! Tests of certificates and of the thread between a client and the device's thread, with a client of rustls.

use std::io::ErrorKind;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::*;
use crate::nbd::places::{Origin, Places};

/// Longer than anything takes that is not stuck.
const SOON: Duration = Duration::from_secs(3);

fn acceptor() -> (Acceptor, Arc<ClientConfig>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates");
    let path = |name: &str| directory.join(name);
    let (certificates, key) = (path("server-cert.pem"), path("server-key.pem"));
    let acceptor = Acceptor::load(TlsFiles { certificates, key, client_authorities: None }).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(path("ca-cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    (acceptor, Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// A client, the thread of its connection, and the end that the device's thread has.
struct Connected {
    client: StreamOwned<ClientConnection, UnixStream>,
    device: UnixStream,
    places: Arc<Places>,
}

/// After the handshake.
fn connected() -> Connected {
    let (acceptor, config) = acceptor();
    let (near, wire) = UnixStream::pair().unwrap();
    let (plain, device) = UnixStream::pair().unwrap();
    wire.set_nonblocking(true).unwrap();
    for stream in [&near, &device] {
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
    }
    let places = Places::new(2, 2);
    let held = [(); 2].map(|()| Arc::new(places.take(Origin::User(0)).unwrap()));
    between(wire.into(), plain, Box::new(acceptor.connection().unwrap()), held).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = StreamOwned::new(ClientConnection::new(config, name).unwrap(), near);
    client.flush().unwrap();
    Connected { client, device, places }
}

/// Waits until the thread has ended, which frees its places.
fn has_ended(places: &Places) -> bool {
    let until = Instant::now() + SOON;
    while !places.is_empty() && Instant::now() < until {
        thread::sleep(Duration::from_millis(2));
    }
    places.is_empty()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

#[test]
fn a_file_without_the_expected_item_is_named() {
    let path = std::env::temp_dir().join(format!("dwell-tls-{}", std::process::id()));
    std::fs::write(&path, "no PEM at all").unwrap();
    let files = TlsFiles { certificates: path.clone(), key: path.clone(), client_authorities: None };
    let problem = Acceptor::load(files).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(problem, format!("{}: it holds no private key in PEM", path.display()));
    let problem = certificates(&path, read).unwrap_err().to_string();
    assert_eq!(problem, format!("{}: it holds no certificate in PEM", path.display()));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_of_certificates_is_regular_and_has_at_most_four_mebibytes() {
    let path = std::env::temp_dir().join(format!("dwell-tls-size-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(LARGEST_FILE).unwrap();
    assert_eq!(read(&path).unwrap().len() as u64, LARGEST_FILE);
    file.set_len(LARGEST_FILE + 1).unwrap();
    assert_eq!(read(&path).unwrap_err().to_string(), "it is too large for certificates");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read(Path::new("/dev/null")).unwrap_err().to_string(), "it is not a regular file");
}

#[test]
fn a_client_gets_all_replies_that_were_sent_before_the_device_closed_its_end() {
    let Connected { mut client, mut device, places } = connected();
    client.write_all(b"request").unwrap();
    let mut request = [0; 7];
    device.read_exact(&mut request).unwrap();
    assert_eq!(&request, b"request");
    let replies = pattern(3 << 20);
    let sent = replies.clone();
    let sender = thread::spawn(move || {
        device.write_all(&sent).unwrap();
        // Dropped here: the device's thread closes its end while the client still reads.
    });
    let mut received = Vec::new();
    // An end without a close_notify would be an error.
    client.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert!(received == replies, "{} of {} bytes", received.len(), replies.len());
    assert!(has_ended(&places), "the thread holds its places");
}

#[test]
fn a_client_that_has_closed_its_end_gets_replies() {
    for has_notified in [true, false] {
        let Connected { mut client, mut device, places } = connected();
        client.write_all(&pattern(100_000)).unwrap();
        if has_notified {
            client.conn.send_close_notify();
            client.flush().unwrap();
        } else {
            client.sock.shutdown(Shutdown::Write).unwrap();
        }
        let mut requests = Vec::new();
        device.read_to_end(&mut requests).unwrap();
        assert!(requests == pattern(100_000), "{} bytes", requests.len());
        assert!(!places.is_empty(), "the device's thread has not closed its end");
        device.write_all(b"reply").unwrap();
        drop(device);
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).unwrap();
        assert_eq!(reply, b"reply");
        assert!(has_ended(&places));
    }
}

#[test]
fn a_device_that_takes_no_bytes_stops_the_client() {
    let Connected { mut client, mut device, places } = connected();
    client.sock.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let (all, mut sent) = (pattern(16 << 20), 0);
    let error = loop {
        match client.write(&all[sent..]) {
            Ok(bytes) => sent += bytes,
            Err(error) => break error,
        }
        if let Err(error) = client.flush() {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!((BACKLOG..4 << 20).contains(&sent), "{sent} bytes");
    // All of it arrives once the device's thread reads.
    let rest = thread::spawn(move || {
        client.sock.set_write_timeout(Some(SOON)).unwrap();
        client.flush().unwrap();
        client
    });
    let mut received = vec![0; sent];
    device.read_exact(&mut received).unwrap();
    assert!(received == all[..sent]);
    let client = rest.join().unwrap();
    drop(device);
    assert!(has_ended(&places));
    drop(client);
}

#[test]
fn bytes_that_the_device_has_not_taken_are_discarded_when_it_closes_its_end() {
    let Connected { mut client, device, places } = connected();
    client.write_all(&pattern(1 << 19)).unwrap();
    drop(device);
    assert!(has_ended(&places));
    assert!(!matches!(client.read(&mut [0; 10]), Ok(1..)), "there was no reply");
}

#[test]
fn a_client_that_does_not_take_its_replies_is_given_up_at_the_end_of_its_time() {
    let (acceptor, _) = acceptor();
    let run = |left: Duration| {
        let (_client, wire) = UnixStream::pair().unwrap();
        let (plain, device) = UnixStream::pair().unwrap();
        for stream in [&wire, &plain] {
            stream.set_nonblocking(true).unwrap();
        }
        // The handshake that the server wants to send never leaves a socket that is full.
        while rustix::io::write(&wire, &[0; 4096]).is_ok() {}
        let mut tls = Box::new(acceptor.connection().unwrap());
        tls.send_close_notify();
        drop(device);
        let until = Some(Instant::now() + left);
        let (wire, inward) = (wire.into(), Vec::new());
        let mut between = Between { wire, plain, tls, inward, wire_ended: false, plain_ended: true, until };
        assert!(between.tls.wants_write(), "the close_notify");
        let begun = Instant::now();
        let result = between.run();
        assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
        begun.elapsed()
    };
    let took = run(Duration::from_millis(300));
    assert!((Duration::from_millis(290)..SOON).contains(&took), "{took:?}");
    assert!(run(Duration::ZERO) < Duration::from_millis(250));
}

#[test]
fn the_wire_is_read_until_its_end_unless_the_device_is_gone_or_slow() {
    let (acceptor, _) = acceptor();
    let (wire, _client) = UnixStream::pair().unwrap();
    let (plain, _device) = UnixStream::pair().unwrap();
    let tls = Box::new(acceptor.connection().unwrap());
    let (wire, inward) = (wire.into(), Vec::new());
    let mut between =
        Between { wire, plain, tls, inward, wire_ended: false, plain_ended: false, until: None };
    assert!(between.reads_wire() && between.reads_plain() && !between.is_over());
    between.inward = vec![0; BACKLOG - 1];
    assert!(between.reads_wire());
    between.inward.push(0);
    assert!(!between.reads_wire(), "the device's thread is slow");
    between.close_plain();
    assert!(between.inward.is_empty() && !between.reads_wire());
    let left = between.left().unwrap();
    assert!(left <= FAREWELL && left > FAREWELL.saturating_sub(SOON), "{left:?}");
    between.until = Some(Instant::now() + Duration::from_secs(60));
    between.close_plain();
    assert!(between.left().unwrap() > FAREWELL, "the first end counts");
    between.until = None;
    between.wire_ended = true;
    assert!(!between.reads_wire() && between.reads_plain());
    between.plain_ended = true;
    assert!(!between.reads_plain() && between.is_over());
}

/// `poll` reports the end of a socket that is not read at once each time: ignoring it would make the thread spin.
#[test]
fn the_end_of_a_socket_that_is_not_read_ends_the_connection() {
    let (acceptor, _) = acceptor();
    let make = || {
        let (wire, client) = UnixStream::pair().unwrap();
        let (plain, device) = UnixStream::pair().unwrap();
        let (tls, wire, inward) = (Box::new(acceptor.connection().unwrap()), wire.into(), vec![0; BACKLOG]);
        let between =
            Between { wire, plain, tls, inward, wire_ended: false, plain_ended: false, until: None };
        (between, client, device)
    };
    let (mut between, client, _device) = make();
    drop(client);
    assert_eq!(between.wait().unwrap_err().kind(), ErrorKind::ConnectionReset);
    let (mut between, _client, device) = make();
    drop(device);
    between.wait().unwrap();
    assert!(
        between.until.is_some() && between.inward.is_empty(),
        "the client has a time to take its replies"
    );
}
