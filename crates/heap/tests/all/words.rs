//! Words that are read together are those that are read one by one: in memory, in the write set, across lines.

use perdura::{EngineKind, Error, PoolTx, Purpose, Result, Tx};

/// Compares reads of `count` words at each place of the block at `at`.
fn compare(tx: &mut dyn Tx, at: u64, words: u64, count: usize) -> Result<()> {
    for first in 0..=words - count as u64 {
        let at = at + 8 * first;
        let mut together = vec![0; count];
        tx.read_words(at, &mut together)?;
        for (index, word) in together.into_iter().enumerate() {
            assert_eq!(word, tx.read_word(at + 8 * index as u64)?, "{index} of {count} at {at:#x}");
        }
    }
    Ok(())
}

fn compare_all(tx: &mut PoolTx<'_>, at: u64, words: u64) -> Result<()> {
    for count in [0, 1, 2, 3, 8, 9, 20] {
        compare(tx, at, words, count)?;
        let mut own = tx.on_pool().expect("it is one on a pool");
        compare(&mut own, at, words, count)?;
    }
    Ok(())
}

#[test]
fn words_read_together_are_those_read_one_by_one() {
    const WORDS: u64 = 64;
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.rolls_back()) {
        let folder = tempfile::tempdir().unwrap();
        let pool = perdura::Options::new().size(16 << 20).engine(engine);
        let pool = pool.create(folder.path().join("pool")).unwrap();
        let mut session = pool.session().unwrap();
        let at = session
            .transaction(|tx| {
                let at = tx.allocate(Purpose::General, 8 * WORDS)?.at();
                for word in 0..WORDS {
                    tx.write_word(at + 8 * word, word + 1)?;
                }
                compare_all(tx, at, WORDS)?;
                Ok(at)
            })
            .unwrap();
        session.read(|tx| compare_all(tx, at, WORDS)).unwrap();
        let changed = session.transaction(|tx| {
            // One word of each third line, and of a line at its edge.
            for word in [0, 24, 31, 32, 48] {
                tx.write_word(at + 8 * word, 1_000 + word)?;
            }
            compare_all(tx, at, WORDS)?;
            let mut words = [0; 3];
            tx.read_words(at + 8 * 30, &mut words)?;
            assert_eq!(words, [31, 1_031, 1_032], "{engine}");
            Ok(())
        });
        changed.unwrap();
        let outside = session.read(|tx| tx.read_words(u64::MAX - 15, &mut [0; 2]));
        assert!(matches!(outside, Err(Error::Misuse { .. })), "{engine}: {outside:?}");
        let unaligned = session.read(|tx| tx.read_words(at + 4, &mut [0; 2]));
        assert!(matches!(unaligned, Err(Error::Misuse { .. })), "{engine}: {unaligned:?}");
        let header = session.read(|tx| tx.read_words(0, &mut [0; 2]));
        assert!(header.is_err(), "{engine}");
    }
}
