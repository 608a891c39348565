//! The host that a drive is on: what its bus takes for a sector.
//!
//! A `.diskspecs` file whose "Bulk sector transfer time" is 0 says that the host was the slower side, and not what it
//! took; that stands in the experiment's file. It is looked for, in this order: in the `.parv` that the caller names, in
//! the one beside the drive's file and named like it, among the experiments published with DiskSim 4.0 (`hosts.toml`).
//! Without any the bus takes no time. Whatever is found is said, and an override of the drive (`bus.host_read_sector_ms`,
//! `bus.host_write_sector_ms`) goes before it.

use std::collections::BTreeMap;

use super::Resolver;
use super::experiment::{self, Host};

/// A host, and where it was found.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct HostSource {
    pub(super) host: Host,
    pub(super) origin: String,
}

/// The host of a drive whose own file does not say it. `file` is that file's name.
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

/// The host in the experiment's file beside a drive's, with that file's name; or why it cannot be had from there.
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
