//! One client in the transmission phase. Nothing in here waits, and what it holds is bounded.

use std::os::fd::{AsFd, OwnedFd};

use elevator::queue::Accepted;
use elevator::{Flags, Op, Process, SECTOR_BYTES, Sector, Sectors};
use rustix::io::{Errno, IoSliceMut};

use super::listener::Place;
use super::negotiation::Agreed;
use super::protocol::{self, Command, Header, LONGEST_PAYLOAD, REQUEST_BYTES, Request, descriptor, error};
use super::reply::Outbox;
use crate::backend::Payload;
use crate::buffer::{self, Buffer, LARGEST};
use crate::device::{Answer, Ask};
use crate::front::{Client, Host};
use crate::poller::Interest;

/// Memory for what was received and not understood yet: 15 writes of 4 KiB in one call.
const RECEIVE: usize = 64 << 10;

/// A write from which on a call more, for the header alone, is cheaper than copying what came behind it.
const LARGE: usize = 32 << 10;

/// Requests accepted and not answered, beyond which nothing more is read from a client.
const REQUESTS: usize = 256;

/// Data held for one client, beyond which nothing more is read from it. One request of the greatest length always fits.
const BUDGET: usize = LONGEST_PAYLOAD as usize + (8 << 20);

/// Bytes taken from one client before the next one has its turn.
const TURN: usize = 4 << 20;

/// Write-zeroes is passed on in steps of this many bytes: on a disk that must write them, each takes a third of a second
/// at most, and others have their turn in between.
const ZEROES_STEP: u64 = 32 << 20;

/// Most extents in one answer to a block status.
const EXTENTS: usize = 512;

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
    /// Into the void, so many more bytes: the request was refused.
    Refused { left: usize },
}

/// Whether the client is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    /// It said goodbye, or the server stops: what was accepted is finished and answered.
    Ending,
    /// Nothing can be sent any more.
    Gone,
}

