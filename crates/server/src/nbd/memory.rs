//! NBD clients in memory, in the transmission phase: what the simulation connects instead of sockets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;

use elevator::Span;
use rustix::io::{Errno, IoSlice, IoSliceMut};

use super::budget::{Budget, Division};
use super::connections::Connections;
use super::greeter::Greeted;
use super::negotiation::Agreed;
use super::places::{Origin, Places};
use super::stream::Stream;
use crate::front::{Client, FrontEnd, Host};
use crate::operation::Answer;
use crate::poller::Interest;

/// Number under which the front end is called when clients have connected; connections follow.
pub(crate) const ARRIVALS: u32 = 0;

/// Both directions of a connection. The simulation reads and writes the fields of the client's end.
#[derive(Default)]
pub struct Channel {
    /// Bytes on their way to the server.
    pub to_server: Bytes,
    /// Bytes on their way to the client.
    pub to_client: Bytes,
    /// How many bytes the channel holds towards the client; the server waits for room beyond that.
    pub capacity: usize,
    /// Most bytes of one call in either direction.
    pub most: usize,
    /// The client has closed its end: the server reads the rest and then the end.
    pub closed: bool,
    /// The connection was reset: every call fails.
    pub reset: bool,
    /// The server has closed its end.
    pub ended: bool,
    watched: Option<(Interest, u32)>,
}

/// Bytes of which the first are taken.
#[derive(Default)]
pub struct Bytes {
    bytes: Vec<u8>,
    taken: usize,
}

impl Bytes {
    /// The bytes that are there.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the first `count` bytes off.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken > 1 << 16 && self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Removes all but the first `count` bytes.
    pub fn truncate(&mut self, count: usize) {
        self.bytes.truncate(self.taken + count);
    }
}

impl Channel {
    /// What the server waits for and would find, as epoll reports it.
    pub(crate) fn ready(&self) -> Option<u32> {
        let (interest, number) = self.watched?;
        let readable = !self.to_server.as_slice().is_empty() || self.closed || self.reset;
        let writable = self.to_client.as_slice().len() < self.capacity || self.reset;
        ((interest.read && readable) || (interest.write && writable)).then_some(number)
    }
}

/// The server's end of a connection.
pub(super) struct Pipe(Rc<RefCell<Channel>>);

impl Drop for Pipe {
    fn drop(&mut self) {
        let mut channel = self.0.borrow_mut();
        channel.ended = true;
        channel.watched = None;
    }
}

impl Stream for Pipe {
    fn receive(&self, to: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let mut channel = self.0.borrow_mut();
        if channel.reset {
            return Err(Errno::CONNRESET);
        }
        let mut received = 0;
        for slice in to {
            let there = &channel.to_server.as_slice()[received..];
            let count = there.len().min(slice.len()).min(channel.most - received);
            slice[..count].copy_from_slice(&there[..count]);
            received += count;
        }
        channel.to_server.take(received);
        if received == 0 && !channel.closed { Err(Errno::AGAIN) } else { Ok(received) }
    }

    fn send(&self, from: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut channel = self.0.borrow_mut();
        if channel.reset {
            return Err(Errno::PIPE);
        }
        let room = channel.capacity.saturating_sub(channel.to_client.as_slice().len()).min(channel.most);
        let mut sent = 0;
        for slice in from {
            let count = slice.len().min(room - sent);
            channel.to_client.push(&slice[..count]);
            sent += count;
        }
        if sent == 0 { Err(Errno::AGAIN) } else { Ok(sent) }
    }

    fn watch(
        &self,
        _was: Option<Interest>,
        wanted: Option<Interest>,
        number: u32,
        _host: &Host<'_>,
    ) -> io::Result<()> {
        self.0.borrow_mut().watched = wanted.map(|interest| (interest, number));
        Ok(())
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Clients that connect.
#[derive(Clone)]
pub(crate) struct Arrivals(Rc<RefCell<VecDeque<Greeted<Pipe>>>>, Arc<Places>);

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self(Rc::default(), Places::new(usize::MAX, usize::MAX))
    }

    /// A client connects; its end of the connection.
    pub(crate) fn connect(&self, agreed: Agreed) -> Rc<RefCell<Channel>> {
        let channel = Channel { capacity: usize::MAX, most: usize::MAX, ..Channel::default() };
        let channel = Rc::new(RefCell::new(channel));
        let place = self.1.take(Origin::User(0)).expect("places without number");
        let (stream, from) = (Pipe(channel.clone()), "simulation".to_string());
        self.0.borrow_mut().push_back(Greeted { stream, agreed, from, place: Arc::new(place) });
        channel
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// The client that connected first.
    pub(super) fn next(&self) -> Option<Greeted<Pipe>> {
        self.0.borrow_mut().pop_front()
    }
}

/// A limit of the memory of all clients together.
#[derive(Clone, Copy, Debug)]
pub struct SharedMemory {
    /// Bytes that each client may hold at any time.
    pub own: usize,
    /// Bytes that they may hold together beyond that.
    pub common: usize,
    /// How long a client may hold some of the common part without progress while another one waits.
    pub idle: Span,
}

/// The front end of these clients.
pub(crate) struct MemoryNbd {
    connections: Connections<Pipe>,
    arrivals: Arrivals,
    stopped: bool,
    idle: Option<Span>,
}

impl MemoryNbd {
    pub(crate) fn new(arrivals: Arrivals, memory: Option<SharedMemory>) -> Self {
        let (division, idle) =
            memory.map_or((Division::default(), None), |SharedMemory { own, common, idle }| {
                (Division { own, common, ..Division::default() }, Some(idle))
            });
        Self { connections: Connections::new(Budget::new(division)), arrivals, stopped: false, idle }
    }
}

impl FrontEnd for MemoryNbd {
    fn start(&mut self, _host: &mut Host<'_>) -> io::Result<()> {
        Ok(())
    }

    fn ready(&mut self, number: u32, host: &mut Host<'_>) {
        if number != ARRIVALS {
            return self.connections.readable(number as usize - 1, host);
        }
        while let Some(greeted) = self.arrivals.next() {
            if !self.stopped {
                self.connections.adopt(greeted, None, host);
            }
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
        while self.idle.is_some_and(|idle| self.connections.reclaim(idle, host).is_some()) {
            self.connections.flush(host);
        }
    }

    fn stop(&mut self, _host: &mut Host<'_>) {
        self.stopped = true;
        self.connections.shut_down();
    }

    fn is_done(&self) -> bool {
        self.connections.is_empty()
    }

    fn clients(&self) -> Vec<Client> {
        self.connections.describe()
    }
}
