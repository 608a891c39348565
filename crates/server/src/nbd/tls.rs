//! TLS, kept out of the device's thread: a thread for each encrypted connection stands between it and a socket pair. What the device's
//! thread has answered before it let go of its end is sent all the same.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use super::front::FAREWELL;
use super::listener::Place;
use super::shown::untaken;
use crate::ServeError;

/// Decrypted bytes on their way in, beyond which nothing more is taken off the wire.
const BACKLOG: usize = 256 << 10;

/// Where the certificates are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The server's certificate and those up to its authority, in PEM.
    pub certificates: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// Authorities of clients, in PEM. If given, only clients with a certificate of one of them are let in.
    pub client_authorities: Option<PathBuf>,
}

/// Begins TLS with clients.
#[derive(Clone)]
pub(super) struct Acceptor(Arc<ServerConfig>);

impl Acceptor {
    pub(super) fn load(files: &TlsFiles) -> Result<Self, ServeError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong = |path: &Path, what: String| ServeError::unfit(path, &what);
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| ServeError::Configuration(error.to_string()))?;
        let builder = match &files.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| wrong(path, error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|error| wrong(path, error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
            pem::Error::NoItemsFound => wrong(&files.key, "it holds no private key in PEM".to_string()),
            error => wrong(&files.key, error.to_string()),
        })?;
        let config =
            builder.with_single_cert(certificates(&files.certificates)?, key).map_err(
                |error| match error {
                    rustls::Error::InconsistentKeys(_) => {
                        wrong(&files.certificates, format!("it is not of the key in {}", files.key.display()))
                    }
                    error => wrong(&files.certificates, error.to_string()),
                },
            )?;
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn connection(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(self.0.clone()).map_err(io::Error::other)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let file = File::open(path).map_err(|error| ServeError::unfit(path, &error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(BufReader::new(file)).collect();
    match found {
        Ok(found) if found.is_empty() => Err(ServeError::unfit(path, "it holds no certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(ServeError::unfit(path, &error.to_string())),
    }
}

/// Starts the thread between an encrypted socket and a plain one, which holds `places` as long as it lives. It ends when the client is
/// gone, or the plain socket's other end is and the client has taken what was left for it, for which it has [`FAREWELL`].
pub(super) fn between(
    wire: OwnedFd,
    plain: UnixStream,
    tls: ServerConnection,
    places: [Arc<Place>; 2],
) -> io::Result<()> {
    plain.set_nonblocking(true)?;
    let (inward, wire_ended, plain_ended, until) = (Vec::new(), false, false, None);
    let mut between = Between { wire, plain, tls, inward, wire_ended, plain_ended, until };
    thread::Builder::new().name("nbd-tls".into()).spawn(move || {
        let _places = places;
        // Either side breaking off is an end like another; both sockets are closed with this.
        let _ = between.run();
        let _ = between.plain.shutdown(Shutdown::Both);
    })?;
    Ok(())
}

struct Between {
    /// Non-blocking, as the device's thread would have had it.
    wire: OwnedFd,
    plain: UnixStream,
    tls: ServerConnection,
    /// Decrypted, not yet taken by the device's thread.
    inward: Vec<u8>,
    wire_ended: bool,
    plain_ended: bool,
    /// The device's thread has let go: nothing more is for it, and until then the client may take what is left.
    until: Option<Instant>,
}

/// Reads and writes a descriptor as a stream.
struct Wire<'a>(&'a OwnedFd);

impl Read for Wire<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, to)?)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        use rustix::net::{SendFlags, send};
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Between {
    fn run(&mut self) -> io::Result<()> {
        self.take_decrypted()?;
        while !self.is_over() {
            self.wait()?;
            self.read_wire()?;
            self.drain_plain()?;
            self.read_plain()?;
            self.drain_wire()?;
        }
        // Closed with anything unread in it, a socket of TCP takes back what the other side has not got yet.
        while untaken(&self.wire) > 0 && self.left() > Some(Duration::ZERO) {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The client's end is heard of by the device's thread, which then lets go as well.
    fn is_over(&self) -> bool {
        self.plain_ended && !self.tls.wants_write()
    }

    fn reads_wire(&self) -> bool {
        !self.wire_ended && self.until.is_none() && self.inward.len() < BACKLOG
    }

    fn let_go(&mut self) {
        self.until.get_or_insert_with(|| Instant::now() + FAREWELL);
        self.inward.clear();
    }

    /// How long the client still has, if the device's thread has let go.
    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    fn reads_plain(&self) -> bool {
        !self.plain_ended && !self.tls.wants_write()
    }

    fn wait(&mut self) -> io::Result<()> {
        let left = self.left();
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let flags = |read, write| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, read);
            flags.set(PollFlags::OUT, write);
            flags
        };
        let mut sources = [
            PollFd::from_borrowed_fd(self.wire.as_fd(), flags(self.reads_wire(), self.tls.wants_write())),
            PollFd::from_borrowed_fd(self.plain.as_fd(), flags(self.reads_plain(), !self.inward.is_empty())),
        ];
        // One that has let go would say so again and again.
        let watched = if self.until.is_some() && !self.reads_plain() { 1 } else { 2 };
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut sources[..watched], left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // A socket that is not read from is watched for its end all the same, or this would spin on it.
        let ended = |source: &PollFd<'_>| source.revents().intersects(PollFlags::ERR | PollFlags::HUP);
        let (wire_ended, plain_ended) = (ended(&sources[0]), ended(&sources[1]));
        if wire_ended && !self.reads_wire() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if plain_ended {
            self.let_go();
        }
        Ok(())
    }

    fn read_wire(&mut self) -> io::Result<()> {
        if !self.reads_wire() {
            return Ok(());
        }
        match self.tls.read_tls(&mut Wire(&self.wire)) {
            Ok(0) => self.wire_ended = true,
            Ok(_) => {}
            Err(error) if is_later(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.tls.process_new_packets().map_err(io::Error::other)?;
        self.take_decrypted()
    }

    fn take_decrypted(&mut self) -> io::Result<()> {
        match self.tls.reader().read_to_end(&mut self.inward) {
            Ok(_) => self.wire_ended = true,
            Err(error) if is_later(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.wire_ended = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn drain_plain(&mut self) -> io::Result<()> {
        while !self.inward.is_empty() {
            match self.plain.write(&self.inward) {
                Ok(bytes) => drop(self.inward.drain(..bytes)),
                Err(error) if is_later(&error) => break,
                Err(_) => self.let_go(),
            }
        }
        if self.wire_ended && self.inward.is_empty() {
            let _ = self.plain.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    fn read_plain(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        while self.reads_plain() {
            match self.plain.read(&mut bytes) {
                Ok(0) => {
                    self.plain_ended = true;
                    self.let_go();
                    self.tls.send_close_notify();
                }
                Ok(count) => self.tls.writer().write_all(&bytes[..count])?,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
            self.drain_wire()?;
        }
        Ok(())
    }

    fn drain_wire(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Wire(&self.wire)) {
                Ok(_) => {}
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_what_is_looked_for_in_it_is_named() {
        let path = std::env::temp_dir().join(format!("dwell-tls-{}", std::process::id()));
        std::fs::write(&path, "no PEM at all").unwrap();
        let files = TlsFiles { certificates: path.clone(), key: path.clone(), client_authorities: None };
        let told = Acceptor::load(&files).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(told, format!("{}: it holds no private key in PEM", path.display()));
        let told = certificates(&path).unwrap_err().to_string();
        assert_eq!(told, format!("{}: it holds no certificate", path.display()));
        std::fs::remove_file(path).unwrap();
    }
}
