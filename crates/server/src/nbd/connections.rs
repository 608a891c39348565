//! The connections of the NBD front end, by their places.

use std::sync::mpsc::Sender;
use std::time::Instant;

use elevator::Process;

use super::connection::{Connection, Cookie};
use super::listener::Greeted;
use super::stream::Stream;
use super::survey::{Question, Survey};
use crate::device::Answer;
use crate::front::{Client, Host};

/// Every client in the transmission phase.
pub(super) struct Connections<S> {
    all: Vec<Option<Connection<S>>>,
    /// Numbers of processes: one for each connection, never used again.
    processes: u32,
}

impl<S> Default for Connections<S> {
    fn default() -> Self {
        Self { all: Vec::new(), processes: 0 }
    }
}

impl<S: Stream> Connections<S> {
    /// Takes a client on; its place, by which [`readable`](Self::readable) names it.
    pub(super) fn adopt(
        &mut self,
        greeted: Greeted<S>,
        questions: Option<Sender<Question>>,
        host: &mut Host<'_>,
    ) -> usize {
        let index = self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.processes = self.processes.wrapping_add(1).max(1);
        let process = Process::single(self.processes);
        let mut connection = Connection::new(index as u16, process, greeted, questions, host);
        connection.flush(number(index), host);
        self.all[index] = Some(connection);
        index
    }

    /// The connection at a place can be read or written.
    pub(super) fn readable(&mut self, index: usize, host: &mut Host<'_>) {
        if let Some(Some(connection)) = self.all.get_mut(index) {
            connection.readable(host);
        }
    }

    /// Passes on where the export holds data.
    pub(super) fn surveyed(&mut self, survey: &Survey, host: &mut Host<'_>) {
        if let Some(Some(connection)) = self.all.get_mut(usize::from(survey.cookie.connection)) {
            connection.surveyed(survey, host);
        }
    }

    /// Passes an operation's end on.
    pub(super) fn answered(&mut self, answer: Answer, host: &mut Host<'_>) {
        let cookie = Cookie::unpack(answer.cookie);
        if let Some(Some(connection)) = self.all.get_mut(usize::from(cookie.connection)) {
            connection.answered(cookie, answer, host);
        }
    }

    /// Passes on that the queue has room for the client of an operation.
    pub(super) fn woken(&mut self, cookie: u64) {
        if let Some(Some(connection)) = self.all.get_mut(usize::from(Cookie::unpack(cookie).connection)) {
            connection.woken();
        }
    }

    /// Sends what has gathered, and takes out connections that are over.
    pub(super) fn flush(&mut self, host: &mut Host<'_>) {
        for (index, connection) in self.all.iter_mut().enumerate() {
            if let Some(connection) = connection {
                connection.flush(number(index), host);
            }
        }
        for slot in &mut self.all {
            if let Some(connection) = slot.take_if(|connection| connection.is_over()) {
                host.exited(connection.process());
                connection.end(host);
            }
        }
    }

    /// When the first rest of a connection is over.
    pub(super) fn due(&self) -> Option<Instant> {
        self.all.iter().flatten().filter_map(Connection::due).min()
    }

    /// Ends the rests that are over.
    pub(super) fn timer(&mut self, host: &mut Host<'_>) {
        let now = Instant::now();
        for connection in self.all.iter_mut().flatten() {
            if connection.due().is_some_and(|at| at <= now) {
                connection.rested(host);
            }
        }
    }

    /// Takes no new requests, as the server stops.
    pub(super) fn take_leave(&mut self) {
        self.all.iter_mut().flatten().for_each(Connection::take_leave);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.iter().all(Option::is_none)
    }

    pub(super) fn describe(&self) -> Vec<Client> {
        self.all.iter().flatten().map(Connection::describe).collect()
    }
}

/// What a connection's stream is watched under: 0 is the front end's bell.
const fn number(index: usize) -> u32 {
    index as u32 + 1
}
