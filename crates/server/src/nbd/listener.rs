//! Addresses, who may connect, and the thread that takes each client through its negotiation.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown, sockopt};

use super::front::NbdOptions;
use super::negotiation::{self, Agreed, Encryption, Export, Outcome};
use super::tls::{self, Acceptor};
use crate::ServeError;
use crate::complaint::Complaint;
use crate::control::{self, REFUSED, bind_private};
use crate::poller::Bell;

/// How long a client may take from its connection to the transmission phase, whatever it sends meanwhile.
const NEGOTIATION: Duration = Duration::from_secs(15);

/// How long it may take even if others wait for its place.
const TURN: Duration = Duration::from_secs(1);

/// What a socket is asked to hold on its way out: several replies of 128 KiB, so that the device's thread and the client
/// can work at the same time.
const SOCKET_BYTES: usize = 4 << 20;

/// A client by TCP that says nothing for so long is asked by the system whether it is still there; one that is not, as its machine
/// broke down, is let go some ten minutes later (Linux asks nine times more, 75 s apart).
const SILENCE: Duration = Duration::from_secs(60);

/// Where to listen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A unix socket, which only its owner may use.
    Unix(PathBuf),
    /// A TCP port. Addresses that are not loopback need TLS.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    /// `unix:/run/dwell/sdb.sock`, `tcp:127.0.0.1:10809`, `tcp:localhost:10809`.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected unix:/path or tcp:address:port, found '{text}'");
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(expected()) } else { Ok(Self::Unix(PathBuf::from(path))) };
        }
        let address = text.strip_prefix("tcp:").ok_or_else(expected)?;
        let mut found = address.to_socket_addrs().map_err(|error| format!("{}: {error}", expected()))?;
        found.next().map(Self::Tcp).ok_or_else(expected)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// A client that may begin.
pub(super) struct Greeted<S = OwnedFd> {
    pub(super) stream: S,
    pub(super) agreed: Agreed,
    pub(super) from: String,
    pub(super) place: Arc<Place>,
}

/// One of the places for clients, given back when dropped.
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>, places: usize) -> Option<Arc<Self>> {
        if taken.fetch_add(1, Ordering::Relaxed) < places {
            return Some(Arc::new(Self(taken.clone())));
        }
        taken.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who is in negotiation, the longest first, to be found if others want their places.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<Vec<Weak<Greeting>>>>);

/// A client in negotiation, which can be ended from outside.
struct Greeting {
    since: Instant,
    socket: OwnedFd,
}

impl Waiting {
    /// Notes one, until what is returned is dropped. Without a descriptor to spare it cannot be ended.
    fn note(&self, client: impl AsFd) -> Option<Arc<Greeting>> {
        let socket = client.as_fd().try_clone_to_owned().ok()?;
        let greeting = Arc::new(Greeting { since: Instant::now(), socket });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|greeting| greeting.strong_count() > 0);
        all.push(Arc::downgrade(&greeting));
        Some(greeting)
    }

    /// Ends the one that has taken the longest, if it has had its [`TURN`]; whether there was any.
    fn end_the_slowest(&self) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slowest) = all.iter().find_map(Weak::upgrade) else { return false };
        slowest.since.elapsed() >= TURN && shutdown(&slowest.socket, Shutdown::Both).is_ok()
    }
}

/// A socket that is listened on until this is dropped.
pub(super) struct Listener {
    /// With the port that it was given, where any would do.
    address: Address,
    stop: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
    _file: Option<control::SocketFile>,
}

/// All that are listened on. They end last first: the first may have made the directory of the others' sockets.
#[derive(Default)]
pub(super) struct Listeners(Vec<Listener>);

impl Listeners {
    /// With the ports that they were given.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.0.iter().map(|listener| &listener.address)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// What every client is greeted with.
#[derive(Clone)]
struct Greeter {
    export: Export,
    acceptor: Option<Acceptor>,
    greeted: Sender<Greeted>,
    bell: Arc<Bell>,
    encrypting: Arc<AtomicUsize>,
    waiting: Waiting,
    turned_away: Arc<Complaint>,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Whether these addresses may be served.
    pub(super) fn check(options: &NbdOptions) -> Result<(), ServeError> {
        let tcp = |address: &Address| matches!(address, Address::Tcp(_));
        if options.tls.is_some() && !options.addresses.iter().any(tcp) {
            let problem = "TLS is for TCP, and no address is one: unix sockets are their owner's alone";
            return Err(ServeError::Configuration(problem.to_string()));
        }
        for address in &options.addresses {
            if let Address::Tcp(tcp) = address
                && !tcp.ip().is_loopback()
                && options.tls.is_none()
            {
                let problem = format!(
                    "{address} is not loopback: it is served with TLS only, which needs certificates"
                );
                return Err(ServeError::Configuration(problem));
            }
        }
        options.tls.as_ref().map_or(Ok(()), |files| Acceptor::load(files).map(drop))
    }

