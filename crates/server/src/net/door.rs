//! Sockets that listen: TCP, with TLS or without, and of the Unix domain.

use super::socket::Socket;
use crate::listing::Peer;
use crate::tls::{Tls, TlsSocket};
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A socket that listens.
pub(crate) enum Door {
    Tcp(TcpListener),
    Tls(TcpListener),
    Unix(UnixDoor),
}

/// A socket of the Unix domain, whose file is gone when it is dropped.
pub(crate) struct UnixDoor {
    listener: UnixListener,
    path: PathBuf,
    name: Arc<str>,
}

impl Drop for UnixDoor {
    fn drop(&mut self) {
        // A file that is left is removed by the next server that listens there.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl UnixDoor {
    /// Listens at a path; a socket that is there, and at which nobody listens, is replaced.
    pub(crate) fn bind(path: &Path, mode: Option<u32>) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                let refused = StdUnixStream::connect(path).err();
                if refused.is_none_or(|error| error.kind() != ErrorKind::ConnectionRefused) {
                    return Err(ErrorKind::AddrInUse.into());
                }
                std::fs::remove_file(path)?;
            }
            Ok(_) => {
                let text = "there is a file that is no socket";
                return Err(io::Error::new(ErrorKind::AlreadyExists, text));
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        let (path, name) = (path.to_owned(), path.display().to_string().into());
        let door = UnixDoor { listener, path, name };
        if let Some(mode) = mode {
            std::fs::set_permissions(&door.path, PermissionsExt::from_mode(mode))?;
        }
        Ok(door)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// A client at the door: its socket, its address, and the server's.
pub(crate) struct Guest {
    pub(crate) socket: Socket,
    pub(crate) peer: Peer,
    pub(crate) local: Peer,
}

impl Door {
    /// Its address, if it has one in the network.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Door::Tcp(listener) | Door::Tls(listener) => listener.local_addr().ok(),
            Door::Unix(_) => None,
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Door::Tcp(listener) | Door::Tls(listener) => listener,
            Door::Unix(door) => &mut door.listener,
        }
    }

    /// The next client that wants to come in.
    pub(crate) fn accept(&self, tls: Option<&Tls>) -> io::Result<Guest> {
        match self {
            Door::Tcp(listener) | Door::Tls(listener) => {
                let (stream, peer) = listener.accept()?;
                // Without it replies are late; not a reason to refuse.
                let _ = stream.set_nodelay(true);
                let local = stream.local_addr().unwrap_or(peer);
                let socket = match (self, tls) {
                    (Door::Tls(_), Some(tls)) => match TlsSocket::new(stream, tls.config()) {
                        Ok(socket) => Socket::Tls(Box::new(socket)),
                        Err(_) => return Err(ErrorKind::ConnectionAborted.into()),
                    },
                    (Door::Tls(_), None) => return Err(ErrorKind::ConnectionAborted.into()),
                    _ => Socket::Tcp(stream),
                };
                Ok(Guest { socket, peer: peer.into(), local: local.into() })
            }
            Door::Unix(door) => {
                let (stream, _) = door.listener.accept()?;
                let peer = Peer::Unix(Arc::clone(&door.name));
                Ok(Guest { socket: Socket::Unix(stream), local: peer.clone(), peer })
            }
        }
    }
}
