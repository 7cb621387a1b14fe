//! A benchmark over the store leaves a keyspace, which a server serves.

#![cfg(unix)]

use crate::common::{arg, succeed};
use perdura_baselines::server::{Launch, Server};
use std::path::Path;
use tempfile::tempdir;

/// Serves the pool, from a folder of the server's own.
fn serve(pool: &Path, folder: &Path) -> Server {
    let arguments = ["serve", "--pool", arg(pool), "--listen", "127.0.0.1:{port}"];
    let launch = Launch {
        name: "perdura".to_owned(),
        program: env!("CARGO_BIN_EXE_perdura-lab").into(),
        advice: "build it",
        arguments: arguments.map(str::to_owned).into(),
    };
    launch.start(folder).expect("the server starts")
}

/// YCSB over the store leaves a keyspace: it is checked, served, and found.
#[test]
fn a_benchmark_over_the_store_can_be_served() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let ycsb = ["bench", "--workload", "ycsb-d", "--over", "store", "--entries", "200"];
    let once = ["--ops", "400", "--engine", "redo", "--repeat", "1", "--seed", "5"];
    succeed(&[&ycsb[..], &once, &["--pool", arg(&pool)]].concat());
    let checked = succeed(&["pool", "check", arg(&pool)]);
    assert!(checked.contains("named roots lead to all of them"), "{checked}");
    let server = serve(&pool, folder.path());
    let ask = |request| server.ask(request).expect("an answer");
    assert_eq!(ask("HLEN user6284781860667377211"), ":10");
    // All fields and values of the first record.
    assert_eq!(ask("HGETALL user6284781860667377211"), "*20");
    assert_eq!(ask("ZSCORE _indices user6284781860667377211"), "-594971599");
    let keys: u64 = ask("DBSIZE")[1..].parse().expect("a number");
    let indexed: u64 = ask("ZCARD _indices")[1..].parse().expect("a number");
    assert!(indexed > 200 && keys == indexed + 1, "{keys} keys, {indexed} indexed");
    assert_eq!(ask("DEL _indices user6284781860667377211"), ":2");
    drop(server);
    assert!(succeed(&["pool", "check", arg(&pool)]).contains("named roots lead to all of them"));
}

/// The same of TPC-C: a row is a hash, and the orders that are not delivered are a sorted set.
#[test]
fn tpc_c_over_the_store_can_be_served() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let tpcc = ["bench", "--workload", "tpcc", "--over", "store", "--ops", "300"];
    let once = ["--engine", "redo", "--repeat", "1", "--seed", "5", "--pool", arg(&pool)];
    succeed(&[&tpcc[..], &once].concat());
    let checked = succeed(&["pool", "check", arg(&pool)]);
    assert!(checked.contains("named roots lead to all of them"), "{checked}");
    let server = serve(&pool, folder.path());
    let ask = |request| server.ask(request).expect("an answer");
    assert_eq!(ask("HLEN CUSTOMER:1:1:1"), ":3");
    assert_eq!(ask("HSTRLEN WAREHOUSE:1 ytd"), ":8");
    // The oldest of the 18 new orders of the 60 at first have been delivered.
    let waiting: u64 = ask("ZCARD NEW_ORDER:1:1")[1..].parse().expect("a number");
    assert!(waiting > 0, "{waiting} new orders");
    assert_eq!(ask("ZCOUNT NEW_ORDER:1:1 -inf 43"), ":0");
    drop(server);
    assert!(succeed(&["pool", "check", arg(&pool)]).contains("named roots lead to all of them"));
    // The other store's pool is checked as well, and has no keyspace.
    let plain = folder.path().join("plain");
    let once = ["--engine", "undo", "--repeat", "1", "--seed", "5", "--pool", arg(&plain)];
    succeed(
        &[&["bench", "--workload", "tpcc", "--over", "plain", "--ops", "300"], &once[..]].concat(),
    );
    let checked = succeed(&["pool", "check", arg(&plain)]);
    assert!(checked.contains("named roots lead to all of them"), "{checked}");
}
