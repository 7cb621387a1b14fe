//! Errors that keep a server from starting, or end it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

/// Why a server did not start, or stopped.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address} ({source}); choose another address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The path cannot be listened at.
    #[error("cannot listen at {} ({source}); choose another path", path.display())]
    ListenUnix {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There are too many sockets to listen at.
    #[error("a server can listen at {0} addresses at most; give fewer")]
    TooMany(usize),
    /// The certificates cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// There is an address for TLS, and no certificate.
    #[error("TLS: a certificate and its key are needed; give tls-cert-file and tls-key-file")]
    NoCertificate,
    /// There is no address to listen at.
    #[error("no address to listen at was given; give one")]
    NoAddress,
    /// The pool's engine does not keep transactions apart.
    #[error(
        "the engine '{0}' does not keep transactions apart, and clients share keys: serve a pool of another engine"
    )]
    Engine(perdura::EngineKind),
    /// The pool holds something else than a keyspace of this version.
    #[error("{0}")]
    Keyspace(String),
    /// The file of users cannot be read.
    #[error("{0}")]
    Users(String),
    /// Both a file of users and a password were given.
    #[error(
        "both a password and a file of users are given: write the default user's password into the file, in its line \
         `user default on >PASSWORD ~* &* +@all`"
    )]
    TwoPasswords,
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] perdura::Error),
    /// The system refused something that every server needs.
    #[error("the system failed the server: {0}")]
    System(#[from] io::Error),
}

/// The text of `Display`, which `main` and `unwrap` print.
impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
