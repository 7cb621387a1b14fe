//! Byte strings in pieces, and blocks moved out of pages.

use perdura::collections::model::{self, Rng, Run};
use perdura::collections::{Blob, Bytes, HashMap, OrderedMap};
use perdura::testing::TestHeap;
use perdura::{
    Access, Domain, EngineKind, Error, Format, Heap, Options, Purpose, RedoEngine, Root, Tx, TxExt,
};
use perdura_memory::{AnyMemory, Ram};
use std::collections::BTreeSet;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// The collections against std's, with no two adjacent free pages.
#[test]
fn strings_are_right_in_pieces() {
    for seed in 0..20 {
        let mut heap = TestHeap::new();
        heap.largest = PAGE;
        let run: &mut Run<'_> = &mut |body| heap.run(body);
        model::check_blob(run, seed, 150).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let string = |rng: &mut Rng| rng.bytes(60);
        model::check_hash_map::<Bytes, Bytes<3>, false>(run, seed, 60, string, |rng| {
            rng.bytes(12_000)
        })
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(heap.live(), 0, "seed {seed}: something is left");
    }
}

#[test]
fn values_waste_little() {
    let mut heap = TestHeap::new();
    for (len, most) in
        [(10, 32), (100, 128), (1000, 1024), (2_500, 2_560), (5_000, 5_120), (10_000, 10_240)]
    {
        let blob = Blob::create(&mut heap, Purpose::Value, &vec![7; len]).unwrap();
        let mut bytes = 0;
        let mut blocks = Vec::new();
        blob.check(&mut heap, &mut |at| {
            blocks.push(at);
            Ok(())
        })
        .unwrap();
        for at in blocks {
            bytes += heap.usable(at).unwrap();
        }
        assert!(bytes <= most, "{len} bytes take {bytes}");
    }
}

/// Data that is read may be damaged: no walk is endless, and nothing impossible is believed.
#[test]
fn damaged_pieces_are_errors() {
    let mut heap = TestHeap::new();
    heap.largest = PAGE;
    let blob = Blob::create(&mut heap, Purpose::Value, &vec![7; 20_000]).unwrap();
    heap.commit();
    let (head, second) = (heap.peek(blob.at()), heap.peek(blob.at() + 8));
    let third = heap.peek(second);
    let corrupt = |heap: &mut TestHeap, what: &str| {
        let read = blob.read(heap);
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{what}: {read:?}");
        let checked = blob.check(heap, &mut |_| Ok(()));
        assert!(matches!(checked, Err(Error::Corrupt { .. })), "{what}: {checked:?}");
        let freed = blob.free(heap);
        assert!(matches!(freed, Err(Error::Corrupt { .. })), "{what}: {freed:?}");
        heap.abort();
    };
    for longer in [head + 100_000, head | 0xFF_FFFF_FFFF] {
        heap.damage(blob.at(), longer);
        corrupt(&mut heap, "a length");
    }
    heap.damage(blob.at(), head);
    for (wrong, what) in [(0, "no next"), (12_345, "nowhere")] {
        heap.damage(second, wrong);
        corrupt(&mut heap, what);
    }
    heap.damage(second, blob.at());
    heap.damage(blob.at(), head | 0xFF_FFFF_FFFF);
    corrupt(&mut heap, "circles");
    heap.damage(second, third);
    heap.damage(blob.at(), head);
    assert_eq!(blob.read(&mut heap).unwrap(), vec![7; 20_000]);
    blob.free(&mut heap).unwrap();
    heap.commit();
    assert_eq!(heap.live(), 0);
}

type Map = HashMap<Bytes, Bytes>;

/// Every block is moved again and again; the map stays the same.
#[test]
fn a_map_stays_the_same_while_its_blocks_move() {
    let mut heap = TestHeap::new();
    heap.largest = PAGE;
    let map = Map::create_seeded(&mut heap, 1).unwrap();
    let key =
        |index: u64| format!("key {index}{}", " and more".repeat(index as usize % 5)).into_bytes();
    let value = |index: u64| vec![index as u8; [3, 100, 700, 3_000, 9_000][index as usize % 5]];
    for index in 0..300 {
        map.insert(&mut heap, &key(index), &value(index)).unwrap();
    }
    heap.commit();
    let blocks = |heap: &mut TestHeap| {
        let mut blocks = BTreeSet::new();
        map.check(heap, &mut |at| {
            assert!(blocks.insert(at));
            Ok(())
        })
        .unwrap();
        blocks
    };
    let (before, pages) = (blocks(&mut heap), heap.end() / PAGE);
    heap.sparse = (0..=pages).collect();
    let mut cursor = 0;
    loop {
        cursor = map.compact_some(&mut heap, cursor, 7, &mut |_, _| Ok(())).unwrap();
        if cursor == 0 {
            break;
        }
    }
    // Only now, so that freed blocks are not reused before.
    heap.commit();
    let after = blocks(&mut heap);
    // The header, and the buckets, stay.
    let stay = before.intersection(&after).count();
    assert!(after.len() == before.len() && stay < 20, "{stay} of {} stay", before.len());
    for index in 0..300 {
        assert_eq!(map.get(&mut heap, &key(index)).unwrap(), Some(value(index)));
    }
    map.destroy(&mut heap).unwrap();
    heap.commit();
    assert_eq!(heap.live(), 0);
}

