//! The connections of the NBD front end, by their index.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use elevator::{Process, Span, Time};

use super::block_status::{BlockStatus, Query};
use super::budget::Budget;
use super::connection::Connection;
use super::cookie::Cookie;
use super::greeter::{Greeted, Wanted};
use super::places::{Origin, Shortage};
use super::stream::Stream;
use crate::front::{Client, Host};
use crate::operation::Answer;

/// Every client in the transmission phase.
pub(super) struct Connections<S> {
    all: Vec<Option<Connection<S>>>,
    /// The number of the latest connection's process. A number is never used again.
    processes: u32,
    budget: Arc<Budget>,
    /// Clients that were disconnected because they sent bytes that are no request, and their addresses, until they are logged.
    violators: Vec<(Origin, String)>,
}

/// An idle client that was disconnected for another one.
pub(super) struct Displaced {
    pub(super) origin: Origin,
    pub(super) from: String,
    /// How long it had been idle.
    pub(super) idle: Span,
}

impl<S: Stream> Connections<S> {
    /// No connections, of which all that come use this budget.
    pub(super) const fn new(budget: Arc<Budget>) -> Self {
        Self { all: Vec::new(), processes: 0, budget, violators: Vec::new() }
    }

    /// Adds a client; its index, for [`readable`](Self::readable). `None` if there is no memory for it: it is disconnected.
    pub(super) fn adopt(
        &mut self,
        greeted: Greeted<S>,
        queries: Option<Sender<Query>>,
        host: &mut Host<'_>,
    ) -> Option<usize> {
        let index = self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.processes = self.processes.wrapping_add(1).max(1);
        let process = Process::single(self.processes);
        let mut connection =
            Connection::new(index as u16, process, greeted, queries, self.budget.clone(), host)?;
        connection.flush(number(index), host);
        self.all[index] = Some(connection);
        Some(index)
    }

    /// Disconnects one client that has been idle for `least`, for a client that waits for a place: of the address with the most clients
    /// the one that has been idle for longest. A client with a request in the device is never disconnected.
    pub(super) fn make_room(
        &mut self,
        wanted: &Wanted,
        least: Span,
        host: &mut Host<'_>,
    ) -> Option<Displaced> {
        let now = host.now;
        let is_candidate = |connection: &&mut Connection<S>| {
            let place = connection.place();
            let is_of_address =
                place.origin() == wanted.origin || matches!(wanted.shortage, Shortage::Total(_));
            is_of_address && Arc::ptr_eq(place.places(), &wanted.places)
        };
        let idle = self.all.iter_mut().flatten().filter(is_candidate).filter_map(|connection| {
            let since = connection.idle_since()?;
            (now.since(since) >= least).then_some((since, connection))
        });
        let count = |connection: &Connection<S>| wanted.places.count(connection.place().origin());
        let (since, connection) =
            idle.max_by_key(|(since, connection)| (count(connection), Reverse(*since)))?;
        let origin = connection.place().origin();
        let displaced = Displaced { origin, from: connection.from().to_string(), idle: now.since(since) };
        connection.disconnect(host);
        Some(displaced)
    }

    /// The connection at an index can be read or written.
    pub(super) fn readable(&mut self, index: usize, host: &mut Host<'_>) {
        if let Some(Some(connection)) = self.all.get_mut(index) {
            connection.readable(host);
        }
    }

    /// Passes a block status to the connection that requested it.
    pub(super) fn block_status_found(&mut self, status: &BlockStatus, host: &mut Host<'_>) {
        if let Some(Some(connection)) = self.all.get_mut(usize::from(status.cookie.connection)) {
            connection.block_status_found(status, host);
        }
    }

    /// Passes a completed operation to the connection that requested it.
    pub(super) fn answered(&mut self, answer: Answer, host: &mut Host<'_>) {
        let cookie = Cookie::unpack(answer.cookie);
        if let Some(Some(connection)) = self.all.get_mut(usize::from(cookie.connection)) {
            connection.answered(cookie, answer, host);
        }
    }

    /// The queue has room again for the client of an operation.
    pub(super) fn woken(&mut self, cookie: u64) {
        if let Some(Some(connection)) = self.all.get_mut(usize::from(Cookie::unpack(cookie).connection)) {
            connection.woken();
        }
    }

    /// Sends the replies that have gathered, and removes connections that are over; again as long as that gives memory to a client that waits.
    pub(super) fn flush(&mut self, host: &mut Host<'_>) {
        loop {
            let before = self.budget.changes();
            self.flush_once(host);
            let waiting = self.waiting();
            if let (Some((_, index)), true) = (waiting, self.budget.is_free()) {
                self.budget.set_turn(index);
            }
            if waiting.is_none() || self.budget.changes() == before {
                return;
            }
        }
    }

    /// The client that waits for memory longest, and since when.
    fn waiting(&self) -> Option<(Time, u16)> {
        let all = (0..).zip(&self.all);
        all.filter_map(|(index, connection)| Some((connection.as_ref()?.waits_since()?, index))).min()
    }

    /// A client that was disconnected because it sent bytes that are no request.
    pub(super) fn violator(&mut self) -> Option<(Origin, String)> {
        self.violators.pop()
    }

    /// Whether a client waits for memory that others hold.
    pub(super) fn is_short(&self) -> bool {
        self.waiting().is_some()
    }

    /// Disconnects one client that holds more than its share of the memory and has made no progress for `least`, if another one has waited
    /// for memory as long: of these clients the one with the most.
    pub(super) fn reclaim(&mut self, least: Span, host: &mut Host<'_>) -> Option<Displaced> {
        let now = host.now;
        let (since, _) = self.waiting()?;
        if now.since(since) < least {
            return None;
        }
        let stalled = self.all.iter_mut().flatten().filter_map(|connection| {
            let (excess, since) = connection.stalled_excess()?;
            (now.since(since) >= least).then_some((excess, since, connection))
        });
        let (_, since, connection) = stalled.max_by_key(|&(excess, ..)| excess)?;
        let origin = connection.place().origin();
        let displaced = Displaced { origin, from: connection.from().to_string(), idle: now.since(since) };
        connection.disconnect(host);
        Some(displaced)
    }

    fn flush_once(&mut self, host: &mut Host<'_>) {
        for (index, connection) in self.all.iter_mut().enumerate() {
            if let Some(connection) = connection {
                connection.flush(number(index), host);
            }
        }
        for slot in &mut self.all {
            if let Some(connection) = slot.take_if(|connection| connection.is_over()) {
                if connection.has_violated_protocol() {
                    self.violators.push((connection.place().origin(), connection.from().to_string()));
                }
                host.exited(connection.process());
                connection.end(host);
            }
        }
    }

    /// Accepts no further requests, as the server stops.
    pub(super) fn shut_down(&mut self) {
        self.all.iter_mut().flatten().for_each(Connection::shut_down);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.iter().all(Option::is_none)
    }

    pub(super) fn describe(&self) -> Vec<Client> {
        self.all.iter().flatten().map(Connection::describe).collect()
    }
}

/// The number under which a connection's stream is watched; 0 is the front end's bell.
const fn number(index: usize) -> u32 {
    index as u32 + 1
}

#[cfg(test)]
mod tests;
