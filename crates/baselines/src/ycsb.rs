//! A YCSB client for servers that speak the Redis protocol: the requests of YCSB's Redis binding, each waited for.
//!
//! A record is a hash, and its key is in a sorted set. A server that dies, stalls or replies with something unexpected
//! is an error with its name and the request; nothing waits for ever.

use crate::server::Server;
use crate::{Error, Result};
use perdura_workloads::ycsb::remote::{Fields, Remote};
use perdura_workloads::ycsb::{INDEX, score};
use perdura_workloads::{Failure, Outcome};
use redis::io::tcp::TcpSettings;
use redis::{Cmd, Connection, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisResult};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to answer a request.
const LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to rewrite its append-only file.
const REWRITE_LIMIT: Duration = Duration::from_secs(120);

/// One connection.
pub struct Client {
    /// The server's name.
    name: String,
    connection: Connection,
}

impl Client {
    /// A connection to `server`.
    ///
    /// # Errors
    /// `Failed` when it does not answer.
    pub fn connect(server: &Server) -> Result<Self> {
        Client::at(server.name(), server.address(), LIMIT)
    }

    /// A connection to the server at `address`, which is called `name`, with `limit` as the time for each reply.
    ///
    /// # Errors
    /// `Failed` when it does not answer.
    pub fn at(name: &str, address: SocketAddr, limit: Duration) -> Result<Self> {
        let connection = open(address, limit).map_err(|error| {
            Error::failed(name, format!("cannot connect to {address}: {error}"))
        })?;
        Ok(Client { name: name.to_owned(), connection })
    }

