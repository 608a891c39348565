//! One client in the transmission phase. Nothing in here waits, and what it holds is bounded.
//!
//! | file | what |
//! |---|---|
//! | `receiving` | from bytes to requests |
//! | `asking` | from requests to operations of the device |
//! | `answering` | from what the device did to replies |
//! | `rest` | when it is not listened to, as it has enough to read |
//! | `trial` | whether that pays |

mod answering;
mod asking;
mod receiving;
mod rest;
mod trial;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use elevator::Process;

use self::rest::Rest;
use super::listener::{Greeted, Place};
use super::negotiation::Agreed;
use super::protocol::{LONGEST_PAYLOAD, REQUEST_BYTES, Request};
use super::reply::Outbox;
use super::shown::untaken;
use super::stream::Stream;
use super::survey::Question;
use crate::buffer::Buffer;
use crate::front::{Client, Host};
use crate::poller::Interest;

/// Memory for what was received and not understood yet: 31 writes of 4 KiB in one call.
const RECEIVE: usize = 128 << 10;

/// Requests accepted and not answered, beyond which nothing more is read from a client.
const REQUESTS: usize = 256;

/// Data held for one client, beyond which nothing more is read from it. One request of the greatest length always fits.
const BUDGET: usize = LONGEST_PAYLOAD as usize + (8 << 20);

/// A request accepted and not answered.
#[derive(Default)]
struct Pending {
    request: Option<Request>,
    /// Its data, in parts of at most [`LARGEST`].
    parts: Vec<Option<Buffer>>,
    /// Operations out.
    left: u32,
    error: u32,
    /// Bytes of a write-zeroes or trim that have been asked for.
    asked: u64,
    /// The flush that makes it durable is out.
    flushing: bool,
}

/// A payload being received.
enum Receiving {
    /// Into this request's parts: so many bytes are there.
    Write { pending: u16, filled: usize },
    /// Into the void, so many more bytes: the request was refused, which its client is told when it has sent them all. Many clients
    /// look for replies to what they have sent whole only.
    Refused { request: Request, error: u32, left: usize },
}

/// Whether the client is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    /// It said goodbye: what was accepted is finished and answered.
    Ending,
    /// The server stops: the same, and the client's system has got the answers. It may go on asking, which would take them back.
    Leaving,
    /// Nothing can be sent any more.
    Gone,
}

/// A client.
pub(in crate::nbd) struct Connection<S> {
    stream: S,
    agreed: Agreed,
    process: Process,
    from: String,
    /// Where to ask what lies where, if whoever asks may have to wait.
    questions: Option<Sender<Question>>,
    /// Held as long as the connection, so that there are never more of them than allowed.
    _place: Arc<Place>,
    received: Box<[u8]>,
    begin: usize,
    end: usize,
    receiving: Option<Receiving>,
    /// The latest write was a large one, so the next one's data shall not come by the receive memory.
    large: bool,
    pending: Vec<Pending>,
    free: Vec<u16>,
    outbox: Outbox,
    rest: Rest,
    held: usize,
    asleep: u32,
    phase: Phase,
    blocked: bool,
    watched: Option<Interest>,
    /// Its place among the front end's connections.
    index: u16,
    block_bytes: u32,
    bytes: u64,
}

impl<S: Stream> Connection<S> {
    pub(in crate::nbd) fn new(
        index: u16,
        process: Process,
        greeted: Greeted<S>,
        questions: Option<Sender<Question>>,
        host: &mut Host<'_>,
    ) -> Self {
        let Greeted { stream, agreed, from, place } = greeted;
        let geometry = host.geometry();
        let rest = Rest::new(stream.socket(), host.device().backend().keeps_time());
        let outbox = Outbox::new(stream.socket());
        Self {
            stream,
            agreed,
            process,
            from,
            questions,
            _place: place,
            received: vec![0; RECEIVE].into_boxed_slice(),
            begin: 0,
            end: 0,
            receiving: None,
            large: false,
            pending: Vec::new(),
            free: Vec::new(),
            outbox,
            rest,
            held: 0,
            asleep: 0,
            phase: Phase::Open,
            blocked: false,
            watched: None,
            index,
            block_bytes: geometry.block_bytes,
            bytes: geometry.capacity.bytes(),
        }
    }

    pub(in crate::nbd) const fn process(&self) -> Process {
        self.process
    }

    pub(in crate::nbd) fn describe(&self) -> Client {
        Client {
            process: Some(self.process.group),
            from: self.from.clone(),
            in_flight: self.unanswered() as u32,
            bytes: self.held as u64,
        }
    }

