//! `perdura serve`: the Redis protocol on a pool. Its options are in [`Arguments`] alone: the keys of the configuration
//! file (`config`) follow from them.

mod config;

use crate::domain::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::output::print;
use crate::quantity::{self, show_bytes};
use clap::ArgAction;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser as _};
use perdura::{EngineKind, Info, Pool, Recovery, roots};
use perdura_memory::mapped::record::{Faults, Recorder};
use perdura_server::transfer::is_keyspace;
use perdura_server::{
    ClientCertificates, EvictionPolicy, Listener, LogFormat, LogLevel, Options, ServeError, Server,
    TlsFiles, check_files, log_warning, start_logging,
};
use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The arguments of `serve`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Read options from this TOML file, whose keys are the options' names (max-clients = 100).
    /// Options on the command line override the file's
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The pool's file; it is created if it is not there
    #[arg(long, value_name = "FILE", default_value = "perdura.pool")]
    pool: PathBuf,

    /// Bytes that the pool may grow to. A new pool's file has its log and its page table at first, 81M
    /// for 1G and 19M for 128M. For an existing pool the size holds for this run only, and may be up to
    /// four times its own [default: the pool's own, 1G for a new one]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    size: Option<u64>,

    #[arg(long, help = format!(
        "Engine: one of {} [default: the pool's own, redo for a new one]", EngineKind::NAMES
    ), value_name = "ENGINE")]
    engine: Option<EngineKind>,

    /// Keep checksums of all pages of a new pool, so that damage by the medium is noticed when it is read
    #[arg(long, value_name = "true|false", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = false, hide_default_value = true, hide_possible_values = true)]
    checksums: bool,

    /// Persistence domain: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Address or host name, and port, to listen at, or several, separated by commas; port 0 takes a free one. If a
    /// name has several addresses, the first that works. `off` for none: clients use TLS or a socket
    #[arg(long, value_name = "ADDRESSES", default_value = "127.0.0.1:7379")]
    listen: Listen,

    /// Path of a socket of the Unix domain to listen at, too
    #[arg(long, value_name = "PATH")]
    unixsocket: Option<PathBuf>,

    /// Permissions of that socket's file, in octal digits [default: as the process's mask says]
    #[arg(long, value_name = "MODE")]
    unixsocketperm: Option<Mode>,

    /// Refuse clients of other machines as long as the default user needs no password
    #[arg(long, value_name = "yes|no", default_value = "yes")]
    protected_mode: YesNo,

    /// Port to listen at for clients that speak TLS, at the addresses of --listen; or addresses and ports. Needs
    /// --tls-cert-file and --tls-key-file
    #[arg(long, value_name = "PORT")]
    tls_port: Option<TlsListen>,

    /// File with the server's certificate for TLS, in PEM, and those that lead to its root
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,

    /// File with the private key of that certificate, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<PathBuf>,

    /// File with the certificates, in PEM, by which clients' certificates are signed
    #[arg(long, value_name = "FILE")]
    tls_ca_cert_file: Option<PathBuf>,

    /// Whether clients that speak TLS must have a certificate
    #[arg(long, value_name = "yes|optional|no", default_value_t = ClientCertificates::default().name().to_owned(),
        value_parser = PossibleValuesParser::new(ClientCertificates::NAMES))]
    tls_auth_clients: String,

    /// Threads that serve clients [default: one for each core but one; at most 8]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Clients that may be connected at once
    #[arg(long, alias = "maxclients", value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_clients: u32,

    /// Most bytes of one reply, which is kept until its client has read it; a command with a larger
    /// one fails. While a client has more than 1M to read, its next commands wait
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = quantity::bytes)]
    max_reply: u64,

    /// Most bytes of one request, and of all commands from a MULTI to its EXEC. A client with a larger
    /// request is disconnected; a larger transaction fails
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = quantity::bytes)]
    max_request: u64,

    /// Password that clients must give to AUTH. Other users of this machine can see it in the list of
    /// processes: use --requirepass-file or the environment variable PERDURA_PASSWORD instead
    #[arg(long, value_name = "PASSWORD", value_parser = NonEmptyStringValueParser::new(), overrides_with = "requirepass_file")]
    requirepass: Option<String>,

    /// File with the password, in one line. The last one given of this and --requirepass counts, and
    /// overrides PERDURA_PASSWORD
    #[arg(long, value_name = "FILE", overrides_with = "requirepass")]
    requirepass_file: Option<PathBuf>,

    /// File with the users, in Redis's format, which ACL SAVE writes. The default user's password is in it, too: there
    /// must be no --requirepass
    #[arg(long, value_name = "FILE")]
    aclfile: Option<PathBuf>,

    /// Serve metrics for Prometheus over HTTP at this address, under /metrics. They need no password:
    /// choose an address that only monitors reach
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<Addresses>,

    /// Log events of this level, and more serious ones, to the standard error
    #[arg(long, value_name = "LEVEL", default_value_t = LogLevel::default(),
        value_parser = PossibleValuesParser::new(LogLevel::NAMES).try_map(|name| name.parse::<LogLevel>()))]
    log_level: LogLevel,

    /// Form of the log's lines
    #[arg(long, value_name = "FORMAT", default_value_t = LogFormat::default(),
        value_parser = PossibleValuesParser::new(LogFormat::NAMES).try_map(|name| name.parse::<LogFormat>()))]
    log_format: LogFormat,

    /// Note commands that take this many microseconds or more in SLOWLOG and in the log; -1 for none
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 10_000, allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(-1..))]
    slowlog_log_slower_than: i64,

    /// Commands that SLOWLOG keeps
    #[arg(long, value_name = "NUMBER", default_value_t = 128)]
    slowlog_max_len: u32,

    /// When the pool is full, delete keys by this policy, in place of refusing commands
    #[arg(long, value_name = "POLICY", default_value_t = EvictionPolicy::default(),
        value_parser = PossibleValuesParser::new(EvictionPolicy::NAMES).try_map(|name| name.parse::<EvictionPolicy>()))]
    maxmemory_policy: EvictionPolicy,

    /// Disconnect clients that have sent and read nothing for this many seconds; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    timeout: u32,

    /// After this many seconds without traffic, have the system ask a client's machine whether it is still
    /// there, and disconnect the client if there is no answer; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    tcp_keepalive: u32,

    /// Bytes of changes that are kept for replicas, while there are any: one that was away goes on from there
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = quantity::bytes)]
    repl_backlog_size: u64,

    /// Follow this server, a Redis, a Valkey or another one of this kind: its address or host name, and its port. The
    /// data is replaced by that one's. What a client has said by REPLICAOF counts more
    #[arg(long, value_name = "HOST PORT")]
    replicaof: Option<Master>,

    /// The user for the server that is followed, if it has users
    #[arg(long, value_name = "NAME")]
    masteruser: Option<String>,

    /// The password for the server that is followed. Other users of this machine can see it in the list of processes: the
    /// file of --config can have it
    #[arg(long, value_name = "PASSWORD")]
    masterauth: Option<String>,

    /// Refuse commands that write while another server is followed
    #[arg(long, value_name = "yes|no", default_value = "yes")]
    replica_read_only: YesNo,

    /// Speak TLS to the server that is followed: with the files of --tls-cert-file, --tls-key-file and --tls-ca-cert-file
    #[arg(long, value_name = "yes|no", default_value = "no")]
    tls_replication: YesNo,

    /// Have MIGRATE speak TLS to the server that keys go to: with the same files
    #[arg(long, value_name = "yes|no", default_value = "no")]
    tls_cluster: YesNo,

    /// The address at which the server that is followed, and Sentinel, can reach this one [default: as it is seen]
    #[arg(long, value_name = "ADDRESS")]
    replica_announce_ip: Option<String>,

    /// The port at which they can reach this one [default: the one that it listens at]
    #[arg(long, value_name = "PORT")]
    replica_announce_port: Option<u16>,

    /// Let clients use DEBUG, for tests; DEBUG SLEEP keeps other clients waiting
    #[arg(long, value_name = "true|false", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = false, hide_default_value = true, hide_possible_values = true)]
    debug_command: bool,

    /// Open the pool even if transactions outlive less here than it requires
    #[arg(long, value_name = "true|false", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = false, hide_default_value = true, hide_possible_values = true)]
    accept_weaker: bool,

    /// Open the pool even if it was left by an engine without crash consistency
    #[arg(long, value_name = "true|false", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = false, hide_default_value = true, hide_possible_values = true)]
    force: bool,

    /// For crash tests: appends what is done to the pool's file to this trace; domain media only
    #[arg(long, value_name = "TRACE", hide_short_help = true)]
    record_writes: Option<PathBuf>,

    /// For crash tests: the process kills itself after this many records of the trace
    #[arg(long, value_name = "NUMBER", hide_short_help = true, requires = "record_writes")]
    stop_after: Option<u64>,

    /// For crash tests: this sync of the file, counted from 1, is not done and fails
    #[arg(long, value_name = "NUMBER", hide_short_help = true, requires = "record_writes")]
    fail_sync: Option<u64>,
}

