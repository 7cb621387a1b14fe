use super::{Change, SLOT, SlotState, change, check_blocks, create};
use crate::random::Random;
use perdura::testing::TestHeap;
use perdura::{Error, Result};

const SLOTS: u64 = 20;

fn churned(random: &mut Random, times: usize) -> (TestHeap, u64) {
    let mut heap = TestHeap::default();
    let header = create(&mut heap, SLOTS).expect("an empty heap");
    heap.commit();
    for _ in 0..times {
        let changes = [(); 3].map(|()| Change::draw(random, 0, SLOTS));
        change(&mut heap, header, &changes).expect("sound slots");
        heap.commit();
    }
    (heap, header)
}

fn blocks(heap: &mut TestHeap, header: u64) -> Result<Vec<u64>> {
    let mut blocks = Vec::new();
    check_blocks(heap, header, &mut |at| {
        blocks.push(at);
        Ok(())
    })?;
    blocks.sort_unstable();
    Ok(blocks)
}

#[test]
fn nothing_leaks_and_every_block_is_its_own() {
    let (mut heap, header) = churned(&mut Random::new(1, 0), 500);
    let blocks = blocks(&mut heap, header).expect("sound slots");
    assert_eq!(blocks, heap.live_blocks());
    assert!(blocks.len() > 5, "{blocks:?}");
}

#[test]
fn a_changed_byte_is_noticed() {
    let (mut heap, header) = churned(&mut Random::new(2, 0), 100);
    for block in blocks(&mut heap, header).expect("sound slots") {
        let old = heap.peek(block);
        heap.damage(block, old ^ 0x80);
        assert!(check_blocks(&mut heap, header, &mut |_| Ok(())).is_err(), "{block:#x}");
        heap.damage(block, old);
    }
}

#[test]
fn damage_is_an_error() {
    let mut random = Random::new(3, 0);
    let (mut heap, header) = churned(&mut random, 100);
    for _ in 0..2_000 {
        let at = header + random.below(1 + SLOTS * SLOT / 8) * 8;
        let old = heap.peek(at);
        let damage = [0, 1, u64::MAX, random.word(), header, old ^ 1 << random.below(64)];
        heap.damage(at, damage[random.below(6) as usize]);
        let changes = [(); 8].map(|()| Change::draw(&mut random, 0, SLOTS));
        let tried = change(&mut heap, header, &changes);
        heap.abort();
        assert!(
            matches!(tried, Ok(()) | Err(Error::Corrupt { .. } | Error::Misuse { .. })),
            "{tried:?}"
        );
        let checked = check_blocks(&mut heap, header, &mut |_| Ok(()));
        assert!(
            matches!(checked, Ok(()) | Err(Error::Corrupt { .. } | Error::Misuse { .. })),
            "{checked:?}"
        );
        heap.damage(at, old);
    }
    assert!(blocks(&mut heap, header).is_ok());
}

#[test]
fn a_slot_counts_its_blocks_and_resizing_makes_no_new_one() {
    let of = |bytes, frees| Change { slot: 0, bytes, frees };
    let empty = SlotState { number: 7, bytes: 0 };
    let taken = of(100, true).outcome(empty);
    assert_eq!(taken, SlotState { number: 8, bytes: 100 });
    assert_eq!(of(300, false).outcome(taken), SlotState { number: 8, bytes: 300 });
    assert_eq!(of(300, true).outcome(taken), SlotState { number: 8, bytes: 0 });
    assert_eq!(SlotState::of(taken.word()), taken);
}
