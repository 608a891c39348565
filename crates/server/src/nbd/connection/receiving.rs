//! From bytes to requests. Large payloads are received into the memory of their request, without a copy.

use elevator::Op;
use rustix::io::{Errno, IoSliceMut};

use super::{Connection, Receiving};
use crate::buffer::{self, Buffer, LARGEST};
use crate::front::Host;
use crate::nbd::block_status::REPLY_BYTES;
use crate::nbd::protocol::{self, Command, REQUEST_BYTES, Request};
use crate::nbd::stream::Stream;

/// From this length on, a separate call for the next header costs less than copying a payload that arrived behind a header.
pub(super) const LARGE: usize = 32 << 10;

/// Bytes received from one client before the next client's turn.
const TURN: usize = 4 << 20;

impl<S: Stream> Connection<S> {
    /// Receives and parses what has arrived.
    pub(in crate::nbd) fn readable(&mut self, host: &mut Host<'_>) {
        let mut turn = TURN;
        while self.wants_bytes() && turn > 0 {
            match self.receive(host) {
                Ok((0, _)) => return self.stop(),
                Ok((bytes, all)) => {
                    turn = turn.saturating_sub(bytes);
                    self.parse(host);
                    if all {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.disconnect(host),
            }
        }
    }

    /// Receives once: the rest of a payload into the memory of its request, and the bytes after it into the receive memory. Returns the
    /// number of bytes, and whether no more have arrived.
    fn receive(&mut self, host: &mut Host<'_>) -> Result<(usize, bool), Errno> {
        self.received.make_room();
        let (direct, last) = match &self.receiving {
            Some(Receiving::Write { pending, filled }) => {
                debug_assert!(self.received.is_empty(), "`parse` has copied what was received");
                direct_part(&mut self.pending[usize::from(*pending)].parts, *filled)
            }
            _ => (&mut [][..], true),
        };
        let direct_bytes = direct.len();
        let space = match (last, self.large) {
            (false, _) => &mut [][..],
            (true, true) => self.received.free_up_to(REQUEST_BYTES),
            (true, false) => self.received.free(),
        };
        let asked = direct_bytes + space.len();
        let mut slices = [IoSliceMut::new(direct), IoSliceMut::new(space)];
        let first = usize::from(direct_bytes == 0);
        let bytes = self.stream.receive(&mut slices[first..])?;
        if bytes > 0 {
            self.active = host.now;
            self.received_bytes += bytes as u64;
            self.update_progress(host.now);
        }
        self.received.add(bytes.saturating_sub(direct_bytes));
        self.received_directly(bytes.min(direct_bytes), host);
        Ok((bytes, bytes < asked))
    }

    fn received_directly(&mut self, bytes: usize, host: &mut Host<'_>) {
        if let Some(Receiving::Write { filled, .. }) = &mut self.receiving {
            *filled += bytes;
        }
        self.submit_if_received(host);
    }

    /// Parses the received bytes into requests, as far as there is room for requests.
    pub(in crate::nbd) fn parse(&mut self, host: &mut Host<'_>) {
        loop {
            self.take_payload(host);
            if self.receiving.is_some() || !self.takes_more() {
                return;
            }
            let Some(header) = self.received.first::<REQUEST_BYTES>() else { return };
            let Ok(request) = protocol::request(&header) else {
                self.has_violated_protocol = true;
                return self.disconnect(host);
            };
            let problem = request.problem(&self.limits);
            let need = if problem.is_none() { memory(&request) } else { 0 };
            if !self.held.permits(need) {
                return;
            }
            if !self.held.has_room(need) {
                self.waits_since.get_or_insert(host.now);
                return;
            }
            if self.waits_since.is_some() {
                self.wait_no_more();
            }
            if self.held.excess() == 0 {
                // From now on it may hold more than its share.
                self.update_progress(host.now);
            }
            self.received.skip(REQUEST_BYTES);
            self.accept(request, problem, host);
        }
    }

    /// Copies a payload's bytes from the receive memory to the memory of its request.
    fn take_payload(&mut self, host: &mut Host<'_>) {
        match &mut self.receiving {
            None => return,
            Some(Receiving::Refused { request, error, left }) => {
                let bytes = self.received.len().min(*left);
                self.received.skip(bytes);
                *left -= bytes;
                if *left == 0 {
                    let (request, error) = (*request, *error);
                    self.receiving = None;
                    self.reply(&request, error);
                }
                return;
            }
            Some(Receiving::Write { pending, filled }) => {
                let parts = &mut self.pending[usize::from(*pending)].parts;
                loop {
                    let bytes = self.received.read(direct_part(parts, *filled).0);
                    if bytes == 0 {
                        break;
                    }
                    *filled += bytes;
                }
            }
        }
        self.submit_if_received(host);
    }

    /// Submits a write once all of its data has arrived.
    fn submit_if_received(&mut self, host: &mut Host<'_>) {
        let Some(Receiving::Write { pending, filled }) = self.receiving else { return };
        let Some(request) = self.pending[usize::from(pending)].request else { return };
        if filled < request.length as usize {
            return;
        }
        self.receiving = None;
        self.submit_parts(pending, Op::Write, host);
    }
}

/// The memory of one part from byte `filled` of the request on, and whether that part is the last one.
fn direct_part(parts: &mut [Option<Buffer>], filled: usize) -> (&mut [u8], bool) {
    let (part, within) = (filled / LARGEST, filled % LARGEST);
    let last = part + 1 >= parts.len();
    match parts.get_mut(part) {
        Some(Some(buffer)) => (&mut buffer[within..], last),
        _ => (&mut [], true),
    }
}

/// Memory that a request needs until it is answered.
fn memory(request: &Request) -> usize {
    match request.command {
        Command::Read | Command::Write => footprint(request.length as usize),
        Command::WriteZeroes if request.no_hole => footprint((request.length as usize).min(LARGEST)),
        Command::BlockStatus => REPLY_BYTES,
        _ => 0,
    }
}

/// Memory for the data of a request.
fn footprint(bytes: usize) -> usize {
    bytes / LARGEST * LARGEST
        + if bytes.is_multiple_of(LARGEST) { 0 } else { buffer::footprint(bytes % LARGEST) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;

    #[test]
    fn a_request_needs_the_memory_of_its_buffers() {
        let need = |command, no_hole, length| {
            let (fua, one, odd_flags, cookie, offset) = (false, false, false, 0, 0);
            memory(&Request { command, fua, no_hole, one, odd_flags, cookie, offset, length })
        };
        const MIB: u32 = 1 << 20;
        for command in [Command::Read, Command::Write] {
            for (length, expected) in [
                (512, 4096),
                (4096, 4096),
                (4097, 8192),
                (12 << 10, 16 << 10),
                (MIB, 1 << 20),
                (MIB + 1, (1 << 20) + 4096),
                (3 * MIB, 3 << 20),
            ] {
                assert_eq!(need(command, false, length), expected, "{length}");
            }
        }
        assert_eq!(
            [need(Command::WriteZeroes, false, MIB), need(Command::WriteZeroes, true, MIB)],
            [0, 1 << 20]
        );
        assert_eq!(need(Command::WriteZeroes, true, 32 * MIB), 1 << 20, "one step at a time");
        assert_eq!([need(Command::Trim, false, MIB), need(Command::Flush, false, 0)], [0, 0]);
        assert_eq!(need(Command::BlockStatus, false, MIB), REPLY_BYTES);
    }

    #[test]
    fn data_goes_to_the_part_of_the_request_that_is_next() {
        let mut pool = Pool::new(0);
        let mut parts = vec![Some(pool.take(LARGEST)), Some(pool.take(512))];
        for (filled, expected) in [
            (0, (LARGEST, false)),
            (100, (LARGEST - 100, false)),
            (LARGEST - 1, (1, false)),
            (LARGEST, (512, true)),
            (LARGEST + 500, (12, true)),
        ] {
            let (direct, is_last) = direct_part(&mut parts, filled);
            assert_eq!((direct.len(), is_last), expected, "{filled}");
        }
        assert_eq!(direct_part(&mut parts, 2 * LARGEST).0.len(), 0);
        direct_part(&mut parts, LARGEST + 500).0[0] = 7;
        assert_eq!(parts[1].as_ref().unwrap()[500], 7);
    }
}