/// The socket addresses of an address or a host name.
#[derive(Clone, Debug)]
struct Addresses(Vec<SocketAddr>);

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = text.to_socket_addrs().map_err(|error| {
            format!("{error}; write an address or a host name, and a port: localhost:7379")
        })?;
        Ok(Addresses(found.collect()))
    }
}

/// The addresses to listen at, each of which may have several to choose from.
#[derive(Clone, Debug)]
struct Listen(Vec<Addresses>);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Listen(Vec::new())),
            _ => {
                text.split(',').map(|one| one.trim().parse()).collect::<Result<_, _>>().map(Listen)
            }
        }
    }
}

/// Where to listen for clients that speak TLS.
#[derive(Clone, Debug)]
enum TlsListen {
    /// At this port of the other addresses.
    Port(u16),
    At(Listen),
}

impl FromStr for TlsListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(port) => Ok(TlsListen::Port(port)),
            Err(_) => text.parse().map(TlsListen::At),
        }
    }
}

/// The server that is followed.
#[derive(Clone, Debug)]
struct Master {
    host: String,
    port: u16,
}

impl FromStr for Master {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) =
            text.trim().rsplit_once([' ', ':']).ok_or("write the host and the port")?;
        let port = port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or("the port is not a number from 1 to 65535")?;
        let host = host.trim().trim_start_matches('[').trim_end_matches(']');
        match host.is_empty() || host.len() > 255 {
            true => Err("write the host and the port".to_owned()),
            false => Ok(Master { host: host.to_owned(), port }),
        }
    }
}

