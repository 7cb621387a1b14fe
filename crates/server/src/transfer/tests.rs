use super::record::{Change, PendingEntry, Record, StreamEnd};
use super::resp::Encoder;
use super::stream::Stream;
use super::*;
use crate::keyspace::stream::Id;
use proptest::prelude::*;

fn sample() -> Vec<Record> {
    let of = |db, key: &str, change| Record { db, key: key.into(), change };
    let id = |ms, seq| Id { ms, seq };
    let end =
        |last, added, deleted| Change::StreamEnd(StreamEnd { last, added: Some(added), deleted });
    let pending = Change::Pending(PendingEntry {
        group: b"group".to_vec(),
        consumer: b"one".to_vec(),
        id: id(1, 0),
        time: 1_700_000_000_000,
        count: 3,
    });
    vec![
        of(0, "text", Change::Text(b"value \r\n\0\xFF".to_vec())),
        of(0, "text", Change::Expiry(4_000_000_000_000)),
        of(0, "", Change::Text(Vec::new())),
        of(3, "hash", Change::Fields(vec![(b"f".to_vec(), b"v".to_vec())])),
        of(7, "members", Change::Set(vec![b"one".to_vec(), Vec::new(), b"\0\xFF".to_vec()])),
        of(7, "list", Change::Elements(vec![b"one".to_vec(), Vec::new(), b"one".to_vec()])),
        of(
            15,
            "set",
            Change::Members(vec![
                (f64::NEG_INFINITY, b"low".to_vec()),
                (-0.1, b"a".to_vec()),
                (1e300, b"b".to_vec()),
                (5e-324, b"c".to_vec()),
                (1.0 / 3.0, Vec::new()),
                (f64::INFINITY, b"high".to_vec()),
            ]),
        ),
        of(0, "gone", Change::Removal),
        of(2, "stream", Change::Entry(id(1, 0), vec![b"field".to_vec(), b"value\r\n".to_vec()])),
        of(2, "stream", Change::Entry(id(u64::MAX, 7), vec![Vec::new(), b"\0\xFF".to_vec()])),
        of(2, "stream", end(id(u64::MAX, 8), 5, id(3, 4))),
        of(2, "stream", Change::Group(b"group".to_vec(), id(1, 0), Some(1))),
        of(2, "stream", Change::Group(Vec::new(), id(0, 0), None)),
        of(2, "stream", Change::Consumer(b"group".to_vec(), b"one".to_vec(), None)),
        of(2, "stream", pending),
        of(2, "empty", Change::EmptyStream),
        of(2, "empty", end(id(0, 0), 0, id(0, 0))),
    ]
}

fn encoded(records: &[Record], keys: u64) -> Vec<u8> {
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    encoder.begin(&mut bytes);
    records.iter().for_each(|record| encoder.record(record, &mut bytes));
    encoder.end(keys, &mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Vec<Record>, TransferError> {
    let (mut stream, mut all) = (Stream::new(bytes), Vec::new());
    while let Some(records) = stream.next()? {
        all.extend(records.into_iter().map(|(record, _)| record));
    }
    Ok(all)
}

#[test]
fn records_are_what_they_were() {
    assert_eq!(decoded(&encoded(&sample(), 4)).expect("a whole export"), sample());
}

#[test]
fn no_expiry_is_too_late_to_be_read() {
    let of = |time| Record { db: 0, key: b"k".to_vec(), change: Change::Expiry(time) };
    let read = decoded(&encoded(&[of(u64::MAX)], 0)).expect("a whole export");
    assert_eq!(read, [of(i64::MAX as u64)]);
}

#[test]
fn every_cut_is_noticed() {
    let bytes = encoded(&sample(), 4);
    for end in 1..bytes.len() {
        let error = decoded(&bytes[..end]).expect_err("a cut");
        assert!(matches!(error, TransferError::Cut { .. }), "at {end}: {error}");
    }
}

#[test]
fn errors_name_their_place() {
    let refused = |text: &str| decoded(text.as_bytes()).expect_err(text).to_string();
    let first = "*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n";
    for (bad, said) in [
        ("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$999999999999\r\nb\r\n", "invalid bulk length"),
        ("*3\r\n$3\r\nSET\r\n$1\r\nab\r\n$1\r\nb\r\n", "expected '$'"),
        ("*99999999999\r\n", "invalid multibulk length"),
        ("*2\r\n$6\r\nSELECT\r\n$2\r\n16\r\n", "no database 16"),
        ("*2\r\n$5\r\nLPUSH\r\n$1\r\na\r\n", "unknown command 'LPUSH'"),
        ("*2\r\n$4\r\nHSET\r\n$1\r\na\r\n", "lacks arguments"),
        ("*4\r\n$4\r\nZADD\r\n$1\r\na\r\n$3\r\nnan\r\n$1\r\nm\r\n", "not a number"),
        ("*3\r\n$9\r\nPEXPIREAT\r\n$1\r\na\r\n$1\r\nx\r\n", "not a whole number"),
        ("*5\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nEX\r\n$1\r\n9\r\n", "other than PXAT"),
        ("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nbX\n", "a length is wrong"),
        ("SET key value\r\n", "a length is wrong"),
        ("REDIS0011\r\n", "RDB"),
    ] {
        let text = refused(&format!("{first}{bad}"));
        assert!(text.starts_with(&format!("at byte {}", first.len())), "{text}");
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn redis_own_streams_are_taken() {
    let text = "*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*1\r\n$5\r\nMULTI\r\n*5\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\nb\r\n$4\r\nPXAT\r\n$13\r\n4000000000000\r\n*1\r\n$4\r\nEXEC\r\n";
    let of = |change| Record { db: 2, key: b"a".to_vec(), change };
    let expected = [of(Change::Text(b"b".to_vec())), of(Change::Expiry(4_000_000_000_000))];
    assert_eq!(decoded(text.as_bytes()).expect("a stream"), expected);
    assert_eq!(decoded(b"").expect("nothing"), []);
}

proptest! {
    /// Whatever bytes come: an error at worst.
    #[test]
    fn hostile_streams_are_survived(
        at in 0usize..400,
        bytes in proptest::collection::vec(any::<u8>(), 0..24),
        cut in 0usize..24,
    ) {
        let mut stream = encoded(&sample(), 4);
        let at = at.min(stream.len());
        stream.splice(at..(at + cut).min(stream.len()), bytes.clone());
        let _ = decoded(&stream);
        let _ = decoded(&bytes);
    }

    /// As are commands of any arguments.
    #[test]
    fn hostile_commands_are_survived(
        name in proptest::sample::select(vec!["SET", "HSET", "SADD", "RPUSH", "ZADD", "PEXPIREAT", "EXPIREAT", "DEL", "SELECT", "ECHO", "EXEC", "XADD", "XSETID", "XGROUP", "XCLAIM"]),
        args in proptest::collection::vec("[0-9a-fnE.xat-]{0,20}", 0..7),
    ) {
        let mut bytes = format!("*{}\r\n${}\r\n{name}\r\n", args.len() + 1, name.len());
        for arg in &args {
            bytes.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
        }
        let _ = decoded(bytes.as_bytes());
    }
}
