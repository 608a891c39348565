//! The kernel's requests to the file, on the device's thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use elevator::{Op, SECTOR_BYTES, Sector, Sectors};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::process::{getegid, geteuid};

use super::protocol::{self, OUT_HEADER, Operation, PREFIX};
use crate::backend::Payload;
use crate::buffer::{Buffer, LARGEST};
use crate::front::{Client, FrontEnd, Host};
use crate::identity::Identity;
use crate::operation::{Answer, NewOperation};
use crate::poller::Interest;

/// Number under which this front end watches the connection.
const CONNECTION: u32 = 0;

/// Requests received in a row before replies are sent.
const TURN: u32 = 64;

/// Up to this length, received data is copied, and the memory that it was received in is used for the next request; longer data keeps
/// that memory.
const COPIED: usize = 64 << 10;

/// `FALLOC_FL_KEEP_SIZE`, `FALLOC_FL_PUNCH_HOLE`, `FALLOC_FL_ZERO_RANGE`.
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;

/// A request without a reply.
#[derive(Clone, Copy)]
struct Pending {
    unique: u64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write(u32),
    Other,
}

/// The FUSE front end.
pub(crate) struct Fuse {
    connection: OwnedFd,
    /// The user and group of the file: those of the thread that has mounted it. The device's thread is another user, whose file root may not
    /// open without CAP_DAC_OVERRIDE.
    owner: (u32, u32),
    bytes: u64,
    block_bytes: u64,
    rotational: bool,
    discards: bool,
    /// Another part of the program attaches loop devices to the file.
    only_file: bool,
    /// The file has been read, so the loop device is attached.
    attached: bool,
    /// A former process has served the connection.
    resumed: bool,
    shared: Arc<Shared>,
    pending: Vec<Option<Pending>>,
    free: Vec<u32>,
    /// Memory for the next request.
    receive: Option<Buffer>,
    /// Memory of requests without a reply, and its limit, in bytes.
    held: usize,
    most_held: usize,
    /// Requests stay in the kernel until some of that memory is free again.
    full: bool,
    initialised: bool,
    /// Identifies issuers: the kernel shows its workers only.
    identity: Identity,
    /// The kernel has ended the connection.
    ended: bool,
    stopped: bool,
}

/// Options of a FUSE front end.
pub(crate) struct FuseOptions {
    pub(crate) identity: Identity,
    /// Another part of the program attaches loop devices to the file.
    pub(crate) only_file: bool,
    /// Bytes of memory that requests may take, unless one request takes more.
    pub(crate) most_held: usize,
    /// A former process has served the connection.
    pub(crate) resumed: bool,
    pub(crate) shared: Arc<Shared>,
}

/// State that the front end shares with `attach`.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The kernel has shown that it can send unanswered requests again.
    pub(crate) can_resend: AtomicBool,
    /// The file is being detached, so the connection may end.
    pub(crate) is_ending: AtomicBool,
}

impl Fuse {
    /// A front end on this connection.
    pub(crate) fn new(connection: OwnedFd, options: FuseOptions) -> Self {
        let FuseOptions { identity, only_file, most_held, resumed, shared } = options;
        Self {
            connection,
            owner: (geteuid().as_raw(), getegid().as_raw()),
            bytes: 0,
            block_bytes: SECTOR_BYTES,
            rotational: false,
            discards: true,
            only_file,
            attached: resumed,
            resumed,
            shared,
            pending: Vec::new(),
            free: Vec::new(),
            receive: None,
            held: 0,
            most_held,
            full: false,
            initialised: resumed,
            identity,
            ended: false,
            stopped: false,
        }
    }

    /// Whether another request of the largest size may be received.
    const fn has_room(&self) -> bool {
        self.held == 0 || self.held.saturating_add(LARGEST) <= self.most_held
    }

    /// Leaves requests in the kernel, or takes them again.
    fn set_full(&mut self, full: bool, host: &mut Host<'_>) {
        if self.full != full && !self.ended && !self.stopped {
            self.full = full;
            let interest = Interest { read: !full, write: false };
            // The connection is watched since the start, so this cannot fail.
            let _ = host.rewatch(&self.connection, CONNECTION, interest);
        }
    }

