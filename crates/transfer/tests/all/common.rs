//! Pools with some of everything in them.

use perdura::collections::{Blob, Bytes, HashMap, OrderedMap, Pair, Total, Vector, kind};
use perdura::source::Source;
use perdura::{EngineKind, Options, Pool, Purpose, Root, Tx};
use perdura_transfer::contents;
use std::collections::BTreeMap;
use std::path::Path;

/// Entries of each collection.
pub(crate) const COUNT: u64 = 300;

/// Goes on to the end.
pub(crate) fn on(_: u64) -> bool {
    true
}

pub(crate) fn create(path: &Path, engine: EngineKind) -> Pool {
    Options::new().engine(engine).size(8 << 20).create(path).expect("a pool")
}

pub(crate) fn source(path: &Path) -> Source {
    contents::open(path).expect("a pool that can be read")
}

fn text(number: u64) -> Vec<u8> {
    let fill = if number.is_multiple_of(3) { 40 } else { number % 20 };
    [vec![b'k'; fill as usize], number.to_string().into_bytes()].concat()
}

/// Makes one collection of each kind.
pub(crate) fn fill_collections(pool: &Pool) {
    fill_some_collections(pool, COUNT);
}

/// The same with so many entries.
pub(crate) fn fill_some_collections(pool: &Pool, count: u64) {
    let mut handle = pool.session().expect("a session");
    handle.transaction(|tx| fill(tx, count)).expect("room");
}

fn fill(tx: &mut dyn Tx, count: u64) -> perdura::Result<()> {
    let map = HashMap::<Bytes, u64>::create(tx)?;
    let ranks = OrderedMap::<Pair<Total, Bytes<3>>, Bytes, true>::create(tx)?;
    let plain = OrderedMap::<i64, [f64; 3]>::create(tx)?;
    let vector = Vector::<u32>::create(tx)?;
    for number in 0..count {
        map.set(tx, &text(number), u64::MAX - number)?;
        ranks.set(tx, (Total(number as f64 / 7.0), &text(number)), &[number as u8, 0xFF])?;
        plain.set(tx, number as i64 - 100, [number as f64, -0.0, f64::NAN])?;
        vector.push(tx, number as u32 * 3)?;
    }
    let blob = Blob::create(tx, Purpose::Value, "text \u{fc}\n".repeat(1000).as_bytes())?;
    for (name, at, kind) in [
        ("a map", map.at(), kind::HASH_MAP),
        ("ranks", ranks.at(), kind::ORDERED_MAP),
        ("plain \u{fc}", plain.at(), kind::ORDERED_MAP),
        ("vector", vector.at(), kind::VECTOR),
        ("blob", blob.at(), kind::BLOB),
    ] {
        tx.set_root(name, Root { at, kind })?;
    }
    Ok(())
}

/// All of them are there, as they were made.
pub(crate) fn check_collections(pool: &Pool) {
    check_some_collections(pool, COUNT);
}

/// The same with so many entries.
pub(crate) fn check_some_collections(pool: &Pool, count: u64) {
    let mut handle = pool.session().expect("a session");
    handle.read(|tx| look(tx, count)).expect("whole collections");
}

fn look(tx: &mut dyn Tx, count: u64) -> perdura::Result<()> {
    let mut at = |name: &str| tx.root(name).map(|root| root.expect("the root").at);
    let map = HashMap::<Bytes, u64>::new(at("a map")?);
    let ranks = OrderedMap::<Pair<Total, Bytes<3>>, Bytes, true>::new(at("ranks")?);
    let plain = OrderedMap::<i64, [f64; 3]>::new(at("plain \u{fc}")?);
    let vector = Vector::<u32>::new(at("vector")?);
    let blob = Blob::new(at("blob")?);
    assert_eq!(map.len(tx)?, count);
    assert_eq!(ranks.len(tx)?, count);
    assert_eq!(plain.len(tx)?, count);
    assert_eq!(vector.len(tx)?, count);
    for number in 0..count {
        assert_eq!(map.get(tx, &text(number))?, Some(u64::MAX - number));
        let (key, value) = ranks.nth(tx, number)?.expect("an entry");
        assert_eq!(key, (Total(number as f64 / 7.0), text(number)));
        assert_eq!(value, [number as u8, 0xFF]);
        let found = plain.get(tx, number as i64 - 100)?.expect("an entry");
        assert_eq!(found[0], number as f64);
        assert!(found[1].is_sign_negative() && found[2].is_nan());
        assert_eq!(vector.get(tx, number)?, Some(number as u32 * 3));
    }
    assert_eq!(blob.read(tx)?, "text \u{fc}\n".repeat(1000).as_bytes());
    ranks.check(tx, &mut |_| Ok(()))?;
    plain.check(tx, &mut |_| Ok(()))?;
    Ok(())
}

