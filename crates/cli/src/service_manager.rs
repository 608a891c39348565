//! Notifications to the service manager (`sd_notify`), if one started the program.

pub(crate) use sd_notify::NotifyState as State;

/// Whether a service manager waits for notifications.
pub(crate) fn has_started_this() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Sends a notification. Without a service manager, nothing happens.
pub(crate) fn notify(state: &[State<'_>]) {
    let _ = sd_notify::notify(false, state);
}