/// Permissions, in octal digits.
#[derive(Clone, Copy, Debug)]
struct Mode(u32);

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        let wrong = || format!("'{text}' is not permissions in octal digits, such as 770");
        mode.map(Mode).ok_or_else(wrong)
    }
}

/// A choice in Redis's words.
#[derive(Clone, Copy, Debug)]
struct YesNo(bool);

impl FromStr for YesNo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "yes" => Ok(YesNo(true)),
            "no" => Ok(YesNo(false)),
            _ => Err(format!("'{text}' is neither yes nor no")),
        }
    }
}

/// Names that are listed of a program's collections.
const MOST_NAMES: usize = 5;
/// Bytes of a file with a password.
const MOST_PASSWORD: u64 = 64 << 10;

/// Serves until a signal ends it.
///
/// # Errors
/// Why it could not start, or had to end.
pub fn run(line: &Arguments) -> Outcome {
    let read;
    let arguments = match &line.config {
        Some(path) => {
            let given = std::env::args_os().skip_while(|word| word != "serve").skip(1);
            read = config::merged(path, given)?;
            &read
        }
        None => line,
    };
    let password = password(line, arguments)?;
    start_logging(arguments.log_level, arguments.log_format);
    // Before the pool is made: a server that cannot start leaves none behind.
    let options = options(arguments, password);
    check_files(&options)?;
    let listener = listen_everywhere(arguments)?;
    let metrics = arguments.metrics.as_ref().map(|at| listen(at, "--metrics")).transpose()?;
    let is_new = !arguments.pool.exists();
    let pool = open(arguments)?;
    let mut server = Server::with(&pool, listener, options)?;
    if let Some(metrics) = metrics {
        server = server.metrics(metrics);
    }
    describe(&pool.info(), pool.recovery(), if is_new { None } else { arguments.size })?;
    describe_contents(&pool, is_new)?;
    for address in server.tls_addrs() {
        print(format!("TLS at {address}"))?;
    }
    if let Some(path) = &arguments.unixsocket {
        print(format!("socket at {}", path.display()))?;
    }
    let at = match (arguments.listen.0.is_empty(), &arguments.unixsocket) {
        (true, Some(path)) if arguments.tls_port.is_none() => path.display().to_string(),
        _ => server.local_addr().to_string(),
    };
    let ready = format!("ready at {at}; Ctrl-C ends it");
    perdura_server::serve(pool, server, || print(ready))?;
    print("closed")
}