    fn unanswered(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    /// Whether nothing of it is left in the device, and nothing to be sent.
    pub(in crate::nbd) fn is_over(&self) -> bool {
        let receiving = usize::from(matches!(self.receiving, Some(Receiving::Write { .. })));
        let is_answered = self.unanswered() == receiving;
        match self.phase {
            Phase::Open => false,
            Phase::Ending => is_answered && self.outbox.is_empty(),
            Phase::Leaving => {
                is_answered
                    && self.outbox.is_empty()
                    && self.stream.socket().is_none_or(|socket| untaken(socket) == 0)
            }
            Phase::Gone => is_answered,
        }
    }

    /// Takes nothing more, as the server stops.
    pub(in crate::nbd) fn take_leave(&mut self) {
        if self.phase != Phase::Gone {
            self.phase = Phase::Leaving;
        }
    }

    /// Takes nothing more.
    pub(in crate::nbd) fn stop(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Ending;
        }
    }

    fn gone(&mut self, host: &mut Host<'_>) {
        self.phase = Phase::Gone;
        self.held -= self.outbox.clear(&mut host.device().pool);
    }

    fn takes_more(&self) -> bool {
        self.phase == Phase::Open
            && self.asleep == 0
            && self.held < BUDGET
            && self.unanswered() + self.outbox.len() < REQUESTS
    }

    /// A whole request that has been received and waits for room is followed by none: the receive memory may be full of what
    /// is behind it, and to read into no memory would look like the client's end.
    fn wants_bytes(&self) -> bool {
        let waits = self.end - self.begin >= REQUEST_BYTES;
        self.phase == Phase::Open
            && self.rest.until().is_none()
            && (self.receiving.is_some() || (self.takes_more() && !waits))
    }

    fn release(&mut self, buffer: Buffer, host: &mut Host<'_>) {
        self.held -= buffer.footprint();
        host.device().pool.put(buffer);
    }

    /// The queue has room again.
    pub(in crate::nbd) const fn woken(&mut self) {
        self.asleep -= 1;
    }

    /// Sends what has gathered, understands what that made room for, and says what to wait for.
    pub(in crate::nbd) fn flush(&mut self, number: u32, host: &mut Host<'_>) {
        if self.phase != Phase::Gone && !self.outbox.is_empty() {
            let rest = self.rest.is_due(self.stream.socket(), self.outbox.len());
            match self.outbox.send(&self.stream, &mut host.device().pool) {
                Ok(freed) => self.held -= freed,
                Err(_) => self.gone(host),
            }
            if rest && self.outbox.is_empty() {
                self.rest.begin();
            }
        }
        self.blocked = !self.outbox.is_empty();
        if self.phase == Phase::Open {
            self.understand(host);
        }
        self.watch(number, host);
    }

    /// When its rest is over.
    pub(in crate::nbd) const fn due(&self) -> Option<Instant> {
        self.rest.until()
    }

    /// Its rest is over: what gathered meanwhile is read.
    pub(in crate::nbd) fn rested(&mut self, host: &mut Host<'_>) {
        self.rest.end();
        self.readable(host);
    }

    fn watch(&mut self, number: u32, host: &mut Host<'_>) {
        let wanted = Interest { read: self.wants_bytes(), write: self.blocked && self.phase != Phase::Gone };
        // Without any interest a closed connection would still be reported, again and again.
        let wanted = (wanted.read || wanted.write).then_some(wanted);
        if wanted == self.watched {
            return;
        }
        let result = self.stream.watch(self.watched, wanted, number, host);
        self.watched = wanted;
        if result.is_err() {
            self.gone(host);
        }
    }

    /// Gives back whatever memory it still holds.
    pub(in crate::nbd) fn end(mut self, host: &mut Host<'_>) {
        self.outbox.clear(&mut host.device().pool);
        for buffer in self.pending.drain(..).flat_map(|pending| pending.parts).flatten() {
            host.device().pool.put(buffer);
        }
    }
}

/// What an operation is called between a connection and the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::nbd) struct Cookie {
    pub(in crate::nbd) connection: u16,
    pub(in crate::nbd) pending: u16,
    pub(in crate::nbd) part: u16,
}

impl Cookie {
    pub(in crate::nbd) const fn pack(self) -> u64 {
        (self.connection as u64) << 32 | (self.pending as u64) << 16 | self.part as u64
    }

    pub(in crate::nbd) const fn unpack(cookie: u64) -> Self {
        Self { connection: (cookie >> 32) as u16, pending: (cookie >> 16) as u16, part: cookie as u16 }
    }
}