    /// Listens on every address.
    pub(super) fn all(
        options: &NbdOptions,
        export: &Export,
        greeted: &Sender<Greeted>,
        bell: &Arc<Bell>,
        encrypting: &Arc<AtomicUsize>,
    ) -> io::Result<Listeners> {
        let acceptor = match &options.tls {
            Some(files) => Some(Acceptor::load(files).map_err(io::Error::other)?),
            None => None,
        };
        let taken = Arc::new(AtomicUsize::new(0));
        let (export, greeted, bell) = (export.clone(), greeted.clone(), bell.clone());
        let (encrypting, waiting, turned_away) = (encrypting.clone(), Waiting::default(), Arc::default());
        let greeter = Greeter { export, acceptor, greeted, bell, encrypting, waiting, turned_away };
        let mut listeners = Listeners::default();
        for address in &options.addresses {
            let listener =
                Self::on(address, greeter.clone(), taken.clone(), usize::from(options.connections));
            listeners.0.push(
                listener.map_err(|error| {
                    io::Error::new(error.kind(), format!("listening on {address}: {error}"))
                })?,
            );
        }
        Ok(listeners)
    }

    fn on(address: &Address, greeter: Greeter, taken: Arc<AtomicUsize>, places: usize) -> io::Result<Self> {
        let (socket, address, file) = match address {
            Address::Unix(path) => {
                let (listener, file) = bind_private(path)?;
                (Socket::Unix(listener), address.clone(), Some(file))
            }
            Address::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted)?;
                let address = Address::Tcp(listener.local_addr()?);
                (Socket::Tcp(listener), address, None)
            }
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
        let stop = Arc::new(Bell::new()?);
        let heard = stop.clone();
        let thread = thread::Builder::new()
            .name("nbd-listener".into())
            .spawn(move || socket.listen(&heard, &greeter, &taken, places))?;
        Ok(Self { address, stop, thread: Some(thread), _file: file })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Socket {
    fn listen(&self, stop: &Bell, greeter: &Greeter, taken: &Arc<AtomicUsize>, places: usize) {
        loop {
            let mut sources = [
                PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
            ];
            // A signal may end the wait: then nobody is there yet.
            if poll(&mut sources, None).is_ok() && !sources[1].revents().is_empty() {
                return;
            }
            let client = match self.accept() {
                Ok(client) => client,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // Mostly for lack of descriptors; whoever is there stays there, and would be found again at once.
                Err(_) => {
                    thread::sleep(REFUSED);
                    continue;
                }
            };
            // Beyond the places, a client is turned away rather than kept waiting.
            let Some(place) = Place::take(taken, places).or_else(|| greeter.make_room(taken, places)) else {
                let from = client.describe();
                let full = format!("all {places} places are taken (--connections)");
                greeter.turned_away.tell(format_args!("nbd: {from} was turned away: {full}"));
                continue;
            };
            let greeter = greeter.clone();
            let greet = move || greeter.greet(client, place);
            let _ = thread::Builder::new().name("nbd-greeter".into()).spawn(greet);
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Greeter {
    /// The place of whoever negotiates for too long while others wait: clients that say nothing would keep them out.
    fn make_room(&self, taken: &Arc<AtomicUsize>, places: usize) -> Option<Arc<Place>> {
        if !self.waiting.end_the_slowest() {
            return None;
        }
        (0..50).find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            Place::take(taken, places)
        })
    }

    /// Takes a client through its negotiation and hands it over, or lets it go.
    fn greet(&self, client: Stream, place: Arc<Place>) {
        let from = client.describe();
        let _greeting = self.waiting.note(&client);
        let mut client = Deadline { stream: client, until: Instant::now() + NEGOTIATION };
        match self.negotiate(&mut client) {
            Ok(Some((agreed, connection))) => match self.hand_over(client.stream, connection, &place) {
                Ok(stream) => {
                    if self.greeted.send(Greeted { stream, agreed, from, place }).is_ok() {
                        self.bell.ring();
                    }
                }
                Err(error) => say!("nbd: {from}: {error}"),
            },
            Ok(None) => {}
            Err(error) => say!("nbd: {from} was let go in negotiation: {error}"),
        }
    }

    fn negotiate(
        &self,
        client: &mut Deadline,
    ) -> io::Result<Option<(Agreed, Option<rustls::ServerConnection>)>> {
        let no_zeroes = negotiation::greet(client)?;
        let acceptor = self.acceptor.as_ref().filter(|_| matches!(client.stream, Stream::Tcp(_)));
        let encryption = if acceptor.is_some() { Encryption::Required } else { Encryption::Unavailable };
        match negotiation::options(client, &self.export, encryption, no_zeroes)? {
            Outcome::Gone => Ok(None),
            Outcome::Transmission(agreed) => Ok(Some((agreed, None))),
            Outcome::StartTls => {
                let Some(acceptor) = acceptor else { return Ok(None) };
                let mut connection = acceptor.connection()?;
                let mut encrypted = rustls::Stream::new(&mut connection, client);
                match negotiation::options(&mut encrypted, &self.export, Encryption::On, no_zeroes)? {
                    Outcome::Transmission(agreed) => Ok(Some((agreed, Some(connection)))),
                    Outcome::Gone | Outcome::StartTls => Ok(None),
                }
            }
        }
    }

    /// The socket that the device's thread is to use: the client's own, or one end of a pair behind its TLS.
    fn hand_over(
        &self,
        client: Stream,
        connection: Option<rustls::ServerConnection>,
        place: &Arc<Place>,
    ) -> io::Result<OwnedFd> {
        let Some(connection) = connection else { return client.into_socket() };
        let (inner, outer) = UnixStream::pair()?;
        let encrypting = Place::take(&self.encrypting, usize::MAX).ok_or(io::ErrorKind::QuotaExceeded)?;
        tls::between(client.into_socket()?, outer, connection, [place.clone(), encrypting])?;
        Stream::Unix(inner).into_socket()
    }
}

/// A client's connection.
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn describe(&self) -> String {
        match self {
            Self::Unix(stream) => match sockopt::socket_peercred(stream) {
                Ok(peer) => format!("unix, pid {}", peer.pid.as_raw_nonzero()),
                Err(_) => "unix".to_string(),
            },
            Self::Tcp(stream) => match stream.peer_addr() {
                Ok(peer) => format!("tcp, {peer}"),
                Err(_) => "tcp".to_string(),
            },
        }
    }

    /// As the device's thread wants it: nothing waits, replies go out at once, and there is room for several.
    fn into_socket(self) -> io::Result<OwnedFd> {
        let socket = match self {
            Self::Unix(stream) => OwnedFd::from(stream),
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                sockopt::set_socket_keepalive(&stream, true)?;
                sockopt::set_tcp_keepidle(&stream, SILENCE)?;
                OwnedFd::from(stream)
            }
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
        // Beyond the system's limit only where permitted (CAP_NET_ADMIN); it is a matter of speed alone.
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BYTES)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, SOCKET_BYTES));
        Ok(socket)
    }

    fn limit(&self, left: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// A stream that breaks at a time, however slowly its other end drips.
struct Deadline {
    stream: Stream,
    until: Instant,
}

impl Deadline {
    fn limit(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(late()) } else { self.stream.limit(left) }
    }
}

