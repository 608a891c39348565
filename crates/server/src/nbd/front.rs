//! All NBD clients, as the device's thread sees them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use elevator::Process;

use super::connection::{Connection, Cookie};
use super::listener::{Address, Greeted, Listener, Listeners};
use super::negotiation::Export;
use super::survey::Surveyor;
use super::tls::TlsFiles;
use crate::ServeError;
use crate::device::Answer;
use crate::front::{Client, FrontEnd, Host};
use crate::poller::{Bell, Interest};

/// Number of the bell that rings when a client has been greeted or a survey is there; connections follow.
const BELL: u32 = 0;

/// How long a client may take to read its last replies when the server stops.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// How often is looked whether clients have taken their last replies.
const LOOK: Duration = Duration::from_millis(5);

/// How NBD is served.
#[derive(Clone, Debug)]
pub struct NbdOptions {
    /// Where to listen.
    pub addresses: Vec<Address>,
    /// The export's name; the empty name always means it too.
    pub export: String,
    /// Clients served at once; each may hold 40 MiB. More are turned away.
    pub connections: u16,
    /// Certificates, which make TLS possible on TCP and, on addresses that are not loopback, are needed.
    pub tls: Option<TlsFiles>,
}

impl Default for NbdOptions {
    fn default() -> Self {
        Self { addresses: Vec::new(), export: String::new(), connections: 16, tls: None }
    }
}

/// The NBD front end.
pub struct Nbd {
    options: NbdOptions,
    listeners: Listeners,
    greeted: Option<Receiver<Greeted>>,
    bell: Arc<Bell>,
    /// Who looks up what lies where, if that may take time.
    surveyor: Option<Surveyor>,
    /// Threads that encrypt.
    encrypting: Arc<AtomicUsize>,
    connections: Vec<Option<Connection>>,
    /// Numbers of processes: one for each connection, never used again.
    processes: u32,
    stopped: Option<Instant>,
}

impl Nbd {
    /// A front end that listens once it is started.
    ///
    /// # Errors
    /// An address is not allowed without certificates, no address would use them, or they cannot be read.
    pub fn new(options: NbdOptions) -> Result<Self, ServeError> {
        Listener::check(&options)?;
        let bell = Arc::new(Bell::new().map_err(|error| ServeError::io("creating an eventfd", error))?);
        Ok(Self {
            options,
            listeners: Listeners::default(),
            greeted: None,
            bell,
            surveyor: None,
            encrypting: Arc::default(),
            connections: Vec::new(),
            processes: 0,
            stopped: None,
        })
    }

    fn adopt(&mut self, greeted: Greeted, host: &mut Host<'_>) {
        let index = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.processes = self.processes.wrapping_add(1).max(1);
        let process = Process::single(self.processes);
        let questions = self.surveyor.as_ref().map(|surveyor| surveyor.questions.clone());
        let mut connection = Connection::new(index as u16, process, greeted, questions, host);
        connection.flush(index as u32 + 1, host);
        self.connections[index] = Some(connection);
    }

    fn hear_surveys(&mut self, host: &mut Host<'_>) {
        for survey in self.surveyor.iter().flat_map(|surveyor| surveyor.surveys.try_iter()) {
            if let Some(Some(connection)) = self.connections.get_mut(usize::from(survey.cookie.connection)) {
                connection.surveyed(&survey, host);
            }
        }
    }

    fn end_those_over(&mut self, host: &mut Host<'_>) {
        for slot in &mut self.connections {
            if let Some(connection) = slot.take_if(|connection| connection.is_over()) {
                host.exited(connection.process());
                connection.end(host);
            }
        }
    }
}

impl FrontEnd for Nbd {
    fn start(&mut self, host: &mut Host<'_>) -> io::Result<()> {
        host.watch(&*self.bell, BELL, Interest::READ)?;
        let extents = host.device().backend().slow_extents();
        self.surveyor = extents.map(|extents| Surveyor::new(extents, self.bell.clone())).transpose()?;
        let export = Export::new(&self.options.export, &host.geometry());
        let (sender, greeted) = channel();
        self.greeted = Some(greeted);
        self.listeners = Listener::all(&self.options, &export, &sender, &self.bell, &self.encrypting)?;
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        self.listeners.addresses().map(Address::to_string).collect()
    }

    fn ready(&mut self, number: u32, host: &mut Host<'_>) {
        if number == BELL {
            self.bell.silence();
            while let Some(greeted) = self.greeted.as_ref().and_then(|greeted| greeted.try_recv().ok()) {
                if self.stopped.is_none() {
                    self.adopt(greeted, host);
                }
            }
            self.hear_surveys(host);
        } else if let Some(Some(connection)) = self.connections.get_mut(number as usize - 1) {
            connection.readable(host);
        }
    }

    fn answered(&mut self, answer: Answer, host: &mut Host<'_>) {
        let cookie = Cookie::unpack(answer.cookie);
        if let Some(Some(connection)) = self.connections.get_mut(usize::from(cookie.connection)) {
            connection.answered(cookie, answer, host);
        }
    }

    fn woken(&mut self, cookie: u64, _host: &mut Host<'_>) {
        let index = usize::from(Cookie::unpack(cookie).connection);
        if let Some(Some(connection)) = self.connections.get_mut(index) {
            connection.woken();
        }
    }

    fn flush(&mut self, host: &mut Host<'_>) {
        for (index, connection) in self.connections.iter_mut().enumerate() {
            if let Some(connection) = connection {
                connection.flush(index as u32 + 1, host);
            }
        }
        self.end_those_over(host);
    }

    fn due(&self) -> Option<Instant> {
        let farewell = self.stopped.map(|_| Instant::now() + LOOK);
        self.connections.iter().flatten().filter_map(Connection::due).chain(farewell).min()
    }

    fn timer(&mut self, host: &mut Host<'_>) {
        let now = Instant::now();
        for connection in self.connections.iter_mut().flatten() {
            if connection.due().is_some_and(|at| at <= now) {
                connection.rested(host);
            }
        }
    }

    fn stop(&mut self, _host: &mut Host<'_>) {
        self.listeners = Listeners::default();
        self.stopped = Some(Instant::now());
        self.connections.iter_mut().flatten().for_each(Connection::take_leave);
    }

    fn is_done(&self) -> bool {
        let patience = self.stopped.is_some_and(|since| since.elapsed() >= FAREWELL);
        let encrypted = self.encrypting.load(Ordering::Relaxed) > 0;
        patience || (!encrypted && self.connections.iter().all(Option::is_none))
    }

    fn clients(&self) -> Vec<Client> {
        self.connections.iter().flatten().map(Connection::describe).collect()
    }
}
