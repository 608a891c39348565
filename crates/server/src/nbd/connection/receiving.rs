//! From bytes to requests: nothing is copied that can be received where it belongs.

use elevator::Op;
use rustix::io::{Errno, IoSliceMut};

use super::{BUDGET, Connection, Receiving};
use crate::buffer::{self, Buffer, LARGEST};
use crate::front::Host;
use crate::nbd::protocol::{self, Command, REQUEST_BYTES};
use crate::nbd::stream::Stream;

/// A write from which on a call more, for the header alone, is cheaper than copying what came behind it.
pub(super) const LARGE: usize = 32 << 10;

/// Bytes taken from one client before the next one has its turn.
const TURN: usize = 4 << 20;

impl<S: Stream> Connection<S> {
    /// Reads what has come.
    pub(in crate::nbd) fn readable(&mut self, host: &mut Host<'_>) {
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
        let bytes = self.stream.receive(&mut slices[first..])?;
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
    pub(in crate::nbd) fn understand(&mut self, host: &mut Host<'_>) {
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
            Some(Receiving::Refused { request, error, left }) => {
                let bytes = there.min(*left);
                self.begin += bytes;
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