/// A client.
pub(super) struct Connection {
    socket: OwnedFd,
    agreed: Agreed,
    process: Process,
    from: String,
    /// Held as long as the connection, so that there are never more of them than allowed.
    _place: Place,
    received: Box<[u8]>,
    begin: usize,
    end: usize,
    receiving: Option<Receiving>,
    /// The latest write was a large one, so the next one's data shall not come by the receive memory.
    large: bool,
    pending: Vec<Pending>,
    free: Vec<u16>,
    outbox: Outbox,
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

impl Connection {
    pub(super) fn new(
        index: u16,
        process: Process,
        socket: OwnedFd,
        agreed: Agreed,
        from: String,
        place: Place,
        host: &mut Host<'_>,
    ) -> Self {
        let geometry = host.geometry();
        Self {
            socket,
            agreed,
            process,
            from,
            _place: place,
            received: vec![0; RECEIVE].into_boxed_slice(),
            begin: 0,
            end: 0,
            receiving: None,
            large: false,
            pending: Vec::new(),
            free: Vec::new(),
            outbox: Outbox::default(),
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

    pub(super) const fn process(&self) -> Process {
        self.process
    }

    pub(super) fn describe(&self) -> Client {
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
    pub(super) fn is_over(&self) -> bool {
        let receiving = u16::from(matches!(self.receiving, Some(Receiving::Write { .. })));
        match self.phase {
            Phase::Open => false,
            Phase::Ending => self.unanswered() == usize::from(receiving) && self.outbox.is_empty(),
            Phase::Gone => self.unanswered() == usize::from(receiving),
        }
    }

    /// Takes nothing more.
    pub(super) fn stop(&mut self) {
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

    fn wants_bytes(&self) -> bool {
        self.phase == Phase::Open && (self.receiving.is_some() || self.takes_more())
    }

    /// Reads what has come.
    pub(super) fn readable(&mut self, host: &mut Host<'_>) {
        let mut turn = TURN;
        while self.wants_bytes() && turn > 0 {
            match self.receive(host) {
                Ok((0, _)) => return self.stop(),
                Ok((bytes, all)) => {
                    turn = turn.saturating_sub(bytes);
                    self.understand(host);
                    if all {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.gone(host),
            }
        }
    }

    /// One call: the rest of a payload goes where it belongs, what is behind it into the receive memory. How many bytes
    /// came, and whether that was all there was.
    fn receive(&mut self, host: &mut Host<'_>) -> Result<(usize, bool), Errno> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.begin > 0 && self.end == self.received.len() {
            self.received.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let (direct, last) = match &self.receiving {
            Some(Receiving::Write { pending, filled }) if self.begin == self.end => {
                direct_part(&mut self.pending[usize::from(*pending)].parts, *filled)
            }
            _ => (&mut [][..], true),
        };
        let direct_bytes = direct.len();
        let space = match (last, self.large) {
            (false, _) => &mut [][..],
            (true, true) => {
                let most = (self.begin + REQUEST_BYTES).clamp(self.end, self.received.len());
                &mut self.received[self.end..most]
            }
            (true, false) => &mut self.received[self.end..],
        };
        let asked = direct_bytes + space.len();
        let mut slices = [IoSliceMut::new(direct), IoSliceMut::new(space)];
        let first = usize::from(direct_bytes == 0);
        let bytes = rustix::io::readv(&self.socket, &mut slices[first..])?;
        self.end += bytes.saturating_sub(direct_bytes);
        self.received_directly(bytes.min(direct_bytes), host);
        Ok((bytes, bytes < asked))
    }

    fn received_directly(&mut self, bytes: usize, host: &mut Host<'_>) {
        if let Some(Receiving::Write { filled, .. }) = &mut self.receiving {
            *filled += bytes;
        }
        self.submit_if_received(host);
    }

    /// Makes requests of the bytes that are there.
    pub(super) fn understand(&mut self, host: &mut Host<'_>) {
        loop {
            self.take_payload(host);
            if self.receiving.is_some() || !self.takes_more() || self.end - self.begin < REQUEST_BYTES {
                return;
            }
            let mut header = [0; REQUEST_BYTES];
            header.copy_from_slice(&self.received[self.begin..self.begin + REQUEST_BYTES]);
            let Ok(request) = protocol::request(&header) else {
                return self.gone(host);
            };
            let data = matches!(request.command, Command::Read | Command::Write);
            let problem = request.problem(self.bytes, self.block_bytes);
            let need = if data && problem.is_none() { footprint(request.length as usize) } else { 0 };
            if self.held > 0 && self.held + need > BUDGET {
                return;
            }
            self.begin += REQUEST_BYTES;
            self.accept(request, problem, host);
        }
    }

    /// Moves a payload's bytes from the receive memory to where they belong.
    fn take_payload(&mut self, host: &mut Host<'_>) {
        let there = self.end - self.begin;
        match &mut self.receiving {
            None => return,
            Some(Receiving::Refused { left }) => {
                let bytes = there.min(*left);
                self.begin += bytes;
                *left -= bytes;
                if *left == 0 {
                    self.receiving = None;
                }
                return;
            }
            Some(Receiving::Write { pending, filled }) => {
                let parts = &mut self.pending[usize::from(*pending)].parts;
                loop {
                    let (direct, _) = direct_part(parts, *filled);
                    let bytes = direct.len().min(self.end - self.begin);
                    if bytes == 0 {
                        break;
                    }
                    direct[..bytes].copy_from_slice(&self.received[self.begin..self.begin + bytes]);
                    self.begin += bytes;
                    *filled += bytes;
                }
            }
        }
        self.submit_if_received(host);
    }

    /// A write goes to the queue once all of its data is there, and not before.
    fn submit_if_received(&mut self, host: &mut Host<'_>) {
        let Some(Receiving::Write { pending, filled }) = self.receiving else { return };
        let Some(request) = self.pending[usize::from(pending)].request else { return };
        if filled < request.length as usize {
            return;
        }
        self.receiving = None;
        self.submit_parts(pending, Op::Write, host);
    }

    fn accept(&mut self, request: Request, problem: Option<u32>, host: &mut Host<'_>) {
        if let Some(problem) = problem {
            if request.command == Command::Write {
                self.receiving = Some(Receiving::Refused { left: request.length as usize });
            }
            return self.reply(&request, problem);
        }
        self.large = request.command == Command::Write && request.length as usize >= LARGE;
        match request.command {
            Command::Disconnect => self.stop(),
            Command::Read => {
                let pending = self.keep(request, host);
                self.submit_parts(pending, Op::Read, host);
            }
            Command::Write => {
                let pending = self.keep(request, host);
                self.receiving = Some(Receiving::Write { pending, filled: 0 });
            }
            Command::Flush => {
                let pending = self.keep(request, host);
                self.submit(pending, 0, Op::Flush, 0, 0, Payload::None, host);
            }
            Command::Trim | Command::WriteZeroes => {
                let pending = self.keep(request, host);
                self.next_step(pending, &request, host);
            }
            Command::BlockStatus => self.block_status(&request, host),
            Command::Unknown => self.reply(&request, error::EINVAL),
        }
    }

    /// Keeps a request, with memory for its data.
    fn keep(&mut self, request: Request, host: &mut Host<'_>) -> u16 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.pending.push(Pending::default());
            self.pending.len() as u16 - 1
        });
        let pending = &mut self.pending[usize::from(index)];
        pending.request = Some(request);
        (pending.left, pending.error, pending.asked, pending.flushing) = (0, 0, 0, false);
        if matches!(request.command, Command::Read | Command::Write) {
            let mut left = request.length as usize;
            while left > 0 {
                let buffer = host.device().pool.take(left.min(LARGEST));
                left -= buffer.len();
                self.held += buffer.footprint();
                pending.parts.push(Some(buffer));
            }
        }
        index
    }

    fn submit_parts(&mut self, index: u16, op: Op, host: &mut Host<'_>) {
        let pending = &mut self.pending[usize::from(index)];
        let Some(request) = pending.request else { return };
        let parts = pending.parts.len();
        let mut offset = request.offset;
        for part in 0..parts {
            let Some(buffer) = self.pending[usize::from(index)].parts[part].take() else { continue };
            let bytes = buffer.len() as u64;
            self.submit(index, part, op, offset, bytes, Payload::Data(buffer), host);
            offset += bytes;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "an operation has as many properties")]
    fn submit(
        &mut self,
        index: u16,
        part: usize,
        op: Op,
        offset: u64,
        bytes: u64,
        payload: Payload,
        host: &mut Host<'_>,
    ) {
        let pending = &mut self.pending[usize::from(index)];
        pending.left += 1;
        let fua = op == Op::Write && pending.request.is_some_and(|request| request.fua);
        let ask = Ask {
            cookie: Cookie { connection: self.index, pending: index, part: part as u16 }.pack(),
            op,
            start: Sector(offset / SECTOR_BYTES),
            sectors: Sectors((bytes / SECTOR_BYTES) as u32),
            flags: Flags { fua, ..Flags::default() },
            process: Some(self.process),
            payload,
        };
        if host.submit(ask) == Accepted::Asleep {
            self.asleep += 1;
        }
    }

    /// The next step of a trim or write-zeroes, or the flush behind the last one; whether there was any.
    fn next_step(&mut self, index: u16, request: &Request, host: &mut Host<'_>) -> bool {
        let pending = &mut self.pending[usize::from(index)];
        let left = u64::from(request.length) - pending.asked;
        let at = request.offset + pending.asked;
        if left == 0 || pending.error != 0 {
            let flush = request.fua && pending.error == 0 && !pending.flushing;
            pending.flushing |= flush;
            if flush {
                self.submit(index, 0, Op::Flush, 0, 0, Payload::None, host);
            }
            return flush;
        }
        let most = match (request.command, request.no_hole) {
            (Command::Trim, _) => left,
            (_, false) => ZEROES_STEP,
            // Room that shall be kept is written to.
            (_, true) => LARGEST as u64,
        };
        let bytes = left.min(most);
        pending.asked += bytes;
        let (op, payload) = match (request.command, request.no_hole) {
            (Command::Trim, _) => (Op::Discard, Payload::None),
            (_, false) => (Op::Write, Payload::Zeroes),
            (_, true) => {
                let mut buffer = host.device().pool.take(bytes as usize);
                buffer.fill(0);
                self.held += buffer.footprint();
                (Op::Write, Payload::Data(buffer))
            }
        };
        self.submit(index, 0, op, at, bytes, payload, host);
        true
    }

    fn block_status(&mut self, request: &Request, host: &mut Host<'_>) {
        if !self.agreed.base_allocation {
            return self.reply(request, error::EINVAL);
        }
        let most = if request.one { 1 } else { EXTENTS };
        let mut buffer = host.device().pool.take(most * 8);
        let (mut offset, mut left, mut count) = (request.offset, u64::from(request.length), 0);
        while left > 0 && count < most {
            let extent = host.device().backend().extent(offset, left);
            let bytes = extent.bytes.next_multiple_of(u64::from(self.block_bytes)).clamp(1, left);
            buffer[count * 8..count * 8 + 8].copy_from_slice(&descriptor(bytes as u32, extent.data));
            (offset, left, count) = (offset + bytes, left - bytes, count + 1);
        }
        buffer.set_len(count * 8);
        self.held += buffer.footprint();
        self.outbox.push(Header::block_status(request.cookie, count as u32), Some(buffer));
    }

    /// A reply without data.
    fn reply(&mut self, request: &Request, error: u32) {
        let header = match (self.agreed.structured && request.command == Command::Read, error) {
            (true, 0) => Header::end(request.cookie),
            (true, _) => Header::failed(request.cookie, error),
            // With structured replies, failures of block status must be told as chunks; simple replies serve the rest.
            (false, _) if self.agreed.structured && request.command == Command::BlockStatus => {
                Header::failed(request.cookie, error)
            }
            (false, _) => Header::simple(request.cookie, error),
        };
        self.outbox.push(header, None);
    }

    /// An operation of this client ended.
    pub(super) fn answered(&mut self, cookie: Cookie, answer: Answer, host: &mut Host<'_>) {
        let index = usize::from(cookie.pending);
        let Some(request) = self.pending[index].request else { return };
        let pending = &mut self.pending[index];
        pending.left -= 1;
        match answer.result {
            Ok(()) => {}
            // A trim is advice: a disk that knows none has followed it as well as it can.
            Err(Errno::OPNOTSUPP) if request.command == Command::Trim => {}
            Err(error) => pending.error = error_number(error),
        }
        match (request.command, answer.payload) {
            (Command::Read, Payload::Data(buffer)) if answer.result.is_ok() && self.phase != Phase::Gone => {
                self.read_part(&request, cookie, buffer);
            }
            (_, Payload::Data(buffer)) => self.release(buffer, host),
            _ => {}
        }
        if self.pending[index].left > 0 {
            return;
        }
        let steps = matches!(request.command, Command::Trim | Command::WriteZeroes);
        if steps && self.next_step(cookie.pending, &request, host) {
            return;
        }
        self.finish(&request, cookie.pending, host);
    }

    /// A part of a read is there: it is sent at once if replies are structured, and else kept for the one reply.
    fn read_part(&mut self, request: &Request, cookie: Cookie, buffer: Buffer) {
        let pending = &mut self.pending[usize::from(cookie.pending)];
        if !self.agreed.structured {
            pending.parts[usize::from(cookie.part)] = Some(buffer);
            return;
        }
        let offset = request.offset + u64::from(cookie.part) * LARGEST as u64;
        let last = pending.left == 0 && pending.error == 0;
        let header = Header::data(request.cookie, last, offset, buffer.len() as u32);
        self.outbox.push(header, Some(buffer));
    }

    /// Every operation of a request has ended.
    fn finish(&mut self, request: &Request, index: u16, host: &mut Host<'_>) {
        let pending = &mut self.pending[usize::from(index)];
        let error = pending.error;
        let mut parts = std::mem::take(&mut pending.parts);
        pending.request = None;
        self.free.push(index);
        let is_read = request.command == Command::Read;
        if self.phase != Phase::Gone {
            match (is_read, self.agreed.structured, error) {
                (true, true, 0) => {}
                (true, false, 0) => {
                    let mut header = Header::simple(request.cookie, 0);
                    for part in parts.iter_mut() {
                        self.outbox.push(header, part.take());
                        header = Header::NONE;
                    }
                }
                _ => self.reply(request, error),
            }
        }
        for buffer in parts.drain(..).flatten() {
            self.release(buffer, host);
        }
        self.pending[usize::from(index)].parts = parts;
    }

    fn release(&mut self, buffer: Buffer, host: &mut Host<'_>) {
        self.held -= buffer.footprint();
        host.device().pool.put(buffer);
    }

    /// The queue has room again.
    pub(super) const fn woken(&mut self) {
        self.asleep -= 1;
    }

    /// Sends what has gathered, understands what that made room for, and says what to wait for.
    pub(super) fn flush(&mut self, number: u32, host: &mut Host<'_>) {
        if self.phase != Phase::Gone && !self.outbox.is_empty() {
            match self.outbox.send(&self.socket, &mut host.device().pool) {
                Ok(freed) => self.held -= freed,
                Err(_) => self.gone(host),
            }
        }
        self.blocked = !self.outbox.is_empty();
        if self.phase == Phase::Open {
            self.understand(host);
        }
        self.watch(number, host);
    }

    fn watch(&mut self, number: u32, host: &mut Host<'_>) {
        let wanted = Interest { read: self.wants_bytes(), write: self.blocked && self.phase != Phase::Gone };
        // Without any interest a closed connection would still be reported, again and again.
        let wanted = (wanted.read || wanted.write).then_some(wanted);
        if wanted == self.watched {
            return;
        }
        let result = match (self.watched, wanted) {
            (None, Some(interest)) => host.watch(self.socket.as_fd(), number, interest),
            (Some(_), Some(interest)) => host.rewatch(self.socket.as_fd(), number, interest),
            (_, None) => host.unwatch(self.socket.as_fd()),
        };
        self.watched = wanted;
        if result.is_err() {
            self.gone(host);
        }
    }

    /// Gives back whatever memory it still holds.
    pub(super) fn end(mut self, host: &mut Host<'_>) {
        self.outbox.clear(&mut host.device().pool);
        for buffer in self.pending.drain(..).flat_map(|pending| pending.parts).flatten() {
            host.device().pool.put(buffer);
        }
    }
}

/// Where the byte after the first `filled` ones belongs, up to its part's end, and whether that is the last part.
fn direct_part(parts: &mut [Option<Buffer>], filled: usize) -> (&mut [u8], bool) {
    let (part, within) = (filled / LARGEST, filled % LARGEST);
    let last = part + 1 >= parts.len();
    match parts.get_mut(part) {
        Some(Some(buffer)) => (&mut buffer[within..], last),
        _ => (&mut [], true),
    }
}

/// What memory the data of a request takes.
fn footprint(bytes: usize) -> usize {
    bytes / LARGEST * LARGEST
        + if bytes.is_multiple_of(LARGEST) { 0 } else { buffer::footprint(bytes % LARGEST) }
}

fn error_number(error: Errno) -> u32 {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => error::ENOSPC,
        Errno::NOMEM => error::ENOMEM,
        Errno::PERM | Errno::ROFS => error::EPERM,
        Errno::OPNOTSUPP => error::ENOTSUP,
        _ => error::EIO,
    }
}

/// What an operation is called between a connection and the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cookie {
    pub(super) connection: u16,
    pub(super) pending: u16,
    pub(super) part: u16,
}

impl Cookie {
    pub(super) const fn pack(self) -> u64 {
        (self.connection as u64) << 32 | (self.pending as u64) << 16 | self.part as u64
    }

    pub(super) const fn unpack(cookie: u64) -> Self {
        Self { connection: (cookie >> 32) as u16, pending: (cookie >> 16) as u16, part: cookie as u16 }
    }
}
