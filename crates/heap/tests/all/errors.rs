//! The library's errors when something is full or damaged, each caused for real, and compared with the words of
//! docs/errors.md.
//!
//! A full disk is a small file system of this program's own, in its own namespace; where the system does not permit
//! that, the tests that need it are skipped, and say so.

use perdura::collections::{HashMap, OrderedMap};
use perdura::superblock::Superblock;
use perdura::{EngineKind, Error, OpenError, Options, Pool, Ptr, Purpose, Root, Tx, TxExt};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The documented texts, each of which is provoked here.
const TABLE: &str = include_str!("../../../../docs/errors.md");

/// Asserts that the text has these words, and that the table has them, too.
#[track_caller]
fn says(error: &impl ToString, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "not '{word}': {text}");
        assert!(TABLE.contains(word), "docs/errors.md does not have '{word}'");
    }
}

fn options() -> Options {
    Options::new().size(64 << 20).log(1 << 20)
}

fn refused(path: &Path) -> OpenError {
    let before = fs::read(path).unwrap();
    let error = Options::new().open(path).err().expect("it opened");
    assert!(fs::read(path).unwrap() == before, "a refused pool was written to");
    error
}

/// Allocates until nothing is left.
fn fill(pool: &Pool, bytes: u64) -> (u64, Error) {
    let mut handle = pool.session().unwrap();
    for count in 0.. {
        if let Err(error) = handle.transaction(|tx| tx.allocate(Purpose::Value, bytes)) {
            return (count, error);
        }
    }
    unreachable!("no pool is endless")
}

#[test]
fn a_full_pool() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Options::new().size(8 << 20).create(folder.path().join("pool")).unwrap();
    let (_, error) = fill(&pool, 100_000);
    assert!(matches!(error, Error::Full { requested: 100_000, taken: 0, .. }), "{error}");
    says(&error, &["the pool is full", "free something, or reopen it with a larger limit"]);
    assert!(pool.cannot_grow().is_none(), "the disk is not to blame");

    let mut handle = pool.session().unwrap();
    let mut count = 0;
    let large = handle.transaction(|tx| {
        count = 0;
        (0..200).try_for_each(|_| {
            let new = tx.allocate(Purpose::General, 4000)?;
            count += 1;
            tx.write_bytes(new.at(), &[1; 4000])
        })
    });
    let large = large.unwrap_err();
    says(&large, &["the pool is full"]);
    // Those that it had allocated are whole blocks.
    let Error::Full { taken, .. } = large else { panic!("{large}") };
    assert!(count > 0 && (count * 4000..=count * 4096).contains(&taken), "{count}: {taken}");
    let pool = options().log(68 << 10).create(folder.path().join("log")).unwrap();
    let mut handle = pool.session().unwrap();
    let block = handle.transaction(|tx| tx.new_bytes(Purpose::Value, &vec![0; 1 << 20])).unwrap();
    let error = handle.transaction(|tx| tx.write_bytes(block, &vec![1; 1 << 20])).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    says(
        &error,
        &["the transaction is too large", "split it, or create the pool with a larger log"],
    );
}

#[test]
fn a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let task = std::env::current_exe().unwrap();
    let script = "mount -t tmpfs -o size=12m none \"$0\" || exit 77; exec \"$1\" --exact errors::on_a_small_disk --nocapture";
    let child = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .args([folder.path(), &task])
        .env("PERDURA_TEST_SMALL_DISK", folder.path())
        .output();
    match child {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains("small disk: done"), "{said}");
        }
        Ok(output) if output.status.code() != Some(101) => {
            eprintln!(
                "skipped: no file system of its own: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(output) => panic!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => eprintln!("skipped: no namespace of its own: {error}"),
    }
}

