//! CLIENT TRACKING, on servers of several threads, to which clients go in turn.

use crate::common::{Client, Frame, Random, Running, await_text, encode, show};
use perdura_testing::{seeds, times};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn start() -> Running {
    Running::with(|options| options.threads(2), 64 << 20)
}

fn received(client: &mut Client) -> String {
    show(&client.receive().expect("a message"))
}

/// A client of the newer protocol that tracks, on a thread, and one on the other thread.
fn pair(server: &Running, options: &str) -> (Client, Client) {
    let (mut tracker, other) = (server.client(), server.client());
    tracker.ask("HELLO 3");
    assert_eq!(tracker.ask(format!("CLIENT TRACKING ON {options}").trim_end()), "OK");
    (tracker, other)
}

#[test]
fn clients_of_all_threads_hear_what_is_invalid() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "");
    let mut beside = server.client();
    for (number, command) in [
        "SET key 1",
        "APPEND key x",
        "DEL key",
        "HSET key f v",
        "EXPIRE key 100",
        "RENAME key other",
        "LPUSH key a",
        "MULTI",
        "EVAL redis.call('del',KEYS[1]) 1 key",
        "COPY other key",
        "MOVE key 3",
    ]
    .into_iter()
    .enumerate()
    {
        tracker.ask("EXISTS key nothing");
        let writer = if number % 2 == 0 { &mut other } else { &mut beside };
        writer.ask(command);
        if command == "MULTI" {
            writer.ask("SET key 5");
            writer.ask("EXEC");
        }
        assert_eq!(received(&mut tracker), "[invalidate [key]]", "{command}");
        // It is told once.
        writer.ask("SADD elsewhere x");
    }
    assert_eq!(tracker.ask("PING"), "PONG");
    for command in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        // One that is watched is not told of besides.
        beside.ask("SET key 1");
        beside.ask("WATCH key");
        tracker.ask("GET key");
        other.ask(command);
        assert_eq!(received(&mut tracker), "[invalidate nil]", "{command}");
    }
    assert_eq!(tracker.ask("PING"), "PONG");
    // It expires, and nobody asks for it.
    other.ask("SET key 1 PX 30");
    tracker.ask("GET key");
    assert_eq!(received(&mut tracker), "[invalidate [key]]");
    assert_eq!(tracker.ask("GET key"), "nil");
    await_text(&mut other, "INFO clients", "tracking_clients:1");
    drop(tracker);
    await_text(&mut other, "INFO clients", "tracking_clients:0");
    await_text(&mut other, "INFO stats", "tracking_total_keys:0");
}

#[test]
fn options_say_what_is_tracked() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "OPTIN");
    tracker.ask("GET a");
    assert_eq!(tracker.ask("CLIENT CACHING YES"), "OK");
    // Only the next one, though all are sent together.
    tracker.send(&[encode(&[b"GET", b"b"]), encode(&[b"GET", b"c"])].concat());
    assert_eq!([received(&mut tracker), received(&mut tracker)], ["nil", "nil"]);
    other.ask("MSET a 1 b 2 c 3");
    assert_eq!(received(&mut tracker), "[invalidate [b]]");
    // All of a transaction.
    for (command, answer) in [("CLIENT CACHING YES", "OK"), ("MULTI", "OK"), ("GET a", "QUEUED")] {
        assert_eq!(tracker.ask(command), answer);
    }
    assert_eq!(tracker.ask("MGET b c"), "QUEUED");
    assert_eq!(tracker.ask("EXEC"), "[1 [2 3]]");
    tracker.ask("GET d");
    other.ask("MSET a 1 b 2 c 3 d 4");
    for key in ["a", "b", "c"] {
        assert_eq!(received(&mut tracker), format!("[invalidate [{key}]]"));
    }
    // It may be said within, too.
    for (command, answer) in
        [("MULTI", "OK"), ("CLIENT CACHING YES", "QUEUED"), ("GET a", "QUEUED")]
    {
        assert_eq!(tracker.ask(command), answer);
    }
    assert_eq!(tracker.ask("EXEC"), "[OK 1]");
    tracker.ask("GET d");
    other.ask("MSET a 1 d 4");
    assert_eq!(received(&mut tracker), "[invalidate [a]]");
    // It is of what comes after it.
    for command in ["MULTI", "GET d", "CLIENT CACHING YES", "GET a"] {
        tracker.ask(command);
    }
    assert_eq!(tracker.ask("EXEC"), "[4 OK 1]");
    other.ask("MSET a 1 d 4");
    assert_eq!(received(&mut tracker), "[invalidate [a]]");
    assert_eq!(tracker.ask("CLIENT TRACKING OFF"), "OK");
    assert_eq!(tracker.ask("CLIENT TRACKING ON OPTOUT NOLOOP"), "OK");
    assert_eq!(tracker.ask("CLIENT CACHING NO"), "OK");
    tracker.send(&[encode(&[b"GET", b"a"]), encode(&[b"MGET", b"b", b"c"])].concat());
    received(&mut tracker);
    received(&mut tracker);
    tracker.ask("SET b 5");
    other.ask("MSET a 1 b 2 c 3");
    assert_eq!(received(&mut tracker), "[invalidate [c]]");
    assert_eq!(tracker.ask("PING"), "PONG");
}

