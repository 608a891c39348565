//! An NBD client that sends random requests, checks every reply, and disconnects at random times.

use std::cell::RefCell;
use std::rc::Rc;

use elevator::{Random, Time};
use server::simulation::Channel;

use crate::disk::{Disk, SECTOR};
use crate::oracle::{Oracle, Write};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Read,
    Write,
    Flush,
    Trim,
    Zeroes,
    Status,
    /// Must be rejected.
    Invalid,
}

/// A request that was sent and not answered.
#[derive(Debug)]
pub struct Pending {
    cookie: u64,
    kind: Kind,
    first: u32,
    sectors: u32,
    /// With forced unit access.
    fua: bool,
    pub sent: u64,
    pub at: Time,
    write: Option<Write>,
    /// Received bytes of a read.
    received: u32,
}

pub struct Client {
    pub channel: Rc<RefCell<Channel>>,
    structured: bool,
    pub pending: Vec<Pending>,
    cookies: u64,
    /// The begin of the next sequential request.
    position: u32,
    /// It reads no replies until then.
    pub deaf_until: Time,
    /// Since when it holds more memory than its share and does not read.
    pub hoards_since: Option<Time>,
    /// It moves few bytes at a time, or did not read for a while.
    pub was_slow: bool,
    /// It has disconnected; its requests may still take effect.
    pub gone: bool,
    /// It has received nothing yet.
    pub is_new: bool,
    /// Memory was scarce since it connected.
    pub met_scarcity: bool,
    /// It has sent a disconnect request and reads its last replies.
    pub leaving: bool,
}

/// The findings of a client.
pub struct Findings<'a> {
    pub oracle: &'a mut Oracle,
    pub disk: &'a Disk,
    /// When memory was scarce last.
    pub scarce: Option<Time>,
    pub now: Time,
    pub answered: u64,
    pub failed: u64,
    pub longest: u64,
    pub violation: Option<String>,
    /// Requests that were refused for lack of memory.
    pub refused: u64,
    /// A refused request counts as acknowledged.
    pub is_mutated: bool,
    /// The number at which a flush was sent that has just been acknowledged, or a durable write's stamp.
    pub acknowledged_flush: Option<u64>,
    /// Sectors that a reader of the whole disk has found.
    pub found: Option<&'a mut Vec<(u32, u64)>>,
}

impl Findings<'_> {
    fn violated(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}

const EIO: u32 = 5;
const ENOMEM: u32 = 12;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const SIMPLE: u32 = 0x6744_6698;
const STRUCTURED: u32 = 0x668e_33ef;

impl Client {
    pub fn new(channel: Rc<RefCell<Channel>>, structured: bool, met_scarcity: bool) -> Self {
        Self {
            channel,
            structured,
            pending: Vec::new(),
            cookies: 0,
            position: 0,
            deaf_until: Time::ZERO,
            hoards_since: None,
            was_slow: false,
            gone: false,
            is_new: true,
            met_scarcity,
            leaving: false,
        }
    }

    /// Sends a request of any kind.
    pub fn send_any(&mut self, now: Time, capacity: u32, random: &mut Random, oracle: &mut Oracle) {
        let (kind, fua) = match random.below(100) {
            0..40 => (Kind::Read, random.once_in(50)),
            40..86 => (Kind::Write, random.once_in(12)),
            86..91 => (Kind::Flush, false),
            91..95 => (Kind::Trim, random.once_in(4)),
            95..98 => (Kind::Zeroes, random.once_in(4)),
            98 => (Kind::Status, false),
            _ => (Kind::Invalid, false),
        };
        let sectors = match random.below(20_000) {
            0 => 2_049 + random.below(2_000) as u32,
            1..200 => 1 + random.below(256) as u32,
            _ => 1 << random.below(4),
        };
        let first = match random.below(8) {
            0..3 => self.position,
            3..6 => random.below(256) as u32,
            _ => random.below(u64::from(capacity)) as u32,
        };
        let first = if first + sectors > capacity {
            random.below(u64::from(capacity - sectors)) as u32
        } else {
            first
        };
        self.position = first + sectors;
        self.send(now, kind, fua, first, sectors, random, oracle);
    }

