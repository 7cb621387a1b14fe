//! Snapshots of which a client wants a part.

use crate::common::{Client, Running, show};
use std::process::Command;

const LIBRARY: &str = "#!lua name=lib\nredis.register_function('double', function() return 2 end)";

fn running() -> Running {
    let running = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = running.client();
    assert_eq!(client.ask("SET a-key a-value"), "OK");
    let loaded = client.call(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
    assert_eq!(show(&loaded), "lib");
    running
}

/// The snapshot that a client gets which has said this before, and all else up to the end of the connection.
fn snapshot(client: &mut Client, said: &[[&str; 3]]) -> String {
    for words in said {
        assert_eq!(show(&client.call(&words.map(str::as_bytes))), "OK");
    }
    client.rest_after("SYNC\r\n")
}

#[test]
fn a_snapshot_has_what_is_wanted() {
    let running = running();
    for (filter, has_functions, has_keys) in [
        (None, true, true),
        (Some("functions"), true, false),
        (Some("FUNCTIONS functions"), true, false),
        (Some(""), false, false),
    ] {
        let filter = filter.map(|filter| ["REPLCONF", "rdb-filter-only", filter]);
        let said: Vec<_> = [["REPLCONF", "rdb-only", "1"]].into_iter().chain(filter).collect();
        let bytes = snapshot(&mut running.client(), &said);
        assert!(bytes.contains("REDIS0010"), "{said:?}: {bytes}");
        assert_eq!(bytes.contains("name=lib"), has_functions, "{said:?}: {bytes}");
        assert_eq!(bytes.contains("a-value"), has_keys, "{said:?}: {bytes}");
    }
    let mut client = running.client();
    for (command, error) in [
        ("REPLCONF rdb-only 2", "ERR value is out of range, value must between 0 and 1"),
        ("REPLCONF rdb-only x", "ERR value is not an integer or out of range"),
        ("REPLCONF rdb-filter-only keys", "ERR Unsupported rdb-filter-only option: keys"),
    ] {
        assert_eq!(client.ask(command), error);
    }
    running.check();
}

#[test]
fn redis_cli_gets_the_functions() {
    let running = running();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("functions.rdb");
    let port = running.address.port().to_string();
    let mut cli = Command::new("redis-cli");
    cli.args(["-p", &port, "--functions-rdb"]).arg(&file);
    let Ok(done) = cli.output() else {
        println!("skipped: there is no redis-cli");
        return;
    };
    assert!(done.status.success(), "{done:?}");
    let bytes = std::fs::read(&file).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("REDIS0010") && text.contains("name=lib"), "{text}");
    assert!(!text.contains("a-value"), "{text}");
    if let Ok(checked) = Command::new("redis-check-rdb").arg(&file).output() {
        assert!(checked.status.success(), "{checked:?}");
    }
}