#[test]
fn scripts_remember_the_keys_that_their_commands_read() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "");
    let script =
        "redis.call('get',KEYS[1]) redis.call('set',KEYS[2],1) return redis.call('get',KEYS[3])";
    tracker.call(&[b"EVAL", script.as_bytes(), b"4", b"a", b"b", b"c", b"d"]);
    // Those that were not declared, too. Nobody knows whether they were being written meanwhile.
    tracker.call(&[b"EVAL_RO", b"return redis.call('get','e')", b"0"]);
    assert_eq!(received(&mut tracker), "[invalidate [e]]");
    other.ask("MSET a 1 b 2 c 3 d 4 e 5");
    assert_eq!(received(&mut tracker), "[invalidate [a]]");
    assert_eq!(received(&mut tracker), "[invalidate [c]]");
    assert_eq!(tracker.ask("PING"), "PONG");
}

/// A transaction writes before anybody tracks, and commits after a client has read the old value.
#[test]
fn the_first_client_that_tracks_hears_of_writes_under_way() {
    let server = start();
    let (mut writer, mut other) = (server.client(), server.client());
    for write in ["redis.call('set',KEYS[1],'new')", "redis.call('flushdb')"] {
        let script = format!("{write} local n=0 while n<1000000 do n=n+1 end");
        let mut is_seen = false;
        for _ in 0..50 {
            other.ask("SET k old");
            other.ask("HELLO 3");
            writer.send(&encode(&[b"EVAL", script.as_bytes(), b"1", b"k"]));
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(other.ask("CLIENT TRACKING ON BCAST"), "OK");
            if other.ask("GET k") == "old" {
                let message = received(&mut other);
                assert!(["[invalidate nil]", "[invalidate [k]]"].contains(&message.as_str()));
                is_seen |= message == "[invalidate nil]";
            }
            writer.receive();
            other.ask("RESET");
            if is_seen {
                break;
            }
        }
        println!("{write}: a write was under way: {is_seen}");
    }
}

#[test]
fn prefixes_are_told_of_in_one_message_for_each_transaction() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "BCAST PREFIX a PREFIX bc NOLOOP");
    other.send(
        &[&b"MULTI"[..], b"MSET a1 1 b 2 bc 3 c 4 a0 5", b"DEL a1", b"EXEC"]
            .map(|line| encode(&line.split(|byte| *byte == b' ').collect::<Vec<_>>()))
            .concat(),
    );
    (0..4).for_each(|_| drop(other.receive()));
    assert_eq!(received(&mut tracker), "[invalidate [a0 a1]]");
    assert_eq!(received(&mut tracker), "[invalidate [bc]]");
    tracker.ask("SET a1 1");
    other.ask("SET ab 1");
    assert_eq!(received(&mut tracker), "[invalidate [ab]]");
    for (command, error) in [
        (
            "BCAST PREFIX ax",
            "ERR Prefix 'ax' overlaps with an existing prefix 'a'. Prefixes for a single client must not overlap.",
        ),
        (
            "BCAST PREFIX x PREFIX xy",
            "ERR Prefix 'x' overlaps with another provided prefix 'xy'. Prefixes for a single client must not overlap.",
        ),
        ("PREFIX x", "ERR PREFIX option requires BCAST mode to be enabled"),
        (
            "OPTIN OPTOUT",
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ),
        ("BCAST OPTIN", "ERR OPTIN and OPTOUT are not compatible with BCAST"),
        ("REDIRECT 12345678", "ERR The client ID you want redirect to does not exist"),
        ("PREFIX", "ERR syntax error"),
    ] {
        assert_eq!(tracker.ask(&format!("CLIENT TRACKING ON {command}")), error);
    }
}

