//! Interrupted creations, and pools that many processes open, create and inspect at the same time.
//!
//! The kills are of real processes: this program, run again with its task in the environment.

use perdura::check::check;
use perdura::{Domain, EngineKind, MapError, OpenError, Options, Purpose, Root, TxExt};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TASK: &str = "PERDURA_TEST_TASK";
const PATH: &str = "PERDURA_TEST_PATH";

fn options() -> Options {
    Options::new().size(8 << 20)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn child(task: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "creation::in_a_child", "--nocapture"])
        .envs([(TASK, task), (PATH, path.to_str().unwrap())])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Does something only in a child process.
#[test]
fn in_a_child() {
    let (Ok(task), Ok(path)) = (std::env::var(TASK), std::env::var(PATH)) else { return };
    match task.as_str() {
        "create" => drop(options().open_or_create(path).unwrap()),
        "look" => loop {
            check(Path::new(&path), &|_, _, _| Ok(false)).unwrap();
        },
        "open" => {
            // Keeps the pool open, so that the others find it in use.
            let opened = Options::new().open(&path);
            let pool = match opened {
                Ok(pool) => pool,
                Err(OpenError::Map(MapError::Locked(_))) => std::process::exit(3),
                Err(error) => panic!("{error}"),
            };
            std::thread::sleep(Duration::from_millis(300));
            drop(pool);
        }
        task => panic!("no such task: {task}"),
    }
}

fn put(path: &Path, value: u64) {
    let pool = options().open_or_create(path).unwrap();
    let mut handle = pool.session().unwrap();
    handle
        .transaction(|tx| {
            let at = tx.new_bytes(Purpose::General, &value.to_ne_bytes())?;
            tx.set_root("value", Root { at, kind: 1000 })
        })
        .unwrap();
}

/// Wherever a creation is killed, the next one works, and leaves no stray files.
#[test]
fn a_creation_killed_anywhere_is_made_good() {
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    child("create", &folder.path().join("whole")).wait().unwrap();
    let whole = started.elapsed();
    let mut cut_short = 0;
    const KILLS: u32 = 60;
    for kill in 0..KILLS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let mut maker = child("create", &path);
        std::thread::sleep(whole * (kill % 30 + 1) / 30);
        maker.kill().unwrap();
        maker.wait().unwrap();
        cut_short += u32::from(!path.exists() && !names(folder.path()).is_empty());
        put(&path, u64::from(kill));
        assert_eq!(names(folder.path()), BTreeSet::from(["pool".to_owned()]), "kill {kill}");
    }
    println!("{cut_short} of {KILLS} creations were cut short with something done");
}

/// The states that a creation goes through, however short they are.
#[test]
fn every_state_of_an_unfinished_creation_is_made_good() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    options().create(&whole).unwrap().close().unwrap();
    let bytes = fs::read(&whole).unwrap();
    let headless = [&vec![0; 8192], &bytes[8192..]].concat();
    let torn = [&bytes[..64], &vec![0; 8192 - 64], &bytes[8192..]].concat();
    let states: [(&str, &[u8]); 6] = [
        ("empty", b""),
        ("short", &bytes[..5000]),
        ("zeros", &vec![0; bytes.len()]),
        ("no header", &headless),
        ("a part of a header", &torn),
        ("whole, without its name", &bytes),
    ];
    for (what, left) in states {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        fs::write(folder.path().join(".pool.perdura-new"), left).unwrap();
        put(&path, 1);
        assert_eq!(names(folder.path()), BTreeSet::from(["pool".to_owned()]), "{what}");
    }
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let weaker = options().domain(Some(Domain::Process)).requires(perdura::Survives::Power);
    assert!(matches!(weaker.open_or_create(&path), Err(OpenError::Weaker { .. })));
    assert!(options().size(1).open_or_create(&path).is_err());
    assert_eq!(names(folder.path()), BTreeSet::new());
    // An existing file is never replaced, whatever it is.
    fs::write(&path, b"precious").unwrap();
    assert!(options().open_or_create(&path).is_err() && options().create(&path).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn one_of_many_openers_has_the_pool() {
    for engine in [EngineKind::Redo, EngineKind::ArchaptUndo] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        for round in 0..20 {
            let barrier = Barrier::new(4);
            let opened: Vec<_> = std::thread::scope(|scope| {
                let open = || {
                    barrier.wait();
                    // In the first round it is created, too.
                    options().engine(engine).open_or_create(&path)
                };
                let openers: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
                openers.into_iter().map(|opener| opener.join().unwrap()).collect()
            });
            let won: Vec<_> = opened.iter().filter(|opened| opened.is_ok()).collect();
            assert_eq!(won.len(), 1, "{engine}, round {round}: all failed, or several opened");
            for error in opened.iter().filter_map(|opened| opened.as_ref().err()) {
                assert!(matches!(error, OpenError::Map(MapError::Locked(_))), "{error}");
            }
            // Left without being closed, so that the next round must recover it.
            opened.into_iter().filter_map(Result::ok).for_each(std::mem::forget);
            let left = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, left).unwrap();
        }
    }
}

#[test]
fn one_of_many_processes_has_the_pool_while_others_look() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    put(&path, 7);
    let mut lookers: Vec<_> = (0..2).map(|_| child("look", &path)).collect();
    for round in 0..5 {
        let openers: Vec<_> = (0..4).map(|_| child("open", &path)).collect();
        let codes: Vec<_> =
            openers.into_iter().map(|mut opener| opener.wait().unwrap().code()).collect();
        assert!(codes.iter().all(|code| matches!(code, Some(0 | 3))), "round {round}: {codes:?}");
        assert!(codes.contains(&Some(0)), "round {round}: all found it locked");
    }
    for looker in &mut lookers {
        assert!(looker.try_wait().unwrap().is_none(), "a look failed");
        looker.kill().unwrap();
        looker.wait().unwrap();
    }
}

/// An inspection hinders an opening at the same time as little as a finished one.
#[test]
fn pools_open_beside_checks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    put(&path, 7);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let report = check(&path, &|_, _, _| Ok(false)).unwrap();
                // The inspection may be disturbed, but then reports that.
                let told = report.notes.iter().any(|note| note.contains("another process"));
                assert!(report.is_whole() || told, "{:?}", report.problems);
            }
        });
        let opened =
            (0..100).try_for_each(|_| Options::new().open(&path)?.close().map_err(OpenError::from));
        done.store(true, Ordering::Relaxed);
        opened.unwrap();
        looker.join().unwrap();
    });
}
