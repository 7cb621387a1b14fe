//! YCSB through `perdura serve`: its clients find their writes, and detect errors.

use crate::common::{arg, fail, run, succeed, text};
use perdura_baselines::server::{Launch, Server};
use perdura_baselines::ycsb::Client;
use perdura_workloads::ycsb::remote::{Records, Remote};
use perdura_workloads::ycsb::{Letter, Name, Order, Shape};
use perdura_workloads::{Failure, Outcome, Plan, Progress};
use serde_json::Value;
use std::path::Path;
use tempfile::tempdir;

fn serve(engine: &str, folder: &Path) -> Server {
    let arguments = format!(
        "serve --pool {{dir}}/pool --size 256M --listen 127.0.0.1:{{port}} --engine {engine} \
         --domain process --threads 2"
    );
    let launch = Launch {
        name: format!("perdura {engine}"),
        program: env!("CARGO_BIN_EXE_perdura-lab").into(),
        advice: "build it",
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
    };
    launch.start(folder).expect("the server starts")
}

fn connect(server: &Server) -> Outcome<Client> {
    Client::connect(server).map_err(|error| Failure::Remote(error.to_string()))
}

fn plan(seed: u64) -> Plan {
    Plan {
        threads: 3,
        operations: 300,
        warm_up: 30,
        seed,
        sample_every: 1,
        per_second: None,
        pinned: false,
        window: 1,
    }
}

#[test]
fn all_letters_on_every_kind_of_engine() {
    for engine in ["undo", "redo", "archapt-undo", "archapt-redo"] {
        let folder = tempdir().expect("a folder");
        let server = serve(engine, folder.path());
        let (connect, progress) = (|| connect(&server), Progress::default());
        let records = Records::new(200, Shape::default()).expect("records");
        records.load(connect, 4, &progress).expect("a load");
        connect().expect("a connection").settle().expect("there is nothing to wait for");
        for (letter, seed) in Letter::ALL.into_iter().zip(1..) {
            let measured = records.run(letter, connect, &plan(seed), &progress);
            let measured =
                measured.unwrap_or_else(|failure| panic!("{engine} {letter}: {failure}"));
            assert_eq!(measured.operations, 300, "{engine} {letter}");
        }
        assert!(records.count() > 200, "D and E insert");
        records.check(connect, 4, &progress).expect("what was written");
    }
}

#[test]
fn a_wrong_value_and_a_dead_server_are_noticed() {
    let folder = tempdir().expect("a folder");
    let server = serve("redo", folder.path());
    let progress = Progress::default();
    let records = Records::new(20, Shape::default()).expect("records");
    records.load(|| connect(&server), 2, &progress).expect("a load");
    let mut client = connect(&server).expect("a connection");
    let name = Name::new(Order::Hashed.identity(11));
    client.update(name.as_bytes(), b"field4", &[b'x'; 100]).expect("an update");
    let complaint = records.check(|| connect(&server), 2, &progress).expect_err("another value");
    assert!(complaint.to_string().contains("field 4 of record user"), "{complaint}");
    let (reached, mut dying) = (server.address(), connect(&server).expect("a connection"));
    drop(server);
    let complaint = dying.read(name.as_bytes()).expect_err("it is gone").to_string();
    assert!(complaint.contains("perdura redo") && complaint.contains("HGETALL"), "{complaint}");
    let gone = Client::at("perdura redo", reached, std::time::Duration::from_secs(5));
    let complaint = gone.err().expect("nobody listens").to_string();
    assert!(complaint.contains("cannot connect"), "{complaint}");
}

/// Skipped without Redis.
#[test]
fn versus_redis() {
    let small = ["--workload", "a,d,e", "--requests", "400", "--keys", "200", "--clients", "1,3"];
    let more = ["--engine", "redo", "--repeat", "2", "--seed", "5"];
    let arguments = [&["bench", "versus", "--only", "ycsb"], &small[..], &more].concat();
    let output = run(&[&arguments[..], &["--json"]].concat());
    if !output.status.success() {
        let complaint = text(&output.stderr);
        assert!(complaint.contains("not available"), "{complaint}");
        return eprintln!("skipped: {complaint}");
    }
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = report["ycsb"]["results"].as_array().expect("results");
    assert_eq!((results.len(), report["seed"].as_u64()), (6, Some(5)));
    for result in results {
        let servers = result["servers"].as_array().expect("figures");
        assert_eq!(servers.len(), 2, "Redis and ours");
        for figures in servers {
            let [rate, p99] = ["per_second", "p99_ms"].map(|key| figures[key]["median"].as_f64());
            assert!(rate > Some(0.0) && p99 > Some(0.0), "{figures}");
        }
    }
    assert!(succeed(&arguments).contains("YCSB-D"));
    let nothing = ["bench", "versus", "--only", "ycsb", "--keys", "0"];
    assert!(fail(&nothing).contains("nothing to compare"));
}

/// Skipped without Redis.
#[test]
fn a_figure_beside_redis() {
    let folder = tempdir().expect("a folder");
    let more = ["--native", "--quick", "--workload", "ycsb-a,ycsb-d", "--engine", "archapt-undo"];
    let usual = ["reproduce", "archapt-fig7", "--repeat", "2", "--out", arg(folder.path())];
    let arguments = [&usual[..], &more].concat();
    let printed = succeed(&arguments);
    let written = std::fs::read_to_string(folder.path().join("archapt-fig7.json"));
    let report: Value = serde_json::from_str(&written.expect("a file")).expect("JSON");
    let of_baseline = |says: &str| {
        let comparisons = report["comparisons"].as_array().expect("comparisons");
        let mut own = comparisons.iter().filter(|own| own["says"] == says);
        let found = own.next().expect("a comparison");
        assert!(own.next().is_none() && found["place"] == "served", "{comparisons:?}");
        found["ours"].clone()
    };
    if report["rival"]["not-installed"].is_string() {
        assert!(printed.contains("through the server: nothing was run"), "{printed}");
        assert!(of_baseline("over Redis's AOF: mean").is_null());
        return eprintln!("skipped: {}", report["rival"]);
    }
    assert!(printed.contains("through the server: YCSB by clients"), "{printed}");
    assert!(of_baseline("over Redis's AOF: mean").is_f64());
    let figures = report["figures"].as_array().expect("figures");
    let count = |quantity: &str| {
        let wanted = figures.iter().filter(|figure| figure["quantity"] == quantity);
        wanted.filter(|figure| figure["place"] == "served").count()
    };
    // Two letters of Redis, undo and archapt-undo.
    assert_eq!(["per-second", "answer-p99"].map(count), [6, 6]);
    assert_eq!(["rival-change", "throughput-change"].map(count), [4, 2]);
}
