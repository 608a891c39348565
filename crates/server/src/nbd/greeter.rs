//! Takes one client from its first byte to the device's thread.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustls::ServerConnection;

use super::client_socket::{ClientSocket, Timed};
use super::handshakes::{Handshake, Handshakes, Progress};
use super::negotiation::{self, Agreed, Encryption, Export, Outcome};
use super::places::{Origin, Place, Places, Shortage};
use super::stream::FAREWELL;
use super::tls::{self, Acceptor};
use crate::poller::Bell;
use crate::rate_limit::RateLimit;

/// How long a client may take for its first bytes.
const FIRST_BYTES: Duration = Duration::from_secs(5);

/// How long a client may take from its connection to the transmission phase, TLS included.
const NEGOTIATION: Duration = Duration::from_secs(15);

/// How long the device's thread may take to look for an idle client.
const LOOK: Duration = Duration::from_secs(1);

/// How long a disconnected client's place may stay taken: its last replies are sent before.
const PLACE: Duration = FAREWELL.saturating_add(Duration::from_secs(1));

/// A client that may begin the transmission phase.
pub(super) struct Greeted<S = OwnedFd> {
    pub(super) stream: S,
    pub(super) agreed: Agreed,
    /// The client as logs and `show` name it.
    pub(super) from: String,
    pub(super) place: Arc<Place>,
}

/// A client that waits for a place.
pub(super) struct Wanted {
    pub(super) places: Arc<Places>,
    pub(super) origin: Origin,
    pub(super) shortage: Shortage,
    /// Receives whether an idle client was disconnected for it.
    pub(super) reply: Sender<bool>,
}

/// What the device's thread receives about clients.
pub(super) enum Arrival {
    Client(Greeted),
    Wanted(Wanted),
}

/// Messages about misbehaving clients.
pub(super) type ClientLog = Arc<RateLimit<Origin>>;

/// What a listener does with each client.
#[derive(Clone)]
pub(super) struct Greeter {
    pub(super) export: Export,
    /// TLS, which this listener's clients must then begin.
    pub(super) acceptor: Option<Acceptor>,
    pub(super) handshakes: Arc<Handshakes>,
    pub(super) places: Arc<Places>,
    /// One place for each thread that encrypts.
    pub(super) encrypting: Arc<Places>,
    pub(super) arrivals: Sender<Arrival>,
    pub(super) bell: Arc<Bell>,
    pub(super) log: ClientLog,
}

/// A negotiation that succeeded.
type Begun = (Agreed, Place, Option<Box<ServerConnection>>);

impl Greeter {
    /// Negotiates with a client and passes it to the device's thread, or disconnects it.
    pub(super) fn greet(&self, handshake: Handshake) {
        let (from, origin) = (handshake.socket().describe(), handshake.origin());
        let begun = self.negotiate(&handshake, &from);
        if handshake.is_displaced() {
            let problem = "disconnected in its handshake: too many clients connect at once";
            return self.log.log(origin, format_args!("nbd: {from}: {problem}"));
        }
        let passed = match begun {
            Ok(Some(begun)) => handshake.finish().map_or(Ok(()), |socket| self.pass_on(socket, begun, &from)),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = passed {
            self.log.log(origin, format_args!("nbd: {from}: disconnected in its handshake: {error}"));
        }
    }

    fn negotiate(&self, handshake: &Handshake, from: &str) -> io::Result<Option<Begun>> {
        let began = Instant::now();
        let mut client = Timed { socket: handshake.socket(), until: began + FIRST_BYTES };
        let Some(no_zeroes) = negotiation::greet(&mut client)? else { return Ok(None) };
        client.until = began + NEGOTIATION;
        handshake.reached(Progress::Greeted);
        let admit = || {
            handshake.reached(Progress::Authenticated);
            self.place(handshake.origin(), from)
        };
        let encryption = if self.acceptor.is_some() { Encryption::Required } else { Encryption::Unavailable };
        match negotiation::options(&mut client, &self.export, encryption, no_zeroes, admit)? {
            Outcome::Gone => Ok(None),
            Outcome::Transmission(agreed, place) => Ok(Some((agreed, place, None))),
            Outcome::StartTls => {
                let Some(acceptor) = &self.acceptor else { return Ok(None) };
                handshake.reached(Progress::Encrypting);
                let mut connection = Box::new(acceptor.connection()?);
                let mut encrypted = rustls::Stream::new(&mut *connection, &mut client);
                match negotiation::options(&mut encrypted, &self.export, Encryption::On, no_zeroes, admit)? {
                    Outcome::Transmission(agreed, place) => Ok(Some((agreed, place, Some(connection)))),
                    Outcome::Gone | Outcome::StartTls => Ok(None),
                }
            }
        }
    }

    /// A place for a client that has authenticated itself, if need be that of an idle one.
    fn place(&self, origin: Origin, from: &str) -> Result<Place, String> {
        let shortage = match self.places.take(origin) {
            Ok(place) => return Ok(place),
            Err(shortage) => shortage,
        };
        let (reply, answer) = channel();
        let wanted = Wanted { places: self.places.clone(), origin, shortage, reply };
        self.pass(Arrival::Wanted(wanted));
        let place = if answer.recv_timeout(LOOK) == Ok(true) {
            self.places.wait(origin, Instant::now() + PLACE)
        } else {
            Err(shortage)
        };
        place.map_err(|shortage| {
            self.log.log(origin, format_args!("nbd: {from}: refused: {shortage}, and none of them is idle"));
            shortage.to_string()
        })
    }

    fn pass(&self, arrival: Arrival) {
        if self.arrivals.send(arrival).is_ok() {
            self.bell.ring();
        }
    }

    fn pass_on(&self, socket: ClientSocket, (agreed, place, tls): Begun, from: &str) -> io::Result<()> {
        let place = Arc::new(place);
        let stream = match tls {
            None => socket.into_nonblocking()?,
            Some(tls) => self.encrypt(socket, tls, &place)?,
        };
        self.pass(Arrival::Client(Greeted { stream, agreed, from: from.to_string(), place }));
        Ok(())
    }

    /// Starts the thread that encrypts; the device's end of the socket pair behind it.
    fn encrypt(
        &self,
        socket: ClientSocket,
        tls: Box<ServerConnection>,
        place: &Arc<Place>,
    ) -> io::Result<OwnedFd> {
        let (inner, outer) = UnixStream::pair()?;
        let encrypting = self.encrypting.take(place.origin());
        let encrypting = encrypting.map_err(|shortage| io::Error::other(shortage.to_string()))?;
        tls::between(socket.into_nonblocking()?, outer, tls, [place.clone(), Arc::new(encrypting)])?;
        ClientSocket::Unix(inner).into_nonblocking()
    }
}
