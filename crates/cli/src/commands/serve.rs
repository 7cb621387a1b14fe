//! `perdura serve`: a pool for Redis clients.

use crate::bench::options::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::quantity::{self, show_bytes};
use perdura::{EngineKind, Options, Pool};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Bytes that a new pool may grow to.
const SIZE: u64 = 1 << 30;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pool's file; created if it is not there
    #[arg(long, value_name = "PATH", default_value = "perdura.pool")]
    pool: PathBuf,

    /// Bytes that the pool may grow to [default: 1G for a new pool, its own for an old one]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    size: Option<u64>,

    /// Engine: volatile, undo or redo [default: redo for a new pool, its own for an old one]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<EngineKind>,

    /// Persistence domain: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7379")]
    listen: SocketAddr,

    /// Threads that serve clients [default: by the number of cores]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Clients that may be connected at once
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    max_clients: usize,

    /// Password that clients must give to AUTH
    #[arg(long, value_name = "PASSWORD")]
    requirepass: Option<String>,

    /// Open the pool although here transactions outlive less than it asks for
    #[arg(long)]
    accept_weaker: bool,

    /// Open the pool although the engine 'volatile' did not close it
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let pool = open(arguments)?;
    announce(&pool, arguments);
    Ok(perdura_server::run(pool, options(arguments))?)
}

fn open(arguments: &Arguments) -> Outcome<Pool> {
    let Arguments { pool: path, size, engine, domain, accept_weaker, force, .. } = arguments;
    let mut options = Options::new().domain(domain.0).accept_weaker(*accept_weaker).force(*force);
    if let Some(engine) = engine {
        options = options.engine(*engine);
    }
    match (size, path.exists()) {
        (Some(size), _) => options = options.size(*size),
        (None, false) => options = options.size(SIZE),
        (None, true) => {}
    }
    options.open_or_create(path).map_err(|error| Failure::at(path, error))
}

fn options(arguments: &Arguments) -> perdura_server::Options {
    let mut options =
        perdura_server::Options::new().listen(arguments.listen).max_clients(arguments.max_clients);
    if let Some(threads) = arguments.threads {
        options = options.threads(usize::from(threads));
    }
    if let Some(password) = &arguments.requirepass {
        options = options.password(password);
    }
    options
}

/// On the standard error: whoever starts a server in a script reads nothing.
fn announce(pool: &Pool, arguments: &Arguments) {
    let info = pool.info();
    let size = format!("{} of at most {}", show_bytes(info.bytes), show_bytes(info.limit));
    eprintln!("pool {}: engine {}, {size}", info.path, info.engine);
    eprintln!("{}", info.durability);
    eprintln!("serving at {}; SIGTERM or Ctrl-C ends", arguments.listen);
    if !arguments.listen.ip().is_loopback() && arguments.requirepass.is_none() {
        eprintln!("warning: anyone who reaches this address can read and write; see --requirepass");
    }
}