#[test]
fn messages_go_to_another_client() {
    let server = start();
    let (mut tracker, mut listener, mut other) =
        (server.client(), server.client(), server.client());
    let id = listener.ask("CLIENT ID");
    assert_eq!(
        listener.ask("SUBSCRIBE __redis__:invalidate"),
        "[subscribe __redis__:invalidate 1]"
    );
    assert_eq!(tracker.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "OK");
    assert_eq!(tracker.ask("CLIENT GETREDIR"), id);
    tracker.ask("MGET a b");
    other.ask("MSET b 1 a 2");
    for key in ["b", "a"] {
        assert_eq!(received(&mut listener), format!("[message __redis__:invalidate [{key}]]"));
    }
    tracker.ask("GET a");
    other.ask("FLUSHALL");
    assert_eq!(received(&mut listener), "[message __redis__:invalidate nil]");
    let line = |other: &mut Client| {
        let list = other.ask("CLIENT LIST");
        list.lines().find(|line| line.contains(&format!("redir={id} "))).map(str::to_owned)
    };
    assert!(line(&mut other).expect("it is listed").contains(" flags=t "));
    tracker.ask("HELLO 3");
    tracker.ask("GET a");
    drop(listener);
    let gone = format!("id={id} ");
    let began = Instant::now();
    while other.ask("CLIENT LIST").lines().any(|line| line.starts_with(&gone)) {
        assert!(began.elapsed() < Duration::from_secs(20), "it is gone");
    }
    other.ask("SET a 1");
    assert_eq!(received(&mut tracker), format!("[tracking-redir-broken {id}]"));
    assert!(line(&mut other).expect("it is listed").contains(" flags=tR "));
    let info = tracker.ask("CLIENT TRACKINGINFO");
    assert_eq!(info, format!("[flags [on broken_redirect] redirect {id} prefixes []]"));
}

/// A client of the test below, and how it tracks.
struct Sharer {
    client: Client,
    modes: &'static str,
    /// The keys that it has written in this round, and those that it was told of, with how often.
    written: BTreeSet<String>,
    told: BTreeMap<String, usize>,
}

impl Sharer {
    fn new(server: &Running, modes: &'static str) -> Self {
        let mut client = server.client();
        client.ask("HELLO 3");
        assert_eq!(client.ask(&format!("CLIENT TRACKING ON {modes}")), "OK");
        Sharer { client, modes, written: BTreeSet::new(), told: BTreeMap::new() }
    }

    /// Sends some requests that write keys, which are not answered yet. Returns how many.
    fn write(&mut self, random: &mut Random, value: &str) -> usize {
        self.written.clear();
        let (count, mut bytes) = (1 + random.below(3), Vec::new());
        for _ in 0..count {
            let mut args = vec!["MSET".to_owned()];
            for _ in 0..1 + random.below(3) {
                let key = random.pick(SHARED).to_string();
                args.extend([key.clone(), value.to_owned()]);
                self.written.insert(key);
            }
            let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
            bytes.extend(encode(&args));
        }
        self.client.send(&bytes);
        count
    }

    /// Receives this many answers, and the messages among them. Returns how many messages.
    fn hear(&mut self, mut answers: usize) -> usize {
        let mut messages = 0;
        while answers > 0 {
            match self.client.receive().expect("an answer") {
                Frame::List(parts) if show(&parts[0]) == "invalidate" => {
                    messages += 1;
                    let Frame::List(keys) = &parts[1] else { panic!("all is invalid") };
                    keys.iter().for_each(|key| *self.told.entry(show(key)).or_default() += 1);
                }
                answer => {
                    assert!(["OK", "PONG"].contains(&show(&answer).as_str()), "{}", show(&answer));
                    answers -= 1;
                }
            }
        }
        messages
    }

