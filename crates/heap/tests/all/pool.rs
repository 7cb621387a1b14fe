//! Pools in files: creating, reopening, refusing, growing.

use perdura::{Domain, EngineKind, OpenError, Options, Purpose, Root, Survives, TxExt};
use std::path::PathBuf;

fn folders() -> Vec<tempfile::TempDir> {
    let mut folders = vec![tempfile::tempdir().unwrap()];
    folders.extend(tempfile::tempdir_in("/dev/shm"));
    folders
}

fn options() -> Options {
    Options::new().size(8 << 20)
}

#[test]
fn commits_are_there_after_reopening() {
    for folder in folders() {
        for engine in EngineKind::ALL {
            for domain in [None, Some(Domain::Process)] {
                let path = folder.path().join(format!("{engine}-{domain:?}.pool"));
                let options = options().engine(engine).domain(domain);
                let pool = options.create(&path).unwrap();
                let mut handle = pool.session().unwrap();
                for value in 0..100u64 {
                    handle
                        .transaction(|tx| {
                            let root = tx.root("list")?.map_or(0, |root| root.at);
                            let at = tx.new_bytes(
                                Purpose::General,
                                &[root, value].map(u64::to_ne_bytes).concat(),
                            )?;
                            tx.set_root("list", Root { at, kind: 1000 })
                        })
                        .unwrap();
                }
                drop(handle);
                pool.close().unwrap();
                let pool = Options::new().domain(domain).open(&path).unwrap();
                assert_eq!(pool.engine(), engine);
                let list = pool
                    .session()
                    .unwrap()
                    .read(|tx| {
                        let mut values = Vec::new();
                        let mut at = tx.root("list")?.map_or(0, |root| root.at);
                        while at != 0 {
                            values.push(tx.read_word(at + 8)?);
                            at = tx.read_word(at)?;
                        }
                        Ok(values)
                    })
                    .unwrap();
                assert_eq!(list, (0..100).rev().collect::<Vec<_>>(), "{engine} {domain:?}");
            }
        }
    }
}

#[test]
fn a_pool_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("once.pool");
    let pool = options().create(&path).unwrap();
    let error = Options::new().open(&path).err().expect("in use");
    assert!(error.to_string().contains("use"), "{error}");
    assert!(options().create(&path).is_err());
    drop(pool);
    Options::new().open(&path).unwrap();
}

#[test]
fn a_copy_opens_and_a_weaker_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
    let pool = options().create(&path).unwrap();
    let survives = pool.info().survives;
    pool.close().unwrap();
    std::fs::copy(&path, &copy).unwrap();
    let _original = Options::new().open(&path).unwrap();
    Options::new().open(&copy).unwrap().close().unwrap();
    if survives == Survives::Power {
        let weaker = Options::new().domain(Some(Domain::Process));
        let before = std::fs::read(&copy).unwrap();
        assert!(matches!(weaker.open(&copy), Err(OpenError::Weaker { .. })));
        assert_eq!(std::fs::read(&copy).unwrap(), before, "a refused pool was written to");
        weaker.accept_weaker(true).open(&copy).unwrap();
    }
}

#[test]
fn pools_grow_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grows.pool");
    let pool = options().create(&path).unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    let mut handle = pool.session().unwrap();
    let mut kept = Vec::new();
    for byte in 0..40u8 {
        kept.push(
            handle.transaction(|tx| tx.new_bytes(Purpose::Value, &vec![byte; 100_000])).unwrap(),
        );
    }
    assert!(std::fs::metadata(&path).unwrap().len() > before);
    drop(handle);
    drop(pool);
    let pool = Options::new().size(30 << 20).open(&path).unwrap();
    let mut handle = pool.session().unwrap();
    for (byte, at) in kept.into_iter().enumerate() {
        let mut bytes = vec![0; 100_000];
        handle.read(|tx| tx.read_bytes(at, &mut bytes)).unwrap();
        assert_eq!(bytes, vec![byte as u8; 100_000]);
    }
    handle.transaction(|tx| tx.allocate(Purpose::Value, 15 << 20)).unwrap();
    drop((handle, pool));
    assert!(matches!(Options::new().size(1 << 40).open(&path), Err(OpenError::Limit { .. })));
    let small = Options::new().size(1).open(&path).err().expect("it was opened");
    let begins = format!("{}: the pool's log and page table need a size", path.display());
    assert!(format!("{small:?}").starts_with(&begins), "{small}");
}

/// The areas that an engine keeps beside its log do not reduce the log.
#[test]
fn the_log_is_as_large_as_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = |engine: EngineKind| {
        let path = folder.path().join(format!("{engine}.pool"));
        let pool = options().log(4 << 20).engine(engine).create(&path).unwrap();
        std::iter::from_fn(|| pool.session().ok()).collect::<Vec<_>>().len()
    };
    let logging = EngineKind::ALL.into_iter().filter(|engine| engine.is_crash_consistent());
    let counts: Vec<_> = logging.map(|engine| (engine, sessions(engine))).collect();
    assert!(counts.iter().all(|(_, count)| *count == counts[0].1), "{counts:?}");
}

#[test]
fn a_size_beyond_all_sizes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.pool");
    for options in [Options::new().size(u64::MAX), options().log(u64::MAX)] {
        assert!(matches!(options.create(&path), Err(OpenError::Limit { .. })));
        assert!(!path.exists());
    }
}

#[test]
fn refuses_non_pools() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    options().create(path("good")).unwrap().close().unwrap();
    let good = std::fs::read(path("good")).unwrap();
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let both = |bytes: &mut Vec<u8>, at: usize| {
        bytes[at] ^= 0x40;
        bytes[4096 + at] ^= 0x40;
    };
    let cases: [(&str, Vec<u8>); 8] = [
        ("empty", Vec::new()),
        ("text", b"hello, world\n".repeat(10_000)),
        ("zeros", vec![0; 1 << 20]),
        ("truncated", good[..100_000].to_vec()),
        ("version", damaged(&|bytes| both(bytes, 8))),
        ("headers", damaged(&|bytes| both(bytes, 100))),
        ("log", damaged(&|bytes| bytes[3 * 4096 + 3] ^= 1)),
        (
            "checkpoints",
            damaged(&|bytes| {
                bytes[3 * 4096 + 64] ^= 1;
                bytes[3 * 4096 + 128] ^= 1;
            }),
        ),
    ];
    for (name, bytes) in cases {
        std::fs::write(path(name), &bytes).unwrap();
        for options in [Options::new(), Options::new().engine(EngineKind::Undo)] {
            let error = options.open(path(name)).err().unwrap_or_else(|| panic!("{name} opened"));
            assert!(!error.to_string().is_empty());
        }
        assert_eq!(std::fs::read(path(name)).unwrap(), bytes, "{name} was written to");
    }
    assert!(Options::new().open(path("missing")).is_err());
    assert!(Options::new().open(folder.path()).is_err());
    assert!(Options::new().size(1000).create(path("tiny")).is_err());
    assert!(!path("tiny").exists());
}
