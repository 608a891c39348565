//! One client in the transmission phase. Nothing in here blocks or reads a clock, and the memory of a client is bounded.
//!
//! | file | content |
//! |---|---|
//! | `receive_buffer` | received bytes that are not parsed yet |
//! | `receiving` | from bytes to requests |
//! | `requesting` | from requests to operations of the device |
//! | `answering` | from completed operations to replies |

mod answering;
mod receive_buffer;
mod receiving;
mod requesting;

use std::sync::Arc;
use std::sync::mpsc::Sender;

use elevator::{Process, Time};

use super::block_status::Query;
use super::budget::{Budget, Held};
use super::greeter::Greeted;
use super::negotiation::Agreed;
use super::outbox::Outbox;
use super::places::Place;
use super::protocol::{Limits, REQUEST_BYTES, Request};
use super::stream::Stream;
use super::zero_copy::unacknowledged_bytes;
use crate::buffer::Buffer;
use crate::front::{Client, Host};
use crate::poller::Interest;
use receive_buffer::ReceiveBuffer;

/// Memory for received bytes that are not parsed yet: 31 writes of 4 KiB in one call.
const RECEIVE: usize = 128 << 10;

/// A client with this many unanswered requests is no longer read.
const REQUESTS: usize = 256;

/// A client that moves less than this within the idle time makes no progress.
const PROGRESS: u64 = 256 << 10;

/// A request that is accepted and not answered.
#[derive(Default)]
struct Pending {
    request: Option<Request>,
    /// The data, in parts of at most [`LARGEST`](crate::buffer::LARGEST).
    parts: Vec<Option<Buffer>>,
    /// Operations in the device.
    left: u32,
    error: u32,
    /// Bytes of a write-zeroes or trim that the device has been given.
    submitted: u64,
    /// The flush that makes it durable is in the device.
    flushing: bool,
}

/// A payload that is being received.
enum Receiving {
    /// Into the parts of this request, of which `filled` bytes have arrived.
    Write { pending: u16, filled: usize },
    /// The request is refused; `left` more bytes are discarded before the reply, as many clients expect replies only to requests that
    /// they have sent completely.
    Refused { request: Request, error: u32, left: usize },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    /// The client has sent `NBD_CMD_DISC` or closed its end. Accepted requests are finished and answered.
    Ending,
    /// The server stops. Accepted requests are finished, answered, and taken by the client's system. The client may continue to send
    /// requests: if the socket were closed with these unread, TCP would discard the replies.
    ShuttingDown,
    /// Nothing can be sent any more.
    Gone,
}

/// The latest time at which a client had moved [`PROGRESS`] bytes since the time before.
struct Progress {
    at: Time,
    /// The bytes that it had moved until then.
    bytes: u64,
}

/// A client.
pub(in crate::nbd) struct Connection<S> {
    stream: S,
    agreed: Agreed,
    process: Process,
    from: String,
    /// The thread that looks up where the export holds data, if the back end may block.
    block_status: Option<Sender<Query>>,
    /// Held as long as the connection.
    place: Arc<Place>,
    received: ReceiveBuffer,
    receiving: Option<Receiving>,
    /// The latest write was large: the data of the next one is not to pass through the receive memory.
    large: bool,
    pending: Vec<Pending>,
    free: Vec<u16>,
    outbox: Outbox,
    held: Held,
    /// Since when a request waits for the common part of the clients' memory.
    waits_since: Option<Time>,
    progress: Progress,
    /// Bytes received since the connection began.
    received_bytes: u64,
    asleep: u32,
    phase: Phase,
    /// It sent bytes that are no request.
    has_violated_protocol: bool,
    blocked: bool,
    watched: Option<Interest>,
    /// The index among the front end's connections.
    index: u16,
    limits: Limits,
    /// The latest time at which a byte was received or sent or an operation completed.
    active: Time,
}

impl<S: Stream> Connection<S> {
    /// A connection; `None` if there is no memory for it, which disconnects the client.
    pub(in crate::nbd) fn new(
        index: u16,
        process: Process,
        greeted: Greeted<S>,
        block_status: Option<Sender<Query>>,
        budget: Arc<Budget>,
        host: &mut Host<'_>,
    ) -> Option<Self> {
        let Greeted { stream, agreed, from, place } = greeted;
        let geometry = host.geometry();
        let received = ReceiveBuffer::new(host.device().pool.try_bytes(RECEIVE)?);
        let (outbox, longest) = (Outbox::new(stream.socket()), budget.division.longest());
        Some(Self {
            stream,
            agreed,
            process,
            from,
            block_status,
            place,
            received,
            receiving: None,
            large: false,
            pending: Vec::new(),
            free: Vec::new(),
            outbox,
            held: Held::new(budget, index),
            waits_since: None,
            progress: Progress { at: host.now, bytes: 0 },
            received_bytes: 0,
            asleep: 0,
            phase: Phase::Open,
            has_violated_protocol: false,
            blocked: false,
            watched: None,
            index,
            limits: Limits {
                bytes: geometry.capacity.bytes(),
                block_bytes: geometry.block_bytes,
                read_only: geometry.read_only,
                longest,
            },
            active: host.now,
        })
    }

    pub(in crate::nbd) const fn process(&self) -> Process {
        self.process
    }

    pub(in crate::nbd) fn place(&self) -> &Place {
        &self.place
    }

    pub(in crate::nbd) fn from(&self) -> &str {
        &self.from
    }

