//! Notifications to the service manager (`sd_notify`), if one started the program.

pub(crate) use sd_notify::NotifyState as State;

/// Sends a notification. Without a service manager, nothing happens.
pub(crate) fn notify(state: &[State<'_>]) {
    let _ = sd_notify::notify(false, state);
}
