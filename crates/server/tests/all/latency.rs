//! LATENCY, and what else monitors and tools ask a server for.

use crate::common::{Frame, Running};

fn start() -> Running {
    Running::with(|options| options.threads(1).debug_command(true), 64 << 20)
}

#[test]
fn what_takes_long_is_kept() {
    let server = start();
    let mut client = server.client();
    assert!(client.ask("LATENCY DOCTOR").contains("Latency monitoring is disabled"));
    client.ask("DEBUG SLEEP 0.05");
    assert_eq!(client.ask("LATENCY LATEST"), "[]");
    assert_eq!(client.ask("CONFIG SET latency-monitor-threshold 30"), "OK");
    assert_eq!(
        client.ask("CONFIG GET latency-monitor-threshold"),
        "[latency-monitor-threshold 30]"
    );
    assert!(client.ask("LATENCY DOCTOR").contains("no latency spike was observed"));
    client.ask("DEBUG SLEEP 0.05");
    // The time of a script is its own.
    client.ask("SLOWLOG RESET");
    client.ask("CONFIG SET slowlog-log-slower-than -1");
    client.call(&[b"EVAL", b"local t = os.clock() while os.clock() < t + 0.08 do end", b"0"]);
    let Frame::List(latest) = client.call(&[b"LATENCY", b"LATEST"]) else { panic!("a list") };
    let [Frame::List(event)] = latest.as_slice() else { panic!("one event: {latest:?}") };
    assert_eq!(event[0], Frame::Text(b"command".to_vec()));
    let Frame::Integer(longest) = event[3] else { panic!("a time: {event:?}") };
    assert!((50..20_000).contains(&longest), "{longest} ms");
    assert!(client.ask("LATENCY HISTORY command").starts_with("[["));
    assert_eq!(client.ask("LATENCY HISTORY other"), "[]");
    assert!(client.ask("LATENCY GRAPH command").starts_with("command - high "));
    assert_eq!(client.ask("LATENCY GRAPH other"), "ERR No samples available for event 'other'");
    let report = client.ask("LATENCY DOCTOR");
    assert!(report.contains("1. command: ") && report.contains("slowlog-log-slower-than 30000"));
    assert_eq!(client.ask("SLOWLOG LEN"), "0");
    assert_eq!([client.ask("LATENCY RESET other"), client.ask("LATENCY RESET")], ["0", "1"]);
    assert_eq!(client.ask("LATENCY LATEST"), "[]");
}

#[test]
fn calls_are_counted_by_their_time() {
    let server = start();
    let mut client = server.client();
    client.ask("CONFIG RESETSTAT");
    for _ in 0..3 {
        client.ask("SET a 1");
    }
    client.ask("GET a");
    client.ask("DEBUG SLEEP 0.02");
    let Frame::List(parts) =
        client.call(&[b"LATENCY", b"HISTOGRAM", b"set", b"nothing", b"zadd", b"debug"])
    else {
        panic!("a list")
    };
    let count = |frame: &Frame| {
        let Frame::List(parts) = frame else { panic!("parts: {frame:?}") };
        let [_, Frame::Integer(calls), _, Frame::List(buckets)] = parts.as_slice() else {
            panic!("a histogram: {parts:?}")
        };
        let [.., Frame::Integer(micros), Frame::Integer(last)] = buckets.as_slice() else {
            panic!("buckets: {buckets:?}")
        };
        assert_eq!(last, calls);
        (*calls, *micros)
    };
    let [name, set, other, debug] = parts.as_slice() else { panic!("two commands: {parts:?}") };
    assert_eq!([name, other], [&Frame::Text(b"set".to_vec()), &Frame::Text(b"debug".to_vec())]);
    assert_eq!(count(set).0, 3);
    let (calls, micros) = count(debug);
    assert!(calls == 1 && micros >= 20_000, "{micros} µs");
    client.ask("CONFIG RESETSTAT");
    assert_eq!(client.ask("LATENCY HISTOGRAM set"), "[]");
}

#[test]
fn tools_find_what_they_look_for() {
    let server = start();
    let mut client = server.client();
    client.ask("SET number 12");
    client.ask("RPUSH list a b");
    for (command, answer) in [
        ("COMMAND GETKEYSANDFLAGS MSET a 1 b 2", "[[a [OW update]] [b [OW update]]]"),
        ("COMMAND GETKEYSANDFLAGS LMOVE a b LEFT LEFT", "[[a [RW access delete]] [b [RW insert]]]"),
        ("COMMAND GETKEYSANDFLAGS PING a", "ERR The command has no key arguments"),
        ("DEBUG OBJECT nothing", "ERR no such key"),
    ] {
        assert_eq!(client.ask(command), answer);
    }
    assert!(client.ask("DEBUG OBJECT").starts_with("ERR "));
    let number = client.ask("DEBUG OBJECT number");
    assert!(
        number.starts_with("Value at:0x")
            && number.contains(" refcount:1 encoding:int serializedlength:"),
        "{number}"
    );
    assert!(client.ask("DEBUG OBJECT list").contains(" encoding:listpack "));
    let info = client.ask("INFO everything");
    for field in [
        "instantaneous_ops_per_sec:",
        "used_memory_rss:",
        "lazyfree_pending_objects:0",
        "lazyfreed_objects:0",
        "cluster_enabled:0",
        "tracking_clients:0",
        "used_cpu_sys_children:",
    ] {
        assert!(info.contains(field), "{field} in {info}");
    }
    let closed = Running::start();
    let text = "ERR DEBUG command not allowed. Start the server with --debug-command to allow it";
    assert_eq!(closed.client().ask("DEBUG OBJECT number"), text);
}