    pub(in crate::nbd) fn describe(&self) -> Client {
        Client {
            process: Some(self.process.group),
            from: self.from.clone(),
            in_flight: self.unanswered() as u32,
            bytes: self.held.bytes() as u64,
        }
    }

    fn unanswered(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    /// Whether no request is in the device. A write whose data has not arrived completely is not in the device.
    fn is_answered(&self) -> bool {
        let receiving = usize::from(matches!(self.receiving, Some(Receiving::Write { .. })));
        self.unanswered() == receiving
    }

    /// Since when no byte was received or sent; `None` while a request is in the device. A client that stopped in the middle of a
    /// write, or that does not take its replies, is idle as well.
    pub(in crate::nbd) fn idle_since(&self) -> Option<Time> {
        self.is_answered().then_some(self.active)
    }

    /// Since when a request waits for memory that other clients hold.
    pub(in crate::nbd) const fn waits_since(&self) -> Option<Time> {
        self.waits_since
    }

    /// Bytes of the common part of the clients' memory, and since when the client has not moved [`PROGRESS`] bytes; `None` while a request is
    /// in the device, for which the client is not responsible.
    pub(in crate::nbd) fn stalled_excess(&self) -> Option<(usize, Time)> {
        let excess = self.held.excess();
        (excess > 0 && self.is_answered()).then_some((excess, self.progress.at))
    }

    fn update_progress(&mut self, now: Time) {
        let bytes = self.received_bytes + self.outbox.sent_bytes();
        if bytes >= self.progress.bytes + PROGRESS || self.held.excess() == 0 {
            self.progress = Progress { at: now, bytes };
        }
    }

    fn wait_no_more(&mut self) {
        self.waits_since = None;
        self.held.end_turn();
    }

    /// Whether it was disconnected because it sent bytes that are no request.
    pub(in crate::nbd) const fn has_violated_protocol(&self) -> bool {
        self.has_violated_protocol
    }

    /// Whether nothing of this client is left in the device or to be sent.
    pub(in crate::nbd) fn is_over(&self) -> bool {
        let is_answered = self.is_answered();
        match self.phase {
            Phase::Open => false,
            Phase::Ending => is_answered && self.outbox.is_empty(),
            Phase::ShuttingDown => {
                is_answered
                    && self.outbox.is_empty()
                    && self.stream.socket().is_none_or(|socket| unacknowledged_bytes(socket) == 0)
            }
            Phase::Gone => is_answered,
        }
    }

    /// Accepts no further requests, as the server stops.
    pub(in crate::nbd) fn shut_down(&mut self) {
        if self.phase != Phase::Gone {
            self.phase = Phase::ShuttingDown;
            self.wait_no_more();
        }
    }

    /// Accepts no further requests.
    fn stop(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Ending;
            self.wait_no_more();
        }
    }

    /// Discards the replies that are not sent. The connection is over once the device has finished its requests.
    pub(in crate::nbd) fn disconnect(&mut self, host: &mut Host<'_>) {
        self.phase = Phase::Gone;
        self.held.sub(self.outbox.clear(&mut host.device().pool));
        self.wait_no_more();
    }

    fn takes_more(&self) -> bool {
        self.phase == Phase::Open
            && self.asleep == 0
            && !self.held.is_full()
            && self.unanswered() + self.outbox.len() < REQUESTS
    }

    /// Nothing is received while a complete request waits for room: the bytes after it may fill the receive memory, and reading into no
    /// memory returns 0, which means the client's end.
    fn wants_bytes(&self) -> bool {
        let waits = self.received.len() >= REQUEST_BYTES;
        self.phase == Phase::Open && (self.receiving.is_some() || (self.takes_more() && !waits))
    }

    fn release(&mut self, buffer: Buffer, host: &mut Host<'_>) {
        self.held.sub(buffer.footprint());
        host.device().pool.put(buffer);
    }

    /// The queue has room again.
    pub(in crate::nbd) const fn woken(&mut self) {
        self.asleep -= 1;
    }

    /// Sends the replies that have gathered, parses the requests that there is room for now, and updates what the stream is watched for.
    pub(in crate::nbd) fn flush(&mut self, number: u32, host: &mut Host<'_>) {
        if self.phase != Phase::Gone && !self.outbox.is_empty() {
            let before = self.outbox.sent_bytes();
            match self.outbox.send(&self.stream, &mut host.device().pool) {
                Ok(freed) => self.held.sub(freed),
                Err(_) => self.disconnect(host),
            }
            if self.outbox.sent_bytes() > before {
                self.active = host.now;
                self.update_progress(host.now);
            }
        }
        self.blocked = !self.outbox.is_empty();
        if self.phase == Phase::Open {
            self.parse(host);
        }
        self.watch(number, host);
    }

    fn watch(&mut self, number: u32, host: &mut Host<'_>) {
        let wanted = Interest { read: self.wants_bytes(), write: self.blocked && self.phase != Phase::Gone };
        // epoll reports a closed connection again and again even without any interest.
        let wanted = (wanted.read || wanted.write).then_some(wanted);
        if wanted == self.watched {
            return;
        }
        let result = self.stream.watch(self.watched, wanted, number, host);
        self.watched = wanted;
        if result.is_err() {
            self.disconnect(host);
        }
    }

    /// Returns the memory that the connection still holds.
    pub(in crate::nbd) fn end(mut self, host: &mut Host<'_>) {
        self.outbox.clear(&mut host.device().pool);
        for buffer in self.pending.drain(..).flat_map(|pending| pending.parts).flatten() {
            host.device().pool.put(buffer);
        }
    }
}
