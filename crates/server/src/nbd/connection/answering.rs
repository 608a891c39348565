//! From completed operations to replies.

use rustix::io::Errno;

use super::{Connection, Phase};
use crate::backend::Payload;
use crate::buffer::{Buffer, LARGEST};
use crate::front::Host;
use crate::nbd::block_status::{BlockStatus, REPLY_BYTES};
use crate::nbd::cookie::Cookie;
use crate::nbd::protocol::{Command, DESCRIPTOR_BYTES, Header, Request, descriptor, error};
use crate::nbd::stream::Stream;
use crate::operation::Answer;

impl<S: Stream> Connection<S> {
    /// Queues a reply without data.
    pub(super) fn reply(&mut self, request: &Request, error: u32) {
        let header = match (self.agreed.structured && request.command == Command::Read, error) {
            (true, 0) => Header::end(request.cookie),
            (true, _) => Header::failed(request.cookie, error),
            // With structured replies, the protocol requires a chunk for a failed block status and allows simple replies otherwise.
            (false, _) if self.agreed.structured && request.command == Command::BlockStatus => {
                Header::failed(request.cookie, error)
            }
            (false, _) => Header::simple(request.cookie, error),
        };
        self.outbox.push(header, None);
    }

    /// An operation of this client is complete.
    pub(in crate::nbd) fn answered(&mut self, cookie: Cookie, answer: Answer, host: &mut Host<'_>) {
        self.active = host.now;
        let index = usize::from(cookie.pending);
        let Some(request) = self.pending[index].request else { return };
        let pending = &mut self.pending[index];
        pending.left -= 1;
        match answer.result {
            Ok(()) => {}
            // A trim is advice, which a disk without discards may ignore.
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

    /// A part of a read is complete. It is queued at once if replies are structured, and otherwise kept for the one reply.
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

    /// The extents that a client requested are known.
    pub(in crate::nbd) fn block_status_found(&mut self, status: &BlockStatus, host: &mut Host<'_>) {
        let pending = status.cookie.pending;
        let Some(request) = self.pending[usize::from(pending)].request.take() else { return };
        self.free.push(pending);
        self.held.sub(REPLY_BYTES);
        if self.phase == Phase::Gone {
            return;
        }
        let Some(mut buffer) = host.device().pool.try_take(status.extents.len() * DESCRIPTOR_BYTES) else {
            return self.reply(&request, error::ENOMEM);
        };
        for (bytes, extent) in buffer.chunks_exact_mut(DESCRIPTOR_BYTES).zip(&status.extents) {
            bytes.copy_from_slice(&descriptor(extent.bytes as u32, extent.data));
        }
        self.held.add(buffer.footprint());
        let header = Header::block_status(request.cookie, status.extents.len() as u32);
        self.outbox.push(header, Some(buffer));
    }

    /// All operations of a request are complete.
    pub(super) fn finish(&mut self, request: &Request, index: u16, host: &mut Host<'_>) {
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
}

/// The protocol's number for an error. `NBD_ENOTSUP` is reserved for commands that this server does not offer.
fn error_number(error: Errno) -> u32 {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => error::ENOSPC,
        Errno::NOMEM => error::ENOMEM,
        Errno::PERM | Errno::ROFS => error::EPERM,
        _ => error::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_numbers_of_the_protocol() {
        for (of, number) in [
            (Errno::NOSPC, error::ENOSPC),
            (Errno::DQUOT, error::ENOSPC),
            (Errno::FBIG, error::ENOSPC),
            (Errno::NOMEM, error::ENOMEM),
            (Errno::PERM, error::EPERM),
            (Errno::ROFS, error::EPERM),
            (Errno::IO, error::EIO),
            (Errno::NODEV, error::EIO),
        ] {
            assert_eq!(error_number(of), number, "{of:?}");
        }
    }
}
