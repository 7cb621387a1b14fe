//! A server as a cache: clients that look a key up, and set it if it is not there, with keys that are more and less
//! popular, and more of them than fit.
//!
//! What always holds: a value follows from its key, so that each one that is found is checked. A refused write is a failure.

use crate::server::Server;
use crate::ycsb::open;
use crate::{Error, Result};
use perdura_workloads::payload;
use perdura_workloads::random::{Random, splitmix64};
use perdura_workloads::zipf::Zipf;
use redis::{Cmd, Connection, FromRedisValue, Pipeline};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const LIMIT: Duration = Duration::from_secs(60);
/// Keys that a client looks up at once.
const AT_ONCE: usize = 16;
/// Skew of the keys' popularity, YCSB's.
const SKEW: f64 = 0.99;
/// Keys that never expire are set so many at once.
const BATCH: u64 = 100;
/// Seconds that a key that expires has: at least, and at most.
const SECONDS: (u64, u64) = (600, 3_600);

/// How a cache is used.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Demand {
    /// Keys that are looked up.
    pub keys: u64,
    /// Bytes of their values: at least, and at most.
    pub value_bytes: (u64, u64),
    /// Whether they expire.
    pub expires: bool,
    /// Other keys, which never expire, and must never go.
    pub lasting: u64,
    /// Bytes of values to be set.
    pub traffic: u64,
    /// Connections.
    pub clients: u64,
    /// The root of everything random.
    pub seed: u64,
}

/// What clients have found in a cache, and set.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Answered {
    /// Keys that were found.
    pub hits: u64,
    /// Keys that were not.
    pub misses: u64,
    /// Bytes of the values that were set.
    pub bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
}

/// How full a server is, by its own figures.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct State {
    /// Keys that it has.
    pub keys: u64,
    /// Keys that it has evicted.
    pub evicted: u64,
    /// `used_memory` and `maxmemory`, in bytes.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

impl Answered {
    /// The share of keys that were found.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

impl std::ops::AddAssign for Answered {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.bytes += other.bytes;
        self.seconds += other.seconds;
    }
}

/// Sets the keys that never expire.
///
/// # Errors
/// `Failed` when the server refuses one.
pub fn load(server: &Server, demand: &Demand) -> Result<()> {
    let mut client = Client::connect(server)?;
    let mut first = 0;
    while first < demand.lasting {
        let count = BATCH.min(demand.lasting - first);
        let mut pipeline = Pipeline::new();
        for number in first..first + count {
            pipeline.cmd("SET").arg(lasting(number)).arg(demand.value(number)).ignore();
        }
        client.send::<()>(&pipeline)?;
        first += count;
    }
    Ok(())
}

