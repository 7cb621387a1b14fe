//! Exported and imported again, data are as they were.

use crate::common::*;
use perdura::{EngineKind, Options};
use perdura_transfer::export::plan;
use perdura_transfer::{Error, Exported, Form, Target, export, import};
use std::path::Path;
use tempfile::tempdir;

fn exported(path: &Path, form: Option<Form>) -> Result<(Exported, Vec<u8>), Error> {
    let source = source(path);
    let (roots, form) = plan(&source, form)?;
    let mut bytes = Vec::new();
    let done = export(&source, (&roots, form), &mut bytes, &mut on)?;
    Ok((done, bytes))
}

#[test]
fn a_keyspace_goes_there_and_back() {
    let folder = tempdir().expect("a folder");
    let old = folder.path().join("old");
    let pool = create(&old, EngineKind::Redo);
    fill_keyspace(&pool);
    drop(pool);
    let (done, bytes) = exported(&old, None).expect("an export");
    assert_eq!((done.format, done.keys), (Form::Resp, KEYS));
    for engine in [EngineKind::Undo, EngineKind::CcStm] {
        let target = Target::new(folder.path().join(engine.to_string()))
            .engine(Some(engine))
            .size(Some(8 << 20));
        let imported = import(&mut bytes.as_slice(), &target, &mut on).expect("an import");
        assert_eq!((imported.keys, imported.gone), (KEYS, 0));
        assert_eq!(keyspace(&target.path), keyspace(&old));
        check(&target.path);
    }
    assert!(matches!(exported(&old, Some(Form::Json)), Err(Error::Nothing(_))));
}

#[test]
fn collections_go_there_and_back() {
    let folder = tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    drop(pool);
    let (done, bytes) = exported(&old, None).expect("an export");
    assert_eq!((done.format, done.roots, done.entries), (Form::Json, 5, 4 * COUNT + 1));
    let target = Target::new(&new).size(Some(8 << 20));
    let imported = import(&mut bytes.as_slice(), &target, &mut on).expect("an import");
    assert_eq!((imported.roots, imported.entries), (5, 4 * COUNT + 1));
    check(&new);
    check_collections(&Options::new().open(&new).expect("a pool"));
    // The same again, byte for byte but for the hash maps' order.
    let (_, again) = exported(&new, None).expect("an export");
    let lines = |bytes: &[u8]| {
        let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&again), lines(&bytes));
    assert!(matches!(exported(&old, Some(Form::Resp)), Err(Error::Nothing(_))));
}

#[test]
fn keys_and_collections_are_two_exports() {
    let folder = tempdir().expect("a folder");
    let old = folder.path().join("old");
    let pool = create(&old, EngineKind::Redo);
    drop(pool);
    assert!(matches!(exported(&old, None), Err(Error::Nothing(_))));
    let pool = Options::new().open(&old).expect("a pool");
    fill_collections(&pool);
    fill_keyspace(&pool);
    drop(pool);
    assert!(matches!(exported(&old, None), Err(Error::TwoForms)));
    assert_eq!(exported(&old, Some(Form::Resp)).expect("keys").0.keys, KEYS);
    assert_eq!(exported(&old, Some(Form::Json)).expect("collections").0.roots, 5);
}

#[test]
fn expired_keys_are_left_out() {
    let folder = tempdir().expect("a folder");
    let new = folder.path().join("new");
    let stream = b"*5\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n$4\r\nPXAT\r\n$4\r\n1000\r\n*3\r\n$3\r\nSET\r\n$1\r\nc\r\n$1\r\nd\r\n";
    let target = Target::new(&new).size(Some(8 << 20));
    let imported = import(&mut stream.as_slice(), &target, &mut on).expect("an import");
    assert_eq!((imported.keys, imported.gone), (1, 1));
    assert_eq!(keyspace(&new), [b"0 SET c d".to_vec()]);
}
