//! Clients that wait for a key to be filled: on a server of two threads, to which they go in turn.

use crate::common::{Client, Random, Running, encode, show};
use perdura_testing::{seeds, times};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn words(command: &str) -> Vec<u8> {
    let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    encode(&args)
}

/// Sends a command that waits, and returns when INFO counts so many clients that do.
fn wait(server: &Running, client: &mut Client, command: &str, count: usize) {
    client.send(&words(command));
    until_blocked(server, count);
}

fn until_blocked(server: &Running, count: usize) {
    let (mut client, start) = (server.client(), Instant::now());
    while blocked(&mut client) != count {
        assert!(start.elapsed() < Duration::from_secs(20), "{count} clients should wait");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn blocked(client: &mut Client) -> usize {
    let info = client.ask("INFO clients");
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
    line.expect("INFO has it").trim_end().parse().expect("a number")
}

fn received(client: &mut Client) -> String {
    show(&client.receive().expect("an answer"))
}

fn start() -> Running {
    Running::with(|options| options.threads(2), 64 << 20)
}

#[test]
fn clients_are_served_in_their_order() {
    let server = start();
    let mut waiters: Vec<Client> = (0..6).map(|_| server.client()).collect();
    for (index, client) in waiters.iter_mut().enumerate() {
        let command =
            ["BLPOP none list 0", "BRPOP list none 0", "BLMPOP 0 2 x list LEFT"][index % 3];
        wait(&server, client, command, index + 1);
    }
    let mut client = server.client();
    // All in one transaction: the first clients have theirs before the list is seen again.
    assert_eq!(client.ask("RPUSH list a b c d"), "4");
    assert_eq!(client.ask("EXISTS list"), "0");
    let mut got = waiters.iter_mut().take(4).map(received);
    assert_eq!(got.next().unwrap(), "[list a]");
    assert_eq!(got.next().unwrap(), "[list d]");
    assert_eq!(got.next().unwrap(), "[list [b]]");
    assert_eq!(got.next().unwrap(), "[list c]");
    drop(got);
    assert_eq!(client.ask("LPUSH list e"), "1");
    assert_eq!(received(&mut waiters[4]), "[list e]");
    until_blocked(&server, 1);
    // Clients that were served go on.
    assert_eq!(waiters[0].ask("LPUSH list f g h"), "3");
    assert_eq!(received(&mut waiters[5]), "[list [h]]");
    assert_eq!(client.ask("LRANGE list 0 -1"), "[g f]");
    until_blocked(&server, 0);
    server.check();
}

#[test]
fn a_list_that_is_there_is_not_waited_for() {
    let server = start();
    let mut client = server.client();
    for (command, reply) in [
        ("RPUSH a 1 2 3 4 5 6", "6"),
        ("BLPOP none a 0", "[a 1]"),
        ("BRPOP a none 1.5", "[a 6]"),
        ("BLMOVE a b LEFT RIGHT 0", "2"),
        ("BRPOPLPUSH a b 0", "5"),
        ("BLMPOP 0 2 none a RIGHT COUNT 9", "[a [4 3]]"),
        ("LRANGE b 0 -1", "[5 2]"),
        ("ZADD z 1 a 2 b 3 c", "3"),
        ("BZPOPMIN none z 0", "[z a 1]"),
        ("BZPOPMAX z 0", "[z c 3]"),
        ("BZMPOP 0 1 z MIN COUNT 3", "[z [[b 2]]]"),
        ("ZMPOP 1 z MAX", "nil"),
        ("BLPOP a x", "ERR timeout is not a float or out of range"),
        ("BLPOP a -1", "ERR timeout is negative"),
        ("BLPOP a 9223372036854775807", "ERR timeout is out of range"),
        ("BLPOP a inf", "ERR timeout is out of range"),
        ("BLMOVE a b UP LEFT 0", "ERR syntax error"),
        ("BLMPOP x 1 a LEFT", "ERR timeout is not a float or out of range"),
        ("BLMPOP 0 0 a LEFT", "ERR numkeys should be greater than 0"),
        ("SET s v", "OK"),
        ("BLPOP s b 0", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        (
            "BLMOVE b s LEFT LEFT 0",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("BZPOPMIN b 0", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BLPOP b s 0", "[b 5]"),
    ] {
        assert_eq!(client.ask(command), reply, "{command}");
    }
}

#[test]
fn a_wait_ends_in_time() {
    let server = start();
    let mut client = server.client();
    for command in
        ["BLPOP a 0.2", "BLMOVE a b LEFT LEFT 0.2", "BLMPOP 0.2 1 a LEFT", "BZPOPMIN a 0.2"]
    {
        let start = Instant::now();
        assert_eq!(client.ask(command), "nil", "{command}");
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(190), "{command}: {took:?}");
        assert!(took < Duration::from_secs(5), "{command}: {took:?}");
    }
    // What a client asks for behind it is done afterwards, in order.
    client.send(&[words("BLPOP a 0.1"), words("RPUSH a 1"), words("BLPOP a 0")].concat());
    assert_eq!(received(&mut client), "nil");
    assert_eq!(received(&mut client), "1");
    assert_eq!(received(&mut client), "[a 1]");
    until_blocked(&server, 0);
}

#[test]
fn transactions_do_not_wait() {
    let server = start();
    let (mut client, mut waiter) = (server.client(), server.client());
    for command in ["MULTI", "BLPOP a 0", "BLMOVE a b LEFT LEFT 0", "BZMPOP 0 1 z MIN"] {
        client.ask(command);
    }
    assert_eq!(client.ask("EXEC"), "[nil nil nil]");
    wait(&server, &mut waiter, "BLPOP list 0", 1);
    // What is gone at the end was never there.
    for command in ["MULTI", "LPUSH list a", "DEL list"] {
        client.ask(command);
    }
    assert_eq!(client.ask("EXEC"), "[1 1]");
    for command in ["MULTI", "LPUSH list a", "DEL list", "SET list v"] {
        client.ask(command);
    }
    assert_eq!(client.ask("EXEC"), "[1 1 OK]");
    assert_eq!(client.ask("DEL list"), "1");
    for command in ["MULTI", "LPUSH list a", "LPUSH list b", "LLEN list"] {
        client.ask(command);
    }
    assert_eq!(client.ask("EXEC"), "[1 2 2]");
    assert_eq!(received(&mut waiter), "[list b]");
    assert_eq!(client.ask("LRANGE list 0 -1"), "[a]");
    // An EXEC that fails serves nobody.
    wait(&server, &mut waiter, "BLPOP other 0", 1);
    let mut third = server.client();
    for command in ["WATCH key", "MULTI", "RPUSH other x"] {
        client.ask(command);
    }
    third.ask("SET key v");
    assert_eq!(client.ask("EXEC"), "nil");
    assert_eq!(client.ask("EXISTS other"), "0");
    assert_eq!(client.ask("RPUSH other y"), "1");
    assert_eq!(received(&mut waiter), "[other y]");
}

#[test]
fn every_way_of_filling_a_key_counts() {
    let server = start();
    let (mut client, mut waiter) = (server.client(), server.client());
    for (before, command, reply) in [
        ("RPUSH from a", "RENAME from list", "OK"),
        ("RPUSH from a", "RENAMENX from list", "1"),
        ("RPUSH source a", "COPY source list", "1"),
        ("RPUSH from a", "RPOPLPUSH from list", "a"),
        ("RPUSH from a", "LMOVE from list LEFT RIGHT", "a"),
        ("PING", "LPUSH list a", "1"),
        ("PING", "RPUSH list a", "1"),
    ] {
        wait(&server, &mut waiter, "BLPOP list 0", 1);
        client.ask(before);
        assert_eq!(client.ask(command), reply);
        assert_eq!(received(&mut waiter), "[list a]", "{command}");
    }
    wait(&server, &mut waiter, "BLPOP list 0", 1);
    client.ask("SELECT 1");
    client.ask("RPUSH list b");
    assert_eq!(client.ask("MOVE list 0"), "1");
    assert_eq!(received(&mut waiter), "[list b]");
    client.ask("SELECT 0");
    // Another type is not what it waits for.
    wait(&server, &mut waiter, "BLPOP list 0", 1);
    client.ask("ZADD list 1 a");
    client.ask("DEL list");
    client.ask("SET list a");
    client.ask("DEL list");
    client.ask("RPUSH list c");
    assert_eq!(received(&mut waiter), "[list c]");
    for (command, reply) in [
        ("BZPOPMIN none z 0", "[z a 1.5]"),
        ("BZPOPMAX z none 0", "[z b 2]"),
        ("BZMPOP 0 1 z MAX COUNT 5", "[z [[b 2] [a 1.5]]]"),
    ] {
        wait(&server, &mut waiter, command, 1);
        client.ask("ZADD z 1.5 a 2 b");
        assert_eq!(received(&mut waiter), reply);
        client.ask("DEL z");
    }
}

#[test]
fn moves_fill_other_keys() {
    let server = start();
    let mut waiters: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for (index, client) in waiters.iter_mut().enumerate() {
        let command =
            ["BRPOPLPUSH a b 0", "BLMOVE b c LEFT LEFT 0", "BLPOP c 0", "BRPOPLPUSH a a 0"][index];
        wait(&server, client, command, index + 1);
    }
    let mut client = server.client();
    assert_eq!(client.ask("RPUSH a x"), "1");
    assert_eq!(received(&mut waiters[0]), "x");
    assert_eq!(received(&mut waiters[1]), "x");
    assert_eq!(received(&mut waiters[2]), "[c x]");
    assert_eq!(client.ask("EXISTS a b c"), "0");
    assert_eq!(client.ask("RPUSH a y"), "1");
    assert_eq!(received(&mut waiters[3]), "y");
    assert_eq!(client.ask("LRANGE a 0 -1"), "[y]");
    client.ask("DEL a");
    // One whose target is of another type gets the error, and the next one the element.
    client.ask("SET s v");
    wait(&server, &mut waiters[0], "BRPOPLPUSH a s 0", 1);
    wait(&server, &mut waiters[1], "BLPOP a 0", 2);
    client.ask("RPUSH a z");
    assert!(received(&mut waiters[0]).starts_with("WRONGTYPE"));
    assert_eq!(received(&mut waiters[1]), "[a z]");
    until_blocked(&server, 0);
}

#[test]
fn clients_that_are_gone_take_nothing() {
    let server = start();
    let mut client = server.client();
    for round in 0..20 {
        let mut gone = server.client();
        wait(&server, &mut gone, "BLPOP list 0", 1);
        match round % 3 {
            0 => drop(gone),
            1 => gone.shut(),
            _ => {
                let id = waiting_id(&mut client);
                assert_eq!(client.ask(&format!("CLIENT KILL ID {id}")), "1");
                assert!(gone.receive().is_none());
            }
        }
        until_blocked(&server, 0);
        assert_eq!(client.ask("RPUSH list a"), "1");
        assert_eq!(client.ask("LPOP list"), "a");
        // One that hangs up at once.
        let mut gone = server.client();
        gone.send(&words("BLPOP list 0"));
        drop(gone);
        until_blocked(&server, 0);
    }
}

/// The element that is pushed right behind CLIENT KILL is not taken for the client that it has ended.
#[test]
fn a_client_that_is_killed_takes_nothing_at_once() {
    let server = start();
    let mut client = server.client();
    for _ in 0..20 {
        let mut killed = server.client();
        wait(&server, &mut killed, "BLPOP list 0", 1);
        let id = waiting_id(&mut client);
        let mut both = words(&format!("CLIENT KILL ID {id}"));
        both.extend(words("RPUSH list a"));
        client.send(&both);
        assert_eq!([received(&mut client), received(&mut client)], ["1", "1"]);
        assert_eq!(client.ask("LPOP list"), "a");
        assert!(killed.receive().is_none());
        until_blocked(&server, 0);
    }
}

/// The number of a client that waits.
fn waiting_id(client: &mut Client) -> String {
    let start = Instant::now();
    loop {
        let list = client.ask("CLIENT LIST");
        // It is counted a moment before its flag is set.
        if let Some(line) = list.lines().find(|line| line.contains("flags=b")) {
            return line["id=".len()..].split(' ').next().unwrap().to_owned();
        }
        assert!(start.elapsed() < Duration::from_secs(20), "one waits");
    }
}

#[test]
fn a_wait_can_be_ended() {
    let server = start();
    let (mut client, mut waiter) = (server.client(), server.client());
    for (reason, reply) in [
        ("", "nil"),
        (" TIMEOUT", "nil"),
        (" ERROR", "UNBLOCKED client unblocked via CLIENT UNBLOCK"),
    ] {
        wait(&server, &mut waiter, "BLPOP list 0", 1);
        let id = waiting_id(&mut client);
        assert_eq!(client.ask(&format!("CLIENT UNBLOCK {id}{reason}")), "1");
        assert_eq!(received(&mut waiter), reply);
        assert_eq!(client.ask(&format!("CLIENT UNBLOCK {id}")), "0");
    }
    assert_eq!(client.ask("CLIENT UNBLOCK 999999"), "0");
    assert_eq!(client.ask("CLIENT UNBLOCK -1"), "0");
    assert_eq!(client.ask("CLIENT UNBLOCK x"), "ERR value is not an integer or out of range");
    let wrong = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
    assert_eq!(client.ask("CLIENT UNBLOCK 1 SOON"), wrong);
    assert_eq!(waiter.ask("PING"), "PONG");
}

#[test]
fn replies_are_in_the_client_s_own_protocol_and_only_if_wanted() {
    let server = start();
    let (mut client, mut waiter) = (server.client(), server.client());
    waiter.ask("HELLO 3");
    wait(&server, &mut waiter, "BZPOPMIN z 0", 1);
    client.ask("ZADD z 1.5 a");
    assert_eq!(waiter.receive().map(|frame| show(&frame)).unwrap(), "[z a 1.5]");
    waiter.send(&[words("CLIENT REPLY SKIP"), words("BLPOP list 0"), words("PING")].concat());
    until_blocked(&server, 1);
    client.ask("RPUSH list a");
    assert_eq!(received(&mut waiter), "PONG");
}

#[test]
fn keys_that_are_waited_for_are_bounded() {
    let server = Running::with(|options| options.max_request(10_000), 64 << 20);
    let mut client = server.client();
    let keys: String = (0..30).map(|number| format!(" {number}")).collect();
    let reply = client.ask(&format!("BLPOP{keys} 0"));
    assert!(reply.contains("see --max-request"), "{reply}");
    let reply = client.ask(&format!("BLPOP{} 0.01", " same".repeat(20)));
    assert_eq!(reply, "nil");
    until_blocked(&server, 0);
}

/// Producers and consumers at random: every element is taken once, or left in the end, each by the first that
/// waits, and nobody waits while there is something for it.
#[test]
fn nothing_is_lost_and_nothing_served_twice() {
    for seed in seeds(1, 3) {
        println!("PERDURA_TEST_SEED={seed}");
        let server = Running::with(|options| options.threads(3), 64 << 20);
        let each = times(300);
        let (taken, popped): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
            let consumers: Vec<_> = (0..6)
                .map(|number| {
                    let (server, mut random) = (&server, Random::new(seed << 8 | number));
                    scope.spawn(move || consume(server, &mut random))
                })
                .collect();
            let producers: Vec<_> = (0..3)
                .map(|number| {
                    let (server, mut random) = (&server, Random::new(seed << 8 | 100 | number));
                    scope.spawn(move || produce(server, &mut random, number, each))
                })
                .collect();
            let popped: Vec<Vec<String>> =
                producers.into_iter().map(|one| one.join().unwrap()).collect();
            let mut client = server.client();
            for _ in 0..6 {
                client.ask("RPUSH a end");
            }
            let taken: Vec<Vec<String>> =
                consumers.into_iter().map(|one| one.join().unwrap()).collect();
            (taken, popped)
        });
        let mut client = server.client();
        let mut all: Vec<String> = taken.into_iter().chain(popped).flatten().collect();
        for key in ["a", "b", "c"] {
            let rest = client.ask(&format!("LRANGE {key} 0 -1"));
            all.extend(rest.trim_matches(['[', ']']).split_whitespace().map(str::to_owned));
        }
        all.retain(|element| element != "end");
        let distinct: BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "an element was taken twice");
        assert_eq!(all.len() as u64, 3 * each, "an element is gone");
        until_blocked(&server, 0);
        server.check();
    }
}

/// Takes elements in several ways until it takes an end. Returns the elements.
fn consume(server: &Running, random: &mut Random) -> Vec<String> {
    let (mut client, mut taken) = (server.client(), Vec::new());
    loop {
        let commands =
            ["BLPOP a b c 0", "BLPOP c a 0", "BRPOP b a 0.01", "BLMPOP 0 2 b a LEFT COUNT 2"];
        let reply = client.ask(random.pick::<&str>(&commands));
        if reply == "nil" {
            continue;
        }
        let mut elements = reply.trim_matches(['[', ']']).split([' ', '[']);
        elements.next();
        let elements: Vec<String> =
            elements.filter(|element| !element.is_empty()).map(str::to_owned).collect();
        let ends = elements.iter().filter(|element| *element == "end").count();
        taken.extend(elements);
        if ends > 0 {
            for _ in 1..ends {
                client.ask("RPUSH a end");
            }
            return taken;
        }
    }
}

/// Makes elements in several ways, and takes some itself. Returns those.
fn produce(server: &Running, random: &mut Random, number: u64, each: u64) -> Vec<String> {
    let (mut client, mut popped) = (server.client(), Vec::new());
    let mut index = 0;
    while index < each {
        let key = *random.pick(&["a", "b", "c"]);
        let element = format!("{number}.{index}");
        index += 1;
        match random.below(5) {
            0 => {
                client.ask("MULTI");
                client.ask(&format!("RPUSH {key} {element}"));
                client.ask("PING");
                client.ask("EXEC");
            }
            1 => {
                client.ask(&format!("RPUSH own:{number} {element}"));
                assert_eq!(client.ask(&format!("LMOVE own:{number} {key} LEFT LEFT")), element);
            }
            2 => match client.ask(&format!("LPOP {key}")) {
                nil if nil == "nil" => index -= 1,
                end if end == "end" => {
                    client.ask("RPUSH a end");
                    index -= 1;
                }
                element => {
                    popped.push(element);
                    index -= 1;
                }
            },
            _ => drop(client.ask(&format!("LPUSH {key} {element}"))),
        }
    }
    popped
}

#[test]
fn readers_of_streams_get_what_comes() {
    let server = start();
    let mut waiters: Vec<Client> = (0..4).map(|_| server.client()).collect();
    let mut client = server.client();
    client.ask("XADD s 1 a 1");
    wait(&server, &mut waiters[0], "XREAD BLOCK 0 STREAMS none s $ $", 1);
    wait(&server, &mut waiters[1], "XREAD COUNT 1 BLOCK 20000 STREAMS s 1", 2);
    wait(&server, &mut waiters[2], "XREAD BLOCK 0 STREAMS s 5", 3);
    // Readers take nothing from each other.
    assert_eq!(client.ask("XADD s 2 b 2"), "2-0");
    assert_eq!(received(&mut waiters[0]), "[[s [[2-0 [b 2]]]]]");
    assert_eq!(received(&mut waiters[1]), "[[s [[2-0 [b 2]]]]]");
    // Another one wants something later, and waits on, whatever the key holds meanwhile.
    until_blocked(&server, 1);
    assert_eq!(client.ask("DEL s"), "1");
    assert_eq!(client.ask("RPUSH s x"), "1");
    assert_eq!(client.ask("DEL s"), "1");
    assert_eq!(client.ask("XADD s 6 c 3"), "6-0");
    assert_eq!(received(&mut waiters[2]), "[[s [[6-0 [c 3]]]]]");
    assert_eq!(waiters[3].ask("XREAD BLOCK 10 STREAMS s $"), "nil");
    assert_eq!(waiters[3].ask("MULTI"), "OK");
    assert_eq!(waiters[3].ask("XREAD BLOCK 0 STREAMS s $"), "QUEUED");
    assert_eq!(waiters[3].ask("EXEC"), "[nil]");
    assert!(waiters[3].ask("HELLO 3").contains("proto"));
    wait(&server, &mut waiters[3], "XREAD BLOCK 0 STREAMS s $", 1);
    assert_eq!(client.ask("XADD s 7 d 4"), "7-0");
    assert_eq!(received(&mut waiters[3]), "[s [[7-0 [d 4]]]]");
    until_blocked(&server, 0);
    server.check();
}

#[test]
fn consumers_share_what_comes() {
    let server = start();
    let mut waiters: Vec<Client> = (0..3).map(|_| server.client()).collect();
    let mut client = server.client();
    assert_eq!(client.ask("XGROUP CREATE s g $ MKSTREAM"), "OK");
    for (index, waiter) in waiters.iter_mut().enumerate() {
        let command = format!("XREADGROUP GROUP g c{index} BLOCK 0 STREAMS s >");
        wait(&server, waiter, &command, index + 1);
    }
    assert_eq!(client.ask("XADD s 1 a 1"), "1-0");
    assert_eq!(received(&mut waiters[0]), "[[s [[1-0 [a 1]]]]]");
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("XADD s 2 a 1"), "QUEUED");
    assert_eq!(client.ask("XADD s 3 a 1"), "QUEUED");
    assert_eq!(client.ask("EXEC"), "[2-0 3-0]");
    assert_eq!(received(&mut waiters[1]), "[[s [[2-0 [a 1]] [3-0 [a 1]]]]]");
    assert_eq!(client.ask("XPENDING s g"), "[3 1-0 3-0 [[c0 1] [c1 2]]]");
    // Each way in which the group can end.
    let gone = "NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option";
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    until_blocked(&server, 1);
    assert_eq!(client.ask("XGROUP DESTROY s g"), "1");
    assert_eq!(received(&mut waiters[2]), gone);
    for (command, told) in [
        ("DEL s", gone),
        ("SET s 1", wrong),
        ("FLUSHALL", gone),
        ("RENAME s t", gone),
        ("PEXPIRE s 1", gone),
        ("FLUSHDB", gone),
    ] {
        client.ask("DEL s");
        assert_eq!(client.ask("XGROUP CREATE s g $ MKSTREAM"), "OK");
        wait(&server, &mut waiters[2], "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", 1);
        client.ask(command);
        assert_eq!(received(&mut waiters[2]), told, "{command}");
        until_blocked(&server, 0);
    }
    server.check();
}
