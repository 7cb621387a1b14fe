//! `redis-benchmark` as the one client for all servers.

use crate::child::{self, last_words};
use crate::server::Server;
use crate::{Error, Result};
use serde::Serialize;
use std::process::Command;

/// The client puts twelve random digits in its place.
const DRAWN: &str = "__rand_int__";

/// What the clients request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// `SET` of a random key.
    Set,
    /// `GET` of a random key.
    Get,
    /// `HSET` of a random field of one hash.
    Hset,
}

impl Request {
    /// All of them; writes come first, so that reads find something.
    pub const ALL: [Request; 3] = [Request::Set, Request::Hset, Request::Get];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Request::Set => "SET",
            Request::Get => "GET",
            Request::Hset => "HSET",
        }
    }

    fn arguments(self, bytes: usize) -> Vec<String> {
        // Each value is another one: a server may skip the write of an equal value.
        let value = "x".repeat(bytes.saturating_sub(DRAWN.len())) + DRAWN;
        match self {
            Request::Set => vec!["SET".into(), "key:__rand_int__".into(), value],
            Request::Get => vec!["GET".into(), "key:__rand_int__".into()],
            Request::Hset => {
                vec!["HSET".into(), "myhash".into(), "element:__rand_int__".into(), value]
            }
        }
    }
}

/// One run of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// The request.
    pub request: Request,
    /// Connections.
    pub clients: u32,
    /// Requests sent before a reply is awaited.
    pub pipeline: u32,
    /// Requests in all.
    pub requests: u64,
    /// Different keys.
    pub keys: u64,
    /// Bytes in a value, twelve at least: these are drawn anew for each request.
    pub bytes: usize,
}

/// What the client measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Replies per second.
    pub per_second: f64,
    /// Median time to the reply, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile of that time, in milliseconds.
    pub p99_ms: f64,
    /// The longest time to a reply, in milliseconds.
    pub max_ms: f64,
}

/// Whether a request may have set this value of so many bytes.
pub fn is_value(value: &str, bytes: usize) -> bool {
    let filled = bytes.saturating_sub(DRAWN.len());
    let (fill, drawn) = value.split_at_checked(filled).unwrap_or_default();
    fill.bytes().all(|byte| byte == b'x')
        && drawn.len() == DRAWN.len()
        && drawn.bytes().all(|byte| byte.is_ascii_digit())
}

/// Loads `server`; an error reply fails the run.
///
/// # Errors
/// `Unavailable` without `redis-benchmark`.
pub fn run(server: &Server, load: &Load) -> Result<Answer> {
    let mut command = Command::new("redis-benchmark");
    for (option, value) in [
        ("-p", u64::from(server.port())),
        ("-n", load.requests),
        ("-r", load.keys),
        ("-c", u64::from(load.clients)),
        ("-P", u64::from(load.pipeline)),
    ] {
        command.arg(option).arg(value.to_string());
    }
    command.arg("--csv").args(load.request.arguments(load.bytes));
    let output = child::output(&mut command, "redis-benchmark", "install redis-tools")?;
    if !output.status.success() {
        let why = format!("{} under redis-benchmark: {}", server.name(), last_words(&output));
        return Err(Error::failed(load.request.name(), why));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    parse(&printed)
        .ok_or_else(|| Error::failed("redis-benchmark", format!("it printed {}", printed.trim())))
}

/// Reads the one row under the header of its CSV output. Columns are found by name.
fn parse(printed: &str) -> Option<Answer> {
    let mut lines = printed.lines().skip_while(|line| !line.starts_with("\"test\""));
    let names = cells(lines.next()?);
    let row = cells(lines.next()?);
    let number = |name: &str| {
        let column = names.iter().position(|column| *column == name)?;
        row.get(column)?.parse().ok()
    };
    Some(Answer {
        per_second: number("rps")?,
        p50_ms: number("p50_latency_ms")?,
        p99_ms: number("p99_latency_ms")?,
        max_ms: number("max_latency_ms")?,
    })
}

/// The cells of a row in which each is quoted, and none contains a quote.
fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('"').split("\",\"").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Launch;

    #[test]
    fn values_are_known() {
        for (value, bytes) in [("xxxx000000000813", 16), ("000000000813", 12), ("000000000813", 3)]
        {
            assert!(is_value(value, bytes), "{value}");
        }
        for value in
            ["xxxxxxxxxxxxxxxx", "xxxx00000000081", "yxxx000000000813", "", "xxxx0000000008131"]
        {
            assert!(!is_value(value, 16), "{value}");
        }
    }

    #[test]
    fn reads_the_printed_table() {
        let printed = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
            \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
            \"SET key:__rand_int__ xx\",\"53705.69\",\"0.128\",\"0.040\",\"0.119\",\"0.223\",\
            \"0.335\",\"2.135\"\n";
        let answer = parse(printed).expect("a table");
        let expected = Answer { per_second: 53705.69, p50_ms: 0.119, p99_ms: 0.335, max_ms: 2.135 };
        assert_eq!(answer, expected);
        assert_eq!(parse("ERROR: cannot connect\n"), None);
    }

    /// Skipped if Redis is not installed.
    #[test]
    fn measures_a_server() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Ok(server) = Launch::redis().start(folder.path()) else { return };
        for request in Request::ALL {
            let load =
                Load { request, clients: 2, pipeline: 4, requests: 200, keys: 50, bytes: 10 };
            match run(&server, &load) {
                Err(Error::Unavailable(why)) => return eprintln!("skipped: {why}"),
                answer => assert!(answer.expect("an answer").per_second > 0.0),
            }
        }
    }
}
