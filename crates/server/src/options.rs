//! How a server is set up.

use crate::eviction::EvictionPolicy;
use crate::tls::TlsFiles;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// How a server is set up; [`Options::default`] works for a try on one's own machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Threads that serve clients; `None` chooses by the processor's cores.
    pub threads: Option<usize>,
    /// Clients that may be connected at once.
    pub max_clients: usize,
    /// The password that clients must give to AUTH, if any.
    pub password: Option<String>,
    /// The file with the users, if there is one: in Redis's format. Without it there is only the default user, and those
    /// that ACL SETUSER adds are gone when the server ends.
    pub acl_file: Option<PathBuf>,
    /// Certificates for clients that speak TLS, if there are any.
    pub tls: Option<TlsFiles>,
    /// Whether clients of other machines are refused while the default user needs no password.
    pub protected_mode: bool,
    /// Bytes of one reply; a command with a larger one fails. The bytes that wait for one client to read
    /// them are never many more, since a client that does not read is not served.
    pub max_reply: usize,
    /// Whether clients may use DEBUG, for tests: it can make other clients wait.
    pub debug_command: bool,
    /// Bytes of one request, and of all commands from a MULTI to its EXEC. A client that sends a
    /// larger request gets an error, and is disconnected; a larger transaction fails.
    pub max_request: usize,
    /// Microseconds from which on the slow log has a command, and the log a line of it; negative for never.
    pub slower_than: i64,
    /// Commands that the slow log keeps.
    pub slow_log_len: usize,
    /// What is deleted when the pool is full.
    pub eviction: EvictionPolicy,
    /// Seconds after which a client that sends and reads nothing is disconnected; 0 for never.
    pub timeout: u32,
    /// Seconds after which the system asks an idle client's machine whether it is still there; 0 for never.
    pub tcp_keepalive: u32,
    /// Bytes of effects that are kept for replicas, while there are any.
    pub backlog: usize,
    /// The server that is followed, if there is one: its address and port. What a client says by REPLICAOF counts more.
    pub replica_of: Option<(String, u16)>,
    /// The user's name for it, if it has users.
    pub master_user: Option<String>,
    /// The password for it.
    pub master_password: Option<String>,
    /// Whether clients may not write while another server is followed.
    pub replica_read_only: bool,
    /// Whether the followed server is spoken to by TLS: with [`tls`](Self::tls)'s certificates.
    pub tls_replication: bool,
    /// Whether MIGRATE speaks TLS to the servers that keys go to, with the same certificates.
    pub tls_cluster: bool,
    /// The address at which a followed server, and Sentinel, can reach this one, if it, or the port, is another one than it
    /// knows itself.
    pub announced_ip: Option<String>,
    /// That port.
    pub announced_port: Option<u16>,
}

/// Redis's, which finds a dead peer after some ten minutes.
pub(crate) const KEEPALIVE: u32 = 300;

/// Bytes that a replica may lack and still go on where it was: Redis's is a sixty-fourth, and Redis keeps more for each
/// replica that is connected.
pub(crate) const BACKLOG: usize = 64 << 20;