/// Looks keys up, and sets those that are not there, until `traffic` bytes were set by all clients together, or
/// `goes_on` is false. Each part of a run has another number `part`.
///
/// # Errors
/// `Failed` when a value is wrong, or a write is refused.
pub fn run(
    server: &Server,
    demand: &Demand,
    part: u64,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<Answered> {
    let (zipf, written, start) = (Zipf::new(demand.keys, SKEW), AtomicU64::new(0), Instant::now());
    let results: Vec<Result<Answered>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..demand.clients)
            .map(|number| {
                let (zipf, written) = (zipf.clone(), &written);
                let random = Random::new(demand.seed, part << 32 | number);
                scope.spawn(move || one(server, demand, (zipf, random), written, goes_on))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = Answered::default();
    for result in results {
        all += result?;
    }
    Ok(Answered { seconds: start.elapsed().as_secs_f64(), ..all })
}

fn one(
    server: &Server,
    demand: &Demand,
    (zipf, mut random): (Zipf, Random),
    written: &AtomicU64,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<Answered> {
    let mut client = Client::connect(server)?;
    let mut answered = Answered::default();
    while written.load(Relaxed) < demand.traffic && goes_on() {
        let keys: [u64; AT_ONCE] = std::array::from_fn(|_| zipf.draw(&mut random));
        let mut looks = Pipeline::new();
        for key in keys {
            looks.cmd("GET").arg(name(key));
        }
        let found: Vec<Option<Vec<u8>>> = client.send(&looks)?;
        let (mut sets, mut bytes) = (Pipeline::new(), 0);
        for (key, found) in keys.into_iter().zip(found) {
            let value = demand.value(key);
            match found {
                Some(found) if found == value => answered.hits += 1,
                Some(_) => return Err(client.failed(format!("another value for key {key}"))),
                None => {
                    answered.misses += 1;
                    bytes += value.len() as u64;
                    let set = sets.cmd("SET").arg(name(key)).arg(value);
                    if demand.expires {
                        let (least, most) = SECONDS;
                        set.arg("EX").arg(random.between(least, most));
                    }
                }
            }
        }
        if bytes > 0 {
            let _: Vec<String> = client.send(&sets)?;
            answered.bytes += bytes;
            written.fetch_add(bytes, Relaxed);
        }
    }
    Ok(answered)
}

/// Checks that all keys are there that never expire, and the values of all others that are there. Returns how many these
/// are.
///
/// # Errors
/// `Failed` when one is missing or wrong.
pub fn check(server: &Server, demand: &Demand) -> Result<u64> {
    let mut client = Client::connect(server)?;
    let mut there = 0;
    let all =
        (0..demand.lasting).map(|key| (key, true)).chain((0..demand.keys).map(|key| (key, false)));
    let all: Vec<(u64, bool)> = all.collect();
    for batch in all.chunks(BATCH as usize) {
        let mut looks = Pipeline::new();
        for (key, lasts) in batch {
            looks.cmd("GET").arg(if *lasts { lasting(*key) } else { name(*key) });
        }
        let found: Vec<Option<Vec<u8>>> = client.send(&looks)?;
        for ((key, lasts), found) in batch.iter().zip(found) {
            match found {
                Some(found) if found == demand.value(*key) => there += u64::from(!lasts),
                None if !lasts => {}
                None => {
                    return Err(client.failed(format!("key {key}, which never expires, is gone")));
                }
                Some(_) => return Err(client.failed(format!("another value for key {key}"))),
            }
        }
    }
    Ok(there)
}

/// How full the server is.
///
/// # Errors
/// `Failed` when it does not answer.
pub fn state(server: &Server) -> Result<State> {
    let mut client = Client::connect(server)?;
    let info: String = client.ask(Cmd::new().arg("INFO"))?;
    let number = |field: &str| {
        let found = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    Ok(State {
        keys: client.ask(Cmd::new().arg("DBSIZE"))?,
        evicted: number("evicted_keys"),
        used: number("used_memory"),
        limit: number("maxmemory"),
    })
}

impl Demand {
    /// The value of a key.
    fn value(&self, key: u64) -> Vec<u8> {
        let (least, most) = self.value_bytes;
        let bytes = least + splitmix64(key ^ self.seed) % (most - least + 1);
        let mut value = vec![0; bytes as usize];
        payload::fill(key, self.seed, &mut value);
        value
    }
}

fn name(key: u64) -> String {
    format!("key:{key:012}")
}

fn lasting(key: u64) -> String {
    format!("lasting:{key:012}")
}

struct Client<'a> {
    server: &'a Server,
    connection: Connection,
}

impl<'a> Client<'a> {
    fn connect(server: &'a Server) -> Result<Self> {
        let connection = open(server.address(), LIMIT)
            .map_err(|error| Error::failed(server.name(), format!("cannot connect: {error}")))?;
        Ok(Client { server, connection })
    }

    fn failed(&self, why: impl std::fmt::Display) -> Error {
        Error::failed(self.server.name(), why.to_string())
    }

    fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        command.query(&mut self.connection).map_err(|error| self.failed(error))
    }

    fn send<T: FromRedisValue>(&mut self, commands: &Pipeline) -> Result<T> {
        commands.query(&mut self.connection).map_err(|error| self.failed(error))
    }
}
