//! Free space that goes back to the file system, and is taken again.

use perdura::check::check;
use perdura::{Domain, EngineKind, Error, Memory as _, Options, Pool, Purpose, Root, Tx, TxExt};
use perdura_memory::{MapOptions, Mapped};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of an object.
const OBJECT: u64 = 100_000;
/// A small log, so that most of the file is pages.
const LOG: u64 = 1 << 20;

/// How much is allocated and freed.
fn bytes() -> u64 {
    perdura_testing::times(24) << 20
}

fn options(engine: EngineKind, domain: Domain) -> Options {
    Options::new().engine(engine).domain(Some(domain)).size(bytes() * 2 + (16 << 20)).log(LOG)
}

fn takes_space_back(folder: &Path) -> bool {
    let options = MapOptions { domain: Some(Domain::Process), limit: 0 };
    let memory = Mapped::create(folder.join("probe"), 8192, options).unwrap();
    memory.release(0..4096).unwrap()
}

fn occupied(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Adds objects to a list, until there are `bytes` of them, each filled with its number. Stops at the first error, and
/// returns it.
fn more(pool: &Pool, first: u64, bytes: u64) -> Result<(), Error> {
    let mut handle = pool.session()?;
    for number in first..bytes / OBJECT {
        handle.transaction(|tx| {
            let next = tx.root("list")?.map_or(0, |root| root.at);
            let mut object = vec![number as u8; OBJECT as usize];
            object[..8].copy_from_slice(&next.to_ne_bytes());
            let at = tx.new_bytes(Purpose::Value, &object)?;
            tx.set_root("list", Root { at, kind: 1000 })
        })?;
    }
    Ok(())
}

fn list(tx: &mut dyn Tx) -> Result<Vec<u64>, Error> {
    let (mut all, mut at) = (Vec::new(), tx.root("list")?.map_or(0, |root| root.at));
    while at != 0 {
        all.push(at);
        at = tx.read_word(at)?;
    }
    Ok(all)
}

/// Counts the objects; each must be intact.
fn count(pool: &Pool) -> u64 {
    let mut handle = pool.session().unwrap();
    let objects = handle.read(|tx| {
        let all = list(tx)?;
        for (number, at) in all.iter().rev().enumerate() {
            let mut object = vec![0; OBJECT as usize];
            tx.read_bytes(*at, &mut object)?;
            assert!(object[8..].iter().all(|byte| *byte == number as u8), "object {number}");
        }
        Ok(all.len() as u64)
    });
    objects.unwrap()
}

/// Frees all but the oldest objects.
fn thin(pool: &Pool, keep: usize) {
    let mut handle = pool.session().unwrap();
    while handle.read(|tx| list(tx)).unwrap().len() > keep {
        handle
            .transaction(|tx| {
                let at = tx.root("list")?.expect("a list").at;
                let next = tx.read_word(at)?;
                tx.free(at)?;
                tx.set_root("list", Root { at: next, kind: 1000 })
            })
            .unwrap();
    }
}

/// Gives back free space, some at a time, as a server does.
fn release(pool: &Pool) -> u64 {
    std::iter::from_fn(|| Some(pool.release_some().unwrap())).take_while(|&bytes| bytes > 0).sum()
}

fn whole(path: &Path) {
    let report = check(path, &|_, _, _| Ok(false)).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn freed_space_goes_back_and_comes_again() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if !takes_space_back(folder.path()) {
        return eprintln!(
            "skipped: the file system of {} takes no space back",
            folder.path().display()
        );
    }
    {
        for engine in EngineKind::ALL {
            let path = folder.path().join(engine.to_string());
            let options = options(engine, Domain::Process);
            let pool = options.create(&path).unwrap();
            more(&pool, 0, bytes()).unwrap();
            let full = occupied(&path);
            thin(&pool, 3);
            assert_eq!(pool.info().usage.released_bytes, 0);
            let released = release(&pool);
            let sums = matches!(engine, EngineKind::ArchaptUndoSum | EngineKind::ArchaptRedoSum);
            assert_eq!(released == 0, sums, "{engine}");
            if !sums {
                assert!(released > bytes() * 3 / 4, "{engine}: {released}");
                assert!(occupied(&path) < full - bytes() * 3 / 4, "{engine}: {}", occupied(&path));
            }
            // No space is given back while it is needed, or if there is little.
            assert_eq!(release(&pool), 0);
            assert_eq!(count(&pool), 3);
            let after = occupied(&path);
            pool.close().unwrap();
            whole(&path);
            let pool = options.open(&path).unwrap();
            assert!(
                occupied(&path) <= after + (64 << 10),
                "{engine}: {after} before the opening, {} after it",
                occupied(&path)
            );
            assert_eq!(count(&pool), 3);
            thin(&pool, 0);
            more(&pool, 0, bytes()).unwrap();
            assert_eq!(count(&pool), bytes() / OBJECT);
            assert!(
                pool.memory().len() < bytes() + bytes() / 4 + (8 << 20),
                "{engine}: the file grew"
            );
            pool.close().unwrap();
            whole(&path);
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn with_checksums_of_all_pages_nothing_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = options(EngineKind::Redo, Domain::Process).checksums(true).create(&path).unwrap();
    more(&pool, 0, bytes()).unwrap();
    thin(&pool, 0);
    assert_eq!((release(&pool), pool.release_all().unwrap()), (0, 0));
    pool.close().unwrap();
    whole(&path);
}

/// On a block device the private copies are given back, too, and the old contents are zero in both images.
#[test]
fn on_a_block_device_too() {
    const BYTES: u64 = 4 << 20;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if !takes_space_back(folder.path()) {
        return eprintln!(
            "skipped: the file system of {} takes no space back",
            folder.path().display()
        );
    }
    for engine in [EngineKind::Redo, EngineKind::Undo] {
        let path = folder.path().join(engine.to_string());
        let pool = options(engine, Domain::Media).create(&path).unwrap();
        more(&pool, 0, BYTES).unwrap();
        let full = occupied(&path);
        thin(&pool, 1);
        // Little free space is not released automatically, but on request.
        assert_eq!(release(&pool), 0);
        assert!(pool.release_all().unwrap() > BYTES * 3 / 4);
        assert!(occupied(&path) < full - BYTES * 3 / 4);
        more(&pool, 1, BYTES / 2).unwrap();
        pool.close().unwrap();
        whole(&path);
        let pool = Options::new().open(&path).unwrap();
        assert_eq!(count(&pool), BYTES / 2 / OBJECT);
    }
}

const KILLED: &str = "PERDURA_TEST_RELEASE_KILLED";

/// A process dies at any moment of releasing and filling: its pool is intact, and has everything it committed.
#[test]
fn a_killed_process_leaves_a_sound_pool() {
    for (turn, engine) in
        [EngineKind::Redo, EngineKind::Undo, EngineKind::ArchaptRedo].into_iter().enumerate()
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(engine.to_string());
        drop(options(engine, Domain::Process).create(&path).unwrap());
        for life in 0..3u64 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "release::one_that_is_killed", "--nocapture"])
                .env(KILLED, &path)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            lines
                .find(|line| line.as_ref().is_ok_and(|line| line.contains("thinned")))
                .unwrap()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(7 * life + 3 * turn as u64));
            child.kill().unwrap();
            child.wait().unwrap();
            let pool = Options::new().open(&path).unwrap();
            // It is filled again as soon as space has been released.
            assert!(count(&pool) >= 2);
            pool.close().unwrap();
            whole(&path);
        }
    }
}