/// A sparse copy of a pool, on a disk that is full: it can be looked at, and is refused when it is opened; touching a
/// hole would be a signal.
fn look_at_sparse(disk: &Path, bytes: &[u8], filler: &Path) {
    let sparse = disk.join("copy");
    let file = fs::File::create(&sparse).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (page, words) in bytes.chunks(4096).enumerate() {
        if words.iter().any(|byte| *byte != 0) {
            std::os::unix::fs::FileExt::write_all_at(&file, words, page as u64 * 4096).unwrap();
        }
    }
    drop(file);
    let used = fs::metadata(filler).unwrap().len();
    let more = fs::OpenOptions::new().append(true).open(filler).unwrap();
    while std::io::Write::write_all(&mut &more, &[1; 4096]).is_ok() {}
    let source = perdura::source::Source::open(&sparse).unwrap();
    let check = source.check(&|_, _, _| Ok(false));
    // The test allocates memory that no root owns.
    let is_leak = |problem: &String| problem.contains("leaked");
    assert!(check.problems.iter().all(is_leak), "{:?}", check.problems);
    let looked = perdura_memory::Mapped::open_read_only(&sparse).unwrap();
    let sum: u64 = (0..perdura::Memory::len(&looked))
        .step_by(8)
        .fold(0, |sum, at| sum.wrapping_add(perdura::Memory::load(&looked, at)));
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    assert_eq!(sum, words.fold(0, u64::wrapping_add));
    drop((source, looked));
    says(&refused(&sparse), &["no space for a file of"]);
    more.set_len(used).unwrap();
    fs::remove_file(&sparse).unwrap();
}

/// Does something only in the child of the test above.
#[test]
fn on_a_small_disk() {
    let Some(disk) = std::env::var_os("PERDURA_TEST_SMALL_DISK").map(PathBuf::from) else { return };
    for domain in [perdura::Domain::Media, perdura::Domain::Transient] {
        let (path, filler) = (disk.join("pool"), disk.join("filler"));
        fs::write(&filler, vec![1; 4 << 20]).unwrap();
        let options = options().domain(Some(domain));
        let pool = options.create(&path).unwrap();
        let (count, error) = fill(&pool, 100_000);
        assert!(matches!(error, Error::NoSpace { requested: 100_000, .. }), "{error}");
        says(&error, &["the pool cannot grow to", "No space left on device"]);
        says(&error, &["free space on its file system, or raise the quota"]);
        assert!(count > 10 && pool.cannot_grow().is_some());
        // Operations that need no room go on; and with space, all do.
        let mut handle = pool.session().unwrap();
        handle.transaction(|tx| tx.set_root("none", Root { at: 0, kind: 1 })).unwrap();
        fs::remove_file(&filler).unwrap();
        handle.transaction(|tx| tx.allocate(Purpose::Value, 100_000)).unwrap();
        assert!(pool.cannot_grow().is_none());
        drop(handle);
        pool.close().unwrap();

        // No room to create a pool, nor for the holes of a sparse copy.
        let sparse = disk.join("sparse");
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&filler, vec![1; 9 << 20]).unwrap();
        let error = options.clone().log(8 << 20).create(&path).err().expect("it was made");
        says(&error, &["no space for a file of", "free some on its file system"]);
        let file = fs::File::create(&sparse).unwrap();
        std::io::Write::write_all(&mut &file, &bytes[..16384]).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        drop(file);
        let error = perdura_memory::Mapped::open(&sparse, Default::default()).err();
        says(&error.expect("it opened"), &["no space for a file of"]);
        look_at_sparse(&disk, &bytes, &filler);
        let mut names: Vec<_> =
            fs::read_dir(&disk).unwrap().map(|one| one.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["filler", "sparse"]);
        names.iter().for_each(|name| fs::remove_file(disk.join(name)).unwrap());
    }
    println!("small disk: done");
}