/// The same of an ordered map, at every height.
#[test]
fn an_ordered_map_stays_the_same_while_its_nodes_move() {
    for entries in [0, 1, 7, 300, 3_000] {
        let mut heap = TestHeap::new();
        heap.largest = PAGE;
        let map = OrderedMap::<Bytes, Bytes, true>::create(&mut heap).unwrap();
        let key = |index: u64| format!("{:05}{}", index, " more".repeat(index as usize % 5));
        let value = |index: u64| vec![index as u8; [3, 100, 700, 3_000, 9_000][index as usize % 5]];
        for index in 0..entries {
            map.insert(&mut heap, key(index).as_bytes(), &value(index)).unwrap();
        }
        heap.commit();
        let blocks = |heap: &mut TestHeap| {
            let mut blocks = BTreeSet::new();
            map.check(heap, &mut |at| {
                assert!(blocks.insert(at));
                Ok(())
            })
            .unwrap();
            blocks
        };
        let (before, pages) = (blocks(&mut heap), heap.end() / PAGE);
        heap.sparse = (0..=pages).collect();
        let mut cursor = 0;
        loop {
            cursor = map.compact_some(&mut heap, cursor, 7).unwrap();
            if cursor == 0 {
                break;
            }
        }
        // Only now, so that freed blocks are not reused before.
        heap.commit();
        let after = blocks(&mut heap);
        assert_eq!(after.len(), before.len());
        assert_eq!(before.intersection(&after).count(), 1, "only the header stays");
        assert_eq!(map.len(&mut heap).unwrap(), entries);
        for index in 0..entries {
            assert_eq!(map.get(&mut heap, key(index).as_bytes()).unwrap(), Some(value(index)));
        }
        map.destroy(&mut heap).unwrap();
        heap.commit();
        assert_eq!(heap.live(), 0);
    }
}

/// Pages with every second slot free become free pages.
#[test]
fn sparse_pages_are_emptied() {
    let memory = Arc::new(AnyMemory::new(Arc::new(Ram::new(8 << 20))));
    let format = Format { limit: 8 << 20, log: None, id: 1, requires: None, checksums: false };
    let heap = Heap::<_, RedoEngine<_>>::create(memory, format).unwrap();
    let mut session = heap.session().unwrap();
    let mut blocks = Vec::new();
    while let Ok(at) = session.transaction(|tx| tx.new_bytes(Purpose::Value, &[1; 1_000])) {
        blocks.push(at);
    }
    assert!(blocks.len() > 1_000);
    for pair in blocks.chunks_exact(2) {
        session.transaction(|tx| tx.free(pair[0])).unwrap();
    }
    heap.checkpoint().unwrap();
    let five = |session: &mut perdura::HeapSession<AnyMemory, RedoEngine<AnyMemory>>| {
        session.transaction(|tx| tx.allocate(Purpose::Value, 5_000))
    };
    assert!(matches!(five(&mut session), Err(Error::Full { .. })), "there is a free page");
    let chosen = heap.space().start_emptying(1);
    assert!(chosen as usize > blocks.len() / 10, "{chosen} pages of {} blocks", blocks.len());
    assert_eq!(heap.space().start_emptying(1), 0, "one is under way");
    let kept: Vec<u64> = blocks.iter().copied().skip(1).step_by(2).collect();
    let mut now = Vec::new();
    for at in kept {
        let moved =
            session.transaction(|tx| perdura::collections::compact::move_block(tx, at)).unwrap();
        now.push(moved);
    }
    heap.checkpoint().unwrap();
    let emptied = heap.space().stop_emptying();
    assert!(emptied * 10 >= chosen * 9, "{emptied} of {chosen} pages are empty");
    assert!(heap.space().usage().free_page_bytes >= emptied * PAGE);
    assert!(five(&mut session).is_ok());
    // The moved blocks have their contents.
    session
        .read(|tx| {
            for &at in &now {
                let mut bytes = [0; 1_000];
                tx.read_bytes(at, &mut bytes)?;
                assert_eq!(bytes, [1; 1_000]);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(heap.space().start_emptying(64), 0, "what is left is not worth it");
}

/// A map in a pool without adjacent free pages goes on without larger tables.
#[test]
fn a_map_grows_where_no_two_pages_are_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().size(16 << 20).log(1 << 20).engine(EngineKind::Redo);
    let options = options.domain(Some(Domain::Process));
    let pool = options.create(folder.path().join("pool")).unwrap();
    let mut session = pool.session().unwrap();
    let map = session
        .transaction(|tx| {
            let map = HashMap::<u64, u64>::create(tx)?;
            tx.set_root("map", Root { at: map.at(), kind: perdura::collections::kind::HASH_MAP })?;
            Ok(map)
        })
        .unwrap();
    let mut pages = Vec::new();
    while let Ok(at) = session.transaction(|tx| tx.allocate(Purpose::Value, PAGE)) {
        pages.push(at.at());
    }
    pages.sort_unstable();
    for some in pages.chunks(64) {
        session.transaction(|tx| some.iter().step_by(2).try_for_each(|at| tx.free(*at))).unwrap();
    }
    let count = 60_000;
    for first in (0..count).step_by(100) {
        let some = first..first + 100;
        session
            .transaction(|tx| some.clone().try_for_each(|key| map.set(tx, key, !key).map(drop)))
            .unwrap_or_else(|error| panic!("after {first}: {error}"));
    }
    session
        .read(|tx| {
            map.check(tx, &mut |_| Ok(()))?;
            for key in 0..count {
                assert_eq!(map.get(tx, key)?, Some(!key));
            }
            Ok(())
        })
        .unwrap();
}