/// Does something only in the child of the test above.
#[test]
fn one_that_is_killed() {
    let Some(path) = std::env::var_os(KILLED).map(PathBuf::from) else { return };
    let pool = Options::new().domain(Some(Domain::Process)).open(path).unwrap();
    thin(&pool, 0);
    more(&pool, 0, bytes()).unwrap();
    thin(&pool, 2);
    println!("thinned");
    std::io::stdout().flush().unwrap();
    release(&pool);
    more(&pool, 2, bytes()).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

const DISK: &str = "PERDURA_TEST_RELEASE_DISK";

/// Another program takes the space that a pool has given back: that is an error, nothing is lost, and no signal is
/// sent. The disk is a file system in a file; that takes administrator's rights and a loop device.
#[test]
fn a_disk_that_others_have_filled() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cd \"$0\" && mkdir small disk && mount -t tmpfs -o size=90m none small \
        && truncate -s 72m small/image && mkfs.ext4 -q -O ^has_journal small/image \
        && mount -o loop small/image disk || exit 77; \
        \"$1\" --exact release::on_a_disk_for_two --nocapture; status=$?; umount disk; exit $status";
    let child = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .args([folder.path(), &std::env::current_exe().unwrap()])
        .env(DISK, folder.path().join("disk"))
        // The disk is of a fixed size.
        .env("PERDURA_TEST_BUDGET", "1")
        .output();
    let output = match child {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: no namespace of its own: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    if said.contains("disk for two: done") && output.status.success() {
        return;
    }
    assert!(
        output.status.code().is_some_and(|code| code != 101),
        "{:?}: {said}{told}",
        output.status
    );
    eprintln!("skipped: no file system of its own: {told}");
}

/// Does something only in the child of the test above.
#[test]
fn on_a_disk_for_two() {
    let Some(disk) = std::env::var_os(DISK).map(PathBuf::from) else { return };
    for domain in [Domain::Process, Domain::Media] {
        let (path, filler) = (disk.join("pool"), disk.join("filler"));
        let pool = options(EngineKind::Redo, domain).create(&path).unwrap();
        more(&pool, 0, bytes()).unwrap();
        thin(&pool, 3);
        assert!(pool.release_all().unwrap() > bytes() / 2);
        let mut file = fs::File::create(&filler).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        drop(file);

        let error = more(&pool, 3, bytes()).expect_err("there is no space");
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        assert!(pool.cannot_grow().is_some());
        thin(&pool, 3);
        assert_eq!(count(&pool), 3);
        // The present space is enough for opening and reading.
        pool.close().unwrap();
        let pool = Options::new().domain(Some(domain)).open(&path).unwrap();
        assert_eq!(count(&pool), 3);
        assert!(matches!(more(&pool, 3, bytes()), Err(Error::NoSpace { .. })));
        thin(&pool, 2);

        fs::remove_file(&filler).unwrap();
        thin(&pool, 0);
        more(&pool, 0, bytes()).unwrap();
        assert_eq!(count(&pool), bytes() / OBJECT);
        pool.close().unwrap();
        whole(&path);
        fs::remove_file(&path).unwrap();
    }
    println!("disk for two: done");
}