/// A sync that fails: of a file system in a file, on another file system that is full. It takes administrator's rights
/// and a loop device; without them it is skipped.
#[test]
fn a_failed_sync() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cd \"$0\" && mkdir small disk && mount -t tmpfs -o size=32m none small \
        && truncate -s 200m small/image && mkfs.ext4 -q -O ^has_journal small/image \
        && mount -o loop small/image disk || exit 77; \
        \"$1\" --exact errors::on_a_failing_disk --nocapture; status=$?; umount disk; exit $status";
    let child = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .args([folder.path(), &std::env::current_exe().unwrap()])
        .env("PERDURA_TEST_FAILING_DISK", folder.path())
        .output();
    match child {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("failing disk: done"), "{said}");
        }
        Ok(output) if output.status.code() == Some(101) => panic!("{output:?}"),
        Ok(output) => {
            eprintln!("skipped: no failing disk: {}", String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => eprintln!("skipped: no failing disk: {error}"),
    }
}

/// Does something only in the child of the test above.
#[test]
fn on_a_failing_disk() {
    let Some(folder) = std::env::var_os("PERDURA_TEST_FAILING_DISK").map(PathBuf::from) else {
        return;
    };
    let path = folder.join("disk/pool");
    let pool = options().create(&path).unwrap();
    assert_eq!(pool.memory().backing(), perdura_memory::Backing::Block);
    let mut handle = pool.session().unwrap();
    handle.transaction(|tx| tx.new_bytes(Purpose::Value, &[1; 100_000])).unwrap();
    let mut filler = fs::File::create(folder.join("small/filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[1; 4096]).is_ok() {}
    let mut store = || handle.transaction(|tx| tx.new_bytes(Purpose::Value, &[2; 1 << 20]));
    let error = (0..60).find_map(|_| store().err()).expect("the disk took all");
    assert!(matches!(error, Error::Io(_)), "{error}");
    says(&error, &["writing to the pool's medium failed (cannot sync the pool's file:"]);
    says(
        &error,
        &["nothing more can be made durable through this mapping: repair the cause, then open"],
    );
    // The failure is permanent, though there is room again.
    drop(filler);
    fs::remove_file(folder.join("small/filler")).unwrap();
    says(&store().unwrap_err(), &["writing to the pool's medium failed"]);
    assert!(pool.checkpoint().is_err());
    println!("failing disk: {error}\nfailing disk: done");
}

/// A limit on the size of files is an error, and not a signal that ends the process.
#[test]
fn a_limit_on_files() {
    let folder = tempfile::tempdir().unwrap();
    let limited = || {
        // The shell's unit is 512 or 1024 bytes.
        let script = "ulimit -f 8192 && exec \"$0\" --exact errors::under_a_limit --nocapture";
        Command::new("sh")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .env("PERDURA_TEST_UNDER_A_LIMIT", folder.path())
            .output()
            .unwrap()
    };
    let output = limited();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("under a limit: done"), "{output:?}");
    // A pool longer than the limit is not opened for writing.
    let path = folder.path().join("long");
    drop(perdura_memory::Mapped::create(&path, 20 << 20, Default::default()).unwrap());
    let output = limited();
    assert!(output.status.success(), "{output:?}");
}

/// Does something only in the child of the test above.
#[test]
fn under_a_limit() {
    let Some(folder) = std::env::var_os("PERDURA_TEST_UNDER_A_LIMIT").map(PathBuf::from) else {
        return;
    };
    let media = |path: &str| {
        let options = perdura_memory::MapOptions { domain: Some(perdura::Domain::Media), limit: 0 };
        perdura_memory::Mapped::open(folder.join(path), options)
    };
    if folder.join("long").exists() {
        return says(&media("long").err().unwrap(), &["no space for a file of"]);
    }
    let pool = options().create(folder.join("pool")).unwrap();
    let (count, error) = fill(&pool, 100_000);
    assert!(count > 5 && matches!(error, Error::NoSpace { .. }), "{error}");
    says(&error, &["the pool cannot grow to", "or the limit on a file's size (`ulimit -f`)"]);
    let error = options().log(16 << 20).create(folder.join("other")).err().unwrap();
    says(&error, &["no space for a file of", "or `ulimit -f`"]);
    println!("under a limit: done");
}

/// Mistakes of the program: none of them is reported as damage, or as a full pool.
#[test]
fn mistakes_of_the_program() {
    fn mistake(mut body: impl FnMut(&mut dyn Tx) -> perdura::Result<()>, words: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let pool = options().create(folder.path().join("pool")).unwrap();
        let error = pool.session().unwrap().transaction(|tx| body(tx)).unwrap_err();
        assert!(error.is_misuse() && !error.is_damage() && !error.is_full(), "{error:?}");
        says(&error, words);
    }
    const NOT_DAMAGED: &str = "what was passed is stale, or of another pool, and nothing says that this one is damaged; \
         pass what this pool gave (if the offset was read from the pool itself, run `perdura pool check` on it)";
    mistake(|tx| tx.read_word(1 << 45).map(drop), &["no word of the pool begins", NOT_DAMAGED]);
    mistake(|tx| tx.write_word(1 << 45 | 3, 1), &["no word of the pool begins", NOT_DAMAGED]);
    for at in [0, 8, 100_000] {
        mistake(|tx| tx.read(Ptr::<u64>::new(at)).map(drop), &["no object of the pool is"]);
        mistake(|tx| tx.read(Ptr::<[u8; 3]>::new(at)).map(drop), &["no object of the pool is"]);
    }
    for kind in [0, 5, 999] {
        mistake(
            |tx| tx.set_root("x", Root { at: 1 << 20, kind }),
            &["a root's kind is a collection's (`collections::kind`), or the program's own"],
        );
    }
    mistake(|tx| tx.free(64), &["no page of the pool is", NOT_DAMAGED]);
    mistake(
        |tx| {
            let at = tx.allocate(Purpose::Value, 100)?.at();
            tx.free(at)?;
            tx.free(at)
        },
        &["nothing is allocated", NOT_DAMAGED],
    );
    mistake(
        |tx| {
            let at = tx.allocate(Purpose::Value, 100)?.at();
            tx.usable(at + 8).map(drop)
        },
        &["no object begins", NOT_DAMAGED],
    );
    mistake(
        |tx| {
            let at = tx.new_bytes(Purpose::Value, &[1; 100])?;
            HashMap::<u64, u64>::new(at).len(tx).map(drop)
        },
        &["no hash map begins", NOT_DAMAGED],
    );
    mistake(
        |tx| {
            let map = OrderedMap::<u64, u64>::create(tx)?;
            map.insert(tx, 1, 1)?;
            let mut cursor = map.cursor(tx, ..)?;
            map.insert(tx, 2, 2)?;
            cursor.next(tx).map(drop)
        },
        &["a cursor made before entries were inserted or removed, of the ordered map", NOT_DAMAGED],
    );
    let folder = tempfile::tempdir().unwrap();
    let other = options().create(folder.path().join("other")).unwrap();
    let map = other.session().unwrap().transaction(|tx| HashMap::<u64, u64>::create(tx)).unwrap();
    mistake(|tx| map.len(tx).map(drop), &["another pool's collection was meant", NOT_DAMAGED]);
    mistake(
        |tx| {
            let at = HashMap::<u64, [u64; 4]>::create(tx)?.at();
            HashMap::<i64, [f32; 8]>::new(at).len(tx).map(drop)
        },
        &[
            "is not a HashMap<i64, [f32; 8]>, but a collection of another kind or of other types; open it with \
             the types that it was made with",
        ],
    );
    mistake(
        |tx| {
            let first = tx.point();
            let second = tx.point();
            tx.undo_to(first)?;
            tx.undo_to(second)
        },
        &[
            "the savepoint is void: the transaction that made it has ended, or has gone back to one before it",
        ],
    );
    mistake(
        |tx| {
            let point = tx.point();
            let new = tx.allocate(Purpose::Value, 100)?;
            tx.undo_to(point)?;
            tx.write_fresh(new, 0, &[1; 8])
        },
        &[
            "the memory was allocated by another transaction, or by this one before it went back to a savepoint",
        ],
    );
    mistake(
        |tx| {
            let new = tx.allocate(Purpose::Value, 100)?;
            tx.write_fresh(new, 0, &[1; 1000])
        },
        &["the bytes run over the end of the allocation"],
    );
    mistake(|tx| tx.write_word(64, 1), &["a transaction tried to write before the pool's pages"]);
    let mut handle = other.session().unwrap();
    let nested = handle.read(|_| other.session()?.read(|_| Ok(()))).unwrap_err();
    assert!(nested.is_misuse());
    says(
        &nested,
        &[
            "this thread has a transaction open on the pool, for which the call would wait for ever: commit or \
           abort it first, or use it",
        ],
    );
    let wrote = handle.read(|tx| tx.new_bytes(Purpose::Value, b"x")).unwrap_err();
    assert!(wrote.is_misuse());
    says(&wrote, &["a read-only transaction tried to write; use `transaction` for it"]);
}

/// Each kind of damage, and the error for it.
#[test]
fn a_damaged_pool() {
    type Damage = fn(&mut Vec<u8>);
    fn both(bytes: &mut [u8], at: usize, bits: u8) {
        bytes[at] ^= bits;
        bytes[4096 + at] ^= bits;
    }
    const LOG: usize = 3 * 4096;
    let cases: [(&str, Damage, &[&str]); 10] = [
        ("empty", |bytes| bytes.clear(), &["bytes are too few for a pool"]),
        ("short", |bytes| bytes.truncate(5000), &["this is not a Perdura pool (it is too short)"]),
        ("other", |bytes| bytes.fill(b'x'), &["(it does not begin as one)"]),
        (
            "cut short",
            |bytes| {
                bytes[..4096].fill(0);
                bytes[4096 + 100] ^= 1;
            },
            &["(its creation was cut short, or its header lost)"],
        ),
        ("version", |bytes| both(bytes, 8, 0x40), &["the pool has format version"]),
        (
            "headers",
            |bytes| both(bytes, 100, 1),
            &["the pool is damaged (both copies of the header"],
        ),
        (
            "truncated",
            |bytes| bytes.truncate(100_000),
            &["the pool is truncated", "go back to a copy"],
        ),
        (
            "log",
            |bytes| bytes[LOG + 3] ^= 1,
            &["the pool is damaged:", "run `perdura pool check` on it"],
        ),
        (
            "checkpoints",
            |bytes| {
                bytes[LOG + 64] ^= 1;
                bytes[LOG + 128] ^= 1;
            },
            &["the log has an older checkpoint than the header: the newer is lost"],
        ),
        ("page table", |_| {}, &["a page that does not match its checksum"]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = options().engine(EngineKind::Redo).create(&path).unwrap();
    let filled = pool.session().unwrap().transaction(|tx| tx.allocate(Purpose::Value, 100));
    filled.unwrap();
    pool.close().unwrap();
    let good = fs::read(&path).unwrap();
    let header = Superblock::read(&perdura_memory::Mapped::open_read_only(&path).unwrap()).unwrap();
    for (what, damage, words) in cases {
        let mut bytes = good.clone();
        damage(&mut bytes);
        if what == "page table" {
            bytes[header.layout.table as usize + 1] = 0xFF;
        }
        fs::write(&path, &bytes).unwrap();
        println!("{what}: {}", refused(&path));
        says(&refused(&path), words);
    }
}

#[test]
fn a_pool_that_is_not_to_be_opened_here() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pool = options().create(at("used")).unwrap();
    let error = Options::new().open(at("used")).err().unwrap();
    says(&error, &["the pool is in use; close it where it is open"]);
    drop(pool);

    says(&Options::new().open(at("missing")).err().unwrap(), &["there is no such file"]);
    says(&options().create(at("used")).err().unwrap(), &["there is a file already"]);
    says(&options().create(at("none/pool")).err().unwrap(), &["create the directory first"]);
    says(&Options::new().open(folder.path()).err().unwrap(), &["not a regular file"]);

    let pool = options().engine(EngineKind::Volatile).create(at("volatile")).unwrap();
    let left = fs::read(at("volatile")).unwrap();
    drop(pool);
    fs::write(at("volatile"), left).unwrap();
    says(
        &refused(&at("volatile")),
        &["its contents are undefined", "take what is there with `Options::force`"],
    );
}
