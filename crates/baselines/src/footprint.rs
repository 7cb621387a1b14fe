//! A server's footprint: the memory that it reports as used, its process's resident memory, and the space that its
//! files really occupy.
//!
//! What always holds: keys have 16 bytes, and values random ones, which do not compress. A server that does not return
//! the values that were set has no figures.

use crate::server::Server;
use crate::ycsb::open;
use crate::{Error, Result};
use perdura_workloads::random::Random;
use redis::{Cmd, Connection, FromRedisValue, Pipeline};
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of values that are sent before replies are waited for.
const BATCH: usize = 256 << 10;
/// The most keys that are sent before replies are waited for.
const MOST: usize = 500;
/// How many equal readings in a row mean that a server is at rest, and the time between readings.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);
/// How long it may take to be at rest.
const REST_LIMIT: Duration = Duration::from_secs(120);

/// A server's footprint at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// `used_memory` of INFO.
    pub used: u64,
    /// Resident memory of its process.
    pub resident: u64,
    /// Blocks that the files in its folder occupy.
    pub on_disk: u64,
}

/// A server under measurement.
pub struct Measured<'a> {
    server: &'a Server,
    folder: &'a Path,
    connection: Connection,
}

impl<'a> Measured<'a> {
    /// A connection to `server`, whose files are in `folder`.
    ///
    /// # Errors
    /// `Failed` when it does not answer.
    pub fn new(server: &'a Server, folder: &'a Path) -> Result<Self> {
        let connection = open(server.address(), LIMIT)
            .map_err(|error| Error::failed(server.name(), format!("cannot connect: {error}")))?;
        Ok(Measured { server, folder, connection })
    }

    fn failed(&self, why: impl std::fmt::Display) -> Error {
        Error::failed(self.server.name(), why.to_string())
    }

    fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        command.query(&mut self.connection).map_err(|error| self.failed(error))
    }

    /// The number of a field of INFO.
    fn info(&mut self, field: &str) -> Result<u64> {
        let told: String = self.ask(Cmd::new().arg("INFO"))?;
        let found = told.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let number = found.and_then(|number| number.trim().parse().ok());
        number.ok_or_else(|| self.failed(format!("INFO tells no {field}")))
    }

    /// Sets `keys` keys to values of `bytes` random bytes, and reads some of them back. Calls `goes_on` now and then;
    /// false from it ends the load.
    ///
    /// # Errors
    /// `Failed` when a reply is wrong.
    pub fn load(
        &mut self,
        keys: u64,
        bytes: usize,
        seed: u64,
        goes_on: impl Fn() -> bool,
    ) -> Result<()> {
        let batch = (BATCH / bytes.max(1)).clamp(1, MOST) as u64;
        let mut first = 0;
        while first < keys {
            let count = batch.min(keys - first);
            let mut pipeline = Pipeline::new();
            for key in first..first + count {
                pipeline.cmd("SET").arg(name(key)).arg(value(key, bytes, seed)).ignore();
            }
            let () = pipeline.query(&mut self.connection).map_err(|error| self.failed(error))?;
            first += count;
            if !goes_on() {
                return Ok(());
            }
        }
        let found: u64 = self.ask(Cmd::new().arg("DBSIZE"))?;
        if found != keys {
            return Err(self.failed(format!("it has {found} keys of {keys}")));
        }
        let mut random = Random::new(seed, keys);
        for _ in 0..keys.min(100) {
            let key = random.below(keys);
            let answer: Vec<u8> = self.ask(Cmd::new().arg("GET").arg(name(key)))?;
            if answer != value(key, bytes, seed) {
                return Err(self.failed(format!("it has another value for key {key}")));
            }
        }
        Ok(())
    }

    /// Makes Redis rewrite its append-only file, and waits until it has.
    ///
    /// # Errors
    /// `Failed` when it cannot, or takes too long.
    pub fn rewrite(&mut self) -> Result<()> {
        let _: String = self.ask(Cmd::new().arg("BGREWRITEAOF"))?;
        let start = Instant::now();
        while self.info("aof_rewrite_scheduled")? + self.info("aof_rewrite_in_progress")? > 0 {
            if start.elapsed() > REST_LIMIT {
                return Err(self.failed("it has been rewriting its append-only file for minutes"));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The footprint at rest: when it has not changed for a second, except for what a process takes and gives back at
    /// any time.
    ///
    /// # Errors
    /// `Failed` when it is never at rest, `Io` when its files or its process cannot be examined.
    pub fn at_rest(&mut self) -> Result<Footprint> {
        let start = Instant::now();
        let (mut last, mut same) = (self.footprint()?, 0);
        while same < LOOKS {
            if start.elapsed() > REST_LIMIT {
                return Err(self.failed("what it takes changes all the time"));
            }
            thread::sleep(PAUSE);
            let now = self.footprint()?;
            let close = |a: u64, b: u64| a.abs_diff(b) <= (64 << 10) + a / 1000;
            let is_same = close(now.used, last.used)
                && close(now.resident, last.resident)
                && now.on_disk == last.on_disk;
            same = if is_same { same + 1 } else { 0 };
            last = now;
        }
        Ok(last)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let used = self.info("used_memory")?;
        let resident = resident(self.server.process_id())?;
        Ok(Footprint { used, resident, on_disk: occupied(self.folder)? })
    }
}

fn name(key: u64) -> String {
    format!("key:{key:012}")
}

fn value(key: u64, bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed, key);
    let words = std::iter::repeat_with(|| random.word().to_le_bytes());
    words.take(bytes.div_ceil(8)).flatten().take(bytes).collect()
}

/// A process's resident bytes.
fn resident(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).map_err(Error::io(format!("cannot read {path}")))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let odd = || Error::failed(&path, "it does not tell the resident memory");
    kib.map(|kib| kib * 1024).ok_or_else(odd)
}