fn listen(at: &Addresses, flag: &str) -> Outcome<Listener> {
    named(Listener::bind(&at.0), flag)
}

/// An error of listening, with the option that says where.
fn named(listener: Result<Listener, ServeError>, flag: &str) -> Outcome<Listener> {
    listener.map_err(|error| match error {
        ServeError::Listen { .. } | ServeError::ListenUnix { .. } | ServeError::NoAddress => {
            Failure::new(format!("{error} with `{flag}`"))
        }
        other => other.into(),
    })
}

/// Listens at all addresses that the options name.
fn listen_everywhere(arguments: &Arguments) -> Outcome<Listener> {
    let mut all: Vec<Listener> = Vec::new();
    for at in &arguments.listen.0 {
        all.push(listen(at, "--listen")?);
    }
    let with_port = |port: u16| -> Vec<Addresses> {
        let others = all.iter().filter_map(|one| one.local_addr().ok());
        others.map(|other| Addresses(vec![SocketAddr::new(other.ip(), port)])).collect()
    };
    let secure = match &arguments.tls_port {
        None => Vec::new(),
        Some(TlsListen::Port(port)) => with_port(*port),
        Some(TlsListen::At(Listen(addresses))) => addresses.clone(),
    };
    if arguments.tls_port.is_some() && secure.is_empty() {
        let text = "there is no address for `--tls-port`: give it with its port, 0.0.0.0:7380";
        return Err(Failure::new(text));
    }
    for at in &secure {
        all.push(named(Listener::bind_tls(&at.0), "--tls-port")?);
    }
    if let Some(path) = &arguments.unixsocket {
        all.push(named(
            Listener::bind_unix(path, arguments.unixsocketperm.map(|mode| mode.0)),
            "--unixsocket",
        )?);
    }
    let mut all = all.into_iter();
    let Some(first) = all.next() else {
        let text = "there is nothing to listen at: with `--listen off` give `--tls-port` or `--unixsocket`";
        return Err(Failure::new(text));
    };
    Ok(all.try_fold(first, Listener::and)?)
}

fn open(arguments: &Arguments) -> Outcome<Pool> {
    let mut options = perdura::Options::new()
        .domain(arguments.domain.0)
        .checksums(arguments.checksums)
        .accept_weaker(arguments.accept_weaker)
        .force(arguments.force);
    if let Some(engine) = arguments.engine {
        // Before a pool is made for it.
        if !engine.isolates() {
            return Err(ServeError::Engine(engine).into());
        }
        options = options.engine(engine);
    }
    if let Some(bytes) = arguments.size {
        options = options.size(bytes);
    }
    if let Some(trace) = &arguments.record_writes {
        let Arguments { stop_after, fail_sync, .. } = *arguments;
        let recorder = Recorder::append_to(trace, Faults { stop_after, fail_sync });
        options = options.record(recorder.map_err(|error| Failure::at(trace, error))?);
    }
    options.open_or_create(&arguments.pool).map_err(|error| Failure::at(&arguments.pool, error))
}

/// The password: of the command line, of the environment, of the configuration file, in this order. `line` is the command
/// line alone, `all` its options together with the file's.
fn password(line: &Arguments, all: &Arguments) -> Outcome<Option<String>> {
    const VARIABLE: &str = "PERDURA_PASSWORD";
    let on_line = line.requirepass.is_some() || line.requirepass_file.is_some();
    if let Some(password) = std::env::var_os(VARIABLE).filter(|_| !on_line) {
        let password = password.into_string().ok().filter(|password| !password.is_empty());
        return match password {
            Some(password) => Ok(Some(password)),
            None => Err(Failure::new(format!(
                "{VARIABLE} is empty, or no text in UTF-8: set it to the password, or unset it"
            ))),
        };
    }
    let Some(path) = &all.requirepass_file else { return Ok(all.requirepass.clone()) };
    let text = read_text(path, MOST_PASSWORD)?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    match password {
        "" => Err(Failure::at(path, "it is empty; write the password into it, in one line")),
        _ if password.contains('\n') => {
            Err(Failure::at(path, "it has several lines; write the password into it, in one line"))
        }
        _ => Ok(Some(password.to_owned())),
    }
}

