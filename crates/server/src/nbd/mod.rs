//! The NBD front end: fixed newstyle negotiation, simple and structured replies, many connections.
//!
//! | file | content |
//! |---|---|
//! | `options` | addresses, limits, paths of certificates |
//! | `listener` | sockets that are listened on, a thread each |
//! | `client_socket` | a client's socket, with a deadline |
//! | `handshakes` | clients that are negotiating: a bounded number |
//! | `greeter` | from a client's first byte to its place, in a thread for each client |
//! | `negotiation` | the options of the protocol |
//! | `places` | how many clients are served, in all and of one address |
//! | `tls` | certificates, and a thread for each encrypted connection |
//! | `front` | the front end, as the device's thread sees it |
//! | `connections`, `connection` | clients in the transmission phase |
//! | `budget` | the memory of all clients together |
//! | `stream` | the bytes of one client: a socket, or memory in the simulation |
//! | `outbox`, `zero_copy` | replies, and large ones without a copy |
//! | `memory` | clients in memory, for the simulation |
//! | `block_status` | where the export holds data |
//! | `cookie` | names of operations between a connection and the device |
//! | `protocol` | parsing and writing of the protocol's bytes, as pure functions |
//!
//! Negotiation is slow, rare, and open to clients that are not authenticated: it blocks, in threads without privileges
//! (`crate::privileges`), with deadlines, and separately from the places for clients. Transmission is fast: the device's own thread
//! receives, parses and replies, without a lock or another thread between the socket and the queue.
//!
//! Source: the [NBD protocol](https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md).

mod block_status;
mod budget;
mod client_socket;
mod connection;
mod connections;
mod cookie;
mod front;
mod greeter;
mod handshakes;
mod listener;
#[cfg(feature = "simulation")]
pub mod memory;
pub mod negotiation;
mod options;
mod outbox;
mod places;
pub mod protocol;
mod stream;
mod tls;
mod zero_copy;

pub use front::Nbd;
pub use negotiation::Export;
pub use options::{Address, NbdOptions};
pub use tls::{Acceptor, TlsFiles};
