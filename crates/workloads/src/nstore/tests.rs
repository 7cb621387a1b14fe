use super::{FANOUT, Layout, MERGE, NStore, Storage, Table, table};
use crate::random::Random;
use perdura::testing::TestHeap;
use perdura::{Error, Tx};

fn layout(storage: Storage, tuples: u64) -> Layout {
    Layout { storage, tuples, fields: 3, field_bytes: 20, fanout: 3 }
}

fn made(layout: Layout) -> (TestHeap, Table) {
    let mut heap = TestHeap::new();
    let table = Table::create(&mut heap, layout).expect("an empty heap");
    for key in 0..layout.tuples {
        table.insert(&mut heap, key).expect("room");
    }
    heap.commit();
    (heap, table)
}

fn blocks(heap: &mut TestHeap, storage: Storage) -> perdura::Result<Vec<u64>> {
    let name = format!("bench.n-store.{}", storage.name());
    let root = heap.root(&name).expect("a read").expect("the root");
    let mut blocks = Vec::new();
    table::check_blocks(heap, root.at, &mut |at| {
        blocks.push(at);
        Ok(())
    })?;
    blocks.sort_unstable();
    Ok(blocks)
}

/// In each storage, with pages of several heights: a tuple has the version of its updates, and nothing leaks.
#[test]
fn updates_change_their_tuple_and_no_other() {
    for storage in Storage::ALL {
        for tuples in [1, 3, 4, 10, 28] {
            let (mut heap, table) = made(layout(storage, tuples));
            let (mut versions, mut random) = (vec![0; tuples as usize], Random::new(tuples, 0));
            for _ in 0..200 {
                let key = random.below(tuples);
                table.update(&mut heap, key).expect("room");
                heap.commit();
                versions[key as usize] += 1;
                let read = (0..tuples).map(|key| table.read(&mut heap, key).expect("a tuple"));
                assert_eq!(read.collect::<Vec<_>>(), versions, "{storage:?}");
                assert_eq!(table.len(&mut heap).expect("a read"), tuples);
                let reached = blocks(&mut heap, storage).expect("sound blocks");
                assert_eq!(reached, heap.live_blocks(), "{storage:?}");
            }
        }
    }
}

/// In place: new fields. Copies: these, their tuple, and a page of each of three heights. A log frees nothing.
#[test]
fn storages_differ_in_what_they_replace() {
    for (storage, replaced) in
        [(Storage::InPlace, 3), (Storage::CopyOnWrite, 3 + 1 + 3), (Storage::Log, 0)]
    {
        let (mut heap, table) = made(layout(storage, 10));
        let before = blocks(&mut heap, storage).expect("sound blocks");
        table.update(&mut heap, 4).expect("room");
        heap.commit();
        let after = blocks(&mut heap, storage).expect("sound blocks");
        let gone = before.iter().filter(|at| !after.contains(at)).count();
        assert_eq!(gone, replaced, "{storage:?}");
    }
}

#[test]
fn a_log_is_merged() {
    let (mut heap, table) = made(layout(Storage::Log, 1));
    let mut most = 0;
    let first = heap.live();
    for _ in 0..20 {
        table.update(&mut heap, 0).expect("room");
        heap.commit();
        most = most.max(heap.live() - first);
    }
    assert_eq!(most as u64, MERGE - 1);
}

/// A bit that is turned at the beginning of a block is an error at worst, and mostly noticed: by a read, or by the walk
/// through the blocks. (Of a log's earlier entries nothing is read but what leads to the next one.)
#[test]
fn damage_is_noticed() {
    for storage in Storage::ALL {
        let (mut heap, table) = made(layout(storage, 10));
        for key in [1, 1, 2, 9] {
            table.update(&mut heap, key).expect("room");
        }
        heap.commit();
        let mut random = Random::new(4, 0);
        let read_all = |heap: &mut TestHeap| {
            let read = (0..10).map(|key| table.read(heap, key));
            read.collect::<perdura::Result<Vec<_>>>()
        };
        let (sound, reached) = (read_all(&mut heap).expect("sound"), heap.live_blocks());
        let mut noticed = 0;
        for at in &reached {
            let word = at + 8 * random.below(2);
            let old = heap.peek(word);
            heap.damage(word, old ^ 1 << random.below(64));
            let (read, walked) = (read_all(&mut heap), blocks(&mut heap, storage));
            noticed += usize::from(
                !read.as_ref().is_ok_and(|read| *read == sound)
                    || !walked.is_ok_and(|walked| walked == reached),
            );
            let expected = |error| {
                matches!(
                    error,
                    Error::Corrupt { .. } | Error::Misuse { .. } | Error::WrongType { .. }
                )
            };
            assert!(read.err().is_none_or(expected));
            let updated = table.update(&mut heap, 3);
            assert!(updated.err().is_none_or(expected));
            heap.abort();
            heap.damage(word, old);
        }
        assert!(noticed * 10 >= reached.len() * 7, "{storage:?}: {noticed} of {}", reached.len());
        assert_eq!(read_all(&mut heap).expect("sound"), sound);
    }
}

/// As N-Store draws: a tenth of the accesses to key 0, none to the nine after it, and none to the rest of the lower
/// tenth.
#[test]
fn keys_are_skewed_as_those_of_n_store() {
    let layout = Layout { fanout: FANOUT, ..layout(Storage::InPlace, 1_000) };
    let workload = NStore::new(layout, 50, 1).expect("valid parameters");
    let (mut random, mut counts) = (Random::new(1, 0), vec![0_u32; 1_000]);
    (0..100_000).for_each(|_| counts[workload.draw(&mut random) as usize] += 1);
    assert!((9_700..10_300).contains(&counts[0]), "{}", counts[0]);
    assert!(counts[1..109].iter().all(|count| *count == 0));
    assert!(counts[110..].iter().all(|count| (50..160).contains(count)));
}

#[test]
fn refuses_what_it_cannot_run_on() {
    let sound = layout(Storage::InPlace, 10);
    for layout in [
        Layout { tuples: 0, ..sound },
        Layout { fields: 0, ..sound },
        Layout { fields: 513, ..sound },
        Layout { field_bytes: 7, ..sound },
        Layout { fanout: 1, ..sound },
    ] {
        assert!(NStore::new(layout, 50, 1).is_err(), "{layout:?}");
    }
    assert!(NStore::new(sound, 101, 1).is_err() && NStore::new(sound, 50, 0).is_err());
}
