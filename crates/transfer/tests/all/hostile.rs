//! Exports that were damaged, or made to harm: an error that says where, and nothing is left.

use crate::common::on;
use perdura_transfer::{Error, Target, import, import_redis};
use proptest::prelude::*;
use tempfile::tempdir;

const ROOT: &str = r#"{"root":{"name":"m","kind":"hash_map","key":{"words":2,"string":2},"value":{"words":1,"string":0},"counted":true,"types":1}}"#;
const ENTRY: &str = r#"{"entry":{"key":["a"],"value":[1]}}"#;
const REST: &str = "{\"end\":{\"entries\":1}}\n{\"total\":{\"roots\":1}}\n";

fn imported(bytes: &[u8]) -> Result<(), Error> {
    let folder = tempdir().expect("a folder");
    let target = Target::new(folder.path().join("new")).size(Some(1 << 20));
    let done = import(&mut &*bytes, &target, &mut on);
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, usize::from(done.is_ok()), "something was left");
    done.map(drop)
}

#[test]
fn errors_name_their_line() {
    imported(format!("{ROOT}\n{ENTRY}\n{REST}").as_bytes()).expect("a good one");
    let map = |from: &str, to: &str| ROOT.replace(from, to);
    for (line, text, said) in [
        (1, "hello".to_owned(), "neither an export"),
        (1, "{\"root\":{}}".to_owned(), "missing field"),
        (1, format!("{ENTRY}\n"), "no collection has begun"),
        (1, map("\"words\":2", "\"words\":41"), "at most 40 words"),
        (1, map("\"string\":2", "\"string\":9"), "at most 40 words"),
        (1, map("\"words\":2", "\"words\":99999999999999999999"), "invalid"),
        (1, map("\"types\":1", "\"types\":16777216"), "24 bits"),
        (1, map("hash_map", "vector"), "a map has key"),
        (1, map("hash_map", "list"), "unknown variant"),
        (2, format!("{ROOT}\n{{\"entry\":{{\"key\":[1],\"value\":[1]}}}}\n"), "a byte string is"),
        (2, format!("{ROOT}\n{{\"entry\":{{\"key\":[],\"value\":[1]}}}}\n"), "0 parts"),
        (
            2,
            format!("{ROOT}\n{{\"entry\":{{\"key\":[\"a\"],\"value\":[\"x\"]}}}}\n"),
            "not a number",
        ),
        (
            2,
            format!("{ROOT}\n{{\"entry\":{{\"key\":[{{\"base64\":\"!\"}}],\"value\":[1]}}}}\n"),
            "no base64",
        ),
        (2, format!("{ROOT}\n{ENTRY}"), "cut off"),
        (3, format!("{ROOT}\n{ENTRY}\n"), "cut off"),
        (
            4,
            format!("{ROOT}\n{ENTRY}\n{ENTRY}\n{{\"end\":{{\"entries\":2}}}}\n"),
            "has this key already",
        ),
        (3, format!("{ROOT}\n{ENTRY}\n{{\"end\":{{\"entries\":2}}}}\n"), "should have 2"),
        (
            4,
            format!(
                "{ROOT}\n{ENTRY}\n{{\"end\":{{\"entries\":1}}}}\n{{\"total\":{{\"roots\":2}}}}\n"
            ),
            "should have 2",
        ),
        (5, format!("{ROOT}\n{ENTRY}\n{REST}{ENTRY}\n"), "something follows"),
        (7, format!("{ROOT}\n{ENTRY}\n{{\"end\":{{\"entries\":1}}}}\n{ROOT}\n{ENTRY}\n\n"), "EOF"),
    ] {
        let text =
            if text.starts_with("{\"root\"") && !text.contains('\n') { text + "\n" } else { text };
        let error = imported(text.as_bytes()).expect_err(&text).to_string();
        let line = if said == "EOF" { 6 } else { line };
        assert!(
            error.starts_with(&format!("line {line}: ")) && error.contains(said),
            "{error}\n{text}"
        );
    }
    let twice = format!("{ROOT}\n{ENTRY}\n{{\"end\":{{\"entries\":1}}}}\n");
    let error = imported(format!("{twice}{twice}").as_bytes()).expect_err("twice").to_string();
    assert!(error.contains("line 6: there is a root of this name already"), "{error}");
    let error = imported(b"").expect_err("nothing").to_string();
    assert!(error.contains("nothing to import"), "{error}");
}

#[test]
fn names_values_that_do_not_fit() {
    let value = "x".repeat(1 << 20);
    let text = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n{value}\r\n", value.len());
    let error = imported(text.as_bytes()).expect_err("too large");
    assert!(matches!(error, Error::TooSmall { .. }), "{error}");
    // The same in a file of Redis's.
    let folder = tempdir().expect("a folder");
    let (path, new) = (folder.path().join("commands.aof"), folder.path().join("new"));
    std::fs::write(&path, text).expect("a file");
    let target = Target::new(new).size(Some(1 << 20));
    let error = import_redis(&path, &target, &mut on).expect_err("too large");
    assert!(matches!(error, Error::TooSmall { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn damaged_exports_are_survived(
        at in 0usize..400,
        bytes in proptest::collection::vec(any::<u8>(), 0..16),
        cut in 0usize..40,
    ) {
        let mut text = format!("{ROOT}\n{ENTRY}\n{REST}").into_bytes();
        let at = at.min(text.len());
        text.splice(at..(at + cut).min(text.len()), bytes);
        let _ = imported(&text);
    }

    #[test]
    fn odd_collections_are_survived(
        kind in proptest::sample::select(vec!["blob", "hash_map", "ordered_map", "vector"]),
        key in (0usize..45, 0usize..20),
        value in (0usize..45, 0usize..20),
        pitch in proptest::option::of(0u64..3000),
        entries in proptest::collection::vec(0u64..4, 0..6),
    ) {
        let form = |(words, string): (usize, usize)| format!("{{\"words\":{words},\"string\":{string}}}");
        let map = match pitch {
            None => format!(",\"key\":{},\"value\":{},\"counted\":false,\"types\":5", form(key), form(value)),
            Some(pitch) => format!(",\"pitch\":{pitch},\"types\":5"),
        };
        let mut text = format!("{{\"root\":{{\"name\":\"r\",\"kind\":\"{kind}\"{map}}}}}\n");
        let item = |number: u64, (words, string): (usize, usize)| {
            let mut parts = vec![number.to_string(); words.saturating_sub(string)];
            parts.extend((string > 0).then(|| format!("\"{number}\"")));
            format!("[{}]", parts.join(","))
        };
        for number in &entries {
            let value = match pitch {
                Some(pitch) => item(*number, (pitch.div_ceil(8) as usize, 0)),
                None => item(*number, value),
            };
            let key = if pitch.is_some() { "[]".to_owned() } else { item(*number, key) };
            text.push_str(&format!("{{\"entry\":{{\"key\":{key},\"value\":{value}}}}}\n"));
        }
        text.push_str(&format!("{{\"end\":{{\"entries\":{}}}}}\n{{\"total\":{{\"roots\":1}}}}\n", entries.len()));
        let _ = imported(text.as_bytes());
    }
}
