//! A connection between servers, plain or with TLS: it blocks, and one thread may read while another one writes.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes that are read from a socket at a time, with TLS.
const PIECE: usize = 16 << 10;

/// A connection.
pub(crate) struct Wire {
    socket: TcpStream,
    session: Option<Connection>,
}

/// The half of it that reads.
pub(crate) struct WireReader {
    socket: TcpStream,
    session: Option<Arc<Mutex<Connection>>>,
    /// What the socket has had, and the session has not.
    bytes: Vec<u8>,
    taken: usize,
}

/// The half of it that writes, and that alone writes to the socket.
pub(crate) struct WireWriter {
    socket: TcpStream,
    session: Option<Arc<Mutex<Connection>>>,
    /// What the session has made, and the socket has not.
    bytes: Vec<u8>,
    sent: usize,
}

fn lock(session: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an error only says that nothing has come, or that there is no room, within the time.
pub(super) fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Wire {
    pub(crate) fn plain(socket: TcpStream) -> Self {
        Wire { socket, session: None }
    }

    /// With a session, whose handshake is over.
    pub(crate) fn secured(socket: TcpStream, session: Connection) -> Self {
        Wire { socket, session: Some(session) }
    }

    /// Speaks TLS to the server at the other end, which has this name, until their handshake is over. The socket has a timeout,
    /// after which it is looked whether this is still `wanted`.
    ///
    /// # Errors
    /// When the server is not the right one, or no server of this kind; when the time is over.
    pub(super) fn secure(
        mut socket: TcpStream,
        config: Arc<ClientConfig>,
        host: &str,
        until: Instant,
        wanted: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            // It is no name of the DNS, and is not looked at.
            Err(_) => ServerName::IpAddress(socket.peer_addr()?.ip().into()),
        };
        let invalid = |error: rustls::Error| io::Error::new(ErrorKind::InvalidData, error);
        let mut session = ClientConnection::new(config, name).map_err(invalid)?;
        while session.is_handshaking() || session.wants_write() {
            // Also of one that says a little now and then.
            if !wanted() || Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            while session.wants_write() {
                session.write_tls(&mut socket)?;
            }
            if !session.is_handshaking() {
                break;
            }
            match session.read_tls(&mut socket) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if is_wait(&error) => continue,
                Err(error) => return Err(error),
            }
            if let Err(error) = session.process_new_packets() {
                // The alert that says what is wrong; the peer may be gone.
                let _ = session.write_tls(&mut socket);
                return Err(invalid(error));
            }
        }
        Ok(Wire { socket, session: Some(session.into()) })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Its two halves.
    ///
    /// # Errors
    /// When the system has no descriptor for another handle of the socket.
    pub(super) fn split(self) -> io::Result<(WireReader, WireWriter)> {
        let (again, session) =
            (self.socket.try_clone()?, self.session.map(Mutex::new).map(Arc::new));
        let reader =
            WireReader { socket: again, session: session.clone(), bytes: Vec::new(), taken: 0 };
        Ok((reader, WireWriter { socket: self.socket, session, bytes: Vec::new(), sent: 0 }))
    }
}

impl Read for WireReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &self.session else { return self.socket.read(to) };
        loop {
            {
                let mut session = lock(session);
                match session.reader().read(to) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // One that ends without saying so only ends.
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                    read => return read,
                }
                if self.taken < self.bytes.len() {
                    self.taken += session.read_tls(&mut &self.bytes[self.taken..])?;
                    session
                        .process_new_packets()
                        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                    continue;
                }
            }
            self.bytes.resize(PIECE, 0);
            let read = self.socket.read(&mut self.bytes);
            self.taken = 0;
            self.bytes.truncate(*read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Ok(0);
            }
        }
    }
}

impl Write for WireWriter {
    /// As of a socket with a timeout. Bytes that were taken may still be here: [`flush`](Write::flush) sends them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &self.session else { return self.socket.write(bytes) };
        let session = Arc::clone(session);
        self.flush()?;
        let taken = lock(&session).writer().write(bytes)?;
        match self.flush() {
            Err(error) if !is_wait(&error) => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        {
            let mut session = lock(session);
            while session.wants_write() {
                session.write_tls(&mut self.bytes)?;
            }
        }
        while self.sent < self.bytes.len() {
            match self.socket.write(&self.bytes[self.sent..])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                sent => self.sent += sent,
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::RootCertStore;
    use rustls::crypto::ring;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    /// A byte now and then is no handshake.
    #[test]
    fn a_slow_handshake_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let trickling = thread::spawn(move || {
            let mut peer = listener.accept().unwrap().0;
            // The beginning of a long record.
            peer.write_all(&[22, 3, 3, 0x40, 0]).unwrap();
            for _ in 0..300 {
                thread::sleep(Duration::from_millis(10));
                if peer.write_all(&[0]).is_err() {
                    return;
                }
            }
        });
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let start = Instant::now();
        let until = start + Duration::from_millis(300);
        let error = Wire::secure(socket, Arc::new(config), "host", until, &|| true).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        trickling.join().unwrap();
    }
}
