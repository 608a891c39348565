//! The sockets that are listened on, and the thread of each that accepts clients.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};

use super::client_socket::{ClientSocket, STACK};
use super::greeter::{Arrival, ClientLog, Greeter};
use super::handshakes::Handshakes;
use super::negotiation::Export;
use super::options::{Address, NbdOptions};
use super::places::Places;
use super::tls::Acceptor;
use crate::control::{self, REFUSED, bind_private};
use crate::poller::Bell;
use crate::privileges;

/// Handshakes of TCP clients that are under way at once. Each costs a thread, a descriptor and at most 200 KiB; a client needs some
/// milliseconds for its handshake.
const TCP_HANDSHAKES: usize = 64;

/// The same for unix sockets, which admit their owner only.
const UNIX_HANDSHAKES: usize = 16;

/// A socket that is listened on until this is dropped.
pub(super) struct Listener {
    /// With the port that the kernel chose, if the configuration has port 0.
    address: Address,
    stop: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
    file: Option<Arc<control::SocketFile>>,
}

/// All sockets that are listened on. The last one is dropped first: the first one may have created the directory of the others.
#[derive(Default)]
pub(super) struct Listeners(Vec<Listener>);

impl Listeners {
    /// The addresses, with the ports that the kernel chose.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.0.iter().map(|listener| &listener.address)
    }

    /// The files of unix sockets.
    pub(super) fn files(&self) -> impl Iterator<Item = &Arc<control::SocketFile>> {
        self.0.iter().filter_map(|listener| listener.file.as_ref())
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// What the listeners share with the device's thread.
pub(super) struct Shared {
    pub(super) acceptor: Option<Acceptor>,
    pub(super) arrivals: Sender<Arrival>,
    pub(super) bell: Arc<Bell>,
    pub(super) encrypting: Arc<Places>,
    pub(super) log: ClientLog,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listeners {
    /// Listens on every address. Unix and TCP listeners have separate places and handshakes, so clients of the one kind cannot keep out
    /// those of the other.
    pub(super) fn start(options: &NbdOptions, export: &Export, shared: Shared) -> io::Result<Self> {
        let Shared { acceptor, arrivals, bell, encrypting, log } = shared;
        let greeter = |acceptor, handshakes| Greeter {
            export: export.clone(),
            acceptor,
            handshakes: Handshakes::new(handshakes),
            places: Places::new(usize::from(options.connections), options.per_address()),
            encrypting: encrypting.clone(),
            arrivals: arrivals.clone(),
            bell: bell.clone(),
            log: log.clone(),
        };
        let (unix, tcp) = (greeter(None, UNIX_HANDSHAKES), greeter(acceptor, TCP_HANDSHAKES));
        let mut listeners = Self::default();
        for address in &options.addresses {
            let greeter = if matches!(address, Address::Tcp(_)) { &tcp } else { &unix };
            let listener = Listener::start(address, greeter.clone())
                .map_err(|error| io::Error::new(error.kind(), format!("listening on {address}: {error}")))?;
            listeners.0.push(listener);
            if let Some(clients) = options.open_to(address) {
                let may = if export.read_only { "read the device" } else { "read and write the device" };
                let advice = "use a unix socket, or TLS that verifies clients' certificates";
                say!("nbd: warning: {address} does not authenticate clients: {clients} may {may}; {advice}");
            }
        }
        Ok(listeners)
    }
}

impl Listener {
    fn start(address: &Address, greeter: Greeter) -> io::Result<Self> {
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
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("nbd-listener".into()).spawn(move || {
            // The threads that this one starts inherit the restrictions.
            privileges::restrict_client_threads();
            socket.listen(&stopped, &greeter);
        })?;
        Ok(Self { address, stop, thread: Some(thread), file: file.map(Arc::new) })
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
    fn listen(&self, stop: &Bell, greeter: &Greeter) {
        loop {
            let mut sources = [
                PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
            ];
            // After a signal (EINTR) nothing is ready, and `accept` returns EAGAIN.
            if poll(&mut sources, None).is_ok() && !sources[1].revents().is_empty() {
                return;
            }
            match self.accept() {
                Ok(client) => begin(client, greeter),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Usually no descriptor is free (EMFILE). The client stays in the backlog, so `poll` would return at once.
                Err(_) => {
                    greeter.handshakes.displace();
                    thread::sleep(REFUSED);
                }
            }
        }
    }

    fn accept(&self) -> io::Result<ClientSocket> {
        match self {
            Self::Unix(listener) => listener.accept().map(|(stream, _)| ClientSocket::Unix(stream)),
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| ClientSocket::Tcp(stream)),
        }
    }
}

/// Starts a client's handshake.
fn begin(client: ClientSocket, greeter: &Greeter) {
    let (from, origin) = (client.describe(), client.origin());
    let Some(handshake) = greeter.handshakes.begin(client) else {
        let problem = "refused: too many clients connect at once";
        return greeter.log.log(origin, format_args!("nbd: {from}: {problem}"));
    };
    let greeter = greeter.clone();
    let greet = move || greeter.greet(handshake);
    // Without a thread, the client is disconnected.
    let _ = thread::Builder::new().name("nbd-greeter".into()).stack_size(STACK).spawn(greet);
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn listen(addresses: Vec<Address>) -> io::Result<Listeners> {
        let export = Export {
            name: String::new(),
            bytes: 512,
            block_bytes: 512,
            rotational: false,
            read_only: false,
            longest: 1 << 25,
        };
        let (arrivals, _clients) = std::sync::mpsc::channel();
        let bell = Arc::new(Bell::new().unwrap());
        let encrypting = Places::new(usize::MAX, usize::MAX);
        let shared = Shared { acceptor: None, arrivals, bell, encrypting, log: ClientLog::default() };
        Listeners::start(&NbdOptions { addresses, ..NbdOptions::default() }, &export, shared)
    }

    #[test]
    fn a_directory_created_for_several_sockets_is_removed_with_the_last() {
        let directory = std::env::temp_dir().join(format!("dwell-listeners-{}", std::process::id()));
        let socket = |name: &str| Address::Unix(directory.join(name));
        let listeners = listen(vec![socket("a"), socket("b")]).unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);
        drop(listeners);
        assert!(!directory.exists());
        assert!(listen(vec![socket("a"), socket("b"), socket("b")]).is_err());
        assert!(!directory.exists(), "a failed start leaves nothing behind");
    }

    #[test]
    fn a_port_is_free_once_its_listener_is_dropped() {
        let listeners = listen(vec![Address::Tcp("127.0.0.1:0".parse().unwrap())]).unwrap();
        let Some(&Address::Tcp(address)) = listeners.addresses().next() else { panic!("one address") };
        assert!(TcpListener::bind(address).is_err(), "the port is taken");
        drop(listeners);
        TcpListener::bind(address).expect("the thread has closed its socket");
    }

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
        waiting.recv_timeout(Duration::from_secs(5)).expect("the listener still waits for a client");
    }
}
