//! The NBD front end: all clients, as the device's thread sees them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use elevator::Span;

use super::block_status::Lookup;
use super::budget::{Budget, Division};
use super::client_socket::enlarge_send_buffer;
use super::connections::{Connections, Displaced};
use super::greeter::{Arrival, ClientLog, Greeted, Wanted};
use super::listener::{Listeners, Shared};
use super::negotiation::Export;
use super::options::{Address, NbdOptions};
use super::places::Places;
use super::stream::FAREWELL;
use super::tls::Acceptor;
use crate::ServeError;
use crate::front::{Client, FrontEnd, Guard, Host};
use crate::operation::Answer;
use crate::poller::{Bell, Interest};

/// Number of the bell that rings for each [`Arrival`] and each block status; connections have the numbers after it.
const BELL: u32 = 0;

/// How often the front end checks, after the server was stopped, whether clients have taken their last replies.
const LOOK: Duration = Duration::from_millis(5);

/// How often it checks, while a client waits for memory, whether others still hold theirs.
const LOOK_FOR_HOARDS: Duration = Duration::from_millis(100);

/// The NBD front end.
pub struct Nbd {
    options: NbdOptions,
    acceptor: Option<Acceptor>,
    listeners: Listeners,
    arrivals: Option<Receiver<Arrival>>,
    bell: Arc<Bell>,
    /// Looks up where the export holds data, if that may take time.
    block_status: Option<Lookup>,
    /// One place for each thread that encrypts.
    encrypting: Arc<Places>,
    connections: Connections<OwnedFd>,
    division: Division,
    log: ClientLog,
    stopped: Option<Instant>,
}

impl Nbd {
    /// A front end that listens once it is started.
    ///
    /// # Errors
    /// An address may not be served without certificates, no address would use them, or they cannot be read.
    pub fn new(options: NbdOptions) -> Result<Self, ServeError> {
        options.check()?;
        let division = options.division();
        let acceptor = options.tls.clone().map(Acceptor::load).transpose()?;
        let bell = Arc::new(Bell::new().map_err(|error| ServeError::io("creating an eventfd", error))?);
        Ok(Self {
            options,
            acceptor,
            listeners: Listeners::default(),
            arrivals: None,
            bell,
            block_status: None,
            encrypting: Places::new(usize::MAX, usize::MAX),
            connections: Connections::new(Budget::new(division)),
            division,
            log: ClientLog::default(),
            stopped: None,
        })
    }

    /// The TLS configuration, to load its files again. `None` without TLS.
    pub fn acceptor(&self) -> Option<Acceptor> {
        self.acceptor.clone()
    }

    fn arrived(&mut self, arrival: Arrival, host: &mut Host<'_>) {
        match arrival {
            Arrival::Client(greeted) => self.adopt(greeted, host),
            Arrival::Wanted(wanted) => self.make_room(&wanted, host),
        }
    }

    fn adopt(&mut self, greeted: Greeted, host: &mut Host<'_>) {
        // Here, as the threads of clients may not exceed the system's limit.
        enlarge_send_buffer(&greeted.stream, self.division.send_buffer);
        let queries = self.block_status.as_ref().map(|lookup| lookup.queries.clone());
        self.connections.adopt(greeted, queries, host);
    }

    /// Disconnects an idle client, if there is one, for a client that waits.
    fn make_room(&mut self, wanted: &Wanted, host: &mut Host<'_>) {
        // Another client may have left in the meantime.
        if wanted.places.take(wanted.origin).is_ok() {
            let _ = wanted.reply.send(true);
            return;
        }
        let displaced = self.connections.make_room(wanted, self.idle(), host);
        if let Some(Displaced { origin, from, idle }) = &displaced {
            let message = format_args!(
                "nbd: {from}: disconnected after {:.0} s without a request: another client waits",
                idle.as_secs_f64()
            );
            self.log.log_in_background(*origin, message);
        }
        // The client may have given up.
        let _ = wanted.reply.send(displaced.is_some());
    }

    fn idle(&self) -> Span {
        Span::from_nanos(self.options.idle.as_nanos().try_into().unwrap_or(u64::MAX))
    }

    fn take_block_status(&mut self, host: &mut Host<'_>) {
        for status in self.block_status.iter().flat_map(|lookup| lookup.results.try_iter()) {
            self.connections.block_status_found(&status, host);
        }
    }
}

impl FrontEnd for Nbd {
    fn start(&mut self, host: &mut Host<'_>) -> io::Result<()> {
        host.watch(&*self.bell, BELL, Interest::READ)?;
        let extents = host.device().backend().slow_extents();
        self.block_status = extents.map(|extents| Lookup::new(extents, self.bell.clone())).transpose()?;
        let mut export = Export::new(&self.options.export, &host.geometry());
        export.longest = self.division.longest();
        let (sender, arrivals) = channel();
        self.arrivals = Some(arrivals);
        let shared = Shared {
            acceptor: self.acceptor.clone(),
            arrivals: sender,
            bell: self.bell.clone(),
            encrypting: self.encrypting.clone(),
            log: self.log.clone(),
        };
        self.listeners = Listeners::start(&self.options, &export, shared)?;
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        self.listeners.addresses().map(Address::to_string).collect()
    }

    fn guards(&self) -> Vec<Guard> {
        self.listeners.files().map(|file| file.clone() as Guard).collect()
    }

    fn ready(&mut self, number: u32, host: &mut Host<'_>) {
        if number == BELL {
            self.bell.silence();
            while let Some(arrival) = self.arrivals.as_ref().and_then(|arrivals| arrivals.try_recv().ok()) {
                if self.stopped.is_none() {
                    self.arrived(arrival, host);
                }
            }
            self.take_block_status(host);
        } else {
            self.connections.readable(number as usize - 1, host);
        }
    }

    fn answered(&mut self, answer: Answer, host: &mut Host<'_>) {
        self.connections.answered(answer, host);
    }

    fn woken(&mut self, cookie: u64, _host: &mut Host<'_>) {
        self.connections.woken(cookie);
    }

    fn flush(&mut self, host: &mut Host<'_>) {
        self.connections.flush(host);
        while let Some(Displaced { origin, from, idle }) = self.connections.reclaim(self.idle(), host) {
            let message = format_args!(
                "nbd: {from}: disconnected: it holds memory for {:.0} s without reading its replies or sending its data, and another \
                 client waits for memory",
                idle.as_secs_f64()
            );
            self.log.log_in_background(origin, message);
            self.connections.flush(host);
        }
        while let Some((origin, from)) = self.connections.violator() {
            let message = format_args!("nbd: {from}: disconnected: it sent bytes that are no request");
            self.log.log_in_background(origin, message);
        }
    }

    /// After the server was stopped, only the system knows whether clients have taken their last replies, and sends no event. While a client
    /// waits for memory, the time of others passes without an event.
    fn due(&self) -> Option<Instant> {
        let look = self.stopped.map(|_| LOOK);
        let look = look.or_else(|| self.connections.is_short().then_some(LOOK_FOR_HOARDS));
        look.map(|look| Instant::now() + look)
    }

    fn stop(&mut self, _host: &mut Host<'_>) {
        self.listeners = Listeners::default();
        self.stopped = Some(Instant::now());
        self.connections.shut_down();
    }

    fn is_done(&self) -> bool {
        let is_late = self.stopped.is_some_and(|since| since.elapsed() >= FAREWELL);
        is_late || (self.encrypting.is_empty() && self.connections.is_empty())
    }

    fn clients(&self) -> Vec<Client> {
        self.connections.describe()
    }
}
