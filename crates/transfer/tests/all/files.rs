//! Files: what is there, what is not, what is in use, and what has no room.

use crate::common::*;
use perdura::draft::DraftError;
use perdura::{EngineKind, Options};
use perdura_transfer::{Error, Target, contents, copy, copy_pages, import};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::tempdir;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_destination_is_replaced_if_it_is_asked_for_and_not_in_use() {
    let folder = tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    drop(pool);
    fs::write(&new, "something else").expect("a file");
    let copied = |target: &Target| {
        let pages = copy_pages(&source(&old), target, &mut on);
        let contents = copy(&source(&old), target, &mut on);
        assert_eq!(pages.is_ok(), contents.is_ok(), "{pages:?} {contents:?}");
        contents
    };
    let error = copied(&Target::new(&new)).expect_err("a file");
    assert!(matches!(error, Error::Draft(DraftError::Exists(_))), "{error}");
    assert_eq!(fs::read_to_string(&new).expect("the file"), "something else");
    let forced = Target::new(&new).force(true);
    copied(&forced).expect("a copy");
    let pool = Options::new().open(&new).expect("a pool");
    let error = copied(&forced).expect_err("in use");
    assert!(matches!(error, Error::Draft(DraftError::InUse(_))), "{error}");
    check_collections(&pool);
    drop(pool);
    let error = copied(&Target::new(&old).force(true)).expect_err("itself");
    assert!(matches!(error, Error::Draft(DraftError::InUse(_))), "{error}");
    let error = copied(&Target::new(folder.path().join("none/new"))).expect_err("no folder");
    assert!(error.to_string().contains("create the directory first"), "{error}");
    let error = copied(&Target::new(folder.path()).force(true)).expect_err("a folder");
    assert!(error.to_string().contains("not a regular file"), "{error}");
    assert_eq!(names(folder.path()), ["new", "old"]);
}

#[test]
fn a_source_need_not_be_writable_and_must_not_be_in_use() {
    let folder = tempdir().expect("a folder");
    let home = folder.path().join("home");
    fs::create_dir(&home).expect("a folder");
    let (old, new) = (home.join("old"), folder.path().join("new"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    let error = contents::open(&old).err().expect("in use").to_string();
    assert!(error.contains("the pool is in use"), "{error}");
    drop(pool);
    fs::set_permissions(&old, fs::Permissions::from_mode(0o400)).expect("permissions");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o500)).expect("permissions");
    let source = source(&old);
    assert!(Options::new().open(&old).is_err(), "a pool that is being read was opened");
    copy(&source, &Target::new(&new), &mut on).expect("a copy");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("permissions");
    check_collections(&Options::new().open(&new).expect("a pool"));
    let error = contents::open(&folder.path().join("none")).err().expect("none").to_string();
    assert!(error.contains("no such file"), "{error}");
    let error = contents::open(folder.path()).err().expect("a folder").to_string();
    assert!(error.contains("a directory"), "{error}");
}

#[test]
fn what_is_stopped_leaves_nothing() {
    let folder = tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    fill_keyspace(&pool);
    drop(pool);
    let mut calls = 0;
    let mut stop = |_: u64| {
        calls += 1;
        calls < 2
    };
    let error = copy(&source(&old), &Target::new(&new), &mut stop).expect_err("stopped");
    assert!(matches!(error, Error::Stopped), "{error}");
    let error = copy_pages(&source(&old), &Target::new(&new), &mut |_| false);
    assert!(error.is_ok() || matches!(error, Err(Error::Stopped)));
    let _ = fs::remove_file(&new);
    let target = Target::new(&new).size(Some(8 << 20));
    let error = import(&mut commands().as_slice(), &target, &mut |_| false).expect_err("stopped");
    assert!(matches!(error, Error::Stopped), "{error}");
    assert_eq!(names(folder.path()), ["old"]);
}

#[test]
fn what_a_killed_process_left_is_used_up() {
    let folder = tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    drop(pool);
    fs::write(folder.path().join(".new.perdura-part"), "half").expect("a file");
    fs::write(folder.path().join("..new.perdura-part.perdura-new"), "less").expect("a file");
    copy(&source(&old), &Target::new(&new), &mut on).expect("a copy");
    assert_eq!(names(folder.path()), ["new", "old"]);
}
