//! Options of the NBD front end.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::budget::Division;
use super::protocol::LONGEST_PAYLOAD;
use super::tls::{Acceptor, TlsFiles};
use crate::{ServeError, memory_limit};

/// Where to listen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A unix socket with mode 0600.
    Unix(PathBuf),
    /// A TCP port. Addresses other than loopback need TLS.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    /// `unix:/run/dwell/sdb.sock`, `tcp:127.0.0.1:10809`, `tcp:localhost:10809`.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected unix:/path or tcp:address:port, found '{text}'");
        if let Some(path) = text.strip_prefix("unix:") {
            // Linux binds a socket without a path to an abstract name, which every user may connect to.
            return if path.is_empty() { Err(expected()) } else { Ok(Self::Unix(PathBuf::from(path))) };
        }
        let address = text.strip_prefix("tcp:").ok_or_else(expected)?;
        let mut found = address.to_socket_addrs().map_err(|error| format!("{}: {error}", expected()))?;
        found.next().map(Self::Tcp).ok_or_else(expected)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// Memory of a server without clients, which a memory cgroup must permit as well, and the least for clients.
const SERVER: u64 = 64 << 20;
const CLIENTS_LEAST: u64 = 1 << 20;

/// The share of a machine's memory that clients may use.
const SHARE: u64 = 4;

/// How NBD is served.
#[derive(Clone, Debug)]
pub struct NbdOptions {
    /// Where to listen.
    pub addresses: Vec<Address>,
    /// The export's name. Clients may also use the empty name.
    pub export: String,
    /// Clients served at once through unix sockets, and as many through TCP. Clients count from the end of their negotiation on.
    pub connections: u16,
    /// Clients served at once from one IP address (of IPv6, one /64 network). `None`: three quarters of `connections`.
    pub connections_per_address: Option<u16>,
    /// A client that has no request in the device and has neither sent nor taken a byte for this long gives its place to a client that
    /// waits for one, and its memory if another client waits for that. In the device's time, which an emulated drive may run faster.
    pub idle: Duration,
    /// Memory of all clients together, in bytes: data of requests and replies, and what the kernel keeps of these. `None`: what the memory
    /// cgroup's limit leaves, or a quarter of the machine's memory.
    pub memory: Option<u64>,
    /// Servers of this process that share this memory, as those of an array's members do.
    pub servers: u64,
    /// Certificates for TLS on TCP. Addresses other than loopback need them.
    pub tls: Option<TlsFiles>,
}

impl Default for NbdOptions {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            export: String::new(),
            connections: 16,
            connections_per_address: None,
            idle: Duration::from_secs(10),
            memory: None,
            servers: 1,
            tls: None,
        }
    }
}

impl NbdOptions {
    /// Clients served at once from one address.
    pub(super) fn per_address(&self) -> usize {
        let total = usize::from(self.connections);
        self.connections_per_address.map_or((total * 3 / 4).max(1), usize::from)
    }

    /// Checks that these addresses may be served with, or without, certificates, and that the limits fit.
    ///
    /// # Errors
    /// An address needs certificates, or no address uses them; or the limit of an address is above that of all.
    pub(super) fn check(&self) -> Result<(), ServeError> {
        let wrong = |problem: String| Err(ServeError::Configuration(problem));
        let tcp = |address: &Address| matches!(address, Address::Tcp(_));
        if let Some(most) = self.connections_per_address.filter(|&most| most > self.connections) {
            return wrong(format!(
                "--connections-per-address {most} is above --connections {}, which limits all clients together: lower the first or \
                 raise the second",
                self.connections
            ));
        }
        if self.tls.is_some() && !self.addresses.iter().any(tcp) {
            // With client certificates required, a unix socket would admit clients without one.
            let problem = "TLS needs a TCP address; a unix socket admits its owner only and does not use TLS";
            return wrong(problem.to_string());
        }
        for address in &self.addresses {
            if let Address::Tcp(tcp) = address
                && !tcp.ip().is_loopback()
                && self.tls.is_none()
            {
                return wrong(format!("{address} is not a loopback address and needs TLS certificates"));
            }
        }
        Ok(())
    }

    /// How the memory of all clients is divided.
    pub(super) fn division(&self) -> Division {
        let memory =
            self.memory.unwrap_or_else(|| clients_memory(memory_limit::own(), memory_limit::machine()));
        Division::new(memory / self.servers.max(1), self.clients())
    }

    /// Clients served at once of both kinds.
    fn clients(&self) -> usize {
        let is_tcp = |address: &Address| matches!(address, Address::Tcp(_));
        let has = |tcp| self.addresses.iter().any(|address| is_tcp(address) == tcp);
        usize::from(self.connections) * [true, false].into_iter().filter(|&tcp| has(tcp)).count().max(1)
    }

    /// What a limit of memory changes for clients, if they notice it.
    pub(crate) fn memory_notice(&self) -> Option<String> {
        let division = self.division();
        (division.longest() < LONGEST_PAYLOAD).then(|| {
            let (own, common, longest) = (division.own >> 10, division.common >> 20, division.longest() >> 20);
            format!(
                "NBD clients share {common} MiB of memory, beside {own} KiB for each of {}: requests above {longest} MiB are refused. The \
                 memory cgroup of the server, or --client-memory, limits them; fewer --connections leave more to each",
                self.clients()
            )
        })
    }

    /// Checks the certificates, and keeps them for servers of this process if it becomes a supervisor.
    ///
    /// # Errors
    /// A file cannot be read or does not fit the others.
    pub fn check_certificates(&self) -> Result<(), ServeError> {
        self.tls.clone().map_or(Ok(()), |files| Acceptor::load(files).map(drop))
    }

