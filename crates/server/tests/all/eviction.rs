//! A server as a cache: keys are evicted when its pool is full.

use crate::common::{Client, Random, Running, encode, show};
use perdura_server::EvictionPolicy;
use perdura_testing::times;

const BYTES: u64 = 8 << 20;

fn running(policy: EvictionPolicy) -> Running {
    Running::with(|options| options.eviction(policy).threads(2), BYTES)
}

/// A number in the answer of INFO.
fn info(client: &mut Client, name: &str) -> u64 {
    let text = client.ask("INFO");
    let at = text.find(&format!("{name}:")).unwrap_or_else(|| panic!("no {name} in {text}"));
    let number = text[at + name.len() + 1..].split(|c: char| !c.is_ascii_digit()).next();
    number.expect("a number").parse().expect("a number")
}

fn set(client: &mut Client, key: &str, bytes: usize, how: &str) -> String {
    let value = "v".repeat(bytes);
    client.ask(&format!("SET {key} {value}{how}"))
}

/// Values of all sizes, many times what there is room for, from two clients: none is refused, and what is used stays.
#[test]
fn a_full_cache_refuses_nothing() {
    for policy in
        [EvictionPolicy::AllKeysLru, EvictionPolicy::AllKeysLfu, EvictionPolicy::AllKeysRandom]
    {
        let running = running(policy);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let running = &running;
                scope.spawn(move || {
                    let mut client = running.client();
                    let mut random = Random::new(thread);
                    let (mut looks, mut found) = (0, 0);
                    for number in 0..times(2_000) {
                        let bytes = match random.below(20) {
                            0 => 100_000,
                            1..4 => 10_000,
                            _ => random.below(3_000),
                        };
                        let key = format!("key:{thread}:{number}");
                        assert_eq!(set(&mut client, &key, bytes, ""), "OK", "{policy} {key}");
                        if number % 10 == 0 {
                            let hot = format!("hot:{thread}");
                            looks += 1;
                            found += u64::from(client.ask(&format!("GET {hot}")) == "1");
                            client.ask(&format!("SET {hot} 1"));
                        }
                        match random.below(50) {
                            0 => {
                                drop(client.ask(&format!("RPUSH list:{thread} {number} {number}")))
                            }
                            1 => drop(client.ask(&format!("HSET hash:{thread} {number} {number}"))),
                            _ => {}
                        }
                    }
                    let is_kept =
                        policy == EvictionPolicy::AllKeysRandom || 10 * found >= 8 * looks;
                    assert!(is_kept, "{policy}: {found} of {looks} looks found what is used often");
                });
            }
        });
        let mut client = running.client();
        let (evicted, left) = (info(&mut client, "evicted_keys"), client.ask("DBSIZE"));
        assert!(evicted > 1_000, "{policy}: {evicted} evicted, {left} left");
        let used = info(&mut client, "used_memory");
        assert!((BYTES / 2..=BYTES).contains(&used), "{policy}: {used} bytes used");
        assert!(client.ask("INFO memory").contains(&format!("maxmemory_policy:{policy}")));
        running.check();
    }
}

/// What does not expire is never evicted, and is refused once nothing else can go.
#[test]
fn lasting_keys_are_kept() {
    let running = running(EvictionPolicy::NoEviction);
    let mut client = running.client();
    assert_eq!(client.ask("CONFIG SET maxmemory-policy Volatile-TTL"), "OK");
    assert_eq!(client.ask("CONFIG GET maxmemory-policy"), "[maxmemory-policy volatile-ttl]");
    for number in 0..1_000 {
        assert_eq!(set(&mut client, &format!("lasting:{number}"), 1_000, ""), "OK");
    }
    for number in 0..20_000 {
        let how = format!(" EX {}", 1_000 + number);
        assert_eq!(set(&mut client, &format!("passing:{number}"), 1_000, &how), "OK");
    }
    assert_eq!(client.ask("EXISTS passing:0 passing:19999 lasting:0 lasting:999"), "3");
    let mut count = 1_000;
    loop {
        let answer = set(&mut client, &format!("lasting:{count}"), 1_000, "");
        if answer != "OK" {
            assert!(answer.starts_with("OOM command not allowed"), "{answer}");
            break;
        }
        count += 1;
    }
    assert!(count > 4_000, "{count}");
    for number in 0..count {
        assert_eq!(client.ask(&format!("STRLEN lasting:{number}")), "1000");
    }
    assert_eq!(client.ask("DBSIZE"), count.to_string());
    assert_eq!(
        client.ask("CONFIG SET maxmemory-policy lru"),
        "ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the \
         following: noeviction, allkeys-lru, allkeys-lfu, allkeys-random, volatile-lru, volatile-lfu, volatile-random, \
         volatile-ttl"
    );
    running.check();
}

