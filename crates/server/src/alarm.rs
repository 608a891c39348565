//! What people are told of operations that fail.

use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::complaint::Complaint;
use crate::device::Failure;

/// Tells of failures on standard error, seldom: of a broken disk there are thousands in a second.
#[derive(Default)]
pub(crate) struct Alarm {
    complaint: Complaint,
    /// Tells for the device's thread, which must not wait for whoever listens: what is said may be kept on this very device.
    voice: Option<JoinHandle<()>>,
}

impl Alarm {
    /// Tells of a failure, of which there were `so_far`, unless one was told of shortly before or is being told of still.
    pub(crate) fn raise(&mut self, failure: Failure, so_far: u64) {
        let speaks = self.voice.as_ref().is_some_and(|voice| !voice.is_finished());
        if speaks || self.complaint.due(Instant::now()).is_none() {
            return;
        }
        let tell = move || say!("{failure}; {so_far} failed so far, told once a minute at most");
        // Without another thread it is left: the accounts have it.
        self.voice = thread::Builder::new().name("alarm".into()).spawn(tell).ok();
    }
}
