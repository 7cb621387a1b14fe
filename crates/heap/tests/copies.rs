//! On a block device, stores go to private copies of pages: they are given back, so that a large pool needs no memory
//! of its size. A separate program, since it measures its own process.

use perdura::{Domain, EngineKind, Options, Pool, Purpose, Root, Tx, TxExt};
use std::sync::atomic::{AtomicU64, Ordering};

/// MiB of anonymous memory of this process.
fn anonymous() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find(|line| line.starts_with("Anonymous:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

const BLOCK: u64 = 1 << 20;
const BLOCKS: u64 = 200;

fn value(block: u64, at: u64, round: u64) -> u64 {
    (block << 40 ^ at) * 3 + round
}

/// A table of blocks that take nearly all of the pool.
fn fill(pool: &Pool) -> u64 {
    let mut handle = pool.session().unwrap();
    let table = handle
        .transaction(|tx| {
            let table = tx.new_bytes(Purpose::General, &vec![0; BLOCKS as usize * 8])?;
            tx.set_root("table", Root { at: table, kind: 1000 })?;
            Ok(table)
        })
        .unwrap();
    for block in 0..BLOCKS {
        handle
            .transaction(|tx| {
                let words = (0..BLOCK / 8).flat_map(|word| value(block, word * 8, 0).to_ne_bytes());
                let at = tx.new_bytes(Purpose::Value, &words.collect::<Vec<_>>())?;
                tx.write_word(table + block * 8, at)
            })
            .unwrap();
    }
    table
}

/// Two words of each page of a block.
fn rewrite(tx: &mut dyn Tx, table: u64, block: u64, round: u64) -> perdura::Result<()> {
    let start = tx.read_word(table + block * 8)?;
    for at in (0..BLOCK).step_by(4096).flat_map(|page| [page, page + 2048]) {
        tx.write_word(start + at, value(block, at, round))?;
    }
    Ok(())
}

fn check(tx: &mut dyn Tx, table: u64, block: u64, round: u64) -> perdura::Result<()> {
    let start = tx.read_word(table + block * 8)?;
    for at in (0..BLOCK).step_by(512) {
        let round = if at % 2048 == 0 { round } else { 0 };
        assert_eq!(tx.read_word(start + at)?, value(block, at, round), "block {block}, {at:#x}");
    }
    Ok(())
}

#[test]
fn a_large_pool_takes_a_bounded_amount_of_memory() {
    // One after the other: the memory of the process is measured.
    for engine in [EngineKind::Undo, EngineKind::Redo, EngineKind::ArchaptRedoSum] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().join("pool");
        let options = Options::new().domain(Some(Domain::Media)).size(256 << 20).log(8 << 20);
        let pool = options.engine(engine).create(&path).unwrap();
        let before = anonymous();
        let started = std::time::Instant::now();
        let table = fill(&pool);
        let filled = started.elapsed();
        let most = AtomicU64::new(anonymous().saturating_sub(before));
        println!("{engine}: {most:?} MiB after filling, {filled:?}");
        // Threads that read, all over the pool, other threads' stores.
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut handle = pool.session().unwrap();
                    loop {
                        let block = next.fetch_add(1, Ordering::Relaxed);
                        if block >= BLOCKS {
                            break;
                        }
                        handle.submit(|tx| rewrite(tx, table, block, 1)).unwrap();
                        handle.submit_read(|tx| check(tx, table, block, 1)).unwrap();
                        if block.is_multiple_of(8) {
                            most.fetch_max(anonymous().saturating_sub(before), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let most = most.load(Ordering::Relaxed);
        println!("{engine}: {most} MiB at most, in {:?}", started.elapsed());
        let mut handle = pool.session().unwrap();
        (0..BLOCKS).for_each(|block| handle.read(|tx| check(tx, table, block, 1)).unwrap());
        drop(handle);
        pool.close().unwrap();
        let pool = Options::new().open(&path).unwrap();
        let mut handle = pool.session().unwrap();
        (0..BLOCKS).for_each(|block| handle.read(|tx| check(tx, table, block, 1)).unwrap());
        // 200 MiB were stored to, twice.
        assert!(most < 140, "{engine}: {most} MiB");
    }
}
