//! sqllogictest's files, which are not in this repository: statements, queries, and what SQLite answers.
//!
//!     PERDURA_SQLLOGICTEST=FOLDER cargo test --release -p perdura-sqlite --test all logic:: -- --ignored --nocapture
//!
//! Each file below the folder runs over one connection, over four on threads of their own, and over two on one thread:
//! each record over one of them, drawn at random. What an ordinary database answers in the same way is no failure: some
//! files are made for one connection.

use crate::common::{Folder, uri};
use perdura_memory::random::SplitMix64;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// A record of a file.
struct Record {
    sql: String,
    expected: Expected,
}

enum Expected {
    Success,
    Failure,
    /// The columns' types, the order, and the values or their hash.
    Rows(String, String, Vec<String>),
}

/// The records of a file for SQLite.
fn parse(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for block in lines.split(|line| line.is_empty()) {
        let is_condition = |line: &&str| line.starts_with("skipif") || line.starts_with("onlyif");
        let conditions = block.iter().take_while(|line| is_condition(line)).count();
        let (conditions, block) = block.split_at(conditions);
        let is_skipped = conditions.iter().any(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("skipif")) == (words.next() == Some("sqlite"))
        });
        let Some((head, body)) = block.split_first() else { continue };
        let words: Vec<&str> = head.split_whitespace().collect();
        match words[0] {
            "halt" if !is_skipped => break,
            "statement" if !is_skipped => {
                let expected = if words[1] == "ok" { Expected::Success } else { Expected::Failure };
                records.push(Record { sql: body.join("\n"), expected });
            }
            "query" if !is_skipped => {
                let end = body.iter().position(|line| *line == "----").unwrap_or(body.len());
                let values = body.iter().skip(end + 1).map(|&value| value.to_owned()).collect();
                let sort = words.get(2).copied().unwrap_or("nosort").to_owned();
                let expected = Expected::Rows(words[1].to_owned(), sort, values);
                records.push(Record { sql: body[..end].join("\n"), expected });
            }
            "statement" | "query" | "halt" | "hash-threshold" => {}
            other => panic!("a record of another kind: {other}"),
        }
    }
    records
}

/// A value, as sqllogictest prints it in a column of this type.
fn printed(value: ValueRef<'_>, kind: char) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let prefix = |text: &str| {
        let text = text.trim_start();
        let digit = |(at, c): &(usize, char)| c.is_ascii_digit() || *at == 0 && "+-".contains(*c);
        let len = text.char_indices().take_while(digit).count();
        text[..len].parse::<i64>().unwrap_or(0)
    };
    match (value, kind) {
        (ValueRef::Null, _) => "NULL".to_owned(),
        (ValueRef::Integer(n), 'R') => format!("{:.3}", n as f64),
        (ValueRef::Integer(n), _) => n.to_string(),
        (ValueRef::Real(x), 'I') => (x as i64).to_string(),
        (ValueRef::Real(x), 'R') => format!("{x:.3}"),
        (ValueRef::Real(x), _) => format!("{x:?}"),
        (ValueRef::Text(bytes) | ValueRef::Blob(bytes), 'I') => prefix(&text(bytes)).to_string(),
        (ValueRef::Text(bytes) | ValueRef::Blob(bytes), 'R') => {
            format!("{:.3}", text(bytes).trim().parse::<f64>().unwrap_or(0.0))
        }
        (ValueRef::Text([]) | ValueRef::Blob([]), _) => "(empty)".to_owned(),
        (ValueRef::Text(bytes) | ValueRef::Blob(bytes), _) => {
            let shown =
                |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '@' };
            bytes.iter().map(shown).collect()
        }
    }
}

/// The values that a query returns, in the order that the record asks for.
fn values(db: &Connection, sql: &str, kinds: &str, sort: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let mut found = statement.query(())?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let each = (0..columns).map(|column| {
            let kind = kinds.chars().nth(column).unwrap_or('T');
            Ok(printed(row.get_ref(column)?, kind))
        });
        rows.push(each.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    if sort == "rowsort" {
        rows.sort();
    }
    let mut values: Vec<String> = rows.into_iter().flatten().collect();
    if sort == "valuesort" {
        values.sort();
    }
    Ok(values)
}

/// Runs a record. Returns what is wrong.
fn run(db: &Connection, record: &Record) -> Option<String> {
    match &record.expected {
        Expected::Success => db.execute_batch(&record.sql).err().map(|error| error.to_string()),
        Expected::Failure => db.execute_batch(&record.sql).is_ok().then(|| "no error".to_owned()),
        Expected::Rows(kinds, sort, expected) => {
            let values = match values(db, &record.sql, kinds, sort) {
                Ok(values) => values,
                Err(error) => return Some(error.to_string()),
            };
            let hash = || {
                let text: String = values.iter().map(|value| format!("{value}\n")).collect();
                format!("{} values hashing to {}", values.len(), md5(text.as_bytes()))
            };
            let is_right = values == *expected || *expected == [hash()];
            (!is_right).then(|| format!("{values:?} instead of {expected:?}"))
        }
    }
}

/// A connection, on a thread of its own or on this one.
enum Session {
    Here(Connection),
    There(mpsc::Sender<usize>, mpsc::Receiver<Option<String>>),
}

/// Runs the records over connections to a database. Returns the numbers of those that fail, with what is wrong.
fn run_all(name: &str, records: &[Record], (count, threads): (u64, bool)) -> Vec<(usize, String)> {
    let connect = || {
        let db = Connection::open(name).expect("to open");
        db.busy_timeout(Duration::from_secs(20)).expect("to set");
        db
    };
    let mut failures = Vec::new();
    std::thread::scope(|scope| {
        let sessions: Vec<Session> = (0..count)
            .map(|_| {
                if !threads {
                    return Session::Here(connect());
                }
                let (ask, asked) = mpsc::channel();
                let (answer, answered) = mpsc::channel();
                scope.spawn(move || {
                    let db = connect();
                    asked.iter().for_each(|at: usize| {
                        let _ = answer.send(run(&db, &records[at]));
                    });
                });
                Session::There(ask, answered)
            })
            .collect();
        let mut random = SplitMix64::new(records.len() as u64);
        for (at, record) in records.iter().enumerate() {
            let wrong = match &sessions[random.below(count) as usize] {
                Session::Here(db) => run(db, record),
                Session::There(ask, answered) => {
                    ask.send(at).expect("its thread lives");
                    answered.recv().expect("its thread answers")
                }
            };
            failures.extend(wrong.map(|wrong| (at, wrong)));
        }
        if let Session::Here(db) = &sessions[0] {
            crate::common::is_whole(db);
        }
    });
    failures
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path())
    {
        match entry.extension() {
            _ if entry.is_dir() => files(&entry, found),
            Some(suffix) if suffix == "test" => found.push(entry),
            _ => {}
        }
    }
}