/// Defaults of the slow log: microseconds of a slow command, and commands that are kept.
pub(crate) const SLOWER_THAN: i64 = 10_000;
pub(crate) const SLOW_LOG_LEN: usize = 128;

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7379)),
            threads: None,
            max_clients: 10_000,
            password: None,
            acl_file: None,
            tls: None,
            protected_mode: true,
            max_reply: 1 << 30,
            debug_command: false,
            max_request: 1 << 30,
            slower_than: SLOWER_THAN,
            slow_log_len: SLOW_LOG_LEN,
            eviction: EvictionPolicy::NoEviction,
            timeout: 0,
            tcp_keepalive: KEEPALIVE,
            backlog: BACKLOG,
            replica_of: None,
            master_user: None,
            master_password: None,
            replica_read_only: true,
            tls_replication: false,
            tls_cluster: false,
            announced_ip: None,
            announced_port: None,
        }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens at `address`; port 0 takes a free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Serves with this many threads.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// Lets this many clients in.
    pub fn max_clients(mut self, clients: usize) -> Self {
        self.max_clients = clients;
        self
    }

    /// Asks every client for this password.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Reads users from this file, which ACL SAVE writes. The default user's password is in it, too: there must be no
    /// [`password`](Self::password).
    pub fn acl_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.acl_file = Some(path.into());
        self
    }

    /// Speaks TLS, with these certificates, at the addresses of [`Listener::bind_tls`](crate::Listener::bind_tls).
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Refuses clients of other machines, or not, while the default user needs no password.
    pub fn protected_mode(mut self, on: bool) -> Self {
        self.protected_mode = on;
        self
    }

    /// Lets a reply have this many bytes.
    pub fn max_reply(mut self, bytes: usize) -> Self {
        self.max_reply = bytes;
        self
    }

    /// Lets clients use DEBUG.
    pub fn debug_command(mut self, allowed: bool) -> Self {
        self.debug_command = allowed;
        self
    }

    /// Lets a request, or the commands of a MULTI, have this many bytes.
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.max_request = bytes;
        self
    }

    /// Has commands that take this many microseconds, or more, in the slow log; none if it is negative.
    pub fn slower_than(mut self, micros: i64) -> Self {
        self.slower_than = micros;
        self
    }

    /// Keeps this many commands in the slow log.
    pub fn slow_log_len(mut self, commands: usize) -> Self {
        self.slow_log_len = commands;
        self
    }

    /// Deletes keys by this policy when the pool is full.
    pub fn eviction(mut self, policy: EvictionPolicy) -> Self {
        self.eviction = policy;
        self
    }

    /// Disconnects clients that send and read nothing for this many seconds; none, if that is 0.
    pub fn timeout(mut self, seconds: u32) -> Self {
        self.timeout = seconds;
        self
    }

    /// Has the system ask clients' machines whether they are still there, once a connection was idle for this many
    /// seconds, and disconnects those that do not answer; does not, if that is 0.
    pub fn tcp_keepalive(mut self, seconds: u32) -> Self {
        self.tcp_keepalive = seconds;
        self
    }

    /// Follows this server, unless a client has said otherwise by REPLICAOF since the pool was made.
    pub fn replica_of(mut self, host: impl Into<String>, port: u16) -> Self {
        self.replica_of = Some((host.into(), port));
        self
    }

    /// Gives the followed server this password, and this user's name, if there is one.
    pub fn master_auth(mut self, user: Option<String>, password: impl Into<String>) -> Self {
        (self.master_user, self.master_password) = (user, Some(password.into()));
        self
    }

    /// Lets clients write while another server is followed, or not.
    pub fn replica_read_only(mut self, on: bool) -> Self {
        self.replica_read_only = on;
        self
    }

    /// Speaks TLS to the followed server, or not; the server's own certificate, and its list of those who sign, are used.
    pub fn tls_replication(mut self, on: bool) -> Self {
        self.tls_replication = on;
        self
    }

    /// Has MIGRATE speak TLS, or not, with the server's own certificate, and its list of those who sign.
    pub fn tls_cluster(mut self, on: bool) -> Self {
        self.tls_cluster = on;
        self
    }

    /// Tells the followed server that this one is reached at this address, and this port.
    pub fn announce(mut self, ip: Option<String>, port: Option<u16>) -> Self {
        (self.announced_ip, self.announced_port) = (ip, port);
        self
    }

    /// Keeps this many bytes of effects for replicas.
    pub fn backlog(mut self, bytes: usize) -> Self {
        self.backlog = bytes;
        self
    }

    pub(crate) fn worker_count(&self) -> usize {
        // More threads than this only queue for the engine's lock; and a core is left to
        // the clients, or to the network.
        const MOST: usize = 8;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(|| (cores() - 1).min(MOST)).max(1)
    }
}