/// Bytes of the blocks of the files in a folder and its subfolders.
fn occupied(folder: &Path) -> Result<u64> {
    let cannot = |error| Error::io(format!("cannot look into {}", folder.display()))(error);
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        match entry.metadata() {
            Ok(found) if found.is_dir() => bytes += occupied(&entry.path())?,
            Ok(found) => bytes += found.blocks() * 512,
            // Gone meanwhile: a file that was rewritten.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Launch;

    #[test]
    fn blocks_are_counted_and_not_lengths() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).expect("a folder");
        let before = occupied(folder.path()).expect("a folder");
        fs::write(inner.join("data"), vec![1; 1 << 20]).expect("a file");
        let file = fs::File::create(folder.path().join("empty")).expect("a file");
        file.set_len(1 << 30).expect("a length");
        let after = occupied(folder.path()).expect("a folder");
        assert!((1 << 20..2 << 20).contains(&(after - before)), "{before} to {after}");
    }

    #[test]
    fn values_differ_and_come_again() {
        assert_eq!(value(3, 10_001, 7), value(3, 10_001, 7));
        assert_ne!(value(3, 10, 7), value(4, 10, 7));
        assert_eq!((value(1, 0, 1).len(), value(1, 13, 1).len()), (0, 13));
        assert_eq!(name(7).len(), 16);
    }

    /// Skipped if Redis is not installed.
    #[test]
    fn redis_is_measured() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Ok(server) = Launch::redis().start(folder.path()) else { return };
        let mut measured = Measured::new(&server, folder.path()).expect("a connection");
        let before = measured.at_rest().expect("figures");
        measured.load(500, 1_000, 1, || true).expect("a load");
        let after = measured.at_rest().expect("figures");
        assert!(after.used - before.used > 500 * 1_000, "{before:?} to {after:?}");
        assert!(after.on_disk - before.on_disk >= 500 * 1_000, "{before:?} to {after:?}");
        measured.rewrite().expect("a rewrite");
        let _: i64 = measured.ask(Cmd::new().arg("DEL").arg(name(3))).expect("a deletion");
        let complaint = measured.load(0, 10, 1, || true).expect_err("another number of keys");
        assert!(complaint.to_string().contains("499 keys of 0"), "{complaint}");
    }
}
