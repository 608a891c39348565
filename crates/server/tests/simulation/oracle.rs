//! The allowed contents of every sector, computed from the clients' requests and replies only, independent of queue, scheduler and disk.
//!
//! Events of clients (requests sent and replies received) are numbered. A write replaces an older one if it was sent after the reply to the
//! older one; two writes in flight at the same time may take effect in either order.

use std::collections::VecDeque;

/// Never, so far.
const NEVER: u64 = u64::MAX;

/// A write that a sector may hold.
#[derive(Clone, Copy)]
struct Value {
    stamp: u64,
    sent: u64,
    answered: u64,
    /// Acknowledged, and certain to have taken effect: replaces older ones.
    replaces: bool,
    /// Acknowledged as durable by itself.
    durable: bool,
    /// When the later write that replaces this one was acknowledged.
    replaced: u64,
}

impl Value {
    /// Found on the medium with no request in flight.
    const fn found(stamp: u64) -> Self {
        Self { stamp, sent: 0, answered: 0, replaces: true, durable: true, replaced: NEVER }
    }
}

/// A write request.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub first: u32,
    pub sectors: u32,
    pub stamp: u64,
    pub sent: u64,
    /// Forced unit access.
    pub durable: bool,
    /// A trim is advice: sectors keep their content or become zeroes.
    pub advice: bool,
}

pub struct Oracle {
    sectors: Vec<Vec<Value>>,
    events: u64,
    /// The latest number at which an acknowledged flush was sent.
    flushed: u64,
    /// No request in flight was sent before this number.
    horizon: u64,
    /// The acknowledgements of the latest writes, by stamp.
    acknowledged: VecDeque<u64>,
    first_stamp: u64,
}

/// Number of writes whose acknowledgements are stored.
const REMEMBERED: usize = 1 << 16;

impl Oracle {
    pub fn new(sectors: u64) -> Self {
        Self {
            sectors: (0..sectors).map(|_| vec![Value::found(0)]).collect(),
            events: 1,
            flushed: 0,
            horizon: 0,
            acknowledged: VecDeque::new(),
            first_stamp: 1,
        }
    }

    /// The number of the next event.
    pub const fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// A new stamp.
    pub fn stamp(&mut self) -> u64 {
        self.acknowledged.push_back(NEVER);
        if self.acknowledged.len() > REMEMBERED {
            self.acknowledged.pop_front();
            self.first_stamp += 1;
        }
        self.first_stamp + self.acknowledged.len() as u64 - 1
    }

    /// No request in flight was sent before this number.
    pub const fn set_horizon(&mut self, horizon: u64) {
        self.horizon = horizon;
    }

    fn extent(&mut self, write: &Write) -> &mut [Vec<Value>] {
        &mut self.sectors[write.first as usize..(write.first + write.sectors) as usize]
    }

    /// A write was sent: from now on sectors may hold it.
    pub fn sent(&mut self, write: &Write) {
        let value = Value {
            stamp: write.stamp,
            sent: write.sent,
            answered: NEVER,
            replaces: false,
            durable: false,
            replaced: NEVER,
        };
        self.extent(write).iter_mut().for_each(|values| values.push(value));
    }

    /// A write has a reply.
    pub fn answered(&mut self, write: &Write, ok: bool) {
        let now = self.event();
        if ok && let Some(at) = write.stamp.checked_sub(self.first_stamp) {
            self.acknowledged[at as usize] = now;
        }
        let (flushed, horizon) = (self.flushed, self.horizon);
        for values in self.extent(write) {
            let own = values.iter_mut().find(|value| value.sent == write.sent);
            let Some(own) = own else { continue };
            own.answered = now;
            if ok && !write.advice {
                (own.replaces, own.durable) = (true, write.durable);
                let sent = own.sent;
                for value in values.iter_mut().filter(|value| value.answered < sent) {
                    value.replaced = value.replaced.min(now);
                }
            }
            if values.len() > 4 {
                prune(values, flushed, horizon);
            }
        }
    }

    /// A flush that was sent at this number was acknowledged.
    pub fn flushed(&mut self, sent: u64) {
        self.flushed = self.flushed.max(sent);
    }

    /// Whether a write with this stamp was acknowledged before that number.
    pub fn is_acknowledged_before(&self, stamp: u64, sent: u64) -> bool {
        let at = stamp.checked_sub(self.first_stamp);
        at.is_some_and(|at| self.acknowledged[at as usize] < sent)
    }

    /// Whether a read that was sent at this number may find this stamp.
    pub fn may_read(&self, sector: u32, stamp: u64, sent: u64) -> bool {
        self.sectors[sector as usize].iter().any(|value| value.stamp == stamp && value.replaced > sent)
    }

    /// The allowed contents of a sector, as text.
    pub fn describe(&self, sector: u32) -> String {
        let values = self.sectors[sector as usize].iter().map(|value| {
            let Value { stamp, sent, answered, replaces, durable, replaced } = *value;
            let time = |n: u64| if n == NEVER { "never".to_string() } else { n.to_string() };
            let (answered, replaced) = (time(answered), time(replaced));
            format!("{stamp} (sent {sent}, answered {answered}, certain {replaces}, durable {durable}, replaced {replaced})")
        });
        format!("flushed up to {}: {}", self.flushed, values.collect::<Vec<_>>().join("; "))
    }

    /// The server has ended, and with it its requests in flight. `power`: the disk has lost data that was not durable.
    pub fn crashed(&mut self, power: bool) {
        let now = self.event();
        for values in &mut self.sectors {
            for value in values.iter_mut() {
                value.answered = value.answered.min(now);
            }
            prune(values, self.flushed, NEVER);
            if power {
                for value in values.iter_mut() {
                    (value.replaces, value.durable, value.replaced) = (false, false, NEVER);
                }
            }
        }
    }

    /// A client has disconnected, and the server has finished its accepted requests.
    pub fn abandoned(&mut self, write: &Write) {
        let now = self.event();
        for values in self.extent(write) {
            if let Some(own) = values.iter_mut().find(|value| value.sent == write.sent) {
                own.answered = now;
            }
        }
    }

    /// A sector was read after a power loss with no request in flight: this is its content.
    pub fn found(&mut self, sector: u32, stamp: u64) {
        self.sectors[sector as usize] = vec![Value::found(stamp)];
    }
}

/// Removes writes that neither a read nor a power loss can make visible again.
fn prune(values: &mut Vec<Value>, flushed: u64, horizon: u64) {
    let durable = values.iter().filter(|value| value.replaces && (value.durable || value.answered < flushed));
    let Some(latest) = durable.map(|value| value.sent).max() else { return };
    values.retain(|value| value.answered >= latest || value.replaced >= horizon);
}