fn late() -> io::Error {
    let words = format!("it took longer than {} s", NEGOTIATION.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, words)
}

/// What a socket says when its time is over is that it would have to wait.
fn in_time(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { late() } else { error }
}

impl Read for Deadline {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        match &mut self.stream {
            Stream::Unix(stream) => stream.read(to),
            Stream::Tcp(stream) => stream.read(to),
        }
        .map_err(in_time)
    }
}

impl Write for Deadline {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        match &mut self.stream {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
        .map_err(in_time)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tls::TlsFiles;
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let unix: Address = "unix:/run/dwell/a.sock".parse().unwrap();
        assert_eq!(unix.to_string(), "unix:/run/dwell/a.sock");
        let tcp: Address = "tcp:127.0.0.1:10809".parse().unwrap();
        assert_eq!(tcp.to_string(), "tcp:127.0.0.1:10809");
        // Without a path, the system would give the socket a name that everybody may connect to.
        for wrong in ["", "unix:", "127.0.0.1:10809", "tcp:127.0.0.1", "udp:127.0.0.1:1"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }

    /// Its place would be taken for ever.
    #[test]
    fn a_client_whose_machine_is_gone_is_found_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Stream::Tcp(listener.accept().unwrap().0).into_socket().unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), SILENCE);
    }

    #[test]
    fn a_client_that_takes_too_long_is_told_to_have() {
        let (client, _other) = UnixStream::pair().unwrap();
        let until = Instant::now() + Duration::from_millis(20);
        let mut client = Deadline { stream: Stream::Unix(client), until };
        for _ in 0..2 {
            let told = client.read(&mut [0]).unwrap_err().to_string();
            assert!(told.contains("longer than 15 s"), "{told}");
        }
    }

    #[test]
    fn only_loopback_is_served_without_tls() {
        let on = |address: &str| {
            let addresses = vec![address.parse().unwrap()];
            Listener::check(&NbdOptions { addresses, ..NbdOptions::default() })
        };
        on("tcp:127.0.0.1:10809").unwrap();
        on("tcp:[::1]:10809").unwrap();
        for open in ["tcp:0.0.0.0:10809", "tcp:192.0.2.1:10809", "tcp:[::]:10809"] {
            assert!(on(open).unwrap_err().to_string().contains("TLS"), "{open}");
        }
    }

    /// Whoever asks for clients' certificates would believe that nobody comes without.
    #[test]
    fn tls_that_nobody_would_use_is_refused() {
        let check = |addresses: &[&str]| {
            let files = || PathBuf::from("/nonexistent/key");
            let tls = Some(TlsFiles { certificates: files(), key: files(), client_authorities: None });
            let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
            Listener::check(&NbdOptions { addresses, tls, ..NbdOptions::default() }).unwrap_err()
        };
        assert!(
            matches!(check(&["unix:/run/a"]), ServeError::Configuration(problem) if problem.contains("TCP"))
        );
        let used = check(&["unix:/run/a", "tcp:127.0.0.1:10809"]).to_string();
        assert!(used.contains("/nonexistent/key"), "it is looked at: {used}");
    }

    fn listen(addresses: Vec<Address>) -> io::Result<Listeners> {
        let export =
            Export { name: String::new(), bytes: 512, block_bytes: 512, rotational: false, read_only: false };
        let (greeted, _clients) = std::sync::mpsc::channel();
        let bell = Arc::new(Bell::new().unwrap());
        let options = NbdOptions { addresses, ..NbdOptions::default() };
        Listener::all(&options, &export, &greeted, &bell, &Arc::default())
    }

    #[test]
    fn a_directory_that_was_made_for_several_sockets_goes_with_the_last() {
        let directory = std::env::temp_dir().join(format!("dwell-listeners-{}", std::process::id()));
        let socket = |name: &str| Address::Unix(directory.join(name));
        let listeners = listen(vec![socket("a"), socket("b")]).unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);
        drop(listeners);
        assert!(!directory.exists());
        assert!(listen(vec![socket("a"), socket("b"), socket("b")]).is_err());
        assert!(!directory.exists(), "nothing is left of those that were there already");
    }

    /// A signal that this thread gets ends its wait without anybody having come.
    #[test]
    fn a_signal_does_not_keep_a_listener_from_ending() {
        use std::os::unix::thread::JoinHandleExt;
        let path = std::env::temp_dir().join(format!("dwell-listener-{}", std::process::id()));
        let listeners = listen(vec![Address::Unix(path)]).unwrap();
        // SAFETY: the handler does nothing.
        unsafe { signal_hook::low_level::register(libc::SIGUSR1, || ()) }.unwrap();
        let thread = listeners.0[0].thread.as_ref().unwrap().as_pthread_t();
        thread::sleep(Duration::from_millis(50));
        // SAFETY: the thread lives as long as its handle.
        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
        thread::sleep(Duration::from_millis(50));
        let (ended, waiting) = std::sync::mpsc::channel();
        thread::spawn(move || {
            drop(listeners);
            let _ = ended.send(());
        });
        waiting.recv_timeout(Duration::from_secs(5)).expect("it waits for a client that never comes");
    }
}
