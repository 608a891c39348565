//! All NBD clients, as the device's thread sees them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::connections::Connections;
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
    connections: Connections<OwnedFd>,
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
            connections: Connections::default(),
            stopped: None,
        })
    }

    fn adopt(&mut self, greeted: Greeted, host: &mut Host<'_>) {
        let questions = self.surveyor.as_ref().map(|surveyor| surveyor.questions.clone());
        self.connections.adopt(greeted, questions, host);
    }

    fn hear_surveys(&mut self, host: &mut Host<'_>) {
        for survey in self.surveyor.iter().flat_map(|surveyor| surveyor.surveys.try_iter()) {
            self.connections.surveyed(&survey, host);
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
    }

    fn due(&self) -> Option<Instant> {
        let farewell = self.stopped.map(|_| Instant::now() + LOOK);
        self.connections.due().into_iter().chain(farewell).min()
    }

    fn timer(&mut self, host: &mut Host<'_>) {
        self.connections.timer(host);
    }

    fn stop(&mut self, _host: &mut Host<'_>) {
        self.listeners = Listeners::default();
        self.stopped = Some(Instant::now());
        self.connections.take_leave();
    }

    fn is_done(&self) -> bool {
        let patience = self.stopped.is_some_and(|since| since.elapsed() >= FAREWELL);
        let encrypted = self.encrypting.load(Ordering::Relaxed) > 0;
        patience || (!encrypted && self.connections.is_empty())
    }

    fn clients(&self) -> Vec<Client> {
        self.connections.describe()
    }
}