/// An eviction is a write of the key: to those who watch it, and to those who listen.
#[test]
fn watchers_and_listeners_are_told() {
    let running = running(EvictionPolicy::AllKeysRandom);
    let (mut client, mut other, mut listener) =
        (running.client(), running.client(), running.client());
    assert_eq!(client.ask("CONFIG SET notify-keyspace-events Ee"), "OK");
    listener.ask("SUBSCRIBE __keyevent@0__:evicted");
    assert_eq!(client.ask("SET watched 1"), "OK");
    assert_eq!(client.ask("WATCH watched"), "OK");
    let mut number = 0;
    while other.ask("EXISTS watched") == "1" {
        assert_eq!(set(&mut other, &format!("key:{number}"), 4_000, ""), "OK");
        number += 1;
        assert!(number < 100_000, "it is never evicted");
    }
    for command in ["MULTI", "SET watched 2"] {
        client.ask(command);
    }
    assert_eq!(client.ask("EXEC"), "nil");
    loop {
        let told = show(&listener.receive().expect("an event"));
        assert!(told.contains("__keyevent@0__:evicted"), "{told}");
        if told.contains("watched]") {
            break;
        }
    }
}

/// What can never fit is refused, and nothing goes for it.
#[test]
fn what_never_fits_evicts_nothing() {
    let running = running(EvictionPolicy::AllKeysRandom);
    let mut client = running.client();
    for number in 0..100 {
        assert_eq!(set(&mut client, &format!("key:{number}"), 1_000, ""), "OK");
    }
    for _ in 0..2 {
        let answer = client.ask("SETRANGE huge 20000000 x");
        assert!(answer.starts_with("OOM command not allowed"), "{answer}");
        assert_eq!(client.ask("DBSIZE"), "100");
    }
}

/// The same for what fits only one by one: nothing goes for as much as the arguments say, and for what a script writes, not all.
#[test]
fn what_never_fits_together_evicts_nothing() {
    let running = Running::with(
        |options| options.eviction(EvictionPolicy::AllKeysLru).threads(1).max_request(64 << 20),
        4 * BYTES,
    );
    let mut client = running.client();
    let fill = |client: &mut Client, keys: usize| {
        assert_eq!(client.ask("FLUSHALL"), "OK");
        for number in 0..keys {
            assert_eq!(set(client, &format!("key:{number}"), 20_000, ""), "OK");
        }
        // A part is kept free between turns.
        loop {
            let before = client.ask("DBSIZE");
            std::thread::sleep(std::time::Duration::from_millis(300));
            if client.ask("DBSIZE") == before {
                return before.parse::<u64>().expect("a number");
            }
        }
    };
    let large = "v".repeat(15_000_000);
    let many: Vec<String> = (0..200).map(|n| format!("{n} {}", "v".repeat(300_000))).collect();
    let (two, many) = (format!("MSET a {large} b {large}"), format!("MSET {}", many.join(" ")));
    // There is room for some of it, and for none.
    for keys in [500, 5_000] {
        let before = fill(&mut client, keys);
        for request in [&two, &many] {
            let answer = client.ask(request);
            assert!(answer.starts_with("OOM command not allowed"), "{answer}");
            assert_eq!(client.ask("DBSIZE"), before.to_string());
        }
        assert_eq!(client.ask("MULTI"), "OK");
        for key in ["a", "b"] {
            assert_eq!(client.ask(&format!("SET {key} {large}")), "QUEUED");
        }
        assert!(client.ask("EXEC").starts_with("OOM command not allowed"));
        assert_eq!(client.ask("DBSIZE"), before.to_string());
        let script: &[&[u8]] = &[
            b"EVAL",
            b"for n = 1, 200 do redis.call('SET', 's' .. n, string.rep('v', 300000)) end",
            b"0",
        ];
        let answer = show(&client.call(script));
        assert!(answer.contains("OOM command not allowed"), "{answer}");
        let left: u64 = client.ask("DBSIZE").parse().expect("a number");
        assert!(5 * left > before, "{left} of {before} are left");
    }
    // What fits is done, also when it comes with others.
    fill(&mut client, 5_000);
    let half = "v".repeat(6_000_000);
    assert_eq!(client.ask(&format!("MSET a {half} b {half}")), "OK");
    fill(&mut client, 5_000);
    let piece = "v".repeat(1_000_000);
    for number in 0..40 {
        client.send(&encode(&[b"SET", format!("piece:{number}").as_bytes(), piece.as_bytes()]));
    }
    for _ in 0..40 {
        assert_eq!(show(&client.receive().expect("an answer")), "OK");
    }
    running.check();
}
