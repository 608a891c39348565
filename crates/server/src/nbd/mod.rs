//! The NBD front end: fixed newstyle negotiation, simple and structured replies, many connections.
//!
//! | file | what |
//! |---|---|
//! | `protocol` | the bytes, as pure functions: parsed and written, no connection in sight |
//! | `negotiation` | from a client's first byte to the transmission phase, in a thread of its own |
//! | `listener` | addresses, who may connect, TLS |
//! | `tls` | between an encrypted connection and the device's thread |
//! | `connection` | one client in the transmission phase |
//! | `connections` | all of them |
//! | `stream` | the bytes of one: a socket, or memory in the simulation |
//! | `reply` | what a connection is answered, on its way out |
//! | `shown` | large answers, which the client copies from where the disk has them |
//! | `survey` | what lies where, for block status, looked up by a thread where that may take time |
//! | `front` | all of them, as the device's thread sees them |
//!
//! Negotiation is slow, rare and open to everybody, so it blocks, in threads, under a deadline. Transmission is fast,
//! so it is done by the device's own thread, without any thread, lock or wake-up between a socket and the queue.
//!
//! Source: the [NBD protocol](https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md).

mod connection;
mod connections;
mod front;
mod listener;
mod negotiation;
pub mod protocol;
mod reply;
mod shown;
mod stream;
mod survey;
mod tls;

pub use front::{Nbd, NbdOptions};
pub use listener::Address;
pub use negotiation::Export;
pub use tls::TlsFiles;