    /// Waits for the end of a rewrite of the append-only file, which a load may have triggered.
    ///
    /// # Errors
    /// `Failed` when it does not end, or the server does not answer.
    pub fn settle(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            let told: String = self.ask(Cmd::new().arg("INFO").arg("persistence"), b"")?;
            let busy = ["aof_rewrite_in_progress:1", "aof_rewrite_scheduled:1"];
            if !busy.iter().any(|word| told.contains(word)) {
                return Ok(());
            }
            if start.elapsed() > REWRITE_LIMIT {
                let why = "it has been rewriting its append-only file for two minutes";
                return Err(Error::failed(&self.name, why));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The reply to `command`, which is about `key`.
    fn ask<T: FromRedisValue>(&mut self, command: &Cmd, key: &[u8]) -> Result<T> {
        command.query(&mut self.connection).map_err(|error| {
            let verb = match command.args_iter().next() {
                Some(redis::Arg::Simple(verb)) => String::from_utf8_lossy(verb).into_owned(),
                _ => String::new(),
            };
            let key = String::from_utf8_lossy(key);
            let request = if key.is_empty() { verb } else { format!("{verb} {key}") };
            let why = match error.is_timeout() {
                true => format!("no answer to {request} in time"),
                false => format!("{request}: {error}"),
            };
            Error::failed(&self.name, why)
        })
    }

    /// The fields of the hash at `key`: none if there is no such key.
    fn fields(&mut self, key: &[u8]) -> Result<Fields> {
        self.ask(Cmd::new().arg("HGETALL").arg(key), key)
    }
}

/// A connection with a limit on every wait.
pub(crate) fn open(address: SocketAddr, limit: Duration) -> RedisResult<Connection> {
    let to = ConnectionAddr::Tcp(address.ip().to_string(), address.port());
    let settings = TcpSettings::default().set_nodelay(true);
    let info = to.into_connection_info()?.set_tcp_settings(settings);
    let connection = redis::Client::open(info)?.get_connection_with_timeout(limit)?;
    connection.set_read_timeout(Some(limit))?;
    connection.set_write_timeout(Some(limit))?;
    Ok(connection)
}

fn remote(error: Error) -> Failure {
    Failure::Remote(error.to_string())
}

impl Remote for Client {
    fn insert(&mut self, key: &[u8], fields: &[(&[u8], &[u8])]) -> Outcome<bool> {
        let mut command = Cmd::new();
        command.arg("HMSET").arg(key);
        for (name, value) in fields {
            command.arg(*name).arg(*value);
        }
        let () = self.ask(&command, key).map_err(remote)?;
        let added: i64 = self
            .ask(Cmd::new().arg("ZADD").arg(INDEX).arg(score(key)).arg(key), key)
            .map_err(remote)?;
        Ok(added == 1)
    }

    fn read(&mut self, key: &[u8]) -> Outcome<Option<Fields>> {
        let fields = self.fields(key).map_err(remote)?;
        Ok((!fields.is_empty()).then_some(fields))
    }

    fn update(&mut self, key: &[u8], field: &[u8], value: &[u8]) -> Outcome {
        let mut command = Cmd::new();
        self.ask(command.arg("HMSET").arg(key).arg(field).arg(value), key).map_err(remote)
    }

    fn scan(&mut self, start: &[u8], limit: usize) -> Outcome<Vec<(Vec<u8>, Fields)>> {
        let mut command = Cmd::new();
        command.arg("ZRANGEBYSCORE").arg(INDEX).arg(score(start)).arg("+inf");
        command.arg("LIMIT").arg(0).arg(limit);
        let keys: Vec<Vec<u8>> = self.ask(&command, start).map_err(remote)?;
        let read = |key: Vec<u8>| self.fields(&key).map(|fields| (key, fields)).map_err(remote);
        keys.into_iter().map(read).collect()
    }

    fn count(&mut self) -> Outcome<u64> {
        self.ask(Cmd::new().arg("ZCARD").arg(INDEX), INDEX.as_bytes()).map_err(remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Launch;
    use perdura_workloads::ycsb::remote::Records;
    use perdura_workloads::ycsb::{Letter, Shape};
    use perdura_workloads::{Plan, Progress};
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Skipped if Redis is not installed.
    #[test]
    fn all_letters_on_redis() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = match Launch::redis().start(folder.path()) {
            Err(Error::Unavailable(why)) => return eprintln!("skipped: {why}"),
            other => other.expect("Redis starts"),
        };
        let progress = Progress::default();
        let connect = || Client::connect(&server).map_err(remote);
        let records = Records::new(100, Shape::default()).expect("records");
        records.load(connect, 2, &progress).expect("a load");
        connect().expect("a connection").settle().expect("no rewrite");
        for letter in Letter::ALL {
            let plan = Plan {
                threads: 2,
                operations: 100,
                warm_up: 10,
                seed: 1 + letter as u64,
                sample_every: 1,
                per_second: None,
                pinned: false,
                window: 1,
            };
            let measured = records.run(letter, connect, &plan, &progress).expect("a run");
            assert_eq!(measured.operations, 100, "{letter}");
        }
        records.check(connect, 2, &progress).expect("the right records");
        // Another client writes.
        let mut client = connect().expect("a connection");
        let name =
            perdura_workloads::ycsb::Name::new(perdura_workloads::ycsb::Order::Hashed.identity(5));
        client.update(name.as_bytes(), b"field3", &[b'x'; 100]).expect("an update");
        let complaint = records.check(connect, 2, &progress).expect_err("another value");
        assert!(complaint.to_string().contains("field 3 of record user"), "{complaint}");
        drop(server);
        let complaint = client.read(name.as_bytes()).expect_err("nobody answers").to_string();
        assert!(complaint.contains("Redis") && complaint.contains("HGETALL user"), "{complaint}");
    }

    /// A server that answers each request with these bytes.
    fn answering(bytes: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 4096];
            // What the library sends when it connects, without requiring a reply.
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"+OK\r\n+OK\r\n");
            while stream.read(&mut request).is_ok_and(|count| count > 0) {
                let _ = stream.write_all(bytes);
            }
        });
        address
    }

    fn complaint(bytes: &'static [u8]) -> String {
        let limit = Duration::from_millis(300);
        loop {
            let mut client = Client::at("Odd", answering(bytes), limit).expect("a connection");
            let complaint = client.read(b"user7").expect_err("no record").to_string();
            // A stopped and continued process ends its timed waits early: then the result is unknown.
            if !complaint.contains("Interrupted") {
                return complaint;
            }
        }
    }

    #[test]
    fn a_server_that_stalls_or_talks_nonsense_is_named_with_the_request() {
        let begun = Instant::now();
        for (bytes, hint) in [
            (&b""[..], "no answer to HGETALL user7 in time"),
            (b"*1000\r\n$3\r\nabc\r\n", "no answer to HGETALL user7 in time"),
            (b"-ERR no room\r\n", "no room"),
            (b":7\r\n", "HGETALL user7"),
            (b"*1\r\n$1\r\nx\r\n", "HGETALL user7"),
            (b"nonsense\r\n", "HGETALL user7"),
        ] {
            let complaint = complaint(bytes);
            assert!(complaint.contains("Odd") && complaint.contains(hint), "{complaint}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
        // A server that does not even greet.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = silent.local_addr().expect("an address");
        let refused = Client::at("Odd", address, Duration::from_millis(200));
        let complaint = refused.err().expect("no answer").to_string();
        assert!(complaint.contains("Odd") && complaint.contains("connect"), "{complaint}");
    }
}
