//! A client's socket: TCP, with TLS or without, or of the Unix domain.

use crate::tls::TlsSocket;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, Read, Write};

/// A client's socket. It never blocks.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsSocket>),
}

impl Socket {
    /// Whether bytes that were written are still to be sent.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self, Socket::Tls(tls) if tls.is_pending())
    }

    /// Whether a read may return less than there is.
    pub(crate) fn reads_parts(&self) -> bool {
        matches!(self, Socket::Tls(_))
    }

    /// Whether its peer has not yet shown that it can speak TLS.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Socket::Tls(tls) if tls.is_handshaking())
    }

    /// Says goodbye, as far as that is possible at once.
    pub(crate) fn close(&mut self) {
        if let Socket::Tls(tls) = self {
            tls.close();
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(stream) => stream,
            Socket::Unix(stream) => stream,
            Socket::Tls(tls) => tls.stream(),
        }
    }
}

impl Read for Socket {
    #[inline]
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(to),
            Socket::Unix(stream) => stream.read(to),
            Socket::Tls(tls) => tls.read(to),
        }
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Tcp(_) | Socket::Unix(_) => Ok(()),
            Socket::Tls(tls) => tls.flush(),
        }
    }
}

impl Source for Socket {
    fn register(&mut self, to: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().register(to, token, interests)
    }

    fn reregister(&mut self, to: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().reregister(to, token, interests)
    }

    fn deregister(&mut self, from: &Registry) -> io::Result<()> {
        self.source().deregister(from)
    }
}