#[test]
#[ignore = "needs sqllogictest's files"]
fn sqllogictest() {
    let folder = std::env::var_os("PERDURA_SQLLOGICTEST")
        .expect("PERDURA_SQLLOGICTEST: the folder of sqllogictest's files");
    let mut all = Vec::new();
    match Path::new(&folder) {
        file if file.is_file() => all.push(file.to_owned()),
        folder => files(folder, &mut all),
    }
    all.sort();
    assert!(!all.is_empty(), "no files named *.test");
    let mut wrong = 0;
    for (count, threads) in [(1, false), (4, true), (2, false)] {
        let (mut records, mut queries, mut excused) = (0, 0, 0);
        for file in &all {
            let bytes = std::fs::read(file).expect("a file");
            let parsed = parse(&String::from_utf8_lossy(&bytes));
            records += parsed.len();
            queries += parsed.iter().filter(|r| matches!(r.expected, Expected::Rows(..))).count();
            let folder = Folder::new();
            let pool = uri(&folder.pool(), "&size=1073741824&log=8388608");
            let failures = run_all(&pool, &parsed, (count, threads));
            folder.check();
            if failures.is_empty() {
                continue;
            }
            let ordinary = folder.path().join("ordinary.db");
            let ordinary = run_all(&ordinary.display().to_string(), &parsed, (count, threads));
            let ordinary: HashSet<_> = ordinary.into_iter().collect();
            for failure in failures {
                if ordinary.contains(&failure) {
                    excused += 1;
                    continue;
                }
                wrong += 1;
                println!("{}: {}: {}", file.display(), parsed[failure.0].sql, failure.1);
            }
        }
        let how = if threads { "threads" } else { "one thread" };
        println!(
            "{count} connections on {how}: {} files, {records} records, {queries} of them queries; \
             {excused} differ that differ in an ordinary database too",
            all.len()
        );
    }
    assert_eq!(wrong, 0, "records that an ordinary database answers otherwise");
}

/// MD5: sqllogictest has long results by it.
fn md5(bytes: &[u8]) -> String {
    const TURNS: [[u32; 4]; 4] =
        [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((8 * bytes.len() as u64).to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| block[4 * at + byte]));
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mixed, at) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let constant = ((step as f64 + 1.0).sin().abs() * 2_f64.powi(32)) as u32;
            let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(word(at));
            let turned = sum.rotate_left(TURNS[step / 16][step % 4]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
        }
        for (sum, new) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(new);
        }
    }
    state.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_file_is_read_as_sqllogictest_has_it() {
    assert_eq!(md5(b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
    let text = "# A comment\nhash-threshold 8\n\nstatement ok\nCREATE TABLE t (x, y)\n\n\
        skipif sqlite\nstatement ok\nnonsense\n\nonlyif mysql\nstatement ok\nnonsense\n\n\
        onlyif sqlite\nstatement ok\nINSERT INTO t VALUES (2, 'b'), (1, ''), (NULL, 3.25)\n\n\
        statement error\nINSERT INTO u VALUES (1)\n\n\
        query IT rowsort\nSELECT x, y FROM t\n----\n1\n(empty)\n2\nb\nNULL\n3.25\n\n\
        query R nosort label\nSELECT x FROM t\n----\n3 values hashing to \
        90e5cb37d4c5a71ab24a9ee4f5b2a8b5\n\nhalt\n\nnonsense\n";
    let records = parse(text);
    assert_eq!(records.len(), 5);
    let folder = Folder::new();
    let failures = run_all(&uri(&folder.pool(), "&size=67108864"), &records, (1, false));
    let hash = md5(b"2.000\n1.000\nNULL\n");
    assert_eq!(failures.len(), 1, "the wrong hash: {failures:?}");
    assert_eq!(failures[0].0, 4);
    let mut records = parse(&text.replace("90e5cb37d4c5a71ab24a9ee4f5b2a8b5", &hash));
    assert!(run_all(":memory:", &records, (1, false)).is_empty());
    assert_eq!(run_all(":memory:", &records.split_off(1), (1, false)).len(), 3);
    // Over four connections on threads, the same.
    let records = parse(text);
    let failures =
        run_all(&uri(&folder.path().join("b.pool"), "&size=67108864"), &records, (4, true));
    assert_eq!(failures.len(), 1);
    folder.check();
}
