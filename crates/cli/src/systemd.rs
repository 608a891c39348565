//! What the service manager is told, if one started us. It not listening is no error.

pub(crate) use sd_notify::NotifyState as State;

/// Tells systemd (`sd_notify`).
pub(crate) fn tell(state: &[State<'_>]) {
    let _ = sd_notify::notify(false, state);
}
