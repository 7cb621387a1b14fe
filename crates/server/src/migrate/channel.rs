//! The bytes' way to a target: a socket with time-outs, plain or with TLS.
//!
//! Each call touches the socket a few times at most, however slowly the target speaks: the caller looks at the clock
//! between two calls.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

pub(super) enum Channel {
    Plain(TcpStream),
    Secure(TcpStream, Box<ClientConnection>),
}

impl Channel {
    /// Over TLS. The name of a target's certificate is not looked at, so any will do that TLS can write down.
    pub(super) fn secure(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        host: &str,
    ) -> io::Result<Self> {
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            Err(_) => ServerName::IpAddress(socket.peer_addr()?.ip().into()),
        };
        let session = ClientConnection::new(config, name).map_err(invalid)?;
        Ok(Channel::Secure(socket, Box::new(session)))
    }

    /// A step towards a connection on which commands can be sent. Returns whether it is one.
    pub(super) fn settle(&mut self) -> io::Result<bool> {
        let Channel::Secure(socket, session) = self else { return Ok(true) };
        if session.wants_write() {
            session.write_tls(socket)?;
        } else if session.is_handshaking() {
            receive(socket, session)?;
        }
        Ok(!session.is_handshaking() && !session.wants_write())
    }

    /// A step towards all bytes being in the socket that were written. Returns whether they are.
    pub(super) fn flush_some(&mut self) -> io::Result<bool> {
        let Channel::Secure(socket, session) = self else { return Ok(true) };
        if session.wants_write() {
            session.write_tls(socket)?;
        }
        Ok(!session.wants_write())
    }

    /// Takes some of these bytes. `WouldBlock`: none yet.
    pub(super) fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush_some()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        match self {
            Channel::Plain(socket) => socket.write(bytes),
            Channel::Secure(_, session) => session.writer().write(bytes),
        }
    }

    /// Reads what has come; none at the end. `WouldBlock`: nothing yet.
    pub(super) fn read_some(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let (socket, session) = match self {
            Channel::Plain(socket) => return socket.read(to),
            Channel::Secure(socket, session) => (socket, session),
        };
        match session.reader().read(to) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // A target that ends without saying so could have been cut off: it has only ended.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            read => return read,
        }
        if session.wants_write() {
            session.write_tls(socket)?;
        }
        receive(socket, session)?;
        Err(ErrorKind::WouldBlock.into())
    }
}

/// Gives the session what has come.
fn receive(socket: &mut TcpStream, session: &mut ClientConnection) -> io::Result<()> {
    let read = session.read_tls(socket)?;
    if let Err(error) = session.process_new_packets() {
        // The alert that says what is wrong; the target may be gone.
        let _ = session.write_tls(socket);
        return Err(invalid(error));
    }
    match read == 0 && session.is_handshaking() {
        true => Err(ErrorKind::UnexpectedEof.into()),
        false => Ok(()),
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
