//! What COMMAND says of commands, and what is refused when it would be queued, beside Redis.

use super::Redis;
use super::following::client_of;
use crate::common::{Client, Frame, Running, show};

/// Subcommands of Redis 7.0.15 that are not here.
const ABSENT: &[&str] = &[
    "client|help",
    "command|help",
    "config|help",
    "memory|doctor",
    "memory|malloc-stats",
    "memory|purge",
    "memory|stats",
    "script|debug",
];

/// Commands of Redis 7.0.15 that are not here.
const NO_COMMANDS: &[&str] = &[
    "asking",
    "cluster",
    "lolwut",
    "module",
    "pfselftest",
    "readonly",
    "readwrite",
    "restore-asking",
];

/// A line of COMMAND.
struct Line {
    name: String,
    arity: String,
    flags: Vec<String>,
    keys: String,
    parts: Vec<Line>,
}

fn list(frame: &Frame) -> &[Frame] {
    match frame {
        Frame::List(frames) => frames,
        other => panic!("no list: {other:?}"),
    }
}

fn line(frame: &Frame) -> Line {
    let fields = list(frame);
    let mut flags: Vec<String> = list(&fields[2]).iter().map(show).collect();
    flags.sort();
    Line {
        name: show(&fields[0]),
        arity: show(&fields[1]),
        flags,
        keys: fields[3..6].iter().map(show).collect::<Vec<_>>().join(" "),
        parts: fields.get(9).map_or(Vec::new(), |parts| list(parts).iter().map(line).collect()),
    }
}

fn lines(client: &mut Client) -> Vec<Line> {
    list(&client.call(&[b"COMMAND"])).iter().map(line).collect()
}

#[test]
fn commands_have_the_flags_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server");
        return;
    };
    let running = Running::start();
    let (theirs, ours) = (lines(&mut client_of(&redis)), lines(&mut running.client()));
    assert!(theirs.len() > 200);
    let mut differences = Vec::new();
    for their in &theirs {
        let Some(our) = ours.iter().find(|our| our.name == their.name) else {
            if !NO_COMMANDS.contains(&their.name.as_str()) {
                differences.push(format!("{} is not here", their.name));
            }
            continue;
        };
        for (what, our, their_own) in [
            ("flags", our.flags.join(" "), their.flags.join(" ")),
            ("arity", our.arity.clone(), their.arity.clone()),
            ("keys", our.keys.clone(), their.keys.clone()),
        ] {
            // Redis shows the keys of a subcommand with that, which is not shown here.
            let is_apart = what == "keys" && !their.parts.is_empty();
            if our != their_own && !is_apart {
                let name = &their.name;
                differences.push(format!("{what} of {name}: {our:?}, Redis has {their_own:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Queues a request in a MULTI of its own. What it is answered, and what EXEC is if that is an error.
fn queued(client: &mut Client, request: &str) -> String {
    assert_eq!(client.ask("MULTI"), "OK");
    let answer = client.ask(request);
    let is_queued = answer == "QUEUED";
    match client.ask(if is_queued { "DISCARD" } else { "EXEC" }) {
        ended if is_queued => assert_eq!(ended, "OK"),
        ended => assert!(ended.starts_with("EXECABORT"), "{request}: {answer}, then {ended}"),
    }
    answer
}

#[test]
fn what_cannot_be_done_is_not_queued() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server");
        return;
    };
    let running = Running::start();
    let (mut theirs, mut ours) = (client_of(&redis), running.client());
    let mut count = 0;
    for whole in lines(&mut theirs).iter().filter(|whole| !whole.parts.is_empty()) {
        if NO_COMMANDS.contains(&whole.name.as_str()) {
            continue;
        }
        let name = &whole.name;
        let parts = whole.parts.iter().map(|part| part.name.as_str());
        for part in parts.filter(|part| !ABSENT.contains(part)).chain(["|FOO", "|"]) {
            let sub = part.split_once('|').expect("a subcommand").1;
            for extra in 0..6 {
                let request = format!("{name} {sub}{}", " x".repeat(extra));
                let answer = queued(&mut ours, &request);
                assert_eq!(answer, queued(&mut theirs, &request), "{request}");
                // What is refused there is refused everywhere else, too.
                if answer != "QUEUED" {
                    assert_eq!(ours.ask(&request), answer, "{request}");
                    count += 1;
                }
            }
        }
        assert_eq!(queued(&mut ours, name), queued(&mut theirs, name));
    }
    assert!(count > 200, "{count}");
    for part in ABSENT {
        let answer = queued(&mut ours, &part.replace('|', " "));
        assert!(answer.starts_with("ERR unknown subcommand"), "{part}: {answer}");
    }
    // Nothing of a transaction is done that has such a command.
    for request in ["CONFIG GET", "XGROUP CREATE s", "CLIENT SETINFO", "CLIENT NO-TOUCH", "ACL FOO"]
    {
        assert_eq!(ours.ask("MULTI"), "OK");
        assert!(ours.ask(request).starts_with("ERR "), "{request}");
        assert_eq!(ours.ask("SET a 1"), "QUEUED");
        assert!(ours.ask("EXEC").starts_with("EXECABORT"), "{request}");
        assert_eq!(ours.ask("EXISTS a"), "0", "{request}");
    }
}
