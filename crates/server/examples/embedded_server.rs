//! A program that keeps its data in a pool and lets Redis clients at it too.
//!
//! ```text
//! cargo run --release -p perdura-server --example embedded_server -- data.pool 127.0.0.1:7379
//! redis-cli -p 7379 set greeting hello
//! ```
//!
//! A third argument is the number of threads, and a fourth the engine of a pool that is new.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "data.pool".to_owned());
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:7379".to_owned());
    let mut options = perdura_server::Options::new().listen(listen.parse()?);
    if let Some(threads) = args.next() {
        options = options.threads(threads.parse()?);
    }
    let mut new = perdura::Options::new();
    if let Some(engine) = args.next() {
        new = new.engine(engine.parse()?);
    }
    let pool = new.open_or_create(path)?;
    perdura_server::run(pool, options)?;
    Ok(())
}