    /// The clients that an address admits without authentication, if any.
    pub(super) fn open_to(&self, address: &Address) -> Option<&'static str> {
        let verifies = self.tls.as_ref().is_some_and(|files| files.client_authorities.is_some());
        match address {
            Address::Tcp(tcp) if !verifies && tcp.ip().is_loopback() => Some("every user of this machine"),
            Address::Tcp(_) if !verifies => Some("every host that reaches it"),
            Address::Tcp(_) | Address::Unix(_) => None,
        }
    }
}

/// Memory of all clients under the limit of a memory cgroup, on a machine with `machine` bytes. A server of an attached device has a second one
/// beside it that is ready to take over, so half of what a limit leaves is not given to clients.
fn clients_memory(limit: Option<u64>, machine: u64) -> u64 {
    let share = machine / SHARE;
    limit.map_or(share, |limit| {
        (limit.saturating_sub(SERVER) / 2).max(limit / 16).max(CLIENTS_LEAST).min(share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_memory_cgroup_leaves_clients_less_and_they_are_informed() {
        let unix = Address::Unix("socket".into());
        let with = |mib: u64| NbdOptions {
            addresses: vec![unix.clone()],
            memory: Some(mib << 20),
            ..NbdOptions::default()
        };
        assert_eq!(with(4096).memory_notice(), None);
        let notice = with(16).memory_notice().unwrap();
        for part in ["share 8 MiB", "256 KiB for each of 16", "above 8 MiB"] {
            assert!(notice.contains(part), "{notice}");
        }
        let machine = 8 << 30;
        assert_eq!(clients_memory(None, machine), 2 << 30);
        assert_eq!(clients_memory(Some(128 << 20), machine), 32 << 20);
        assert_eq!(clients_memory(Some(64 << 20), machine), 4 << 20);
        assert_eq!(clients_memory(Some(1 << 20), machine), 1 << 20);
    }

    /// As for the members of an array, each of which has a server.
    #[test]
    fn servers_of_one_program_share_the_memory() {
        let of = |memory: u64, servers| {
            NbdOptions { memory: Some(memory << 20), servers, ..options("unix:/run/a") }.division()
        };
        assert_eq!(of(64, 4), of(16, 1));
        assert_ne!(of(64, 4), of(64, 1));
    }

    #[test]
    fn an_address_is_parsed_and_printed_in_the_same_form() {
        for text in ["unix:/run/dwell/a.sock", "tcp:127.0.0.1:10809"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for wrong in ["", "unix:", "127.0.0.1:10809", "tcp:127.0.0.1", "udp:127.0.0.1:1"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }

    fn options(address: &str) -> NbdOptions {
        NbdOptions { addresses: vec![address.parse().unwrap()], ..NbdOptions::default() }
    }

    fn files(client_authorities: bool) -> Option<TlsFiles> {
        let path = || PathBuf::from("/nonexistent/key");
        let client_authorities = client_authorities.then(path);
        Some(TlsFiles { certificates: path(), key: path(), client_authorities })
    }

    #[test]
    fn only_loopback_is_served_without_tls() {
        options("tcp:127.0.0.1:10809").check().unwrap();
        options("tcp:[::1]:10809").check().unwrap();
        for open in ["tcp:0.0.0.0:10809", "tcp:192.0.2.1:10809", "tcp:[::]:10809"] {
            assert!(options(open).check().unwrap_err().to_string().contains("TLS"), "{open}");
            NbdOptions { tls: files(false), ..options(open) }.check().unwrap();
        }
    }

    #[test]
    fn tls_without_a_tcp_address_is_an_error() {
        let problem =
            NbdOptions { tls: files(true), ..options("unix:/run/a") }.check().unwrap_err().to_string();
        assert!(problem.contains("TCP"), "{problem}");
    }

    #[test]
    fn certificates_that_cannot_be_read_are_an_error() {
        let with = |tls| NbdOptions { tls, ..options("tcp:127.0.0.1:1") }.check_certificates();
        with(None).unwrap();
        assert!(with(files(false)).unwrap_err().to_string().contains("/nonexistent/key"));
    }

    #[test]
    fn addresses_without_client_authentication_are_known() {
        let open_to = |address: &str, tls| {
            let options = NbdOptions { tls, ..options(address) };
            options.open_to(&options.addresses[0])
        };
        assert_eq!(open_to("unix:/run/a", None), None);
        assert_eq!(open_to("tcp:127.0.0.1:1", None), Some("every user of this machine"));
        assert_eq!(open_to("tcp:[::1]:1", files(false)), Some("every user of this machine"));
        assert_eq!(open_to("tcp:0.0.0.0:1", files(false)), Some("every host that reaches it"));
        assert_eq!(open_to("tcp:0.0.0.0:1", files(true)), None);
    }

    #[test]
    fn one_address_has_three_quarters_of_the_places_unless_configured() {
        let per_address = |connections, connections_per_address| {
            NbdOptions { connections, connections_per_address, ..NbdOptions::default() }.per_address()
        };
        assert_eq!([1, 2, 3, 4, 16].map(|total| per_address(total, None)), [1, 1, 2, 3, 12]);
        assert_eq!(per_address(16, Some(16)), 16);
    }

    #[test]
    fn the_limit_of_an_address_is_not_above_that_of_all() {
        let check = |most| {
            let limits =
                NbdOptions { connections: 16, connections_per_address: Some(most), ..options("unix:/run/a") };
            limits.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(16), Ok(()));
        let problem = check(17).unwrap_err();
        assert!(problem.contains("--connections-per-address 17 is above --connections 16"), "{problem}");
    }
}
