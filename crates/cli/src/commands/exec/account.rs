//! The account that a program, a process or a container joins, on each device.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use admission::{Again, Connection, Joined};
use evaluation::report::format::bytes;
use server::control::protocol::AccountTerms;
use server::control::{Client, DeviceNumber};
use server::split::NOT_ATTACHED;

use crate::commands::ctl::{no_server, restarted_by};
use crate::error::Error;
use crate::input::account_terms::{terms, without_effect};

/// Limits of the time for which a server may attach its device or be restarted: until a program starts, which is limited from its first call on, and
/// while a container's calls wait.
const START: Duration = Duration::from_secs(60);
const CALLS: Duration = Duration::from_secs(5);

/// How long calls wait for the next server when theirs has ended: a restart takes a fraction of a second.
const RESTART: Duration = Duration::from_secs(5);

/// The number of no device.
const NO_DEVICE: DeviceNumber = (0, 0);

/// How often a server that ended is looked for.
const RETURN: Duration = Duration::from_millis(100);

/// At a lower rate one seek costs an account more than ten seconds.
const LEAST_RATE: u64 = 200_000;

/// The annotations of a container.
const ANNOTATIONS: [&str; 4] = ["account", "weight", "rate", "fsync-deadline"];

/// An account to join.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) controls: Vec<PathBuf>,
    pub(super) name: String,
    pub(super) terms: AccountTerms,
    /// Whose calls an agent intercepts, if the command has several.
    pub(super) of: Option<String>,
}

impl Account {
    /// Joins the account on each device.
    pub(super) fn join(&self) -> Result<Vec<Joined>, Error> {
        self.join_all(START, |joined, _| joined)
    }

    /// Likewise. On a device without a server the account is joined once there is one, and calls continue until then.
    pub(super) fn join_in_time(&self) -> Result<Vec<Joined>, Error> {
        let without_server = |control: &Path, error: io::Error| {
            let (server, _) = UnixStream::pair().map_err(|_| error)?;
            Ok(Joined { server, device: NO_DEVICE, again: self.again(control, false), patience: RESTART })
        };
        self.join_all(CALLS, |joined, control| match joined {
            Err(error) if is_away(&error) => without_server(control, error),
            joined => joined,
        })
    }

    fn join_all(
        &self,
        patience: Duration,
        or: impl Fn(io::Result<Joined>, &Path) -> io::Result<Joined>,
    ) -> Result<Vec<Joined>, Error> {
        let mut all: Vec<Joined> = Vec::new();
        for (place, control) in self.controls.iter().enumerate() {
            let joined =
                or(self.join_at(control, patience), control).map_err(|error| no_server(control, &error))?;
            let is_same = |other: &Joined| other.device == joined.device && joined.device != NO_DEVICE;
            if let Some(before) = all.iter().position(is_same) {
                let (control, before) = (control.display(), self.controls[before].display());
                return Err(Error::Usage(format!(
                    "--control {control} (number {}): the same device as {before}; name each device once",
                    place + 1
                )));
            }
            all.push(joined);
        }
        Ok(all)
    }

