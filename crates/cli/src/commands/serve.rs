//! `perdura serve`: the Redis protocol on a pool.

use crate::domain::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::output::print;
use crate::quantity::{self, show_bytes};
use clap::builder::NonEmptyStringValueParser;
use perdura::{EngineKind, Info, Pool, Recovery};
use perdura_memory::mapped::record::{Faults, Recorder};
use perdura_server::{Listener, Options, Server};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pool's file; it is created if it is not there
    #[arg(long, value_name = "PATH", default_value = "perdura.pool")]
    pool: PathBuf,

    /// Bytes that the pool may grow to. For a pool that is there already this holds for one run,
    /// and may be up to four times its own [default: the pool's own, 1G for a new one]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    size: Option<u64>,

    #[arg(long, help = format!(
        "Engine: one of {} [default: the pool's own, redo for a new one]", EngineKind::NAMES
    ), value_name = "ENGINE")]
    engine: Option<EngineKind>,

    /// Checksums of all pages of a new pool, so that damage by the medium is noticed when it is read
    #[arg(long)]
    checksums: bool,

    /// Persistence domain: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Address or host name, and port, to listen at; port 0 takes a free one. Of a name's
    /// addresses the first that can be listened at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7379")]
    listen: Addresses,

    /// Threads that serve clients [default: one a core, but one core is left free; at most 8]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Clients that may be connected at once
    #[arg(long, alias = "maxclients", value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_clients: u32,

    /// Bytes of one reply, which is kept until its client has read it; a command with a larger
    /// one fails. While more than 1M wait for a client, its next commands wait too
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = quantity::bytes)]
    max_reply: u64,

    /// Bytes of one request, and of all commands from a MULTI to its EXEC. A client with a larger
    /// request is disconnected; a larger transaction fails
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = quantity::bytes)]
    max_request: u64,

    /// Password that clients must give to AUTH
    #[arg(long, value_name = "PASSWORD", value_parser = NonEmptyStringValueParser::new())]
    requirepass: Option<String>,

    /// Let clients use DEBUG, for tests of clients and of this server; DEBUG SLEEP keeps others waiting
    #[arg(long)]
    debug_command: bool,

    /// Open the pool although transactions outlive less here than it asks for
    #[arg(long)]
    accept_weaker: bool,

    /// Open the pool although it was left by an engine without crash consistency
    #[arg(long)]
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

/// What an address or a host name stands for.
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

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    // Before the pool is made: a server that cannot start leaves none behind.
    let listener = Listener::bind(&arguments.listen.0)?;
    let is_new = !arguments.pool.exists();
    let pool = open(arguments)?;
    let server = Server::with(&pool, listener, options(arguments))?;
    describe(&pool.info(), pool.recovery(), if is_new { None } else { arguments.size })?;
    if !server.local_addr().ip().is_loopback() && arguments.requirepass.is_none() {
        eprintln!("warning: anyone who reaches this address can read and write; see --requirepass");
    }
    let ready = format!("ready at {}; Ctrl-C ends it", server.local_addr());
    perdura_server::serve(pool, server, || print(ready))?;
    print("closed")
}

fn open(arguments: &Arguments) -> Outcome<Pool> {
    let mut options = perdura::Options::new()
        .domain(arguments.domain.0)
        .checksums(arguments.checksums)
        .accept_weaker(arguments.accept_weaker)
        .force(arguments.force);
    if let Some(engine) = arguments.engine {
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

fn options(arguments: &Arguments) -> Options {
    let mut options = Options::new().max_clients(arguments.max_clients as usize);
    options = options.debug_command(arguments.debug_command);
    let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    options = options.max_reply(size(arguments.max_reply)).max_request(size(arguments.max_request));
    if let Some(threads) = arguments.threads {
        options = options.threads(usize::from(threads));
    }
    if let Some(password) = &arguments.requirepass {
        options = options.password(password);
    }
    options
}

/// Tells of the pool. One that was there already may have been opened with another `size`.
fn describe(info: &Info, recovery: &Recovery, size: Option<u64>) -> Outcome {
    let limit = size.unwrap_or(info.limit).max(info.bytes);
    if show_bytes(limit) != show_bytes(info.own_limit) {
        let (limit, own) = (show_bytes(limit), show_bytes(info.own_limit));
        eprintln!(
            "warning: the pool may grow to {limit} in this run; its own limit stays {own}: give \
             --size each time, or move its data to a larger pool"
        );
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
