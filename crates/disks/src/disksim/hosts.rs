//! The transfer time of the host's bus.
//!
//! A `.diskspecs` file with a "Bulk sector transfer time" of 0 means that the host was the slower side; the host's time is in the
//! experiment file. It is taken from the first of: the `.parv` file that the caller names; the `.parv` file beside the drive's
//! file, with the same name; the experiments published with DiskSim 4.0 (`hosts.toml`). Otherwise the bus takes no time. The source
//! is reported as an origin. Overrides of `bus.host_read_sector_ms` and `bus.host_write_sector_ms` take precedence.

use std::collections::BTreeMap;

use super::Resolver;
use super::experiment::{self, Host};

/// A host and the source of its times.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct HostSource {
    pub(super) host: Host,
    pub(super) origin: String,
}

/// The host of a drive whose own file does not state it. `file` is the name of that file.
pub(super) fn find(drive: &str, file: &str, open: Resolver<'_>) -> HostSource {
    let found = |host, origin: &str| HostSource { host, origin: format!("{origin}: {host}") };
    let (beside, why_not) = beside(drive, file, open);
    if let Some((parv, host)) = beside {
        return found(host, &format!("{parv}, beside the drive's file"));
    }
    let (host, origin) = match published(drive) {
        Some(host) => (host, "the experiment published with DiskSim 4.0"),
        None => (Host::default(), "no experiment's .parv file was found, so the host's bus takes no time"),
    };
    let HostSource { host, origin } = found(host, origin);
    HostSource { host, origin: origin + &why_not }
}

/// The host from the experiment file beside the drive's file, or the reason why there is none.
fn beside(drive: &str, file: &str, open: Resolver<'_>) -> (Option<(String, Host)>, String) {
    let name = file.rsplit('/').next().unwrap_or(file);
    let Some(stem) = name.strip_suffix(".diskspecs") else { return (None, String::new()) };
    let parv = format!("{stem}.parv");
    if open(&parv).is_err() {
        return (None, String::new());
    }
    match experiment::host_of(drive, &parv, open) {
        Ok(Some(host)) => (Some((parv, host)), String::new()),
        Ok(None) => (None, format!(" ({parv} has no such drive)")),
        Err(error) => (None, format!(" ({error})")),
    }
}

fn published(drive: &str) -> Option<Host> {
    let hosts: BTreeMap<String, Host> =
        toml::from_str(include_str!("hosts.toml")).expect("tests read the published hosts");
    hosts.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(drive)).map(|(_, host)| host)
}
