//! Exports, in both forms, that were damaged or made to harm: an error that leaves nothing, or a pool that is whole and
//! whose own export makes the same pool again.

use crate::Target;
use perdura_transfer::export::plan;
use perdura_transfer::{Form, Target as New, contents, export, import};
use std::path::Path;
use tempfile::tempdir;

pub(crate) const IMPORT: Target =
    Target { name: "import", run: go_there_and_back, seeds: exports, words: WORDS };

/// Bytes of a new pool: room for every seed.
const SIZE: u64 = 1 << 20;

fn go_there_and_back(bytes: &[u8]) {
    let folder = tempdir().expect("a folder");
    let (once, twice) = (folder.path().join("once"), folder.path().join("twice"));
    let Some(first) = made_and_exported(bytes, &once) else {
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0, "a failed import leaves nothing");
        return;
    };
    if first.is_empty() {
        return;
    }
    let second = made_and_exported(&first, &twice).expect("an export can be imported");
    let sorted = |bytes: &[u8]| {
        let mut lines: Vec<Vec<u8>> =
            bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&second), sorted(&first), "an export makes the same pool again");
}

/// The export of the pool that is made of `bytes`, empty if there is nothing in it; `None` if none can be made.
fn made_and_exported(bytes: &[u8], path: &Path) -> Option<Vec<u8>> {
    let target = New::new(path).size(Some(SIZE));
    let imported = import(&mut &*bytes, &target, &mut |_| true).ok()?;
    let source = contents::open(path).expect("a pool that can be read");
    let report = source.check(&|tx, root, visit| perdura_server::check_root(tx, root, visit));
    assert!(report.is_whole(), "{:?}", report.problems);
    let mut exported = Vec::new();
    if imported.roots + imported.keys > 0 {
        let (roots, form) = plan(&source, None).expect("something to export");
        assert_eq!(form, imported.format);
        let done =
            export(&source, (&roots, form), &mut exported, &mut |_| true).expect("an export");
        assert_eq!((done.roots, done.entries), (imported.roots, imported.entries));
        assert!(form == Form::Json || done.keys <= imported.keys, "some may have expired");
    }
    Some(exported)
}

fn exports() -> Vec<Vec<u8>> {
    let mut seeds = crate::requests::multibulk(STREAMS);
    seeds.extend(COLLECTIONS.iter().map(|text| text.as_bytes().to_vec()));
    for stream in seeds.clone() {
        let folder = tempdir().expect("a folder");
        seeds.push(made_and_exported(&stream, &folder.path().join("pool")).expect("a whole seed"));
    }
    seeds
}

const STREAMS: &[&[&str]] = &[
    &[
        "SELECT 0",
        "SET k v",
        "SET n 10 PXAT 4000000000000",
        "HSET h f v g w",
        "ZADD z 1 a 2.5 b inf c",
    ],
    &["MULTI", "SET a 1", "EXEC", "SELECT 5", "DEL a", "SET z 1", "PEXPIREAT z 4000000000001"],
];

const COLLECTIONS: &[&str] = &[
    concat!(
        r#"{"root":{"name":"m","kind":"hash_map","key":{"words":2,"string":2},"value":{"words":1,"string":0},"#,
        r#""counted":true,"types":1}}"#,
        "\n",
        r#"{"entry":{"key":["a"],"value":[1]}}"#,
        "\n",
        r#"{"entry":{"key":[{"base64":"/w=="}],"value":[18446744073709551615]}}"#,
        "\n",
        "{\"end\":{\"entries\":2}}\n{\"total\":{\"roots\":1}}\n",
    ),
    concat!(
        r#"{"root":{"name":"o","kind":"ordered_map","key":{"words":1,"string":0},"value":{"words":2,"string":2},"#,
        r#""counted":false,"types":5}}"#,
        "\n",
        r#"{"entry":{"key":[7],"value":["text"]}}"#,
        "\n",
        "{\"end\":{\"entries\":1}}\n",
        r#"{"root":{"name":"v","kind":"vector","pitch":4,"types":5}}"#,
        "\n",
        r#"{"entry":{"key":[],"value":[3]}}"#,
        "\n",
        "{\"end\":{\"entries\":1}}\n{\"total\":{\"roots\":2}}\n",
    ),
];

const WORDS: &[&str] = &[
    "\r\n",
    "\n",
    "*",
    "$",
    "-1",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "null",
    "true",
    "1e308",
    "SET",
    "DEL",
    "HSET",
    "ZADD",
    "SELECT",
    "PXAT",
    "PEXPIREAT",
    "MULTI",
    "EXEC",
    "ECHO",
    "\"words\":40",
    "\"string\":0",
    "\"pitch\":0",
    "\"key\":[]",
    "{\"base64\":\"AA==\"}",
    "hash_map",
    "ordered_map",
    "vector",
    "blob",
    "\"counted\":true",
];