    /// Receives the messages of all that was answered before. Returns how many.
    fn hear_all(&mut self) -> usize {
        self.client.send(&encode(&[b"PING"]));
        self.hear(1)
    }

    fn has(&self, mode: &str) -> bool {
        self.modes.split(' ').any(|word| word == mode)
    }

    /// Whether it tracks a key, if it has read it.
    fn tracks(&self, key: &str) -> bool {
        let words: Vec<&str> = self.modes.split(' ').collect();
        let mut prefixes = words.windows(2).filter(|pair| pair[0] == "PREFIX").peekable();
        prefixes.peek().is_none() || prefixes.any(|pair| key.starts_with(pair[1]))
    }
}

/// Keys that several clients write.
const SHARED: &[&str] = &["a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1"];

/// Requests of several clients that come together are one transaction. With NOLOOP each hears of what others have written
/// last, and of nothing else; without it of all.
#[test]
fn of_one_transaction_a_client_hears_what_others_have_written() {
    let options = |options: perdura_server::Options| options.threads(1).debug_command(true);
    let server = Running::with(options, 64 << 20);
    let seed = seeds(42, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let modes =
        ["BCAST NOLOOP", "BCAST NOLOOP PREFIX a PREFIX b1", "BCAST PREFIX b", "NOLOOP", "OPTOUT"];
    let mut sharers = modes.map(|modes| Sharer::new(&server, modes));
    let (mut witness, mut sleeper) = (Sharer::new(&server, "BCAST"), server.client());
    let (wanted, mut rounds, mut together) = (times(40), 0, 0);
    while together < wanted {
        assert!(rounds < 50 * wanted, "requests came together {together} times of {rounds}");
        rounds += 1;
        let all: Vec<&[u8]> = SHARED.iter().map(|key| key.as_bytes()).collect();
        let read = encode(&[&[b"MGET".as_slice()], all.as_slice()].concat());
        for sharer in sharers.iter_mut().filter(|sharer| !sharer.has("BCAST")) {
            sharer.client.send(&read);
            sharer.client.receive().expect("values");
        }
        // The thread serves nobody until all have sent theirs.
        sleeper.send(&encode(&[b"DEBUG", b"SLEEP", b"0.01"]));
        std::thread::sleep(Duration::from_millis(2));
        let mut sent = [0; 5];
        for (number, sharer) in sharers.iter_mut().enumerate() {
            sent[number] = sharer.write(&mut random, &format!("{rounds} {number}"));
        }
        assert_eq!(show(&sleeper.receive().expect("an answer")), "OK");
        for (sharer, sent) in sharers.iter_mut().zip(sent) {
            sharer.told.clear();
            sharer.hear(sent);
        }
        for sharer in &mut sharers {
            sharer.hear_all();
        }
        let is_one = witness.hear_all() == 1;
        together += u64::from(is_one);
        let mut value = |key: &&str| show(&sleeper.call(&[b"GET", key.as_bytes()]));
        let values: BTreeMap<&str, String> = SHARED.iter().map(|key| (*key, value(key))).collect();
        for (number, sharer) in sharers.iter().enumerate() {
            let own = format!("{rounds} {number}");
            for key in SHARED.iter().filter(|key| sharer.tracks(key)) {
                let wrote = |one: &&Sharer| one.written.contains(*key);
                let by_it = wrote(&sharer);
                let by_others = sharers.iter().filter(wrote).count() > usize::from(by_it);
                let is_last = by_it && values[key] == own;
                // How often it is told, if all of it was one transaction: an unsure count is `None`.
                let expected = match (by_it, by_others) {
                    (false, false) => Some(0),
                    (false, true) => Some(1),
                    (true, _) if !sharer.has("NOLOOP") => Some(1),
                    (true, false) => Some(0),
                    // The first one to write it, who is not known, ends its being tracked.
                    (true, true) if !sharer.has("BCAST") => None,
                    (true, true) => Some(usize::from(!is_last)),
                };
                let told = sharer.told.get(*key).copied().unwrap_or_default();
                let is_right = match expected {
                    Some(expected) if is_one => told == expected,
                    Some(0) if by_others => true,
                    Some(expected) => (told > 0) == (expected > 0),
                    None => told <= 1,
                };
                assert!(
                    is_right,
                    "round {rounds}, in one transaction: {is_one}, {}: {key} is told {told} times, and not \
                     {expected:?}; it has written {:?}, and the last value is {} of {own}",
                    sharer.modes, sharer.written, values[key]
                );
            }
            let strange = sharer.told.keys().find(|key| !sharer.tracks(key));
            assert_eq!(strange, None, "{}", sharer.modes);
        }
    }
    println!("{together} of {rounds} rounds were one transaction");
    server.check();
}

/// Keys of the test below.
const KEYS: usize = 48;

type Cache = HashMap<Vec<u8>, Frame>;

fn random_key(random: &mut Random) -> Vec<u8> {
    format!("key{}", random.below(KEYS)).into_bytes()
}

/// Keeps what it reads until it is told that it is invalid, until nobody writes any longer. It writes a little, too: if it
/// tracks `by_prefix`, it keeps that as well.
fn read_what_is_missing(
    (tracker, by_prefix): (&mut Client, bool),
    cache: &mut Cache,
    ends: &AtomicBool,
    seed: u64,
) {
    let mut random = Random::new(seed);
    let mut writes = 0;
    while !ends.load(Ordering::SeqCst) {
        if writes < 6 && random.below(4) == 0 {
            writes += 1;
            let (key, value) = (random_key(&mut random), format!("{seed}+{writes}").into_bytes());
            ask(tracker, cache, &[b"SET", &key, &value]);
            // What it writes by itself is not tracked as what it reads is.
            match by_prefix {
                true => drop(cache.insert(key, Frame::Text(value))),
                false => drop(cache.remove(&key)),
            }
        }
        let wanted: Vec<Vec<u8>> =
            (0..1 + random.below(KEYS)).map(|_| random_key(&mut random)).collect();
        let missing: Vec<&[u8]> =
            wanted.iter().filter(|key| !cache.contains_key(*key)).map(Vec::as_slice).collect();
        if missing.is_empty() {
            ask(tracker, cache, &[b"PING"]);
            continue;
        }
        let args: Vec<&[u8]> =
            [b"MGET".as_slice()].into_iter().chain(missing.iter().copied()).collect();
        let Frame::List(values) = ask(tracker, cache, &args) else { panic!("values") };
        assert_eq!(values.len(), missing.len());
        cache.extend(missing.into_iter().map(<[u8]>::to_vec).zip(values));
    }
}

/// Writes some keys, in all ways.
fn write_some(writer: &mut Client, seed: u64) {
    let mut random = Random::new(seed);
    for number in 0..40 {
        let (key, other) = (random_key(&mut random), random_key(&mut random));
        // Reading takes so long that others write meanwhile.
        let value = format!("{seed}-{number}-{}", "x".repeat(8000)).into_bytes();
        let script = b"redis.call('set',KEYS[1],ARGV[1]) return redis.call('get',KEYS[2])";
        match random.below(40) {
            0..6 => drop(writer.call(&[b"DEL", &key])),
            6..10 => drop(writer.call(&[b"SET", &key, &value, b"PX", b"2"])),
            10..14 => drop(writer.call(&[b"MSET", &key, &value, &other, &value])),
            14..18 => drop(writer.call(&[b"EVAL", script, b"2", &key, &other, &value])),
            18..22 => drop(writer.call(&[b"RENAME", &key, &other])),
            22..25 => {
                writer.call(&[b"MULTI"]);
                writer.call(&[b"APPEND", &key, &value]);
                writer.call(&[b"SET", &other, &value]);
                writer.call(&[b"EXEC"]);
            }
            25 => drop(writer.call(&[b"FLUSHDB"])),
            _ => drop(writer.call(&[b"SET", &key, &value])),
        }
    }
}

/// Clients that keep what they read, and forget what they are told of, have in the end what the server has, whatever others
/// have written meanwhile.
///
/// A client asks for nothing that it has, and in a round a key is written a few times only: no later message, and no later
/// look, makes up for a message that was left out.
#[test]
fn nobody_is_left_with_an_old_value() {
    let server = Running::with(|options| options.threads(3), 64 << 20);
    let mut other = server.client();
    let kinds = ["", " NOLOOP", " BCAST", " BCAST NOLOOP", " BCAST NOLOOP PREFIX key", ""];
    let mut trackers: Vec<(Client, Cache)> =
        kinds.iter().map(|_| (server.client(), Cache::new())).collect();
    for ((tracker, _), kind) in trackers.iter_mut().zip(kinds) {
        tracker.ask("HELLO 3");
        assert_eq!(tracker.ask(&format!("CLIENT TRACKING ON{kind}")), "OK");
    }
    let mut writers: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for round in 0..times(60) {
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for ((number, (tracker, cache)), kind) in (0..).zip(&mut trackers).zip(kinds) {
                let (ends, tracker) = (&ends, (tracker, kind.contains("BCAST")));
                let seed = 10 * round + number;
                scope.spawn(move || read_what_is_missing(tracker, cache, ends, seed));
            }
            let writing: Vec<_> = (0..)
                .zip(&mut writers)
                .map(|(number, writer)| {
                    scope.spawn(move || write_some(writer, 10 * round + number))
                })
                .collect();
            writing.into_iter().for_each(|writing| writing.join().expect("it writes"));
            ends.store(true, Ordering::SeqCst);
        });
        for ((tracker, cache), kind) in trackers.iter_mut().zip(kinds) {
            let began = Instant::now();
            // Messages are under way, and keys expire.
            while let Some((key, value, kept)) = first_difference(tracker, cache, &mut other) {
                assert!(
                    began.elapsed() < Duration::from_secs(5),
                    "round {round}, a client that tracks{kind}: {key} is {value}, and it has {kept}"
                );
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    server.check();
}

/// A key of which a client keeps another value than the server has, both values, if there is one.
fn first_difference(
    tracker: &mut Client,
    cache: &mut Cache,
    other: &mut Client,
) -> Option<(String, String, String)> {
    ask(tracker, cache, &[b"PING"]);
    let brief = |frame: &Frame| show(frame).chars().take(20).collect();
    cache.iter().find_map(|(key, kept)| {
        let value = other.call(&[b"GET", key]);
        (value != *kept)
            .then(|| (String::from_utf8_lossy(key).into_owned(), brief(&value), brief(kept)))
    })
}

/// A request's answer; what is invalid is forgotten.
fn ask(client: &mut Client, cache: &mut Cache, args: &[&[u8]]) -> Frame {
    client.send(&encode(args));
    loop {
        let frame = client.receive().expect("an answer");
        let Frame::List(parts) = &frame else { return frame };
        if parts.first() != Some(&Frame::Text(b"invalidate".to_vec())) {
            return frame;
        }
        match &parts[1] {
            Frame::Null => cache.clear(),
            Frame::List(keys) => {
                for key in keys {
                    let Frame::Text(key) = key else { panic!("a key: {key:?}") };
                    cache.remove(key);
                }
            }
            other => panic!("keys: {other:?}"),
        }
    }
}

#[test]
fn the_table_of_keys_has_a_limit() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "");
    for number in 0..50 {
        tracker.ask(&format!("GET key{number}"));
    }
    await_text(&mut other, "INFO stats", "tracking_total_keys:50\r");
    assert_eq!(other.ask("CONFIG SET tracking-table-max-keys 20"), "OK");
    let mut told: Vec<String> = (0..30).map(|_| received(&mut tracker)).collect();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 30);
    await_text(&mut other, "INFO stats", "tracking_total_keys:20\r");
    let request: Vec<Vec<u8>> = (0..100).map(|number| format!("k{number}").into_bytes()).collect();
    let args: Vec<&[u8]> =
        [b"MGET".as_slice()].into_iter().chain(request.iter().map(Vec::as_slice)).collect();
    tracker.call(&args);
    (0..100).for_each(|_| assert!(received(&mut tracker).starts_with("[invalidate ")));
    assert_eq!(tracker.ask("PING"), "PONG");
}
