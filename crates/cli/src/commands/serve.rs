//! `perdura serve`: the Redis protocol on a pool.

use crate::bench::options::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::output::print;
use crate::quantity;
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

    /// Threads that serve clients [default: one a core, at most 8]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Clients that may be connected at once
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    maxclients: usize,

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
    let mut options = Options::new().listen(arguments.listen).max_clients(arguments.maxclients);
    if let Some(threads) = arguments.threads {
        options = options.threads(threads);
    }
    if let Some(password) = &arguments.requirepass {
        options = options.password(password);
    }
    options
}

fn describe(info: &Info, recovery: &Recovery) -> Outcome {
    print(format!(
        "pool {}: engine {}, domain {}, {} of {} bytes in use",
        info.path, info.engine, info.domain, info.used_bytes, info.limit
    ))?;
    print(format!("what is answered outlives {}", info.survives))?;
    let Recovery { replayed, rolled_back, discarded } = *recovery;
    if replayed + rolled_back + discarded > 0 {
        print(format!(
            "it was not closed: {replayed} transactions replayed, {rolled_back} rolled back, {discarded} unfinished"
        ))?;
    }
    Ok(())
}
