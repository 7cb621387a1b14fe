use super::manager::Manager;
use super::task::{Draw, Task, Type};
use super::{Parameters, check};
use crate::random::Random;
use crate::stamp::Input;
use perdura::collections::Visit;
use perdura::testing::TestHeap;
use perdura::{Access, Result};

fn nothing() -> impl FnMut(u64) -> Result<()> {
    |_| Ok(())
}

fn agency(tx: &mut TestHeap) -> (Manager, Draw, Random) {
    let manager = Manager::create(tx).expect("maps");
    for map in manager.maps() {
        for id in 1..=20 {
            manager.load(tx, map, &super::Row::new(id, 100, 50)).expect("a row");
        }
    }
    let parameters = Parameters { rows: 20, user_percent: 70, ..Parameters::high(Input::Small) };
    (manager, Draw::new(&parameters), Random::new(1, 0))
}

fn verdict(tx: &mut TestHeap, manager: Manager) -> crate::Outcome<u64> {
    let visit: &mut Visit<'_> = &mut nothing();
    check::agency(tx, manager, visit).expect("sound structures")
}

#[test]
fn tasks_of_all_kinds_keep_the_books() {
    let mut heap = TestHeap::new();
    let (manager, draw, mut random) = agency(&mut heap);
    let (mut reserved, mut kinds) = (0, [0; 3]);
    for _ in 0..3_000 {
        let task = draw.task(&mut random);
        kinds[task.kind()] += 1;
        reserved += manager.perform(&mut heap, &task).expect("a task");
    }
    assert!(reserved > 0 && kinds.iter().all(|count| *count > 300), "{reserved} {kinds:?}");
    assert_eq!(verdict(&mut heap, manager).expect("books that agree") as i64, reserved);
}

#[test]
fn refusals_change_nothing() {
    let mut heap = TestHeap::new();
    let (manager, ..) = agency(&mut heap);
    let car = (Type::Car, 3);
    let reserve = Task::Reserve { customer: 1, rows: vec![car] };
    assert_eq!(manager.perform(&mut heap, &reserve).expect("a task"), 1);
    assert_eq!(manager.perform(&mut heap, &reserve).expect("a task"), 0, "there already");
    // 99 of 100 are free, so that 100 cannot be taken away; a price is not a condition.
    manager.perform(&mut heap, &Task::Update { rows: vec![(car, None)] }).expect("a task");
    assert_eq!(verdict(&mut heap, manager).expect("books that agree"), 1);
    let more = Task::Update { rows: vec![(car, Some(90)), (car, None), (car, None)] };
    manager.perform(&mut heap, &more).expect("a task");
    assert_eq!(manager.perform(&mut heap, &Task::Delete { customer: 1 }).expect("a task"), -1);
    assert_eq!(verdict(&mut heap, manager).expect("books that agree"), 0);
}

#[test]
fn a_reservation_that_is_not_counted_is_noticed() {
    let mut heap = TestHeap::new();
    let (manager, ..) = agency(&mut heap);
    let task = Task::Reserve { customer: 1, rows: vec![(Type::Room, 3)] };
    manager.perform(&mut heap, &task).expect("a task");
    let row = manager.table(Type::Room).get(&mut heap, 3).expect("a read").expect("the row");
    for [used, free] in [[0, 100], [2, 98], [1, 98]] {
        heap.write_word(row + 8, used).expect("a write");
        heap.write_word(row + 16, free).expect("a write");
        let verdict = verdict(&mut heap, manager);
        assert!(matches!(verdict, Err(crate::Failure::Wrong(_))), "{used} {free}: {verdict:?}");
    }
    heap.write_word(row + 8, 1).expect("a write");
    heap.write_word(row + 16, 99).expect("a write");
    assert_eq!(verdict(&mut heap, manager).expect("books that agree"), 1);
}
