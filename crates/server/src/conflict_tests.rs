//! Which commands of two clients conflict, where transactions run concurrently.

use crate::faults::{Client, Held, Running};
use perdura::EngineKind;

/// How often one of two commands was run again, of which the first is held before its commit until the second is
/// done.
fn conflicts(server: &Running, held: &Held, clients: &mut [Client; 2], commands: [&str; 2]) -> u64 {
    let before = counted(server);
    let [first, second] = clients;
    held.hold(|| first.send(commands[0]));
    let reply = second.ask(commands[1]);
    assert!(!reply.starts_with('-'), "{}: {reply}", commands[1]);
    held.let_go();
    let reply = first.line();
    assert!(!reply.starts_with('-'), "{}: {reply}", commands[0]);
    counted(server) - before
}

/// INFO's count of conflicts.
fn counted(server: &Running) -> u64 {
    let mut client = server.client();
    client.send("INFO stats");
    loop {
        if let Some(count) = client.line().strip_prefix("conflicts:") {
            return count.parse().unwrap();
        }
    }
}

/// Pairs of keys for each command.
const PAIRS: usize = 10;

/// Keys of each kind, enough others that they are counted in lanes, and enough data that sessions allocate from
/// pages of their own.
fn fill(client: &mut Client) {
    let (long, huge) = ("v".repeat(100), "v".repeat(50_000));
    let fields: String = (0..50).map(|n| format!(" {n} {long}")).collect();
    let members: String = (0..50).map(|n| format!(" {n} {n}")).collect();
    for key in 0..2 * PAIRS {
        client.ask(&format!("SET short:{key} 1"));
        client.ask(&format!("SET long:{key} {long}"));
        client.ask(&format!("HSET hash:{key} f {long}"));
        client.ask(&format!("HSET large:{key} f 0{fields}"));
        client.ask(&format!("ZADD set:{key} 0 m{members}"));
        client.ask(&format!("SADD members:{key} 7{fields}"));
        client.ask(&format!("RPUSH list:{key} 7{fields}"));
        client.ask(&format!("XADD stream:{key} * field {long}"));
    }
    for many in 0..360 {
        client.ask(&format!("SET huge:{many} {huge}"));
    }
    for many in 0..50 {
        let pairs: String = (0..100).map(|n| format!(" key:{many}:{n} 1")).collect();
        client.ask(&format!("MSET{pairs}"));
    }
}

/// Commands, each with the kind of its key, and the rest of its arguments.
const COMMANDS: [[&str; 3]; 18] = [
    ["SET", "short", "2"],
    ["INCR", "short", ""],
    ["SET", "long", "A"],
    ["SETRANGE", "long", "50 w"],
    ["HSET", "hash", "f A"],
    ["HSET", "large", "f 2"],
    ["HDEL", "large", "7"],
    ["ZADD", "set", "7 m"],
    ["ZREM", "set", "7"],
    ["SADD", "members", "a"],
    ["SREM", "members", "7"],
    ["RPUSH", "list", "a"],
    ["LPOP", "list", ""],
    ["XADD", "stream", "* f v"],
    ["SET", "new", "1"],
    ["SET", "newlong", "A"],
    ["HSET", "newhash", "f 1"],
    ["DEL", "newhash", ""],
];

#[test]
fn commands_on_different_keys_are_not_in_each_others_way() {
    let (server, held) = Held::new(EngineKind::CcStm);
    let mut clients = [server.client(), server.client()];
    fill(&mut clients[0]);
    for [name, kind, rest] in COMMANDS {
        let command = |n| format!("{name} {kind}:{n} {}", rest.replace('A', &"w".repeat(100)));
        let mut pair = |n: usize| {
            let commands = [command(n), command(n + PAIRS)];
            conflicts(&server, &held, &mut clients, commands.each_ref().map(String::as_str))
        };
        let met: u64 = (0..PAIRS).map(&mut pair).sum();
        println!("{name} {kind}: {met} of {PAIRS}");
        // Two keys may lie in one line, or their lines have one record.
        assert!(met <= PAIRS as u64 / 3, "{name} {kind}: {met} of {PAIRS}");
    }
    server.stop();
}
