//! Databases whose structure in the pool is damaged: an error, at worst.

use crate::common::{Folder, run};
use perdura::Options;
use perdura_memory::random::SplitMix64;
use perdura_sqlite::{check_root, copy::export, databases};

#[test]
fn a_damaged_structure_is_an_error_at_worst() {
    let folder = Folder::new();
    let db = folder.open();
    run(
        &db,
        "CREATE TABLE t (x); INSERT INTO t VALUES (randomblob(3000000)); UPDATE t SET x = zeroblob(3000000)",
    );
    drop(db);
    let pool = Options::new().open(folder.pool()).unwrap();
    let mut handle = pool.session().unwrap();
    let (header, words) = handle
        .read(|tx| {
            let root = tx.root("sqlite:main")?.expect("the database");
            let words = (0..6).map(|word| tx.read_word(root.at + 8 * word));
            Ok((root, words.collect::<perdura::Result<Vec<_>>>()?))
        })
        .unwrap();
    let out = folder.path().join("out.db");
    let mut refused = 0;
    for seed in perdura_testing::seeds(1, 300) {
        let mut random = SplitMix64::new(seed);
        // A word of the header, of the tree's root, or of the first block of replaced pages.
        let place = match random.below(4) {
            0 if words[5] != 0 => words[5] + 8 * random.below(4),
            1 => words[3] + 8 * random.below(4),
            _ => header.at + 8 * random.below(6),
        };
        let value = match random.below(6) {
            0 => u64::MAX - random.below(16),
            1 => 1 << random.below(64),
            2 => header.at,
            3 => words[3],
            4 => random.below(1 << 20),
            _ => random.next(),
        };
        let before = handle.read(|tx| tx.read_word(place)).unwrap();
        handle.transaction(|tx| tx.write_word(place, value)).unwrap();
        let found = databases(&pool);
        let (listed, is_large) = (found.is_err(), found.is_ok_and(|found| found[0].1 > 1 << 26));
        let checked = handle.read(|tx| check_root(tx, header, &mut |_| Ok(()))).is_err();
        // A length that its tree bears out, of zeros, would only take time.
        let exported = !is_large && export(&pool, "main", &out).is_err();
        let _ = std::fs::remove_file(&out);
        refused += u32::from(listed || checked || exported);
        handle.transaction(|tx| tx.write_word(place, before)).unwrap();
    }
    assert!(refused > 50, "{refused} of 300");
    export(&pool, "main", &out).unwrap();
}