/// The text of a file of options, of at most `most` bytes.
fn read_text(path: &Path, most: u64) -> Outcome<String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text));
    read.map_err(|error| Failure::io(path, &error))?;
    if text.len() as u64 > most {
        return Err(Failure::at(path, format!("it is larger than {}", show_bytes(most))));
    }
    Ok(text)
}

fn options(arguments: &Arguments, password: Option<String>) -> Options {
    let mut options = Options::new().max_clients(arguments.max_clients as usize);
    options = options.debug_command(arguments.debug_command);
    let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    options = options.max_reply(size(arguments.max_reply)).max_request(size(arguments.max_request));
    if let Some(threads) = arguments.threads {
        options = options.threads(usize::from(threads));
    }
    if let Some(password) = password {
        options = options.password(password);
    }
    if let Some(path) = &arguments.aclfile {
        options = options.acl_file(path);
    }
    if let (Some(cert_file), Some(key_file)) = (&arguments.tls_cert_file, &arguments.tls_key_file) {
        options = options.tls(TlsFiles {
            cert_file: cert_file.clone(),
            key_file: key_file.clone(),
            ca_file: arguments.tls_ca_cert_file.clone(),
            clients: arguments.tls_auth_clients.parse().unwrap_or_default(),
        });
    }
    options = options.protected_mode(arguments.protected_mode.0);
    options = options.slower_than(arguments.slowlog_log_slower_than);
    options = options.slow_log_len(arguments.slowlog_max_len as usize);
    options = options.eviction(arguments.maxmemory_policy);
    options = options.backlog(size(arguments.repl_backlog_size));
    if let Some(Master { host, port }) = &arguments.replicaof {
        options = options.replica_of(host, *port);
    }
    if let Some(password) = &arguments.masterauth {
        options = options.master_auth(arguments.masteruser.clone(), password);
    }
    options = options.replica_read_only(arguments.replica_read_only.0);
    options = options.tls_replication(arguments.tls_replication.0);
    options = options.tls_cluster(arguments.tls_cluster.0);
    let announced = arguments.replica_announce_ip.clone();
    options = options.announce(announced, arguments.replica_announce_port);
    options.timeout(arguments.timeout).tcp_keepalive(arguments.tcp_keepalive)
}

/// Tells of the pool. One that was there already may have been opened with another `size`.
fn describe(info: &Info, recovery: &Recovery, size: Option<u64>) -> Outcome {
    let limit = size.unwrap_or(info.limit).max(info.bytes);
    if show_bytes(limit) != show_bytes(info.own_limit) {
        let (limit, own) = (show_bytes(limit), show_bytes(info.own_limit));
        log_warning(&format!(
            "the pool may grow to {limit} in this run; its own limit stays {own}: give --size each \
             time, or move its data to a larger pool"
        ));
    }
    print(format!(
        "pool {}: engine {}, domain {}, {} in use of at most {}",
        info.path,
        info.engine,
        info.domain,
        show_bytes(info.used_bytes),
        show_bytes(limit)
    ))?;
    print(&info.durability)?;
    let Recovery { replayed, rolled_back, discarded, deferred, corrected } = *recovery;
    if replayed + rolled_back + discarded > 0 {
        print(format!(
            "it was not closed: {replayed} transactions replayed, {rolled_back} rolled back, {discarded} unfinished"
        ))?;
    }
    if deferred > 0 {
        print(format!(
            "of {deferred} lines left to the caches {corrected} were lost, and restored from checksums"
        ))?;
    }
    Ok(())
}

/// Tells what takes a new pool's space, and contents of a pool other than the server's data.
fn describe_contents(pool: &Pool, is_new: bool) -> Outcome {
    if is_new {
        let info = pool.info();
        let (file, log) = (show_bytes(info.bytes), show_bytes(info.log_bytes));
        return print(format!(
            "it is new: its file has {file}, of which {log} are log; with a smaller --size both are smaller"
        ));
    }
    let roots = pool.session()?.read(|tx| roots::all(tx))?;
    let others = roots.iter().filter(|named| !is_keyspace(named.root));
    let mut names: Vec<_> =
        others.map(|named| String::from_utf8_lossy(&named.name).into_owned()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let all = names.len();
    if all > MOST_NAMES {
        names.truncate(MOST_NAMES);
        names.push(format!("and {} more", all - MOST_NAMES));
    }
    print(format!(
        "it also has a program's named roots, which the server leaves as they are: {}",
        names.join(", ")
    ))
}