    fn join_at(&self, control: &Path, patience: Duration) -> io::Result<Joined> {
        let begun = Instant::now();
        let mut is_reported = false;
        loop {
            let joined = Client::connect(control).and_then(|client| client.join(&self.name, self.terms));
            let error = match joined {
                Ok((server, device)) => {
                    return Ok(Joined {
                        server,
                        device,
                        again: self.again(control, true),
                        patience: RESTART,
                    });
                }
                Err(error) => error,
            };
            // The server was just started or restarted and has not attached its device yet, or its supervisor is about to start the next one.
            let is_started = error.to_string().contains(NOT_ATTACHED);
            let restarting = || if is_away(&error) { restarted_by(control) } else { None };
            if begun.elapsed() > patience {
                return Err(error);
            }
            if !is_started {
                let Some(process) = restarting() else { return Err(error) };
                if !is_reported {
                    say!("{}: process {process} is restarting its server; waiting for it", control.display());
                }
                is_reported = true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What joins the account again when the server has ended, or when there is one (not `had_server`).
    fn again(&self, control: &Path, had_server: bool) -> Again {
        let (account, control) = (self.clone(), control.to_owned());
        let had_server = AtomicBool::new(had_server);
        Arc::new(move |terms| {
            let terms = terms.unwrap_or(account.terms);
            account.join_again(&control, terms, had_server.swap(true, Ordering::Relaxed))
        })
    }

    /// Waits for the next server and joins the account there, with these terms. Prints a line when the limits end and when they hold again.
    fn join_again(&self, control: &Path, terms: AccountTerms, had_server: bool) -> Connection {
        // Standard error may be a full pipe, or a file on the device that has no server.
        let (lines, printed) = channel::<String>();
        let _ = std::thread::Builder::new()
            .name("print".into())
            .spawn(move || printed.iter().for_each(|line| say!("{line}")));
        let of = self.of.as_ref().map(|of| format!(" ({of})")).unwrap_or_default();
        let what = format!("{}: account '{}'{of}", control.display(), self.name);
        let _ = lines.send(if had_server {
            let wait = RESTART.as_secs();
            format!("{what}: its server has ended; calls wait for the next one for {wait} s, then continue without limits")
        } else {
            format!("{what}: no server listens there; calls continue without limits until one does")
        });
        let mut reported = false;
        loop {
            match Client::connect(control).and_then(|client| client.join(&self.name, terms)) {
                Ok(connection) => {
                    let notes = effects(control, terms);
                    let state = if notes.is_empty() { "has its limits again" } else { "is joined again" };
                    let _ = lines.send(format!("{what} {state}: a server is back"));
                    notes.into_iter().for_each(|note| _ = lines.send(note));
                    return connection;
                }
                Err(error) if !is_away(&error) && !reported => {
                    reported = true;
                    let _ = lines.send(format!("{what}: not joined yet: {}", no_server(control, &error)));
                }
                Err(_) => {}
            }
            std::thread::sleep(RETURN);
        }
    }

    /// The account of a container. Its annotations precede the options.
    pub(super) fn of_container(
        &self,
        id: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let noted = |name: &str| annotations.get(&format!("dwell.{name}")).map(String::as_str);
        let weight = noted("weight").map(|text| match text.parse() {
            Ok(weight @ 1..=8) => Ok(weight),
            _ => Err(Error::Usage(format!("annotation dwell.weight={text}: the weight is 1 to 8"))),
        });
        let unknown = annotations.keys().filter_map(|name| name.strip_prefix("dwell."));
        if let Some(unknown) = { unknown }.find(|name| !ANNOTATIONS.contains(name)) {
            let known = ANNOTATIONS.map(|name| format!("dwell.{name}")).join(", ");
            return Err(Error::Usage(format!("annotation dwell.{unknown}: there are {known}")));
        }
        let own = terms(weight.transpose()?, noted("fsync-deadline"), noted("rate"))?;
        let name = noted("account").map_or_else(|| self.name.clone(), str::to_owned);
        Ok(Self {
            controls: self.controls.clone(),
            name: if name.is_empty() { id.to_owned() } else { name },
            terms: own.or(self.terms),
            of: Some(format!("container {id}")),
        })
    }

    /// Prints which devices have no server. Containers may start before there is one.
    pub(super) fn note_absent_servers(&self) {
        for control in &self.controls {
            if let Err(error) = Client::connect(control) {
                say!("{}; containers run without limits until one does", no_server(control, &error));
            }
        }
    }

    /// Prints what these terms do not do: options that the present scheduler of a device does not use, and a rate that is too low.
    pub(super) fn note_effects(&self) {
        for control in &self.controls {
            effects(control, self.terms).iter().for_each(|note| say!("{note}"));
        }
        if let Some(rate) = self.terms.rate.filter(|&rate| rate < LEAST_RATE) {
            let (rate, least) = (bytes(rate), bytes(LEAST_RATE));
            say!(
                "--rate: at {rate}/s a single call or read may wait for more than ten seconds, and other processes with it; choose {least} or more"
            );
        }
    }

    /// The account as one of several processes joins it.
    pub(super) fn of_process(&self, process: u32) -> Self {
        Self { of: Some(format!("process {process}")), ..self.clone() }
    }
}

/// Notes about the terms that the present scheduler of a device does not use.
fn effects(control: &Path, terms: AccountTerms) -> Vec<String> {
    // A server that does not answer is an error when the account is joined.
    let Ok(state) = Client::connect(control).and_then(|mut client| client.show()) else { return Vec::new() };
    let notes = without_effect(&state.scheduler, terms);
    notes.into_iter().map(|note| format!("{}: {note}", control.display())).collect()
}

/// Whether an error means that a server has ended, or has not attached its device yet.
fn is_away(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
    let kinds = [NotFound, ConnectionRefused, ConnectionReset, BrokenPipe, UnexpectedEof];
    kinds.contains(&error.kind()) || error.to_string().contains(NOT_ATTACHED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(annotations: &[(&str, &str)]) -> Result<Account, Error> {
        let options = AccountTerms { rate: Some(5_000_000), ..AccountTerms::default() };
        let account = Account { controls: Vec::new(), name: String::new(), terms: options, of: None };
        let annotations = annotations.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        account.of_container("4f2a", &annotations.collect())
    }

    #[test]
    fn a_containers_annotations_precede_the_options() {
        let plain = account(&[]).unwrap();
        assert_eq!((plain.name.as_str(), plain.terms.rate), ("4f2a", Some(5_000_000)));
        let noted = [("dwell.account", "db"), ("dwell.rate", "1M"), ("dwell.weight", "8"), ("other", "x")];
        let noted = account(&noted).unwrap();
        assert_eq!((noted.name.as_str(), noted.terms.rate), ("db", Some(1_000_000)));
        assert_eq!((noted.terms.weight, noted.terms.fsync_deadline_ns), (Some(8), None));
        for wrong in [
            ("dwell.weight", "9"),
            ("dwell.rate", "0"),
            ("dwell.fsync-deadline", "soon"),
            ("dwell.rat", "1M"),
        ] {
            assert!(account(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
