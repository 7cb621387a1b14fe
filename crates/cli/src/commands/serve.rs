//! `perdura serve`: the Redis protocol on a pool.

use crate::bench::options::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::output::print;
use crate::quantity::{self, show_bytes};
use perdura::{EngineKind, Info, Pool, Recovery};
use perdura_server::Options;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pool's file; it is created if it is not there
    #[arg(long, value_name = "PATH", default_value = "perdura.pool")]
    pool: PathBuf,

    /// Bytes that the pool may grow to [default: the pool's own, 1G for a new one]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    size: Option<u64>,

    /// Engine: volatile, undo or redo [default: the pool's own, redo for a new one]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<EngineKind>,

    /// Persistence domain: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Address and port to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7379")]
    listen: SocketAddr,

    /// Threads that serve clients [default: one a core, but one core is left free; at most 8]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Clients that may be connected at once
    #[arg(long, alias = "maxclients", value_name = "NUMBER", default_value_t = 10_000)]
    max_clients: usize,

    /// Password that clients must give to AUTH
    #[arg(long, value_name = "PASSWORD")]
    requirepass: Option<String>,

    /// Open the pool although transactions outlive less here than it asks for
    #[arg(long)]
    accept_weaker: bool,

    /// Open the pool although it was left by an engine without crash consistency
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let pool = open(arguments)?;
    let server = perdura_server::Server::bind(&pool, options(arguments))
        .map_err(|error| Failure::new(error.to_string()))?;
    describe(&pool.info(), pool.recovery())?;
    if !arguments.listen.ip().is_loopback() && arguments.requirepass.is_none() {
        eprintln!("warning: anyone who reaches this address can read and write; see --requirepass");
    }
    print(format!("ready at {}; Ctrl-C ends it", server.local_addr()))?;
    perdura_server::serve(pool, server).map_err(|error| Failure::new(error.to_string()))?;
    print("closed")
}

fn open(arguments: &Arguments) -> Outcome<Pool> {
    let mut options = perdura::Options::new()
        .domain(arguments.domain.0)
        .accept_weaker(arguments.accept_weaker)
        .force(arguments.force);
    if let Some(engine) = arguments.engine {
        options = options.engine(engine);
    }
    if let Some(bytes) = arguments.size {
        options = options.size(bytes);
    }
    options.open_or_create(&arguments.pool).map_err(|error| Failure::at(&arguments.pool, error))
}

fn options(arguments: &Arguments) -> Options {
    let mut options = Options::new().listen(arguments.listen).max_clients(arguments.max_clients);
    if let Some(threads) = arguments.threads {
        options = options.threads(usize::from(threads));
    }
    if let Some(password) = &arguments.requirepass {
        options = options.password(password);
    }
    options
}

fn describe(info: &Info, recovery: &Recovery) -> Outcome {
    print(format!(
        "pool {}: engine {}, domain {}, {} in use of at most {}",
        info.path,
        info.engine,
        info.domain,
        show_bytes(info.used_bytes),
        show_bytes(info.limit)
    ))?;
    print(&info.durability)?;
    let Recovery { replayed, rolled_back, discarded } = *recovery;
    if replayed + rolled_back + discarded > 0 {
        print(format!(
            "it was not closed: {replayed} transactions replayed, {rolled_back} rolled back, {discarded} unfinished"
        ))?;
    }
    Ok(())
}
