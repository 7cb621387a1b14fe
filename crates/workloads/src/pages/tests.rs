//! Pages on a heap that notices every access outside a live block.

use super::*;
use perdura::testing::TestHeap;
use std::collections::BTreeMap;

fn loaded(rows: u64) -> (TestHeap, u64) {
    let mut heap = TestHeap::default();
    let file = create(&mut heap, rows).expect("a file");
    assert_eq!(check(&mut heap, file, &mut |_, _| Ok(())).expect("nothing yet"), 0);
    initial(rows).for_each(|mut page| page.write(&mut heap, file).expect("a page"));
    heap.commit();
    (heap, file)
}

fn versions(heap: &mut TestHeap, file: u64) -> Result<(u64, BTreeMap<u64, u64>)> {
    let mut versions = BTreeMap::new();
    let changes = check(heap, file, &mut |key, version| {
        assert!(versions.insert(key, version).is_none(), "key {key} is there twice");
        Ok(())
    })?;
    Ok((changes, versions))
}

#[test]
fn as_the_model() {
    for rows in [1, 2, 29, 300] {
        let (mut heap, file) = loaded(rows);
        let mut model: BTreeMap<u64, u64> = (0..rows).map(|key| (key, 0)).collect();
        let mut random = Random::new(rows, 0);
        for change in 0..600 {
            if change % 50 == 0 {
                let found = versions(&mut heap, file).expect("whole pages");
                assert_eq!(found, (1 + change, model.clone()));
            }
            let keys = [(); 3].map(|()| random.below(rows));
            replace(&mut heap, file, &keys).expect("a change");
            heap.commit();
            keys.iter().for_each(|key| *model.get_mut(key).expect("a key") += 1);
        }
        assert_eq!(versions(&mut heap, file).expect("whole pages"), (601, model));
    }
}

/// The check notices damage to any word of a page; nothing panics or hangs.
#[test]
fn damage_is_an_error() {
    let (mut heap, file) = loaded(100);
    let mut random = Random::new(3, 0);
    for _ in 0..2_000 {
        let at = file + random.below(bytes(100) / 8) * 8;
        let old = heap.peek(at);
        let damage = [0, 1, random.word(), old ^ 1 << random.below(64)][random.below(4) as usize];
        heap.damage(at, damage);
        let tried = replace(&mut heap, file, &[(); 4].map(|()| random.below(100)));
        heap.abort();
        let is_corrupt = |error: &Error| matches!(error, Error::Corrupt { .. });
        assert!(tried.as_ref().err().is_none_or(is_corrupt), "{tried:?}");
        let checked = versions(&mut heap, file);
        assert_eq!(checked.is_err(), damage != old, "{at:#x}: {checked:?}");
        assert!(checked.as_ref().err().is_none_or(is_corrupt), "{checked:?}");
        heap.damage(at, old);
    }
    versions(&mut heap, file).expect("whole pages");
}

/// Each page is whole, but one of them is from an earlier change.
#[test]
fn a_page_that_was_not_written_is_noticed() {
    let (mut heap, file) = loaded(100);
    let image = |heap: &TestHeap, page: u64| -> Vec<u64> {
        (0..PAGE / 8).map(|word| heap.peek(file + page * PAGE + word * 8)).collect()
    };
    let pages = bytes(100) / PAGE;
    let before: Vec<_> = (0..pages).map(|page| image(&heap, page)).collect();
    replace(&mut heap, file, &[7, 70]).expect("a change");
    heap.commit();
    let mut changed = 0;
    for page in 0..pages {
        let after = image(&heap, page);
        let put = |heap: &mut TestHeap, words: &[u64]| {
            for (word, value) in (0..).zip(words) {
                heap.damage(file + page * PAGE + word * 8, *value);
            }
        };
        put(&mut heap, &before[page as usize]);
        let noticed = versions(&mut heap, file).is_err();
        assert_eq!(noticed, after != before[page as usize], "page {page}");
        changed += u64::from(noticed);
        put(&mut heap, &after);
    }
    assert!((5..=7).contains(&changed), "{changed} pages changed");
    let (changes, versions) = versions(&mut heap, file).expect("whole pages");
    assert_eq!((changes, versions[&7], versions[&70], versions[&8]), (2, 1, 1, 0));
}