    /// Receives one request; returns whether there was one.
    fn receive(&mut self, host: &mut Host<'_>) -> bool {
        if !self.has_room() {
            self.set_full(true, host);
            return false;
        }
        let mut data = self.receive.take().unwrap_or_else(|| host.device().pool.take(LARGEST));
        data.set_len(LARGEST);
        let mut prefix = [0; PREFIX];
        let mut slices = [IoSliceMut::new(&mut prefix), IoSliceMut::new(&mut data)];
        let received = match rustix::io::readv(&self.connection, &mut slices) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.receive = Some(data);
                // ENOENT: the request was interrupted before it could be read.
                let again = error == Errno::INTR || error == Errno::NOENT;
                if !again && error != Errno::AGAIN {
                    self.end(error, host);
                }
                return again;
            }
        };
        if let Some(request) = protocol::request(&prefix[..received.min(PREFIX)]) {
            self.understand(request, received, data, host);
        } else {
            self.receive = Some(data);
        }
        true
    }

    fn end(&mut self, error: Errno, host: &mut Host<'_>) {
        if !self.ended {
            self.ended = true;
            let _ = host.unwatch(&self.connection);
            if !self.shared.is_ending.load(Ordering::Relaxed) {
                say!(
                    "the kernel has ended the connection of the attached device ({error}): its users get errors"
                );
            }
        }
    }

    fn understand(&mut self, request: protocol::Request, received: usize, data: Buffer, host: &mut Host<'_>) {
        let unique = request.unique;
        if let Operation::Write { offset, bytes } = request.operation {
            if received != PREFIX + bytes as usize {
                self.receive = Some(data);
                return self.fail(unique, Errno::IO);
            }
            let payload = self.payload(data, bytes as usize, host);
            return self.data(unique, Op::Write, offset, bytes, payload, host);
        }
        self.receive = Some(data);
        match request.operation {
            Operation::Read { offset, bytes } => self.read(unique, offset, bytes, host),
            Operation::Fsync => self.submit(unique, Kind::Other, (Op::Flush, 0, 0), Payload::None, host),
            Operation::Fallocate { offset, bytes, mode } => self.fallocate(unique, offset, bytes, mode, host),
            Operation::Init { minor, flags, more_flags } => {
                self.initialised = true;
                self.shared.can_resend.store(protocol::can_resend(flags, more_flags), Ordering::Relaxed);
                self.answer(unique, &protocol::init(minor, flags, LARGEST as u32));
            }
            Operation::GetAttr | Operation::SetAttr => {
                self.answer(unique, &protocol::attributes(self.bytes, self.owner));
            }
            Operation::Open => self.answer(unique, &protocol::open()),
            Operation::StatFs if self.hides_holes() => self.fail(unique, Errno::NOSYS),
            Operation::StatFs => self.answer(unique, &protocol::statfs(self.bytes)),
            Operation::Release | Operation::Destroy => self.answer(unique, &[]),
            Operation::Silent => {}
            Operation::Unknown => self.fail(unique, Errno::NOSYS),
            Operation::Write { .. } => {}
        }
    }

    /// Whether to hide from the loop driver that the file may have holes. It calls `statfs` for that before it reads.
    ///
    /// A rotational disk writes zeroes like other data, and the kernel does that in requests of ordinary length. Refusing each request for
    /// zeroes is too late: the driver then changes the limits of its queue, and since Linux 6.17 each change raises the read-ahead of
    /// such a disk. Accepting them blocks other requests: the driver waits for up to 4 GiB of zeroes before it starts anything else. If the
    /// back end discards, as a thin volume does, discards are worth more than the read-ahead.
    const fn hides_holes(&self) -> bool {
        self.rotational && !self.discards && !self.only_file && !self.attached
    }

    /// A write's data, in memory of its own.
    fn payload(&mut self, mut data: Buffer, bytes: usize, host: &mut Host<'_>) -> Buffer {
        if bytes > COPIED {
            data.set_len(bytes);
            return data;
        }
        let mut buffer = host.device().pool.take(bytes);
        buffer.copy_from_slice(&data[..bytes]);
        self.receive = Some(data);
        buffer
    }

    /// A read may extend beyond the end of the file.
    fn read(&mut self, unique: u64, offset: u64, bytes: u32, host: &mut Host<'_>) {
        self.attached = true;
        let bytes = u64::from(bytes).min(self.bytes.saturating_sub(offset)).min(LARGEST as u64) as u32;
        if bytes == 0 {
            return self.answer(unique, &[]);
        }
        let buffer = host.device().pool.take(bytes as usize);
        self.data(unique, Op::Read, offset, bytes, buffer, host);
    }

    fn data(&mut self, unique: u64, op: Op, offset: u64, bytes: u32, buffer: Buffer, host: &mut Host<'_>) {
        if let Err(error) = self.check_range(offset, u64::from(bytes)) {
            host.device().pool.put(buffer);
            return self.fail(unique, error);
        }
        let kind = if op == Op::Read { Kind::Read } else { Kind::Write(bytes) };
        self.submit(unique, kind, (op, offset, u64::from(bytes)), Payload::Data(buffer), host);
    }

    fn check_range(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(Errno::NOSPC);
        }
        let addressable = bytes / SECTOR_BYTES <= u64::from(u32::MAX);
        let aligned = offset.is_multiple_of(self.block_bytes) && bytes.is_multiple_of(self.block_bytes);
        if aligned && addressable && bytes > 0 { Ok(()) } else { Err(Errno::INVAL) }
    }

    fn fallocate(&mut self, unique: u64, offset: u64, bytes: u64, mode: u32, host: &mut Host<'_>) {
        if let Err(error) = self.check_range(offset, bytes) {
            return self.fail(unique, error);
        }
        let (op, payload) = match mode & !KEEP_SIZE {
            PUNCH_HOLE => (Op::Discard, Payload::None),
            // A rotational disk receives this only from a loop device that another program has attached or changed.
            ZERO_RANGE if !self.rotational => (Op::Write, Payload::Zeroes),
            _ => return self.fail(unique, Errno::OPNOTSUPP),
        };
        self.submit(unique, Kind::Other, (op, offset, bytes), payload, host);
    }

    fn submit(
        &mut self,
        unique: u64,
        kind: Kind,
        (op, offset, bytes): (Op, u64, u64),
        payload: Payload,
        host: &mut Host<'_>,
    ) {
        if let Payload::Data(buffer) = &payload {
            self.held += buffer.footprint();
        }
        let pending = Some(Pending { unique, kind });
        let index = match self.free.pop() {
            Some(index) => {
                self.pending[index as usize] = pending;
                index
            }
            None => {
                self.pending.push(pending);
                self.pending.len() as u32 - 1
            }
        };
        let (start, sectors) = (Sector(offset / SECTOR_BYTES), Sectors((bytes / SECTOR_BYTES) as u32));
        let (process, flags) = self.identity.issuer(op, start, sectors);
        let operation =
            NewOperation { cookie: u64::from(index), op, start, sectors, flags, process, payload };
        // The kernel bounds its requests, so the front end ignores a request to wait.
        let _ = host.submit(operation);
    }

    fn answer(&mut self, unique: u64, data: &[u8]) {
        let header = protocol::out_header(unique, data.len(), 0);
        self.send(&[IoSlice::new(&header), IoSlice::new(data)]);
    }

    fn fail(&mut self, unique: u64, error: Errno) {
        let header: [u8; OUT_HEADER] = protocol::out_header(unique, 0, error.raw_os_error());
        self.send(&[IoSlice::new(&header)]);
    }

    /// The kernel takes a reply as a whole. It refuses the reply to an interrupted request or on an ended connection: both have no receiver.
    fn send(&mut self, slices: &[IoSlice<'_>]) {
        let _ = rustix::io::writev(&self.connection, slices);
    }
}