/// A keyspace with keys of every kind, in several databases, as commands.
pub(crate) fn commands() -> Vec<u8> {
    let mut bytes = some_commands(500, 300);
    let mut add = |command: &str, items: &mut dyn Iterator<Item = Vec<u8>>| {
        let words = command.split(' ').map(|word| word.as_bytes().to_vec());
        let all: Vec<Vec<u8>> = words.chain(items).collect();
        bytes.extend_from_slice(format!("*{}\r\n", all.len()).as_bytes());
        for part in &all {
            bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
    };
    // As many as do not fit into one block.
    let names = || (0..480).map(|number| format!("name{number}").into_bytes());
    add("SELECT 5", &mut std::iter::empty());
    add("SADD members 1 2 3", &mut [Vec::new(), b"\r\n\xFF".to_vec()].into_iter());
    add("SADD many", &mut names());
    add("RPUSH elements a b a", &mut [Vec::new(), vec![b'x'; 3000]].into_iter());
    add("RPUSH queue", &mut names());
    add("PEXPIREAT queue 4000000000002", &mut std::iter::empty());
    for number in 1..=300 {
        let name = format!("value{number}").into_bytes();
        add(&format!("XADD stream {number}-7 field"), &mut [name].into_iter());
    }
    add("XSETID stream 400-0 ENTRIESADDED 350 MAXDELETEDID 150-0", &mut std::iter::empty());
    add("XGROUP CREATE stream group 20-7 ENTRIESREAD 20", &mut std::iter::empty());
    add("XGROUP CREATECONSUMER stream group one", &mut std::iter::empty());
    let pending = "TIME 1700000000000 RETRYCOUNT 3 JUSTID FORCE";
    add(&format!("XCLAIM stream group one 0 9-7 {pending}"), &mut std::iter::empty());
    add(&format!("XCLAIM stream group one 0 11-7 {pending}"), &mut std::iter::empty());
    add("XADD empty MAXLEN 0 0-1 x y", &mut std::iter::empty());
    add("XSETID empty 5-5 ENTRIESADDED 1 MAXDELETEDID 0-0", &mut std::iter::empty());
    bytes
}

/// The same with so many members and fields, and so many keys besides seven.
pub(crate) fn some_commands(names: usize, keys: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |parts: &[&[u8]]| {
        bytes.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
        for part in parts {
            bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
    };
    for db in [b"0".as_slice(), b"5", b"15"] {
        add(&[b"SELECT", db]);
        add(&[b"SET", b"short", b"value"]);
        add(&[b"SET", b"", b""]);
        add(&[b"SET", b"binary \r\n\0\xFF", &[0xAB; 5000]]);
        add(&[b"SET", b"expires", db, b"PXAT", b"4000000000000"]);
        add(&[b"HSET", b"small", b"field", b"value", b"", b""]);
        add(&[b"PEXPIREAT", b"small", b"4000000000001"]);
        for number in 0..names {
            let (name, value) = (format!("name{number}"), vec![b'v'; number % 100]);
            add(&[b"HSET", b"large", name.as_bytes(), &value]);
            let score = format!("{}", number as f64 / 7.0);
            add(&[b"ZADD", b"set", score.as_bytes(), name.as_bytes()]);
        }
        add(&[b"ZADD", b"set", b"-inf", b"low", b"inf", b"high", b"1e300", b"much"]);
        for number in 0..keys {
            add(&[b"SET", format!("key{number}").as_bytes(), db]);
        }
    }
    bytes
}

/// Keys of [`commands`].
pub(crate) const KEYS: u64 = 3 * (7 + 300) + 6;

/// Puts [`commands`] into a pool.
pub(crate) fn fill_keyspace(pool: &Pool) {
    let mut handle = pool.session().expect("a session");
    let loaded = perdura_server::transfer::import(&mut commands().as_slice(), &mut handle, &mut on);
    assert_eq!(loaded.expect("a keyspace").keys, KEYS);
}

/// A pool's keyspace as commands, one each, in an order that does not depend on the pool.
pub(crate) fn keyspace(path: &Path) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let source = source(path);
    let mut done = Ok(0);
    source
        .read(|tx| {
            done = perdura_server::transfer::export(tx, &mut bytes, &mut on);
            Ok(())
        })
        .expect("a read");
    done.expect("an export");
    sorted(&bytes)
}

/// The commands of an export, each with its database and split by items, sorted.
pub(crate) fn sorted(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut db = Vec::new();
    // Elements of lists so far: their order counts.
    let mut elements = BTreeMap::new();
    while !bytes.is_empty() {
        let parts = command(&mut bytes);
        match parts[0].as_slice() {
            b"SELECT" => db = parts[1].clone(),
            b"HSET" | b"ZADD" => {
                let pairs = parts[2..].chunks(2);
                all.extend(pairs.map(|pair| {
                    [&db, &parts[1], &pair[0], &pair[1]].map(|part| part.as_slice()).join(&b' ')
                }));
            }
            b"SADD" | b"RPUSH" => {
                let is_list = parts[0] == b"RPUSH";
                let count: &mut u32 = elements.entry((db.clone(), parts[1].clone())).or_default();
                for item in &parts[2..] {
                    *count += u32::from(is_list);
                    let place = format!("{count:09}");
                    let parts = [&db[..], &parts[1], place.as_bytes(), item];
                    all.push(parts.join(&b' '));
                }
            }
            b"ECHO" => {}
            _ => all.push([vec![db.clone()], parts].concat().join(&b' ')),
        }
    }
    all.sort();
    all
}

fn command(bytes: &mut &[u8]) -> Vec<Vec<u8>> {
    let count = line(bytes, b'*');
    (0..count)
        .map(|_| {
            let len = line(bytes, b'$');
            let (part, rest) = bytes.split_at(len);
            *bytes = &rest[2..];
            part.to_vec()
        })
        .collect()
}

fn line(bytes: &mut &[u8], mark: u8) -> usize {
    let end = bytes.iter().position(|byte| *byte == b'\r').expect("a line");
    assert_eq!(bytes[0], mark);
    let number = std::str::from_utf8(&bytes[1..end]).expect("digits").parse().expect("a number");
    *bytes = &bytes[end + 2..];
    number
}

/// Nothing is wrong with a pool.
pub(crate) fn check(path: &Path) {
    let report = source(path).check(&|tx, root, visit| perdura_server::check_root(tx, root, visit));
    assert!(report.is_whole(), "{:?}", report.problems);
}
