//! From requests to operations of the device.

use elevator::queue::Accepted;
use elevator::{Flags, Op, SECTOR_BYTES, Sector, Sectors};

use super::receiving::LARGE;
use super::{Connection, Pending, Phase, Receiving};
use crate::backend::Payload;
use crate::buffer::LARGEST;
use crate::front::Host;
use crate::nbd::block_status::{EXTENTS, Query, REPLY_BYTES};
use crate::nbd::cookie::Cookie;
use crate::nbd::protocol::{Command, Request, error};
use crate::nbd::stream::Stream;
use crate::operation::NewOperation;

/// Bytes of one operation of a write-zeroes. A disk that writes zeroes as data needs at most a third of a second for this many, after
/// which other clients' requests are served.
const ZEROES_STEP: u64 = 32 << 20;

impl<S: Stream> Connection<S> {
    /// Accepts a request, or refuses it with the error number `problem`.
    pub(super) fn accept(&mut self, request: Request, problem: Option<u32>, host: &mut Host<'_>) {
        if let Some(error) = problem {
            if request.command != Command::Write || request.length == 0 {
                return self.reply(&request, error);
            }
            let left = request.length as usize;
            self.receiving = Some(Receiving::Refused { request, error, left });
            self.large = false;
            return;
        }
        self.large = request.command == Command::Write && request.length as usize >= LARGE;
        match request.command {
            Command::Disconnect => self.stop(),
            Command::Read => {
                let pending = self.keep(request);
                if self.reserve(pending, host) {
                    self.submit_parts(pending, Op::Read, host);
                } else {
                    self.finish(&request, pending, host);
                }
            }
            Command::Write => {
                let pending = self.keep(request);
                self.receiving = Some(if self.reserve(pending, host) {
                    Receiving::Write { pending, filled: 0 }
                } else {
                    // Answered after its data has arrived.
                    self.forget(pending, host);
                    self.large = false;
                    Receiving::Refused { request, error: error::ENOMEM, left: request.length as usize }
                });
            }
            Command::Flush => {
                let pending = self.keep(request);
                self.submit(pending, 0, Op::Flush, 0, 0, Payload::None, host);
            }
            Command::Trim | Command::WriteZeroes => {
                let pending = self.keep(request);
                if !self.next_step(pending, &request, host) {
                    self.finish(&request, pending, host);
                }
            }
            Command::BlockStatus => self.block_status(request, host),
            Command::Unknown => self.reply(&request, error::EINVAL),
        }
    }

    /// Stores a request; its index.
    fn keep(&mut self, request: Request) -> u16 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.pending.push(Pending::default());
            self.pending.len() as u16 - 1
        });
        let pending = &mut self.pending[usize::from(index)];
        pending.request = Some(request);
        (pending.left, pending.error, pending.submitted, pending.flushing) = (0, 0, 0, false);
        index
    }

    /// Reserves memory for the data of a request, or sets its error.
    fn reserve(&mut self, index: u16, host: &mut Host<'_>) -> bool {
        let pending = &mut self.pending[usize::from(index)];
        let Some(request) = pending.request else { return false };
        let mut left = request.length as usize;
        while left > 0 {
            let Some(buffer) = host.device().pool.try_take(left.min(LARGEST)) else {
                pending.error = error::ENOMEM;
                return false;
            };
            left -= buffer.len();
            self.held.add(buffer.footprint());
            pending.parts.push(Some(buffer));
        }
        true
    }

    /// Drops a request that is answered in another manner.
    fn forget(&mut self, index: u16, host: &mut Host<'_>) {
        self.pending[usize::from(index)].request = None;
        while let Some(buffer) = self.pending[usize::from(index)].parts.pop() {
            buffer.into_iter().for_each(|buffer| self.release(buffer, host));
        }
        self.free.push(index);
    }

    pub(super) fn submit_parts(&mut self, index: u16, op: Op, host: &mut Host<'_>) {
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
        // Requests of several operations are flushed once, after the last one.
        let fua = pending.request.is_some_and(|request| request.fua && request.command == Command::Write);
        let operation = NewOperation {
            cookie: Cookie { connection: self.index, pending: index, part: part as u16 }.pack(),
            op,
            start: Sector(offset / SECTOR_BYTES),
            sectors: Sectors((bytes / SECTOR_BYTES) as u32),
            flags: Flags { fua, ..Flags::default() },
            process: Some(self.process),
            payload,
        };
        if host.submit(operation) == Accepted::Asleep {
            self.asleep += 1;
        }
    }

    /// Submits the next operation of a trim or write-zeroes, or the flush after the last one; whether there was any. For a client that
    /// is gone there is none: it could leave hours of work behind. Without memory for the operation there is none, either.
    pub(super) fn next_step(&mut self, index: u16, request: &Request, host: &mut Host<'_>) -> bool {
        let pending = &mut self.pending[usize::from(index)];
        let left = u64::from(request.length) - pending.submitted;
        let at = request.offset + pending.submitted;
        if left == 0 || pending.error != 0 || self.phase == Phase::Gone {
            let flush = request.fua && pending.error == 0 && left == 0 && !pending.flushing;
            pending.flushing |= flush;
            if flush {
                self.submit(index, 0, Op::Flush, 0, 0, Payload::None, host);
            }
            return flush;
        }
        let most = match (request.command, request.no_hole) {
            (Command::Trim, _) => left,
            (_, false) => ZEROES_STEP,
            // With `NBD_CMD_FLAG_NO_HOLE` the space stays allocated: zeroes are written as data.
            (_, true) => LARGEST as u64,
        };
        let bytes = left.min(most);
        pending.submitted += bytes;
        let (op, payload) = match (request.command, request.no_hole) {
            (Command::Trim, _) => (Op::Discard, Payload::None),
            (_, false) => (Op::Write, Payload::Zeroes),
            (_, true) => {
                let Some(mut buffer) = host.device().pool.try_take(bytes as usize) else {
                    self.pending[usize::from(index)].error = error::ENOMEM;
                    return false;
                };
                buffer.fill(0);
                self.held.add(buffer.footprint());
                (Op::Write, Payload::Data(buffer))
            }
        };
        self.submit(index, 0, op, at, bytes, payload, host);
        true
    }

    /// Looks up where the export holds data, or passes the query to the thread that does.
    fn block_status(&mut self, request: Request, host: &mut Host<'_>) {
        if !self.agreed.base_allocation {
            return self.reply(&request, error::EINVAL);
        }
        self.held.add(REPLY_BYTES);
        let query = Query {
            cookie: Cookie { connection: self.index, pending: self.keep(request), part: 0 },
            offset: request.offset,
            bytes: u64::from(request.length),
            most: if request.one { 1 } else { EXTENTS },
            block_bytes: u64::from(self.limits.block_bytes),
        };
        match &self.block_status {
            Some(queries) => queries.send(query).expect("the thread lives as long as the front end"),
            None => {
                let backend = host.device().backend();
                let status = query.look_up(|offset, most| backend.extent(offset, most));
                self.block_status_found(&status, host);
            }
        }
    }
}
