//! LATENCY, and what else monitors and tools ask a server for.

use crate::common::{Frame, Running, show};

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

/// The part of INFO that names the percentiles of a command's calls, if there are any.
fn percentiles(client: &mut crate::common::Client, command: &str) -> Option<String> {
    let info = client.ask("INFO latencystats");
    let name = format!("latency_percentiles_usec_{command}:");
    info.lines().find_map(|line| Some(line.strip_prefix(&name)?.trim_end().to_owned()))
}

#[test]
fn times_are_counted_unless_that_is_switched_off() {
    let server = start();
    let mut client = server.client();
    assert_eq!(client.ask("CONFIG GET latency-tracking"), "[latency-tracking yes]");
    assert_eq!(client.ask("CONFIG SET latency-tracking no"), "OK");
    client.ask("SET a 1");
    assert_eq!(percentiles(&mut client, "set"), None);
    assert_eq!(client.ask("LATENCY HISTOGRAM set"), "[]");
    assert_eq!(client.ask("CONFIG SET latency-tracking yes"), "OK");
    // The call before was left out for good.
    assert_eq!(client.ask("LATENCY HISTOGRAM set"), "[]");
    for _ in 0..99 {
        client.ask("DEBUG SLEEP 0");
    }
    client.ask("DEBUG SLEEP 0.02");
    let shown = percentiles(&mut client, "debug").expect("percentiles");
    let parts: Vec<_> = shown.split(',').filter_map(|part| part.split_once('=')).collect();
    let [("p50", half), ("p99", _), ("p99.9", most)] = parts.as_slice() else {
        panic!("three percentiles: {shown}")
    };
    let micros = |text: &str| text.parse::<f64>().expect("a number");
    // On a busy machine sleeping for no time may take some.
    assert!(micros(half) < 10_000.0 && (20_000.0..500_000.0).contains(&micros(most)), "{shown}");
    let set = "CONFIG SET latency-tracking-info-percentiles";
    let answer = show(&client.call(&[b"CONFIG", b"SET", &set.as_bytes()[11..], b"0.0 50 100"]));
    assert_eq!(answer, "OK");
    let known = client.ask("CONFIG GET latency-tracking-info-percentiles");
    assert_eq!(known, "[latency-tracking-info-percentiles 0 50 100]");
    let shown = percentiles(&mut client, "debug").expect("percentiles");
    assert!(shown.starts_with("p0=") && shown.contains(",p100="), "{shown}");
    assert!(client.ask(&format!("{set} 101")).contains("should sit between [0.0,100.0]"));
    assert!(client.ask(&format!("{set} x")).contains("Invalid "));
    client.ask("CONFIG RESETSTAT");
    assert_eq!(percentiles(&mut client, "debug"), None);
    // It is no part of INFO unless it is asked for, as in Redis.
    assert!(!client.ask("INFO").contains("# Latencystats"));
}

/// The most that was taken stays when it is given back.
#[test]
fn the_peak_of_memory_is_remembered() {
    let server = start();
    let mut client = server.client();
    let number = |client: &mut crate::common::Client, field: &str| -> u64 {
        let info = client.ask("INFO memory");
        let line = info.lines().find_map(|line| line.strip_prefix(field));
        line.expect("the field").trim_end().parse().expect("a number")
    };
    let before = number(&mut client, "used_memory:");
    client.call(&[b"SET", b"large", &vec![b'x'; 8 << 20]]);
    // The server looks now and then, also if nobody asks.
    std::thread::sleep(std::time::Duration::from_millis(500));
    client.ask("DEL large");
    let began = std::time::Instant::now();
    while number(&mut client, "used_memory:") > before + (4 << 20) {
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "it is not freed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(number(&mut client, "used_memory_peak:") >= before + (8 << 20));
}

/// Each field of a stock server's INFO is here, or docs/redis.md says that it is not.
#[test]
fn fields_of_info_that_are_missing_are_documented() {
    let Some(redis) = crate::migrating::Redis::start() else {
        println!("not tested: there is no redis-server");
        return;
    };
    let server = start();
    let fields = |client: &mut crate::common::Client| -> Vec<String> {
        client.ask("SET a 1");
        let info = client.ask("INFO everything");
        info.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
    };
    let (theirs, ours) =
        (fields(&mut crate::common::Client::connect(redis.address)), fields(&mut server.client()));
    assert!(theirs.len() > 100 && ours.len() > 100);
    let docs = include_str!("../../../../docs/redis.md");
    let paragraph =
        docs.lines().find(|line| line.starts_with("- *Fields of INFO that are not here*"));
    let named: Vec<_> =
        paragraph.expect("a paragraph of them").split('`').skip(1).step_by(2).collect();
    for field in theirs.iter().filter(|field| !ours.contains(field)) {
        assert!(named.contains(&field.as_str()), "{field} is neither here nor documented");
    }
    for field in named {
        assert!(!ours.iter().any(|own| own == field), "{field} is here");
    }
}
