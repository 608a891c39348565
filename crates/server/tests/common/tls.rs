//! An NBD client over TCP, with and without TLS.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::{Nbd, READ};

/// Certificates that the tests have.
pub fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates")
}

/// A TCP connection from an address of the loopback network, before any negotiation.
pub fn tcp_from(last: u8, port: u16) -> io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), 0))?;
    connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    Ok(stream)
}

/// A client in the transmission phase, with simple replies.
pub struct Remote<S> {
    pub stream: S,
}

pub type Plain = Remote<TcpStream>;
pub type Encrypted = Remote<StreamOwned<ClientConnection, TcpStream>>;

impl Plain {
    pub fn connect_from(last: u8, port: u16) -> io::Result<Self> {
        let mut stream = tcp_from(last, port)?;
        greet(&mut stream)?;
        go(&mut stream)?;
        Ok(Self { stream })
    }
}

impl Encrypted {
    /// Connects with the certificate of that name, or without one.
    pub fn connect(port: u16, certificate: Option<&str>) -> io::Result<Self> {
        let mut tcp = tcp_from(1, port)?;
        greet(&mut tcp)?;
        // NBD_OPT_STARTTLS.
        if let (kind, data) = option(&mut tcp, 5, b"")?
            && kind != 1
        {
            return Err(io::Error::other(format!("STARTTLS: {kind:#x} {data:?}")));
        }
        let connection =
            ClientConnection::new(config(certificate), ServerName::try_from("localhost").unwrap());
        let mut stream = StreamOwned::new(connection.map_err(io::Error::other)?, tcp);
        go(&mut stream)?;
        Ok(Self { stream })
    }

    /// The certificate that the server has shown.
    pub fn server_certificate(&self) -> CertificateDer<'static> {
        self.stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

impl<S: Read + Write> Remote<S> {
    /// Reads the first sector.
    pub fn read_sector(&mut self) -> io::Result<()> {
        self.stream.write_all(&Nbd::header(0, READ, 1, 0, 512))?;
        let mut reply = [0; 16 + 512];
        self.stream.read_exact(&mut reply)?;
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "a simple reply without error");
        Ok(())
    }
}

fn config(certificate: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(read_certificate("ca")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match certificate {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(certificates().join(format!("{name}-key.pem"))).unwrap();
            builder.with_client_auth_cert(vec![read_certificate(name)], key).unwrap()
        }
    })
}

pub fn read_certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(certificates().join(format!("{name}-cert.pem"))).unwrap()
}

fn greet(stream: &mut (impl Read + Write)) -> io::Result<()> {
    stream.read_exact(&mut [0; 18])?;
    stream.write_all(&3u32.to_be_bytes())
}

/// Chooses the export.
fn go(stream: &mut (impl Read + Write)) -> io::Result<()> {
    // NBD_OPT_GO with the empty name and no information requests. NBD_REP_INFO precedes NBD_REP_ACK.
    let mut reply = option(stream, 7, &[0; 6])?;
    while reply.0 == 3 {
        reply = option_reply(stream)?;
    }
    match reply {
        (1, _) => Ok(()),
        (kind, text) => Err(io::Error::other(format!("GO: {kind:#x} {}", String::from_utf8_lossy(&text)))),
    }
}

fn option(stream: &mut (impl Read + Write), number: u32, data: &[u8]) -> io::Result<(u32, Vec<u8>)> {
    let length = data.len() as u32;
    stream.write_all(&[b"IHAVEOPT", &number.to_be_bytes()[..], &length.to_be_bytes(), data].concat())?;
    option_reply(stream)
}

fn option_reply(stream: &mut impl Read) -> io::Result<(u32, Vec<u8>)> {
    let mut header = [0; 20];
    stream.read_exact(&mut header)?;
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
    let mut data = vec![0; number(16) as usize];
    stream.read_exact(&mut data)?;
    Ok((number(12), data))
}
