//! A write is not refused while the pool has room: deleted values are freed for it first.

use crate::common::{Client, Frame, Running, encode, show, without_times};

/// Bytes of the pool.
fn size() -> u64 {
    perdura_testing::times(32) << 20
}

/// The answers to commands that are sent at once.
fn all(client: &mut Client, commands: &[Vec<Vec<u8>>]) -> Vec<String> {
    let mut bytes = Vec::new();
    for command in commands {
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        bytes.extend(encode(&args));
    }
    client.send(&bytes);
    commands.iter().map(|_| show(&client.receive().expect("an answer"))).collect()
}

/// Sets keys to values of `len` bytes until one is refused: how many there are.
fn fill(client: &mut Client, len: usize) -> usize {
    let value = vec![b'v'; len];
    let set =
        |index: usize| vec![b"SET".to_vec(), format!("key:{index}").into_bytes(), value.clone()];
    let mut count = 0;
    loop {
        let batch: Vec<_> = (count..count + 100).map(set).collect();
        let done = all(client, &batch).iter().filter(|answer| *answer == "OK").count();
        count += done;
        if done < batch.len() {
            return count;
        }
    }
}

#[test]
fn after_flushall_there_is_room_at_once() {
    let running = Running::with(|options| options.threads(2), size());
    let (mut client, mut other) = (running.client(), running.client());
    // So the garbage list finds a place in the page of its block, even if no page is kept for it.
    client.ask("ZADD one 1 member");
    let first = fill(&mut client, 1_000);
    for round in 0..2 {
        assert_eq!(client.ask("FLUSHALL"), "OK");
        assert_eq!(client.ask(&format!("SET key {}", "v".repeat(1_000))), "OK");
        let mut add: Vec<Vec<u8>> = vec![b"ZADD".to_vec(), b"set".to_vec()];
        for member in 0..2_000 {
            add.extend([member.to_string().into_bytes(), format!("member:{member}").into_bytes()]);
        }
        let args: Vec<&[u8]> = add.iter().map(Vec::as_slice).collect();
        assert_eq!(other.call(&args), Frame::Integer(2_000), "round {round}");
        let again = fill(&mut client, 1_000);
        // The set takes the room of some hundred values, and the last batch may be cut short anywhere.
        assert!(again + 700 > first, "{again} values after FLUSHALL, {first} before");
    }
    assert_eq!(client.ask("FLUSHALL"), "OK");
    assert_eq!(running.check().keys, 0);
}

/// A command that room is made for is run more than once, and is one call all the same.
#[test]
fn a_command_that_waits_for_room_is_one_call() {
    let running = Running::with(|options| options.threads(1), size());
    let mut client = running.client();
    fill(&mut client, 1_000);
    assert_eq!(client.ask("CONFIG RESETSTAT"), "OK");
    let set = |index: usize| vec![b"SET".to_vec(), index.to_string().into_bytes(), vec![0; 1_000]];
    let mut commands = vec![vec![b"FLUSHALL".to_vec()]];
    commands.extend((0..5_000).map(set));
    assert!(all(&mut client, &commands).iter().all(|answer| answer == "OK"));
    let info = without_times(&client.ask("INFO commandstats"));
    assert!(info.contains("cmdstat_set:calls=5000,rejected_calls=0,failed_calls=0"), "{info}");
}

/// So are the commands of an EXEC that is done again for one of them.
#[test]
fn an_exec_that_waits_for_room_is_one_call_of_each() {
    let running = Running::with(|options| options.threads(1), size());
    let mut client = running.client();
    fill(&mut client, 1_000);
    assert_eq!(client.ask("CONFIG RESETSTAT"), "OK");
    let set = |index: usize| vec![b"SET".to_vec(), index.to_string().into_bytes(), vec![0; 1_000]];
    let mut commands = vec![vec![b"FLUSHALL".to_vec()], set(0), vec![b"MULTI".to_vec()]];
    commands.push(vec![b"HGET".to_vec(), b"0".to_vec(), b"field".to_vec()]);
    commands.extend((0..2_000).map(set));
    commands.push(vec![b"EXEC".to_vec()]);
    let answers = all(&mut client, &commands);
    let exec = answers.last().expect("an answer");
    assert!(exec.contains("WRONGTYPE") && !exec.contains("OOM"), "{}", &exec[..200]);
    let info = without_times(&client.ask("INFO everything"));
    for counted in [
        "cmdstat_set:calls=2001,rejected_calls=0,failed_calls=0",
        "cmdstat_hget:calls=1,rejected_calls=0,failed_calls=1",
        "errorstat_WRONGTYPE:count=1",
    ] {
        assert!(info.contains(counted), "{counted} is not in {info}");
    }
}

/// Garbage of any size is freed without a byte being allocated.
#[test]
fn large_collections_are_freed_where_nothing_is_left() {
    let running = Running::with(|options| options.threads(1), size());
    let mut client = running.client();
    let mut command = vec![b"HSET".to_vec(), b"hash".to_vec()];
    for field in 0..20_000 {
        command.extend([format!("field:{field}").into_bytes(), vec![b'v'; 40]]);
    }
    all(&mut client, &[command]);
    for set in 0..20 {
        let mut command = vec![b"ZADD".to_vec(), format!("set:{set}").into_bytes()];
        for member in 0..500 {
            command.extend([
                member.to_string().into_bytes(),
                format!("a longer member:{member:020}").into_bytes(),
            ]);
        }
        all(&mut client, &[command]);
    }
    let first = fill(&mut client, 100);
    assert_eq!(client.ask("FLUSHALL"), "OK");
    let again = fill(&mut client, 100);
    assert!(again > first, "{again} values after FLUSHALL, {first} before");
    running.check();
}

/// Bytes of memory that Redis 7.0.15 uses for a key of 16 bytes and a value of so many: `used_memory` of INFO,
/// before and after 200,000, 200,000, 100,000, 20,000 and 20,000 keys.
const REDIS: [(usize, f64); 5] =
    [(10, 106.7), (100, 202.7), (1_000, 1_120.1), (5_000, 5_214.8), (10_000, 10_341.4)];

#[test]
fn a_key_uses_little_more_than_redis_has_for_it() {
    let running = Running::with(|options| options.threads(1), 128 << 20);
    let mut client = running.client();
    let used = |client: &mut Client| {
        let text = client.ask("INFO memory");
        let line = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.expect("a line of INFO").trim().parse::<u64>().expect("a number")
    };
    for (len, redis) in REDIS {
        let (value, before) = (vec![b'v'; len], used(&mut client));
        let count = (4_000_000 / len).clamp(1_000, 60_000);
        let set = |key: usize| {
            vec![b"SET".to_vec(), format!("{len:05}:{key:010}").into_bytes(), value.clone()]
        };
        for first in (0..count).step_by(500) {
            let batch: Vec<_> = (first..count.min(first + 500)).map(set).collect();
            assert!(all(&mut client, &batch).iter().all(|answer| answer == "OK"));
        }
        let each = (used(&mut client) - before) as f64 / count as f64;
        println!("{len} bytes: {each:.1} a key, Redis {redis:.1}");
        assert!(each <= 1.2 * redis, "{len} bytes take {each:.1}, and Redis's {redis:.1}");
    }
}
