//! What keeps a server from starting, or ends it.

use std::io;
use std::net::SocketAddr;

/// Why a server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address} ({source}); choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// There is no address to listen at.
    #[error("no address to listen at was given; give one with --listen")]
    NoAddress,
    /// The pool holds something else than a keyspace of this version.
    #[error("{0}")]
    Keyspace(String),
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] perdura::Error),
    /// The system refused something that every server needs.
    #[error("the system failed the server: {0}")]
    System(#[from] io::Error),
}