    #[expect(clippy::too_many_arguments, reason = "a request has as many properties")]
    pub fn send(
        &mut self,
        now: Time,
        kind: Kind,
        fua: bool,
        first: u32,
        sectors: u32,
        random: &mut Random,
        oracle: &mut Oracle,
    ) {
        self.cookies += 1;
        let (cookie, sent) = (self.cookies, oracle.event());
        let mut channel = self.channel.borrow_mut();
        let (command, no_hole) = match kind {
            Kind::Read => (0u16, 0),
            Kind::Write => (1, 0),
            Kind::Flush => (3, 0),
            Kind::Trim => (4, 0),
            Kind::Zeroes => (6, if random.once_in(3) { 2 } else { 0 }),
            Kind::Status => (7, 0),
            Kind::Invalid => ([0, 1, 4, 9][random.below(4) as usize], 0),
        };
        let flags = u16::from(fua && kind != Kind::Flush) | no_hole;
        let mut length = if kind == Kind::Flush { 0 } else { sectors * SECTOR as u32 };
        let mut offset = if kind == Kind::Flush { 0 } else { u64::from(first) * SECTOR as u64 };
        if kind == Kind::Invalid {
            // Beyond the end, or not in whole sectors.
            if random.once_in(2) { offset += 1 << 40 } else { length = length.min(8192) - 1 }
        }
        let mut header = [0; 28];
        header[..4].copy_from_slice(&0x2560_9513u32.to_be_bytes());
        header[4..6].copy_from_slice(&flags.to_be_bytes());
        header[6..8].copy_from_slice(&command.to_be_bytes());
        header[8..16].copy_from_slice(&cookie.to_be_bytes());
        header[16..24].copy_from_slice(&offset.to_be_bytes());
        header[24..].copy_from_slice(&length.to_be_bytes());
        channel.to_server.push(&header);
        let mut write = None;
        if matches!(kind, Kind::Write | Kind::Trim | Kind::Zeroes) {
            let stamp = if kind == Kind::Write { oracle.stamp() } else { 0 };
            let asked = Write { first, sectors, stamp, sent, durable: fua, advice: kind == Kind::Trim };
            oracle.sent(&asked);
            write = Some(asked);
        }
        if command == 1 {
            let mut block = [0; SECTOR];
            if let Some(write) = &write {
                block[..8].copy_from_slice(&write.stamp.to_le_bytes());
                block[SECTOR - 8..].copy_from_slice(&write.stamp.to_le_bytes());
            }
            let mut left = length as usize;
            while left > 0 {
                channel.to_server.push(&block[..left.min(SECTOR)]);
                left -= left.min(SECTOR);
            }
        }
        drop(channel);
        self.pending.push(Pending { cookie, kind, first, sectors, fua, sent, at: now, write, received: 0 });
    }

    /// Sends a disconnect request; the server still replies to all earlier requests.
    pub fn send_disconnect(&mut self) {
        let mut header = [0; 28];
        header[..4].copy_from_slice(&0x2560_9513u32.to_be_bytes());
        header[6..8].copy_from_slice(&2u16.to_be_bytes());
        self.channel.borrow_mut().to_server.push(&header);
        self.leaving = true;
    }

    /// Disconnects: closes its end, or resets the connection, after any byte of its data. A mutated server takes what is missing for zeroes.
    pub fn leave(&mut self, random: &mut Random, is_mutated: bool) {
        let mut channel = self.channel.borrow_mut();
        let there = channel.to_server.as_slice().len() as u64;
        let sent = random.below(there + 1);
        channel.to_server.truncate(sent as usize);
        if random.once_in(2) && !is_mutated {
            channel.reset = true;
        }
        if is_mutated {
            channel.to_server.push(&vec![0; (there - sent) as usize]);
        }
        channel.closed = true;
        self.gone = true;
    }

    /// The server has closed this client's connection, so that none of its requests is in flight.
    pub fn forget(&mut self, oracle: &mut Oracle) {
        for write in self.pending.drain(..).filter_map(|pending| pending.write) {
            oracle.abandoned(&write);
        }
    }

    /// Reads every complete reply.
    pub fn read_replies(&mut self, findings: &mut Findings<'_>) {
        if self.gone || findings.now < self.deaf_until {
            return;
        }
        let channel = self.channel.clone();
        let mut channel = channel.borrow_mut();
        let mut taken = 0;
        while let Some(bytes) = self.reply(&channel.to_client.as_slice()[taken..], findings) {
            taken += bytes;
        }
        channel.to_client.take(taken);
    }

