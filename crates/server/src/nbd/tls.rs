//! TLS: certificates, and a thread for each encrypted connection, so that the device's thread neither encrypts nor decrypts.
//!
//! The thread copies between the client's socket and a socket pair, of which the device's thread has the other end. Replies that the
//! device's thread has sent before it closes its end are still sent to the client.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use super::client_socket::STACK;
use super::places::Place;
use super::stream::FAREWELL;
use super::zero_copy::unacknowledged_bytes;
use crate::{ServeError, supervisor};

/// Decrypted bytes that the device's thread has not taken. With so many, nothing more is received from the client.
const BACKLOG: usize = 256 << 10;

/// Certificates of all public authorities together have 200 KiB.
const LARGEST_FILE: u64 = 4 << 20;

/// Paths of certificates and keys, all in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediate ones up to its authority.
    pub certificates: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
    /// Certificates of authorities for clients. If given, a client needs a certificate that one of these authorities signed.
    pub client_authorities: Option<PathBuf>,
}

/// The TLS configuration of a front end. Clones share it.
#[derive(Clone)]
pub struct Acceptor {
    files: Arc<TlsFiles>,
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl Acceptor {
    /// Reads certificates and the key.
    pub(super) fn load(files: TlsFiles) -> Result<Self, ServeError> {
        // A restarted server may not read the files: they may be on the attached device, which waits for this server.
        let read = |path: &Path| supervisor::input(path, || read(path));
        let config = Arc::new(RwLock::new(config(&files, read)?));
        Ok(Self { files: Arc::new(files), config })
    }

    /// Reads the files again. New connections use them; existing ones continue with the certificates that they began with.
    ///
    /// # Errors
    /// A file cannot be read or does not fit the others. The previous configuration stays in use.
    pub fn reload(&self) -> Result<(), ServeError> {
        let config = config(&self.files, read)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Reads the files again for each byte that arrives, as a signal handler sends it, and logs the result.
    pub(crate) fn reload_on(&self, mut signals: UnixStream) {
        while matches!(signals.read(&mut [0]), Ok(1)) {
            match self.reload() {
                Ok(()) => say!("nbd: new connections use the TLS certificates that were just read"),
                Err(error) => say!("nbd: new connections use the previous TLS certificates: {error}"),
            }
        }
    }

    /// Replaces the certificates that this process received from its supervisor by those that the files have now.
    pub(crate) fn renew_received(&self) {
        if let Err(error) = self.reload() {
            say!("nbd: new connections use the TLS certificates of the first start: {error}");
        }
    }

    pub(super) fn connection(&self) -> io::Result<ServerConnection> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner).clone();
        ServerConnection::new(config).map_err(io::Error::other)
    }
}

fn config(
    files: &TlsFiles,
    read: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Arc<ServerConfig>, ServeError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unfit = |path: &Path, problem: String| ServeError::unfit(path, &problem);
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| ServeError::Configuration(error.to_string()))?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path, &read)? {
                roots.add(certificate).map_err(|error| unfit(path, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| unfit(path, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = read(&files.key).map_err(|error| unfit(&files.key, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| match error {
        pem::Error::NoItemsFound => unfit(&files.key, "it holds no private key in PEM".to_string()),
        error => unfit(&files.key, error.to_string()),
    })?;
    let config = builder.with_single_cert(certificates(&files.certificates, &read)?, key);
    config.map(Arc::new).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let problem = format!("its certificate does not match the key in {}", files.key.display());
            unfit(&files.certificates, problem)
        }
        error => unfit(&files.certificates, error.to_string()),
    })
}

/// Reads a file of certificates or keys. A FIFO would block the thread that reads certificates, and every later SIGHUP.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let bytes = supervisor::read_at_most(path, LARGEST_FILE + 1)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(io::Error::other("it is too large for certificates"));
    }
    Ok(bytes)
}

fn certificates(
    path: &Path,
    read: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let bytes = read(path).map_err(|error| ServeError::unfit(path, &error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(ServeError::unfit(path, "it holds no certificate in PEM")),
        Ok(found) => Ok(found),
        Err(error) => Err(ServeError::unfit(path, &error.to_string())),
    }
}

/// Starts the thread between a client's socket and a plain one. It ends when the client is gone, or when the plain socket's other end is
/// closed and the client has taken the remaining replies or [`FAREWELL`] is over. It holds `places` until then.
pub(super) fn between(
    wire: OwnedFd,
    plain: UnixStream,
    tls: Box<ServerConnection>,
    places: [Arc<Place>; 2],
) -> io::Result<()> {
    plain.set_nonblocking(true)?;
    let (inward, wire_ended, plain_ended, until) = (Vec::new(), false, false, None);
    let mut between = Between { wire, plain, tls, inward, wire_ended, plain_ended, until };
    thread::Builder::new().name("nbd-tls".into()).stack_size(STACK).spawn(move || {
        let _places = places;
        // An error of either socket ends the connection; both sockets are closed with `between`.
        let _ = between.run();
        let _ = between.plain.shutdown(Shutdown::Both);
    })?;
    Ok(())
}

struct Between {
    /// The client's socket, non-blocking.
    wire: OwnedFd,
    plain: UnixStream,
    tls: Box<ServerConnection>,
    /// Decrypted bytes that are not yet taken by the device's thread.
    inward: Vec<u8>,
    wire_ended: bool,
    plain_ended: bool,
    /// Set when the device's thread has closed its end: until then the client may take the remaining replies.
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
        // If a TCP socket is closed with unread bytes in it, the kernel discards replies that the peer has not acknowledged.
        while unacknowledged_bytes(&self.wire) > 0 && self.left() > Some(Duration::ZERO) {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// When the client closes its end, the device's thread receives that end and closes its own.
    fn is_over(&self) -> bool {
        self.plain_ended && !self.tls.wants_write()
    }

    fn reads_wire(&self) -> bool {
        !self.wire_ended && self.until.is_none() && self.inward.len() < BACKLOG
    }

    fn close_plain(&mut self) {
        self.until.get_or_insert_with(|| Instant::now() + FAREWELL);
        self.inward.clear();
    }

    /// The time that the client has left, if the device's thread has closed its end.
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
        // A closed end would be reported at once each time.
        let watched = if self.until.is_some() && !self.reads_plain() { 1 } else { 2 };
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut sources[..watched], left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // `poll` reports errors and hang-ups also of sockets that are not read; ignoring them would make this loop spin.
        let ended = |source: &PollFd<'_>| source.revents().intersects(PollFlags::ERR | PollFlags::HUP);
        let (wire_ended, plain_ended) = (ended(&sources[0]), ended(&sources[1]));
        if wire_ended && !self.reads_wire() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if plain_ended {
            self.close_plain();
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
                Err(_) => self.close_plain(),
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
                    self.close_plain();
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
mod tests;
