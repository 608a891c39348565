//! Limits the rate of messages whose causes others control.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The shortest time between two messages with the same key.
const INTERVAL: Duration = Duration::from_secs(60);

/// Keys that are remembered. While this many have been logged within [`INTERVAL`], messages with other keys are only counted: clients
/// with many addresses cannot fill the log.
const KEYS: usize = 64;

/// Logs at most one message a minute for each key, on standard error. A message states how many were suppressed before it.
pub(crate) struct RateLimit<K = ()>(Mutex<State<K>>);

struct State<K> {
    recent: Vec<Recent<K>>,
    /// Suppressed messages whose keys are not remembered.
    others: u64,
    writer: Option<JoinHandle<()>>,
}

struct Recent<K> {
    key: K,
    logged: Instant,
    suppressed: u64,
}

impl<K> RateLimit<K> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State { recent: Vec::new(), others: 0, writer: None }))
    }
}

impl<K> Default for RateLimit<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: PartialEq> RateLimit<K> {
    /// Logs `message`, or counts it.
    pub(crate) fn log(&self, key: K, message: impl Display) {
        let permitted = self.with(|state| state.permit(key, Instant::now()));
        if let Some(suppressed) = permitted {
            say!("{message}{}", suffix(suppressed));
        }
    }

    /// The same for the device's thread, which must not wait: standard error may be a file on the device that it serves. A thread writes
    /// the message; while that thread is blocked, further messages are discarded.
    pub(crate) fn log_in_background(&self, key: K, message: impl Display) {
        self.with(|state| {
            if state.writer.as_ref().is_some_and(|writer| !writer.is_finished()) {
                return;
            }
            let Some(suppressed) = state.permit(key, Instant::now()) else { return };
            let line = format!("{message}{}", suffix(suppressed));
            state.writer = thread::Builder::new().name("log".into()).spawn(move || say!("{line}")).ok();
        });
    }

    fn with<R>(&self, call: impl FnOnce(&mut State<K>) -> R) -> R {
        call(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: PartialEq> State<K> {
    /// The number of messages suppressed since the last one, if another may be logged `now`.
    fn permit(&mut self, key: K, now: Instant) -> Option<u64> {
        let is_due = |recent: &Recent<K>| now.duration_since(recent.logged) >= INTERVAL;
        let known = self.recent.iter_mut().find(|recent| recent.key == key);
        if let Some(recent) = known {
            if !is_due(recent) {
                recent.suppressed += 1;
                return None;
            }
            recent.logged = now;
            return Some(std::mem::take(&mut recent.suppressed) + std::mem::take(&mut self.others));
        }
        if self.recent.len() == KEYS {
            let Some(old) = self.recent.iter().position(is_due) else {
                self.others += 1;
                return None;
            };
            self.others += self.recent.swap_remove(old).suppressed;
        }
        self.recent.push(Recent { key, logged: now, suppressed: 0 });
        Some(std::mem::take(&mut self.others))
    }
}

fn suffix(suppressed: u64) -> String {
    if suppressed > 0 {
        format!(" ({suppressed} more messages like this one were suppressed)")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permitted(calls: &[(u32, u64)]) -> Vec<Option<u64>> {
        let (limit, began) = (RateLimit::default(), Instant::now());
        let permit =
            |&(key, second)| limit.with(|state| state.permit(key, began + Duration::from_secs(second)));
        calls.iter().map(permit).collect()
    }

    #[test]
    fn each_key_is_logged_once_a_minute_with_the_number_suppressed() {
        let calls = [(1, 0), (1, 1), (2, 2), (1, 59), (1, 60), (2, 61), (1, 61), (1, 180)];
        assert_eq!(permitted(&calls), [Some(0), None, Some(0), None, Some(2), None, None, Some(1)]);
    }

    #[test]
    fn any_number_of_keys_has_at_most_64_messages_a_minute() {
        let calls: Vec<(u32, u64)> = (0..1000).map(|key| (key, 0)).chain([(1000, 60)]).collect();
        let permitted = permitted(&calls);
        assert_eq!(permitted.iter().flatten().count(), KEYS + 1);
        assert_eq!(permitted[1000], Some(1000 - KEYS as u64), "those suppressed are counted");
    }
}
