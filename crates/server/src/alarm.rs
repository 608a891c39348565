//! What people are told of operations that fail.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::device::Failure;

/// Failures are told at most so often: of a broken disk there are thousands in a second.
const EVERY: Duration = Duration::from_secs(60);

/// Tells of failures on standard error.
#[derive(Default)]
pub(crate) struct Alarm {
    told: Option<Instant>,
    /// Tells for the device's thread, which must not wait for whoever listens: what is said may be kept on this very device.
    voice: Option<JoinHandle<()>>,
}

impl Alarm {
    /// Tells of a failure, of which there were `so_far`, unless one was told of shortly before or is being told of still.
    pub(crate) fn raise(&mut self, failure: Failure, so_far: u64) {
        let lately = self.told.is_some_and(|told| told.elapsed() < EVERY);
        if lately || self.voice.as_ref().is_some_and(|voice| !voice.is_finished()) {
            return;
        }
        self.told = Some(Instant::now());
        let tell = move || eprintln!("{failure}; {so_far} failed so far, told once a minute at most");
        // Without another thread it is left: the accounts have it.
        self.voice = thread::Builder::new().name("alarm".into()).spawn(tell).ok();
    }
}