    /// Checks one reply or chunk; returns its length if it is complete.
    fn reply(&mut self, bytes: &[u8], findings: &mut Findings<'_>) -> Option<usize> {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        if bytes.len() < 16 || findings.violation.is_some() {
            return None;
        }
        if word(0) == SIMPLE {
            let (error, cookie) = (word(4), long(8));
            let at = self.find(cookie, findings)?;
            let pending = &self.pending[at];
            if pending.kind != Kind::Read || error != 0 {
                self.end(at, error, findings);
                return Some(16);
            }
            let length = pending.sectors as usize * SECTOR;
            if bytes.len() < 16 + length {
                return None;
            }
            if self.structured {
                findings.violated(format!("a simple reply to the structured read {cookie}"));
            }
            self.data(at, 0, &bytes[16..16 + length], findings);
            self.end(at, 0, findings);
            return Some(16 + length);
        }
        if word(0) != STRUCTURED || !self.structured {
            findings.violated(format!("a reply begins with {:08x}", word(0)));
            return None;
        }
        if bytes.len() < 20 {
            return None;
        }
        let (done, kind, cookie, length) = (bytes[5] & 1 == 1, word(4) as u16, long(8), word(16) as usize);
        let at = self.find(cookie, findings)?;
        if bytes.len() < 20 + length {
            return None;
        }
        let body = &bytes[20..20 + length];
        let error = match kind {
            0 | 5 => 0,
            1 => {
                let offset = u64::from_be_bytes(body[..8].try_into().unwrap());
                let within = offset as usize / SECTOR - self.pending[at].first as usize;
                self.data(at, within as u32, &body[8..], findings);
                0
            }
            _ => u32::from_be_bytes(body[..4].try_into().unwrap()),
        };
        if done {
            self.end(at, error, findings);
        }
        Some(20 + length)
    }

    fn find(&mut self, cookie: u64, findings: &mut Findings<'_>) -> Option<usize> {
        let at = self.pending.iter().position(|pending| pending.cookie == cookie);
        if at.is_none() {
            findings.violated(format!("a reply to {cookie}, which was answered before or never sent"));
        }
        at
    }

    fn data(&mut self, at: usize, within: u32, bytes: &[u8], findings: &mut Findings<'_>) {
        let pending = &mut self.pending[at];
        pending.received += bytes.len() as u32;
        let first = pending.first + within;
        for (sector, block) in (first..).zip(bytes.as_chunks::<SECTOR>().0) {
            let [begin, end] =
                [0, SECTOR - 8].map(|at| u64::from_le_bytes(block[at..at + 8].try_into().unwrap()));
            if begin != end {
                findings.violated(format!("sector {sector}: read data of two writes, {begin} and {end}"));
            }
            if !findings.oracle.may_read(sector, begin, pending.sent) {
                let may = findings.oracle.describe(sector);
                findings.violated(format!(
                    "sector {sector}: a read sent at {} found {begin}; {may}",
                    pending.sent
                ));
            }
            if let Some(found) = &mut findings.found {
                found.push((sector, begin));
            }
        }
    }

    fn end(&mut self, at: usize, error: u32, findings: &mut Findings<'_>) {
        self.is_new = false;
        let pending = self.pending.swap_remove(at);
        findings.refused += u64::from(error == ENOMEM);
        let error = if error == ENOMEM && findings.is_mutated { 0 } else { error };
        findings.answered += 1;
        findings.failed += u64::from(error != 0);
        findings.longest = findings.longest.max(findings.now.since(pending.at).as_nanos());
        if let Some(write) = &pending.write {
            findings.oracle.answered(write, error == 0);
        }
        match (pending.kind, error) {
            (Kind::Invalid, 0) => findings.violated(format!("{pending:?} was not refused")),
            (Kind::Flush, 0) => {
                findings.oracle.flushed(pending.sent);
                findings.acknowledged_flush =
                    Some(pending.sent.max(findings.acknowledged_flush.unwrap_or(0)));
            }
            (Kind::Read, 0) if pending.received as usize != pending.sectors as usize * SECTOR => {
                findings.violated(format!("{pending:?} ended with {} bytes", pending.received));
            }
            (Kind::Invalid, _) | (_, 0) => {}
            _ if self.is_explained(&pending, error, findings) => {}
            _ => {
                let jobs = findings.disk.describe_jobs(findings.now);
                findings
                    .violated(format!("{pending:?} failed with the error {error} without a cause; {jobs}"));
            }
        }
    }

    /// Whether a fault since the request was sent explains its error.
    fn is_explained(&self, pending: &Pending, error: u32, findings: &Findings<'_>) -> bool {
        let Pending { kind, first, sectors, fua, at, .. } = *pending;
        let (disk, now) = (findings.disk, findings.now);
        let has_sectors = !matches!(kind, Kind::Flush | Kind::Status);
        let job_failed = |full| has_sectors && disk.causes.job_failed_since(first, sectors, full, at);
        match error {
            EIO if kind == Kind::Status => false,
            EIO => {
                let flushes = fua || kind == Kind::Flush;
                job_failed(false)
                    || flushes && disk.causes.flush_failed_since(at)
                    || disk.overdue_since(now, at, first, if has_sectors { sectors } else { 0 }, flushes)
            }
            ENOSPC => kind != Kind::Read && job_failed(true),
            ENOMEM => findings.scarce >= Some(at),
            EINVAL => kind == Kind::Status && !self.structured,
            _ => false,
        }
    }
}
