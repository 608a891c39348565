//! A client's socket from `accept` to the transmission phase.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown, sockopt};

use super::places::Origin;

/// A TCP connection that is silent for so long is probed by the kernel. Nine unanswered probes, 75 s apart, close the connection of a
/// machine that crashed.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Stack of a thread that serves one client: enough for the verification of a certificate chain.
pub(super) const STACK: usize = 512 << 10;

/// A connected client.
#[derive(Debug)]
pub(super) enum ClientSocket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl ClientSocket {
    /// The client as logs and `show` name it.
    pub(super) fn describe(&self) -> String {
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

    /// Where the client comes from. A TCP client that has disconnected already counts as 0.0.0.0.
    pub(super) fn origin(&self) -> Origin {
        match self {
            Self::Unix(stream) => {
                Origin::User(sockopt::socket_peercred(stream).map_or(u32::MAX, |peer| peer.uid.as_raw()))
            }
            Self::Tcp(stream) => stream.peer_addr().map_or(Origin::V4([0; 4]), |peer| peer.ip().into()),
        }
    }

    /// Ends both directions, so that a thread that reads or writes this socket returns.
    pub(super) fn shut_down(&self) {
        let _ = match self {
            Self::Unix(stream) => shutdown(stream, Shutdown::Both),
            Self::Tcp(stream) => shutdown(stream, Shutdown::Both),
        };
    }

    /// The socket as the device's thread uses it: non-blocking, and replies are sent at once.
    pub(super) fn into_nonblocking(self) -> io::Result<OwnedFd> {
        let socket = match self {
            Self::Unix(stream) => OwnedFd::from(stream),
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                sockopt::set_socket_keepalive(&stream, true)?;
                sockopt::set_tcp_keepidle(&stream, KEEPALIVE)?;
                OwnedFd::from(stream)
            }
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
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

/// Sets the size of the send buffer, beyond the system's limit if this thread may (`CAP_NET_ADMIN`). A smaller buffer costs speed only.
pub(super) fn enlarge_send_buffer(socket: impl AsFd, bytes: usize) {
    let _ = sockopt::set_socket_send_buffer_size_force(&socket, bytes)
        .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, bytes));
}

/// Reads and writes a client's socket until a deadline, however slowly the client sends.
pub(super) struct Timed<'a> {
    pub(super) socket: &'a ClientSocket,
    pub(super) until: Instant,
}

impl Timed<'_> {
    fn limit(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(timed_out()) } else { self.socket.limit(left) }
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it took too long")
}

/// A socket whose time is over reports that the call would block.
fn in_time(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { timed_out() } else { error }
}

impl Read for Timed<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        match self.socket {
            ClientSocket::Unix(stream) => (&*stream).read(to),
            ClientSocket::Tcp(stream) => (&*stream).read(to),
        }
        .map_err(in_time)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        match self.socket {
            ClientSocket::Unix(stream) => (&*stream).write(bytes),
            ClientSocket::Tcp(stream) => (&*stream).write(bytes),
        }
        .map_err(in_time)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn tcp_clients_are_probed_so_that_a_crashed_machine_loses_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = ClientSocket::Tcp(listener.accept().unwrap().0).into_nonblocking().unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), KEEPALIVE);
    }

    #[test]
    fn reading_fails_after_the_deadline() {
        let (client, _other) = UnixStream::pair().unwrap();
        let socket = ClientSocket::Unix(client);
        let mut client = Timed { socket: &socket, until: Instant::now() + Duration::from_millis(20) };
        for _ in 0..2 {
            assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
    }
}