impl FrontEnd for Fuse {
    fn start(&mut self, host: &mut Host<'_>) -> io::Result<()> {
        let geometry = host.geometry();
        self.bytes = geometry.capacity.bytes();
        self.block_bytes = u64::from(geometry.block_bytes);
        self.rotational = geometry.rotational;
        self.discards = geometry.discards;
        host.watch(&self.connection, CONNECTION, Interest::READ)?;
        if self.resumed {
            // Only a kernel that can do this lets a server store its connection.
            rustix::io::write(&self.connection, &protocol::resend())?;
        }
        Ok(())
    }

    fn ready(&mut self, _number: u32, host: &mut Host<'_>) {
        for _ in 0..TURN {
            if self.ended || self.stopped || !self.receive(host) {
                break;
            }
        }
        while let Some(process) = self.identity.exited() {
            host.exited(process);
        }
    }

    fn answered(&mut self, mut answer: Answer, host: &mut Host<'_>) {
        let index = answer.cookie as usize;
        let Some(Pending { unique, kind }) = self.pending.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.free.push(index as u32);
        if let Payload::Data(buffer) = &mut answer.payload
            && buffer.len() > COPIED
        {
            // The kernel pins each page of a reply, which costs more than a copy unless the pages are reused.
            buffer.own();
        }
        match (answer.result, kind, &answer.payload) {
            (Err(error), ..) => self.fail(unique, error),
            (Ok(()), Kind::Read, Payload::Data(buffer)) => {
                let header = protocol::out_header(unique, buffer.len(), 0);
                self.send(&[IoSlice::new(&header), IoSlice::new(buffer)]);
            }
            (Ok(()), Kind::Write(bytes), _) => self.answer(unique, &protocol::written(bytes)),
            (Ok(()), ..) => self.answer(unique, &[]),
        }
        if let Payload::Data(buffer) = answer.payload {
            self.held -= buffer.footprint();
            host.device().pool.put(buffer);
        }
        if self.full && self.has_room() {
            self.set_full(false, host);
        }
    }

    fn woken(&mut self, _cookie: u64, _host: &mut Host<'_>) {}

    fn flush(&mut self, _host: &mut Host<'_>) {}

    /// Requests that have not been received stay in the kernel, for the next process.
    fn stop(&mut self, host: &mut Host<'_>) {
        if !self.stopped && !self.ended {
            let _ = host.unwatch(&self.connection);
        }
        self.stopped = true;
    }

    fn is_done(&self) -> bool {
        self.stopped || self.ended
    }

    fn clients(&self) -> Vec<Client> {
        let in_flight = (self.pending.len() - self.free.len()) as u32;
        let client = Client { process: None, from: "kernel, by FUSE".to_string(), in_flight, bytes: 0 };
        if self.initialised && !self.ended { vec![client] } else { Vec::new() }
    }
}
